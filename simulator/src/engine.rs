//! The event loop.

use crate::guest::{Guests, Job, LONGEST};
use crate::passage::Passage;
use crate::scheduler::{Core, Scheduler, Sole};
use crate::stats::Stats;
use crate::system::{Error, Stop, System, To};
use crate::trace::Observer;
use giusto_model::{Duration, Instant, JobRecord};
use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

/// Plays `system` from 0 to `horizon` under the policy core and returns the statistics of each server, in its order.
///
/// The same seed gives the same run, to the byte. O(log n) a job for n tasks and servers, times the cores; memory grows with
/// the backlog only. Errors: a server or task that makes no sense, a horizon of 0 or beyond 73 years, an observer that cannot
/// write.
pub fn simulate(
    system: &System,
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Vec<Stats>, Error> {
    match Sole::of(system) {
        Some(mut sole) => simulate_with(&mut sole, system, horizon, seed, observer),
        None => simulate_with(&mut Core::new(system)?, system, horizon, seed, observer),
    }
}

/// As [`simulate`], under a scheduler of the caller's, which has as many servers as `system` has virtual CPUs. Reservations,
/// order and tick of `system` are the scheduler's matter then.
pub fn simulate_with<S: Scheduler>(
    scheduler: &mut S,
    system: &System,
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Vec<Stats>, Error> {
    let horizon = horizon.ns();
    if horizon == 0 || horizon > LONGEST {
        return Err(Error::Horizon);
    }
    let mut play = Play::new(scheduler, system, seed)?;
    let (mut now, mut until) = (0, 0);
    let shows_budgets = observer.shows_budgets();
    loop {
        // What happens at one instant: releases and changes, then readiness, then the decision.
        play.release(now, observer)?;
        let changed = play.change(now)?;
        play.stop(now);
        if play.wake(now) || changed || now >= until {
            until = play.scheduler.decide(now).unwrap_or(u64::MAX);
            play.dispatch(system.switch.ns());
            if shows_budgets {
                play.show_budgets(now, observer)?;
            }
        }
        if now >= horizon {
            break;
        }
        let next = play.next(now, until.min(horizon));
        play.advance(now, next, observer)?;
        now = next;
    }
    for (stats, guests) in play.stats.iter_mut().zip(&play.guests) {
        stats.unfinished = guests.as_ref().map_or(0, Guests::pending);
    }
    Ok(play.stats)
}

/// A core in play.
#[derive(Clone, Default)]
struct Busy {
    /// The virtual CPU on it.
    vcpu: Option<usize>,
    /// The job that it runs, where several virtual CPUs share a queue.
    job: Option<Job>,
    /// What is left of switching to it.
    switching: u64,
}

struct Play<'a, S> {
    scheduler: &'a mut S,
    system: &'a System,
    /// By server of the system.
    guests: Vec<Option<Guests>>,
    stats: Vec<Stats>,
    first_vcpu: Vec<usize>,
    /// By virtual CPU.
    server_of: Vec<usize>,
    ready: Vec<bool>,
    cores: Vec<Busy>,
    /// The next job of every task: when, of which server, of which task.
    releases: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Servers whose number of jobs has changed.
    touched: Vec<usize>,
    /// Changes made, and when the next is due.
    changes: usize,
    next_change: u64,
    /// By server: several virtual CPUs share its queue.
    shared: Vec<bool>,
    /// By server and task, where a job that ends sends a message, and how long that takes; empty without any.
    hops: Vec<Vec<Vec<(To, u64)>>>,
    /// What else messages go through.
    passages: Vec<Passage>,
    /// When servers stop and go on, the last first; by server, whether it is stopped.
    stops: Vec<(u64, usize, Stopped)>,
    stopped: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stopped {
    GoesOn,
    Stops { lost: bool },
}

/// The task of a message that comes from outside to a place between servers.
const FROM_OUTSIDE: u32 = u32::MAX;

impl<'a, S: Scheduler> Play<'a, S> {
    fn new(scheduler: &'a mut S, system: &'a System, seed: u64) -> Result<Self, Error> {
        let mut play = Play {
            scheduler,
            system,
            guests: Vec::new(),
            stats: vec![Stats::new(); system.servers.len()],
            first_vcpu: Vec::new(),
            server_of: Vec::new(),
            ready: Vec::new(),
            cores: vec![Busy::default(); system.cores as usize],
            releases: BinaryHeap::new(),
            touched: Vec::new(),
            changes: 0,
            next_change: 0,
            shared: system.servers.iter().map(|spec| spec.vcpus > 1).collect(),
            hops: Vec::new(),
            passages: Vec::new(),
            stops: Vec::new(),
            stopped: vec![false; system.servers.len()],
        };
        for (index, spec) in system.servers.iter().enumerate() {
            let guests = spec.workload.as_ref().map(|workload| Guests::new(workload, index, seed)).transpose()?;
            play.first_vcpu.push(play.ready.len());
            for _ in 0..spec.vcpus {
                if guests.is_none() {
                    play.scheduler.ready(play.ready.len(), true, 0);
                }
                play.server_of.push(index);
                play.ready.push(guests.is_none());
            }
            if let Some(guests) = &guests {
                play.releases.extend(guests.first_releases().map(|(at, task)| Reverse((at, index as u32, task))));
            }
            play.guests.push(guests);
        }
        play.messages(seed)?;
        Ok(play)
    }

    fn messages(&mut self, seed: u64) -> Result<(), Error> {
        let messages = &self.system.messages;
        let known = |to: &To| {
            let mut all = vec![(*to, messages.between.len())];
            while let Some((To { server, task }, places)) = all.pop() {
                match (self.guests.get(server), messages.between.get(server.wrapping_sub(self.guests.len()))) {
                    (Some(Some(guests)), _) if guests.waits(task) => {}
                    // As many places one after the other as there are, at most.
                    (None, Some(place)) if places > 0 && (place.waits == 0 || task < place.waits) => {
                        all.extend(place.going_on(task).map(|(next, _)| (next, places - 1)));
                    }
                    _ => return Err(Error::Message { index: server, task }),
                }
            }
            Ok(())
        };
        messages
            .arrivals
            .iter()
            .map(|(_, to)| to)
            .chain(messages.hops.iter().map(|(_, to, _)| to))
            .try_for_each(known)?;
        let arrivals = messages.arrivals.iter().filter(|(at, _)| at.ns() <= LONGEST);
        self.releases.extend(arrivals.map(|(at, to)| Reverse((at.ns(), to.server as u32, to.task))));
        for (nth, place) in messages.between.iter().enumerate() {
            let server = self.guests.len() + nth;
            if let Some((_, task)) = place.others {
                known(&To { server, task })?;
            }
            let stops: Vec<Stop> = messages.stops.iter().filter(|stop| stop.server == server).copied().collect();
            let mut passage = Passage::new(place, &stops, seed, u64::MAX - 1 - nth as u64);
            self.releases.extend(passage.next(0).map(|at| Reverse((at, server as u32, FROM_OUTSIDE))));
            self.passages.push(passage);
        }
        for stop in messages.stops.iter().filter(|stop| stop.server < self.guests.len()) {
            self.stops.push((stop.from.ns(), stop.server, Stopped::Stops { lost: stop.lost }));
            self.stops.push((stop.until.ns(), stop.server, Stopped::GoesOn));
        }
        self.stops.sort_unstable_by(|a, b| b.cmp(a));
        for (from, to, takes) in &messages.hops {
            self.hops.resize(self.guests.len(), Vec::new());
            let Some(tasks) = self.hops.get_mut(from.server) else {
                return Err(Error::Message { index: from.server, task: from.task });
            };
            tasks.resize(tasks.len().max(from.task as usize + 1), Vec::new());
            tasks[from.task as usize].push((*to, takes.ns().min(LONGEST)));
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, now: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        while let Some(&Reverse((at, server, task))) = self.releases.peek() {
            if at > now {
                break;
            }
            let Some(guests) = self.guests.get_mut(server as usize) else {
                self.releases.pop();
                self.pass(server as usize - self.guests.len(), task, at, observer);
                continue;
            };
            let Some(guests) = guests else { break };
            observer.release(server as usize, task, at)?;
            let mut first = self.releases.peek_mut();
            match (guests.release(task, at), &mut first) {
                (Some(next), Some(first)) => **first = Reverse((next, server, task)),
                _ => drop(first.map(PeekMut::pop)),
            }
            self.touched.push(server as usize);
        }
        Ok(())
    }

    /// A message as of `task` comes to a place between servers.
    fn pass(&mut self, nth: usize, task: u32, at: u64, observer: &mut dyn Observer) {
        let passage = &mut self.passages[nth];
        if task == FROM_OUTSIDE {
            let server = (self.guests.len() + nth) as u32;
            self.releases.extend(passage.next(at).map(|next| Reverse((next, server, FROM_OUTSIDE))));
        }
        let place = &self.system.messages.between[nth];
        let task = place.others.filter(|_| task == FROM_OUTSIDE).map_or(task, |(_, task)| task);
        if !passage.is_whole(task) {
            return;
        }
        let through = passage.pass(at, &mut |waypoint, took| observer.passed(nth, task, waypoint, took));
        for (to, takes) in place.going_on(task) {
            let at = through.saturating_add(takes.ns()).min(LONGEST);
            self.releases.push(Reverse((at, to.server as u32, to.task)));
        }
        if place.to.is_empty() {
            observer.left(nth, if place.waits > 0 { 0 } else { task }, through.min(LONGEST));
        }
    }

    /// Of the first virtual CPU of each server.
    fn show_budgets(&self, now: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        for (server, &vcpu) in self.first_vcpu.iter().enumerate() {
            self.scheduler.left(vcpu).map_or(Ok(()), |left| observer.budget(server, now, left))?;
        }
        Ok(())
    }

    fn change(&mut self, now: u64) -> Result<bool, Error> {
        if now < self.next_change {
            return Ok(false);
        }
        let before = self.changes;
        while let Some((_, change)) = self.system.changes.get(self.changes).filter(|(at, _)| at.ns() <= now) {
            self.scheduler.change(change, now)?;
            self.changes += 1;
        }
        self.next_change = self.system.changes.get(self.changes).map_or(u64::MAX, |(at, _)| at.ns());
        Ok(self.changes > before)
    }

    /// Servers that stop now, or go on.
    fn stop(&mut self, now: u64) {
        while let Some((_, server, stopped)) = self.stops.pop_if(|(at, ..)| *at <= now) {
            self.stopped[server] = stopped != Stopped::GoesOn;
            if let (Stopped::Stops { lost: true }, Some(guests)) = (stopped, &mut self.guests[server]) {
                guests.again();
            }
            self.touched.push(server);
        }
    }

    /// Tells the scheduler which virtual CPUs became ready or idle; whether any did.
    fn wake(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(server) = self.touched.pop() {
            let Some(guests) = &self.guests[server] else { continue };
            let (jobs, first) = (guests.active(), self.first_vcpu[server]);
            for nth in 0..self.system.servers[server].vcpus as usize {
                let ready = jobs > nth as u64 && !self.stopped[server];
                if self.ready[first + nth] != ready {
                    self.ready[first + nth] = ready;
                    self.scheduler.ready(first + nth, ready, now);
                    any = true;
                }
            }
        }
        any
    }

    fn dispatch(&mut self, switch: u64) {
        for (core, busy) in (0..).zip(&mut self.cores) {
            let vcpu = self.scheduler.running(core);
            if vcpu != busy.vcpu {
                *busy = Busy { vcpu, job: None, switching: if vcpu.is_some() { switch } else { 0 } };
            }
        }
    }

    /// When something happens next, at `limit` at the latest. Virtual CPUs that share a queue get their jobs here.
    fn next(&mut self, now: u64, limit: u64) -> u64 {
        let release = self.releases.peek().map_or(limit, |Reverse((at, ..))| *at);
        let stop = self.stops.last().map_or(limit, |(at, ..)| *at);
        let mut next = limit.min(release).min(self.next_change).min(stop);
        for busy in &mut self.cores {
            let Some(server) = busy.vcpu.map(|vcpu| self.server_of[vcpu]) else { continue };
            let Some(guests) = &mut self.guests[server] else { continue };
            if self.shared[server] {
                busy.job = guests.take();
            }
            let left = busy.job.as_ref().or(guests.current()).map(|job| job.left);
            next = next.min(left.map_or(limit, |left| now + busy.switching + left));
        }
        next.max(now)
    }

    /// Plays from `now` to `next`, in which nothing else happens.
    fn advance(&mut self, now: u64, next: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        let ran = next - now;
        for (core, busy) in (0..).zip(&mut self.cores) {
            let Some(server) = busy.vcpu.map(|vcpu| self.server_of[vcpu]) else {
                if ran > 0 {
                    observer.idle(core, now, next)?;
                }
                continue;
            };
            self.scheduler.charge(core, ran, next);
            let overhead = busy.switching.min(ran);
            busy.switching -= overhead;
            let stats = &mut self.stats[server];
            stats.consumed = stats.consumed.checked_add(Duration::from_ns(ran)).ok_or(Error::Horizon)?;
            let Some(guests) = &mut self.guests[server] else {
                observer.slice(server, None, now, next)?;
                continue;
            };
            let shared = busy.job.take();
            if ran > 0 {
                let job = shared.as_ref().or(guests.current()).map(|job| (job.task, job.number));
                observer.slice(server, job, now, next)?;
            }
            let done = match shared {
                None => guests.run(ran - overhead),
                Some(job) if job.left == ran - overhead => Some(job),
                Some(job) => {
                    guests.put(Job { left: job.left - (ran - overhead), ..job });
                    None
                }
            };
            if let Some(done) = done {
                stats.add(next - done.release);
                let release = Instant::from_ns(done.release);
                let finish = Some(Instant::from_ns(next));
                observer
                    .job(server, &JobRecord { task: done.task, job: done.number, due: release, release, finish })?;
                self.touched.push(server);
                if let Some(at) = guests.finished(done.task, next) {
                    self.releases.push(Reverse((at, server as u32, done.task)));
                }
                for (to, takes) in
                    self.hops.get(server).and_then(|own| own.get(done.task as usize)).into_iter().flatten()
                {
                    self.releases.push(Reverse((next + takes, to.server as u32, to.task)));
                }
            }
        }
        Ok(())
    }
}
