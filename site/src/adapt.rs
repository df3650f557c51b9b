//! `adapt:` of a service.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::shown;
use crate::tree::Kind;
use crate::value::{scalar, share};
use giusto_model::{About, Bandwidth, Promise};

const ADAPT: Grammar = Grammar { what: "adapt", keys: &["up-to"], later: &[] };
const EXPECTED: &str =
    "expected the most it may get should it ask for more than planned, such as adapt: {up-to: 50%}, yes (as much as fits) or no";

/// Reads the share of a core that it may be planned anew with.
pub(crate) fn read(fields: &Fields<'_>, promise: &Promise) -> Result<Option<Bandwidth>, Fault> {
    let Some(node) = fields.get("adapt") else { return Ok(None) };
    if promise.about() != About::Requests {
        let found = "'adapt' does not go with this promise: what was declared for it is not exceeded, or there is nothing to adapt";
        fields.forbid("adapt", found, "leave it out, or promise as-if-alone or percentiles")?;
    }
    match &node.kind {
        Kind::Map(_) => {
            let up_to = ADAPT.read(node, node.span)?.need("up-to", "up-to: 50%")?;
            share(up_to, "up-to: 50%").map(Some)
        }
        // Here a truth value is what is meant.
        Kind::Text(text) if text.text == "yes" => Ok(Some(Bandwidth::ONE)),
        Kind::Text(text) if text.text == "no" => Ok(None),
        _ => {
            let other = &scalar(node, EXPECTED)?.text;
            Err(node.fault(format!("'{}' is no way to adapt", shown(other)), EXPECTED))
        }
    }
}
