//! The plan's modes, as the state machines have them.

use crate::{Error, Refused};
use giusto_model::{ChangePolicy, ModesPlan, Plan, Server};
use giusto_modes::{
    Kept, Local, Member, Mode, OnTimeout, Place, Policy, Requests, Settings, Table, Target, Transition,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether servers fit together on a place of the table.
pub(crate) type Fits = Box<dyn Fn(usize, &[Server]) -> bool + Send>;

/// Whether servers fit together on a core.
pub(crate) type FitsCore = Box<dyn Fn(u32, &[Server]) -> bool + Send>;

/// What modes begin with.
pub(crate) struct Begin<'a> {
    pub(crate) modes: &'a ModesPlan,
    pub(crate) table: Table,
    /// The local mode of each member that is in force now.
    pub(crate) locals: Vec<usize>,
    /// What an earlier giusto that died has left.
    pub(crate) kept: Option<Kept>,
    /// Where this giusto keeps its own.
    pub(crate) folder: &'a Path,
    pub(crate) fits: Fits,
}

impl<'a> Begin<'a> {
    /// For a plan of one host with modes; `fits` says whether servers of members fit on a core, with all others that
    /// it has.
    pub(crate) fn new(
        plan: &'a Plan,
        modes: &'a ModesPlan,
        folder: &'a Path,
        fits: FitsCore,
    ) -> Result<Begin<'a>, Error> {
        let (table, cores) = table(plan, modes).map_err(|what| Error::Service { name: "modes".into(), what })?;
        let kept = super::kept::earlier(folder, &table);
        let locals = match &kept {
            // Reservations as before the change that was under way; the tasks follow.
            Some(kept) if kept.open && !kept.back => kept.from.clone(),
            Some(kept) if kept.back => kept.from.clone(),
            Some(kept) => kept.to.clone(),
            None => table.modes()[0].locals.clone(),
        };
        let fits: Fits = Box::new(move |place, servers| cores.get(place).is_some_and(|&core| fits(core, servers)));
        Ok(Begin { modes, table, locals, kept, folder, fits })
    }

    /// The names of those local modes.
    pub(crate) fn names(&self) -> Vec<String> {
        let members = self.table.members().iter().zip(&self.locals);
        members.map(|(member, &local)| member.locals[local].name.clone()).collect()
    }
}

/// The table, and the core of each of its places.
fn table(plan: &Plan, modes: &ModesPlan) -> Result<(Table, Vec<u32>), String> {
    let mut cores: BTreeMap<u32, usize> = BTreeMap::new();
    for service in &plan.services {
        let next = cores.len();
        cores.entry(service.core).or_insert(next);
    }
    if cores.is_empty() {
        cores.insert(0, 0); // no service has a server, and a table has a place
    }
    let mut places: Vec<(u32, usize)> = cores.iter().map(|(&core, &place)| (core, place)).collect();
    places.sort_by_key(|&(_, place)| place);
    let members: Vec<Member> = modes
        .members
        .iter()
        .map(|member| {
            let parts = plan.services.iter().filter(|service| service.name == member.service);
            let locals = member.locals.iter().map(|local| Local {
                name: local.name.clone(),
                utilization: local.utilization,
                servers: local.servers.clone(),
            });
            Member {
                name: member.service.clone(),
                agent: member.agent.is_some(),
                parts: parts.map(|service| cores[&service.core]).collect(),
                locals: locals.collect(),
                asks: asks(modes, member.agent.as_ref().map(|agent| agent.asks.as_slice()).unwrap_or_default()),
            }
        })
        .collect();
    let local = |place: usize, name: &String| {
        let found = members[place].locals.iter().position(|local| local.name == *name);
        found.ok_or_else(|| format!("'{name}' is no local mode of '{}'; plan again", members[place].name))
    };
    let all = modes.modes.iter().map(|mode| {
        let locals = mode.locals.iter().enumerate().map(|(place, name)| local(place, name));
        Ok(Mode { name: mode.name.clone(), locals: locals.collect::<Result<_, String>>()?, urgent: mode.urgent })
    });
    let all = all.collect::<Result<_, String>>()?;
    let boosts = |core: u32| plan.services.iter().any(|one| one.core == core);
    let named =
        places.iter().map(|&(core, _)| Place { name: format!("core {core}"), boosts: usize::from(boosts(core)) });
    let table = Table::new(named.collect(), members.clone(), all).map_err(|why| format!("{why}; plan again"))?;
    Ok((table, places.into_iter().map(|(core, _)| core).collect()))
}

fn asks(modes: &ModesPlan, names: &[String]) -> Vec<usize> {
    names.iter().filter_map(|name| modes.modes.iter().position(|mode| mode.name == *name)).collect()
}

pub(super) fn policy(policy: ChangePolicy) -> Policy {
    match policy {
        ChangePolicy::Boost => Policy::Boost,
        ChangePolicy::Sequential => Policy::Sequential,
        ChangePolicy::Batch => Policy::Batch,
        ChangePolicy::Greedy => Policy::Greedy,
    }
}

/// How the plan wants changes made.
pub(super) fn settings(modes: &ModesPlan) -> Settings {
    let changes = &modes.changes;
    let costs = modes.members.iter().filter_map(|member| member.agent.as_ref()).map(|agent| agent.cost);
    Settings {
        policy: policy(changes.policy),
        requests: match changes.requests {
            giusto_model::Requests::Reject => Requests::Reject,
            giusto_model::Requests::Queue => Requests::Queue,
            giusto_model::Requests::Preempt => Requests::Preempt,
        },
        on_timeout: match changes.on_timeout {
            giusto_model::OnTimeout::RollBack => OnTimeout::RollBack,
            giusto_model::OnTimeout::Degrade => OnTimeout::Degrade,
        },
        transition: match changes.transition {
            giusto_model::Transition::Fast => Transition::Fast,
            giusto_model::Transition::Guaranteed => Transition::Guaranteed,
        },
        timeout: changes.timeout,
        spacing: changes.spacing,
        boost: costs.max().unwrap_or_default(),
    }
}

/// What operators call modes.
pub(super) struct Names {
    modes: Vec<String>,
    members: Vec<(String, Vec<String>)>,
}

impl Names {
    pub(super) fn of(modes: &ModesPlan) -> Names {
        let members = modes.members.iter();
        let own = |member: &giusto_model::MemberPlan| member.locals.iter().map(|local| local.name.clone()).collect();
        Names {
            modes: modes.modes.iter().map(|mode| mode.name.clone()).collect(),
            members: members.map(|member| (member.service.clone(), own(member))).collect(),
        }
    }

    /// What is wanted; `now` has the local modes of the members that are not named.
    pub(super) fn target(
        &self,
        mode: Option<&str>,
        locals: &BTreeMap<String, String>,
        now: &[String],
    ) -> Result<Target, Refused> {
        let bad = |reason: String| Refused { exit: 2, reason };
        if let Some(name) = mode {
            let found = self.modes.iter().position(|mode| mode == name);
            return found.map(Target::Mode).ok_or_else(|| {
                bad(format!("'{name}' is not a mode of this site; expected one of {}", self.modes.join(", ")))
            });
        }
        let place = |of: &[String], name: &str| of.iter().position(|one| one == name);
        let mut wanted: Vec<usize> =
            self.members.iter().zip(now).map(|((_, own), name)| place(own, name).unwrap_or(0)).collect();
        for (service, local) in locals {
            let Some(member) = self.members.iter().position(|(name, _)| name == service) else {
                let names: Vec<&str> = self.members.iter().map(|(name, _)| name.as_str()).collect();
                return Err(bad(format!("service '{service}' has no modes; expected one of {}", names.join(", "))));
            };
            let own = &self.members[member].1;
            wanted[member] = place(own, local).ok_or_else(|| {
                bad(format!("'{local}' is not a mode of '{service}'; expected one of {}", own.join(", ")))
            })?;
        }
        Ok(Target::Locals(wanted))
    }
}
