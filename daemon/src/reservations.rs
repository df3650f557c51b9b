//! The servers of a deployment: put in force, changed and taken away, each by its backend.

use crate::{Deployment, Error, Running};
use giusto_compute::Ground;
use giusto_model::ServicePlan;

impl Deployment<'_> {
    /// Gets the core of one more server ready.
    pub(crate) fn admit(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let on = Ground { machine: &self.machine, beats: &self.beats };
        Ok(self.backends.of(server.backend).admit(server, on, self.journal)?)
    }

    /// Puts server `index` of the plan in force; returns what is to be told.
    pub fn reserve(&mut self, index: usize) -> Result<String, Error> {
        let plan = &self.parts[index];
        let members = self.members(plan)?;
        let isolates = plan.backend.abilities().isolates; // then the kernel keeps it there
        if let Some(contained) = self.service(&plan.name).and_then(Running::contained).filter(|_| !isolates) {
            let own = self.parts.iter().filter(|part| part.name == plan.name);
            contained.keep_on(&own.map(|part| part.core).collect::<Vec<_>>())?;
        }
        Ok(self.backends.of(plan.backend).hold(plan, &members, self.journal)?)
    }

    /// Takes a server from its service, which goes on as an ordinary one on the same core.
    pub fn release(&mut self, index: usize) -> Result<(), Error> {
        let plan = &self.parts[index];
        Ok(self.backends.of(plan.backend).release(plan)?)
    }

    /// Another server of the same kind, in place: a smaller one at once, a larger one as its kind allows without
    /// overload.
    pub(crate) fn set_server(&mut self, index: usize, to: &ServicePlan) -> Result<(), Error> {
        let from = &self.parts[index];
        self.backends.of(from.backend).set(from, to, self.journal)?;
        self.parts[index] = to.clone();
        Ok(())
    }

    /// Lets the members of a server go for good: back to where they were.
    pub(crate) fn let_go(&mut self, index: usize) -> Result<(), Error> {
        let plan = &self.parts[index];
        Ok(self.backends.of(plan.backend).let_go(plan)?)
    }
}
