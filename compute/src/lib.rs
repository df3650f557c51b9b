//! Mechanisms that give processor time to servers on Linux.
//!
//! Called by `daemon`. Flows in: processes, servers from the plan, and a [`Recorder`] that keeps what is to be undone.
//! Flows out: reservations in force, and undo records *before* each change. The walk has one backend, `deadline`
//! (SCHED_DEADLINE, pinned in an exclusive cpuset). It decides no parameter, starts no service and owns no journal file.

mod cpuset;
mod deadline;
mod probe;
pub mod sched;
mod undo;

pub use cpuset::Cpusets;
pub use deadline::{reschedule, settle, Isolated, Reserved};
pub use probe::{probe, reservable_cores, Lack, Machine};
pub use undo::{undo, Recorder, Report, Undo};

use std::path::PathBuf;

/// Why a mechanism did not work. What was done until then stands in the recorder and can be undone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error("cannot {doing}: {why}")]
    Kernel {
        /// What was tried.
        doing: String,
        /// What the kernel said, and what it means.
        why: String,
    },
    /// Something is there that only an earlier Giusto can have made.
    #[error("{0} exists already: an earlier giusto has left it; run 'giusto restore', or remove it with rmdir")]
    Leftover(PathBuf),
    /// The undo record could not be written, so nothing was changed.
    #[error("cannot write the undo journal, so nothing more was changed: {0}")]
    Journal(std::io::Error),
    /// A thread ended.
    #[error("thread {0} has ended")]
    Gone(u32),
    /// A service without threads.
    #[error("the service has no thread")]
    NoThread,
    /// SCHED_DEADLINE reserves single threads.
    #[error(
        "thread {tid} does {percent} % of the service's work, which has {threads} threads; backend 'deadline' reserves a single \
         thread, so one has to do at least 95 %: let it work with one thread"
    )]
    NoWorker {
        /// The busiest thread.
        tid: u32,
        /// Its part.
        percent: u32,
        /// How many there are.
        threads: usize,
    },
}
