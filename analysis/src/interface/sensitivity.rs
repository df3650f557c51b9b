//! How far each number may be off before a deadline can be missed: which microsecond breaks you first.
//!
//! One number changes at a time, all others stay. [`sensitivity`] counts on this: what fits goes on to fit with less work,
//! later deadlines, longer periods and more supply.
//!
//! * C, L, Θ, Π: rbf and dbf rise with C, sbf(t − L) falls with L, and sbf⁻¹ (Π − Θ more for each budget that is waited for)
//!   rises with Π and falls with Θ. No priority depends on them.
//! * D: dbf falls as D grows. Under RM the order stays. Under DM it may not; but the order of the shorter D, kept, is still
//!   enough, and if any order is, DM is: of two neighbours the one with the later deadline may go below, since then it
//!   waits for what the other had waited for, and has longer.
//! * T, where D is cut to T: under EDF and DM as above, since a longer T alone leaves the order and lessens the work. Under RM,
//!   let all fit with T' and with the present T₀ > T'. With a T between, the others meet less work than with T'. The task
//!   itself, while T ≥ D, waits for no more than with T₀. Else D = T: let k be the last of those that have gone above it
//!   since T'. With T', k was done by its period, which is at most T, with one job of the task and all that it waits for now.
//!
//! So a value that breaks one point (EDF) or one task (fixed priority) bounds the answer, and so does the last value that does not
//! break it, found by halving at that point or task alone. The search goes from such bound to bound until one fits.

use super::demand::{demand, request};
use super::supply::supplied;
use super::{check, prove, schedulable, Resource, Scheduler, Shortfall};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Task};
use serde::{Deserialize, Serialize};

/// Most bounds of one search; then it halves with whole tests.
const MOST_BOUNDS: u32 = 100;
/// Steps of all tests, a second or so. A test may take a part of what is left of them, and these at least.
const ALL_STEPS: u64 = 5_000_000;
const PART: u64 = 16;
const FEWEST_STEPS: u64 = 1000;
/// Most steps to where one task is done.
const MOST_STEPS: u32 = 100_000;

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// C of a task, upward, to D at most.
    Wcet,
    /// T of a task, downward; D with it where it would be longer.
    Period,
    /// D of a task whose D < T, downward.
    Deadline,
    /// L, upward.
    Latency,
    /// Θ, downward.
    Budget,
    /// Π, upward.
    ServerPeriod,
}

/// The last value with which everything still fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Of what.
    pub what: What,
    /// Of which task, by its place in the list.
    pub task: Option<usize>,
    /// The value that it has.
    #[serde(rename = "now_ns")]
    pub now: Duration,
    /// The last one that fits, as all up to it do.
    #[serde(rename = "limit_ns")]
    pub limit: Duration,
    /// The way from one to the other, in parts of the value that it has; of a latency, of the shortest deadline.
    pub slack: Bandwidth,
    /// One ns more does not fit; else it takes too many steps to tell.
    pub exact: bool,
}

/// The limits of all tasks, of the latency and of the server, the one with the least slack first.
///
/// Ok(Err): `resource` is not even enough as it is. A line or a table has no Θ and Π, an aligned resource no other Π or T. A few
/// tests for each limit; where they take too many steps, the limits that are told are not exact. Errors: as [`schedulable`].
pub fn sensitivity(
    tasks: &[Task],
    scheduler: Scheduler,
    resource: &Resource,
    latency: Duration,
) -> Result<Result<Vec<Limit>, Shortfall>, Error> {
    if let Err(shortfall) = schedulable(tasks, scheduler, resource, latency)? {
        return Ok(Err(shortfall));
    }
    let movable = !matches!(resource, Resource::Aligned { .. });
    let shortest = tasks.iter().map(|task| task.deadline).min().unwrap_or_default();
    let mut limits = Vec::new();
    let mut rest = ALL_STEPS;
    let mut push = |what, place: Option<usize>, now: Duration, whole: Duration, bad: u64| {
        let (tasks, resource) = (tasks.to_vec(), resource.clone());
        let deadline = place.map_or(Duration::ZERO, |place| tasks[place].deadline);
        let mut trial = Trial { what, place: place.unwrap_or(0), deadline, tasks, scheduler, resource, latency, rest };
        let (limit, exact) = trial.last(now.ns(), bad)?;
        rest = trial.rest;
        let slack = Bandwidth::new(now.ns().abs_diff(limit), whole.ns()).unwrap_or(Bandwidth::ZERO);
        limits.push(Limit { what, task: place, now, limit: Duration::from_ns(limit), slack, exact });
        Ok::<(), Error>(())
    };
    for (place, task) in tasks.iter().enumerate() {
        let less = task.wcet.ns() - 1; // C ≤ D
        push(What::Wcet, Some(place), task.wcet, task.wcet, task.deadline.ns().saturating_add(1))?;
        if task.deadline < task.period {
            push(What::Deadline, Some(place), task.deadline, task.deadline, less)?;
        }
        if movable {
            push(What::Period, Some(place), task.period, task.period, less)?;
        }
    }
    // Nothing is supplied up to the first deadline if L, or the gap of the supply, reaches it.
    push(What::Latency, None, latency, shortest, shortest.ns())?;
    if let Resource::Periodic { period, budget }
    | Resource::Aligned { period, budget }
    | Resource::ExplicitDeadline { period, budget, .. } = *resource
    {
        push(What::Budget, None, budget, budget, 0)?;
        if movable {
            push(What::ServerPeriod, None, period, period, budget.ns().saturating_add(shortest.ns()))?;
        }
    }
    limits.sort_by_key(|limit| limit.slack); // stable: of equal slack in the order of the list
    Ok(Ok(limits))
}

/// The question, with one number that changes.
struct Trial {
    what: What,
    place: usize,
    /// D of the task.
    deadline: Duration,
    tasks: Vec<Task>,
    scheduler: Scheduler,
    resource: Resource,
    latency: Duration,
    /// Steps that are left.
    rest: u64,
}

/// The last value that fits, and whether the next is known not to.
type Found = (u64, bool);

impl Trial {
    /// From `good`, which fits, toward `bad`, which cannot, up or down.
    fn last(&mut self, good: u64, bad: u64) -> Result<Found, Error> {
        let mut value = if good < bad { bad - 1 } else { bad + 1 };
        // Who waits for most is most often the first to miss, and spares the bounds of the others.
        for task in self.scheduler.order(&self.tasks).unwrap_or_default().into_iter().rev() {
            value = self.bound(good, value, task, Duration::ZERO)?;
        }
        for _ in 0..MOST_BOUNDS {
            match self.test(value)? {
                Some(Ok(())) => return Ok((value, true)),
                Some(Err(missed)) => match self.bound(good, value, missed.task, missed.point.at)? {
                    nearer if nearer != value => value = nearer,
                    _ => break,
                },
                None => break,
            }
        }
        let told = self.test(value)?;
        if told == Some(Ok(())) {
            return Ok((value, true));
        }
        halve(good, value, told.is_some(), &mut |value| Ok(self.test(value)?.map(|answer| answer.is_ok())))
    }

    fn put(&mut self, value: u64) {
        let (value, task) = (Duration::from_ns(value), &mut self.tasks[self.place]);
        match (self.what, &mut self.resource) {
            (What::Wcet, _) => task.wcet = value,
            (What::Deadline, _) => task.deadline = value,
            (What::Period, _) => (task.period, task.deadline) = (value, value.min(self.deadline)),
            (What::Latency, _) => self.latency = value,
            (
                what,
                Resource::Periodic { period, budget }
                | Resource::Aligned { period, budget }
                | Resource::ExplicitDeadline { period, budget, .. },
            ) => *(if what == What::Budget { budget } else { period }) = value,
            (What::Budget | What::ServerPeriod, _) => {}
        }
    }

    /// All of it; `None`: too many steps to tell.
    fn test(&mut self, value: u64) -> Result<Option<Result<(), Shortfall>>, Error> {
        self.put(value);
        check(&self.tasks)?;
        self.resource.validate_for(&self.tasks)?;
        let most = (self.rest / PART).max(FEWEST_STEPS);
        let mut left = most;
        let answer = prove(&self.tasks, self.scheduler, &self.resource, self.latency, &mut left);
        self.rest = self.rest.saturating_sub(most - left);
        match answer {
            Ok(answer) => Ok(Some(answer.map(|_| ()))),
            Err(Error::TooClose) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The last value from `good` to `value` with which nothing is missed at `at` (EDF), or by `task` (fixed priority); `value`
    /// if that takes too long to tell.
    fn bound(&mut self, good: u64, value: u64, task: usize, at: Duration) -> Result<u64, Error> {
        if self.meets(value, task, at) != Some(false) {
            return Ok(value);
        }
        let (last, told) = halve(good, value, true, &mut |value| Ok(self.meets(value, task, at)))?;
        Ok(if told { last } else { value })
    }

    /// `None`: too many steps to tell.
    fn meets(&mut self, value: u64, task: usize, at: Duration) -> Option<bool> {
        self.put(value);
        let Trial { tasks, resource, latency, .. } = self;
        let Some(order) = self.scheduler.order(tasks) else {
            return Some(demand(tasks, at) <= u128::from(supplied(resource, *latency, at).ns()));
        };
        let rank = order.iter().position(|place| *place == task).unwrap_or(0);
        let deadline = tasks[task].deadline;
        let mut at = Duration::from_ns(1);
        for _ in 0..MOST_STEPS {
            let done = resource.inverse(request(tasks, &order, rank, at)).and_then(|t| t.checked_add(*latency));
            match done.filter(|done| *done <= deadline) {
                Some(done) if done > at => at = done,
                done => return Some(done.is_some()),
            }
        }
        None
    }
}

/// From `good` toward `bad`, of which it is `told` whether it is known not to fit, up or down.
fn halve(
    mut good: u64,
    mut bad: u64,
    mut told: bool,
    fits: &mut dyn FnMut(u64) -> Result<Option<bool>, Error>,
) -> Result<Found, Error> {
    while good.abs_diff(bad) > 1 {
        let middle = good.min(bad) + good.abs_diff(bad) / 2;
        match fits(middle)? {
            Some(true) => good = middle,
            answer => (bad, told) = (middle, answer.is_some()),
        }
    }
    Ok((good, told))
}
