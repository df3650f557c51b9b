//! `promise:`, `at-least:` and `at-most:`.

use crate::deadlines;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::percentiles::{self, is_percentiles};
use crate::suggest::did_you_mean;
use crate::task;
use crate::tree::{Kind, Node};
use crate::value::{parsed, scalar, share, shown};
use giusto_model::{Bandwidth, Interface, Origin, Promise, Task};
use std::path::Path;

const PROMISES: [&str; 3] = ["as-if-alone", "every-deadline", "leftovers"];
const EXPECTED: &str =
    "expected every-deadline (no job late), as-if-alone (the latency of a whole core), {p90: 30ms, p99: 80ms} (percentiles \
     of response time), {supply: 3ms/10ms} (so much processor time in every period) or leftovers (throughput)";
/// Most virtual CPUs of one VM.
pub(crate) const VCPUS: usize = 256;
const SUPPLY: &str = "expected a budget in every period, such as 3ms/10ms, or a list with one for each virtual CPU";

pub(crate) const PROMISE: Grammar = Grammar { what: "a promise", keys: &["supply"], later: &[] };

/// Reads what a service from `origin` was promised, and the tasks that the promise is about; files are named from `base` on.
pub(crate) fn read(fields: &Fields<'_>, origin: &Origin, base: &Path) -> Result<(Promise, Vec<Task>), Fault> {
    let node = fields.need("promise", "promise: as-if-alone, or promise: leftovers")?;
    if is_percentiles(node) {
        not_of_leftovers(fields, "leave it out: Giusto computes the share that this promise needs")?;
        return Ok((percentiles::read(fields, node, base)?, Vec::new()));
    }
    if node.entries().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == "supply")) {
        not_of_leftovers(fields, "leave it out: the supply is the share that this promise needs")?;
        let promise = supply(PROMISE.read(node, node.span)?.need("supply", "promise: {supply: 3ms/10ms}")?, origin)?;
        return Ok((promise, Vec::new()));
    }
    match scalar(node, EXPECTED)?.text.as_str() {
        timely @ ("as-if-alone" | "every-deadline") => {
            not_of_leftovers(fields, "leave it out: Giusto computes the share that this promise needs")?;
            if timely == "every-deadline" {
                return deadlines::read(fields, origin);
            }
            let tasks = fields.need("tasks", "tasks: [{wcet: 50us, period: 1ms}]")?;
            Ok((Promise::AsIfAlone, task::read_unplaced(tasks)?))
        }
        "leftovers" => Ok((leftovers(fields)?, Vec::new())),
        other => {
            let expected = format!("{EXPECTED}{}", did_you_mean(other, PROMISES));
            Err(node.fault(format!("'{}' is not a promise", shown(other)), expected))
        }
    }
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
fn supply(node: &Node, origin: &Origin) -> Result<Promise, Fault> {
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
    Ok(Promise::Supply(items.iter().map(|item| parsed::<Interface>(item, SUPPLY)).collect::<Result<_, _>>()?))
}
