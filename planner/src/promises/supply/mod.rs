//! A supply: so much processor time in every period, whatever runs.

mod refusal;

pub use refusal::NoSupply;

use crate::backend::{choose, Chosen, Wanted};
use crate::facts::Facts;
use crate::host::{OneHost, Times};
use crate::needs::{Company, Need, Vcpu};
use crate::promises::agent::stopped;
use crate::promises::method::{Asks, Method};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::Trial;
use crate::words::{reason, share};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Interface, LocalNeed, Promise, Service, ServiceMode, SiteCriticality};

/// The method of this promise.
pub(crate) struct Supply;

/// One virtual CPU that is promised `all`, the last of which is while it is stopped.
fn server(service: &Service, vcpu: usize, several: bool, on: &OneHost) -> Result<Vcpu, Refusal> {
    let (chosen, all) = interfaces(service, vcpu, on.facts, on.times())?;
    let need = |interface: Interface| {
        let when = if service.criticality.is_some() { "usually" } else { "whatever runs" };
        let why = format!("{} of a core, as promised, {when}; no margin is added", share(interface.bandwidth()));
        Need::promised(interface, vec![reason("supply", interface, why)])
    };
    let worst = match &service.criticality {
        Some(SiteCriticality::High { worst }) => {
            Some(need(Interface { budget: worst.get(vcpu).copied().unwrap_or(all[0].budget), ..all[0] }))
        }
        _ => None,
    };
    let name = (service.origin.has_vcpus() || several).then_some(vcpu as u32);
    let (locals, critical) = (all.into_iter().map(need).collect(), service.criticality.is_some());
    Ok(Vcpu { vcpu: name, chosen, locals, worst, critical, alone: false })
}

/// The interfaces of one virtual CPU that is promised supplies: one, or those of its local modes and, the last, while
/// stopped.
fn interfaces(
    service: &Service,
    vcpu: usize,
    facts: &Facts,
    times: Times,
) -> Result<(Chosen, Vec<Interface>), Refusal> {
    let own = |mode: &ServiceMode| match &mode.need {
        LocalNeed::Supply(all) => all.get(vcpu).copied(),
        LocalNeed::Tasks { .. } => None,
    };
    let mut all: Vec<Interface> = service.modes.iter().filter_map(own).collect();
    if let (true, Promise::Supply(interfaces)) = (all.is_empty(), &service.promise) {
        all = vec![interfaces[vcpu]];
    }
    // What the smallest can be, all can be.
    let least = all.iter().copied().min_by_key(|interface| interface.budget);
    let range = || Refusal::tasks(&service.name, Error::Range);
    let least = least.ok_or_else(range)?;
    let chosen = choose(service, Wanted::Supply(least), facts)?;
    if service.agent.is_some() {
        let budget = stopped(service, vcpu, least.period, &chosen, facts, times)?;
        all.push(Interface { budget, period: least.period });
    }
    Ok((chosen, all))
}

impl Method for Supply {
    fn asks(&self, service: &Service) -> Asks {
        let Promise::Supply(all) = &service.promise else { return Asks::Share(Bandwidth::ONE) };
        Asks::Share(all.iter().map(|one| one.bandwidth()).max().unwrap_or(Bandwidth::ZERO))
    }

    fn needs(&self, on: &OneHost, service: &Service, _company: Company) -> Result<Vec<Vcpu>, Refusal> {
        let Promise::Supply(all) = &service.promise else { return Ok(Vec::new()) };
        (0..all.len()).map(|vcpu| server(service, vcpu, all.len() > 1, on)).collect()
    }

    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit> {
        match cause {
            Cause::Supply(lack) => trial.smaller_supply(witness, lack.vcpu, lack.demand),
            _ => Vec::new(),
        }
    }

    fn smaller(&self, trial: &Trial, witness: &Service) -> Vec<NearestFit> {
        let Promise::Supply(interfaces) = &witness.promise else { return Vec::new() };
        let largest = (0..).zip(interfaces).max_by_key(|(_, interface)| interface.bandwidth());
        let vcpu = |vcpu| (interfaces.len() > 1).then_some(vcpu);
        largest.map_or(Vec::new(), |(at, &demand)| trial.smaller_supply(witness, vcpu(at), demand))
    }

    /// Which may be the one in which it is stopped.
    fn in_first_mode(&self, _promise: &Promise, first: Vec<Interface>) -> Promise {
        Promise::Supply(first)
    }
}
