//! Budgets as a manager decides with them, one by one, for a recording: a ring that the manager writes and never waits at.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Points that wait to be read. A manager decides a few thousand times a second at most.
const POINTS: u64 = 1 << 12;

/// A server at a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetPoint {
    /// When it was decided (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// Its number on its core ([`ServerReport::server`](super::ServerReport::server)).
    pub server: usize,
    /// Budget left; below 0 is debt.
    pub left_ns: i64,
    /// Periods so far throughout which it wanted the core and did not get its budget.
    pub missed: u64,
}

/// See the module. Its manager writes it; any one thread at a time reads it.
#[derive(Debug)]
pub struct Budgets {
    points: Vec<[AtomicU64; 4]>,
    written: AtomicU64,
    read: AtomicU64,
    reader: Mutex<()>,
    lost: AtomicU64,
    is_recorded: AtomicBool,
}

impl Budgets {
    pub(super) fn new() -> Budgets {
        Budgets {
            points: std::iter::repeat_with(Default::default).take(POINTS as usize).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            reader: Mutex::new(()),
            lost: AtomicU64::new(0),
            is_recorded: AtomicBool::new(false),
        }
    }

    /// From now on its manager writes, or does no more.
    pub fn record(&self, on: bool) {
        if on && !self.is_recorded.load(Relaxed) {
            self.take(|_| ()); // of a recording before
        }
        self.is_recorded.store(on, Relaxed);
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Relaxed)
    }

    /// By its manager only.
    pub(super) fn write(&self, point: BudgetPoint) {
        let at = self.written.load(Relaxed);
        if at - self.read.load(Acquire) >= POINTS {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let BudgetPoint { at_ns, server, left_ns, missed } = point;
        let words = [at_ns, server as u64, left_ns as u64, missed];
        self.points[(at % POINTS) as usize].iter().zip(words).for_each(|(slot, word)| slot.store(word, Relaxed));
        self.written.store(at + 1, Release);
    }

    /// Hands over what has not been read yet, in the order of time.
    pub fn take(&self, mut to: impl FnMut(BudgetPoint)) {
        let _alone = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, until) = (self.read.load(Relaxed), self.written.load(Acquire));
        for at in from..until {
            let [at_ns, server, left, missed] = &self.points[(at % POINTS) as usize];
            to(BudgetPoint {
                at_ns: at_ns.load(Relaxed),
                server: server.load(Relaxed) as usize,
                left_ns: left.load(Relaxed) as i64,
                missed: missed.load(Relaxed),
            });
            self.read.store(at + 1, Release);
        }
    }

    /// Points for which there was no room, so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(nth: u64) -> BudgetPoint {
        BudgetPoint { at_ns: nth, server: nth as usize % 3, left_ns: -(nth as i64), missed: nth / 2 }
    }

    #[test]
    fn a_reader_gets_each_point_in_order_while_they_are_written() {
        let budgets = Budgets::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for nth in 0..100_000 {
                    while nth - budgets.read.load(Acquire) >= POINTS {
                        std::thread::yield_now();
                    }
                    budgets.write(point(nth));
                }
            });
            let mut next = 0;
            while next < 100_000 {
                budgets.take(|read| {
                    assert_eq!(read, point(next));
                    next += 1;
                });
                std::thread::yield_now();
            }
        });
        assert_eq!(budgets.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_an_earlier_recording_is_forgotten() {
        let budgets = Budgets::new();
        (0..POINTS + 5).for_each(|nth| budgets.write(point(nth)));
        assert_eq!(budgets.lost(), 5);
        budgets.record(true);
        let mut read = Vec::new();
        budgets.take(|point| read.push(point));
        assert!(read.is_empty() && budgets.is_recorded(), "{}", read.len());
        budgets.write(point(7));
        budgets.record(true); // again: it goes on
        budgets.take(|point| read.push(point));
        assert_eq!(read, [point(7)]);
    }
}
