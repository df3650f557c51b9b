//! Composition on a real host: starts or adopts services, enforces a plan with `compute`, keeps the undo journal, and runs
//! trials: service and load together, arm by arm, job records out.
//!
//! Called by the command line (`giusto run`, `giusto restore`, `giusto measure`). Sites and plans flow in; job records and
//! a judgement flow out. It decides no parameter (`planner`) and does no statistics (`verify`).

mod services;

pub use services::Running;

use giusto_planner::Facts;

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
    /// A service is not there or ended.
    #[error("service '{name}': {what}")]
    Service {
        /// Which.
        name: String,
        /// What about it.
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
