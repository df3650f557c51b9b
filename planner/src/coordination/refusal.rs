//! Why an ensemble does not keep its promise, and what would.

use crate::words::time;
use giusto_model::{Duration, Epochs};
use std::fmt;

/// An ensemble that cannot keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRecovery {
    /// Its servers.
    pub servers: usize,
    /// How it keeps epochs: as the site says, else the fastest way.
    pub epochs: Epochs,
    /// w.
    pub wait: Duration,
    /// Within which time it was to recover.
    pub promised: Duration,
    /// How long it takes, at most.
    pub bound: Duration,
    /// What would keep the promise, each by itself.
    pub nearest: Vec<Faster>,
}

/// A change with which an ensemble keeps its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faster {
    /// Another way to keep epochs: of those that are enough, the least daring.
    Epochs(Epochs),
    /// The longest fixed wait that is short enough, still more than j + d, in whole microseconds.
    Wait(Duration),
    /// A smaller ensemble that survives the loss of at least one server: the largest.
    Servers(usize),
    /// What can be promised.
    Recovery(Duration),
}

impl fmt::Display for Faster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Faster::Epochs(epochs) => write!(f, "epochs: {epochs}"),
            Faster::Wait(wait) => write!(f, "wait: {}", written(*wait)),
            Faster::Servers(servers) => write!(f, "{servers} servers"),
            Faster::Recovery(bound) => write!(f, "promise: {{recovery: {}}}", written(*bound)),
        }
    }
}

/// As a site file takes it.
fn written(time: Duration) -> String {
    time.to_string().replace(' ', "")
}

impl fmt::Display for SlowRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlowRecovery { servers, epochs, wait, promised, bound, nearest } = self;
        let over = bound.checked_sub(*promised).unwrap_or(Duration::ZERO);
        write!(
            f,
            "coordination: when the leader of {servers} servers dies, another serves within {} at most (epochs: {epochs}, a wait of {}), {} later \
             than promised ({})",
            time(*bound), time(*wait), time(over), time(*promised)
        )?;
        let nearest: Vec<String> = nearest.iter().map(Faster::to_string).collect();
        write!(f, "; it would fit with {}, or with shorter parts of a recovery (measured: ...)", nearest.join(", or "))
    }
}
