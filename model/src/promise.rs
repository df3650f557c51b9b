//! What a service was promised.

use crate::Bandwidth;
use serde::{Deserialize, Serialize};

/// The promise chooses the method (DESIGN, "The promise chooses the method"). The walk keeps these two; the site room
/// refuses the others with "not yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The latency distribution of a whole core, on a share of one (VAS, paper 000 chapter 3).
    AsIfAlone,
    /// Throughput only: whatever the others leave, but at least this much.
    Leftovers {
        /// `at-least: 10%`; zero when none was written.
        at_least: Bandwidth,
    },
}
