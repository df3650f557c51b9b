//! With which mode a plan begins on this host, and what a deployment knows of its modes.

use crate::modes::{Begin, Modes};
use crate::{Error, Journal};
use giusto_model::{ModesPlan, Origin, Plan};
use std::path::Path;

/// The modes of a deployment that has any.
pub(crate) struct Modal {
    pub(crate) plan: ModesPlan,
    pub(crate) modes: Modes,
    /// The local modes that the deployment's servers are known to have.
    pub(crate) locals: Vec<String>,
    /// Agents that were seen to, with what they are in: a service, a process.
    pub(crate) agents: Vec<(String, u32)>,
    /// How often each member had been made to wait when that was last looked at.
    pub(crate) throttled: Vec<u64>,
}

/// The plan as this host has to begin with it: in the mode that a giusto which died has left, else as it is, in the
/// first.
///
/// Keys that services which Giusto starts will share with it, and that are not there, are made: they find them in the
/// same file system. A virtual machine or a container that Giusto does not start has to be given one.
pub fn begin_with(plan: Plan, journal: &Journal) -> Result<Plan, Error> {
    let started =
        |name: &str| plan.services.iter().any(|one| one.name == name && matches!(one.origin, Origin::Start(_)));
    let members = plan.only_modes().into_iter().flat_map(|modes| &modes.members);
    for member in members.filter(|member| started(&member.service)) {
        let Some(agent) = &member.agent else { continue };
        let made = giusto_agent::make_key(&agent.key);
        let made = made.map_err(|why| Error::Service { name: member.service.clone(), what: why.to_string() })?;
        if made {
            tracing::info!(
                service = member.service,
                "{}: a key was made for its agent, {}",
                member.service,
                agent.key.display()
            );
        }
    }
    in_force(plan, journal.folder())
}

/// The same, by the folder of the journal.
pub(crate) fn in_force(plan: Plan, folder: &Path) -> Result<Plan, Error> {
    let Some(modes) = plan.only_modes() else { return Ok(plan) };
    let names = begin(&plan, modes, folder)?.names();
    Ok(plan.in_mode(&names).unwrap_or(plan))
}

/// An orderly end: the next giusto begins in the first mode.
pub fn forget_mode(journal: &Journal) {
    crate::modes::forget(journal.folder());
}

/// What the thread of modes begins with.
pub(crate) fn begin<'a>(plan: &'a Plan, modes: &'a ModesPlan, folder: &'a Path) -> Result<Begin<'a>, Error> {
    let names: Vec<&str> = modes.members.iter().map(|member| member.service.as_str()).collect();
    let others = plan.services.iter().filter(|one| !names.contains(&one.name.as_str()));
    let others: Vec<(u32, giusto_model::Server)> = others.map(|one| (one.core, one.server)).collect();
    let admission = plan.only_host().map(|host| host.admission.clone()).unwrap_or_default();
    let fits = move |core: u32, servers: &[giusto_model::Server]| {
        let Some(told) = admission.iter().find(|told| told.core == core) else { return false };
        let there = others.iter().filter(|(on, _)| *on == core).map(|(_, server)| *server);
        giusto_planner::admit_core(told, servers.iter().copied().chain(there).collect()).is_ok()
    };
    Begin::new(plan, modes, folder, Box::new(fits))
}
