//! Servers that keep all deadlines, and what each would take (docs/decisions/0038).
//!
//! *The periodic resource.* The budget comes anywhere in each period: [`super::cheapest`].
//!
//! *At the wake-up.* A constant_bandwidth server (B, P) begins a period when work comes, unless what it has left is enough
//! for the rest of the old one. If B is at least what may come in any P, all of it is done by the end of that period: each
//! job within P of its wake-up.
//!
//! *Aligned releases.* The same server, where all releases are multiples of its period apart: windows begin with a period.
//!
//! *A whole core.* With the highest priority and a budget that never runs out (Theorem 1 of [LiH21]), tasks have what a core
//! of their own supplies. The budget only limits what a service takes that does not do what was declared.

use super::cheapest::{Demand, QUANTUM};
use crate::backend::{Chosen, Deviation};
use crate::needs::{Company, Need};
use giusto_analysis::{share, Error};
use giusto_model::{
    Bandwidth, Certificate, Duration, GuestScheduler, Interface, Point, Release, Renewal, RestsOn, Task,
};

/// Of each period so many multiples are looked at.
const MULTIPLES: u64 = 8;
/// Of the time between releases so many parts are looked at.
const PARTS: u64 = 100;
/// The budget that limits a service on a whole core has at least this period, if it is chosen: its surplus for what is lost and
/// late is then little, and a service that does not do what was declared holds its core for a fraction of a second.
const LIMITED: Duration = Duration::from_ms(100);

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

/// What would keep all deadlines of one task set, besides a periodic resource. `None`: its kind or backend does not supply that,
/// or it would not be enough.
#[derive(Default)]
pub(super) struct Alternatives {
    pub(super) at_wake_up: Option<Found>,
    pub(super) aligned: Option<Found>,
    pub(super) whole_core: Option<Found>,
}

impl Alternatives {
    /// Those that take at most `most` of a core. `limited` is the deviation of servers that use up their budgets, `endless` of
    /// those that never do.
    pub(super) fn of(
        tasks: &[Task],
        scheduler: GuestScheduler,
        chosen: &Chosen,
        (limited, endless): (&Deviation, &Deviation),
        most: Bandwidth,
    ) -> Self {
        let within = |found: &Found| found.server.bandwidth() <= most;
        Alternatives {
            at_wake_up: at_wake_up(tasks, chosen, limited).filter(within),
            aligned: aligned(tasks, scheduler, chosen, limited).filter(within),
            whole_core: whole_core(tasks, scheduler, chosen, endless, most),
        }
    }

    /// The cheapest, if the cheapest `periodic` resource takes more. Beside others a whole core is taken only where nothing else
    /// is enough. Of what takes as much, a periodic resource goes before a wake-up, that before aligned releases, and these
    /// before a whole core.
    ///
    /// *Invariant:* with a larger latency L of the machine the bandwidth of the cheapest is never smaller, as long as company and
    /// the bounds of periods stay. Each alternative is proven with a supply that only falls with L, over periods that do not
    /// depend on L: its least bandwidth never falls, and so neither does the least of all.
    pub(super) fn cheapest(&self, periodic: Option<Interface>, company: Company) -> Option<&Found> {
        let periodic = periodic.map(|server| server.bandwidth());
        let below =
            |found: &&Found, least: Option<Bandwidth>| least.is_none_or(|least| found.server.bandwidth() < least);
        let mut shared = self.at_wake_up.as_ref().filter(|found| below(found, periodic));
        let mut least = shared.map(|found| found.server.bandwidth()).or(periodic);
        shared = self.aligned.as_ref().filter(|found| below(found, least)).or(shared);
        least = shared.map(|found| found.server.bandwidth()).or(least);
        let open = company == Company::Alone || least.is_none();
        self.whole_core.as_ref().filter(|found| open && below(found, least)).or(shared)
    }
}

impl Found {
    /// The need that it is, without reasons.
    pub(super) fn need(&self, tasks: &[Task], utilization: Bandwidth) -> Result<Need, Error> {
        let Found { server, counted, ref points, until, rests_on, latency } = *self;
        let points = points.clone();
        let part_of = |time: Duration| Bandwidth::of(time, server.period).ok_or(Error::Range);
        let margin = server.budget.checked_sub(counted).ok_or(Error::Range)?;
        Ok(Need {
            interface: server,
            tasks: tasks.to_vec(),
            utilization,
            required: part_of(counted)?,
            margin: part_of(margin)?,
            certificate: Certificate::EveryDeadline { budget: counted, latency, points, until, rests_on },
            reasons: Vec::new(),
        })
    }
}

/// The server whose period begins with the work and ends before the shortest deadline; `None`: its kind or backend does not do
/// that, or that period is too short for it.
fn at_wake_up(tasks: &[Task], chosen: &Chosen, deviation: &Deviation) -> Option<Found> {
    let limits = &chosen.limits;
    if !begins_with_work(chosen) {
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

/// Whether a period of its server begins with the work that finds it idle.
fn begins_with_work(chosen: &Chosen) -> bool {
    chosen.kind.renewal() == Renewal::Steady && chosen.backend.abilities().at_wake_up
}

/// Whether the tasks' releases are known to the instant.
pub(super) fn keep_offsets(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.release == Release::KeptOffset)
}

/// The cheapest server at the wake-up whose period divides the time between any two releases; `None`: its kind or backend has no
/// such periods, releases are not known, or none of these periods is long enough and keeps all deadlines. A period below the
/// latency would end before its work is seen.
fn aligned(tasks: &[Task], scheduler: GuestScheduler, chosen: &Chosen, deviation: &Deviation) -> Option<Found> {
    let limits = &chosen.limits;
    if !begins_with_work(chosen) || !keep_offsets(tasks) {
        return None;
    }
    let first = tasks.first()?.offset.ns();
    let apart = tasks.iter().flat_map(|task| [task.period.ns(), task.offset.ns().abs_diff(first)]);
    let grid = apart.fold(0, num_integer::gcd) / QUANTUM.ns();
    let longest = (limits.longest.ns() / QUANTUM.ns()).max(1);
    let demand = Demand::new(tasks, scheduler, deviation, limits.budget).aligned();
    let parts = grid.div_ceil(longest)..=grid.div_ceil(longest).saturating_add(PARTS);
    let periods = parts.filter(|&part| part > 0 && grid.is_multiple_of(part));
    let periods = periods.map(|part| Duration::from_ns(grid / part * QUANTUM.ns()));
    let found = periods
        .filter(|period| *period >= limits.shortest.max(deviation.latency))
        .filter_map(|period| Some(Interface { budget: demand.budget(period).ok()??, period }));
    let server = found.min_by_key(|server| (server.bandwidth(), server.period))?;
    let proof = demand.kept(server).ok()??.ok()?;
    let Deviation { loss, latency, .. } = *deviation;
    let (counted, until) = (server.budget.checked_sub(loss)?, proof.until);
    let (points, rests_on) = (demand.points(proof), RestsOn::AlignedReleases);
    Some(Found { server, counted, points, until, latency, rests_on })
}

/// A server with the highest priority of its core whose budget never runs out and takes at most `most`; `None`: its kind may run
/// out of it in another way, a whole core is not enough, or too little of it would be left.
fn whole_core(
    tasks: &[Task],
    scheduler: GuestScheduler,
    chosen: &Chosen,
    deviation: &Deviation,
    most: Bandwidth,
) -> Option<Found> {
    let limits = &chosen.limits;
    let Deviation { loss, latency, .. } = *deviation;
    if !chosen.kind.facts().whole_core || tasks.iter().any(|task| task.deadline <= latency) {
        return None;
    }
    let late = loss.checked_add(latency)?;
    let demand = Demand::new(tasks, scheduler, deviation, limits.budget);
    let kept = |period: Duration| demand.kept(Interface { budget: period, period }).ok()??.ok();
    let sized = |period: Duration| {
        // What is lost is work like that of one more task.
        let lost = (!loss.is_zero()).then(|| sporadic("loss", loss, period));
        let all: Vec<Task> = tasks.iter().cloned().chain(lost).collect();
        let counted = share::sporadic_budget(&all, period).ok()?;
        let budget = up(counted.checked_add(late)?)?.max(limits.budget);
        let server = Interface { budget, period };
        (budget < period && server.bandwidth() <= most).then_some((server, counted))
    };
    let mut periods = periods(tasks, limits.chosen.max(LIMITED).min(limits.longest), limits.longest);
    periods.sort_unstable();
    periods.dedup();
    // The longer the period, the less of it is lost: where the longest is not enough none is.
    periods.last().and_then(|longest| kept(*longest))?;
    let mut found: Vec<(Interface, Duration)> = periods.into_iter().filter_map(sized).collect();
    found.sort_by_key(|(server, _)| (server.bandwidth(), server.period));
    let (server, counted, proof) =
        found.into_iter().find_map(|(server, counted)| Some((server, counted, kept(server.period)?)))?;
    let (until, rests_on) = (proof.until, RestsOn::WholeCore { loss });
    Some(Found { server, counted, points: demand.points(proof), until, latency, rests_on })
}

/// Periods that are looked at: multiples of the hyperperiod, where the utilization is enough (Theorem 2). Where none is within
/// the bounds, multiples of the tasks' periods, at whose ends the most work of a window steps up, and the longest, in which
/// what a window has beyond the utilization counts least, also where all tasks' periods are longer. Any period is sound.
fn periods(tasks: &[Task], shortest: Duration, longest: Duration) -> Vec<Duration> {
    let multiples = |period: Duration| {
        let first = shortest.ns().div_ceil(period.ns()).max(1);
        let all =
            (first..first.saturating_mul(2).min(first + MULTIPLES)).filter_map(move |times| period.checked_mul(times));
        all.filter_map(up).filter(move |period| *period <= longest)
    };
    let found: Vec<Duration> = share::hyperperiod(tasks).ok().into_iter().flat_map(multiples).collect();
    if !found.is_empty() {
        return found;
    }
    tasks.iter().flat_map(|task| multiples(task.period)).chain([longest]).collect()
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
