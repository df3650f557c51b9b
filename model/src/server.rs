//! Servers: how processor time is given to a service.

use crate::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The server algorithm (specs: policy core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// PTPS of paper 002: idle with budget, it keeps the core and burns it.
    PeriodicStrict,
    /// WCPS: idle with budget, it burns it while the next server runs on its own.
    PeriodicConserving,
    /// CRPS: idle with budget, it lends it to others of its kind.
    PeriodicReclaiming,
    /// A budget only where it is ready at the beginning of a period; lost when it goes idle.
    Polling,
    /// Full budget on a fixed grid, kept while idle, lost at the next replenishment.
    Deferrable,
    /// What is used returns one period after its use began.
    Sporadic,
    /// Hard CBS as SCHED_DEADLINE does it: the period is re-anchored at a wake-up after idling.
    ConstantBandwidth,
    /// Never throttled: whoever gets what the others leave.
    Unlimited,
}

impl ServerKind {
    /// All of them.
    pub const ALL: [ServerKind; 8] = [
        ServerKind::PeriodicStrict,
        ServerKind::PeriodicConserving,
        ServerKind::PeriodicReclaiming,
        ServerKind::Polling,
        ServerKind::Deferrable,
        ServerKind::Sporadic,
        ServerKind::ConstantBandwidth,
        ServerKind::Unlimited,
    ];
}

/// The mechanism that enforces a server on Linux. The walk has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// SCHED_DEADLINE per thread, pinned in an exclusive cpuset.
    Deadline,
}

/// A resource interface (B, P): `budget` of processor time in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Server {
    /// The algorithm.
    pub kind: ServerKind,
    /// B; 0 < B ≤ P.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// P.
    #[serde(rename = "period_ns")]
    pub period: Duration,
}

impl Server {
    /// B / P; 0 if the period is 0.
    pub fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(self.budget, self.period).unwrap_or(Bandwidth::ZERO)
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ServerKind::PeriodicStrict => "periodic_strict",
            ServerKind::PeriodicConserving => "periodic_conserving",
            ServerKind::PeriodicReclaiming => "periodic_reclaiming",
            ServerKind::Polling => "polling",
            ServerKind::Sporadic => "sporadic",
            ServerKind::Deferrable => "deferrable",
            ServerKind::ConstantBandwidth => "constant_bandwidth",
            ServerKind::Unlimited => "unlimited",
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Deadline => "deadline",
        })
    }
}
