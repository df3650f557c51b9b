//! What to undo, recorded before it is done.

use crate::sched::{self, Attr, Thread};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs, io, thread, time};

/// One change, as its undoing. Written down *before* the change is made, so it may describe one that never was: undoing that
/// must do no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// A cgroup was made: move its members to its parent and remove it.
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
        /// The process.
        process: Thread,
        /// `cgroup.procs` of where it was.
        back_to: PathBuf,
    },
    /// A thread was restricted to other cores.
    Affinity {
        /// The thread.
        thread: Thread,
        /// Where it might run.
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
    /// A process was started: end its group.
    Group(Thread),
}

/// Keeps what is to be undone. A change is only made after `intend` has returned.
pub trait Recorder {
    /// Writes it down so that it survives a crash.
    fn intend(&mut self, undo: &Undo) -> io::Result<()>;
}

/// In memory only: for changes that end with the process anyway, and for tests.
impl Recorder for Vec<Undo> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.push(undo.clone());
        Ok(())
    }
}

/// What an undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Changes undone or found undone.
    pub undone: usize,
    /// What could not be undone, and why.
    pub failed: Vec<String>,
}

/// Undoes all, the latest first. May be called again after having died in the middle; what has vanished is passed over.
pub fn undo(all: &[Undo]) -> Report {
    let mut report = Report::default();
    let mut waited_ns = 0;
    for step in all.iter().rev() {
        match step.undo(&mut waited_ns) {
            Ok(()) => report.undone += 1,
            Err(error) => report.failed.push(format!("{step}: {error}")),
        }
    }
    report
}

impl Undo {
    fn undo(&self, waited_ns: &mut u64) -> io::Result<()> {
        match self {
            Undo::Folder(path) => remove(path),
            Undo::File { path, value } => {
                if path.exists() && fs::read_to_string(path)?.trim() != value.trim() {
                    fs::write(path, value)?;
                }
                Ok(())
            }
            Undo::Place { process, back_to } => {
                if !process.alive() {
                    return Ok(());
                }
                gone_is_fine(process, fs::write(back_to, process.tid.to_string()))
            }
            Undo::Affinity { thread, cores } => {
                if !thread.alive() || sched::affinity(thread.tid).is_ok_and(|now| now == *cores) {
                    return Ok(());
                }
                gone_is_fine(thread, sched::set_affinity(thread.tid, cores))
            }
            Undo::Scheduling { thread, before, .. } if thread.alive() => {
                gone_is_fine(thread, sched::leave(thread.tid, before))
            }
            Undo::Scheduling { period_ns, .. } => {
                // It died with its reservation: cpusets must stay as they are until the kernel has taken that back.
                thread::sleep(time::Duration::from_nanos(period_ns.saturating_sub(*waited_ns)));
                *waited_ns = (*waited_ns).max(*period_ns);
                Ok(())
            }
            Undo::Group(leader) => end_group(*leader),
        }
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::Folder(path) => write!(f, "remove {}", path.display()),
            Undo::File { path, value } => write!(f, "write {:?} to {}", value.trim(), path.display()),
            Undo::Place { process, back_to } => write!(f, "move process {} back to {}", process.tid, back_to.display()),
            Undo::Affinity { thread, cores } => write!(f, "let thread {} run on cores {cores:?} again", thread.tid),
            Undo::Scheduling { thread, before, .. } => {
                write!(f, "give thread {} policy {} back", thread.tid, before.policy)
            }
            Undo::Group(leader) => write!(f, "end the started process group {}", leader.tid),
        }
    }
}

fn gone_is_fine(thread: &Thread, done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(_) if !thread.alive() => Ok(()),
        other => other,
    }
}

/// Removes a cgroup; its members go to the parent. Processes that die leave it a moment later, hence the patience.
fn remove(path: &Path) -> io::Result<()> {
    let parent = path.parent().map(|p| p.join("cgroup.procs"));
    let mut last = Ok(());
    for _ in 0..200 {
        if !path.exists() {
            return Ok(());
        }
        if let Some(parent) = &parent {
            for pid in fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(parent, pid); // it may have died; then rmdir tells
            }
        }
        last = fs::remove_dir(path);
        if last.is_ok() {
            return last;
        }
        thread::sleep(time::Duration::from_millis(5));
    }
    last
}

/// Ends the process group of a leader that Giusto started, also when only its children are left: SIGTERM, after two seconds
/// SIGKILL.
fn end_group(leader: Thread) -> io::Result<()> {
    if Thread::of(leader.tid).is_some_and(|now| now != leader) {
        return Ok(()); // the number is somebody else's now, so the group has ended
    }
    for (signals, patience) in [(&[libc::SIGTERM, libc::SIGCONT][..], 400), (&[libc::SIGKILL], 400)] {
        if sched::group(leader.tid).is_empty() {
            return Ok(());
        }
        for signal in signals {
            // SAFETY: plain system call; a group's number is not reused while it has members.
            unsafe { libc::kill(-(leader.tid as i32), *signal) };
        }
        for _ in 0..patience {
            if sched::group(leader.tid).is_empty() {
                return Ok(());
            }
            thread::sleep(time::Duration::from_millis(5));
        }
    }
    Err(io::Error::other("it does not end"))
}
