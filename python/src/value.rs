//! Values as the rooms read them, for what Python computes itself.

use crate::words::{RateWord, TaskWord, Time};
use giusto_model::{Release, Task};
use pyo3::prelude::*;

/// wcet, period, deadline, offset (where it is kept) and copies in ns.
pub(crate) type Fields = (u64, u64, u64, Option<u64>, u32);

/// Of a task.
pub(crate) fn fields(task: &Task) -> Fields {
    let offset = (task.release == Release::KeptOffset).then(|| task.offset.ns());
    (task.wcet.ns(), task.period.ns(), task.deadline.ns(), offset, task.copies)
}

/// A time in ns.
#[pyfunction]
pub(crate) fn time(given: Time) -> u64 {
    given.0.ns()
}

/// Events, and the ns in which they come.
#[pyfunction]
pub(crate) fn rate(given: RateWord) -> (u64, u64) {
    given.0.fraction()
}

/// The fields of a task.
#[pyfunction]
pub(crate) fn task(given: TaskWord) -> Fields {
    fields(&given.0)
}
