//! Softirqs: one poll list in turn, with ordinary threads for what softirqs leave (Linux 3.18, and today's backlog).

use super::host::Host;
use super::packet::Packet;
use std::collections::VecDeque;

/// Packets of one device in a row.
const QUANTUM: usize = 64;
/// After so many packets, or two jiffies (of 1 ms), one pass over the list ends.
const BUDGET: usize = 300;
const JIFFIES: u64 = 2_000_000;
/// So often passes follow each other, or for so long, before softirqs are left to their thread.
const RESTARTS: u32 = 10;
const LONGEST: u64 = 2_000_000;
/// Packets that a backlog takes.
const BACKLOG: usize = 1000;
/// A thread that wakes is that much ahead of the others; the thread that runs goes on until it is that much behind (CFS on one
/// core).
const WAKING: u64 = 3_000_000;
const GRANULARITY: u64 = 1_000_000;

/// What the list has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each virtual interface and the uplink; a thread for each guest delivers.
    Interfaces,
    /// One queue for all; what is received is delivered at once.
    Backlog,
}

#[derive(Clone, Copy)]
enum Device {
    Vif(usize),
    Nic,
    Backlog,
}

struct Softirqs {
    kind: Kind,
    list: VecDeque<Device>,
    /// Whether a pass over the list was asked for.
    pending: bool,
    /// The backlog: what came, and what is being processed; packets with whether they are answers.
    input: VecDeque<(Packet, bool)>,
    process: VecDeque<(Packet, bool)>,
    listed: bool,
}

/// The thread of softirqs, and after it one a guest: virtual run times, and which could run at the last decision.
struct Threads {
    runtimes: Vec<u64>,
    ready: Vec<bool>,
    current: usize,
}

pub(super) fn play(host: &mut Host, kind: Kind) {
    let mut soft = Softirqs {
        kind,
        list: VecDeque::new(),
        pending: false,
        input: VecDeque::new(),
        process: VecDeque::new(),
        listed: false,
    };
    let count = host.vifs.len() + 1;
    let mut threads = Threads { runtimes: vec![0; count], ready: vec![false; count], current: 0 };
    let mut left_over = false;
    while !host.over() {
        // The thread that runs pays for what interrupts it.
        let start = host.now;
        if soft.interrupts(host) && soft.pending {
            left_over |= soft.run(host);
            threads.runtimes[threads.current] += host.now - start;
            continue;
        }
        left_over &= soft.pending;
        let ready = std::iter::once(left_over).chain(host.vifs.iter().map(|vif| !vif.towards.is_empty())).collect();
        let Some(next) = threads.choose(ready) else {
            host.sleep();
            continue;
        };
        if threads.current != next {
            host.pass(host.costs.switch);
        }
        threads.current = next;
        match next {
            0 => left_over = soft.run(host),
            guest => host.deliver(guest - 1),
        }
        threads.runtimes[next] += host.now - start;
    }
}

impl Threads {
    fn choose(&mut self, ready: Vec<bool>) -> Option<usize> {
        let least = |threads: &Threads, who: &[bool]| {
            (0..who.len()).filter(|one| who[*one]).map(|one| threads.runtimes[one]).min()
        };
        if let Some(least) = least(self, &self.ready) {
            for one in (0..ready.len()).filter(|one| ready[*one] && !self.ready[*one]).collect::<Vec<_>>() {
                self.runtimes[one] = self.runtimes[one].max(least.saturating_sub(WAKING));
            }
        }
        self.ready = ready;
        let first = (0..self.ready.len()).filter(|one| self.ready[*one]).min_by_key(|one| self.runtimes[*one])?;
        let stays = self.ready[self.current] && self.runtimes[self.current] <= self.runtimes[first] + GRANULARITY;
        Some(if stays { self.current } else { first })
    }
}

impl Softirqs {
    /// Hardware interrupts and notifications that are due; whether there was one.
    fn interrupts(&mut self, host: &mut Host) -> bool {
        let mut any = false;
        if self.kind == Kind::Backlog {
            for number in std::mem::take(&mut host.notices) {
                let vif = &mut host.vifs[number];
                vif.quiet = false;
                while let Some(packet) = vif.ring.pop_front() {
                    match self.input.len() < BACKLOG {
                        true => self.input.push_back((packet, false)),
                        false => vif.seen.refused += 1,
                    }
                }
            }
            while let Some(packet) = host.nic.answer(host.now) {
                if self.input.len() < BACKLOG {
                    self.input.push_back((packet, true));
                }
            }
            if !self.input.is_empty() && !std::mem::replace(&mut self.listed, true) {
                host.pass(host.costs.interrupt);
                self.list.push_back(Device::Backlog);
                (self.pending, any) = (true, true);
            }
            return any;
        }
        for number in std::mem::take(&mut host.notices) {
            host.pass(host.costs.interrupt);
            self.list.push_back(Device::Vif(number));
            (self.pending, any) = (true, true);
        }
        if host.nic.interrupts_at().is_some_and(|at| at <= host.now) {
            host.pass(host.costs.interrupt);
            host.nic.interrupted(host.now);
            self.list.push_back(Device::Nic);
            (self.pending, any) = (true, true);
        }
        any
    }

    /// Passes over the list until nothing is left, or for as long as is allowed; whether something is left.
    fn run(&mut self, host: &mut Host) -> bool {
        let start = host.now;
        for _ in 0..RESTARTS {
            self.pending = false;
            self.pass(host);
            self.pending |= !self.list.is_empty();
            if !self.pending || host.now - start >= LONGEST || host.over() {
                break;
            }
        }
        self.pending
    }

    fn pass(&mut self, host: &mut Host) {
        let (start, mut budget) = (host.now, BUDGET);
        while budget > 0 && host.now - start < JIFFIES {
            let Some(device) = self.list.pop_front() else { return };
            let done = self.poll(device, host);
            if done == QUANTUM {
                self.list.push_back(device);
            }
            budget = budget.saturating_sub(done);
        }
    }

    /// Up to a quantum of packets; fewer: the device has no more and interrupts again.
    fn poll(&mut self, device: Device, host: &mut Host) -> usize {
        if let Device::Nic = device {
            host.clear();
        }
        for done in 0..QUANTUM {
            match device {
                Device::Vif(number) => match host.vifs[number].take(host.now) {
                    Some(packet) => host.send(packet),
                    None => {
                        host.vifs[number].quiet = false;
                        return done;
                    }
                },
                Device::Nic => match host.nic.answer(host.now) {
                    Some(packet) => host.receive(packet),
                    None => {
                        host.nic.armed = true;
                        return done;
                    }
                },
                Device::Backlog => {
                    if self.process.is_empty() {
                        std::mem::swap(&mut self.process, &mut self.input);
                    }
                    match self.process.pop_front() {
                        Some((packet, false)) => host.send(packet),
                        Some((packet, true)) => {
                            host.receive(packet);
                            host.deliver(packet.guest);
                        }
                        None => {
                            self.listed = false;
                            return done;
                        }
                    }
                }
            }
            self.interrupts(host);
        }
        QUANTUM
    }
}
