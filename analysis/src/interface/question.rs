//! The cheapest interface of a task set.

use super::aligned;
use super::deadlines::Deadlines;
use super::demands::{Demands, Round};
use super::exact::{Fraction, Load};
use super::need::{Candidate, Grid};
use super::ranks::Ranks;
use super::server::Server;
use super::supply::Resource;
use super::sweep::{search, Periods};
use super::Scheduler;
use super::{check, most_steps, prove, Certificate, Shortfall};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Task};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest times, so that sums of a few stay within 64 bits: 73 years.
const LONGEST: u64 = 1 << 61;

/// Which resources are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Θ somewhere in every Π ([`Resource::Periodic`]).
    General,
    /// The same with periods that go with those of the tasks, all releases on one grid ([`Resource::Aligned`]). Only such periods are
    /// looked at, and the caller asserts the grid.
    Aligned,
    /// Θ within the first Δ of every Π ([`Resource::ExplicitDeadline`]): of the least Θ/Π, which Δ = Θ has, and then the longest Δ for
    /// which that Θ is still enough. (A longer Δ is easier to give; a higher bandwidth for a longer Δ is another trade, for
    /// which ask with a fixed Δ: [`super::least_budget`].)
    ExplicitDeadline,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::General => "general",
            Family::Aligned => "aligned",
            Family::ExplicitDeadline => "explicit-deadline",
        })
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The scheduler inside.
    pub scheduler: Scheduler,
    /// Among which resources.
    pub supply: Family,
    /// Budgets, and periods that are searched, are multiples of it. [`default_quantum`] is one for want of another.
    pub quantum: Duration,
    /// This period; `None`: the one that needs the least bandwidth.
    pub period: Option<Duration>,
    /// Cost of one preemption: added to the execution time of every job and to every budget.
    pub preemption: Duration,
    /// Nothing is supplied in the first so much of any window, because the host is late (L of spec latency.md).
    pub latency: Duration,
}

/// The interface of least bandwidth; of several that of the shortest period. This is what `giusto analyze interface --json`
/// prints (`formats/interface.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Π
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Θ, with what a preemption costs.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// Θ/Π
    pub bandwidth: Bandwidth,
    /// U of the tasks as given, copies counted.
    pub utilization: Fraction,
    /// Θ/Π − U: what the interface costs beyond the work.
    pub overhead_bandwidth: Fraction,
    /// No interface of this family and quantum (and period, if one was given) has less. The bandwidth itself, so that it is proven
    /// to be the least, unless cheaper ones were so close to U (EDF) that testing them would take minutes.
    pub at_least: Bandwidth,
    /// Δ of an interface with explicit deadline, a multiple of the quantum: the longest with which the budget is enough, or
    /// the budget itself where that takes too long to say (EDF, close to U).
    #[serde(rename = "deadline_ns")]
    pub deadline: Option<Duration>,
    /// For a period that was given: the least budget without a quantum, exactly, in ns (a fraction), with what a preemption
    /// costs. `None` also if that takes too long to say (EDF, close to U).
    #[serde(rename = "exact_budget_ns")]
    pub exact_budget: Option<Fraction>,
    /// Where the period was looked for: single ones were ruled out up to this, all longer ones at once.
    #[serde(rename = "searched_ns")]
    pub searched: Option<Duration>,
    /// Which resources.
    pub supply: Family,
    /// Budget and searched periods are multiples of it.
    #[serde(rename = "quantum_ns")]
    pub quantum: Duration,
    /// Cost of one preemption: in the budget, and in the execution times that the certificate speaks of.
    #[serde(rename = "preemption_ns")]
    pub preemption: Duration,
    /// Why it is enough. Its resource is without, its demands are with what a preemption costs.
    pub certificate: Certificate,
}

/// Why there is no interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// U > 1, with what preemptions cost.
    Overload(Fraction),
    /// Not even this resource, a whole core or the most there can be, is enough.
    Short {
        /// The most.
        resource: Resource,
        /// Where it lacks something.
        shortfall: Shortfall,
        /// The name of the task that misses.
        task: String,
    },
}

/// 1 ms, or the largest power of ten of ns that is at most a tenth of the shortest period, whichever is less; 1 ns at least.
pub fn default_quantum(tasks: &[Task]) -> Duration {
    let tenth = tasks.iter().map(|task| task.period.ns() / 10).min().unwrap_or(0);
    Duration::from_ns(10u64.pow(tenth.clamp(1, 1_000_000).ilog10()))
}

/// The interface of least bandwidth for `tasks`, proven.
///
/// About a millisecond for a hundred tasks with periods from 100 to 2000 quanta. Ok(Err): there is none, and why. Errors: bad
/// tasks, a quantum or period of 0, times beyond 73 years, periods that do not divide each other (aligned), no quantum within
/// a period, a task with more than 20,000,000 points, a given period's budget so close to U · Π that it takes too long.
pub fn interface(tasks: &[Task], question: &Question) -> Result<Result<Interface, Refusal>, Error> {
    interface_with(tasks, question, 1)
}

/// As [`interface`], with `effort` times as many steps before a budget close to U counts as undecided (EDF): the more, the nearer
/// [`Interface::at_least`] is to the bandwidth, until both are the same.
pub fn interface_with(tasks: &[Task], question: &Question, effort: u32) -> Result<Result<Interface, Refusal>, Error> {
    check(tasks)?;
    question.check(tasks)?;
    let demanding = inflated(tasks, question.preemption)?;
    let load = Load::new(&demanding);
    if load.compare((1, 1)).is_lt() {
        return Ok(Err(Refusal::Overload(Fraction::of(&load))));
    }
    // With Δ = Θ a preemption's cost may come first in each budget, so that windows wait for it.
    let first = if question.supply == Family::ExplicitDeadline { question.preemption } else { Duration::ZERO };
    let waiting = question.latency.ns() + first.ns();
    match question.scheduler.order(&demanding) {
        Some(order) => {
            let last =
                demanding.iter().map(|task| task.deadline.ns()).max().unwrap_or(0).div_ceil(question.quantum.ns());
            let demands = Ranks::new(&demanding, &order, waiting)?;
            answer(tasks, &demanding, &load, question, demands, last, |server| {
                Ranks::new(&demanding, &order, question.latency.ns())?.longest_delay(server).map(Some)
            })
        }
        None => {
            let demands = Deadlines::new(&demanding, waiting, effort)?;
            answer(tasks, &demanding, &load, question, demands, LONGEST / question.quantum.ns(), |server| {
                Deadlines::new(&demanding, question.latency.ns(), effort)?.longest_delay(server)
            })
        }
    }
}

/// Searches, and says what the result means. `last`: no period of more quanta is better.
fn answer(
    tasks: &[Task],
    demanding: &[Task],
    load: &Load,
    question: &Question,
    mut demands: impl Demands,
    last: u64,
    longest_delay: impl Fn(&Server) -> Result<Option<u64>, Error>,
) -> Result<Result<Interface, Refusal>, Error> {
    let (scheduler, latency, lost) = (question.scheduler, question.latency, question.preemption.ns());
    let short = |resource: Resource| match prove(demanding, scheduler, &resource, latency, &mut most_steps(scheduler))?
    {
        Err(shortfall) => Ok(Err(Refusal::Short { resource, task: demanding[shortfall.task].name.clone(), shortfall })),
        Ok(_) => Err(Error::TooClose),
    };
    let found = match question.least(demanding, &mut demands, last)? {
        Ok(found) => found,
        Err(most) => return short(most),
    };
    let Found { server, exact, at_least, searched } = found;
    let budget = server.top as u64; // whole, and at most the period
    let deadline = match question.supply {
        Family::ExplicitDeadline => {
            let longest = longest_delay(&server)?.unwrap_or(budget);
            Some(ns(longest - longest % question.quantum.ns()))
        }
        _ => None,
    };
    let resource = question.resource(server.period, budget, deadline);
    let certificate = match prove(demanding, scheduler, &resource, latency, &mut (2 * most_steps(scheduler)))? {
        Ok(certificate) => certificate,
        Err(_) => return short(resource),
    };
    let own = (!question.preemption.is_zero()).then(|| Load::new(tasks));
    let load = own.as_ref().unwrap_or(load);
    let bandwidth = Bandwidth::new(budget + lost, server.period).ok_or(Error::Period)?;
    Ok(Ok(Interface {
        period: ns(server.period),
        budget: ns(budget + lost),
        bandwidth,
        utilization: Fraction::of(load),
        overhead_bandwidth: Fraction::beyond(bandwidth, load).ok_or(Error::TooClose)?,
        at_least: at_least.map_or(bandwidth, |share| share.min(bandwidth)),
        deadline,
        exact_budget: exact,
        searched: searched.map(ns),
        supply: question.supply,
        quantum: question.quantum,
        preemption: question.preemption,
        certificate,
    }))
}

/// What a search found.
struct Found {
    /// The best, without what is lost of its budget.
    server: Server,
    exact: Option<Fraction>,
    /// Bandwidth of the cheapest that was not decided.
    at_least: Option<Bandwidth>,
    searched: Option<u64>,
}

impl Question {
    /// Errors: nothing where something must be, or too long.
    fn check(&self, tasks: &[Task]) -> Result<(), Error> {
        if self.quantum.is_zero() {
            return Err(Error::Quantum);
        }
        if self.period.is_some_and(Duration::is_zero) {
            return Err(Error::Period);
        }
        let own = [self.quantum, self.preemption, self.latency].into_iter().chain(self.period);
        match own.chain(tasks.iter().map(|task| task.period)).find(|time| time.ns() > LONGEST) {
            Some(time) => Err(Error::TooLong { time }),
            None => Ok(()),
        }
    }

    /// The best server, or the most there can be, which is not enough.
    fn least(&self, tasks: &[Task], demands: &mut impl Demands, last: u64) -> Result<Result<Found, Resource>, Error> {
        let (quantum, lost) = (self.quantum.ns(), self.preemption.ns());
        let grid = Grid { quantum, overhead: lost, general: self.supply == Family::General };
        let most = |period: u64| {
            let budget = (period - period % quantum).checked_sub(lost).filter(|budget| *budget > 0);
            budget.ok_or(Error::Coarse { period: ns(period), quantum: self.quantum })
        };
        // The most there can be of a period, and one long enough for some of it to be left.
        let all = |period: u64, most: u64| {
            let deadline = (self.supply == Family::ExplicitDeadline).then(|| ns(most + lost));
            self.resource(period, most, deadline)
        };
        let longer = |period: u64| period * (lost / period + 1);
        let whole = Round { period: quantum, delay: grid.delay(quantum), most: quantum, grain: Some((quantum, 0)) };
        let found = demands.budget(&whole)?;
        if found.least.is_none() {
            return match self.supply {
                _ if found.undecided.is_some() => Err(Error::TooClose),
                Family::ExplicitDeadline => Ok(Err(all(longer(quantum), most(longer(quantum))?))),
                _ => Ok(Err(Resource::Periodic { period: self.quantum, budget: self.quantum })),
            };
        }
        let Some(period) = self.period.map(Duration::ns) else {
            let some = match self.supply {
                Family::Aligned => Some(aligned::periods(tasks, quantum)?),
                _ => None,
            };
            let periods = some.as_deref().map_or(Periods::UpTo(last), Periods::Among);
            let shortest = tasks.iter().map(|task| task.deadline.ns()).min().unwrap_or(0);
            let found = search(demands, &grid, periods, shortest / (8 * quantum))?;
            let share = |candidate: Candidate| Bandwidth::new(candidate.budget, candidate.period);
            return match found.best {
                Some(best) => {
                    let (server, at_least) = (grid.server(best), found.undecided.and_then(share));
                    Ok(Ok(Found { server, exact: None, at_least, searched: Some(found.end * quantum) }))
                }
                None if found.undecided.is_some() => Err(Error::TooClose),
                None => {
                    let period = longer(found.end * quantum);
                    Ok(Err(all(period, most(period)?)))
                }
            };
        };
        let most = most(period)?;
        let resource = all(period, most);
        resource.validate_for(tasks)?;
        let round = Round { period, delay: grid.delay(period), most, grain: Some((quantum, lost)) };
        let found = demands.budget(&round)?;
        let Some(server) = found.least else {
            return if found.undecided.is_some() { Err(Error::TooClose) } else { Ok(Err(resource)) };
        };
        let at_least = found.undecided.and_then(|least| Bandwidth::new(least.top as u64 + lost, period));
        let exact = demands.budget(&Round { grain: None, ..round })?;
        let exact = exact.least.filter(|_| exact.undecided.or(found.undecided).is_none());
        let exact = exact.and_then(|least| Fraction::ratio(least.top + u128::from(lost) * least.bottom, least.bottom));
        Ok(Ok(Found { server, exact, at_least, searched: None }))
    }

    /// The resource of this family.
    fn resource(&self, period: u64, budget: u64, deadline: Option<Duration>) -> Resource {
        let (period, budget) = (ns(period), ns(budget));
        match (self.supply, deadline) {
            (Family::Aligned, _) => Resource::Aligned { period, budget },
            (Family::ExplicitDeadline, Some(deadline)) => Resource::ExplicitDeadline { period, budget, deadline },
            _ => Resource::Periodic { period, budget },
        }
    }
}

/// The tasks with `cost` added to each job.
fn inflated(tasks: &[Task], cost: Duration) -> Result<Vec<Task>, Error> {
    let add = |task: &Task| {
        let wcet = task.wcet.checked_add(cost).ok_or(Error::Demand)?;
        Ok(Task { wcet, ..task.clone() })
    };
    tasks.iter().map(add).collect()
}

fn ns(time: u64) -> Duration {
    Duration::from_ns(time)
}
