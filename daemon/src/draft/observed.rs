//! What is known of a service that was watched.

use super::find::Found;
use giusto_measure::watch::Watched;
use giusto_measure::Served;
use giusto_model::Duration;

/// What a draft is made of.
#[derive(Debug)]
pub struct Observed<'a> {
    /// The service.
    pub found: &'a Found,
    /// What it did.
    pub watched: &'a Watched,
    /// How it could be loaded, or why not.
    pub served: &'a Result<Served, String>,
    /// How long it took to answer, where it was asked.
    pub answered: Option<Answered>,
    /// Name of this machine, as the site is to call it.
    pub host: &'a str,
    /// Cores of this machine.
    pub cores: &'a [u32],
}

/// How long a service took to answer a few requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How many.
    pub requests: usize,
    /// 9 of 10 took at most that.
    pub p90: Duration,
    /// 99 of 100.
    pub p99: Duration,
}
