//! The modes of a site, and those of each host in the plan.

use super::super::broken::Broken;
use super::same::same;
use giusto_model::{
    Interface, LocalNeed, LocalPlan, MemberPlan, ModesPlan, Plan, Server, Service, Site, SiteMode, SiteModes, RUNNING,
    STOPPED,
};

pub(super) fn check(plan: &Plan, site: &Site) -> Result<(), Broken> {
    let hosts = plan.hosts.iter().map(|host| host.name.as_str());
    let wanted: Vec<&str> = hosts.filter(|host| !members(plan, site, host).is_empty()).collect();
    let found: Vec<&str> = plan.modes.iter().map(|modes| modes.on.as_str()).collect();
    same("modes", "hosts with services that have several", &wanted, &found)?;
    let Some(of_site) = &site.modes else { return Ok(()) };
    plan.modes.iter().try_for_each(|modes| {
        let named = |broken: Broken| Broken { what: format!("modes of {}: {}", modes.on, broken.what), ..broken };
        one(of_site, modes, &members(plan, site, &modes.on)).map_err(named)
    })
}

/// The services on a host that do not do the same in all modes, in the order of the site.
fn members<'a>(plan: &Plan, site: &'a Site, host: &str) -> Vec<&'a Service> {
    let named = |service: &&Service| {
        let modes = site.modes.as_ref().and_then(|modes| modes.modes.first());
        modes.is_some_and(|mode| mode.locals.iter().any(|local| local.service == service.name))
    };
    let here = |service: &&Service| {
        let reserved = plan.services.iter().map(|one| (&one.name, &one.on));
        let mut all = reserved.chain(plan.leftovers.iter().map(|one| (&one.name, &one.on)));
        all.any(|(name, on)| *name == service.name && on == host)
    };
    site.services.iter().filter(named).filter(here).collect()
}

fn one(site: &SiteModes, planned: &ModesPlan, members: &[&Service]) -> Result<(), Broken> {
    let policy = site.changes.policy.unwrap_or(planned.changes.policy);
    same("mode-changes", "how modes are changed", &site.changes.clone().with(policy), &planned.changes)?;
    let names: Vec<&String> = members.iter().map(|service| &service.name).collect();
    same("members", "services with modes", &names, &planned.members.iter().map(|one| &one.service).collect())?;
    members.iter().zip(&planned.members).try_for_each(|(service, planned)| {
        member(service, planned).map_err(|broken| Broken { service: Some(service.name.clone()), ..broken })
    })?;
    let wanted = |mode: &SiteMode| {
        let locals = mode.locals.iter().filter(|local| names.contains(&&local.service));
        (mode.name.clone(), mode.within, mode.urgent, locals.map(|local| local.local.clone()).collect::<Vec<_>>())
    };
    let found = planned.modes.iter().map(|mode| (mode.name.clone(), mode.within, mode.urgent, mode.locals.clone()));
    same("modes", "each with what it promises", &site.modes.iter().map(wanted).collect::<Vec<_>>(), &found.collect())
}

fn member(service: &Service, planned: &MemberPlan) -> Result<(), Broken> {
    same("agent", "its agent", &service.agent, &planned.agent)?;
    let own = service.modes.iter().map(|mode| mode.name.as_str());
    let names: Vec<&str> = match service.agent {
        Some(_) => own.chain([STOPPED]).collect(),
        None => vec![RUNNING, STOPPED],
    };
    let found: Vec<&str> = planned.locals.iter().map(|local| local.name.as_str()).collect();
    same("modes", "its local modes", &names, &found)?;
    for (at, local) in planned.locals.iter().enumerate() {
        needs(service.modes.get(at).map(|mode| &mode.need), local)
            .map_err(|broken| Broken { what: format!("in '{}': {}", local.name, broken.what), ..broken })?;
    }
    Ok(())
}

/// What it is promised in a local mode; `None`: nothing.
fn needs(need: Option<&LocalNeed>, local: &LocalPlan) -> Result<(), Broken> {
    let placed_there = |tasks: &[giusto_model::Task], placed: &[u32]| {
        local.proofs.iter().enumerate().filter(|_| !placed.is_empty()).try_for_each(|(vcpu, proof)| {
            let wanted = tasks.iter().zip(placed).filter(|(_, on)| **on as usize == vcpu).map(|(task, _)| task);
            let found = proof.tasks.iter().filter(|task| task.name != giusto_model::AGENT_TASK);
            same("tasks", "what runs on its virtual CPU", &wanted.collect::<Vec<_>>(), &found.collect())
        })
    };
    match need {
        None => same("tasks", "what it runs", &Vec::new(), &local.tasks),
        Some(LocalNeed::Tasks { tasks, placed }) => {
            same("tasks", "what it runs", tasks, &local.tasks)?;
            placed_there(tasks, placed)
        }
        Some(LocalNeed::Supply(all)) => {
            same("tasks", "what it runs", &Vec::new(), &local.tasks)?;
            let given: Vec<Interface> = local.servers.iter().map(Server::interface).collect();
            same("supply", "what it is promised", all, &given)
        }
    }
}
