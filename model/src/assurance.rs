//! What the promise of a path rests on.

use crate::Bandwidth;
use serde::{Deserialize, Serialize};

/// `assurance:` of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assurance {
    /// A bound that holds whatever stages do to each other.
    #[default]
    Proven,
    /// Runs of the model itself, as many as a small chance of a wrong yes asks for.
    Simulated,
}

/// Simulation that decided the promise of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedPath {
    /// Runs, which are independent of each other.
    pub runs: u32,
    /// Messages that counted, in all of them.
    pub messages: u64,
    /// Of each percentile, so many of them were late, in billionths.
    pub late_ppb: Vec<u32>,
    /// The chance of a yes where the promise is not kept, at most, in millionths.
    pub risk_ppm: u32,
    /// What a proof would reserve for all stages together; not written where nothing is proven, however much there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<Bandwidth>,
}
