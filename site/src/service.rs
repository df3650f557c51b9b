//! `services:`: who they are, what they run and what each was promised.

use crate::adopt;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::host::five_percent;
use crate::load;
use crate::promise;
use crate::start;
use crate::task;
use crate::tree::{Node, Text};
use crate::value::{name, share};
use giusto_model::{Origin, Promise, Service};

pub(crate) const SERVICE: Grammar = Grammar {
    what: "a service",
    keys: &["start", "adopt", "tasks", "load", "promise", "at-least", "margin"],
    later: &[
        ("arrivals", "expected tasks with a wcet and a period instead, or 'promise: leftovers'"),
        ("execution", "expected tasks with a wcet instead"),
        ("criticality", "leave it out: all services are equally critical"),
        ("modes", "expected tasks instead: a service runs in one mode"),
        ("network", "leave it out: packets are not prioritised"),
        ("on", "leave it out: the site has one host"),
    ],
};
const SERVICES: &str = "expected services by their names, such as services: {batch: {start: make, promise: leftovers}}";

/// Reads all services, in the order of the file.
pub(crate) fn read_all(node: &Node) -> Result<Vec<Service>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), SERVICES))?;
    if entries.is_empty() {
        return Err(node.fault("there is no service", SERVICES));
    }
    entries.iter().map(|(key, value)| service(key, value)).collect()
}

fn service(key: &Text, value: &Node) -> Result<Service, Fault> {
    let name = name(key, "a service")?;
    let fields = SERVICE.read(value, key.span)?;
    let origin = origin(&fields)?;
    let promise = promise::read(&fields)?;
    if let Promise::Leftovers { .. } = promise {
        for key in ["tasks", "load", "margin"] {
            let found = format!("'{key}' does not go with 'promise: leftovers', which is about throughput, not time");
            fields.forbid(key, &found, "leave it out, or promise as-if-alone")?;
        }
    }
    let tasks = match promise {
        Promise::AsIfAlone => task::read_all(fields.need("tasks", "tasks: [{wcet: 50us, period: 1ms}]")?)?,
        Promise::Leftovers { .. } => Vec::new(),
    };
    Ok(Service {
        name,
        origin,
        tasks,
        promise,
        margin: fields.get("margin").map_or(Ok(five_percent()), |node| share(node, "margin: 5%"))?,
        load: fields.get("load").map(load::read).transpose()?,
    })
}

/// Start what does not run yet, adopt what does.
fn origin(fields: &Fields<'_>) -> Result<Origin, Fault> {
    let neither =
        "expected the command that starts it, such as start: redis-server --port 7001, or, if it runs already, \
                   adopt: {pid: 1234} or adopt: {cgroup: batch.slice}";
    match fields.one_of(&["start", "adopt"], neither)? {
        ("start", command) => start::read(command).map(Origin::Start),
        (_, running) => adopt::read(running).map(Origin::Adopt),
    }
}
