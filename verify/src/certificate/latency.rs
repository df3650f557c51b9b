//! The host's measured latency: whether it is the worst of its cores, measured often enough, and whether every certificate allows
//! for it.

use super::assumed::LATENESS;
use super::broken::Broken;
use giusto_model::{Certificate, Duration, HostLatency, HostPlan, LocalProof, Plan, Promise, ServicePlan, Task};

pub(super) fn check(plan: &Plan) -> Result<(), Broken> {
    let measured = plan.hosts.iter().filter_map(|host| host.latency.as_ref().map(|latency| (host, latency)));
    measured.into_iter().try_for_each(|(host, latency)| {
        let named = |broken: Broken| Broken { what: format!("latency of {}: {}", host.name, broken.what), ..broken };
        itself(plan, host, latency).and_then(|()| allowed(plan, host, latency)).map_err(named)
    })
}

/// Whether it is what its cores make of it, and they are those of the plan.
fn itself(plan: &Plan, host: &HostPlan, latency: &HostLatency) -> Result<(), Broken> {
    let network = plan.network.iter().filter(|network| network.on == host.name).flat_map(|network| &network.cores);
    if let Some(core) =
        host.cores.iter().chain(network).find(|core| !latency.cores.iter().any(|one| one.core == **core))
    {
        return Err(Broken::new("a measurement of each core", core, "none"));
    }
    let worst = latency.cores.iter().map(|one| one.worst).max().unwrap_or(Duration::ZERO);
    if worst != latency.latency {
        return Err(Broken::new("the worst of its cores", worst, latency.latency));
    }
    if let Some(manager) = latency.manager.filter(|manager| manager.late != latency.allowance || manager.periods == 0) {
        let found = format!("{}, of {} periods", latency.allowance, manager.periods);
        return Err(Broken::new("what was measured of the manager is allowed for", manager.late, found));
    }
    if latency.period > latency.shortest {
        return Err(Broken::new("a period no longer than the shortest", latency.shortest, latency.period));
    }
    let own = plan.services.iter().filter(|entry| entry.on == host.name);
    match own.flat_map(|entry| periods(plan, entry)).find(|period| *period < latency.shortest) {
        Some(period) => Err(Broken::new("the shortest period of the plan", period, latency.shortest)),
        None => Ok(()),
    }
}

/// Of its servers, its tasks and what it was promised, in all modes.
fn periods(plan: &Plan, entry: &ServicePlan) -> Vec<Duration> {
    let of = |tasks: &[Task]| tasks.iter().map(|task| task.period).collect::<Vec<_>>();
    let mut all = of(&entry.tasks);
    all.push(entry.server.period);
    if let Promise::Supply(interfaces) = &entry.promise {
        all.extend(interfaces.iter().map(|one| one.period));
    }
    all.extend(proofs(plan, entry).flat_map(|proof| of(&proof.tasks)));
    all
}

/// What it rests on in its other modes, and at its worst.
fn proofs<'a>(plan: &'a Plan, entry: &'a ServicePlan) -> impl Iterator<Item = &'a LocalProof> {
    let members = plan.modes.iter().filter(|modes| modes.on == entry.on).flat_map(|modes| &modes.members);
    let own = members.filter(|member| member.service == entry.name);
    own.flat_map(|member| &member.locals).flat_map(|local| &local.proofs).chain(&entry.pessimistic)
}

/// Whether every certificate of the host allows for it, and for what is allowed for in any case.
fn allowed(plan: &Plan, host: &HostPlan, latency: &HostLatency) -> Result<(), Broken> {
    for entry in plan.services.iter().filter(|entry| entry.on == host.name) {
        // What was measured of the manager says nothing of other backends.
        let others = latency.manager.is_some() && !entry.backend.abilities().own_thread;
        let allowance = if others { LATENESS } else { latency.allowance };
        let all = latency.latency.checked_add(allowance);
        let certificates = proofs(plan, entry).map(|proof| &proof.certificate).chain([&entry.certificate]);
        for certificate in certificates {
            let (Certificate::EveryDeadline { latency: own, .. }
            | Certificate::Percentiles { latency: own, .. }
            | Certificate::Stage { latency: own, .. }) = certificate
            else {
                continue;
            };
            if Some(*own) != all {
                let needed = format!("{} and {allowance} in any case", latency.latency);
                return Err(Broken::new("what each certificate allows for", needed, own).of(entry));
            }
        }
    }
    Ok(())
}
