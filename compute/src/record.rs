//! What is to be undone, recorded before it is done.

pub use giusto_host::Recorder;

use crate::sched::{Attr, Thread};
use crate::Error;
use giusto_model::{Bandwidth, Process};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One change, as its undoing. Written down *before* the change is made, so it may describe one that never was: undoing that
/// must do no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Reservations will come: at the end as much deadline bandwidth must be free as before, or the kernel's sum is wrong.
    Bandwidth {
        /// The cpuset tree's root.
        tree: PathBuf,
        /// What the kernel ever admits of a core.
        cap: Bandwidth,
        /// Tenths of it that were free on all cores at once.
        tenths: u32,
    },
    /// A cgroup was made: move its members to where those that Giusto moved there came from, and remove it.
    Folder(PathBuf),
    /// A file was written: write its old value.
    File {
        /// Which.
        path: PathBuf,
        /// What it held.
        value: String,
    },
    /// A process was moved: move it back.
    Place {
        /// The process; or a single thread that sat apart from its process (v1).
        process: Thread,
        /// `cgroup.procs` (or `tasks`) of where it was.
        back_to: PathBuf,
        /// The cgroup that it was moved to.
        from: PathBuf,
    },
    /// A thread was restricted to other cores.
    Affinity {
        /// The thread.
        thread: Thread,
        /// Where it might run.
        cores: Vec<u32>,
    },
    /// A thread was bound to one core.
    Bound {
        /// The thread.
        thread: Thread,
        /// To which.
        core: u32,
        /// Where it might run before.
        cores: Vec<u32>,
    },
    /// A cgroup was made for a managed server: let its members go on, give those that were born in it what their service had,
    /// move them home, and remove it.
    Held {
        /// The cgroup.
        folder: PathBuf,
        /// The file that its members are written to.
        home: PathBuf,
        /// The scheduling attributes of the service.
        before: Attr,
        /// The core that they were bound to.
        core: u32,
        /// Where they might run before.
        cores: Vec<u32>,
    },
    /// A thread got other scheduling attributes.
    Scheduling {
        /// The thread.
        thread: Thread,
        /// What it had.
        before: Attr,
        /// Period of the reservation it got, 0 if none: if it dies with it, its bandwidth is booked that long.
        period_ns: u64,
    },
    /// A process was started where there are no cgroups: end its group.
    Group(Thread),
    /// A cgroup was made for a program that is started, and groups of controllers for its limits: end all that is in it, and
    /// remove them.
    Contained {
        /// The cgroup.
        folder: PathBuf,
        /// Those that limit.
        limits: Vec<PathBuf>,
        /// How long it may take to end after it was asked to.
        #[serde(default = "usual_end")]
        end_within_ns: u64,
    },
    /// A process was stopped by a signal: let it go on.
    Stopped(Thread),
}

/// What earlier releases did not write.
fn usual_end() -> u64 {
    Process::END.ns()
}

impl Undo {
    /// A process that was moved: which, from where, and to where.
    pub(crate) fn as_move(&self) -> Option<(Thread, &Path, &Path)> {
        match self {
            Undo::Place { process, back_to, from } if back_to.ends_with("cgroup.procs") => {
                Some((*process, back_to, from))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::Bandwidth { .. } => write!(f, "see that as much deadline bandwidth is free as before"),
            Undo::Folder(path) => write!(f, "remove {}", path.display()),
            Undo::File { path, value } => write!(f, "write {:?} to {}", value.trim(), path.display()),
            Undo::Place { process, back_to, .. } => {
                write!(f, "move process {} back to {}", process.tid, back_to.display())
            }
            Undo::Affinity { thread, cores } => write!(f, "let thread {} run on cores {cores:?} again", thread.tid),
            Undo::Bound { thread, cores, .. } => write!(f, "unbind thread {} to cores {cores:?}", thread.tid),
            Undo::Held { folder, .. } => write!(f, "let all threads in {} go on and remove it", folder.display()),
            Undo::Scheduling { thread, before, .. } => {
                write!(f, "give thread {} policy {} back", thread.tid, before.policy)
            }
            Undo::Group(leader) => write!(f, "end the started process group {}", leader.tid),
            Undo::Contained { folder, .. } => write!(f, "end all that is in {} and remove it", folder.display()),
            Undo::Stopped(process) => write!(f, "let the stopped process {} go on", process.tid),
        }
    }
}

/// Writes it down before a change.
pub(crate) fn intend(record: &mut dyn Recorder<Undo>, undo: Undo) -> Result<(), Error> {
    record.intend(&undo).map_err(Error::Journal)
}
