//! The plan: every number that Giusto decided, with its reason and its prediction. `plan.json` is this, in JSON.

use crate::{
    Admission, Backend, Bandwidth, Basis, Cap, Certificate, CoordinationPlan, Copies, Criticality, Duration, Hold,
    HostLatency, Load, LocalProof, ModesPlan, NetworkPlan, Observe, Origin, PathPlan, Process, Promise, Reason, Server,
    Task, TopicPlan,
};
use serde::{Deserialize, Serialize};

/// Version of the plan file's format (`formats/plan.schema.json`).
pub const PLAN_VERSION: u32 = 3;

/// All that was decided, for all hosts of a site or for one ([`Plan::on`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub giusto_plan: u32,
    /// What it was made from; not written where that is unknown, and such a plan cannot be enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The hosts it is for, in the order of the site file; at least one.
    pub hosts: Vec<HostPlan>,
    /// Services with a reservation, in the order of the site file; a VM with k interfaces, or a service with k copies, has k
    /// entries, one after the other, all on one host. One that is promised as-if-alone has its core to itself; the others
    /// share cores.
    pub services: Vec<ServicePlan>,
    /// The others.
    pub leftovers: Vec<LeftoverPlan>,
    /// Topics of messages; not written where there are none, so that such plans are what they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicPlan>,
    /// The site's ensemble; not written where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationPlan>,
    /// Promises over several services; not written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathPlan>,
    /// The packets of each host that has a network; not written where none has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkPlan>,
    /// The modes of each host that has services with several; not written where none has. All else in the plan is what holds in
    /// the first mode ([`Plan::in_mode`] tells another).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ModesPlan>,
}

impl Plan {
    /// The part for the host of this name: what that machine enforces. `None`: the plan has no such host. O(services).
    pub fn on(&self, name: &str) -> Option<Plan> {
        let host = self.hosts.iter().find(|host| host.name == name)?;
        Some(Plan {
            giusto_plan: self.giusto_plan,
            basis: self.basis.clone().map(|basis| Basis {
                machines: basis.machines.into_iter().filter(|machine| machine.host == name).collect(),
                ..basis
            }),
            hosts: vec![host.clone()],
            services: self.services.iter().filter(|service| service.on == name).cloned().collect(),
            leftovers: self.leftovers.iter().filter(|leftover| leftover.on == name).cloned().collect(),
            topics: self.topics.iter().filter(|topic| topic.brokers.iter().any(|on| on == name)).cloned().collect(),
            coordination: self
                .coordination
                .clone()
                .filter(|all| all.servers().iter().any(|member| member.host == name)),
            paths: PathPlan::of_host(&self.paths, name),
            network: self.network.iter().filter(|network| network.on == name).cloned().collect(),
            modes: self.modes.iter().filter(|modes| modes.on == name).cloned().collect(),
        })
    }

    /// Paths with a stage on a host that the plan is for.
    pub fn paths_here(&self) -> impl Iterator<Item = &PathPlan> {
        let here = |on: &str| self.hosts.iter().any(|host| host.name == on);
        self.paths.iter().filter(move |path| path.through.iter().any(|stage| here(stage.on())))
    }

    /// The host of a plan that is for one; `None`: it is for several, and no machine can enforce it.
    pub fn only_host(&self) -> Option<&HostPlan> {
        match self.hosts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// A host's share of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Cores that services may use.
    pub cores: Vec<u32>,
    /// Kept free on each core.
    pub keep_free: Bandwidth,
    /// What was assumed of it, as it is not the machine that made the plan; `None`: that machine was looked at.
    pub assumed: Option<String>,
    /// For each core with reservations what proves that they fit together, in the order of the cores.
    pub admission: Vec<Admission>,
    /// Those of its cores that are offline while the plan is enforced, as nothing of it runs there in any mode,
    /// ascending; never core 0. Not
    /// written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parked: Vec<u32>,
    /// The measured latency that all its certificates allow for; not written where none was given, or none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<HostLatency>,
}

impl HostPlan {
    /// Its cores that are not parked, in their order.
    pub fn open_cores(&self) -> Vec<u32> {
        self.cores.iter().copied().filter(|core| !self.parked.contains(core)).collect()
    }
}

/// A service with a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePlan {
    /// Its name in the site file.
    pub name: String,
    /// The host it runs on.
    pub on: String,
    /// What it was promised.
    pub promise: Promise,
    /// Where its processes come from.
    pub origin: Origin,
    /// How they are run; not written where the site says nothing about it.
    #[serde(default, skip_serializing_if = "Process::is_default")]
    pub process: Process,
    /// The virtual CPU or copy that this entry is for, from 0; `None`: all threads of the service together.
    pub vcpu: Option<u32>,
    /// Of which workers `vcpu` is one; `None`, and not written: it has no copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Copies>,
    /// What it runs, on this virtual CPU if it has several; empty unless it is promised every deadline or as-if-alone.
    pub tasks: Vec<Task>,
    /// How to drive it.
    pub load: Option<Load>,
    /// The core of its host that it got.
    pub core: u32,
    /// Who enforces it; the same for all services of a core.
    pub backend: Backend,
    /// Its reservation, margin included.
    pub server: Server,
    /// What happens when the budget is used up.
    pub cap: Cap,
    /// Σ C/T of its tasks; 0 without tasks.
    pub utilization: Bandwidth,
    /// Least bandwidth at this period: by theory, or what was promised.
    pub required: Bandwidth,
    /// What was added to it: the margin of the site, or what may be lost of each budget.
    pub margin: Bandwidth,
    /// How long it can hold the core.
    pub hold: Hold,
    /// What all reservations of its core leave of it: 1 − Σ bandwidth − keep-free − what the manager costs.
    pub left_for_others: Bandwidth,
    /// What proves that it keeps its promise.
    pub certificate: Certificate,
    /// The share of a core that it may be planned anew with, should it ask for more; `None`, and not written: it stays
    /// as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt: Option<Bandwidth>,
    /// Where its response times come from while it runs; `None`, and not written: Giusto chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    /// `None`, and not written: its core has no services with criticality. Else all servers of its core have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<Criticality>,
    /// What the pessimistic budget of a server of high criticality rests on: its tasks with their worst execution times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pessimistic: Option<LocalProof>,
    /// What the simulator says; filled in by the caller that ran it. `None` without tasks.
    pub prediction: Option<Prediction>,
    /// Where each number comes from, in the order in which they were decided.
    pub reasons: Vec<Reason>,
}

impl ServicePlan {
    /// What of its service it is for, in words: `virtual CPU 0`, `copy 0`; `None`: all of it.
    pub fn part(&self) -> Option<String> {
        let is_thread = self.copies.as_ref().is_some_and(|copies| copies.threads.is_some());
        self.vcpu.map(|number| format!("{} {number}", if is_thread { "copy" } else { "virtual CPU" }))
    }
}

/// Predicted response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Jobs simulated.
    pub jobs: u64,
    /// Median.
    #[serde(rename = "p50_ns")]
    pub p50: Duration,
    /// 99th percentile.
    #[serde(rename = "p99_ns")]
    pub p99: Duration,
    /// 99.9th percentile.
    #[serde(rename = "p99_9_ns")]
    pub p99_9: Duration,
    /// Largest.
    #[serde(rename = "max_ns")]
    pub max: Duration,
}

/// A service that gets what is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftoverPlan {
    /// Its name in the site file.
    pub name: String,
    /// The host it runs on: its processes are on one machine.
    pub on: String,
    /// Where its processes come from.
    pub origin: Origin,
    /// How they are run; not written where the site says nothing about it.
    #[serde(default, skip_serializing_if = "Process::is_default")]
    pub process: Process,
    /// Cores it may run on.
    pub cores: Vec<u32>,
    /// The floor it was promised.
    pub at_least: Bandwidth,
    /// The cap on all its processes together, by the backend `quota`.
    pub at_most: Option<Bandwidth>,
    /// What the plan leaves on its cores, together.
    pub available: Bandwidth,
    /// Longest time it can be kept off all its cores at once: where every core has reservations, the longest that those of one
    /// core can hold it, else 0.
    #[serde(rename = "longest_wait_ns")]
    pub longest_wait: Duration,
    /// Where its response times come from while it runs; `None`, and not written: Giusto chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    /// Where its numbers come from.
    pub reasons: Vec<Reason>,
}

/// A point of W(P): the least budget for one server period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// P.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// max over t of S(t + P) − S(t).
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// W(P) = budget / period.
    pub bandwidth: Bandwidth,
}
