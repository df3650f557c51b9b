//! `criticality:` of a service, and what goes with it: `worst-wcet:` of a task, `worst:` of a supply.

use crate::error::Fault;
use crate::fields::Fields;
use crate::promises::supply::PROMISE;
use crate::suggest::{did_you_mean, shown};
use crate::task::TASK;
use crate::tree::{Kind, Node};
use crate::value::{duration, scalar};
use giusto_model::{About, Cap, Duration, Interface, Promise, ServerKind, SiteCriticality, Task};

const LEVELS: &str =
    "expected high (it keeps its promise also where it takes more than usual) or low (it keeps it while no \
                      high one on its core does)";
const ONLY_HIGH: &str = "goes with 'criticality: high' only";
const NOT_HIGH: &str = "write criticality: high, or leave it out: nothing else gets more than its usual budget";
const WORST: &str =
    "expected the most that is taken in a period, such as worst: 25ms, or a list with one for each virtual CPU";

/// Reads the criticality of a service with this promise, that has these `tasks`.
pub(crate) fn read(fields: &Fields<'_>, promise: &Promise, tasks: &[Task]) -> Result<Option<SiteCriticality>, Fault> {
    let high = fields.get("criticality").map(|node| level(node, promise)).transpose()?;
    let worst = match promise {
        Promise::Supply(interfaces) => budgets(fields, interfaces, high)?,
        _ => wcets(fields, tasks, high)?,
    };
    let Some(high) = high else { return Ok(None) };
    for key in ["modes", "agent"] {
        let found = format!("'{key}' beside 'criticality' is not built yet");
        fields.forbid(key, &found, "expected one of the two; leave the other out")?;
    }
    Ok(Some(if high { SiteCriticality::High { worst } } else { SiteCriticality::Low }))
}

/// Whether it is high.
fn level(node: &Node, promise: &Promise) -> Result<bool, Fault> {
    match scalar(node, LEVELS)?.text.as_str() {
        "high" if promise.about() == About::Rest => {
            let expected =
                "expected low, which it is anyway, or a promise such as every-deadline or {supply: 5ms/100ms}";
            Err(node.fault("what is promised leftovers cannot be of high criticality", expected))
        }
        "high" => Ok(true),
        "low" => Ok(false),
        other => {
            let near = did_you_mean(other, ["high", "low"]);
            Err(node.fault(format!("'{}' is not a criticality", shown(other)), format!("{LEVELS}{near}")))
        }
    }
}

/// The server and the cap that a service with criticality has; others may write what they like.
pub(crate) fn server(fields: &Fields<'_>, server: Option<ServerKind>, cap: Cap) -> Result<(), Fault> {
    if server.is_some_and(|kind| kind != ServerKind::ConstantBandwidth) {
        let expected =
            "expected server: constant_bandwidth, or leave it out: EDF-VD is proven for jobs that are a period apart";
        fields.forbid("server", "this server does not go with 'criticality'", expected)?;
    }
    if cap == Cap::Hard {
        let expected =
            "leave it out, or write cap: soft: time that is left over goes to those that have work, the high ones first";
        fields.forbid("cap", "'cap: hard' does not go with 'criticality'", expected)?;
    }
    Ok(())
}

/// The worst execution time of each task; the usual one where none was written. None of a service that is not high.
fn wcets(fields: &Fields<'_>, tasks: &[Task], high: Option<bool>) -> Result<Vec<Duration>, Fault> {
    let mut worst: Vec<Duration> = tasks.iter().map(|task| task.wcet).collect();
    let lists = fields.get("tasks").into_iter().chain(fields.get("modes").into_iter().flat_map(values));
    for list in lists {
        let Kind::List(items) = &list.kind else { continue };
        for (place, item) in items.iter().enumerate() {
            let own = TASK.read(item, item.span)?;
            let Some(node) = own.get("worst-wcet") else { continue };
            if high != Some(true) {
                own.forbid("worst-wcet", &format!("'worst-wcet' {ONLY_HIGH}"), NOT_HIGH)?;
            }
            let (Some(task), Some(most)) = (tasks.get(place), worst.get_mut(place)) else { continue };
            *most = duration(node)?;
            let expected = "expected wcet <= worst-wcet <= deadline";
            if *most < task.wcet {
                let found = format!("the worst execution time {most} is less than the usual one, {}", task.wcet);
                return Err(node.fault(found, expected));
            }
            if *most > task.deadline {
                let found = format!("the worst execution time {most} is longer than the deadline {}", task.deadline);
                return Err(node.fault(found, expected));
            }
        }
    }
    Ok(if high == Some(true) { worst } else { Vec::new() })
}

fn values(node: &Node) -> impl Iterator<Item = &Node> {
    node.entries().unwrap_or_default().iter().map(|(_, value)| value)
}

/// The worst budget of each virtual CPU; the usual one where none was written. None of a service that is not high.
fn budgets(fields: &Fields<'_>, interfaces: &[Interface], high: Option<bool>) -> Result<Vec<Duration>, Fault> {
    let usual = || interfaces.iter().map(|interface| interface.budget).collect();
    let map = fields.get("promise").filter(|node| node.entries().is_some());
    let own = map.map(|node| PROMISE.read(node, node.span)).transpose()?;
    let Some((own, node)) = own.as_ref().and_then(|own| Some((own, own.get("worst")?))) else {
        return Ok(if high == Some(true) { usual() } else { Vec::new() });
    };
    if high != Some(true) {
        own.forbid("worst", &format!("'worst' {ONLY_HIGH}"), NOT_HIGH)?;
    }
    let items = if let Kind::List(items) = &node.kind { items.as_slice() } else { std::slice::from_ref(node) };
    if items.len() != interfaces.len() {
        let (worst, usual) = (items.len(), interfaces.len());
        return Err(node.fault(format!("worst budgets: {worst}, and supplies: {usual}"), WORST));
    }
    let one = |(item, interface): (&Node, &Interface)| {
        scalar(item, WORST)?;
        let worst = duration(item)?;
        let Interface { budget, period } = *interface;
        let expected = "expected budget <= worst <= period";
        match worst {
            worst if worst < budget => {
                Err(item.fault(format!("the worst budget {worst} is less than the usual one, {budget}"), expected))
            }
            worst if worst > period => {
                Err(item.fault(format!("the worst budget {worst} is longer than the period {period}"), expected))
            }
            worst => Ok(worst),
        }
    };
    items.iter().zip(interfaces).map(one).collect()
}
