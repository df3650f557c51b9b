//! Servers: how processor time is given to a service.

use crate::{Bandwidth, Duration, ServerKind, TimeError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

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

/// How long a server can keep all others off its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// While the service keeps to its tasks: the longest busy period of S(t). Without tasks the same as enforced.
    #[serde(rename = "conforming_ns")]
    pub conforming: Duration,
    /// Whatever it does: B or 2B, depending on its kind and on whether it shares the core (the reasons say which).
    #[serde(rename = "enforced_ns")]
    pub enforced: Duration,
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
}
