//! Looking after threads that are where their server is not stopped.

use super::super::beat::Beats;
use super::served::Served;
use super::Engine;
use crate::sched::{self, Thread};
use giusto_model::Cap;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// So many are looked after in a row; each takes some 30 us.
const AT_ONCE: usize = 16;
/// Further ones so much later (ns), so that others' events are heard in between.
const AGAIN: u64 = 1_000_000;

impl Served {
    /// Lets those go on that are back.
    pub(super) fn go_on_inside(&mut self, beats: &Beats) {
        let group = &self.group;
        self.strays.let_go(beats, |process| !process.alive() || !group.has_left(process.tid));
    }

    /// Stops its processes that have left its group, some at a time; whether there may be more.
    fn stop_strays(&mut self, beats: &Beats) -> bool {
        let inside: BTreeSet<u32> = self.group.threads().into_iter().collect();
        let mut outside = self.threads.difference(&inside).filter(|&&tid| self.group.has_left(tid));
        for &tid in outside.by_ref().take(AT_ONCE) {
            let Some(process) = sched::process_of(tid).and_then(Thread::of) else { continue };
            self.strays.moved.insert(process);
            // What Giusto did not start would not be ended by it: it is not stopped.
            if self.managed.cap == Cap::Hard && self.group.is_contained() {
                self.strays.stop(beats, process);
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
            server.strays.look = server.stop_strays(&self.beats);
            self.astray.store(true, Relaxed);
        }
    }
}
