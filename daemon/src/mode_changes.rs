//! Mode changes of a deployment: begins and ends the thread that makes them, does for it what needs the deployment, and follows
//! it.

use crate::modal::{begin, Modal};
use crate::modes::{Modes, ModesStatus, Wishes};
use crate::{Deployment, Error, Running};
use giusto_compute::{sched, BudgetHandle};
use giusto_model::{Duration, LocalPlan, Plan, ServicePlan, STOPPED};

/// What an agent is called among the threads of its service.
const AGENT: &str = "giusto-agent";

impl Deployment<'_> {
    /// Begins to change modes, if `plan` has any; all its servers are in force.
    pub(crate) fn start_modes(&mut self, plan: &Plan) -> Result<(), Error> {
        self.let_go_on(plan)?;
        let Some(modes) = plan.only_modes() else { return Ok(()) };
        let folder = self.journal.folder().to_path_buf();
        let begin = begin(plan, modes, &folder)?;
        let locals = begin.names();
        let handles = modes.members.iter().map(|member| {
            let parts = self.parts.iter().filter(|part| part.name == member.service);
            parts.map(|part| self.handle(part)).collect::<Result<_, _>>()
        });
        let handles = handles.collect::<Result<_, giusto_compute::Error>>()?;
        for (member, local) in modes.members.iter().zip(&locals).filter(|(member, _)| member.agent.is_none()) {
            self.carry(&member.service, local != STOPPED)?;
        }
        let contained = |member: &giusto_model::MemberPlan| match member.agent {
            None => self.running(&member.service)?.contained().cloned(),
            Some(_) => None,
        };
        let groups = modes.members.iter().map(contained).collect();
        let begun = Modes::start(begin, handles, groups)?;
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

    fn handle(&self, server: &ServicePlan) -> Result<Box<dyn BudgetHandle>, giusto_compute::Error> {
        self.backends.used(server.backend).ok_or(giusto_compute::Error::NoThread)?.handle(server)
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
            let parts = self.parts.iter_mut().filter(|part| part.name == member.service);
            parts.zip(servers).for_each(|(part, server)| part.server = *server);
        }
    }

    /// The agent of a service that is no virtual machine goes before its other threads.
    fn prefer_agent(&mut self, service: &str, cost: Duration, spacing: Duration) -> Result<(), Error> {
        let Some(pid) = self.service(service).and_then(agent) else { return Ok(()) };
        let Some(part) = self.parts.iter().find(|part| part.name == service && part.vcpu.is_none()) else {
            return Ok(());
        };
        let seen = (service.to_string(), pid);
        let Some(modal) = &mut self.modal else { return Ok(()) };
        if modal.agents.contains(&seen) {
            return Ok(());
        }
        self.backends.of(part.backend).prefer(part, pid, (cost, spacing), self.journal)?;
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
