//! How much it matters that a service gets what it was promised, where several share few cores (Asy20).

use crate::Duration;
use serde::{Deserialize, Serialize};

/// The criticality of a service, as it was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteCriticality {
    /// It keeps its promise while no service of high criticality on its core needs more than usual.
    Low,
    /// It keeps its promise also where it takes more than usual.
    High {
        /// The most that it takes: the `worst-wcet` of each task in their order, or the `worst` budget of each virtual CPU that
        /// is promised a supply. None is less than the usual one.
        worst: Vec<Duration>,
    },
}

/// The criticality of one server in a plan; its usual, optimistic budget is that of [`crate::ServicePlan::server`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "level", deny_unknown_fields)]
pub enum Criticality {
    /// Its budget in every period in which no high one of its core needs more than its own; else what is left.
    Low,
    /// `worst` in every period in which it needs that much.
    High {
        /// The pessimistic budget, at least the optimistic one and at most the period.
        #[serde(rename = "worst_ns")]
        worst: Duration,
        /// x·T [Asy20, eq. 5]: the deadline, from the release on, by which it is ordered while none needs more than
        /// usual; at least the optimistic budget and at most the period.
        #[serde(rename = "virtual_deadline_ns")]
        virtual_deadline: Duration,
    },
}
