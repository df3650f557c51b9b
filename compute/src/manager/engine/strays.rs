//! Threads of a server that are where it is not stopped: a process of root can put itself into another cgroup, or
//! on another core.
//!
//! The watch tells it at once; a kernel that does not tell moves between cgroups is seen through at the next wake-up,
//! when a stopped server has run on. The manager binds the thread to its core again, and stops a process that has left
//! its group by a signal (`look.rs`): to bring it back may take the kernel tens of milliseconds, which is the work of
//! the thread that asks for reports.

use super::super::beat::Beats;
use crate::sched::Thread;
use crate::stop;
use std::collections::{BTreeMap, BTreeSet};

/// Those of one server.
#[derive(Default)]
pub(super) struct Strays {
    /// Threads may be outside its group.
    pub(super) look: bool,
    /// Processes that moved and were not told yet.
    pub(super) moved: BTreeSet<Thread>,
    /// Processes that were stopped, with their places in what the watchdog sees: should all of this die, it ends them.
    stopped: BTreeMap<Thread, Option<usize>>,
}

impl Strays {
    /// Stops a process. One that is let go on meanwhile is stopped again.
    pub(super) fn stop(&mut self, beats: &Beats, process: Thread) {
        // Shown first: there is no instant at which it is stopped and no one knows.
        self.stopped.entry(process).or_insert_with(|| beats.show_stray(process));
        let _ = stop::send(process, libc::SIGSTOP);
    }

    /// Lets those go on that `wanted` names.
    pub(super) fn let_go(&mut self, beats: &Beats, wanted: impl Fn(&Thread) -> bool) {
        self.stopped.retain(|process, place| {
            let goes_on = wanted(process);
            if goes_on {
                let _ = stop::send(*process, libc::SIGCONT);
                place.iter().for_each(|place| beats.hide_stray(*place));
            }
            !goes_on
        });
    }
}
