//! Why a server makes no sense.

use giusto_model::Duration;

/// Why a server makes no sense. Each text says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// B = 0.
    #[error("the budget must be more than 0")]
    NoBudget,
    /// B > P.
    #[error("the budget {budget} is longer than the period {period}")]
    TooMuch {
        /// B
        budget: Duration,
        /// P
        period: Duration,
    },
    /// Nothing bounds it.
    #[error("an unlimited server takes all it can get: leave it out, it comes after all others")]
    Unlimited,
}
