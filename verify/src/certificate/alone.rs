//! `as-if-alone`: no window as long as the server's period has more work on a whole core than the budget (LiH21,
//! Theorem 1), so that the budget never runs out.

use super::broken::Broken;
use super::exact::work;
use giusto_model::{Duration, Release, Server, Task};

/// Steps that take some seconds.
const MOST_STEPS: u128 = 50_000_000;

/// Whether no window of `server`'s period has more than `demand`, and the budget is enough for that; windows compared.
pub(super) fn check(tasks: &[Task], server: Server, from: Option<Duration>, demand: Duration) -> Result<usize, Broken> {
    let (period, claimed) = (server.period.ns(), u128::from(demand.ns()));
    if demand > server.budget {
        return Err(Broken::new("budget for the work of a whole core", demand, server.budget).at(period));
    }
    let (bound, compared) = bound(tasks, period)?;
    let kept = tasks.iter().all(|task| task.release == Release::KeptOffset);
    if !kept || bound <= claimed {
        return at_most(bound, claimed, period).map(|()| compared);
    }
    let core = Core::play(tasks, period)?;
    at_most(core.most(period), claimed, period)?;
    let own = from.map(|from| core.steady + u128::from(from.ns())).map(|from| core.window(from, period));
    match own {
        Some(own) if own < claimed => {
            Err(Broken::new("work in the window that is named", format!("{claimed} ns"), format!("{own} ns"))
                .at(period))
        }
        _ => Ok(core.busy.len()),
    }
}

/// Whether no period has more than `demand` of `tasks` and what is lost of it, wherever jobs come, and the server besides what is
/// lost and what so late a supply may put off into the next: then its budget never runs out. Windows compared.
pub(super) fn never_out(
    tasks: &[Task],
    server: Server,
    demand: Duration,
    loss: Duration,
    latency: Duration,
) -> Result<usize, Broken> {
    let needed = [loss, latency].into_iter().try_fold(demand, Duration::checked_add);
    if needed.is_none_or(|needed| needed > server.budget) {
        let needed = needed.map_or("more than 584 years".into(), |needed| needed.to_string());
        return Err(Broken::new("budget for its work and what is lost or put off", needed, server.budget));
    }
    let lost =
        Task { name: String::new(), wcet: loss, period: server.period, deadline: server.period, ..tasks[0].clone() };
    let lost = (!loss.is_zero()).then_some(Task { copies: 1, ..lost });
    let all: Vec<Task> = tasks.iter().cloned().chain(lost).collect();
    let (bound, compared) = bound(&all, server.period.ns())?;
    at_most(bound, demand.ns().into(), server.period.ns()).map(|()| compared)
}

/// The longest time for which these tasks with kept offsets hold a whole core without a gap, of all that comes. `None`: their
/// offsets are not kept, or too much comes.
pub(super) fn longest_busy_kept(tasks: &[Task]) -> Option<Duration> {
    let kept = tasks.iter().all(|task| task.release == Release::KeptOffset);
    let core = kept.then(|| Core::play(tasks, 0).ok()).flatten()?;
    let longest = core.busy.iter().map(|busy| busy.to - busy.from).max().unwrap_or(0);
    Some(Duration::from_ns(u64::try_from(longest).unwrap_or(u64::MAX)))
}

/// The same wherever jobs come: until the first idle instant after a joint release of all, the least t with
/// Σ (⌊t/T⌋ + 1)·C ≤ t.
pub(super) fn longest_busy(tasks: &[Task]) -> Result<Duration, Broken> {
    let mut busy = 0u128;
    for _ in 0..MOST_STEPS {
        let come = |task: &Task| (busy / u128::from(task.period.ns()) + 1) * work(task);
        let next: u128 = tasks.iter().map(come).sum();
        if next <= busy {
            return Ok(Duration::from_ns(u64::try_from(busy).unwrap_or(u64::MAX)));
        }
        busy = next;
    }
    Err(Broken::new("steps to establish how long a core is busy", format!("at most {MOST_STEPS}"), "more"))
}

fn at_most(most: u128, claimed: u128, period: u64) -> Result<(), Broken> {
    match most <= claimed {
        true => Ok(()),
        false => Err(Broken::new("budget for all windows", format!("{most} ns"), format!("{claimed} ns")).at(period)),
    }
}

/// What no window of `period` has more of, whatever the phases: for any u, of what is released in its first u all is done at
/// most, and in the rest no more than the rest. Exact for sporadic tasks. The least is where nothing has just been released.
fn bound(tasks: &[Task], period: u64) -> Result<(u128, usize), Broken> {
    let steps: u128 = tasks.iter().map(|task| u128::from(period / task.period.ns())).sum();
    affordable((steps + 1) * tasks.len() as u128)?;
    let within = |u: u64| {
        let released = tasks.iter().map(|task| u128::from(u.div_ceil(task.period.ns())) * work(task));
        released.sum::<u128>() + u128::from(period - u)
    };
    let ends = tasks.iter().flat_map(|task| (1..=period / task.period.ns()).map(|nth| nth * task.period.ns()));
    Ok((ends.chain([period]).map(within).fold(u128::from(period), u128::min), steps as usize + 1))
}

fn affordable(steps: u128) -> Result<(), Broken> {
    match steps <= MOST_STEPS {
        true => Ok(()),
        false => {
            Err(Broken::new("steps to establish the work of a whole core", format!("at most {MOST_STEPS}"), steps))
        }
    }
}

/// A whole core with these tasks and their offsets alone, from its start until everything has repeated itself.
struct Core {
    busy: Vec<Busy>,
    /// A multiple of the hyperperiod after which each round is like the one before.
    steady: u128,
    /// The end of the first such round.
    last: u128,
}

/// The core works from `from` to `to`; so much it had done `before`.
struct Busy {
    from: u128,
    to: u128,
    before: u128,
}

impl Core {
    fn play(tasks: &[Task], period: u64) -> Result<Self, Broken> {
        let round = tasks.iter().try_fold(1u128, |all, task| {
            let (mut a, mut b) = (all, u128::from(task.period.ns()));
            while b != 0 {
                (a, b) = (b, a % b);
            }
            let all = all / a * u128::from(task.period.ns());
            affordable(all / 1_000_000_000).map(|()| all) // more than a year
        })?;
        // A backlog goes back one round at most, once all have started.
        let started = tasks.iter().map(|task| u128::from(task.offset.ns())).max().unwrap_or(0);
        let steady = (started.div_ceil(round) + 1) * round;
        let end = steady + round + u128::from(period);
        let jobs: u128 = tasks.iter().map(|task| end / u128::from(task.period.ns()) + 1).sum();
        affordable(jobs * tasks.len() as u128)?;
        let mut next: Vec<u128> = tasks.iter().map(|task| u128::from(task.offset.ns())).collect();
        let (mut busy, mut done) = (Vec::<Busy>::new(), 0);
        while let Some((task, at)) = (0..next.len()).map(|task| (task, next[task])).min_by_key(|(_, at)| *at) {
            if at > end {
                break;
            }
            let work = work(&tasks[task]);
            match busy.last_mut() {
                Some(last) if at <= last.to => last.to += work,
                _ => busy.push(Busy { from: at, to: at + work, before: done }),
            }
            done += work;
            next[task] += u128::from(tasks[task].period.ns());
        }
        Ok(Core { busy, steady, last: steady + round })
    }

    /// The most work of any window: one that starts with a busy time has most, and after one round nothing is new.
    fn most(&self, period: u64) -> u128 {
        let starts = self.busy.iter().map(|busy| busy.from).filter(|from| *from <= self.last);
        starts.map(|from| self.window(from, period)).max().unwrap_or(0)
    }

    /// Work done until `t`.
    fn supplied(&self, t: u128) -> u128 {
        let after = self.busy.partition_point(|busy| busy.from <= t);
        after.checked_sub(1).map_or(0, |last| self.busy[last].before + t.min(self.busy[last].to) - self.busy[last].from)
    }

    fn window(&self, from: u128, period: u64) -> u128 {
        self.supplied(from + u128::from(period)) - self.supplied(from)
    }
}
