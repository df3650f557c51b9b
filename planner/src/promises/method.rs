//! What each promise has to say for itself. Who adds one implements this and enters it in the list of `promises/mod.rs`.

use crate::facts::Facts;
use crate::host::OneHost;
use crate::needs::{Company, Need, Vcpu};
use crate::promises::supply::NoSupply;
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::Trial;
use crate::words::{share, time};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, HostLatency, Interface, Promise, Server, Service, ServicePlan};

/// What a service asks of its host: those choose first that ask for most, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// So many cores to itself.
    Cores(u32),
    /// So much of a core, about.
    Share(Bandwidth),
    /// What is left, and at least so much.
    Rest(Bandwidth),
}

/// What cores have for a server that has no place.
pub(crate) struct Room {
    /// The most that one has left for it.
    pub(crate) left: Bandwidth,
    /// Of one without reservations.
    pub(crate) whole: Bandwidth,
    /// Cores that no as-if-alone service has to itself.
    pub(crate) cores: usize,
}

/// How services with one promise are planned, refused and explained. What is not said is as for plain processor time.
pub(crate) trait Method: Sync {
    fn asks(&self, service: &Service) -> Asks;

    /// Whether its servers are cheaper where no others are on their cores.
    fn cheaper_alone(&self) -> bool {
        false
    }

    /// How little a plain share of a core keeps it, such as a quota: those with more get cores to themselves first. 0: a share
    /// keeps it, as it does a supply.
    fn breaks_under_shares(&self) -> u8 {
        0
    }

    /// The servers of `service`, one a virtual CPU; none where it shares no core with reservations of others.
    ///
    /// Errors: no backend, tasks that cannot be analysed, a promise for which no core is enough.
    fn needs(&self, _on: &OneHost, _service: &Service, _company: Company) -> Result<Vec<Vcpu>, Refusal> {
        Ok(Vec::new())
    }

    /// Why there is no place for this one of its servers, which needs that.
    fn no_room(
        &self,
        _service: &Service,
        vcpu: &Vcpu,
        need: &Need,
        &Room { left, whole, cores }: &Room,
        _facts: &Facts,
    ) -> Result<Cause, Error> {
        Ok(Cause::Supply(NoSupply { vcpu: vcpu.vcpu, demand: need.interface, supply: left, whole, cores }))
    }

    /// What would fit instead, where the cause is one that only this promise knows.
    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit>;

    /// What of `witness` would leave a place to the service that it displaces.
    fn smaller(&self, trial: &Trial, witness: &Service) -> Vec<NearestFit>;

    /// The promise as the plan has it, of a service with an agent; `first` are its interfaces in the first mode.
    fn in_first_mode(&self, promise: &Promise, _first: Vec<Interface>) -> Promise {
        promise.clone()
    }

    /// Whether no reservation of another may be on the core of such an entry of a plan.
    fn alone(&self, planned: &ServicePlan) -> bool {
        planned.backend.abilities().alone
    }

    /// What of its server is for what, in words.
    fn asked(&self, planned: &ServicePlan) -> String {
        format!("{} as promised", share(planned.required))
    }

    /// What it was promised, in words.
    fn promised(&self, planned: &ServicePlan) -> String {
        let Server { budget, period, .. } = planned.server;
        format!("{} of processor time in every {}", time(budget), time(period))
    }

    /// What the measured latency of its host is to it; `allowed` is that and what is allowed for in any case.
    fn late(&self, _late: &HostLatency, _allowed: &str) -> String {
        "once in any window what is supplied may come so much later; the budget is what was promised".into()
    }

    /// What decides, where the supply is nearest to what may be asked for; and what is predicted from it.
    fn proof(&self, _planned: &ServicePlan) -> Vec<[String; 3]> {
        Vec::new()
    }
}
