//! The plan: every number that Giusto decided, with its reason and its prediction. `plan.json` is this, in JSON.

use crate::{Backend, Bandwidth, Duration, Load, Origin, Promise, Server, Task};
use serde::{Deserialize, Serialize};

/// Version of the plan file's format (`formats/plan.schema.json`).
pub const PLAN_VERSION: u32 = 1;

/// All that was decided for one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub giusto_plan: u32,
    /// The host it is for.
    pub host: HostPlan,
    /// Time-sensitive services, at most one a core, in the order of the site file.
    pub services: Vec<ServicePlan>,
    /// The others.
    pub leftovers: Vec<LeftoverPlan>,
}

/// The host's share of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Cores that services may use.
    pub cores: Vec<u32>,
    /// Kept free on each core.
    pub keep_free: Bandwidth,
}

/// A service with a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePlan {
    /// Its name in the site file.
    pub name: String,
    /// What it was promised.
    pub promise: Promise,
    /// Where its processes come from.
    pub origin: Origin,
    /// What it runs.
    pub tasks: Vec<Task>,
    /// How to drive it.
    pub load: Option<Load>,
    /// The core it got.
    pub core: u32,
    /// Who enforces it.
    pub backend: Backend,
    /// Its reservation, margin included.
    pub server: Server,
    /// Σ C/T of its tasks.
    pub utilization: Bandwidth,
    /// Least bandwidth at this period by theory, W(P).
    pub required: Bandwidth,
    /// What was added to it.
    pub margin: Bandwidth,
    /// How long it can hold the core.
    pub hold: Hold,
    /// What is left of the core for other services: 1 − bandwidth − keep-free.
    pub left_for_others: Bandwidth,
    /// What the simulator says; filled in by whoever ran it.
    pub prediction: Option<Prediction>,
    /// Where each number comes from, in the order in which they were decided.
    pub reasons: Vec<Reason>,
}

/// How long a server can keep everybody else off its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// While the service keeps to its tasks: the longest busy period of S(t).
    #[serde(rename = "conforming_ns")]
    pub conforming: Duration,
    /// Whatever it does: 2B, the end of one period and the start of the next.
    #[serde(rename = "enforced_ns")]
    pub enforced: Duration,
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

/// Why a number is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Which number: `core`, `backend`, `period`, `budget`, …
    pub what: String,
    /// Its value, for people.
    pub value: String,
    /// Where it comes from; names the paper's theorem where there is one.
    pub why: String,
}

/// A service that gets what is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftoverPlan {
    /// Its name in the site file.
    pub name: String,
    /// Where its processes come from.
    pub origin: Origin,
    /// Cores it may run on.
    pub cores: Vec<u32>,
    /// The floor it was promised.
    pub at_least: Bandwidth,
    /// What the plan leaves on its cores, together.
    pub available: Bandwidth,
    /// Longest time it can be kept off all its cores at once: the largest enforced hold where every core has one, else 0.
    #[serde(rename = "longest_wait_ns")]
    pub longest_wait: Duration,
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
