//! Servers that keep all deadlines with less than a periodic resource takes, where kind and core allow it
//! (docs/decisions/0038).
//!
//! *At the wake-up.* A constant_bandwidth server (B, P) begins a period when work comes, unless what it has left is enough
//! for the rest of the old one. If B is at least what may come in any P, all of it is done by the end of that period: each
//! job within P of its wake-up.
//!
//! *A whole core.* With the highest priority and a budget that never runs out (Theorem 1 of [LiH21]), tasks have what a core
//! of their own supplies. The budget only limits what a service takes that does not do what was declared.

use super::cheapest::{Demand, QUANTUM};
use crate::backend::{Deviation, Limits};
use giusto_analysis::share;
use giusto_model::{Duration, Interface, Point, Release, RestsOn, ServerKind, Task};

/// So many multiples of a period are looked at.
const MULTIPLES: u64 = 8;

/// A server and what proves that it is enough.
pub(super) struct Found {
    pub(super) server: Interface,
    /// What of its budget the tasks may ask for.
    pub(super) counted: Duration,
    pub(super) points: Vec<Point>,
    pub(super) until: Option<Duration>,
    pub(super) latency: Duration,
    pub(super) rests_on: RestsOn,
}

/// The server whose period begins with the work and ends before the shortest deadline; `None`: its kind does not do that, or
/// that period is too short for the backend.
pub(super) fn at_wake_up(tasks: &[Task], kind: ServerKind, deviation: &Deviation, limits: &Limits) -> Option<Found> {
    if kind.renewal().steps() {
        return None;
    }
    let Deviation { loss, latency, .. } = *deviation;
    let shortest = tasks.iter().map(|task| task.deadline).min()?;
    let period = down(shortest.checked_sub(latency)?).min(limits.longest);
    // Not longer than any task's own period, so that each comes once in it, also where a wake-up is late.
    let work = |sum: Duration, task: &Task| sum.checked_add(task.wcet.checked_mul(task.copies.into())?);
    let counted = tasks.iter().try_fold(Duration::ZERO, work)?;
    let budget = up(counted.checked_add(loss)?)?.max(limits.budget);
    let at = period.checked_add(latency)?;
    let points = vec![Point { task: None, at, demand: counted, supply: counted }];
    let (server, rests_on) = (Interface { budget, period }, RestsOn::WakeUp);
    let fits = budget <= period && period >= limits.shortest;
    fits.then_some(Found { server, counted, points, until: None, latency, rests_on })
}

/// A server with the highest priority of its core whose budget never runs out; `None`: its kind may run out of it in another
/// way, a whole core is not enough, or nothing of it would be left.
pub(super) fn whole_core(
    tasks: &[Task],
    demand: &Demand<'_>,
    kind: ServerKind,
    deviation: &Deviation,
    limits: &Limits,
) -> Option<Found> {
    if !kind.facts().whole_core {
        return None;
    }
    let Deviation { loss, latency, .. } = *deviation;
    let late = loss.checked_add(latency)?;
    // What is added to the budget of each period is a hundredth of it at most.
    let shortest = limits.chosen.max(late.checked_add(loss)?.checked_mul(100)?).min(limits.longest);
    let found = |period: Duration| {
        // What is lost is work like that of one more task.
        let lost = (!loss.is_zero()).then(|| sporadic("loss", loss, period));
        let all: Vec<Task> = tasks.iter().cloned().chain(lost).collect();
        let counted = share::sporadic_budget(&all, period).ok()?;
        let budget = up(counted.checked_add(late)?)?.max(limits.budget);
        (budget < period).then_some((Interface { budget, period }, counted))
    };
    let periods = periods(tasks, shortest, limits.longest).filter_map(found);
    let (server, counted) = periods.min_by_key(|(server, _)| (server.bandwidth(), server.period))?;
    let whole = Interface { budget: server.period, period: server.period };
    let proof = demand.kept(whole).ok()??.ok()?;
    let (until, rests_on) = (proof.until, RestsOn::WholeCore { loss });
    Some(Found { server, counted, points: demand.points(proof), until, latency, rests_on })
}

/// Those worth a look: multiples of the hyperperiod, where the utilization is enough (Theorem 2), or else of the tasks' periods.
fn periods(tasks: &[Task], shortest: Duration, longest: Duration) -> impl Iterator<Item = Duration> + '_ {
    let hyperperiod = share::hyperperiod(tasks).ok().filter(|all| *all <= longest);
    let own = tasks.iter().map(|task| task.period).filter(move |_| hyperperiod.is_none());
    let multiples = move |period: Duration| {
        let first = shortest.ns().div_ceil(period.ns()).max(1);
        (first..first.saturating_mul(2).min(first + MULTIPLES)).filter_map(move |times| period.checked_mul(times))
    };
    let found = hyperperiod.into_iter().chain(own).flat_map(multiples);
    let otherwise = hyperperiod.is_none().then_some(longest);
    found.filter_map(up).filter(move |period| *period <= longest).chain(otherwise)
}

fn sporadic(name: &str, wcet: Duration, period: Duration) -> Task {
    let (name, offset, release) = (name.into(), Duration::ZERO, Release::Sporadic);
    Task { name, wcet, period, deadline: period, offset, release, copies: 1 }
}

fn down(time: Duration) -> Duration {
    Duration::from_ns(time.ns() / QUANTUM.ns() * QUANTUM.ns())
}

fn up(time: Duration) -> Option<Duration> {
    time.ns().checked_next_multiple_of(QUANTUM.ns()).map(Duration::from_ns)
}
