//! `promise:` and `at-least:`.

use crate::error::Fault;
use crate::fields::Fields;
use crate::suggest::did_you_mean;
use crate::tree::{Kind, Node};
use crate::value::{scalar, share, shown};
use giusto_model::{Bandwidth, Promise};

const PROMISES: [&str; 2] = ["as-if-alone", "leftovers"];
const EXPECTED: &str = "expected as-if-alone (the latency of a whole core) or leftovers (throughput)";

/// Reads what a service was promised.
pub(crate) fn read(fields: &Fields<'_>) -> Result<Promise, Fault> {
    let node = fields.need("promise", "promise: as-if-alone, or promise: leftovers")?;
    if is_percentiles(node) {
        return Err(node.fault("a promise of percentiles is not built yet", EXPECTED));
    }
    match scalar(node, EXPECTED)?.text.as_str() {
        "as-if-alone" => {
            let found = "'at-least' goes with 'promise: leftovers' only";
            fields.forbid("at-least", found, "leave it out: Giusto computes the share that this promise needs")?;
            Ok(Promise::AsIfAlone)
        }
        "leftovers" => {
            let at_least = fields.get("at-least").map_or(Ok(Bandwidth::ZERO), |node| share(node, "at-least: 10%"))?;
            Ok(Promise::Leftovers { at_least })
        }
        "every-deadline" => Err(node.fault("'every-deadline' is not built yet", EXPECTED)),
        other => {
            let expected = format!("{EXPECTED}{}", did_you_mean(other, PROMISES));
            Err(node.fault(format!("'{}' is not a promise", shown(other)), expected))
        }
    }
}

/// `{p90: 30ms, p99: 80ms}`.
fn is_percentiles(node: &Node) -> bool {
    let percentile = |key: &str| key.strip_prefix('p').is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()));
    matches!(&node.kind, Kind::Map(entries) if entries.iter().any(|(key, _)| percentile(&key.text)))
}
