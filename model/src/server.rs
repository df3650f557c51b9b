//! Servers: how processor time is given to a service.

use crate::{Bandwidth, Duration, TimeError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The server algorithm (specs: policy core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// PTPS of Lee11: idle with budget, it keeps the core and burns it.
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

/// The mechanism that enforces a server on Linux (specs: linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// SCHED_DEADLINE per thread, pinned in an exclusive cpuset. Enforced at the kernel's tick.
    Deadline,
    /// Giusto's own manager thread a core, which drives the policy core: any kind, on a fixed grid, exact.
    Manager,
    /// The real-time group's runtime of cgroup v1. Enforced at the kernel's tick.
    RtGroup,
    /// The fair scheduler's quota: a cap, never a guarantee.
    Quota,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 4] = [Backend::Deadline, Backend::Manager, Backend::RtGroup, Backend::Quota];
    /// Servers that [`Backend::Manager`] keeps on one core at most.
    pub const MANAGED: usize = 64;
}

/// What happens to the threads of a server that has used up its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    /// They do not run, even on an idle core.
    #[default]
    Hard,
    /// They go on in the time that is left over.
    Soft,
}

/// A resource interface (B, P) as it is promised: processor time `budget` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// B; 0 < B ≤ P.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// P.
    #[serde(rename = "period_ns")]
    pub period: Duration,
}

/// Why an interface makes no sense. Each text says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// Not in the notation at all.
    #[error("'{0}' is not a supply; expected budget/period, for example 3ms/10ms")]
    Malformed(String),
    /// One of the durations.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// B = 0.
    #[error("a budget of nothing supplies nothing; expected, for example, 3ms/10ms")]
    NoBudget,
    /// B > P.
    #[error("a budget of {0} does not fit into its period; expected budget <= period, for example 3ms/10ms")]
    TooMuch(Duration),
}

impl Interface {
    /// B / P; 0 if the period is 0.
    pub fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(self.budget, self.period).unwrap_or(Bandwidth::ZERO)
    }
}

impl FromStr for Interface {
    type Err = InterfaceError;

    /// `budget/period`.
    fn from_str(text: &str) -> Result<Self, InterfaceError> {
        let (budget, period) = text.split_once('/').ok_or_else(|| InterfaceError::Malformed(text.to_string()))?;
        let (budget, period): (Duration, Duration) = (budget.trim().parse()?, period.trim().parse()?);
        if budget.is_zero() {
            return Err(InterfaceError::NoBudget);
        }
        if budget > period {
            return Err(InterfaceError::TooMuch(budget));
        }
        Ok(Interface { budget, period })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} every {:.3}", self.budget, self.period)
    }
}

/// A server: an interface (B, P) and the algorithm that keeps it.
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
    /// (B, P) alone.
    pub fn interface(&self) -> Interface {
        Interface { budget: self.budget, period: self.period }
    }
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
            Backend::Manager => "manager",
            Backend::RtGroup => "rt-group",
            Backend::Quota => "quota",
        })
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Backend::ALL.map(|backend| backend.to_string()).join(", ");
        let found = Backend::ALL.into_iter().find(|backend| backend.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not a backend; expected one of {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_a_budget_in_a_period_that_holds_it() {
        let interface: Interface = "3ms/10ms".parse().unwrap();
        assert_eq!((interface.budget, interface.period), (Duration::from_ms(3), Duration::from_ms(10)));
        assert_eq!(interface.to_string(), "3 ms every 10 ms");
        assert_eq!("0ms/10ms".parse::<Interface>(), Err(InterfaceError::NoBudget));
        assert_eq!("0ms/0ms".parse::<Interface>(), Err(InterfaceError::NoBudget));
        assert!(matches!("11ms/10ms".parse::<Interface>(), Err(InterfaceError::TooMuch(_))));
        assert!(matches!("3ms".parse::<Interface>(), Err(InterfaceError::Malformed(_))));
        assert!(matches!("3/10ms".parse::<Interface>(), Err(InterfaceError::Time(TimeError::NoUnit(_)))));
    }

    #[test]
    fn backends_have_one_name_for_people_and_files() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        assert!("cfs".parse::<Backend>().unwrap_err().contains("deadline, manager, rt-group, quota"));
    }
}
