//! Why an ensemble does not keep its promise, and what would.

use crate::words::time;
use giusto_model::{Duration, Epochs};
use std::fmt;

/// Fewest servers of which one may die.
pub(super) const FEWEST: usize = 3;

/// An ensemble that cannot keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRecovery {
    /// Its servers.
    pub servers: usize,
    /// With which parameters.
    pub how: How,
    /// Within which time it was to recover.
    pub promised: Duration,
    /// How long it takes, at most.
    pub bound: Duration,
    /// What would keep the promise, each by itself.
    pub nearest: Vec<Faster>,
}

/// What an engine's longest recovery is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// ZooKeeper.
    ZooKeeper {
        /// How it keeps epochs: as the site says, else the fastest way.
        epochs: Epochs,
        /// w.
        wait: Duration,
    },
    /// ZooKeeper, whose leader is stopped or cut off.
    Silence {
        /// L.
        latency: Duration,
        /// As above.
        epochs: Epochs,
    },
    /// etcd, with what makes its bound the shortest.
    Etcd {
        /// H.
        heartbeat: Duration,
        /// E.
        election: Duration,
        /// r.
        rounds: u32,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::ZooKeeper { epochs, wait } => write!(f, "epochs: {epochs}, a wait of {}", time(*wait)),
            How::Silence { latency, epochs } => write!(f, "a latency of {}, epochs: {epochs}", time(*latency)),
            How::Etcd { heartbeat, election, rounds } => {
                write!(f, "a heartbeat of {}, an election timeout of {}, ", time(*heartbeat), time(*election))?;
                write!(f, "{rounds} elections")
            }
        }
    }
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
    /// The largest L with which a silent leader is missed soon enough, in whole microseconds.
    Latency(Duration),
    /// What can be promised.
    Recovery(Duration),
    /// What can be promised of the loss of a machine.
    MachineLoss(Duration),
}

impl fmt::Display for Faster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Faster::Epochs(epochs) => write!(f, "epochs: {epochs}"),
            Faster::Wait(wait) => write!(f, "wait: {}", written(*wait)),
            Faster::Servers(servers) => write!(f, "{servers} servers"),
            Faster::Latency(latency) => write!(f, "measured: {{latency: {}}}", written(*latency)),
            Faster::MachineLoss(bound) => write!(f, "promise: {{machine-loss: {}}}", written(*bound)),
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
        let SlowRecovery { servers, how, promised, bound, nearest } = self;
        let over = bound.checked_sub(*promised).unwrap_or(Duration::ZERO);
        let lost = if matches!(how, How::Silence { .. }) { "is stopped or cut off" } else { "dies" };
        write!(
            f,
            "coordination: when the leader of {servers} servers {lost}, another serves within {} at most ({how}), {} later \
             than promised ({})",
            time(*bound),
            time(over),
            time(*promised)
        )?;
        let nearest: Vec<String> = nearest.iter().map(|near| format!("{near}, or ")).collect();
        write!(f, "; it would fit with {}with shorter parts of a recovery (measured: ...)", nearest.concat())
    }
}
