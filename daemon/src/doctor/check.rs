//! One thing that was looked at, and how it stands.

use serde::Serialize;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// As it should be.
    Ok,
    /// Something works less well or not at all, but `giusto run` can enforce without it.
    Note,
    /// `giusto run` cannot enforce without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub check: String,
    /// How it stands.
    pub state: Standing,
    /// What is there.
    pub found: String,
    /// What to do; where it is `ok`, nothing.
    pub remedy: Option<String>,
}

impl Check {
    pub(super) fn ok(check: &str, found: impl Into<String>) -> Check {
        Check { check: check.into(), state: Standing::Ok, found: found.into(), remedy: None }
    }
    pub(super) fn note(check: &str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { check: check.into(), state: Standing::Note, found: found.into(), remedy: Some(remedy.into()) }
    }
    pub(super) fn missing(check: &str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { state: Standing::Missing, ..Check::note(check, found, remedy) }
    }
}
