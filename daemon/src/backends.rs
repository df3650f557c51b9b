//! The backends of a deployment.

use crate::Error;
use giusto_compute::{backend, bind, Backend, Ground, Recorder, Undo};
use giusto_model::{Backend as Name, ServicePlan};
use std::collections::BTreeMap;

/// Those that a deployment has used so far.
#[derive(Default)]
pub(crate) struct Backends(BTreeMap<Name, Box<dyn Backend>>);

impl Backends {
    /// Gets the cores of all servers of a plan ready.
    pub(crate) fn prepare(
        &mut self,
        servers: &[ServicePlan],
        on: Ground,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        for name in Name::ALL {
            let own: Vec<&ServicePlan> = servers.iter().filter(|server| server.backend == name).collect();
            if !own.is_empty() {
                self.of(name).prepare(&own, on, record)?;
            }
        }
        Ok(())
    }

    /// Why servers of a plan cannot be put in force before Giusto starts anew: cores are isolated at its start, and then
    /// are those of one backend until its end.
    pub(crate) fn unable(&self, servers: &[ServicePlan]) -> Option<String> {
        let isolating = |core| self.0.iter().find(|(name, one)| name.abilities().isolates && one.has(core));
        servers.iter().find_map(|ServicePlan { name, core, backend, .. }| {
            let what = match isolating(*core).map(|(own, _)| *own) {
                Some(own) if own == *backend => return None,
                Some(own) => format!("core {core} was isolated for backend '{own}' when giusto started"),
                None if backend.abilities().isolates => format!("core {core} was not isolated when giusto started"),
                None => return None,
            };
            Some(format!(
                "{name} cannot have its server from backend '{backend}': {what}; stop giusto and start it again"
            ))
        })
    }

    /// The one of this name.
    pub(crate) fn of(&mut self, name: Name) -> &mut dyn Backend {
        self.0.entry(name).or_insert_with(|| backend(name)).as_mut()
    }

    /// The same, if it is used.
    pub(crate) fn used(&self, name: Name) -> Option<&dyn Backend> {
        self.0.get(&name).map(Box::as_ref)
    }

    /// Whether a server is in force, or kept ready.
    pub(crate) fn holds(&self, server: &ServicePlan) -> bool {
        self.used(server.backend).is_some_and(|one| one.holds(server))
    }

    /// All that are used.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Backend> {
        self.0.values().map(Box::as_ref)
    }

    /// The same, to be changed.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Box<dyn Backend>> {
        self.0.values_mut()
    }

    /// Lets all threads of Giusto's that enforce end.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps processes without a server to `core`, or off the isolated ones where it carries no reservation: there they
    /// run wherever the kernel finds room.
    pub(crate) fn place(
        &self,
        pid: u32,
        core: u32,
        capped: bool,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), giusto_compute::Error> {
        if let Some(own) = self.all().find(|one| one.has(core)) {
            // Also out of the cpuset of a core where it was before.
            self.all().filter(|one| !one.has(core)).try_for_each(|one| one.keep_off(&[pid], record).map(drop))?;
            return own.confine(&[pid], core, capped, record);
        }
        let mut balanced = false;
        for one in self.all() {
            balanced |= one.keep_off(&[pid], record)?;
        }
        if balanced {
            Ok(())
        } else {
            bind(pid, core, record)
        }
    }
}
