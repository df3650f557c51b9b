//! Services that end while a plan is enforced: told, started again, waited for; the others notice nothing.
//!
//! A service's server stays as it is meanwhile: no other service is admitted to its share, and it is under it again from its
//! first instruction. Only the end of one that is `essential` ends everything.

use crate::services::Event;
use crate::{Deployment, Error};
use giusto_compute::sched::{self, Thread};
use giusto_model::{Plan, ServicePlan};

/// A service, as a thread that enforces knows it.
struct Known {
    name: String,
    core: u32,
    /// From their birth on.
    threads: Vec<u32>,
    /// Its processes that were put into another cgroup lately.
    moved: Vec<Thread>,
}

impl Deployment<'_> {
    /// Follows what became of services, and starts those again that are due; ten times a second. `all`: also looks for
    /// adopted ones, for processes that have left their cgroup, and at the size of logs; once a second. Returns what is
    /// wrong.
    ///
    /// Errors: an essential service has ended.
    pub(crate) fn supervise(&mut self, all: bool) -> Result<Vec<String>, Error> {
        let mut due = Vec::new();
        for running in self.every().filter(|running| all || running.started()) {
            let name = running.name.clone();
            match running.poll() {
                Some(Event::Ended { how, .. }) if running.process.essential => {
                    return Err(Error::Service { name, what: format!("{how}; it is essential, so everything ends") });
                }
                Some(Event::Ended { how, again: Some(delay) }) => {
                    tracing::warn!(service = name, "service '{name}' {how}; it is started again in {delay:?}");
                }
                Some(Event::Ended { how, again: None }) if running.is_done() => {
                    tracing::info!(service = name, "service '{name}' {how}");
                }
                Some(Event::Ended { how, again: None }) => tracing::warn!(service = name, "service '{name}' {how}"),
                Some(Event::Back) => tracing::info!(service = name, "service '{name}' is back"),
                Some(Event::AfterEnd(Ok(()))) => {
                    tracing::info!(service = name, "service '{name}': its 'after-end' is done");
                }
                Some(Event::AfterEnd(Err(how))) => {
                    tracing::warn!(service = name, "service '{name}': its 'after-end' {how}");
                }
                None => {}
            }
            if running.is_due() {
                due.push(name);
            }
        }
        for name in due {
            if let Err(error) = self.start_again(&name) {
                tracing::warn!(service = name, "service '{name}' is not started again, later: {error}");
            }
        }
        Ok(if all { sched::at_once(|| self.look_after_services()) } else { vec![] })
    }

    /// What the threads that enforce tell; returns their warnings. What moved stays until services were looked after.
    pub(crate) fn ask_backends(&mut self) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for backend in self.backends.each() {
            warnings.extend(backend.ask()?);
        }
        Ok(warnings)
    }

    /// Whether something has been put into another cgroup since this was asked last, as far as backends notice.
    pub(crate) fn astray(&self) -> bool {
        // All are asked, as asking takes it back.
        self.backends.all().filter(|backend| backend.astray()).count() > 0
    }

    /// Rotates logs and brings back what has left its cgroup; returns what is wrong.
    pub(crate) fn look_after_services(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        let known = self.known_threads();
        self.backends.each().for_each(|backend| backend.forget_moves());
        let promised: Vec<String> = self.services.iter().map(|running| running.name.clone()).collect();
        for running in self.every() {
            let own = known.iter().find(|known| known.name == running.name);
            let (threads, moved) = own.map_or((&[][..], &[][..]), |own| (&own.threads, &own.moved));
            wrong.extend(running.bring_back(own.map(|own| own.core), threads, moved));
            if let Err(error) = running.rotate() {
                wrong.push(format!("{}: its log cannot be rotated: {error}", running.name));
            }
            let Some(how) = running.down() else { continue };
            let what_then = match (running.awaited(), running.started()) {
                (true, true) => "; it is started again and again, each time later",
                (true, false) => "",
                (false, _) if running.is_done() && !promised.contains(&running.name) => continue,
                (false, true) => {
                    "; its share stays reserved; 'restart' in the site file says whether it is started again"
                }
                (false, false) => "; its share stays reserved",
            };
            wrong.push(format!("service '{}': {how}{what_then}", running.name));
        }
        wrong
    }

    fn known_threads(&self) -> Vec<Known> {
        let of = |part: &ServicePlan| {
            let (_, server) = self.backends.used(part.backend)?.observe(part).counted?;
            let (threads, moved) = (server.threads.clone(), server.moved.clone());
            Some(Known { name: part.name.clone(), core: part.core, threads, moved })
        };
        self.parts.iter().filter_map(of).collect()
    }

    /// What a new plan says of ends and restarts.
    pub(crate) fn supervise_as(&mut self, plan: &Plan) {
        let services = plan.services.iter().map(|service| (&service.name, &service.process));
        let all: Vec<_> = services.chain(plan.leftovers.iter().map(|one| (&one.name, &one.process))).collect();
        for running in self.every() {
            if let Some((_, process)) = all.iter().find(|(name, _)| **name == running.name) {
                running.supervise(process);
            }
        }
    }

    /// Whether the service of server `index` is there.
    pub(crate) fn is_up(&self, index: usize) -> bool {
        self.service(&self.parts[index].name).is_some_and(|running| running.down().is_none())
    }

    /// Puts a server in force again that has ended with its service. Mode changes hold on to what it was: they begin anew.
    pub(crate) fn reserve_anew(&mut self, index: usize) -> Result<String, Error> {
        let plan = &self.parts[index];
        let status =
            self.modes_status().filter(|status| status.members.iter().any(|member| member.service == plan.name));
        if status.as_ref().is_some_and(|status| status.changing_to.is_some()) {
            let what = "is reserved for again once the mode change is over".into();
            return Err(Error::Service { name: plan.name.clone(), what });
        }
        let told = self.reserve(index)?;
        if status.is_some() {
            self.stop_modes();
            self.begin_modes()?;
        }
        Ok(told)
    }

    /// Begins to change modes, if the plan in force has any and nothing does yet; in the mode that is in force.
    pub(crate) fn begin_modes(&mut self) -> Result<(), Error> {
        if self.modal.is_some() || self.plan.only_modes().is_none() {
            return Ok(());
        }
        let plan = crate::modal::in_force(self.plan.clone(), self.journal.folder())?;
        self.start_modes(&plan)
    }
}
