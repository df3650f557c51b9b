//! `every-deadline`: in every window the server supplies what the tasks may ask for.
//!
//! A miss needs a window in which more is asked for than supplied. *Fixed priority*: a job of task i is late only if, from an
//! instant at which nothing of its priority or above is pending, what may be asked for of these stays above the supply in all
//! windows up to D_i. So one window of at most D_i with enough supply rules that out. *Any order*: the same with all tasks
//! and the shortest deadline, as then no job waits longer than all tasks together keep it busy. *EDF*: a deadline is missed
//! only if dbf(t) > sbf(t) for a deadline t. Both rise with t only, so a supply at t that is enough for all that is due before
//! t' settles all of [t, t').

use super::broken::Broken;
use super::exact::{fraction, of, utilization, whole, work, Exact};
use giusto_model::{Duration, GuestScheduler, Point, Scheduler, Server, Task};

/// What of a server is counted on.
pub(super) struct Counted {
    pub(super) budget: u64,
    pub(super) period: u64,
    pub(super) latency: u64,
    /// Gaps of P − B that a window may begin with: 2, or 1 where windows begin with a period.
    pub(super) gaps: u64,
}

impl Counted {
    pub(super) fn new(server: Server, budget: Duration, latency: Duration) -> Self {
        Counted { budget: budget.ns(), period: server.period.ns(), latency: latency.ns(), gaps: 2 }
    }

    /// The least supply in any window of length `t`: none while it is late, then the last of a period in which the budget came
    /// at once and of one in which it comes at the end: 2(P − B); then B at a time, P − B apart. A window that begins with a
    /// period has only the one in which it comes at the end.
    fn supply(&self, t: u64) -> u128 {
        let [t, budget, period] = [t, self.budget, self.period].map(u128::from);
        let Some(after) = t.checked_sub(self.delay()) else { return 0 };
        after / period * budget + (after % period).min(budget)
    }

    /// What passes before the first of it.
    fn delay(&self) -> u128 {
        u128::from(self.latency) + u128::from(self.gaps) * u128::from(self.period - self.budget)
    }
}

/// Compares demand and supply wherever it takes; how often.
pub(super) fn check(
    tasks: &[Task],
    scheduler: GuestScheduler,
    supply: &Counted,
    points: &[Point],
    until: Option<Duration>,
) -> Result<usize, Broken> {
    match (scheduler, until) {
        (GuestScheduler::Own(Scheduler::Edf), Some(until)) => edf(tasks, supply, points, until.ns()),
        (GuestScheduler::Own(Scheduler::Edf), None) => {
            Err(Broken::new("how far deadlines were compared", "a time", "none"))
        }
        (_, Some(until)) => Err(Broken::new("how far deadlines were compared, which is for EDF only", "none", until)),
        (GuestScheduler::Any, None) => any(tasks, supply, points),
        (GuestScheduler::Own(order), None) => fixed(tasks, order, supply, points),
    }
}

/// Whether the numbers of a point are what they should be, and the supply enough.
fn compare(point: &Point, demand: u128, supply: u128) -> Result<(), Broken> {
    let at = point.at.ns();
    let same = |what: &str, mine: u128, claimed: Duration| match mine == u128::from(claimed.ns()) {
        true => Ok(()),
        false => Err(Broken::new(what, format!("{mine} ns"), format!("{} ns", claimed.ns())).at(at)),
    };
    same("work asked for", demand, point.demand)?;
    same("processor time supplied", supply, point.supply)?;
    match demand <= supply {
        true => Ok(()),
        false => Err(Broken::new("processor time for its work", format!("{demand} ns"), format!("{supply} ns")).at(at)),
    }
}

/// Jobs of a task that can be released in [0, t), t > 0.
fn released(task: &Task, t: u64) -> u128 {
    u128::from(t.div_ceil(task.period.ns())) * work(task)
}

fn fixed(tasks: &[Task], order: Scheduler, supply: &Counted, points: &[Point]) -> Result<usize, Broken> {
    let key = |task: &Task| if order == Scheduler::Rm { task.period } else { task.deadline };
    for (place, task) in tasks.iter().enumerate() {
        let mut own = points.iter().filter(|point| point.task == Some(place));
        let (Some(point), None) = (own.next(), own.next()) else {
            return Err(Broken::new(format!("a window for task '{}'", task.name), "one", "none or several"));
        };
        within(point, task.deadline)?;
        // Ties go to who is listed first.
        let before = |(other, one): (usize, &Task)| (key(one), other) <= (key(task), place);
        let ahead = tasks.iter().enumerate().filter(|&(other, one)| before((other, one))).map(|(_, one)| one);
        compare(point, ahead.map(|one| released(one, point.at.ns())).sum(), supply.supply(point.at.ns()))?;
    }
    match points.len() == tasks.len() {
        true => Ok(points.len()),
        false => Err(Broken::new("windows, one a task", tasks.len(), points.len())),
    }
}

fn any(tasks: &[Task], supply: &Counted, points: &[Point]) -> Result<usize, Broken> {
    let [point] = points else { return Err(Broken::new("windows for all tasks together", 1, points.len())) };
    let shortest = tasks.iter().map(|task| task.deadline).min().unwrap_or(Duration::ZERO);
    within(point, shortest)?;
    let all = tasks.iter().map(|task| released(task, point.at.ns())).sum();
    compare(point, all, supply.supply(point.at.ns()))?;
    Ok(1)
}

fn within(point: &Point, deadline: Duration) -> Result<(), Broken> {
    match !point.at.is_zero() && point.at <= deadline {
        true => Ok(()),
        false => Err(Broken::new("length of the window, up to the deadline", deadline, point.at)),
    }
}

fn edf(tasks: &[Task], supply: &Counted, points: &[Point], until: u64) -> Result<usize, Broken> {
    far_enough(tasks, supply, until)?;
    let first = tasks.iter().map(|task| task.deadline.ns()).min().unwrap_or(0);
    let start = points.first().map_or(until.saturating_add(1), |point| point.at.ns());
    if start > first && first <= until {
        return Err(Broken::new(
            "a window up to the first deadline",
            Duration::from_ns(first),
            Duration::from_ns(start),
        ));
    }
    for (nth, point) in points.iter().enumerate() {
        let end = points.get(nth + 1).map_or(until, |next| next.at.ns().saturating_sub(1));
        if end < point.at.ns() {
            return Err(Broken::new("windows in ascending order", point.at, Duration::from_ns(end)));
        }
        compare(point, due(tasks, end), supply.supply(point.at.ns()))?;
    }
    Ok(points.len())
}

/// Work released and due within any window of length t.
fn due(tasks: &[Task], t: u64) -> u128 {
    let jobs =
        |task: &Task| t.checked_sub(task.deadline.ns()).map_or(0, |rest| u128::from(rest / task.period.ns()) + 1);
    tasks.iter().map(|task| jobs(task) * work(task)).sum()
}

/// That nothing can be missed first after `until`. With U ≤ α = B/P either of two is enough:
///
/// - the lines. dbf(t) ≤ Σ U_i (t + T_i − D_i), and sbf(t) ≥ α(t − delay), so where these have crossed, supply is ahead
///   for good;
/// - a whole round. With H the hyperperiod of tasks and server, dbf(t + H) = dbf(t) + UH for t ≥ 0, as D ≤ T, and sbf(t + H) =
///   sbf(t) + αH from that delay on; so a miss later has one before it, down to the first H after those.
fn far_enough(tasks: &[Task], supply: &Counted, until: u64) -> Result<(), Broken> {
    let (used, bandwidth) =
        (utilization(tasks), fraction(supply.budget.into(), supply.period).unwrap_or_else(|| whole(0)));
    if used > bandwidth {
        return Err(Broken::new("no less bandwidth than its tasks use", used, bandwidth));
    }
    let delay = supply.delay();
    let asked: Exact = (tasks.iter())
        .filter_map(|task| {
            let reach = u128::from(until) + u128::from(task.period.ns()) - u128::from(task.deadline.ns());
            Some(of(task.wcet, task.period)? * whole(u128::from(task.copies) * reach))
        })
        .sum();
    let after = u128::from(until).saturating_sub(delay);
    let given = bandwidth * whole(after);
    if given >= asked || after >= round(tasks, supply) {
        return Ok(());
    }
    let what = "supply ahead of demand for good, by the lines around them";
    Err(Broken::new(what, format!("{} ns", asked.ceil()), format!("{} ns", given.floor())).at(until))
}

/// The hyperperiod of tasks and server, or more than any time.
fn round(tasks: &[Task], supply: &Counted) -> u128 {
    let longest = u128::from(u64::MAX);
    tasks.iter().map(|task| task.period.ns()).fold(u128::from(supply.period), |all, period| {
        let (mut a, mut b) = (all, u128::from(period));
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (all / a).checked_mul(period.into()).filter(|all| *all <= longest).unwrap_or(longest + 1)
    })
}
