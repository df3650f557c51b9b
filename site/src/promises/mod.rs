//! `promise:` of a service. Each has a file with its keys; this is their list.

mod as_if_alone;
mod every_deadline;
mod leftovers;
pub(crate) mod percentiles;
mod promised;
mod stage;
pub(crate) mod supply;

use crate::error::Fault;
use crate::fields::Fields;
use crate::suggest::{did_you_mean, shown};
use crate::value::scalar;
use giusto_model::{Origin, Promise};
pub(crate) use promised::{Keys, Promised};
use std::path::Path;

const PROMISES: [&str; 4] = ["as-if-alone", "every-deadline", "leftovers", "supply"];
const EXPECTED: &str =
    "expected every-deadline (no job late), as-if-alone (the latency of a whole core), {p90: 30ms, p99: 80ms} (percentiles \
     of response time), {supply: 3ms/10ms} (so much processor time in every period) or leftovers (throughput)";

/// Reads what a service from `origin` was promised; files are named from `base` on.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin, base: &Path) -> Result<Promised, Fault> {
    if stage::is_stage(fields) {
        return stage::read(fields, base);
    }
    let node = fields.need("promise", "promise: as-if-alone, or promise: leftovers")?;
    if percentiles::is_percentiles(node) {
        return percentiles::read(fields, node, base);
    }
    if supply::is_supply(node) {
        return supply::read(fields, node, origin);
    }
    match scalar(node, EXPECTED)?.text.as_str() {
        "as-if-alone" => as_if_alone::read(fields),
        "every-deadline" => every_deadline::read(fields, origin),
        "supply" => supply::in_modes(fields, node, origin),
        "leftovers" => leftovers::read(fields),
        other => {
            let expected = format!("{EXPECTED}{}", did_you_mean(other, PROMISES));
            Err(node.fault(format!("'{}' is not a promise", shown(other)), expected))
        }
    }
}

/// What does not go with such a promise.
pub(crate) fn keys(promise: &Promise) -> Keys {
    match promise {
        Promise::AsIfAlone => as_if_alone::KEYS,
        Promise::EveryDeadline { .. } => every_deadline::KEYS,
        Promise::Percentiles { .. } => percentiles::KEYS,
        Promise::Stage { .. } => stage::KEYS,
        Promise::Supply(_) => supply::KEYS,
        Promise::Leftovers { .. } => leftovers::KEYS,
    }
}
