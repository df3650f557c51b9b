//! What of a machine every certificate has to do without, as it was measured: budgets that lack some of their time, supplies that
//! come late, what the manager takes. These numbers are the checker's own, not those that a plan claims.

use super::super::assumed::{LATENESS, LOSS, MANAGER, UPKEEP};
use super::super::broken::Broken;
use super::super::exact::{of, share, Exact};
use giusto_model::{
    Admission, Backend, Bandwidth, Certificate, Duration, HostPlan, LocalProof, MachineBasis, ManagerLatency, Plan,
    RestsOn, Server, ServicePlan, Task,
};

pub(super) fn check(plan: &Plan) -> Result<(), Broken> {
    for host in &plan.hosts {
        let machine = plan.basis.as_ref().and_then(|basis| basis.machines.iter().find(|one| one.host == host.name));
        let Some(machine) = machine else {
            return Err(Broken::new("what the plan was made from", "a machine for each host", "none"));
        };
        let modes = plan.modes.iter().filter(|modes| modes.on == host.name).flat_map(|modes| &modes.modes);
        let admissions = host.admission.iter().chain(modes.flat_map(|mode| &mode.admission));
        admissions.into_iter().try_for_each(|told| {
            core(told, host, machine)?;
            upkeep(told, host, plan).map_err(|broken| Broken { core: Some(told.core), ..broken })
        })?;
        for entry in plan.services.iter().filter(|entry| entry.on == host.name) {
            let own = (!nothing(&entry.tasks, &entry.certificate)).then_some((entry.server, &entry.certificate));
            let all = own.into_iter().chain(locals(plan, entry)).chain(worst(entry));
            all.into_iter()
                .try_for_each(|(server, certificate)| allowed(entry.backend, server, certificate, host, machine))
                .map_err(|broken| broken.of(entry))?;
        }
    }
    Ok(())
}

fn core(told: &Admission, host: &HostPlan, machine: &MachineBasis) -> Result<(), Broken> {
    let at = |what: &str, needed: Bandwidth, found: Bandwidth| {
        let what = format!("host '{}': {what}", host.name);
        Err(Broken { core: Some(told.core), ..Broken::new(what, needed, found) })
    };
    let manager = Bandwidth::new(MANAGER.0, MANAGER.1).unwrap_or(Bandwidth::ONE);
    match told.backend.abilities().own_thread {
        true if told.cost < manager => at("what its backend takes of a core, at least", manager, told.cost),
        false if told.most > machine.deadline_bandwidth_cap => {
            at("what the kernel admits of a core, at most", machine.deadline_bandwidth_cap, told.most)
        }
        _ => Ok(()),
    }
}

/// The manager has the time for all periods of its servers, in whatever modes: no more than reservations do not get.
fn upkeep(told: &Admission, host: &HostPlan, plan: &Plan) -> Result<(), Broken> {
    let (cost, kept) = (share(told.cost), share(told.cost) + share(host.keep_free));
    let claimed = told.upkeep.map_or(cost.clone(), share);
    if told.backend.abilities().own_thread {
        let measured = host.latency.as_ref().and_then(|latency| latency.manager?.cost);
        let here = plan.services.iter().filter(|entry| entry.on == host.name && entry.core == told.core);
        let each = here.filter_map(|entry| {
            let modes = locals(plan, entry).map(|(server, _)| server.period);
            of(measured.unwrap_or(UPKEEP), modes.chain([entry.server.period]).min()?)
        });
        let needed: Exact = each.sum();
        if needed > claimed {
            return Err(Broken::new("what the manager takes for all periods of its servers", needed, claimed));
        }
    }
    match told.upkeep.is_none() || claimed > cost && claimed <= kept {
        true => Ok(()),
        false => {
            Err(Broken::new("what it takes for periods: more than 'cost', and what reservations leave", kept, claimed))
        }
    }
}

/// Its servers in its local modes.
fn locals<'a>(plan: &'a Plan, entry: &'a ServicePlan) -> impl Iterator<Item = (Server, &'a Certificate)> {
    let place =
        plan.services.iter().filter(|other| other.name == entry.name).position(|other| other.vcpu == entry.vcpu);
    let members = plan.modes.iter().flat_map(|modes| &modes.members).filter(|member| member.service == entry.name);
    members.flat_map(|member| &member.locals).filter_map(move |local| {
        let proof: &LocalProof = local.proofs.get(place?)?;
        let runs = !nothing(&proof.tasks, &proof.certificate);
        runs.then_some((*local.servers.get(place?)?, &proof.certificate))
    })
}

/// Whether nothing runs there but the kernel of a virtual CPU.
fn nothing(tasks: &[Task], certificate: &Certificate) -> bool {
    tasks.is_empty() && matches!(certificate, Certificate::EveryDeadline { .. })
}

fn worst(entry: &ServicePlan) -> Option<(Server, &Certificate)> {
    let Some(giusto_model::Criticality::High { worst, .. }) = entry.criticality else { return None };
    Some((Server { budget: worst, ..entry.server }, &entry.pessimistic.as_ref()?.certificate))
}

/// Whether a certificate does without what may be lost and late.
fn allowed(
    backend: Backend,
    server: Server,
    certificate: &Certificate,
    host: &HostPlan,
    machine: &MachineBasis,
) -> Result<(), Broken> {
    let (budget, latency, whole_core) = match certificate {
        Certificate::EveryDeadline { budget, latency, rests_on, .. } => (budget, latency, Some(*rests_on)),
        Certificate::Percentiles { budget, latency, .. } | Certificate::Stage { budget, latency } => {
            (budget, latency, None)
        }
        // The one promises a share of what a whole core gives, the other what the server is.
        Certificate::AsIfAlone { .. } | Certificate::Supply => return Ok(()),
    };
    let measured = host.latency.as_ref().map_or(Duration::ZERO, |latency| latency.latency);
    let manager = host.latency.as_ref().and_then(|latency| latency.manager);
    let (loss, late) = match manager.filter(|_| backend.abilities().own_thread) {
        Some(ManagerLatency { loss, late, .. }) => (loss, late),
        None => (LOSS, LATENESS),
    };
    let late = late.checked_add(measured).unwrap_or(measured);
    if *latency < late {
        return Err(Broken::new("how late its supply may come, at least", late, latency));
    }
    let (lost, least) = match whole_core {
        Some(RestsOn::WholeCore { loss: allowed }) => (allowed, loss),
        _ => {
            // A budget that ends at the tick pays back what the period before ran over.
            let tick = if backend.abilities().at_the_tick { machine.tick } else { Duration::ZERO };
            let lost = server.budget.checked_sub(*budget).unwrap_or(Duration::ZERO);
            (lost, loss.checked_add(tick).unwrap_or(tick))
        }
    };
    match lost < least {
        true => Err(Broken::new("what may be lost of each of its budgets, at least", least, lost)),
        false => Ok(()),
    }
}
