//! A server of an ensemble, of whatever engine.

use serde::{Deserialize, Serialize};

/// A server of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The host of the site that it is on.
    pub host: String,
    /// Where clients reach it there.
    pub port: u16,
}
