//! `promise: {supply: 3ms/10ms}`, and `promise: supply` with one in each mode.

use super::promised::{not_of_leftovers, one_mode, Keys, Promised};
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::locals;
use crate::tree::Node;
use crate::vcpus::interfaces;
use giusto_model::{LocalNeed, Origin, Promise};

pub(crate) const PROMISE: Grammar = Grammar { what: "a promise", keys: &["supply", "worst"], later: &[] };
const SHARE: &str = "leave it out: the supply is the share that this promise needs";

pub(super) const KEYS: Keys = Keys {
    foreign: &["tasks", "scheduler", "vcpus", "margin", "arrivals", "execution", "copies", "threads"],
    why: "'promise: {supply: ...}', which is about processor time, not about response times",
};

/// Whether the promise at `node` is a map with such a key.
pub(super) fn is_supply(node: &Node) -> bool {
    node.entries().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == "supply"))
}

/// Reads one supply for all modes.
pub(super) fn read(fields: &Fields<'_>, node: &Node, origin: &Origin) -> Result<Promised, Fault> {
    not_of_leftovers(fields, SHARE)?;
    one_mode(fields, "a supply beside it is one for all modes: write promise: supply, and one in each mode")?;
    let supply = PROMISE.read(node, node.span)?.need("supply", "promise: {supply: 3ms/10ms}")?;
    Ok(Promised::of(Promise::Supply(interfaces(supply, origin)?)))
}

/// Reads one supply for each mode.
pub(super) fn in_modes(fields: &Fields<'_>, node: &Node, origin: &Origin) -> Result<Promised, Fault> {
    not_of_leftovers(fields, SHARE)?;
    let Some(modes) = fields.get("modes") else {
        return Err(node.fault(
            "it is not said how much",
            "expected promise: {supply: 3ms/10ms}, or 'modes' with a supply in each",
        ));
    };
    let modes = locals::with_supplies(modes, origin)?;
    let first = modes.first().map(|mode| &mode.need);
    let interfaces = if let Some(LocalNeed::Supply(own)) = first { own.clone() } else { Vec::new() };
    Ok(Promised { modes, ..Promised::of(Promise::Supply(interfaces)) })
}
