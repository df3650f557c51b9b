//! Threads with real-time priorities instead of softirqs: VATC's by class, and today's by interface.

use super::host::Host;
use std::collections::VecDeque;

/// Packets of one interface in a row.
const QUANTUM: u32 = 64;
/// The kernel stops threads with real-time priorities that ran for so long, until the end of a period.
const RUNTIME: u64 = 950_000_000;
const PERIOD: u64 = 1_000_000_000;

/// When another thread may go first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By class, after every packet (VATC).
    Packets,
    /// By class, after every poll; the low class is not real-time.
    Polls,
    /// First come, first served, when the thread that runs has nothing left.
    Equal,
}

/// Whose thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thread {
    /// The uplink's: clears away what was sent, and receives.
    Uplink,
    /// Of a guest: delivers what is for it.
    Deliver(usize),
    /// Of a guest: sends what it has in its ring.
    Send(usize),
}

struct Threads {
    order: Order,
    /// Whether the uplink has interrupted.
    uplink: bool,
    current: Option<(Thread, u32)>,
    /// Those that can run, in the order in which they woke.
    woken: VecDeque<Thread>,
    /// Real-time: the period and what was used of it.
    used: (u64, u64),
}

pub(super) fn play(host: &mut Host, order: Order) {
    let mut threads = Threads { order, uplink: false, current: None, woken: VecDeque::new(), used: (0, 0) };
    while !host.over() {
        threads.interrupts(host);
        let Some(next) = threads.choose(host) else {
            threads.current = None;
            host.sleep();
            continue;
        };
        let start = host.now;
        threads.begin(next, host);
        threads.run(next, host);
        if threads.is_real_time(next, host) {
            threads.used.1 += host.now - start;
        }
    }
}

impl Threads {
    /// A hardware interrupt or a notification wakes a thread.
    fn interrupts(&mut self, host: &mut Host) {
        for _ in 0..std::mem::take(&mut host.notices).len() {
            host.pass(host.costs.interrupt);
        }
        if host.nic.interrupts_at().is_some_and(|at| at <= host.now) {
            host.pass(host.costs.interrupt);
            host.nic.interrupted(host.now);
            self.uplink = true;
        }
        if host.now / PERIOD > self.used.0 {
            self.used = (host.now / PERIOD, 0);
        }
    }

    fn all(host: &Host) -> impl Iterator<Item = Thread> {
        let guests = 0..host.vifs.len();
        let each = guests.flat_map(|guest| [Thread::Deliver(guest), Thread::Send(guest)]);
        std::iter::once(Thread::Uplink).chain(each)
    }

    fn is_high(thread: Thread, host: &Host) -> bool {
        match thread {
            Thread::Uplink => true,
            Thread::Deliver(guest) | Thread::Send(guest) => host.vifs[guest].is_high(),
        }
    }

    fn is_real_time(&self, thread: Thread, host: &Host) -> bool {
        self.order != Order::Polls || Threads::is_high(thread, host)
    }

    fn has_work(&self, thread: Thread, host: &mut Host) -> bool {
        let work = match thread {
            Thread::Uplink => self.uplink,
            Thread::Deliver(guest) => !host.vifs[guest].towards.is_empty(),
            // Suspended while the uplink takes no more.
            Thread::Send(guest) => host.vifs[guest].may(host.now) && !host.is_held(),
        };
        work && !(self.is_real_time(thread, host) && self.used.1 >= RUNTIME)
    }

    fn choose(&mut self, host: &mut Host) -> Option<Thread> {
        let goes_on = match self.order {
            Order::Packets => None,
            Order::Polls => self.current.filter(|(_, left)| *left > 0),
            Order::Equal => self.current,
        };
        if let Some((thread, _)) = goes_on.filter(|(thread, _)| self.has_work(*thread, host)) {
            return Some(thread);
        }
        // A thread that has ended its poll goes to the end of those that are waiting.
        if let Some((thread, _)) = self.current.filter(|_| self.order != Order::Packets) {
            self.woken.retain(|other| *other != thread);
        }
        let ready: Vec<Thread> = Threads::all(host).collect();
        let ready: Vec<Thread> = ready.into_iter().filter(|thread| self.has_work(*thread, host)).collect();
        self.woken.retain(|thread| ready.contains(thread));
        for thread in &ready {
            if !self.woken.contains(thread) {
                self.woken.push_back(*thread);
            }
        }
        match self.order {
            Order::Equal => self.woken.front().copied(),
            Order::Polls => self.woken.iter().copied().min_by_key(|thread| Threads::rank(*thread, host)),
            // A class has one queue: what came first.
            Order::Packets => {
                ready.into_iter().min_by_key(|thread| (Threads::rank(*thread, host), came(*thread, host)))
            }
        }
    }

    /// The uplink, what is for guests of the high class, what they send, the low class; `min_by_key` takes the first of equals.
    fn rank(thread: Thread, host: &Host) -> u8 {
        match thread {
            Thread::Uplink => 0,
            _ if !Threads::is_high(thread, host) => 3,
            Thread::Deliver(_) => 1,
            Thread::Send(_) => 2,
        }
    }

    fn begin(&mut self, next: Thread, host: &mut Host) {
        match &mut self.current {
            Some((thread, left)) if *thread == next && *left > 0 => *left -= 1,
            Some((thread, left)) if *thread == next => *left = QUANTUM - 1,
            current => {
                *current = Some((next, QUANTUM - 1));
                host.pass(host.costs.switch);
            }
        }
    }

    fn run(&mut self, thread: Thread, host: &mut Host) {
        match thread {
            Thread::Uplink => {
                host.clear();
                if let Some(packet) = host.nic.answer(host.now) {
                    host.receive(packet);
                }
                if !host.nic.has_work(host.now) {
                    (self.uplink, host.nic.armed) = (false, true);
                }
            }
            Thread::Deliver(guest) => host.deliver(guest),
            Thread::Send(guest) => {
                if let Some(packet) = host.vifs[guest].take(host.now) {
                    host.send(packet);
                }
                let vif = &mut host.vifs[guest];
                vif.quiet &= !vif.ring.is_empty();
            }
        }
    }
}

fn came(thread: Thread, host: &Host) -> u64 {
    let first = match thread {
        Thread::Uplink => None,
        Thread::Deliver(guest) => host.vifs[guest].towards.front(),
        Thread::Send(guest) => host.vifs[guest].ring.front(),
    };
    first.map_or(0, |packet| packet.since)
}
