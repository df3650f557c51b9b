//! Why a mechanism does not work, or cannot.

use giusto_model::ServerKind;
use serde::Serialize;
use std::path::PathBuf;

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What.
    pub what: String,
    /// How to get it.
    pub how: String,
}

impl Lack {
    pub(crate) fn new(what: impl Into<String>, how: impl Into<String>) -> Lack {
        Lack { what: what.into(), how: how.into() }
    }
}

/// Why tasks cannot do without a core of their cpuset. Each text says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Keeps {
    /// There is no other.
    #[error("no other core: write another one to its cpuset.cpus, end its tasks or move them")]
    OnlyCores,
    /// It shares with no other cpuset (v1).
    #[error("is exclusive: write 0 to its cpuset.cpu_exclusive, end its tasks or move them")]
    Exclusive,
    /// It is a partition (v2).
    #[error("is a partition: write member to its cpuset.cpus.partition, end its tasks or move them")]
    Partition,
}

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
    /// Tasks of a cpuset that is not Giusto's hold the core.
    #[error(
        "core {core} is held by cpuset {cpuset}, which has {tasks} task{} and {why}, or give Giusto other cores",
        if *.tasks == 1 { "" } else { "s" }
    )]
    CoreTaken {
        /// Which core.
        core: u32,
        /// Whose.
        cpuset: PathBuf,
        /// How many are in it and below it.
        tasks: usize,
        /// Why they cannot do without it.
        why: Keeps,
    },
    /// A core that is not there.
    #[error("there is no core {core} to use; expected one of {online:?}")]
    NoCore {
        /// Which.
        core: u32,
        /// Which there are.
        online: Vec<u32>,
    },
    /// The undo record could not be written, so nothing was changed.
    #[error(
        "cannot write the undo journal, so nothing more was changed: {0}; free space where it lies, then try again"
    )]
    Journal(std::io::Error),
    /// The machine does not have it.
    #[error("this machine lacks {}: {}", .0.what, .0.how)]
    Lacks(Lack),
    /// A backend cannot do this for a service.
    #[error("service '{name}': {what}")]
    Server {
        /// Which.
        name: String,
        /// What it cannot do, and what to do.
        what: String,
    },
    /// A cap and an isolated core want a process in two cgroups.
    #[error(
        "under cgroup v2 a process has one cgroup, so it cannot be capped by quota on a core under backend 'deadline'; take \
         at-most away, or use --backend manager"
    )]
    OneCgroup,
    /// A thread ended.
    #[error("thread {0} has ended")]
    Gone(u32),
    /// A thread's reservation, or its part in a group, was removed from outside.
    #[error("thread {0} has no guarantee any more: another program changed its policy, core or group; start 'giusto run' again")]
    Lost(u32),
    /// A thread has a reservation already.
    #[error("thread {0} is under SCHED_DEADLINE already; end that reservation first: chrt --other --pid 0 {0}")]
    Taken(u32),
    /// The kernel's own mechanisms cannot enforce this.
    #[error("backends 'deadline' and 'rt-group' enforce servers of kind constant_bandwidth only, not {0}")]
    Kind(ServerKind),
    /// A service without threads.
    #[error("the service has no thread; it has ended, or was not started")]
    NoThread,
    /// Another thread did the work than the one that was reserved.
    #[error(
        "thread {reserved} is reserved, but in the last interval thread {worker} did most of the work, without a \
             guarantee; if that stays so, start 'giusto run' again"
    )]
    NotTheWorker {
        /// Which has the reservation.
        reserved: u32,
        /// Which should.
        worker: u32,
    },
    /// SCHED_DEADLINE reserves single threads.
    #[error(
        "no thread does the service's work ({shares}; {threads} threads): backend 'deadline' reserves a single thread, which \
         has to do at least 95 % of it; let the service work with one thread, or enforce it with --backend manager"
    )]
    NoWorker {
        /// The busiest threads with their parts.
        shares: String,
        /// How many threads there are.
        threads: usize,
    },
}
