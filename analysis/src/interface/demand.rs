//! What a task set asks for: rbf and dbf.

use giusto_model::{Duration, Task};

/// rbf_i(t): work of the task at `order[rank]` and of all before it in `order` that a synchronous release brings in [0, t), in
/// ns ([Lee11, § II-A]; it prints p_i for p_k, and the sum has a ceiling). t > 0. O(rank).
pub fn request(tasks: &[Task], order: &[usize], rank: usize, t: Duration) -> u128 {
    order[..=rank].iter().map(|&k| u128::from(t.ns().div_ceil(tasks[k].period.ns())) * work(&tasks[k])).sum()
}

/// dbf(t): work released and due within any window of length t, in ns. O(n).
pub fn demand(tasks: &[Task], t: Duration) -> u128 {
    let due = |task: &Task| match t.ns().checked_sub(task.deadline.ns()) {
        Some(rest) => u128::from(rest / task.period.ns() + 1),
        None => 0,
    };
    tasks.iter().map(|task| due(task) * work(task)).sum()
}

/// C, copies counted.
pub(super) fn work(task: &Task) -> u128 {
    u128::from(task.wcet.ns()) * u128::from(task.copies)
}

/// The least deadline t ≥ `from` of any window; `None` beyond 584 years.
pub(super) fn deadline_from(tasks: &[Task], from: u64) -> Option<u64> {
    let next = |task: &Task| {
        let (deadline, period) = (task.deadline.ns(), task.period.ns());
        let jobs = from.saturating_sub(deadline).div_ceil(period);
        jobs.checked_mul(period)?.checked_add(deadline)
    };
    tasks.iter().filter_map(next).min()
}

/// The greatest deadline ≤ `until` of any window.
pub(super) fn deadline_until(tasks: &[Task], until: u64) -> Option<u64> {
    let last = |task: &Task| until.checked_sub(task.deadline.ns()).map(|rest| until - rest % task.period.ns());
    tasks.iter().filter_map(last).max()
}

/// A task that has a deadline at `t`, by its place.
pub(super) fn due_at(tasks: &[Task], t: u64) -> Option<usize> {
    tasks.iter().position(|task| t.checked_sub(task.deadline.ns()).is_some_and(|rest| rest % task.period.ns() == 0))
}
