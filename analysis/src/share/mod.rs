//! Virtualization-agnostic scheduling (VAS): the least share of a core on which a task set has the schedule, and so the
//! latency distribution, of a whole core.
//!
//! Source: [LiH21, chapter 3]. A server (B, P) at the highest priority never runs out of budget, and so changes nothing
//! (Theorem 1), if B ≥ S(t + P) − S(t) for all t; the least such B gives the curve W(P) = B(P)/P (Fig. 3.3b; the text of
//! § 3.2 forgets the division by P). Theorem 2: W(hyperperiod) = U, the least of all. Since B(P) covers *every* window of
//! length P, it holds for servers on a fixed grid and for those that re-anchor their periods alike.
//!
//! A set is analysed with its offsets only if every task has [`Release::KeptOffset`]; else all count as sporadic.

mod least;
mod supply;
mod workload;

pub use supply::Supply;

use crate::Error;
use giusto_model::{Bandwidth, CurvePoint, Duration, Release, Task};
use serde::{Deserialize, Serialize};
use workload::{ns, Workload};

/// Steps of the even grid of the curve's periods.
const GRID: u64 = 32;
/// The curve goes as far as this many releases, if the hyperperiod has more.
const CURVE_JOBS: u64 = 200_000;

/// Which server period is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The hyperperiod: least bandwidth, longest hold (Theorem 2).
    Hyperperiod,
    /// This one.
    Exactly(Duration),
    /// The one of least bandwidth among those up to this: the hyperperiod if it is not longer.
    AtMost(Duration),
}

/// The least share for a task set, and what it means for the others on the core. This is what
/// `giusto analyze share --json` prints (`formats/share.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The server period P.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// The least budget B(P).
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// W(P) = B/P.
    pub bandwidth: Bandwidth,
    /// U = Σ C/T, copies counted.
    pub utilization: Bandwidth,
    /// Least common multiple of the task periods.
    #[serde(rename = "hyperperiod_ns")]
    pub hyperperiod: Duration,
    /// Whether the offsets were used.
    pub releases: Release,
    /// How long (B, P) can hold the core.
    #[serde(rename = "hold_ns")]
    pub hold: Hold,
    /// 1 − W − keep-free; `None` if that is less than nothing.
    pub left_for_others: Option<Bandwidth>,
    /// With the practical margin; `None` if that is more than a whole core.
    pub with_margin: Option<WithMargin>,
    /// W(P) at 32 even steps of the hyperperiod, each task's period, and the least common multiples of the two, three, …
    /// shortest ones (where W dips). Ascending, unique. Sporadic sets with more than 200,000 jobs in a hyperperiod: up to
    /// about that many jobs, and the hyperperiod.
    pub curve: Vec<CurvePoint>,
}

/// How long a server can keep all others off its core; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// While the tasks keep to their word: [`longest_busy_period`].
    pub conforming: Option<Duration>,
    /// Whatever they do: [`enforced_hold`].
    pub enforced: Option<Duration>,
}

/// What to reserve in practice ([LiH21, § 3.3]: five points more for the work of kernel and hypervisor).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithMargin {
    /// What was added, in parts of a core.
    pub margin: Bandwidth,
    /// B(P) + margin · P, rounded up.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// This budget / P.
    pub bandwidth: Bandwidth,
    /// [`enforced_hold`] of this budget.
    #[serde(rename = "enforced_hold_ns")]
    pub enforced_hold: Option<Duration>,
    /// 1 − this bandwidth − keep-free; `None` if that is less than nothing.
    pub left_for_others: Option<Bandwidth>,
}

/// Least common multiple of the task periods. Errors: an empty or impossible task set, more than 146 years.
pub fn hyperperiod(tasks: &[Task]) -> Result<Duration, Error> {
    workload::hyperperiod(tasks).map(ns)
}

/// U = Σ C/T, copies counted; may be more than 1. Errors: as [`hyperperiod`], or a fraction of more than 64 bits.
pub fn utilization(tasks: &[Task]) -> Result<Bandwidth, Error> {
    workload::utilization(tasks)
}

/// U; where the exact fraction has more than 64 bits, rounded up by at most a billionth for each task. Errors: an empty or
/// impossible task set.
pub fn utilization_at_most(tasks: &[Task]) -> Result<Bandwidth, Error> {
    match utilization(tasks) {
        Err(Error::Range | Error::Hyperperiod) => {}
        exact => return exact,
    }
    const PARTS: u128 = 1_000_000_000;
    let each = |task: &Task| {
        let work = u128::from(task.wcet.ns()) * u128::from(task.copies) * PARTS;
        work.div_ceil(u128::from(task.period.ns()))
    };
    let sum = u64::try_from(tasks.iter().map(each).sum::<u128>()).map_err(|_| Error::Range)?;
    Bandwidth::new(sum, PARTS as u64).ok_or(Error::Range)
}

/// Whether the analysis counts on the offsets: if all tasks keep theirs and a hyperperiod has up to 5,000,000 jobs. Beyond
/// that they count as sporadic, for which no less is needed. Errors: as [`hyperperiod`].
pub fn releases(tasks: &[Task]) -> Result<Release, Error> {
    workload::hyperperiod(tasks).map(|hyperperiod| workload::releases(tasks, hyperperiod))
}

/// B(P), the least budget for the server period `period` ([`Supply::budget`]).
///
/// At once for a multiple of the hyperperiod (U · P, Theorem 2), else as [`Supply::new`]. Errors: P = 0, U > 1, too many
/// jobs.
pub fn budget(tasks: &[Task], period: Duration) -> Result<Duration, Error> {
    let load = Workload::new(tasks)?;
    if !period.is_zero() && period.ns().is_multiple_of(load.hyperperiod) {
        return Ok(ns(period.ns() / load.hyperperiod * load.work));
    }
    Supply::of(&load, period.ns())?.budget(period)
}

/// B(P) of sporadic tasks, also where their hyperperiod is beyond 64 bits: the least, over all u ≤ P, of what is released in
/// [0, u) after a joint release, and P − u. O(releases in P · tasks).
///
/// Errors: P = 0, an empty or impossible task set, more than 5,000,000 releases.
pub fn sporadic_budget(tasks: &[Task], period: Duration) -> Result<Duration, Error> {
    if tasks.is_empty() {
        return Err(Error::NoTasks);
    }
    for task in tasks {
        task.validate().map_err(|why| Error::Task { name: task.name.clone(), why })?;
    }
    if period.is_zero() {
        return Err(Error::Period);
    }
    let length = period.ns();
    let jobs: u128 = tasks.iter().map(|task| u128::from(length / task.period.ns()) + 1).sum();
    if jobs > u128::from(workload::MOST_JOBS) {
        return Err(Error::TooManyJobs { jobs, limit: workload::MOST_JOBS });
    }
    let within = |u: u64| {
        let released = tasks.iter().map(|task| {
            u128::from(u.div_ceil(task.period.ns())) * u128::from(task.wcet.ns()) * u128::from(task.copies)
        });
        released.sum::<u128>() + u128::from(length - u)
    };
    // Between two releases the sum falls, so that it is least just before one.
    let ends = tasks.iter().flat_map(|task| (1..=length / task.period.ns()).map(|nth| nth * task.period.ns()));
    let least = ends.map(within).fold(u128::from(length).min(within(length)), u128::min);
    Ok(ns(least as u64))
}

/// Where a window of B(P) begins: after a joint release of sporadic tasks (0), or, where all keep their offsets, so long after
/// any multiple of the hyperperiod once all have started. `None` for a multiple of the hyperperiod: every window has as much.
/// Errors: as [`budget`].
pub fn deciding_window(tasks: &[Task], period: Duration) -> Result<Option<Duration>, Error> {
    let load = Workload::new(tasks)?;
    if !period.is_zero() && period.ns().is_multiple_of(load.hyperperiod) {
        return Ok(None);
    }
    Supply::of(&load, period.ns())?.deciding(period).map(Some)
}

/// The point of least W(P) with `shortest` ≤ P ≤ `longest`.
///
/// Exact for sporadic tasks and for up to some thousands of busy periods with kept offsets; beyond that the best of
/// 20,000,000 steps, whose budget is sufficient all the same. Errors: an empty range, and as [`budget`].
pub fn least_bandwidth(tasks: &[Task], shortest: Duration, longest: Duration) -> Result<CurvePoint, Error> {
    let load = Workload::new(tasks)?;
    least::least(&Supply::of(&load, longest.ns())?, shortest.ns(), longest.ns())
}

/// Longest time for which tasks that keep to their word hold the core without a gap; `None` if for ever (U = 1).
///
/// Kept offsets: the longest busy period of S. Sporadic: least t with Σ (⌊t/T⌋ + 1)·C ≤ t, the first idle instant after a
/// synchronous release. Errors: as [`budget`].
pub fn longest_busy_period(tasks: &[Task]) -> Result<Option<Duration>, Error> {
    longest_busy(&Workload::new(tasks)?)
}

/// 2B: the end of one server period and the start of the next; `None`, for ever, if B = P.
pub fn enforced_hold(budget: Duration, period: Duration) -> Option<Duration> {
    if budget < period {
        budget.checked_mul(2)
    } else {
        None
    }
}

/// `budget` + `margin` · `period`, rounded up; `None` if that is longer than the period.
pub fn with_margin(budget: Duration, period: Duration, margin: Bandwidth) -> Option<Duration> {
    margin.times_ceil(period)?.checked_add(budget).filter(|b| *b <= period)
}

/// Everything about the least share for `tasks`: see [`Share`].
///
/// `margin` and `keep_free` are parts of a core, at most 1. A few microseconds for a handful of tasks; O(n log m) for n
/// releases of m tasks. Errors: as [`budget`], and a margin or kept-free part above 1.
pub fn share(tasks: &[Task], wanted: Wanted, margin: Bandwidth, keep_free: Bandwidth) -> Result<Share, Error> {
    for (what, value) in [("the margin", margin), ("the part to keep free", keep_free)] {
        if value > Bandwidth::ONE {
            return Err(Error::Share { what, value });
        }
    }
    let load = Workload::new(tasks)?;
    let shown = shown_periods(&load);
    let longest = match wanted {
        Wanted::Hyperperiod => load.hyperperiod,
        Wanted::Exactly(period) | Wanted::AtMost(period) => period.ns(),
    };
    let needed = [longest].into_iter().chain(shown.iter().map(|p| p.ns())).filter(|p| p % load.hyperperiod != 0).max();
    let supply = Supply::of(&load, needed.unwrap_or(0))?;
    let found = match wanted {
        Wanted::AtMost(longest) if longest.ns() < load.hyperperiod => least::least(&supply, 1, longest.ns())?,
        Wanted::Exactly(period) => point(&supply, period)?,
        _ => point(&supply, ns(load.hyperperiod))?,
    };
    let CurvePoint { period, budget, bandwidth } = found;
    let left = |bandwidth| Bandwidth::ONE.checked_sub(bandwidth)?.checked_sub(keep_free);
    let reserve = |budget| {
        let bandwidth = Bandwidth::of(budget, period)?;
        let (enforced_hold, left_for_others) = (enforced_hold(budget, period), left(bandwidth));
        Some(WithMargin { margin, budget, bandwidth, enforced_hold, left_for_others })
    };
    Ok(Share {
        period,
        budget,
        bandwidth,
        utilization: Bandwidth::new(load.work, load.hyperperiod).ok_or(Error::Range)?,
        hyperperiod: ns(load.hyperperiod),
        releases: load.releases,
        hold: Hold { conforming: longest_busy(&load)?, enforced: enforced_hold(budget, period) },
        left_for_others: left(bandwidth),
        with_margin: with_margin(budget, period, margin).and_then(reserve),
        curve: shown.iter().map(|&period| point(&supply, period)).collect::<Result<_, _>>()?,
    })
}

fn point(supply: &Supply, period: Duration) -> Result<CurvePoint, Error> {
    let budget = supply.budget(period)?;
    Ok(CurvePoint { period, budget, bandwidth: Bandwidth::of(budget, period).ok_or(Error::Period)? })
}

fn longest_busy(load: &Workload) -> Result<Option<Duration>, Error> {
    if load.releases == Release::KeptOffset {
        return Ok(Supply::of(load, load.hyperperiod)?.longest_busy());
    }
    if load.work == load.hyperperiod {
        return Ok(None);
    }
    // Fixed point from below. Ends before the hyperperiod, since U < 1 leaves a gap in it; each step adds a job at least.
    let mut t = 0;
    for _ in 0..workload::MOST_JOBS {
        match load.released(t) {
            next if next == u128::from(t) => return Ok(Some(ns(t))),
            next => t = u64::try_from(next).map_err(|_| Error::Range)?,
        }
    }
    Err(Error::TooManyJobs { jobs: load.jobs(t), limit: workload::MOST_JOBS })
}

fn shown_periods(load: &Workload) -> Vec<Duration> {
    let jobs = load.jobs(load.hyperperiod);
    let sparse = load.releases == Release::Sporadic && jobs > u128::from(CURVE_JOBS);
    let top =
        if sparse { (u128::from(load.hyperperiod) * u128::from(CURVE_JOBS) / jobs) as u64 } else { load.hyperperiod };
    let mut tasks: Vec<u64> = load.streams.iter().map(|s| s.period).collect();
    tasks.sort_unstable();
    let together = tasks.iter().scan(1u64, |all, &period| {
        *all = num_integer::lcm(*all, period); // divides the hyperperiod
        Some(*all)
    });
    let grid = (1..=GRID).map(|k| (u128::from(top) * u128::from(k) / u128::from(GRID)) as u64);
    let all = grid.chain(tasks.iter().copied()).chain(together);
    let mut shown: Vec<u64> = all.filter(|p| (1..=top).contains(p)).chain([load.hyperperiod]).collect();
    shown.sort_unstable();
    shown.dedup();
    shown.into_iter().map(ns).collect()
}
