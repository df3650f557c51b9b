//! Errors of this crate.

use giusto_model::Duration;

/// Why a run did not work. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something (exit code 3).
    #[error("{what} is missing: {how}")]
    Lacks {
        /// What.
        what: String,
        /// How to get it.
        how: String,
    },
    /// Another giusto holds this host.
    #[error("giusto runs on this host already{}", busy(*.pid))]
    Busy {
        /// Its process id, if it can be told.
        pid: Option<u32>,
    },
    /// Enforcement failed.
    #[error(transparent)]
    Compute(#[from] giusto_compute::Error),
    /// Packets could not be given their threads.
    #[error(transparent)]
    Network(#[from] giusto_network::Error),
    /// Measuring failed.
    #[error(transparent)]
    Measure(#[from] giusto_measure::Error),
    /// The plan is for several hosts, and this is one.
    #[error("a plan for {} hosts cannot be enforced on one; expected the part of one host", .0)]
    ManyHosts(usize),
    /// Told to stop before the end.
    #[error("interrupted; the host is as it was")]
    Interrupted,
    /// What requests cost changes faster than it can be measured.
    #[error(
        "cannot tell what a request of '{service}' costs: {first} when its load was chosen, {then} under that load, \
         and so again and again; something else takes this machine's processor time or slows it down: try \
         again when it is quieter, or declare 'wcet' and 'period'"
    )]
    Unsteady {
        /// Which service.
        service: String,
        /// Processor time of a request.
        first: Duration,
        /// Just after.
        then: Duration,
    },
    /// A trial without a time-sensitive service.
    #[error("there is nothing to try: no service of this site is promised as-if-alone or percentiles")]
    NothingToTry,
    /// Not everything could be undone.
    #[error("not everything could be undone, the rest stays in the journal: {0}; try 'giusto restore'")]
    NotRestored(String),
    /// A service is not there or ended.
    #[error("service '{name}': {what}")]
    Service {
        /// Which.
        name: String,
        /// What about it.
        what: String,
    },
    /// A path cannot be tried.
    #[error("path '{name}': {what}")]
    Path {
        /// Which.
        name: String,
        /// Why, and what to do.
        what: String,
    },
    /// A file or a process could not be handled.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
}

fn busy(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!(" (process {pid}); stop it first: kill {pid}"),
        None => ", or is just starting or restoring; try again in a moment".to_string(),
    }
}
