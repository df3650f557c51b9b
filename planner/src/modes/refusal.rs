//! Why a mode cannot be changed to, and what would help.

use crate::words::{self, time};
use giusto_model::{ChangePolicy, Duration, Transition};
use std::fmt;

/// A change that cannot be made, or not as promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeRefusal {
    /// Of which host.
    pub host: String,
    /// From this mode ...
    pub from: String,
    /// ... to this one.
    pub to: String,
    /// Why.
    pub cause: ModeCause,
    /// What would do, each by itself; every one was tried.
    pub nearest: Vec<ModeFit>,
}

/// Why a change cannot be made, or not as promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeCause {
    /// It takes too long.
    Late {
        /// So long at most.
        bound: Duration,
        /// What was promised.
        within: Duration,
        /// The service that takes longest ...
        slowest: String,
        /// ... by itself so long.
        alone: Duration,
        /// How it is made.
        policy: ChangePolicy,
    },
    /// Whichever of these services changes first, something does not fit.
    NoOrder {
        /// On which cores.
        cores: Vec<u32>,
        /// Who is left.
        services: Vec<String>,
    },
    /// An agent may answer after its timeout, although it does what it should.
    Silent {
        /// Whose.
        service: String,
        /// After so long.
        takes: Duration,
        /// The timeout.
        timeout: Duration,
    },
    /// An agent never answers for certain.
    Endless,
}

/// A change of the site with which it can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeFit {
    /// Another order.
    Policy(ChangePolicy),
    /// Another transition.
    Transition(Transition),
    /// What can be promised for the mode.
    Within(Duration),
    /// So many cores more.
    MoreCores(usize),
}

impl fmt::Display for ModeFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModeFit::Policy(policy) => write!(f, "policy: {policy}"),
            ModeFit::Transition(transition) => write!(f, "transition: {transition}"),
            ModeFit::Within(within) => write!(f, "within: {}", within.to_string().replace(' ', "")),
            ModeFit::MoreCores(1) => write!(f, "one core more"),
            ModeFit::MoreCores(more) => write!(f, "{more} cores more"),
        }
    }
}

impl fmt::Display for ModeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModeCause::Late { bound, within, slowest, alone, policy } => write!(
                f,
                "it can take {} with policy {policy}, and {} is promised; '{slowest}' takes longest, {} by itself",
                time(*bound),
                time(*within),
                time(*alone)
            ),
            ModeCause::NoOrder { cores, services } => {
                let s = if cores.len() == 1 { "" } else { "s" };
                let cores = words::cores(cores);
                write!(
                    f,
                    "whichever of {} changes first, core{s} {cores} would have to give too much on the way",
                    services.join(", ")
                )
            }
            ModeCause::Silent { service, takes, timeout } => write!(
                f,
                "the agent of '{service}' may answer after {}, and its timeout is {}",
                time(*takes),
                time(*timeout)
            ),
            ModeCause::Endless => write!(f, "an agent has no budget for its work"),
        }
    }
}

impl fmt::Display for ModeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a change from mode '{}' to '{}' on {}: {}", self.from, self.to, self.host, self.cause)?;
        let nearest: Vec<String> = self.nearest.iter().map(ModeFit::to_string).collect();
        match nearest.is_empty() {
            true => Ok(()),
            false => write!(f, "; it would do with {}", nearest.join(", or with ")),
        }
    }
}
