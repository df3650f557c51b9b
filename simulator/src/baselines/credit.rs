//! Xen's Credit scheduler.
//!
//! Modelled, after the Xen wiki ("Credit Scheduler": weights, caps, queues, stealing, 30 ms slices), Cherkasova, Gupta and
//! Vahdat ("Comparison of the three CPU schedulers in Xen", 2007), Ongaro, Cox and Rixner ("Scheduling I/O in virtual machine
//! monitors", VEE 2008: BOOST and what ends it) and Xen's change "Accurate accounting for credit scheduler" (2010):
//!
//! * Credits are processor time. Every 30 ms the time of all cores is dealt out to the active servers by weight; no server gets
//!   more than one core's time or its cap, and what one cannot take goes to the others. What runs is debited exactly.
//! * At that accounting a server with credits left (or 0) becomes UNDER, one in debt OVER. Debt is forgiven beyond 30 ms. Who
//!   has saved more than 30 ms does not compete: it keeps half and becomes inactive until that is used up.
//! * A server that wakes in UNDER becomes BOOST, until the 10 ms tick finds it running or the next accounting.
//! * Each core has a queue: BOOST before UNDER before OVER, first in, first out within each. It picks when its server blocks,
//!   has used its 30 ms slice, or is preempted by a higher one that woke in this queue. Ticks and accounting change
//!   priorities but take no core from any server.
//! * A core without BOOST or UNDER in its queue looks for one in the others', and takes any server before it idles.
//! * A capped server in debt by more than its cap of 30 ms is parked until it has no debt, even if cores idle.
//!
//! Not modelled, or otherwise:
//!
//! * Xen activates a server when a tick finds it running, so one that sleeps at every tick is never accounted for. Periods in
//!   a simulation often are multiples of 10 ms, so here it is its debt that activates: no server escapes by its phase, and a
//!   light one lives on what it saved, as in Xen, instead of taking credits from the others at every accounting.
//! * A server that wakes goes to an idle core if there is one, else to the queue of its last core. Stealing takes the first
//!   of the highest priority over all queues; Xen asks core after core.
//! * The rate limit of Xen ≥ 4.2 (no preemption within 1 ms of a switch) is off, as in the papers above: it favours Credit's
//!   latency. Debts of others do not raise what a server may get at an accounting. What is beyond 30 ms of savings is lost,
//!   not dealt out again: beside a light server of great weight, shares of hogs are a little closer than their weights.
//! * Domains of several virtual CPUs, affinity, yields, topology (SMT, sockets, NUMA), and costs of switches and migrations.

use super::{check, Error};
use crate::Scheduler;
use std::cmp::Reverse;

/// The slice, and how often credits are dealt out.
const SLICE: u64 = 30_000_000;
const TICK: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Over,
    Under,
    Boost,
}

struct Server {
    weight: u64,
    /// The most that an accounting gives.
    most: u64,
    credit: i64,
    priority: Priority,
    active: bool,
    parked: bool,
    ready: bool,
    /// Woke or was unparked since the last decision, so it may preempt.
    woken: bool,
    /// Whose queue it waits in, or where it runs.
    core: usize,
    runs: bool,
    /// Place in the queue.
    since: u64,
}

impl Server {
    fn waits(&self) -> bool {
        self.ready && !self.parked && !self.runs
    }

    fn capped(&self) -> bool {
        self.most < SLICE
    }
}

struct Processor {
    runs: Option<usize>,
    slice_end: u64,
}

/// Xen's Credit scheduler, of servers with one virtual CPU each.
pub struct Credit {
    servers: Vec<Server>,
    cores: Vec<Processor>,
    /// Servers by what they may get for their weight, least first: a server that cannot take its share leaves it to the rest.
    order: Vec<usize>,
    next_tick: u64,
    /// Number of the next to join a queue.
    next_place: u64,
}

impl Credit {
    /// All servers idle, without credits, at time 0. `caps`: of the first servers, in percent of a core; 0 (or left out, or
    /// 100 and more, as a server has one virtual CPU): none. Errors: no core or more than 64, a weight of 0 or above 2²⁰, more
    /// caps than servers.
    pub fn new(cores: u32, weights: &[u32], caps: &[u32]) -> Result<Credit, Error> {
        check(cores, weights)?;
        if caps.len() > weights.len() {
            return Err(Error::Cap { server: weights.len(), servers: weights.len() });
        }
        let server = |(index, &weight): (usize, &u32)| Server {
            weight: u64::from(weight),
            most: match caps.get(index) {
                None | Some(0) => SLICE,
                Some(&percent) => SLICE * u64::from(percent.min(100)) / 100,
            },
            credit: 0,
            priority: Priority::Under,
            active: false,
            parked: false,
            ready: false,
            woken: false,
            core: index % cores as usize,
            runs: false,
            since: 0,
        };
        let servers: Vec<Server> = weights.iter().enumerate().map(server).collect();
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&servers[a], &servers[b]);
            (a.most * b.weight).cmp(&(b.most * a.weight))
        });
        let cores = (0..cores).map(|_| Processor { runs: None, slice_end: 0 }).collect();
        Ok(Credit { servers, cores, order, next_tick: TICK, next_place: 0 })
    }

    /// Ticks and accountings that are due. While no server is active there is nothing to account for, so they are skipped.
    fn tick(&mut self, now: u64) {
        while self.next_tick <= now {
            for core in &self.cores {
                if let Some(index) = core.runs {
                    let server = &mut self.servers[index];
                    server.priority = server.priority.min(Priority::Under);
                }
            }
            if self.next_tick.is_multiple_of(SLICE) {
                self.account();
            }
            self.next_tick += TICK;
            if self.servers.iter().all(|server| !server.active) {
                self.next_tick = self.next_tick.max((now / TICK + 1) * TICK);
            }
        }
    }

    /// Deals out 30 ms of all cores.
    fn account(&mut self) {
        let mut time = self.cores.len() as u64 * SLICE;
        let mut weights: u64 = self.servers.iter().filter(|server| server.active).map(|server| server.weight).sum();
        for &index in &self.order {
            let server = &mut self.servers[index];
            if !server.active {
                continue;
            }
            let share = (time * server.weight / weights).min(server.most);
            time -= share;
            weights -= server.weight;
            server.credit += share as i64;
            if server.credit < 0 {
                server.priority = Priority::Over;
                server.parked |= server.capped() && server.credit < -(server.most as i64);
                server.credit = server.credit.max(-(SLICE as i64));
                continue;
            }
            server.priority = Priority::Under;
            if server.parked {
                server.parked = false;
                server.woken = true;
                server.since = self.next_place;
                self.next_place += 1;
            }
            if server.credit > SLICE as i64 {
                server.credit /= 2;
                server.active = false;
            }
        }
    }

    /// Takes `core` from its server, which waits behind all of its priority.
    fn vacate(&mut self, core: usize) {
        if let Some(index) = self.cores[core].runs.take() {
            let server = &mut self.servers[index];
            server.runs = false;
            server.since = self.next_place;
            self.next_place += 1;
        }
    }

    fn run(&mut self, core: usize, index: usize, now: u64) {
        self.cores[core] = Processor { runs: Some(index), slice_end: now + SLICE };
        let server = &mut self.servers[index];
        server.runs = true;
        server.woken = false;
        server.core = core;
    }

    /// The first of the highest priority among those who wait in the queue of `core`, or in any, not below `least`.
    fn first(&self, core: Option<usize>, least: Priority) -> Option<usize> {
        let waits = |&(_, server): &(usize, &Server)| {
            server.waits() && server.priority >= least && core.is_none_or(|core| core == server.core)
        };
        let all = self.servers.iter().enumerate().filter(waits);
        all.max_by_key(|(_, server)| (server.priority, Reverse(server.since))).map(|(index, _)| index)
    }

    /// Cores without a server pick. All look into their own queues first, so that none loses its next to another.
    fn fill(&mut self, now: u64) {
        for least in [Priority::Under, Priority::Over] {
            for steal in [false, true] {
                for core in 0..self.cores.len() {
                    if self.cores[core].runs.is_none() {
                        if let Some(index) = self.first((!steal).then_some(core), least) {
                            self.run(core, index, now);
                        }
                    }
                }
            }
        }
    }

    /// Those who woke take the core of a lower one. Of several, the first of the highest; the others then find it no lower.
    fn preempt(&mut self, now: u64) {
        for core in 0..self.cores.len() {
            let Some(running) = self.cores[core].runs else { continue };
            let higher = |server: &Server| {
                server.woken
                    && server.waits()
                    && server.core == core
                    && server.priority > self.servers[running].priority
            };
            if self.servers.iter().any(higher) {
                self.vacate(core);
                // The server that woke is above the running one, but others of its priority can be before it.
                let next = self.first(Some(core), Priority::Over);
                self.run(core, next.expect("who woke waits"), now);
            }
        }
        for server in &mut self.servers {
            server.woken = false;
        }
    }
}

impl Scheduler for Credit {
    fn charge(&mut self, core: u32, ran: u64, _now: u64) {
        if let Some(index) = self.cores[core as usize].runs {
            let server = &mut self.servers[index];
            server.credit -= ran as i64;
            server.active |= server.credit < 0;
        }
    }

    fn ready(&mut self, server: usize, is_ready: bool, _now: u64) {
        let server = &mut self.servers[server];
        if is_ready && !server.ready {
            if server.priority == Priority::Under && !server.parked {
                server.priority = Priority::Boost;
            }
            server.woken = true;
            server.since = self.next_place;
            self.next_place += 1;
        }
        server.ready = is_ready;
    }

    fn decide(&mut self, now: u64) -> Option<u64> {
        self.tick(now);
        for core in 0..self.cores.len() {
            if let Some(index) = self.cores[core].runs {
                let server = &self.servers[index];
                if !server.ready || server.parked || self.cores[core].slice_end <= now {
                    self.vacate(core);
                }
            }
        }
        self.fill(now);
        self.preempt(now);
        let slices = self.cores.iter().filter(|core| core.runs.is_some()).map(|core| core.slice_end);
        let ticks = self.servers.iter().any(|server| server.ready || server.active).then_some(self.next_tick);
        slices.chain(ticks).min()
    }

    fn running(&self, core: u32) -> Option<usize> {
        self.cores[core as usize].runs
    }
}
