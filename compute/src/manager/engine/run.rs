//! A manager at work, round after round: it obeys, decides, carries out, looks after its threads, and sleeps.

use super::served::{attr, give};
use super::{monotonic, Engine};
use crate::sched;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// It comes by at least as often (ns), to show that it lives and to look after its threads.
const BEAT: u64 = 100_000_000;
/// The timer is never set nearer than this (ns).
const NEAREST: u64 = 10_000;
/// Threads that are looked after at a beat.
const LOOKED_AFTER: usize = 64;

impl Engine {
    /// Works until it is ordered to stop; then lets all threads go on.
    pub(in super::super) fn run(mut self) {
        let mut go_on = true;
        while go_on {
            go_on = self.obey();
            self.drain();
            self.settle(monotonic());
            while !self.apply() {
                self.settle(monotonic());
            }
            if self.at >= self.next_beat {
                self.look_after();
            }
            self.look_for_strays();
            self.sleep();
            self.go_on();
        }
        for server in self.servers.iter_mut().flatten() {
            let _ = server.group.freeze(false);
            server.strays.let_go(&self.beats, |_| true);
            // Undoing knows those in the group; a child that was moved elsewhere would keep its priority for ever.
            server.threads.iter().for_each(|&tid| give(tid, None));
        }
        self.beats.beat(self.core, 0);
    }

    /// Sleeps until something is to be done.
    fn sleep(&mut self) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};
        let now = monotonic();
        // No server has run since it was decided: a budget ends that much later, a period does not.
        let left = self.pool.payer(0).map(|id| self.at.saturating_add_signed(self.pool.left_ns(id)));
        let until = self.until.map(|until| if left == Some(until) { until + now - self.at } else { until });
        let alone = self.alone.and_then(|slot| self.servers[slot].as_ref());
        let spent = alone.map_or(u64::MAX, |server| now.saturating_add_signed(self.pool.left_ns(server.id)));
        let wake = until.unwrap_or(u64::MAX).min(spent).min(self.next_beat).min(self.next_look(now)).max(now + NEAREST);
        let at = Timespec { tv_sec: (wake / 1_000_000_000) as i64, tv_nsec: (wake % 1_000_000_000) as i64 };
        self.beats.of(self.core).due.store(wake, SeqCst);
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
        let mut events = [rustix::event::epoll::Event {
            flags: rustix::event::epoll::EventFlags::IN,
            data: rustix::event::epoll::EventData::new_u64(0),
        }; 3];
        let _ = rustix::event::epoll::wait(&self.epoll, &mut events[..], None);
        self.wakeups += 1;
        let late = monotonic().checked_sub(wake);
        if let Some(late) = late {
            self.late = (self.late.0 + 1, self.late.1 + late, self.late.2.max(late));
        }
    }

    /// Lets go on what the guard stopped while this manager was late.
    fn go_on(&mut self) {
        let stops = self.beats.of(self.core).stops.load(SeqCst);
        if std::mem::replace(&mut self.stops, stops) == stops {
            return;
        }
        let away = monotonic().saturating_sub(self.at);
        for server in self.servers.iter_mut().flatten() {
            if server.is_ready {
                // Stopped, it looks as if it slept; but for one period in which it may have been served.
                server.periods.missed += (away / server.managed.server.period.ns().max(1)).saturating_sub(1);
            }
            if !server.frozen {
                let _ = server.group.freeze(false);
                server.threads.iter().for_each(|&tid| server.give(tid));
            }
        }
    }

    /// Lists the threads of one server after the other, and of each of which something was not told.
    fn list(&mut self) {
        let next = self.listed % self.servers.len().max(1);
        self.listed = next + 1;
        for slot in 0..self.servers.len() {
            let lost = self.watch.account(slot).lost.load(Relaxed);
            let Some(server) = &mut self.servers[slot] else { continue };
            if std::mem::replace(&mut server.lost, lost) != lost || slot == next {
                let mut threads = server.group.threads();
                threads.retain(|tid| !server.parted.contains(tid));
                self.take_in(slot, &threads);
            }
        }
    }

    /// Counts anew the threads of each server of which one runs though all are taken to be asleep: a sleep or wake-up that
    /// went untold would leave it without any limit for ever. Looks at those that have had a tenth of the core.
    fn recount(&mut self) {
        for slot in 0..self.servers.len() {
            let Some(server) = &mut self.servers[slot] else { continue };
            let now = (self.at, self.watch.account(slot).ran.load(Relaxed), server.is_ready);
            let (at, ran, was_ready) = std::mem::replace(&mut server.looked, now);
            if was_ready || server.is_ready || (now.1 - ran) * 10 < now.0 - at {
                continue;
            }
            if !server.threads.iter().take(LOOKED_AFTER).any(|&tid| sched::wants_to_run(tid)) {
                continue;
            }
            let all = server.threads.iter().copied().chain(server.group.threads());
            let all = all.filter(|tid| !server.parted.contains(tid)).collect();
            let name = server.managed.name.clone();
            match self.watch.recount(&all, slot) {
                Err(why) => self.warn(why.to_string()),
                Ok(()) if self.watch.account(slot).awake.load(Relaxed) > 0 => {
                    self.warn(format!(
                        "{name} ran though it was taken to be asleep; its threads have been counted anew"
                    ));
                }
                Ok(()) => {}
            }
        }
    }

    /// Shows that it lives, and mends what threads have done to themselves.
    fn look_after(&mut self) {
        self.next_beat = self.at + BEAT;
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.called, &mut count);
        let here = sched::here();
        if here != self.core {
            // The core has gone offline. Silence makes the watchdog restore everything.
            self.warn(format!("core {} has gone: its manager runs on core {here}", self.core));
            return;
        }
        self.beats.beat(self.core, self.at);
        self.list();
        self.recount();
        let all: Vec<(usize, u32)> = self
            .servers
            .iter()
            .enumerate()
            .flat_map(|(slot, server)| server.iter().flat_map(move |s| s.threads.iter().map(move |&tid| (slot, tid))))
            .collect();
        let from = if self.looked_at < all.len() { self.looked_at } else { 0 };
        for &(slot, tid) in all.iter().skip(from).take(LOOKED_AFTER) {
            let Some(Some(server)) = self.servers.get_mut(slot) else { continue };
            let wanted = attr(server.priority_of(tid));
            match sched::get(tid) {
                Err(why) if why.raw_os_error() == Some(libc::ESRCH) => {
                    server.threads.remove(&tid);
                    self.watch.remove(tid);
                    continue;
                }
                Ok(now) if (now.policy, now.priority) != (wanted.policy, wanted.priority) => {
                    let name = server.managed.name.clone();
                    self.warn(match sched::set(tid, &wanted) {
                        Ok(()) => format!("{name}: thread {tid} had changed its scheduling policy itself"),
                        Err(why) => format!(
                            "{name}: thread {tid} cannot get a real-time priority: {why}; is it in a cpu cgroup (v1) with \
                             cpu.rt_runtime_us 0?"
                        ),
                    });
                }
                _ => {}
            }
            if sched::affinity(tid).is_ok_and(|cores| cores != [self.core]) {
                let _ = sched::set_affinity(tid, &[self.core]);
            }
        }
        self.looked_at = from + LOOKED_AFTER;
    }
}
