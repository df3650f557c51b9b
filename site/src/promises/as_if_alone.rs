//! `promise: as-if-alone`.

use super::promised::{not_of_leftovers, one_mode, Keys, Promised, COMPUTED};
use crate::error::Fault;
use crate::fields::Fields;
use crate::task;
use giusto_model::Promise;

pub(super) const KEYS: Keys = Keys {
    foreign: &["scheduler", "vcpus", "arrivals", "execution", "criticality"],
    why: "'promise: as-if-alone', for which any order of its jobs and one virtual CPU are assumed",
};

/// Reads the tasks of a service with this promise.
pub(super) fn read(fields: &Fields<'_>) -> Result<Promised, Fault> {
    not_of_leftovers(fields, COMPUTED)?;
    one_mode(fields, "the latency of a whole core is planned for one set of tasks")?;
    let tasks = fields.need("tasks", "tasks: [{wcet: 50us, period: 1ms}]")?;
    let (tasks, measured) = task::read_driven(tasks)?;
    Ok(Promised { tasks, measured, ..Promised::of(Promise::AsIfAlone) })
}
