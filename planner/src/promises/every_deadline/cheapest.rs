//! The cheapest server that keeps every deadline of a task set, or of each of several that share its period.

use crate::backend::Deviation;
use giusto_analysis::interface::demand::request;
use giusto_analysis::interface::{schedulable, Certificate, Prepared, Resource, Scheduler, Shortfall};
use giusto_analysis::Error;
use giusto_model::{Duration, GuestScheduler, Interface, Point, Task, AGENT_TASK};
use std::borrow::Cow;

/// Periods and budgets are whole multiples of this.
pub(crate) const QUANTUM: Duration = Duration::from_us(1);

/// A task set on one virtual CPU, and what of a server it cannot count on.
pub(crate) struct Demand<'a> {
    tasks: Cow<'a, [Task]>,
    scheduler: Scheduler,
    /// Nothing is known of the order: the place of the task with the shortest deadline.
    any: Option<usize>,
    /// Of each budget.
    loss: Duration,
    /// Once in any window.
    latency: Duration,
    /// The least budget that the backend keeps.
    least: Duration,
    /// Each release comes with a period of the server.
    aligned: bool,
    /// The same tasks and latency; `None`: they cannot be analysed.
    prepared: Option<Prepared>,
}

/// Why a server is enough, or where it falls short.
pub(crate) type Verdict = Result<Certificate, Shortfall>;

impl<'a> Demand<'a> {
    /// Where nothing is known of the order, each task may have to wait for all others: as the last of all, with the shortest
    /// deadline of all.
    pub(crate) fn new(tasks: &'a [Task], scheduler: GuestScheduler, deviation: &Deviation, least: Duration) -> Self {
        let Deviation { loss, latency, .. } = *deviation;
        let aligned = false;
        let own = |tasks: Cow<'a, [Task]>, scheduler, any| {
            let prepared = Prepared::new(tasks.to_vec(), scheduler, latency).ok();
            Demand { tasks, scheduler, any, loss, latency, least, aligned, prepared }
        };
        match scheduler {
            GuestScheduler::Own(scheduler) => own(Cow::from(tasks), scheduler, None),
            GuestScheduler::Any => {
                let shortest =
                    (0..tasks.len()).min_by_key(|&place| (tasks[place].deadline, tasks[place].name == AGENT_TASK));
                let deadline = shortest.map_or(Duration::ZERO, |place| tasks[place].deadline);
                let all: Vec<Task> = tasks.iter().map(|task| Task { deadline, ..task.clone() }).collect();
                own(all.into(), Scheduler::Dm, shortest)
            }
        }
    }

    /// The same of a server whose periods divide the time between any two releases, and begin with one of them.
    pub(crate) fn aligned(self) -> Self {
        Demand { aligned: true, ..self }
    }

    fn resource(&self, period: Duration, budget: Duration) -> Resource {
        match self.aligned {
            true => Resource::Aligned { period, budget },
            false => Resource::Periodic { period, budget },
        }
    }

    /// Whether `server` keeps all deadlines: the certificate, or where it falls short. `None` if nothing of it can be counted on.
    pub(crate) fn kept(&self, server: Interface) -> Result<Option<Verdict>, Error> {
        let counted =
            server.budget.checked_sub(self.loss).filter(|budget| !budget.is_zero() && server.budget >= self.least);
        let Some(budget) = counted else { return Ok(None) };
        let resource = self.resource(server.period, budget);
        if self.beyond_hope() {
            return Ok(self.any.map(|task| Err(Shortfall { point: self.at_once(task, &resource), task })));
        }
        let found = self.test(server.period, budget)?;
        Ok(Some(found.map_err(|short| Shortfall { task: self.any.unwrap_or(short.task), ..short })))
    }

    /// Where it was compared; in any order, of all tasks together.
    pub(crate) fn points(&self, proof: Certificate) -> Vec<Point> {
        match self.any {
            Some(_) => proof.points.last().map(|point| Point { task: None, ..*point }).into_iter().collect(),
            None => proof.points,
        }
    }

    /// In any order: a job that is longer than the shortest deadline may come first.
    fn beyond_hope(&self) -> bool {
        self.tasks.iter().any(|task| task.wcet > task.deadline)
    }

    /// All that may be asked for until the deadline of `task`, in any order.
    fn at_once(&self, task: usize, resource: &Resource) -> Point {
        let at = self.tasks[task].deadline;
        let places: Vec<usize> = (0..self.tasks.len()).collect();
        let demand = request(&self.tasks, &places, places.len() - 1, at);
        let supply = at.checked_sub(self.latency).map_or(Duration::ZERO, |t| resource.supply(t));
        Point { task: Some(task), at, demand: Duration::from_ns(u64::try_from(demand).unwrap_or(u64::MAX)), supply }
    }

    /// The least budget with which a server of this period keeps all deadlines; `None`: not even a whole core does.
    pub(crate) fn budget(&self, period: Duration) -> Result<Option<Duration>, Error> {
        match !self.beyond_hope() && self.enough(period, period.ns().into())? {
            true => self.least(period, period.ns().into()).map(Some),
            false => Ok(None),
        }
    }

    /// The least budget, where this one is enough. Most of those tried are too little for U, which is quick to see.
    fn least(&self, period: Duration, enough: u128) -> Result<Duration, Error> {
        let (mut low, mut high) = (0, self.counted(period, enough)); // short, enough
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if self.counts(period, middle)? { &mut high } else { &mut low }) = middle;
        }
        Ok(quanta(high).checked_add(self.loss).ok_or(Error::Range)?.max(self.least))
    }

    /// Whether a server of this period with a `budget` keeps all deadlines.
    fn enough(&self, period: Duration, budget: u128) -> Result<bool, Error> {
        Ok(budget >= u128::from(self.least.ns()) && self.counts(period, self.counted(period, budget))?)
    }

    /// What of a budget can be counted on, in quanta.
    fn counted(&self, period: Duration, budget: u128) -> u64 {
        budget.saturating_sub(u128::from(self.loss.ns())).min(u128::from(period.ns())) as u64 / QUANTUM.ns()
    }

    /// Whether all deadlines are kept with so many quanta a period that can be counted on.
    fn counts(&self, period: Duration, count: u64) -> Result<bool, Error> {
        let budget = quanta(count);
        if count == 0 || !self.possible(period.ns(), budget.ns()) {
            return Ok(false);
        }
        match &self.prepared {
            Some(prepared) => prepared.kept_by(&self.resource(period, budget)),
            None => Ok(self.test(period, budget)?.is_ok()),
        }
    }

    /// What is quick to see: the budget is no less than U of its period, and no job's deadline is before the longest wait for
    /// supply and the job itself. Near U the test of EDF takes long.
    fn possible(&self, period: u64, budget: u64) -> bool {
        let used = |task: &Task| task.wcet.ns() as f64 * f64::from(task.copies) / task.period.ns() as f64;
        let used: f64 = self.tasks.iter().map(used).sum();
        let gaps = if self.aligned { 1 } else { 2 };
        let wait = gaps * u128::from(period - budget) + u128::from(self.latency.ns());
        let in_time = |task: &Task| wait + u128::from(task.wcet.ns()) <= u128::from(task.deadline.ns());
        budget as f64 >= used * period as f64 * (1.0 - 1e-9) && self.tasks.iter().all(in_time)
    }

    fn test(&self, period: Duration, budget: Duration) -> Result<Verdict, Error> {
        schedulable(&self.tasks, self.scheduler, &self.resource(period, budget), self.latency)
    }
}

/// The least B/P with `shortest` ≤ P ≤ `longest` that keeps all deadlines of each of `demands` by itself; ties to the shortest
/// period. Where none is below `than`, which something else takes, the best of a few periods: enough, and not the least.
/// `None`: not even whole cores are enough.
///
/// With P the least budget b(P) rises, since the same budget in a longer period supplies less. So no period in [p, q] is
/// cheaper than the best so far, if at p a budget is not enough that would be as cheap at q: then the stretch is left
/// out, else halved. Errors: tasks that cannot be analysed, unless something else takes `than`.
pub(crate) fn cheapest(
    demands: &[Demand<'_>],
    shortest: Duration,
    longest: Duration,
    than: Option<Interface>,
) -> Result<Option<Interface>, Error> {
    if demands.iter().any(Demand::beyond_hope) {
        return Ok(None);
    }
    let (first, last) = (shortest.ns().div_ceil(QUANTUM.ns()), longest.ns() / QUANTUM.ns());
    let mut best = None;
    // Good ones early leave more out: some periods up to the longest deadline.
    let tasks = demands.iter().flat_map(|demand| demand.tasks.iter());
    let reach = tasks.map(|task| task.deadline.ns() / QUANTUM.ns()).max().unwrap_or(0).clamp(first, last);
    let mut seed = first;
    while seed <= reach {
        let improved = may_improve(demands, seed, seed, best).and_then(|may| match may {
            Some(enough) => improve(demands, seed, enough, &mut best),
            None => Ok(()),
        });
        match improved {
            Err(_) if than.is_some() => {}
            other => other?,
        }
        seed += seed / 2 + 1;
    }
    let few = best;
    let below = |than: &Interface| best.is_none_or(|best: Interface| than.bandwidth() < best.bandwidth());
    best = than.filter(below).or(best);
    let mut open = vec![(first, last)];
    while let Some((p, q)) = open.pop() {
        if p > q {
            continue;
        }
        let improved = may_improve(demands, p, q, best).and_then(|may| match may.filter(|_| p == q) {
            Some(enough) => improve(demands, p, enough, &mut best).map(|()| false),
            None => Ok(may.is_some()),
        });
        match improved {
            Err(_) if than.is_some() => break,
            Err(why) => return Err(why),
            Ok(false) => continue,
            Ok(true) => {}
        }
        let middle = p + (q - p) / 2;
        open.extend([(middle + 1, q), (p, middle)]); // the shorter ones first
    }
    Ok(if best == than { few } else { best })
}

/// Takes the least budget at this period, at which one is `enough`, if that is cheaper.
fn improve(demands: &[Demand<'_>], period: u64, enough: u128, best: &mut Option<Interface>) -> Result<(), Error> {
    let period = quanta(period);
    let mut most = Duration::ZERO;
    for demand in demands {
        most = most.max(demand.least(period, enough)?);
    }
    let found = Interface { budget: most, period };
    let better = |old: &Interface| (found.bandwidth(), period) < (old.bandwidth(), old.period);
    if best.as_ref().is_none_or(better) {
        *best = Some(found);
    }
    Ok(())
}

/// The budget that is enough at p and as cheap at q as `best`, or cheaper: a period in [p, q] may be cheaper than `best`, or
/// as cheap and shorter. `None`: there is no such period.
fn may_improve(demands: &[Demand<'_>], p: u64, q: u64, best: Option<Interface>) -> Result<Option<u128>, Error> {
    let most = match best {
        None => u128::from(quanta(q).ns()),
        Some(best) => {
            let product = u128::from(best.budget.ns()) * u128::from(quanta(q).ns());
            let equal_counts = p < best.period.ns() / QUANTUM.ns();
            (product - u128::from(!equal_counts)) / u128::from(best.period.ns())
        }
    };
    for demand in demands {
        if !demand.enough(quanta(p), most)? {
            return Ok(None);
        }
    }
    Ok(Some(most))
}

fn quanta(count: u64) -> Duration {
    Duration::from_ns(count * QUANTUM.ns())
}
