//! A server of a core: its threads, and how they get and lose their place.

use super::super::group::Group;
use super::super::managed::Managed;
use super::super::watch;
use super::strays::Strays;
use crate::sched::{self, Attr};
use giusto_model::Cap;
use giusto_policy::Id;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// A server that had this much (ns) beyond its budget, and more than another budget, was not stopped in time.
const STOPPED_LATE: u64 = 10_000_000;
/// A budget is served if less than this (ns) is missing: what a manager's own wake-ups and the timer's rounding take.
const CRUMB: i64 = 50_000;

/// The periods of a server, as they go by.
#[derive(Default)]
pub(super) struct Periods {
    /// When this one ends (CLOCK_MONOTONIC, ns), what the server had consumed when it began, and what was left to consume then:
    /// its budget, less what it owed.
    ends: u64,
    had: i64,
    left: i64,
    /// Since when it has wanted the core without a break.
    pub(super) ready_since: Option<u64>,
    pub(super) replenished: u64,
    /// Periods in which it got its budget.
    pub(super) full: u64,
    /// Periods throughout which it wanted the core and did not get its budget.
    pub(super) missed: u64,
}

impl Periods {
    /// Its deadline is `ends` now, and this is left of its budget.
    pub(super) fn pass(&mut self, ends: u64, period: u64, charged: i64, left: i64) {
        if ends == self.ends || ends == u64::MAX {
            return;
        }
        let period = period.max(1);
        if self.ends > 0 && ends > self.ends {
            let throughout = self.ready_since.is_some_and(|since| since.saturating_add(period) <= self.ends);
            let is_full = charged - self.had + CRUMB >= self.left;
            self.full += u64::from(is_full && self.left > 0);
            self.missed += u64::from(throughout && !is_full);
            self.replenished += ((ends - self.ends) / period).max(1);
        }
        (self.ends, self.had, self.left) = (ends, charged, left);
    }
}

/// A server of this core.
pub(super) struct Served {
    pub(super) id: Id,
    pub(super) managed: Managed,
    pub(super) group: Group,
    pub(super) threads: BTreeSet<u32>,
    /// Those that another server of the service has, or is about to take from the group.
    pub(super) parted: BTreeSet<u32>,
    /// Its threads' priority; `None`: parked.
    pub(super) priority: Option<u32>,
    pub(super) frozen: bool,
    /// The thread that was first when it was let go on the last time.
    pub(super) first: u32,
    /// The thread that runs before its others.
    pub(super) preferred: Option<u32>,
    pub(super) is_ready: bool,
    /// At the last beat: when that was, what had been consumed by then, and whether it was awake.
    pub(super) looked: (u64, u64, bool),
    /// Until when it is boosted.
    pub(super) boost: Option<u64>,
    /// What its place among the accounts had counted before it.
    pub(super) base: u64,
    /// What of its consumption the policy core knows, in ns; ahead of the truth by a crumb at most.
    pub(super) charged: i64,
    pub(super) throttled: u64,
    pub(super) overrun_max: u64,
    /// How often it was not stopped in time, and what it had beyond its budget as it was seen last.
    pub(super) late_stops: u64,
    pub(super) beyond: u64,
    pub(super) periods: Periods,
    /// Events of it that had found no room when its threads were listed last.
    pub(super) lost: u64,
    /// The places of its cgroups among those that the guard sees.
    pub(super) shown: Vec<usize>,
    pub(super) strays: Strays,
}

impl Served {
    pub(super) fn set_ready(&mut self, is_ready: bool, at: u64) {
        self.is_ready = is_ready;
        self.periods.ready_since = is_ready.then_some(at);
    }

    /// It has had `beyond` ns more than its budget allows by now. Returns whether that is news, and too much.
    pub(super) fn overrun(&mut self, beyond: u64) -> bool {
        self.overrun_max = self.overrun_max.max(beyond);
        let most = STOPPED_LATE.max(self.managed.server.budget.ns());
        let is_new = beyond > most && self.beyond <= most;
        self.beyond = beyond;
        self.late_stops += u64::from(is_new);
        is_new
    }

    /// Keeps its threads off the core: below the real-time threads of all others, and stopped if it is to be capped.
    pub(super) fn park(&mut self, account: &watch::Account, left: i64) {
        if self.priority.take().is_some() {
            self.threads.iter().for_each(|&tid| give(tid, None));
            if left <= 0 {
                self.throttled += 1;
            }
        }
        // One that sleeps needs no stopping; it is watched, and stopped when it wakes.
        if self.managed.cap == Cap::Hard && !self.frozen && account.awake.load(Relaxed) > 0 {
            account.parked.store(1, Relaxed);
            self.frozen = self.group.freeze(true).is_ok();
            account.parked.store(u32::from(self.frozen), Relaxed);
        }
    }

    /// Its preferred thread is as high as the server above it: it does not wait for the others of its own, and is through in
    /// microseconds.
    pub(super) fn priority_of(&self, tid: u32) -> Option<u32> {
        self.priority.map(|priority| priority + u32::from(self.preferred == Some(tid)))
    }

    pub(super) fn give(&self, tid: u32) {
        let priority = self.priority_of(tid);
        let denied = sched::set(tid, &attr(priority)).is_err_and(|why| why.raw_os_error() == Some(libc::EPERM));
        // Where real-time priorities are denied the others would use up budget after budget before it had its turn.
        if denied && priority.is_some() && self.preferred == Some(tid) {
            let _ = sched::set(tid, &Attr::fair_first());
        }
    }

    pub(super) fn unpark(&mut self, account: &watch::Account, priority: u32) {
        if self.managed.cap == Cap::Soft && self.priority.is_none() {
            self.charged = account.ran.load(Relaxed) as i64; // what it ran on leftovers is free
        }
        if self.frozen {
            // It was stopped while ready, and wakes now: an interrupt and a wake-up to be told what is known.
            account.urgent.store(0, Relaxed);
            account.parked.store(0, Relaxed);
            self.frozen = self.group.freeze(false).is_err();
        }
        if self.priority != Some(priority) {
            // Threads of one priority run in the order in which they got it, once they can run at all: each has its turn to be first.
            let was_parked = self.priority.replace(priority).is_none();
            let next = self.threads.range(self.first + 1..).chain(&self.threads).next();
            self.first = next.copied().filter(|_| was_parked).unwrap_or(self.first);
            let in_turn = self.threads.range(self.first..).chain(self.threads.range(..self.first));
            in_turn.for_each(|&tid| self.give(tid));
        }
    }
}

pub(super) fn attr(priority: Option<u32>) -> Attr {
    match priority {
        Some(priority) => Attr::inherited(sched::RR, priority),
        None => Attr::default(),
    }
}

/// A thread that has gone is passed over; one that refuses is looked after at the next beat.
pub(super) fn give(tid: u32, priority: Option<u32>) {
    let _ = sched::set(tid, &attr(priority));
}
