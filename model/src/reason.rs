//! Why a number of a plan is what it is.

use serde::{Deserialize, Serialize};

/// Why a number is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Which number: `core`, `backend`, `period`, `budget`, …
    pub what: String,
    /// Its value, for people.
    pub value: String,
    /// Where it comes from; names the paper's theorem where there is one.
    pub why: String,
}
