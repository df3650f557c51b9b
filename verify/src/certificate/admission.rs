//! Cores: each server gets its budget in every period beside the others of its core, and the floors of leftovers fit.
//!
//! Under EDF servers of which each is to the others a sporadic task all get their budgets if Σ B/P ≤ 1. A deferrable server is
//! no such task, as it can take two budgets in a row: then every window is looked at ([`windows`]). Servers with criticality are
//! under another order, of which [`criticality`] knows the test.

use super::broken::Broken;
use super::exact::{of, share, Exact};
use super::{criticality, hold, leftovers, promise, windows};
use giusto_model::{Admission, Bandwidth, Criticality, HostPlan, Interface, Plan, Server, ServerKind, ServicePlan};
use serde::Serialize;

/// Cores with reservations, all of which fit.
pub(super) fn check(plan: &Plan) -> Result<Vec<CheckedCore>, Broken> {
    let stranger = |on: &str| plan.hosts.iter().all(|host| host.name != on);
    if let Some(stray) = plan.services.iter().find(|entry| stranger(&entry.on)) {
        return Err(Broken::new("a host of the plan", "one of its hosts", &stray.on).of(stray));
    }
    if let Some(stray) = plan.leftovers.iter().find(|leftover| stranger(&leftover.on)) {
        let broken = Broken::new("a host of the plan", "one of its hosts", &stray.on);
        return Err(Broken { service: Some(stray.name.clone()), ..broken });
    }
    let mut cores = Vec::new();
    for (nth, host) in plan.hosts.iter().enumerate() {
        if plan.hosts[..nth].iter().any(|other| other.name == host.name) {
            return Err(Broken::new("hosts with names of their own", "one", format!("two '{}'", host.name)));
        }
        let Some(part) = plan.on(&host.name) else { continue };
        let of_host = one_host(&part, host)?;
        leftovers::check(&part, host)?;
        cores.extend(of_host.into_iter().map(|core| CheckedCore { on: host.name.clone(), core }));
    }
    Ok(cores)
}

/// The part of one host.
pub(super) fn one_host(plan: &Plan, host: &HostPlan) -> Result<Vec<u32>, Broken> {
    if let Some(stray) = plan.services.iter().find(|entry| !host.cores.contains(&entry.core)) {
        return Err(Broken::new("a core of its host", "one of the plan", stray.core).of(stray));
    }
    parked(plan, host)?;
    let mut cores = Vec::new();
    for &id in &host.cores {
        let here: Vec<&ServicePlan> = plan.services.iter().filter(|entry| entry.core == id).collect();
        let told: Vec<&Admission> = host.admission.iter().filter(|admission| admission.core == id).collect();
        let broken = |broken: Broken| Broken { core: Some(id), ..broken };
        match (here.is_empty(), &told[..]) {
            (true, []) => {}
            (false, [admission]) => {
                core(&here, admission, host.keep_free).map_err(broken)?;
                cores.push(id);
            }
            (_, told) => {
                let needed = usize::from(!here.is_empty());
                return Err(broken(Broken::new("proofs that its servers fit", needed, told.len())));
            }
        }
    }
    floors(plan, host)?;
    Ok(cores)
}

fn core(here: &[&ServicePlan], admission: &Admission, keep_free: Bandwidth) -> Result<(), Broken> {
    let one = Exact::from_integer(1u32.into());
    // Boosted agents go before all, whenever they come: to the others a deferrable server.
    let boost =
        admission.boost.map(|Interface { budget, period }| Server { kind: ServerKind::Deferrable, budget, period });
    if let Some(boost) = boost.filter(|boost| boost.budget.is_zero() || boost.budget > boost.period) {
        return Err(Broken::new("a budget for boosts within its period", boost.period, boost.budget));
    }
    let servers: Vec<Server> = here.iter().map(|entry| entry.server).chain(boost).collect();
    let reserved: Exact = servers.iter().filter_map(|server| of(server.budget, server.period)).sum();
    let (told, most) = (share(admission.reserved), share(admission.most));
    if reserved > told {
        return Err(Broken::new("sum of all B/P on it", reserved, admission.reserved));
    }
    let high = here.iter().filter_map(|entry| match entry.criticality {
        Some(Criticality::High { worst, .. }) => of(worst, entry.server.period),
        Some(Criticality::Low) | None => None,
    });
    // Beyond 64 bits it is rounded up, by a billionth for each server.
    let rounded = Exact::new(servers.len().into(), 1_000_000_000u32.into());
    if told > reserved.clone().max(high.sum()) + rounded {
        return Err(Broken::new("no more reserved than all B/P on it", reserved, admission.reserved));
    }
    let kept = share(keep_free) + share(admission.cost);
    if most.clone() + kept.clone() > one {
        return Err(Broken::new(
            "at most 1 − keep-free − what the backend takes",
            format!("1 - {kept}"),
            admission.most,
        ));
    }
    if told > most || told >= one {
        return Err(Broken::new("room for all B/P on it", told, most));
    }
    if let Some(other) = here.iter().find(|entry| entry.backend != admission.backend) {
        return Err(Broken::new("one backend for all its servers", admission.backend, other.backend).of(other));
    }
    if let Some(entry) = here.iter().find(|entry| here.len() > 1 && alone(entry)) {
        return Err(Broken::new("a core for itself", 1, here.len()).of(entry));
    }
    for entry in here {
        let left = share(entry.left_for_others) + told.clone() + kept.clone();
        if left != one {
            return Err(Broken::new("what is left for others: 1 − reserved − kept", one, left).of(entry));
        }
        hold::check(entry, here.len() == 1).map_err(|broken| broken.of(entry))?;
    }
    criticality::core(here, admission)?;
    windows::check(&servers)
}

/// Whether the entry's proof needs a core without others. Real-time groups have fixed priorities.
fn alone(entry: &ServicePlan) -> bool {
    entry.backend.abilities().alone || (promise::claims(&entry.promise).alone)(entry)
}

/// Nothing runs on a core that is offline, and core 0 stays.
fn parked(plan: &Plan, host: &HostPlan) -> Result<(), Broken> {
    let reserved = plan.services.iter().map(|entry| entry.core);
    let mut used = reserved.chain(plan.leftovers.iter().flat_map(|leftover| leftover.cores.iter().copied()));
    let stray = host.parked.iter().find(|&&core| core == 0 || !host.cores.contains(&core)).copied();
    match stray.or_else(|| used.find(|core| host.parked.contains(core))) {
        Some(core) => {
            Err(Broken::new("parked cores that nothing needs", "none of those that are in use, nor core 0", core))
        }
        None => Ok(()),
    }
}

/// Leftovers get what they were promised from what is left.
fn floors(plan: &Plan, host: &HostPlan) -> Result<(), Broken> {
    let on =
        |core: u32| plan.services.iter().find(|entry| entry.core == core).map(|entry| share(entry.left_for_others));
    let one = Exact::from_integer(1u32.into());
    let keep = share(host.keep_free);
    let whole = if keep <= one { one - keep } else { share(Bandwidth::ZERO) };
    let open = host.cores.iter().filter(|core| !host.parked.contains(core));
    let left: Exact = open.map(|core| on(*core).unwrap_or_else(|| whole.clone())).sum();
    let running = plan.leftovers.iter().filter(|leftover| !leftovers::begins_stopped(plan, &leftover.name));
    let asked: Exact = running.map(|leftover| share(leftover.at_least)).sum();
    match asked > left {
        true => Err(Broken::new("room for all that leftovers are promised at least", asked, left)),
        false => Ok(()),
    }
}

/// A core whose servers fit together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedCore {
    /// Its host.
    pub on: String,
    /// Its number there.
    pub core: u32,
}
