//! A service without a promise of its own: a stage of paths. It says its `execution:`, and they say the rest.

use super::percentiles::execution;
use super::promised::{not_of_leftovers, one_mode, Keys, Promised, COMPUTED};
use crate::error::Fault;
use crate::fields::Fields;
use crate::task::is_measured;
use giusto_model::Promise;
use std::path::Path;

pub(super) const KEYS: Keys = Keys {
    foreign: &[
        "arrivals",
        "tasks",
        "scheduler",
        "vcpus",
        "copies",
        "threads",
        "margin",
        "criticality",
        "adapt",
        "load",
        "server",
        "cap",
    ],
    why: "a stage of paths, of which these say how messages come and what is promised",
};

/// Whether the service is one: it says what a message takes, and nothing of what it was promised or of how messages come.
pub(super) fn is_stage(fields: &Fields<'_>) -> bool {
    fields.get("promise").is_none() && fields.get("execution").is_some() && fields.get("arrivals").is_none()
}

/// Reads it; files are named from `base` on.
pub(super) fn read(fields: &Fields<'_>, base: &Path) -> Result<Promised, Fault> {
    not_of_leftovers(fields, COMPUTED)?;
    one_mode(fields, "paths are planned for one stream of messages")?;
    let time = fields.need("execution", "execution: 8ms, or execution: {mean: 8ms, wcet: 10ms}")?;
    if is_measured(time) {
        let expected =
            "expected a time, such as execution: 8ms, or a profile: execution: {histogram: profiles/search.csv}";
        return Err(time.fault("the execution time of a stage is not measured in its place yet", expected));
    }
    Ok(Promised::of(Promise::Stage { service: execution(time, base)?, counted: None }))
}
