//! Why a resource makes no sense.

use giusto_model::{Bandwidth, Duration};

/// Why a resource makes no sense. Each text says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// Π = 0, or a table of no length.
    #[error("the period must be more than 0")]
    NoPeriod,
    /// Θ = 0, α = 0, or a table without slots.
    #[error("the budget must be more than 0")]
    NoBudget,
    /// Θ > Π, on several cores Θ > m · Π.
    #[error("the budget {budget} is longer than a whole period of it, {whole}")]
    TooMuch {
        /// Θ
        budget: Duration,
        /// Π, or m · Π.
        whole: Duration,
    },
    /// Not Θ ≤ Δ ≤ Π.
    #[error("the deadline {deadline} of the budget must be at least the budget and at most the period")]
    Deadline {
        /// Δ
        deadline: Duration,
    },
    /// Two periods of which neither divides the other.
    #[error("neither of the periods {0} and {1} divides the other: releases cannot always sit on boundaries of the supply; \
             use the general one")]
    Misaligned(Duration, Duration),
    /// A slot that is empty, before or in the one before it, or beyond the cycle.
    #[error("slot {0} (from 0) of the table must end after it starts, start after the one before it ends, and end within the \
             cycle")]
    Slot(usize),
    /// α > 1.
    #[error("a bandwidth of {} is more than a whole core", .0.percent())]
    Bandwidth(Bandwidth),
    /// m = 0.
    #[error("a resource needs at least one core")]
    NoCores,
    /// A cycle, or a period times its cores, that is too long to add up.
    #[error("one period, on all cores together, is longer than 73 years")]
    Range,
    /// A resource whose budget is not a number to be found.
    #[error("a table or a line has no budget to be found; ask whether it is enough")]
    NoShape,
    /// Several cores, under a scheduler of one.
    #[error("a resource of several cores is for global EDF, not for a scheduler of one core")]
    Cores,
}
