//! One service of a site, and its entries in the plan.

use super::super::broken::Broken;
use super::super::modes::all_there;
use super::same::same;
use giusto_model::{
    Criticality, LeftoverPlan, LocalProof, Measured, Plan, Promise, Service, ServicePlan, ServiceTime, SiteCriticality,
    Supply, Task, AGENT_TASK,
};

const OBSERVED: &str = "what is observed of it";

/// Whether its execution times are not in the site.
pub(super) fn is_measured(service: &Service) -> bool {
    service.measured != Measured::Declared
}

pub(super) fn check(plan: &Plan, service: &Service) -> Result<(), Broken> {
    let named = |broken: Broken| Broken { service: Some(service.name.clone()), ..broken };
    if let Promise::Leftovers { .. } = service.promise {
        let mut own = plan.leftovers.iter().filter(|one| one.name == service.name);
        return own.try_for_each(|one| leftover(service, one)).map_err(named);
    }
    let own: Vec<&ServicePlan> = plan.services.iter().filter(|entry| entry.name == service.name).collect();
    own.iter().try_for_each(|entry| one(service, entry, &own).map_err(|broken| broken.of(entry)))?;
    match service.agent.is_some() || !needs_tasks(service) {
        true => Ok(()), // with modes: of each local mode
        false => tasks(service, &own).map_err(named),
    }
}

fn leftover(service: &Service, planned: &LeftoverPlan) -> Result<(), Broken> {
    let (at_least, at_most) = (planned.at_least, planned.at_most);
    same("promise", "at-least and at-most", &service.promise, &Promise::Leftovers { at_least, at_most })?;
    same("origin", "where its processes come from", &service.origin, &planned.origin)?;
    same("process", "how its processes are run", &service.process, &planned.process)?;
    same("observe", OBSERVED, &service.observe, &planned.observe)?;
    host(service, &planned.on)
}

fn host(service: &Service, on: &String) -> Result<(), Broken> {
    service.on.as_ref().map_or(Ok(()), |wanted| same("on", "its host", wanted, on))
}

fn one(service: &Service, entry: &ServicePlan, own: &[&ServicePlan]) -> Result<(), Broken> {
    promise(service, entry, own)?;
    same("origin", "where its processes come from", &service.origin, &entry.origin)?;
    same("process", "how its processes are run", &service.process, &entry.process)?;
    same("load", "what drives it", &service.load, &entry.load)?;
    same("cap", "what happens when its budget is used up", &service.cap, &entry.cap)?;
    same("copies", "its workers", &service.copies, &entry.copies)?;
    same("observe", OBSERVED, &service.observe, &entry.observe)?;
    same("adapt", "what it may be planned anew with", &service.adapt, &entry.adapt)?;
    same("vcpu", "whether it has virtual CPUs", &(service.origin.has_vcpus() || own.len() > 1), &entry.vcpu.is_some())?;
    host(service, &entry.on)?;
    match (service.server, entry.server.kind.facts().supply) {
        (Some(kind), _) => same("server", "its kind", &kind, &entry.server.kind)?,
        (None, Supply::AtAnyTime) => {}
        (None, Supply::Less(why)) => {
            return Err(Broken::new("a server that supplies at any time", "another kind, as the site names none", why));
        }
    }
    if service.promise == Promise::AsIfAlone {
        same("margin", "percentage points that are added", &service.margin, &entry.margin)?;
    }
    if !needs_tasks(service) && service.agent.is_none() && !entry.tasks.is_empty() {
        return Err(Broken::new("tasks, of which the site has none", 0, entry.tasks.len()));
    }
    criticality(service, entry)
}

fn needs_tasks(service: &Service) -> bool {
    service.promise.has_tasks()
}

fn promise(service: &Service, entry: &ServicePlan, own: &[&ServicePlan]) -> Result<(), Broken> {
    let mut wanted = service.promise.clone();
    let fitted = matches!(&service.measured, Measured::Wanted { fits } if fits.iter().any(Option::is_some));
    match (&mut wanted, &entry.promise) {
        // That of the mode in which it begins; the modes are compared by themselves.
        (Promise::Supply(all), Promise::Supply(_)) if service.agent.is_some() => {
            *all = own.iter().map(|entry| entry.server.interface()).collect();
        }
        // What its paths count on, they prove.
        (Promise::Stage { counted, .. }, Promise::Stage { counted: planned, .. }) => *counted = *planned,
        (
            Promise::Percentiles { arrivals, service: time, .. },
            Promise::Percentiles { arrivals: planned, service: found, .. },
        ) if is_measured(service) => {
            if fitted {
                *arrivals = *planned;
            }
            let of_a_profile = matches!(found, ServiceTime::Measured { .. });
            if of_a_profile {
                time.clone_from(found);
            }
        }
        _ => {}
    }
    same("promise", "what it was promised", &wanted, &entry.promise)
}

/// Whether its entries have its tasks, all of them and no others.
fn tasks(service: &Service, own: &[&ServicePlan]) -> Result<(), Broken> {
    let there: Vec<&Task> = own.iter().flat_map(|entry| &entry.tasks).collect();
    if let Some(agent) = there.iter().find(|task| task.name == AGENT_TASK) {
        return Err(Broken::new("tasks of a service without an agent", "its own", &agent.name));
    }
    let wanted: Vec<Task> =
        service.tasks.iter().enumerate().map(|(at, task)| resolved(service, at, task, &there)).collect();
    if service.copies.is_some() {
        return own.iter().try_for_each(|one| same("tasks", "what each copy runs", &wanted, &one.tasks));
    }
    if let [only] = own {
        return same("tasks", "what it runs", &wanted, &only.tasks);
    }
    all_there(&wanted, &there).map_err(|(needed, copies)| {
        Broken::new("tasks: what it runs, as in the site: copies of its tasks on virtual CPUs", needed, copies)
    })?;
    let Promise::EveryDeadline { placed, .. } = &service.promise else { return Ok(()) };
    for entry in own.iter().filter(|_| !placed.is_empty()) {
        let here = wanted.iter().zip(placed).filter(|(_, on)| Some(**on) == entry.vcpu);
        same("tasks", "what runs on its virtual CPU", &here.map(|(task, _)| task.clone()).collect(), &entry.tasks)?;
    }
    Ok(())
}

/// The task with what was measured of it, if the site leaves that to be measured.
fn resolved(service: &Service, at: usize, task: &Task, there: &[&Task]) -> Task {
    let found = there.iter().find(|other| other.name == task.name).filter(|_| is_measured(service));
    let Some(found) = found else { return task.clone() };
    let fitted = matches!(&service.measured, Measured::Wanted { fits } if fits.get(at).is_some_and(Option::is_some));
    let wcet = found.wcet;
    match fitted {
        true => Task { wcet, period: found.period, deadline: found.deadline, ..task.clone() },
        false => Task { wcet, ..task.clone() },
    }
}

fn criticality(service: &Service, entry: &ServicePlan) -> Result<(), Broken> {
    let told =
        |found: &str| Err(Broken::new("criticality, as in the site", format!("{:?}", service.criticality), found));
    match (&service.criticality, entry.criticality) {
        (None, None) | (Some(SiteCriticality::Low), Some(Criticality::Low)) => Ok(()),
        (Some(SiteCriticality::High { worst }), Some(Criticality::High { worst: planned, .. })) => {
            match &entry.pessimistic {
                Some(proof) if needs_tasks(service) => at_worst(service, worst, proof),
                _ => {
                    let own = worst.get(entry.vcpu.unwrap_or(0) as usize).copied();
                    same("worst", "the most that it takes", &own, &Some(planned))
                }
            }
        }
        (_, None) => told("none"),
        (_, Some(Criticality::Low)) => told("low"),
        (_, Some(Criticality::High { .. })) => told("high"),
    }
}

/// Whether a proof of the worst counts on the worst execution time of each task of the site.
fn at_worst(service: &Service, worst: &[giusto_model::Duration], proof: &LocalProof) -> Result<(), Broken> {
    proof.tasks.iter().filter(|task| task.name != AGENT_TASK).try_for_each(|task| {
        let mut own = service.tasks.iter().zip(worst).filter(|(one, _)| one.name == task.name);
        match own.any(|(_, most)| *most == task.wcet) {
            true => Ok(()),
            false => {
                Err(Broken::new(format!("worst-wcet of task '{}', as in the site", task.name), "its own", task.wcet))
            }
        }
    })
}
