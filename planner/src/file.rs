//! plan.json.

use crate::error::Error;
use crate::promises;
use giusto_model::{Plan, ServicePlan, PLAN_VERSION};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads a plan. Before it is enforced its promises are proven once more, and [`crate::differences`] tells whether
/// it fits the machine.
/// Checks that it is one that [`crate::plan`] can have made: its version, hosts with names of their own, services on these
/// hosts and on their cores, interfaces too, a core to each service that needs one alone, one backend a core, and 0 < budget ≤ period.
/// Errors name the file.
pub fn read(path: &Path) -> Result<Plan, Error> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|why| Error::Io { what: "read", path: name.clone(), why })?;
    parse(&text).map_err(|why| Error::Format { path: name, why })
}

/// Writes a plan. Errors name the file.
pub fn write(plan: &Plan, path: &Path) -> Result<(), Error> {
    let name = path.display().to_string();
    let text =
        serde_json::to_string_pretty(plan).map_err(|e| Error::Format { path: name.clone(), why: e.to_string() })?;
    fs::write(path, text + "\n").map_err(|why| Error::Io { what: "write", path: name, why })
}

fn parse(text: &str) -> Result<Plan, String> {
    // The version first: a newer plan has fields that this one would only call unknown.
    #[derive(Deserialize)]
    struct Version {
        giusto_plan: u64,
    }
    let Version { giusto_plan } = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if giusto_plan != u64::from(PLAN_VERSION) {
        return Err(format!("it has version {giusto_plan}, expected {PLAN_VERSION}"));
    }
    let plan: Plan = serde_json::from_str(text).map_err(|e| e.to_string())?;
    check(&plan)?;
    Ok(plan)
}

/// What the types do not say.
fn check(plan: &Plan) -> Result<(), String> {
    if plan.hosts.is_empty() {
        return Err("it is for no host".into());
    }
    let mut hosts = BTreeMap::new();
    for host in &plan.hosts {
        if hosts.insert(host.name.as_str(), host).is_some() {
            return Err(format!("host '{}' is there twice", host.name));
        }
        if let Some(core) = host.parked.iter().find(|&&core| core == 0 || !host.cores.contains(&core)) {
            return Err(format!(
                "host '{}': core {core} cannot be parked: it is core 0 or not one of its cores",
                host.name
            ));
        }
    }
    let host =
        |name: &str, on: &str| hosts.get(on).ok_or_else(|| format!("'{name}' is on '{on}', which is no host of it"));
    for leftover in &plan.leftovers {
        let cores = host(&leftover.name, &leftover.on)?.open_cores();
        if let Some(core) = leftover.cores.iter().find(|core| !cores.contains(core)) {
            return Err(format!("service '{}': core {core} is parked or not one of its host's cores", leftover.name));
        }
    }
    for network in &plan.network {
        if !hosts.contains_key(network.on.as_str()) {
            return Err(format!("packets of '{}', which is no host of it", network.on));
        }
        let uplinks = network.uplinks.iter().map(|one| (&one.uplink.name, one.core));
        let mut all = uplinks.chain(network.vifs.iter().map(|vif| (&vif.name, vif.core)));
        if let Some((name, core)) = all.find(|(_, core)| !network.cores.contains(core)) {
            return Err(format!("interface '{name}': core {core} is not one of its host's cores for packets"));
        }
    }
    for (index, service) in plan.services.iter().enumerate() {
        let (name, on, core, server) = (&service.name, &service.on, service.core, service.server);
        if server.budget.is_zero() || server.budget > server.period {
            return Err(format!("service '{name}': expected 0 < budget_ns ≤ period_ns"));
        }
        if !host(name, on)?.open_cores().contains(&core) {
            return Err(format!("service '{name}': core {core} is parked or not one of its host's cores"));
        }
        let alone = |service: &ServicePlan| promises::of(&service.promise).alone(service);
        let here = |s: &ServicePlan| s.on == *on && s.core == core;
        let clash = |s: &&ServicePlan| here(s) && (alone(s) || alone(service) || s.backend != service.backend);
        if let Some(torn) = plan.services[..index].iter().find(|s| s.name == *name && s.on != *on) {
            return Err(format!("service '{name}' is on '{}' and on '{on}'", torn.on));
        }
        if let Some(other) = plan.services[..index].iter().find(clash) {
            return Err(format!("services '{}' and '{name}' cannot share core {core}", other.name));
        }
    }
    Ok(())
}
