//! What is simulated.

use giusto_model::{Duration, ServerKind, Task};
use giusto_policy::Order;
use std::sync::Arc;

/// One core and its servers.
#[derive(Clone, Debug)]
pub struct System {
    /// Who goes first.
    pub order: Order,
    /// At most 64.
    pub servers: Vec<ServerSpec>,
}

/// A server and what it serves.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The algorithm.
    pub kind: ServerKind,
    /// B; ignored for `unlimited`.
    pub budget: Duration,
    /// P; ignored for `unlimited`.
    pub period: Duration,
    /// First replenishment, without budget until then; 0: at the start.
    pub first: Duration,
    /// Smaller is higher.
    pub priority: u32,
    /// Its tasks; `None`: always ready, takes every cycle it can get.
    pub workload: Option<Workload>,
}

/// Tasks behind one virtual CPU.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The tasks; copies are expanded one by one.
    pub tasks: Vec<Task>,
    /// Their scheduler.
    pub guest: Guest,
    /// How long jobs run.
    pub execution: Execution,
    /// When jobs of sporadic tasks come.
    pub sporadic: Sporadic,
}

/// The scheduler inside a service or VM. All are work-conserving and stable (paper 000, § 3.1.2): ties go to the task listed
/// first, then to the earlier job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// First come, first served, not preemptive: a single-threaded server.
    Fifo,
    /// Shorter period first, preemptive.
    RateMonotonic,
    /// Earlier absolute deadline first, preemptive.
    Edf,
}

/// Execution times of jobs.
#[derive(Clone, Debug)]
pub enum Execution {
    /// Always the worst case.
    Worst,
    /// Uniform over [f·C, C], f in percent.
    Uniform {
        /// f, at most 100.
        percent: u32,
    },
    /// Drawn from measured values, in ns, whatever the task's worst case; not empty, each from 1 ns to 73 years.
    Samples(Arc<[u64]>),
}

/// Releases of sporadic tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sporadic {
    /// As soon as allowed: periodic from the offset. What the load generator sends.
    Densest,
    /// Gaps uniform over [T, 2T], first release at the offset (paper 000, § 3.4.1).
    Random,
}

/// Why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The policy core refuses it.
    #[error("server {index}: {why}")]
    Server {
        /// Which, from 0.
        index: usize,
        /// Why.
        why: String,
    },
    /// A task makes no sense.
    #[error("server {index}: {why}")]
    Task {
        /// Which server, from 0.
        index: usize,
        /// Why.
        why: giusto_model::TaskError,
    },
    /// Nothing to draw from.
    #[error("server {index}: no measured execution times to draw from; measure at least one request")]
    NoSamples {
        /// Which server, from 0.
        index: usize,
    },
    /// A measured time that no job can take.
    #[error("server {index}: a measured {what} time of {ns} ns; expected {least} ns or more, and less than 73 years: measure again")]
    Sample {
        /// Which server, from 0.
        index: usize,
        /// Execution or transport.
        what: &'static str,
        /// What was measured.
        ns: u64,
        /// The least that makes sense.
        least: u64,
    },
    /// There is nothing to predict from.
    #[error(
        "no job finished within {within}; simulate longer, and check that the server's budget suffices for its tasks"
    )]
    NoJob {
        /// The horizon.
        within: Duration,
    },
    /// Too long or no time at all.
    #[error(
        "the time to simulate must be more than 0 and less than 73 years, and offsets and periods less than 73 years"
    )]
    Horizon,
    /// A trace or record could not be written.
    #[error("cannot write what was observed: {0}")]
    Write(String),
}
