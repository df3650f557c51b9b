//! `promise: leftovers`, `at-least:` and `at-most:`.

use super::promised::{one_mode, Keys, Promised};
use crate::error::Fault;
use crate::fields::Fields;
use crate::value::share;
use giusto_model::{Bandwidth, Promise};

pub(super) const KEYS: Keys = Keys {
    foreign: &[
        "tasks",
        "scheduler",
        "vcpus",
        "copies",
        "threads",
        "load",
        "margin",
        "server",
        "cap",
        "arrivals",
        "execution",
    ],
    why: "'promise: leftovers', which is about throughput, not time",
};

/// Reads floor and cap.
pub(super) fn read(fields: &Fields<'_>) -> Result<Promised, Fault> {
    one_mode(fields, "a mode of the site can stop it, such as emergency: {batch: stopped}")?;
    let at_least = fields.get("at-least").map_or(Ok(Bandwidth::ZERO), |node| share(node, "at-least: 10%"))?;
    let most = fields.get("at-most");
    let at_most = most.map(|node| share(node, "at-most: 40%")).transpose()?;
    if let (Some(node), Some(at_most)) = (most, at_most) {
        if at_most < at_least || at_most == Bandwidth::ZERO {
            let found = format!("a cap of {} is below the floor of {}", at_most.percent(), at_least.percent());
            let found = if at_most == Bandwidth::ZERO { "a cap of nothing is no share".into() } else { found };
            return Err(node.fault(found, "expected at-most: above 0% and not below at-least"));
        }
    }
    Ok(Promised::of(Promise::Leftovers { at_least, at_most }))
}
