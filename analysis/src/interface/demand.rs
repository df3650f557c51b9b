//! What a task set asks for: rbf and dbf.

use giusto_model::{Duration, Task};

/// rbf_i(t): work of the task at `order[rank]` and of all before it in `order` that a synchronous release brings in [0, t), in
/// ns (paper 002, § II-A; it prints p_i for p_k, and the sum has a ceiling). t > 0. O(rank).
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
fn work(task: &Task) -> u128 {
    u128::from(task.wcet.ns()) * u128::from(task.copies)
}
