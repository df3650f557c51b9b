//! The answer to an operator who is not given what was asked for.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why something asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The exit code that says so (DESIGN, "Errors").
    pub exit: u8,
    /// In words, with what to do.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
