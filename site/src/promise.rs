//! `promise:`, `at-least:` and `at-most:`.

use crate::deadlines;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::locals;
use crate::percentiles::{self, is_percentiles};
use crate::suggest::did_you_mean;
use crate::task;
use crate::tree::{Kind, Node};
use crate::value::{parsed, scalar, share, shown};
use giusto_model::{Bandwidth, Interface, LocalNeed, Measured, Origin, Promise, ServiceMode, Task};
use std::path::Path;

const PROMISES: [&str; 4] = ["as-if-alone", "every-deadline", "leftovers", "supply"];
const EXPECTED: &str =
    "expected every-deadline (no job late), as-if-alone (the latency of a whole core), {p90: 30ms, p99: 80ms} (percentiles \
     of response time), {supply: 3ms/10ms} (so much processor time in every period) or leftovers (throughput)";
/// Most virtual CPUs of one VM.
pub(crate) const VCPUS: usize = 256;
const SUPPLY: &str = "expected a budget in every period, such as 3ms/10ms, or a list with one for each virtual CPU";

pub(crate) const PROMISE: Grammar = Grammar { what: "a promise", keys: &["supply", "worst"], later: &[] };

/// A promise, the tasks that it is about, and, where it is about several sets of them, all local modes; promise and tasks are
/// then those of the first.
pub(crate) struct Promised {
    pub(crate) promise: Promise,
    pub(crate) tasks: Vec<Task>,
    pub(crate) modes: Vec<ServiceMode>,
    pub(crate) measured: Measured,
}

impl Promised {
    pub(crate) fn of(promise: Promise) -> Self {
        Promised { promise, tasks: Vec::new(), modes: Vec::new(), measured: Measured::Declared }
    }
}

/// Reads what a service from `origin` was promised; files are named from `base` on.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin, base: &Path) -> Result<Promised, Fault> {
    let node = fields.need("promise", "promise: as-if-alone, or promise: leftovers")?;
    if is_percentiles(node) {
        not_of_leftovers(fields, "leave it out: Giusto computes the share that this promise needs")?;
        one_mode(fields, "percentiles are planned for one stream of requests")?;
        let (promise, measured) = percentiles::read(fields, node, base)?;
        return Ok(Promised { measured, ..Promised::of(promise) });
    }
    if node.entries().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == "supply")) {
        not_of_leftovers(fields, "leave it out: the supply is the share that this promise needs")?;
        one_mode(fields, "a supply beside it is one for all modes: write promise: supply, and one in each mode")?;
        let supply = PROMISE.read(node, node.span)?.need("supply", "promise: {supply: 3ms/10ms}")?;
        return Ok(Promised::of(Promise::Supply(interfaces(supply, origin)?)));
    }
    match scalar(node, EXPECTED)?.text.as_str() {
        timely @ ("as-if-alone" | "every-deadline") => {
            not_of_leftovers(fields, "leave it out: Giusto computes the share that this promise needs")?;
            if timely == "every-deadline" {
                return deadlines::read(fields, origin);
            }
            one_mode(fields, "the latency of a whole core is planned for one set of tasks")?;
            let tasks = fields.need("tasks", "tasks: [{wcet: 50us, period: 1ms}]")?;
            let (tasks, measured) = task::read_driven(tasks)?;
            Ok(Promised { tasks, measured, ..Promised::of(Promise::AsIfAlone) })
        }
        "supply" => {
            not_of_leftovers(fields, "leave it out: the supply is the share that this promise needs")?;
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
        "leftovers" => {
            one_mode(fields, "a mode of the site can stop it, such as emergency: {batch: stopped}")?;
            Ok(Promised::of(leftovers(fields)?))
        }
        other => {
            let expected = format!("{EXPECTED}{}", did_you_mean(other, PROMISES));
            Err(node.fault(format!("'{}' is not a promise", shown(other)), expected))
        }
    }
}

/// Refuses `modes`.
fn one_mode(fields: &Fields<'_>, why: &str) -> Result<(), Fault> {
    let expected = format!("leave it out: {why}; it goes with every-deadline and supply");
    fields.forbid("modes", "'modes' does not go with this promise", &expected)
}

fn not_of_leftovers(fields: &Fields<'_>, expected: &str) -> Result<(), Fault> {
    ["at-least", "at-most"]
        .into_iter()
        .try_for_each(|key| fields.forbid(key, &format!("'{key}' goes with 'promise: leftovers' only"), expected))
}

fn leftovers(fields: &Fields<'_>) -> Result<Promise, Fault> {
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
    Ok(Promise::Leftovers { at_least, at_most })
}

/// `3ms/10ms`, or a list with one for each virtual CPU.
pub(crate) fn interfaces(node: &Node, origin: &Origin) -> Result<Vec<Interface>, Fault> {
    let items = if let Kind::List(items) = &node.kind { items.as_slice() } else { std::slice::from_ref(node) };
    match items {
        [] => return Err(node.fault("there is no budget in this list", SUPPLY)),
        [_, second, ..] if !origin.has_vcpus() => {
            let expected = "expected one budget for all its threads together; several are for the virtual CPUs of a VM";
            return Err(second.fault("this service has no virtual CPUs that could be told apart", expected));
        }
        _ if items.len() > VCPUS => {
            return Err(items[VCPUS].fault(format!("more than {VCPUS} virtual CPUs are not built yet"), SUPPLY));
        }
        _ => {}
    }
    items.iter().map(|item| parsed::<Interface>(item, SUPPLY)).collect()
}
