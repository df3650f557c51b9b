//! The servers that a host needs for its services, not yet on cores.

use crate::backend::upkeep;
use crate::facts::Facts;
use crate::host::OneHost;
use crate::needs::{Company, Need, Vcpu};
use crate::promises;
use crate::refusal::Refusal;
use giusto_analysis::criticality::Vm;
use giusto_model::{About, Bandwidth, MemberMode, Server, Service, SiteMode, SiteModes};
use std::fmt;

/// One server of a service, not yet on a core.
#[derive(Clone)]
pub(crate) struct Candidate<'a> {
    /// The place of its service among the host's.
    pub(crate) order: usize,
    pub(crate) service: &'a Service,
    pub(crate) vcpu: Vcpu,
    /// For each mode of the site, which of its local modes; one if the site has none.
    in_modes: Vec<usize>,
}

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vcpu.vcpu {
            Some(vcpu) => write!(f, "{} (virtual CPU {vcpu})", self.service.name),
            None => f.write_str(&self.service.name),
        }
    }
}

impl Candidate<'_> {
    /// In a mode of the site, by its place.
    pub(crate) fn need(&self, mode: usize) -> &Need {
        &self.vcpu.locals[self.in_modes[mode]]
    }

    pub(crate) fn server(&self, mode: usize) -> Server {
        self.vcpu.server(self.need(mode).interface)
    }

    /// What EDF-VD has to know of it, if it has criticality: then it always does the same.
    pub(crate) fn vm(&self) -> Option<Vm> {
        self.vcpu.critical.then(|| self.vcpu.vm())
    }

    /// The core that it has now on this host, and what is reserved for it there.
    pub(crate) fn now(&self, on: &OneHost) -> Option<(u32, Bandwidth)> {
        on.facts.placed.core(&on.host.name, &self.service.name, self.vcpu.vcpu)
    }

    /// What its manager takes of a core for its periods, in the mode in which that is most.
    pub(crate) fn upkeep(&self, facts: &Facts) -> Bandwidth {
        let each = self.vcpu.locals.iter().map(|need| upkeep(self.vcpu.chosen.backend, need.interface.period, facts));
        each.max().unwrap_or(Bandwidth::ZERO)
    }

    /// In the mode in which it is most, or at its worst.
    pub(crate) fn largest(&self) -> Bandwidth {
        if let Some(worst) = &self.vcpu.worst {
            return worst.interface.bandwidth();
        }
        let each = (0..self.in_modes.len()).map(|mode| self.need(mode).interface.bandwidth());
        each.max().unwrap_or(Bandwidth::ZERO)
    }
}

/// The servers of one of the services that share cores, by its place among them.
pub(crate) fn candidates<'a>(on: &OneHost<'a>, order: usize, company: Company) -> Result<Vec<Candidate<'a>>, Refusal> {
    let service = on.services[order];
    let in_modes = in_modes(service, on.modes);
    let mut compute = || promises::of(&service.promise).needs(on, service, company);
    let needs = match service.promise.about() {
        // What is counted on of a stage is another with each promise and place of its paths that is tried.
        About::Paths => compute(),
        About::Requests | About::Deadlines | About::Supply | About::Rest => {
            on.known.needs(&service.name, (company, on.host.keep_free), &mut compute)
        }
    }?;
    Ok(needs.into_iter().map(|vcpu| Candidate { order, service, vcpu, in_modes: in_modes.clone() }).collect())
}

/// For each mode of the site, which of its local modes a service is in, the last one being stopped.
fn in_modes(service: &Service, modes: Option<&SiteModes>) -> Vec<usize> {
    let Some(modes) = modes else { return vec![0] };
    let place = |mode: &SiteMode| {
        let own = mode.locals.iter().find(|local| local.service == service.name);
        let named = |own: &MemberMode| service.modes.iter().position(|mode| mode.name == own.local);
        own.map_or(0, |own| named(own).unwrap_or(service.modes.len()))
    };
    modes.modes.iter().map(place).collect()
}
