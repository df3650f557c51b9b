//! What processor time does the calling process really get?
//!
//! A thread that spins reads the clock as fast as it can: where two readings lie apart, it had no processor. From these gaps
//! follow the share, the supply of each window, and the least supply of any window (the empirical supply bound function).
//! In flows a [`SupplyPlan`], out flow a [`Recording`] and its [`SupplyReport`]. Nothing is made or changed: it measures the
//! whole core, container, virtual processor or server that it was put under.

mod behind;
mod bound;
mod child;
mod probe;
mod recording;
mod report;

pub use child::SupplyProcess;
pub use probe::{supply, Probed};
pub use recording::{Gap, Recording, Window};
pub use report::{Asked, BoundPoint, Linear, Spread, SupplyReport};

use crate::Error;
use giusto_model::Duration;

/// Below this a window is hardly longer than what a probe can tell apart.
const SHORTEST_WINDOW: Duration = Duration::from_us(10);
/// Windows of one run, which is what its statistics hold in memory.
const MOST_WINDOWS: u64 = 10_000_000;

/// A periodic resource Γ(P, B): at least `budget` in every period, anywhere in it (Lee11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// B; 0 < B ≤ P.
    pub budget: Duration,
    /// P.
    pub period: Duration,
}

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplyPlan {
    /// How long to spin.
    pub length: Duration,
    /// Length of a window.
    pub window: Duration,
    /// Windows begin at this time of CLOCK_MONOTONIC and all multiples of `window` from it, before and after.
    pub phase: Duration,
    /// The core to be bound to; `None` leaves the affinity alone.
    pub core: Option<u32>,
    /// What the supply should be; its period is the window.
    pub ask: Option<Resource>,
}

impl SupplyPlan {
    /// Refuses what cannot be measured.
    fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Plan(text));
        let SupplyPlan { length, window, .. } = *self;
        if window < SHORTEST_WINDOW {
            return refuse(format!(
                "a window of {window} is too short to be measured; expected {SHORTEST_WINDOW} at least"
            ));
        }
        // With two lengths of a window there is a whole one, wherever the first begins.
        match window.checked_mul(2) {
            Some(least) if least <= length => {}
            _ => {
                return refuse(format!(
                    "{length} may hold no whole window of {window}; measure for at least two windows"
                ))
            }
        }
        if length.ns() / window.ns() > MOST_WINDOWS {
            return refuse(format!(
                "{length} holds more than {MOST_WINDOWS} windows of {window}; measure a shorter time or longer windows"
            ));
        }
        match self.ask {
            Some(Resource { budget, period }) if budget.is_zero() || budget > period => {
                refuse(format!("{budget} every {period} is no share of a core; expected a budget within the period"))
            }
            Some(Resource { period, .. }) if period != window => refuse(format!(
                "the supply asked for has a period of {period}, so the window must be as long, not {window}"
            )),
            _ => Ok(()),
        }
    }
}
