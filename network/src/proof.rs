//! Whether processing has really moved to the threads: their processor time grows while packets pass.

use crate::Thread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Fewer packets than these prove nothing, as a thread's time is booked a moment later.
const ENOUGH: u64 = 16;
/// No kernel processes a packet in less (ns); measured here are 300 ns and more, and exactly 0 where packets pass a thread by.
const LEAST: u64 = 50;

/// What was seen of an interface's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The threads' processor time grew with the packets.
    Moved,
    /// Too few packets have passed since its threads are there.
    #[default]
    Idle,
    /// Packets passed, and not through the threads.
    NotMoved {
        /// What was seen, and what may be the cause.
        why: String,
    },
}

impl Proof {
    /// Of both directions: one that has not moved counts, then one that has.
    pub(crate) fn and(self, other: Proof) -> Proof {
        match (self, other) {
            (not @ Proof::NotMoved { .. }, _) | (_, not @ Proof::NotMoved { .. }) => not,
            (Proof::Moved, _) | (_, Proof::Moved) => Proof::Moved,
            (Proof::Idle, Proof::Idle) => Proof::Idle,
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Moved => f.pad("moved"),
            Proof::Idle => f.pad("no packets yet"),
            Proof::NotMoved { .. } => f.pad("NOT MOVED"),
        }
    }
}

/// Packets of one direction, and the threads that are to process them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// At the beginning of the window that is looked at.
    packets: u64,
    used: BTreeMap<Thread, u64>,
    pub(crate) proof: Proof,
}

impl Meter {
    /// `packets` have passed in the life of the interface; `used`: what each thread had in its own (ns). A window ends when enough packets
    /// have passed in it, and when the threads or the interface have become others.
    pub(crate) fn read(&mut self, packets: u64, used: BTreeMap<Thread, u64>) {
        if !used.keys().eq(self.used.keys()) || packets < self.packets {
            *self = Meter { packets, used, proof: Proof::Idle };
            return;
        }
        let passed = packets - self.packets;
        if passed < ENOUGH || used.is_empty() {
            return;
        }
        let ran: u64 = used.iter().map(|(thread, now)| now.saturating_sub(self.used[thread])).sum();
        let proof = match ran / passed {
            0..LEAST => Proof::NotMoved {
                why: format!(
                    "{passed} packets passed, and its threads ran {ran} ns: something else processes them; look for TSO at the sending \
                     end, XDP, or a kernel that defers to softirqs"
                ),
            },
            _ => Proof::Moved,
        };
        *self = Meter { packets, used, proof };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(all: &[(u32, u64)]) -> BTreeMap<Thread, u64> {
        all.iter().map(|&(tid, ns)| (Thread { tid, started: 1 }, ns)).collect()
    }

    #[test]
    fn moved_is_what_costs_the_threads_time() {
        let mut meter = Meter::default();
        let mut read = |packets, all: &[(u32, u64)]| {
            meter.read(packets, used(all));
            meter.proof.to_string()
        };
        assert_eq!(read(1_000, &[(7, 5_000)]), "no packets yet", "what was before is not ours");
        assert_eq!(read(1_010, &[(7, 5_000)]), "no packets yet", "too few");
        assert_eq!(read(1_016, &[(7, 5_000)]), "NOT MOVED", "with the ten before they are enough");
        assert_eq!(read(1_116, &[(7, 105_000)]), "moved");
        assert_eq!(read(1_116, &[(7, 105_000)]), "moved", "what was proved holds until the next packets");
        assert_eq!(read(2_116, &[(8, 0)]), "no packets yet", "another thread");
        assert_eq!(read(2_216, &[(8, 4_999)]), "NOT MOVED");
        assert_eq!(read(2_316, &[(8, 9_999)]), "moved");
        assert_eq!(read(5, &[(8, 9_999)]), "no packets yet", "another interface");
    }

    #[test]
    fn one_direction_that_has_not_moved_counts() {
        let not = Proof::NotMoved { why: String::new() };
        assert_eq!(Proof::Moved.and(not.clone()), not);
        assert_eq!(not.clone().and(Proof::Idle), not);
        assert_eq!(Proof::Idle.and(Proof::Moved), Proof::Moved);
        assert_eq!(Proof::Idle.and(Proof::Idle), Proof::Idle);
    }
}
