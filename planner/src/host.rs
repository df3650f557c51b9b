//! One host: what is to be planned there, and what came out.

use crate::backend::cost;
use crate::facts::Facts;
use crate::known::Known;
use crate::promises::percentiles::Answers;
use crate::words::share;
use giusto_model::{
    Admission, Backend, Bandwidth, Duration, Host, LeftoverPlan, LocalProof, ModeChanges, ModesPlan, Server, Service,
    ServicePlan, SiteModes,
};

/// A host, what is known of it, and the services that are to run on it, in the order of the site.
pub(crate) struct OneHost<'a> {
    pub(crate) host: &'a Host,
    pub(crate) facts: &'a Facts,
    pub(crate) services: Vec<&'a Service>,
    pub(crate) answers: &'a Answers,
    pub(crate) known: &'a Known,
    /// The site's.
    pub(crate) modes: Option<&'a SiteModes>,
}

/// The plan of one host, in the order of its services.
#[derive(Default)]
pub(crate) struct Placed {
    pub(crate) services: Vec<ServicePlan>,
    pub(crate) leftovers: Vec<LeftoverPlan>,
    pub(crate) admission: Vec<Admission>,
    pub(crate) parked: Vec<u32>,
    /// How long changes take is not told yet.
    pub(crate) modes: Option<ModesPlan>,
}

/// A server with its core, the place of its service among the host's, and its servers in all local modes of a service that
/// has some.
pub(crate) struct Supplied {
    pub(crate) order: usize,
    pub(crate) plan: ServicePlan,
    pub(crate) locals: Vec<(Server, LocalProof)>,
}

/// Of changes of the mode.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The least between two of them.
    pub(crate) spacing: Duration,
    /// For the answer of an agent.
    pub(crate) timeout: Duration,
    /// How many of them there may be in one spacing.
    pub(crate) at_once: u64,
}

impl OneHost<'_> {
    pub(crate) fn times(&self) -> Times {
        self.modes.map_or(Times { spacing: Duration::ZERO, timeout: Duration::ZERO, at_once: 1 }, |modes| {
            let ModeChanges { spacing, timeout, .. } = modes.changes;
            Times { spacing, timeout, at_once: modes.at_once() }
        })
    }
}

/// What no service gets of a core: `5 % kept free − 2 % for the manager`.
pub(crate) fn kept(host: &Host, backend: Backend, facts: &Facts) -> String {
    let free = format!("{} kept free", share(host.keep_free));
    match cost(backend, facts) {
        cost if cost == Bandwidth::ZERO => free,
        cost => format!("{free} − {} for the manager", share(cost)),
    }
}
