//! What does not hold.

use giusto_model::{Duration, ServicePlan};
use serde::Serialize;
use std::fmt;

/// The first thing in a plan that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Broken {
    /// Whose claim; `None`: a core's.
    pub service: Option<String>,
    /// Its virtual CPU.
    pub vcpu: Option<u32>,
    /// The core.
    pub core: Option<u32>,
    /// The claim.
    pub what: String,
    /// Length of the window that the claim is about.
    #[serde(rename = "at_ns")]
    pub at: Option<Duration>,
    /// What there would have to be.
    pub needed: Box<str>,
    /// What there is.
    pub found: Box<str>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.service, self.core) {
            (Some(service), _) => write!(f, "service '{service}'")?,
            (None, Some(core)) => write!(f, "core {core}")?,
            (None, None) => write!(f, "the plan")?,
        }
        if let Some(vcpu) = self.vcpu {
            write!(f, ", virtual CPU {vcpu}")?;
        }
        if let (Some(_), Some(core)) = (&self.service, self.core) {
            write!(f, " on core {core}")?;
        }
        write!(f, ": {}", self.what)?;
        if let Some(at) = self.at {
            write!(f, " in a window of {at}")?;
        }
        write!(f, ": needed {}, found {}", self.needed, self.found)
    }
}

impl Broken {
    pub(super) fn new(what: impl Into<String>, needed: impl ToString, found: impl ToString) -> Self {
        let (needed, found) = (needed.to_string().into(), found.to_string().into());
        Broken { service: None, vcpu: None, core: None, what: what.into(), at: None, needed, found }
    }
    pub(super) fn at(self, at: u64) -> Self {
        Broken { at: Some(Duration::from_ns(at)), ..self }
    }
    pub(super) fn of(self, entry: &ServicePlan) -> Self {
        Broken { service: Some(entry.name.clone()), vcpu: entry.vcpu, core: Some(entry.core), ..self }
    }
}

/// What is claimed, and how much it has to be at least, in ns.
pub(super) fn long_enough<const CLAIMS: usize>(claims: [(&'static str, Duration, u128); CLAIMS]) -> Result<(), Broken> {
    for (what, claimed, needed) in claims {
        if u128::from(claimed.ns()) < needed {
            return Err(Broken::new(what, format!("{needed} ns"), claimed));
        }
    }
    Ok(())
}
