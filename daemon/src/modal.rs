//! Modes of a scene: begins and ends the thread that changes them, does for it what needs the scene, and follows it.

use crate::hold::Hold;
use crate::modes::{Begin, Grip, Modes, ModesStatus, Wishes};
use crate::{Error, Journal, Running, Scene};
use giusto_compute::sched;
use giusto_model::{Duration, LocalPlan, ModesPlan, Origin, Plan, STOPPED};
use std::path::Path;

/// What an agent is called among the threads of its service.
const AGENT: &str = "giusto-agent";
/// Within which an agent under SCHED_DEADLINE gets its small reservation, unless that is longer than half of it.
const PROMPT: Duration = Duration::from_ms(1);

/// The modes of a scene that has any.
pub(crate) struct Modal {
    plan: ModesPlan,
    modes: Modes,
    /// The local modes that the scene's servers are known to have.
    locals: Vec<String>,
    /// Agents that were seen to, with what they are in: a service, a process.
    agents: Vec<(String, u32)>,
    /// How often each member had been made to wait when that was last looked at.
    throttled: Vec<u64>,
}

/// The plan as this host has to begin with it: in the mode that a giusto which died has left, else as it is, in the
/// first.
///
/// Keys that services which Giusto starts will share with it, and that are not there, are made: they find them in the
/// same file system. A virtual machine or a container that somebody else starts has to be given one.
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

fn begin<'a>(plan: &'a Plan, modes: &'a ModesPlan, folder: &'a Path) -> Result<Begin<'a>, Error> {
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

impl Scene<'_> {
    /// Begins to change modes, if `plan` has any; all its servers are in force.
    pub(crate) fn start_modes(&mut self, plan: &Plan) -> Result<(), Error> {
        self.let_go_on(plan)?;
        let Some(modes) = plan.only_modes() else { return Ok(()) };
        let folder = self.journal.folder().to_path_buf();
        let begin = begin(plan, modes, &folder)?;
        let locals = begin.names();
        let grips = modes.members.iter().map(|member| {
            let parts = self.parts.iter().filter(|part| part.plan.name == member.service);
            parts.map(|part| grip(&part.hold, &self.managers.get(&part.plan.core))).collect::<Result<_, Error>>()
        });
        let grips = grips.collect::<Result<_, Error>>()?;
        for (member, local) in modes.members.iter().zip(&locals).filter(|(member, _)| member.agent.is_none()) {
            self.carry(&member.service, local != STOPPED)?;
        }
        let contained = |member: &giusto_model::MemberPlan| match member.agent {
            None => self.running(&member.service)?.contained().cloned(),
            Some(_) => None,
        };
        let groups = modes.members.iter().map(contained).collect();
        let begun = Modes::start(begin, grips, groups)?;
        self.modal =
            Some(Modal { plan: modes.clone(), modes: begun, locals, agents: Vec::new(), throttled: Vec::new() });
        Ok(())
    }

    /// What another plan's mode had stopped, and this one's modes do not speak of.
    fn let_go_on(&self, plan: &Plan) -> Result<(), Error> {
        let members = || plan.only_modes().into_iter().flat_map(|modes| &modes.members);
        let all = self.services.iter().chain(self.leftovers.iter().map(|leftover| &leftover.running));
        for running in all.filter(|one| !members().any(|member| member.service == one.name)) {
            let Some(contained) = running.contained().filter(|contained| contained.is_frozen()) else { continue };
            let doing = || format!("let '{}' go on", running.name);
            contained.ask_to_freeze(false).map_err(|source| Error::Io { doing: doing(), source })?;
        }
        Ok(())
    }

    /// Ends that: no mode changes any more. What is in force stays.
    pub(crate) fn stop_modes(&mut self) {
        self.modal = None;
    }

    /// Where wishes for modes go.
    pub(crate) fn wishes(&self) -> Option<Wishes> {
        self.modal.as_ref().map(|modal| modal.modes.wishes())
    }

    pub(crate) fn modes_status(&self) -> Option<ModesStatus> {
        self.wishes().map(|wishes| wishes.status())
    }

    /// For so long, doing what the thread of modes cannot do itself.
    pub(crate) fn wait(&mut self, at_most: std::time::Duration) {
        let until = std::time::Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let Some(modal) = &self.modal else { return std::thread::sleep(left) };
            let Some(carry) = modal.modes.wait(left) else { return };
            let done = self.carry(&carry.service, carry.runs);
            if let Err(why) = &done {
                tracing::warn!("{why}");
            }
            if let Some(modal) = &self.modal {
                modal.modes.carried(&carry, done.is_ok());
            }
        }
    }

    /// Lets a service without an agent run, or stops all its processes.
    fn carry(&mut self, service: &str, runs: bool) -> Result<(), Error> {
        let all = self.services.iter().chain(self.leftovers.iter().map(|leftover| &leftover.running));
        let Some(running) = all.into_iter().find(|running| running.name == service) else { return Ok(()) };
        match (runs, running.contained()) {
            // It ends with its cgroup, stopped or not.
            (_, Some(contained)) => {
                let doing = || format!("stop '{service}' or let it go on");
                contained.ask_to_freeze(!runs).map_err(|source| Error::Io { doing: doing(), source })
            }
            (true, None) => Ok(giusto_compute::go_on(&running.processes())?),
            (false, None) => Ok(giusto_compute::stop(&|| running.processes(), self.journal)?),
        }
    }

    fn running(&self, service: &str) -> Option<&Running> {
        let all = self.services.iter().chain(self.leftovers.iter().map(|leftover| &leftover.running));
        all.into_iter().find(|running| running.name == service)
    }

    /// Follows what has changed: servers, stopped services that have new processes, agents that came. Once a second.
    pub(crate) fn look_after_modes(&mut self) -> Vec<String> {
        let Some(status) = self.modes_status() else { return vec![] };
        self.follow(&status);
        let Some(modal) = &self.modal else { return vec![] };
        if modal.modes.has_ended() {
            return vec!["modes cannot be changed any more: their thread has ended; start giusto again".into()];
        }
        let stopped: Vec<String> = status
            .members
            .iter()
            .filter(|member| member.connected.is_none() && member.local == STOPPED && status.changing_to.is_none())
            .map(|member| member.service.clone())
            .collect();
        let spacing = modal.plan.changes.spacing;
        let agents: Vec<(String, Duration)> = modal
            .plan
            .members
            .iter()
            .filter_map(|member| Some((member.service.clone(), member.agent.as_ref()?.cost)))
            .collect();
        let mut worries: Vec<String> =
            stopped.iter().filter_map(|service| self.carry(service, false).err()).map(|why| why.to_string()).collect();
        for (service, cost) in agents {
            if let Err(why) = self.prefer_agent(&service, cost, spacing) {
                worries.push(format!("{service}: its agent has no precedence: {why}"));
            }
        }
        let throttled: Vec<u64> = status.members.iter().map(|member| member.throttled).collect();
        let before =
            self.modal.as_mut().map(|modal| std::mem::replace(&mut modal.throttled, throttled)).unwrap_or_default();
        for (place, member) in status.members.iter().enumerate() {
            if before.get(place).is_some_and(|before| *before < member.throttled) {
                worries.push(format!(
                    "{}: its agent says more than it may, and is heard no faster than that; look after it, or make a new key",
                    member.service
                ));
            }
            match (member.connected, member.sound) {
                (Some(false), _) => worries.push(format!(
                    "{}: its agent is not connected, so its mode cannot be changed; start giusto agent in it",
                    member.service
                )),
                (_, false) => worries.push(format!(
                    "{}: it does not run what its mode says, and has no guarantee until it does; look after its agent",
                    member.service
                )),
                _ => {}
            }
        }
        worries
    }

    /// The servers of the plan as the thread of modes has set them.
    fn follow(&mut self, status: &ModesStatus) {
        let Some(modal) = &mut self.modal else { return };
        if modal.locals == status.locals || status.changing_to.is_some() {
            return;
        }
        modal.locals.clone_from(&status.locals);
        for (place, (member, name)) in modal.plan.members.iter().zip(&status.locals).enumerate() {
            let Some(LocalPlan { servers, .. }) = modal.plan.local(place, name) else { continue };
            let parts = self.parts.iter_mut().filter(|part| part.plan.name == member.service);
            parts.zip(servers).for_each(|(part, server)| part.plan.server = *server);
        }
    }

    /// The agent of a service that is no virtual machine goes before its other threads.
    fn prefer_agent(&mut self, service: &str, cost: Duration, spacing: Duration) -> Result<(), Error> {
        let Some(pid) = self.service(service).and_then(agent) else { return Ok(()) };
        let Some(part) = self.parts.iter().find(|part| part.plan.name == service && part.plan.vcpu.is_none()) else {
            return Ok(());
        };
        let seen = (service.to_string(), pid);
        let Some(modal) = &mut self.modal else { return Ok(()) };
        if modal.agents.contains(&seen) {
            return Ok(());
        }
        match &part.hold {
            Hold::Managed(handle) => {
                if let Some(manager) = self.managers.get(&part.plan.core) {
                    manager.prefer(handle, pid)?;
                }
            }
            Hold::Deadline(_) => {
                let half = Duration::from_ns(cost.ns().saturating_mul(2));
                match giusto_compute::prompt(
                    pid,
                    cost,
                    PROMPT.max(half),
                    spacing.min(Duration::from_secs(4)),
                    self.journal,
                ) {
                    Err(giusto_compute::Error::Taken(_)) | Ok(()) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            Hold::RtGroup(_) | Hold::Nothing => {}
        }
        modal.agents.retain(|(name, _)| name != service);
        modal.agents.push(seen);
        Ok(())
    }
}

/// The agent among the processes of a service.
fn agent(running: &Running) -> Option<u32> {
    let is_agent = |pid: &u32| {
        sched::threads(*pid).first().is_some_and(|_| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == AGENT)
        })
    };
    running.processes().into_iter().find(is_agent)
}

fn grip(hold: &Hold, manager: &Option<&giusto_compute::manager::Manager>) -> Result<Grip, Error> {
    match (hold, manager) {
        (Hold::Managed(handle), Some(manager)) => Ok(Grip::Managed(manager.lever(handle)?)),
        (Hold::Deadline(reserved), _) => Ok(Grip::Deadline(reserved.grip())),
        _ => Err(Error::Service {
            name: "modes".into(),
            what: "the backends 'manager' and 'deadline' can change servers in a mode change, the other ones cannot; plan with --backend manager".into(),
        }),
    }
}
