//! Servers with criticality.

use giusto_model::Duration;
use serde::{Deserialize, Serialize};

/// How much it matters that a server gets its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It does in LO mode.
    Low,
    /// It does in both.
    High,
}

/// A server with criticality; the paper's (X, C_opt, C_pes, T).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vm {
    /// X.
    pub level: Level,
    /// C_opt; 0 < C_opt ≤ C_pes.
    pub optimistic: Duration,
    /// C_pes ≤ T; of a low one C_opt.
    pub worst: Duration,
    /// T.
    pub period: Duration,
}

impl Vm {
    /// A low one.
    pub fn low(optimistic: Duration, period: Duration) -> Self {
        Vm { level: Level::Low, optimistic, worst: optimistic, period }
    }
    /// A high one.
    pub fn high(optimistic: Duration, worst: Duration, period: Duration) -> Self {
        Vm { level: Level::High, optimistic, worst, period }
    }

    /// Checks 0 < C_opt ≤ C_pes ≤ T, and that a low one has one budget.
    pub fn validate(&self) -> Result<(), VmError> {
        let Vm { level, optimistic, worst, period } = *self;
        match level {
            _ if optimistic.is_zero() => Err(VmError::NoBudget),
            _ if worst < optimistic => Err(VmError::Less { optimistic, worst }),
            Level::Low if worst != optimistic => Err(VmError::Low),
            _ if worst > period => Err(VmError::TooMuch { budget: worst, period }),
            _ => Ok(()),
        }
    }
}

/// Why a server makes no sense. Each text says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// C_opt = 0.
    #[error("the budget must be more than 0")]
    NoBudget,
    /// C_pes > T, or C_opt > T of a low one.
    #[error("the budget {budget} is longer than the period {period}; expected budget <= worst <= period")]
    TooMuch {
        /// C_pes
        budget: Duration,
        /// T
        period: Duration,
    },
    /// C_pes < C_opt.
    #[error("the worst budget {worst} is less than the usual one, {optimistic}; expected budget <= worst <= period")]
    Less {
        /// C_opt
        optimistic: Duration,
        /// C_pes
        worst: Duration,
    },
    /// C_pes of a low one.
    #[error("a low one has one budget; expected lo:budget/period")]
    Low,
}
