//! `modes:` and `agent:` of a service: what it runs in each of its local modes, and who changes that.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::tree::{Kind, Node, Text};
use crate::value::{duration, name, scalar, text};
use crate::vcpus;
use giusto_model::{About, AgentKey, Duration, Interface, LocalNeed, Origin, Promise, ServiceMode, RUNNING, STOPPED};
use std::path::Path;

pub(crate) const LOCAL: Grammar =
    Grammar { what: "a local mode under 'promise: supply'", keys: &["supply"], later: &[] };
pub(crate) const AGENT: Grammar = Grammar { what: "an agent", keys: &["key", "cost", "asks"], later: &[] };

const MODES: &str =
    "expected local modes by their names, such as modes: {cruise: [{wcet: 2ms, period: 10ms}], land: [...]}";
const SUPPLIES: &str =
    "expected local modes by their names, such as modes: {cruise: {supply: 3ms/10ms}, land: {supply: 6ms/10ms}}";
const KEY: &str = "expected the file with the agent's pre-shared key, such as key: /etc/giusto/keys/flight";
/// The agent's work for one change: a message, a few signals, an answer.
const COST: Duration = Duration::from_us(100);
/// Longest that it may take.
const LONGEST: Duration = Duration::from_ms(10);

/// What is read of one local mode, with its name.
type Local<'a> = (&'a Text, &'a Node);

/// Local modes with tasks, spread over `vcpus`.
pub(crate) fn with_tasks(node: &Node, vcpus: (u32, Option<&Node>), origin: &Origin) -> Result<Vec<ServiceMode>, Fault> {
    let one = |(key, value): Local<'_>| {
        let (tasks, placed) = vcpus::tasks(value, vcpus, origin)?;
        Ok(ServiceMode { name: local_name(key)?, need: LocalNeed::Tasks { tasks, placed } })
    };
    entries(node, MODES)?.iter().map(|(key, value)| one((key, value))).collect()
}

/// Local modes with a supply each: for as many virtual CPUs in all of them, in the same periods.
pub(crate) fn with_supplies(node: &Node, origin: &Origin) -> Result<Vec<ServiceMode>, Fault> {
    let mut first: Option<(&str, Vec<Interface>)> = None;
    let mut modes = Vec::new();
    for (key, value) in entries(node, SUPPLIES)? {
        let name = local_name(key)?;
        let supply = LOCAL.read(value, key.span)?.need("supply", "cruise: {supply: 3ms/10ms}")?;
        let interfaces = vcpus::interfaces(supply, origin)?;
        match &first {
            None => first = Some((&key.text, interfaces.clone())),
            Some((other, known)) if known.len() != interfaces.len() => {
                let found = format!("budgets here: {}, and in '{other}': {}", interfaces.len(), known.len());
                return Err(supply.fault(found, "expected as many in all modes: one for each virtual CPU"));
            }
            Some((other, known)) => {
                if let Some((one, before)) = interfaces.iter().zip(known).find(|(a, b)| a.period != b.period) {
                    let found = format!("a period of {} here, and of {} in '{other}'", one.period, before.period);
                    return Err(
                        supply.fault(found, "expected the same period in all modes: a change is of budgets only")
                    );
                }
            }
        }
        modes.push(ServiceMode { name, need: LocalNeed::Supply(interfaces) });
    }
    Ok(modes)
}

fn entries<'a>(node: &'a Node, expected: &str) -> Result<&'a [(Text, Node)], Fault> {
    match node.entries() {
        None => Err(node.fault(format!("found {} here", node.form()), expected)),
        Some([]) => Err(node.fault("there is no mode", expected)),
        Some(entries) => Ok(entries),
    }
}

fn local_name(key: &Text) -> Result<String, Fault> {
    match name(key, "a mode")? {
        name if name == STOPPED => {
            let expected = "expected another name: every service with an agent can be 'stopped', with no task";
            Err(Fault::new(key.span, "'stopped' needs no tasks", expected))
        }
        name => Ok(name),
    }
}

/// The agent of a service with that promise; its key is named from `base` on.
pub(crate) fn agent(fields: &Fields<'_>, promise: &Promise, base: &Path) -> Result<Option<AgentKey>, Fault> {
    if !matches!(promise.about(), About::Deadlines | About::Supply) {
        let expected = match promise {
            Promise::Leftovers { .. } => {
                "leave it out: a mode can stop what gets the rest, and the host does that by itself"
            }
            _ => "leave it out: such a service always does the same",
        };
        fields.forbid("agent", "'agent' goes with every-deadline and supply only", expected)?;
    }
    let example = "agent: {key: /etc/giusto/keys/flight}";
    let node = match (fields.get("modes"), fields.get("agent")) {
        (_, Some(node)) => node,
        (Some(modes), None) => {
            let expected = format!("expected, for example, {example}: it stops and starts the tasks from the inside");
            return Err(modes.fault("a service with modes needs an 'agent'", expected));
        }
        (None, None) => return Ok(None),
    };
    let fields = AGENT.read(node, node.span)?;
    let path = fields.need("key", "key: /etc/giusto/keys/flight")?;
    let key = text(path, KEY)?;
    if key.is_empty() || key.contains(char::is_control) {
        return Err(path.fault("this names no file", KEY));
    }
    let cost = match fields.get("cost") {
        None => COST,
        Some(node) => match duration(node)? {
            cost if cost.is_zero() || cost > LONGEST => {
                let expected =
                    format!("expected more than nothing and up to {LONGEST}: a message, some signals, an answer");
                return Err(node.fault(format!("{cost} is no cost of an agent"), expected));
            }
            cost => cost,
        },
    };
    Ok(Some(AgentKey { key: base.join(key), cost, asks: fields.get("asks").map_or(Ok(vec![]), asks)? }))
}

/// Global modes by name; whether they are there is looked at where those are read.
fn asks(node: &Node) -> Result<Vec<String>, Fault> {
    let expected = "expected the modes of the site that it may ask for, such as asks: [emergency]";
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), expected)) };
    items.iter().map(|item| name(scalar(item, expected)?, "a mode")).collect()
}

/// The one local mode of a service that has an agent and no modes.
pub(crate) fn running(need: LocalNeed) -> Vec<ServiceMode> {
    vec![ServiceMode { name: RUNNING.into(), need }]
}
