//! `services:`: who they are, what they run and what each was promised.

use crate::adapt;
use crate::adopt;
use crate::copies;
use crate::criticality;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::host::five_percent;
use crate::load;
use crate::locals;
use crate::network;
use crate::observe;
use crate::process;
use crate::promises::{self, Keys, Promised};
use crate::start;
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Node, Text};
use crate::value::{name, scalar, share};
use crate::xen;
use giusto_model::{About, Bandwidth, Cap, Host, Measured, Origin, Promise, ServerKind, Service};
use std::path::Path;

pub(crate) const SERVICE: Grammar = Grammar {
    what: "a service",
    keys: &[
        "on",
        "start",
        "adopt",
        "tasks",
        "arrivals",
        "execution",
        "scheduler",
        "vcpus",
        "copies",
        "threads",
        "load",
        "promise",
        "at-least",
        "at-most",
        "margin",
        "server",
        "cap",
        "network",
        "modes",
        "agent",
        "criticality",
        "adapt",
        "observe",
        "restart",
        "essential",
        "user",
        "group",
        "limits",
        "environment",
        "directory",
        "after-end",
        "end-within",
    ],
    later: &[],
};
const SERVICES: &str = "expected services by their names, such as services: {batch: {start: make, promise: leftovers}}";

/// Reads all services, in the order of the file; `hosts` are those that they can be on, and files are named from `base` on.
pub(crate) fn read_all(node: &Node, hosts: &[Host], base: &Path) -> Result<Vec<Service>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), SERVICES))?;
    if entries.is_empty() {
        return Err(node.fault("there is no service", SERVICES));
    }
    let mut taken = network::uplinks(hosts);
    entries.iter().map(|(key, value)| service(key, value, hosts, base, &mut taken)).collect()
}

fn service(
    key: &Text,
    value: &Node,
    hosts: &[Host],
    base: &Path,
    taken: &mut network::Taken,
) -> Result<Service, Fault> {
    let name = name(key, "a service")?;
    let fields = SERVICE.read(value, key.span)?;
    let on = fields.get("on").map(|node| on(node, hosts)).transpose()?;
    let origin = origin(&fields)?;
    xen::check(&fields, &origin, on.as_deref(), hosts)?;
    let process = process::read(&fields, &origin, base)?;
    let Promised { promise, tasks, mut modes, measured } = promises::read(&fields, &origin, base)?;
    let agent = locals::agent(&fields, &promise, base)?;
    let Keys { foreign, why } = promises::keys(&promise);
    for key in foreign {
        let found = format!("'{key}' does not go with {why}");
        let instead = match *key {
            "vcpus" if promise == Promise::AsIfAlone => {
                "expected copies: one share for each virtual CPU, such as copies: 4"
            }
            "scheduler" | "vcpus" => "leave it out, or promise every-deadline",
            "criticality" => "leave it out; it goes with every-deadline, {supply: ...} and, as low, with leftovers",
            "arrivals" | "execution" => "leave it out, or promise percentiles, such as {p90: 30ms, p99: 80ms}",
            "tasks" if promise.arrivals().is_some() => "leave it out: 'arrivals' and 'execution' say what it has to do",
            _ => "leave it out, or promise as-if-alone",
        };
        fields.forbid(key, &found, instead)?;
    }
    let is_stage = fields.get("promise").is_none();
    let network = fields
        .get("network")
        .map_or(Ok(Vec::new()), |node| network::vifs(node, hosts, (on.as_deref(), is_stage), taken))?;
    if agent.is_some() && modes.is_empty() {
        modes = locals::running(promise.local_need(&tasks));
    }
    let copies = copies::read(&fields, &origin, &measured)?;
    let load = fields.get("load").map(|node| load::read(node, &promise)).transpose()?;
    if measured != Measured::Declared && load.is_none() {
        let at = fields.place(if tasks.is_empty() { "execution" } else { "tasks" });
        let expected = "expected how to drive it as well, such as load: {redis: 127.0.0.1:7001, fields: 70, value: 8}";
        return Err(Fault::new(at, "nothing says how its execution times can be measured", expected));
    }
    let criticality = criticality::read(&fields, &promise, &tasks)?;
    let adapt = adapt::read(&fields, &promise)?;
    let observe = fields.get("observe").map(|node| observe::read(node, &promise, &origin)).transpose()?;
    let server = fields.get("server").map(server).transpose()?;
    let mut cap = fields.get("cap").map_or(Ok(Cap::default()), cap)?;
    if criticality.is_some() && promise.about() != About::Rest {
        criticality::server(&fields, server, cap)?;
        // What is left over goes to those that have work.
        cap = Cap::Soft;
    }
    let margin = if promise == Promise::AsIfAlone { five_percent() } else { Bandwidth::ZERO };
    Ok(Service {
        name,
        on,
        origin,
        process,
        tasks,
        promise,
        copies,
        margin: fields.get("margin").map_or(Ok(margin), |node| share(node, "margin: 5%"))?,
        server,
        cap,
        load,
        network,
        modes,
        agent,
        criticality,
        measured,
        adapt,
        observe,
    })
}

/// The name of a host of the site.
fn on(node: &Node, hosts: &[Host]) -> Result<String, Fault> {
    let text = &scalar(node, "expected the name of a host of this site, such as on: edge-1")?.text;
    let names = hosts.iter().map(|host| host.name.as_str());
    if names.clone().any(|name| name == text) {
        return Ok(text.clone());
    }
    let expected = match hosts {
        [only] => format!("expected {}, the only host", only.name),
        _ => format!("expected one of {}", names.clone().collect::<Vec<_>>().join(", ")),
    };
    Err(node.fault(format!("'{}' is not a host of this site", shown(text)), expected + &did_you_mean(text, names)))
}

/// A server algorithm that has a budget.
fn server(node: &Node) -> Result<ServerKind, Fault> {
    let names: Vec<String> = ServerKind::WITH_BUDGET.iter().map(ServerKind::to_string).collect();
    let expected = format!("expected one of {}", names.join(", "));
    let text = &scalar(node, &expected)?.text;
    let near = || expected.clone() + &did_you_mean(text, names.iter().map(String::as_str));
    let found = ServerKind::WITH_BUDGET.iter().copied().find(|kind| kind.to_string() == *text);
    found.ok_or_else(|| node.fault(format!("'{}' is not a server", shown(text)), near()))
}

fn cap(node: &Node) -> Result<Cap, Fault> {
    let expected = "expected hard (a used-up budget ends the turn, even on an idle core) or soft (it goes on in the time left over)";
    match scalar(node, expected)?.text.as_str() {
        "hard" => Ok(Cap::Hard),
        "soft" => Ok(Cap::Soft),
        other => {
            let near = did_you_mean(other, ["hard", "soft"]);
            Err(node.fault(format!("'{}' is not a cap", shown(other)), format!("{expected}{near}")))
        }
    }
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
