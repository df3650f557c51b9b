//! Schedulers of today's clouds, to compare reservations with: Xen's Credit and a fair one like Linux's.
//!
//! Both are models of the published mechanisms, not ports; each says what it models and what it leaves out. Neither promises
//! anything to any server: that is what the comparison shows. Integers only, no randomness: the same calls give the same
//! schedule. Memory is allocated once. O(servers · cores) a decision, which is enough for the studies.
//!
//! Used behind [`Scheduler`](crate::Scheduler), as the policy core is; a server is one virtual CPU.

mod credit;
mod fair;

pub use credit::Credit;
pub use fair::Fair;

/// As many cores as a pool of the policy core can have.
const CORES: u32 = 64;
/// Beyond the heaviest of Xen (65,535) and of Linux (nice −20: 88,761); keeps products within 128 bits.
const HEAVIEST: u32 = 1 << 20;

/// Why there is no such scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few or too many.
    #[error("{0} cores; expected 1 to {CORES}: change the number of cores")]
    Cores(u32),
    /// A share of nothing, or too large to compute with.
    #[error("server {server}: weight {weight}; expected 1 to {HEAVIEST}: scale the weights, only their ratios matter")]
    Weight {
        /// Which, from 0.
        server: usize,
        /// What was given.
        weight: u32,
    },
    /// A cap for a server that is not there.
    #[error("cap of server {server}, but there are only {servers} servers, numbered from 0: leave the cap out")]
    Cap {
        /// Which, from 0.
        server: usize,
        /// How many there are.
        servers: usize,
    },
    /// No time to run in.
    #[error("a base slice of {0} ns; expected 1 ns to 1 s: Linux uses 0.75 to 3 ms")]
    Slice(u64),
}

fn check(cores: u32, weights: &[u32]) -> Result<(), Error> {
    if !(1..=CORES).contains(&cores) {
        return Err(Error::Cores(cores));
    }
    match weights.iter().position(|weight| !(1..=HEAVIEST).contains(weight)) {
        Some(server) => Err(Error::Weight { server, weight: weights[server] }),
        None => Ok(()),
    }
}
