//! What a manager is to manage.

use giusto_model::{Cap, Criticality, Server};

/// A server to be managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The service's name; names its cgroup.
    pub name: String,
    /// A virtual CPU of it; names its cgroup too.
    pub part: Option<u32>,
    /// Its kind, budget and period.
    pub server: Server,
    /// First replenishment on CLOCK_MONOTONIC in ns, which anchors its grid; `None`: the next multiple of its period. The kinds
    /// that re-anchor, and `sporadic`, begin at once.
    pub first: Option<u64>,
    /// Smaller is higher; counts under [`Order::FixedPriority`](super::Order::FixedPriority).
    pub priority: u32,
    /// There under [`Order::MixedCriticality`](super::Order::MixedCriticality), and only there: `server` has the optimistic
    /// budget then, and its kind counts no more.
    pub criticality: Option<Criticality>,
    /// What happens without budget.
    pub cap: Cap,
}
