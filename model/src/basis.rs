//! What a plan was made from.

use crate::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};

/// What a plan was made from. It is compared with what is there before the plan is enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// The release of Giusto that made it.
    pub giusto: String,
    /// The site file.
    pub site: SiteBasis,
    /// A machine for each host of the plan, in the order of its hosts.
    pub machines: Vec<MachineBasis>,
}

/// A site file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteBasis {
    /// Its absolute path on the machine that made the plan.
    pub file: String,
    /// SHA-256 of its bytes, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// What was known of a machine, or assumed where [`crate::HostPlan::assumed`] says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineBasis {
    /// The name of the host.
    pub host: String,
    /// The kernel's tick, at which budgets of SCHED_DEADLINE are enforced; 0: a timer enforces them exactly.
    #[serde(rename = "tick_ns")]
    pub tick: Duration,
    /// The shortest period of SCHED_DEADLINE.
    #[serde(rename = "deadline_period_min_ns")]
    pub deadline_period_min: Duration,
    /// The longest.
    #[serde(rename = "deadline_period_max_ns")]
    pub deadline_period_max: Duration,
    /// What the kernel admits of a core.
    pub deadline_bandwidth_cap: Bandwidth,
}
