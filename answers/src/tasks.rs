//! What all calculators of task sets share.

use crate::Error;
use giusto_analysis::interface::{Point, Shortfall};
use giusto_model::Task;

/// The tasks, named after their places: `task1`, `task2`, …
pub fn named(tasks: &[Task]) -> Vec<Task> {
    let named = |(place, task): (usize, &Task)| Task { name: format!("task{}", place + 1), ..task.clone() };
    tasks.iter().enumerate().map(named).collect()
}

/// The witness that `resource` is not enough for `tasks`.
pub fn falls_short(tasks: &[Task], resource: &str, shortfall: &Shortfall) -> Error {
    let Shortfall { point: Point { at, demand, supply, .. }, task } = shortfall;
    let name = &tasks[*task].name;
    let text = format!(
        "{resource} is not enough: '{name}' can miss its deadline, as in {at} up to {demand} of work are asked for, and as \
         little as {supply} is supplied"
    );
    Error::short(text, shortfall)
}
