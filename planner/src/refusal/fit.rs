//! What would make a service fit.

use crate::words::share;
use giusto_model::{Bandwidth, Duration, GuestScheduler, Interface, Rate, ServerKind, Within};
use std::fmt;

/// A change of the site with which it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearestFit {
    /// A shorter execution time of one task.
    Wcet {
        /// Which task of the witness's.
        task: String,
        /// The longest that fits.
        at_most: Duration,
    },
    /// A shorter worst execution time of one task.
    WorstWcet {
        /// Which task of the witness's.
        task: String,
        /// The longest that fits.
        at_most: Duration,
    },
    /// A smaller worst budget.
    Worst {
        /// Of which virtual CPU.
        vcpu: Option<u32>,
        /// The largest that fits.
        at_most: Duration,
    },
    /// A longer period of one task, and of its deadline where that is the period.
    Period {
        /// Which task of the witness's.
        task: String,
        /// The shortest that fits, to a hundredth of the one it has.
        at_least: Duration,
    },
    /// Fewer requests.
    Requests(Rate),
    /// A shorter execution time of a request.
    Execution(Duration),
    /// Another promise for the same tasks.
    Promise(&'static str),
    /// A smaller margin for the witness.
    Margin(Bandwidth),
    /// A smaller supply, of the same period.
    Supply {
        /// Of which virtual CPU.
        vcpu: Option<u32>,
        /// The largest that fits.
        at_most: Interface,
    },
    /// Another server algorithm for the witness.
    Kind(ServerKind),
    /// An order of the witness's own jobs.
    Scheduler(GuestScheduler),
    /// So many cores more.
    MoreCores(usize),
    /// A longer latency for a percentile of the witness.
    Within(Within),
    /// A lower floor for the witness.
    AtLeast(Bandwidth),
    /// Another host, where it then fits together with all others.
    On(String),
}

impl NearestFit {
    /// The key of the site that changes, below its service; `None`: `cores`, of the host.
    pub(crate) fn key(&self) -> Option<Vec<&str>> {
        Some(match self {
            NearestFit::Wcet { task, .. } => vec!["tasks", task, "wcet"],
            NearestFit::WorstWcet { task, .. } => vec!["tasks", task, "worst-wcet"],
            NearestFit::Period { task, .. } => vec!["tasks", task, "period"],
            NearestFit::Worst { .. } => vec!["worst"],
            NearestFit::Requests(_) => vec!["arrivals", "poisson"],
            NearestFit::Execution(_) => vec!["execution"],
            NearestFit::Promise(_) | NearestFit::Within(_) | NearestFit::Supply { .. } => vec!["promise"],
            NearestFit::Margin(_) => vec!["margin"],
            NearestFit::Kind(_) => vec!["server"],
            NearestFit::Scheduler(_) => vec!["scheduler"],
            NearestFit::AtLeast(_) => vec!["at-least"],
            NearestFit::On(_) => vec!["on"],
            NearestFit::MoreCores(_) => return None,
        })
    }
}

impl fmt::Display for NearestFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NearestFit::Wcet { task, at_most } => write!(f, "wcet ≤ {at_most} for task '{task}'"),
            NearestFit::WorstWcet { task, at_most } => write!(f, "worst-wcet ≤ {at_most} for task '{task}'"),
            NearestFit::Period { task, at_least } => write!(f, "period ≥ {at_least} for task '{task}'"),
            NearestFit::Requests(rate) => write!(f, "poisson: {rate}"),
            NearestFit::Execution(at_most) => write!(f, "execution ≤ {at_most}"),
            NearestFit::Promise(promise) => write!(f, "promise: {promise}"),
            NearestFit::Worst { vcpu: None, at_most } => write!(f, "worst: {at_most}"),
            NearestFit::Worst { vcpu: Some(vcpu), at_most } => write!(f, "worst: {at_most} for virtual CPU {vcpu}"),
            NearestFit::Margin(margin) => write!(f, "margin {}", share(*margin)),
            NearestFit::Supply { vcpu: None, at_most } => write!(f, "a supply of {at_most}"),
            NearestFit::Supply { vcpu: Some(vcpu), at_most } => {
                write!(f, "a supply of {at_most} for virtual CPU {vcpu}")
            }
            NearestFit::Kind(kind) => write!(f, "server: {kind}"),
            NearestFit::Scheduler(scheduler) => write!(f, "scheduler: {scheduler}"),
            NearestFit::MoreCores(1) => write!(f, "one core more"),
            NearestFit::MoreCores(more) => write!(f, "{more} cores more"),
            NearestFit::Within(within) => write!(f, "{within}"),
            NearestFit::AtLeast(floor) => write!(f, "at-least {}", share(*floor)),
            NearestFit::On(host) => write!(f, "on: {host}"),
        }
    }
}
