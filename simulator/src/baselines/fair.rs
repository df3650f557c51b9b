//! A fair scheduler like Linux's since 6.6 (EEVDF; before, CFS).
//!
//! Modelled, after Stoica and Abdel-Wahab ("Earliest eligible virtual deadline first", 1995) and the kernel's documentation
//! (`sched-eevdf.rst`, `sched-design-CFS.rst`) and announcement ("sched/fair: Implement an EEVDF-like scheduling policy"):
//!
//! * Each core has a queue. A server's virtual time grows by what it ran, divided by its weight (Linux: 1,024 for nice 0). The
//!   queue's virtual time is the mean of its ready servers' by weight; lag is the distance to it. Who is not ahead is eligible.
//! * A request is one base slice; its virtual deadline is its start plus slice / weight. Of the eligible, the one with the
//!   earliest deadline runs until its request is used up or it sleeps.
//! * One that wakes preempts at once if it is now the earliest eligible, else it waits for the end of that request.
//! * Sleep gives no unbounded credit: what a server is owed when it goes to sleep stays, but at most one slice. What it owes
//!   (being ahead) wears off as the virtual time of its queue goes on, and then counts no more.
//! * A server wakes on its last core, or on an idle one if that is busy. A core that goes idle pulls the earliest waiting server
//!   of the fullest queue; lag and remaining deadline move with it.
//!
//! Not modelled, or otherwise:
//!
//! * The tick: requests end exactly, not at the next tick (up to 4 ms later at HZ = 250). RUN_TO_PARITY (no preemption by
//!   those who wake until the running one has had its fair part) is off. Both favour the latency of the fair scheduler.
//! * Periodic load balancing: three hogs stay on two cores as two and one. Shares hold per core.
//! * Deferred dequeue keeps an ahead sleeper's weight in the mean; here only its debt lives on. Lag is not scaled up at a
//!   wake-up for the shift of the mean that the sleeper itself causes.
//! * Own slices per server, groups, `cpu.max`, utilisation clamps, topology, and costs of switches and migrations.

use super::{check, Error};
use crate::Scheduler;

/// The base slice of machines with eight and more cores.
const BASE_SLICE: u64 = 3_000_000;
/// Fraction bits of virtual time. In i128, 73 years at weight 1, times all weights, stay below 2¹¹³.
const FRACTION: u32 = 20;

struct Server {
    weight: i128,
    /// Virtual time, and that at which its request is used up.
    at: i128,
    deadline: i128,
    ready: bool,
    /// Woke since the last decision, so it may preempt.
    woken: bool,
    /// Whose queue it is in, or was when it went to sleep.
    core: usize,
    /// How far behind it was when it went to sleep, and the virtual time of the queue it left.
    lag: i128,
    slept: i128,
}

struct Processor {
    runs: Option<usize>,
    /// Virtual time of the queue when a server was last in it.
    at: i128,
}

/// A fair scheduler like Linux's, of servers with one virtual CPU each.
pub struct Fair {
    servers: Vec<Server>,
    cores: Vec<Processor>,
    slice: u64,
}

/// `ns` of processor time as virtual time.
fn virtual_time(ns: u64, weight: i128) -> i128 {
    (i128::from(ns) << FRACTION) / weight
}

impl Fair {
    /// All servers idle, at time 0, with the base slice of 3 ms. Errors: no core or more than 64, a weight of 0 or above 2²⁰.
    pub fn new(cores: u32, weights: &[u32]) -> Result<Fair, Error> {
        Fair::with_slice(cores, weights, BASE_SLICE)
    }

    /// As `new`, with another base slice (ns). Error besides: no slice, or one above 1 s.
    pub fn with_slice(cores: u32, weights: &[u32], slice: u64) -> Result<Fair, Error> {
        check(cores, weights)?;
        if !(1..=1_000_000_000).contains(&slice) {
            return Err(Error::Slice(slice));
        }
        let server = |(index, &weight): (usize, &u32)| Server {
            weight: i128::from(weight),
            at: 0,
            deadline: 0,
            ready: false,
            woken: false,
            core: index % cores as usize,
            slept: 0,
            lag: 0,
        };
        let servers = weights.iter().enumerate().map(server).collect();
        let cores = (0..cores).map(|_| Processor { runs: None, at: 0 }).collect();
        Ok(Fair { servers, cores, slice })
    }

    fn queue(&self, core: usize) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(move |server| server.ready && server.core == core)
    }

    /// The servers of the queue that do not run.
    fn waiting(&self, core: usize) -> impl Iterator<Item = (usize, &Server)> {
        let waits = move |&(index, server): &(usize, &Server)| {
            server.ready && server.core == core && self.cores[core].runs != Some(index)
        };
        self.servers.iter().enumerate().filter(waits)
    }

    /// Brings the queue's virtual time up to date and returns it.
    fn mean(&mut self, core: usize) -> i128 {
        let (mut sum, mut weights) = (0, 0);
        for server in self.queue(core) {
            sum += server.weight * server.at;
            weights += server.weight;
        }
        if weights > 0 {
            self.cores[core].at = sum.div_euclid(weights);
        }
        self.cores[core].at
    }

    /// The eligible server of the queue with the earliest deadline. The rounded-down mean is exact enough: the server that
    /// is farthest behind is never above it.
    fn earliest(&mut self, core: usize) -> Option<usize> {
        let mean = self.mean(core);
        let all = self.servers.iter().enumerate();
        let eligible = all.filter(|(_, server)| server.ready && server.core == core && server.at <= mean);
        eligible.min_by_key(|(_, server)| server.deadline).map(|(index, _)| index)
    }

    /// Puts a server at `lag` behind the queue's virtual time, with `left` of its request to go.
    fn place(&mut self, index: usize, core: usize, lag: i128, left: i128) {
        let at = self.mean(core) - lag;
        let server = &mut self.servers[index];
        (server.at, server.deadline, server.core) = (at, at + left, core);
    }

    fn wake(&mut self, index: usize) {
        let server = &self.servers[index];
        let (home, slept, lag) = (server.core, server.slept, server.lag);
        let request = virtual_time(self.slice, server.weight);
        // What it owes wears off where it slept.
        let lag = if lag < 0 { (lag + self.mean(home) - slept).clamp(lag, 0) } else { lag };
        let idle = |&core: &usize| self.queue(core).next().is_none();
        let core = std::iter::once(home).chain(0..self.cores.len()).find(idle).unwrap_or(home);
        self.place(index, core, lag, request);
        self.servers[index].ready = true;
        self.servers[index].woken = true;
    }

    fn sleep(&mut self, index: usize) {
        let core = self.servers[index].core;
        let mean = self.mean(core);
        let server = &mut self.servers[index];
        let request = virtual_time(self.slice, server.weight);
        server.lag = (mean - server.at).clamp(-request, request);
        server.ready = false;
        server.woken = false;
        self.cores[core].runs.take_if(|runs| *runs == index);
        // Without it the mean is another; what it owes wears off from there.
        self.servers[index].slept = self.mean(core);
    }

    /// Pulls a server to an idle core from the queue where most wait.
    fn pull(&mut self, core: usize) {
        let most = (0..self.cores.len()).rev().max_by_key(|&other| self.waiting(other).count());
        let Some(from) = most else { return };
        let Some((index, _)) = self.waiting(from).min_by_key(|(_, server)| server.deadline) else { return };
        let lag = self.mean(from) - self.servers[index].at;
        let left = self.servers[index].deadline - self.servers[index].at;
        self.place(index, core, lag, left);
        self.cores[core].runs = Some(index);
    }
}

impl Scheduler for Fair {
    fn charge(&mut self, core: u32, ran: u64, _now: u64) {
        if let Some(index) = self.cores[core as usize].runs {
            let server = &mut self.servers[index];
            server.at += virtual_time(ran, server.weight);
        }
    }

    fn ready(&mut self, server: usize, is_ready: bool, _now: u64) {
        match (self.servers[server].ready, is_ready) {
            (false, true) => self.wake(server),
            (true, false) => self.sleep(server),
            _ => {}
        }
    }

    fn decide(&mut self, now: u64) -> Option<u64> {
        for core in 0..self.cores.len() {
            // A used-up request makes room for the next, with a new deadline.
            if let Some(index) = self.cores[core].runs {
                let server = &mut self.servers[index];
                let over = server.at - server.deadline;
                if over >= 0 {
                    // Alone it may have used up several since the last decision.
                    let request = virtual_time(self.slice, server.weight);
                    server.deadline += (over / request + 1) * request;
                    self.cores[core].runs = None;
                }
            }
            let next = self.earliest(core);
            if self.cores[core].runs.is_none() || next.is_some_and(|index| self.servers[index].woken) {
                self.cores[core].runs = next;
            }
        }
        for core in 0..self.cores.len() {
            if self.cores[core].runs.is_none() {
                self.pull(core);
            }
        }
        for server in &mut self.servers {
            server.woken = false;
        }
        // A core on which no other server waits needs no decision.
        let ends = (0..self.cores.len()).filter_map(|core| {
            let server = &self.servers[self.cores[core].runs?];
            self.waiting(core).next()?;
            let left = (server.deadline - server.at) * server.weight;
            Some(now + (((left - 1) >> FRACTION) as u64 + 1))
        });
        ends.min()
    }

    fn running(&self, core: u32) -> Option<usize> {
        self.cores[core as usize].runs
    }
}
