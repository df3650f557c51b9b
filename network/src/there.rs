//! An interface that was found: its ends, its threads, and what passes it.

use crate::address::Address;
use crate::proof::Meter;
use crate::{Link, Thread};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What is there.
#[derive(Debug)]
pub(crate) struct There {
    pub(crate) link: Link,
    pub(crate) peer: Option<Link>,
    /// Where events tell of that: the id of its namespace, if that is another one, and its number there.
    pub(crate) other: Option<(Option<i32>, u32)>,
    /// Whether it is an end of a veth pair whose other end is out of reach.
    pub(crate) apart: bool,
    /// That of the card at its other end.
    pub(crate) address: Option<Address>,
    /// The bridge that it is a port of.
    pub(crate) bridge: Option<u32>,
    /// Threads that process what it sends, and what it receives.
    pub(crate) from: Vec<Thread>,
    pub(crate) to: Vec<Thread>,
    /// Queues of the end that has most; each has a thread.
    pub(crate) queues: usize,
    /// Queues of an uplink that receive. Its driver may have threads for others, too.
    pub(crate) receiving: usize,
    pub(crate) meters: [Meter; 2],
    /// What its threads had of the processor in all when packets had passed last, in ns; and how many had been received and sent.
    pub(crate) ran: u64,
    passed: Option<[u64; 2]>,
    /// Packets at the last look, when that was, and how many a second came before it.
    pub(crate) packets: u64,
    at: Instant,
    pub(crate) a_second: f64,
    /// Packets when loads were looked at last.
    pub(crate) mark: u64,
}

impl There {
    /// Nothing of it is known yet.
    pub(crate) fn new(link: Link) -> There {
        There {
            link,
            peer: None,
            other: None,
            apart: false,
            address: None,
            bridge: None,
            from: vec![],
            to: vec![],
            queues: 1,
            receiving: 0,
            meters: [Meter::default(), Meter::default()],
            ran: 0,
            passed: None,
            packets: 0,
            at: Instant::now(),
            a_second: 0.0,
            mark: 0,
        }
    }

    /// Each once, ascending.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        let threads: BTreeSet<Thread> = self.from.iter().chain(&self.to).copied().collect();
        threads.into_iter().collect()
    }

    /// Packets that its threads have processed: not what an uplink sends, which is done where it comes from.
    pub(crate) fn cost(&self, [received, sent]: [u64; 2]) -> u64 {
        received + if self.to.is_empty() { 0 } else { sent }
    }

    /// So many packets have been received and sent by now.
    pub(crate) fn measure(&mut self, [received, sent]: [u64; 2]) {
        // While none passes, threads sleep; asking what they had would be most of what an idle interface costs.
        if self.passed.replace([received, sent]) != Some([received, sent]) {
            self.meter([received, sent]);
        }
        let (packets, passed) = (self.cost([received, sent]), self.at.elapsed());
        if passed >= Duration::from_millis(500) {
            self.a_second = packets.saturating_sub(self.packets) as f64 / passed.as_secs_f64();
            self.at = Instant::now();
            self.packets = packets;
        }
    }

    fn meter(&mut self, [received, sent]: [u64; 2]) {
        let mut ran = 0;
        let mut used = |threads: &[Thread]| -> BTreeMap<Thread, u64> {
            let used = threads.iter().map(|&thread| (thread, crate::cpu_time_ns(thread)));
            used.inspect(|(_, time)| ran += time).collect()
        };
        if self.from == self.to {
            self.meters[0].read(received + sent, used(&self.from));
            self.meters[1] = Meter::default();
        } else {
            self.meters[0].read(received, used(&self.from));
            self.meters[1].read(sent, used(&self.to));
        }
        self.ran = ran;
    }

    /// What its threads do is proved anew.
    pub(crate) fn anew(&mut self) {
        (self.meters, self.passed) = ([Meter::default(), Meter::default()], None);
    }

    /// Its threads may be others now.
    pub(crate) fn found(&mut self, from: Vec<Thread>, to: Vec<Thread>) {
        (self.from, self.to, self.passed) = (from, to, None);
    }
}
