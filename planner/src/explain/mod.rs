mod modes;
mod paths;
mod table;

use crate::error::Error;
use crate::promises;
use crate::words::{self, time, EXECUTION_TIME};
use giusto_model::{Criticality, HostPlan, NetworkPlan, Plan, ServicePlan, VifPlan, Within};
use table::{row, table};

/// Where each number of the service `name` comes from (or topic, or virtual interface, or of the ensemble:
/// `coordination`, or of what hosts give to packets: `network`, or of how modes are changed: `modes`, or of cores that
/// are offline: `parked`), as an aligned table with one line a number.
///
/// Errors: a name that the plan does not have (the text lists those it has).
pub fn explain(plan: &Plan, name: &str) -> Result<String, Error> {
    let reserved: Vec<String> = plan.services.iter().filter(|s| s.name == name).map(|s| service(plan, s)).collect();
    if !reserved.is_empty() {
        return Ok(reserved.join("\n") + &modes::of_service(plan, name) + &interfaces(plan, name));
    }
    if let Some(leftover) = plan.leftovers.iter().find(|s| s.name == name) {
        let rows: Vec<[String; 3]> = leftover.reasons.iter().map(row).collect();
        let assumed = assumed(plan, &leftover.on);
        return Ok(format!(
            "{name} on {}: what the others leave\n{}{assumed}{}",
            leftover.on,
            table(&rows),
            modes::of_service(plan, name) + &interfaces(plan, name)
        ));
    }
    if let Some(topic) = plan.topics.iter().find(|topic| topic.name == name) {
        let rows: Vec<[String; 3]> = topic.reasons.iter().map(row).collect();
        let points: Vec<String> = topic.promise.iter().map(Within::to_string).collect();
        return Ok(format!("topic {name} on {}: {}\n{}", topic.brokers.join(", "), points.join(", "), table(&rows)));
    }
    if let Some(path) = plan.paths.iter().find(|path| path.name == name) {
        return Ok(paths::explained(plan, path));
    }
    if let Some(ensemble) = plan.coordination.as_ref().filter(|_| name == "coordination") {
        let rows: Vec<[String; 3]> = ensemble.reasons().iter().map(row).collect();
        let servers = ensemble.servers().len();
        let (bound, promised) = (time(ensemble.bound()), time(ensemble.recovery()));
        return Ok(format!(
            "coordination: {servers} servers recover within {bound}, {promised} promised\n{}",
            table(&rows)
        ));
    }
    if let Some((network, vif)) = plan.network.iter().find_map(|n| Some((n, n.vifs.iter().find(|v| v.name == name)?))) {
        return Ok(interface(network, vif));
    }
    if name == "network" && !plan.network.is_empty() {
        return Ok(plan.network.iter().map(packets).collect::<Vec<_>>().join("\n"));
    }
    if name == "modes" && !plan.modes.is_empty() {
        return Ok(plan.modes.iter().map(modes::of_host).collect::<Vec<_>>().join("\n"));
    }
    let parking: Vec<String> = plan.hosts.iter().filter(|host| !host.parked.is_empty()).map(parked).collect();
    if name == "parked" && !parking.is_empty() {
        return Ok(parking.concat());
    }
    let mut names: Vec<&str> = plan.services.iter().map(|s| s.name.as_str()).collect();
    names.dedup(); // a VM has an entry a virtual CPU
    names.extend(plan.leftovers.iter().map(|s| s.name.as_str()));
    names.extend(plan.topics.iter().map(|topic| topic.name.as_str()));
    names.extend(plan.paths.iter().map(|path| path.name.as_str()));
    names.extend(plan.coordination.iter().map(|_| "coordination"));
    names.extend(plan.network.iter().flat_map(|network| network.vifs.iter().map(|vif| vif.name.as_str())));
    names.extend(plan.network.first().map(|_| "network"));
    names.extend(plan.modes.first().map(|_| "modes"));
    names.extend(parking.first().map(|_| "parked"));
    let known = names.join(", ");
    Err(Error::UnknownName { name: name.into(), known })
}

/// What of a server is for what, in words, such as `30 % + 5 points of margin`.
pub fn asked(service: &ServicePlan) -> String {
    promises::of(&service.promise).asked(service)
}

/// What is offline on a host, and why.
fn parked(host: &HostPlan) -> String {
    let why = "the site says 'unused: park', and nothing of the plan runs there: offline while giusto runs, online again however it ends; leftovers \
               are on cores that are in use anyhow, core 0 always stays";
    format!("parked on {}\n{}", host.name, table(&[["cores".into(), words::cores(&host.parked), why.into()]]))
}

fn service(plan: &Plan, service: &ServicePlan) -> String {
    let mut rows: Vec<[String; 3]> = service.tasks.iter().map(modes::task).collect();
    if service.reasons.iter().any(|reason| reason.what == EXECUTION_TIME) {
        rows.iter_mut().for_each(|row| row[2] += ", its execution time as measured");
    }
    rows.extend(service.reasons.iter().map(row));
    rows.extend(late(plan, service));
    let method = promises::of(&service.promise);
    rows.extend(method.proof(service));
    if let Some(p) = &service.prediction {
        let why =
            format!("simulated, {} jobs; p50 {}, p99.9 {}, max {}", p.jobs, time(p.p50), time(p.p99_9), time(p.max));
        rows.push(["predicted p99".into(), time(p.p99), why]);
    }
    let vcpu = service.part().map_or(String::new(), |part| format!(", {part}"));
    let promised = method.promised(service);
    let promised = match service.criticality {
        None => promised,
        Some(Criticality::Low) => format!("{promised}, while no high one of its core needs more than usual"),
        Some(Criticality::High { worst, .. }) => format!("{promised}, and {} at its worst", time(worst)),
    };
    let assumed = assumed(plan, &service.on);
    format!("{}{vcpu} on {}: {promised}\n{}{assumed}", service.name, service.on, table(&rows))
}

/// The virtual interfaces of a service.
fn interfaces(plan: &Plan, service: &str) -> String {
    let own = |network: &NetworkPlan| {
        let vifs = network.vifs.iter().filter(|vif| vif.service == service);
        vifs.map(|vif| format!("\n{}", interface(network, vif))).collect::<String>()
    };
    plan.network.iter().map(own).collect()
}

fn interface(network: &NetworkPlan, vif: &VifPlan) -> String {
    let rows: Vec<[String; 3]> = vif.reasons.iter().map(row).collect();
    let promised = match &vif.promise[..] {
        [] => "nothing promised".into(),
        points => points.iter().map(Within::to_string).collect::<Vec<_>>().join(", "),
    };
    format!(
        "interface {} of {} on {}: {} class, {promised}\n{}",
        vif.name,
        vif.service,
        network.on,
        vif.class,
        table(&rows)
    )
}

/// What a host gives to packets.
fn packets(network: &NetworkPlan) -> String {
    let mut rows: Vec<[String; 3]> = network.reasons.iter().map(row).collect();
    rows.extend(network.uplinks.iter().map(|one| {
        let why = "of the site, taken to be kept, as nothing enforces it; SCHED_FIFO, above all virtual interfaces and threads of interrupts";
        let value = format!("core {}, priority {}, {}", one.core, one.priority, one.uplink.bucket);
        [format!("uplink {}", one.uplink.name), value, why.into()]
    }));
    format!("packets on {}\n{}", network.on, table(&rows))
}

/// What the host's measured latency is to this service.
fn late(plan: &Plan, service: &ServicePlan) -> Option<[String; 3]> {
    let late = plan.hosts.iter().find(|host| host.name == service.on)?.latency.as_ref()?;
    let allowed = late.latency.checked_add(late.allowance).map_or("too much".into(), time);
    let effect = promises::of(&service.promise).late(late, &allowed);
    let cores: Vec<u32> = late.cores.iter().map(|one| one.core).collect();
    let stress = if late.stressed { "under stress and without" } else { "without stress" };
    let why = format!(
        "measured {stress}, the worst of core{} {} at periods from {} on ({} is the shortest that matters); {effect}",
        if cores.len() == 1 { "" } else { "s" },
        words::cores(&cores),
        time(late.period),
        time(late.shortest)
    );
    let own = late.manager.map_or(String::new(), |manager| {
        format!("; of these {} were measured of the manager, over {} periods", time(manager.late), manager.periods)
    });
    Some(["host's latency".into(), time(late.latency), why + &own])
}

/// What the numbers of a host rest on, where it is not the machine that planned.
fn assumed(plan: &Plan, on: &str) -> String {
    let host = plan.hosts.iter().find(|host| host.name == on);
    let assumed = host.and_then(|host| host.assumed.as_ref());
    assumed.map_or(String::new(), |assumed| format!("  {on} is not this machine; assumed {assumed}\n"))
}
