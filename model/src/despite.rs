//! Failures that a promise of a path bears.

use crate::{CoordinationPlan, Duration};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What fails. In JSON as in a site: `"leader"`, `{"service": "camera"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fails {
    /// The leader of the site's ensemble: as long as there is none, any stage of the path may stand still.
    Leader,
    /// The process of this service: what it did not pass on is done once more, or lost.
    Service(String),
    /// What moves messages of this topic, its broker or its distributor.
    Topic(String),
}

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fails::Leader => f.pad("the leader"),
            Fails::Service(name) => f.pad(name),
            Fails::Topic(name) => f.pad(&format!("topic {name}")),
        }
    }
}

/// A failure that is borne, as a site has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Despite {
    /// What fails.
    pub fails: Fails,
    /// It stands still for so long at most; `None`: for as long as the ensemble has no leader.
    #[serde(rename = "gap_ns")]
    pub gap: Option<Duration>,
}

/// What one failure costs a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DespitePlan {
    /// What fails.
    pub fails: Fails,
    /// It stands still for so long at most.
    #[serde(rename = "gap_ns")]
    pub gap: Duration,
    /// Each message is so much later at most than what is proven, or simulated, without it.
    #[serde(rename = "later_ns")]
    pub later: Duration,
    /// Messages that are on their way when it fails, or come while it stands still: no more, but for one failure in 10,000.
    pub touched: u64,
}

impl CoordinationPlan {
    /// From the loss of the leader to a write that another one has acknowledged: of its process, and of its machine where that is
    /// promised. `None`: beyond 584 years.
    pub fn outage(&self) -> Option<Duration> {
        match self {
            CoordinationPlan::Etcd(plan) => Some(plan.first_write),
            CoordinationPlan::ZooKeeper(plan) => match plan.silence.and_then(|silence| silence.asked.machine_loss) {
                None => Some(plan.first_write),
                Some(_) => plan.machine_loss.checked_add(plan.first_write.checked_sub(plan.bound)?),
            },
        }
    }
}
