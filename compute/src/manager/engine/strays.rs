//! Threads of a server that are where it is not stopped: a process of root can put itself into another cgroup, or
//! on another core.
//!
//! The watch tells it at once; a kernel that does not tell moves between cgroups is seen through at the next
//! wake-up, when a stopped server
//! has run on. The manager binds the thread to its core again, and stops a process that has left its group by a signal: to
//! bring it back may take the kernel tens of milliseconds, which is the work of the thread that asks for reports.

use super::served::Served;
use super::Engine;
use crate::sched::{self, Thread};
use crate::stop;
use giusto_model::Cap;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// So many are looked after in a row; each takes some 30 us.
const AT_ONCE: usize = 16;
/// Further ones so much later (ns), so that others' events are heard in between.
const AGAIN: u64 = 1_000_000;

/// Those of one server.
#[derive(Default)]
pub(super) struct Strays {
    /// Threads may be outside its group.
    pub(super) look: bool,
    /// Processes that moved and were not told yet.
    pub(super) moved: BTreeSet<Thread>,
    /// Processes that were stopped.
    stopped: BTreeSet<Thread>,
}

impl Strays {
    /// Nothing of it is managed any more.
    pub(super) fn let_go(&mut self) {
        for process in std::mem::take(&mut self.stopped) {
            let _ = stop::send(process, libc::SIGCONT);
        }
    }
}

impl Served {
    /// Lets those go on that are back.
    pub(super) fn go_on_inside(&mut self) {
        let group = &self.group;
        let outside = |process: &Thread| process.alive() && group.has_left(process.tid);
        let (out, back) = std::mem::take(&mut self.strays.stopped).into_iter().partition(outside);
        self.strays.stopped = back;
        self.strays.let_go();
        self.strays.stopped = out;
    }

    /// Stops its processes that have left its group, some at a time; whether there may be more.
    fn stop_strays(&mut self) -> bool {
        let inside: BTreeSet<u32> = self.group.threads().into_iter().collect();
        let mut outside = self.threads.difference(&inside).filter(|&&tid| self.group.has_left(tid));
        for &tid in outside.by_ref().take(AT_ONCE) {
            let Some(process) = sched::process_of(tid).and_then(Thread::of) else { continue };
            self.strays.moved.insert(process);
            // One that is let go on meanwhile is stopped again. What Giusto did not start would not be ended by it:
            // it is not stopped.
            if self.managed.cap == Cap::Hard && self.group.is_contained() && stop::send(process, libc::SIGSTOP).is_ok()
            {
                self.strays.stopped.insert(process);
            }
        }
        outside.next().is_some()
    }
}

impl Engine {
    /// A thread was put into another cgroup, or runs on another core.
    pub(super) fn moved(&mut self, slot: usize, tid: u32) {
        let account = self.watch.account(slot);
        account.astray.store(0, SeqCst); // before looking, so that what comes meanwhile is told again
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        if sched::affinity(tid).is_ok_and(|cores| cores != [self.core]) {
            let _ = sched::set_affinity(tid, &[self.core]);
        }
        server.strays.look = true;
        server.strays.moved.extend(sched::process_of(tid).and_then(Thread::of));
    }

    /// When to look for more of them.
    pub(super) fn next_look(&self, now: u64) -> u64 {
        match self.servers.iter().flatten().any(|server| server.strays.look) {
            true => now + AGAIN,
            false => u64::MAX,
        }
    }

    /// Looks after servers that have threads elsewhere.
    pub(super) fn look_for_strays(&mut self) {
        for server in self.servers.iter_mut().flatten().filter(|server| server.strays.look) {
            server.strays.look = server.stop_strays();
            self.astray.store(true, Relaxed);
        }
    }
}
