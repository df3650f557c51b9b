//! The manager of one core: its thread, which carries the policy core's decisions out.
//!
//! It sleeps until a budget or a period ends, or the watch tells of something urgent. Then it charges what was consumed,
//! in the order in which things happened, asks the policy core, and gives each server's threads the real-time priority of
//! its place, or parks them. It runs above all servers of its core and on that core: while it looks, nothing it looks at
//! moves.

mod decide;
mod orders;
mod served;
mod strays;

use super::beat::Beats;
use super::watch::Watch;
use super::{ModeReport, Report, ServerReport};
use crate::sched;
use crate::Error;
use giusto_policy::{Back, Order, Pool};
pub(super) use orders::Command;
use served::{attr, give, Served};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::Receiver;
use std::sync::Arc;

/// The manager's real-time priority; servers have lower ones.
pub(super) const PRIORITY: u32 = 90;
/// It comes by at least as often (ns), to show that it lives and to look after its threads.
const BEAT: u64 = 100_000_000;
/// The timer is never set nearer than this (ns).
const NEAREST: u64 = 10_000;
/// So many periods of its own a server that needed its worst budget is hot [Asy20, section 3.3]. With one, a server that needs it
/// in every period would see LO between asking late in one and late in the next.
const COOLING: u32 = 3;
/// Threads that are looked after at a beat.
const LOOKED_AFTER: usize = 64;

/// How long the core has been in HI, and how often it went there.
#[derive(Default)]
struct Mode {
    /// It is since then.
    since: Option<u64>,
    hi_ns: u64,
    switches: u64,
}

pub(super) struct Engine {
    core: u32,
    order: Order,
    pool: Pool,
    watch: Watch,
    servers: Vec<Option<Served>>,
    commands: Receiver<Command>,
    /// Told when a command has been sent.
    called: OwnedFd,
    timer: OwnedFd,
    epoll: OwnedFd,
    beats: Beats,
    /// Something has moved since this was taken last.
    astray: Arc<AtomicBool>,
    /// The time up to which the policy core has been told everything (CLOCK_MONOTONIC, ns).
    at: u64,
    until: Option<u64>,
    boosts: u64,
    /// From when on the bandwidth of servers that were removed is free.
    freed: BTreeMap<(String, Option<u32>), u64>,
    mode: Mode,
    /// The server of which nothing is urgent; see [`Engine::alone_in_hi`].
    alone: Option<usize>,
    next_beat: u64,
    looked_at: usize,
    /// The server whose threads are listed next.
    listed: usize,
    /// How often its servers had been stopped by the guard when it came by last.
    stops: u64,
    /// When it was ready to manage, and the processor time that loading the watch had taken by then.
    started: (u64, u64),
    wakeups: u64,
    late: (u64, u64, u64),
    warnings: Vec<String>,
}

pub(super) fn monotonic() -> u64 {
    clock(rustix::time::ClockId::Monotonic)
}

/// Processor time of this thread.
fn own_ns() -> u64 {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

fn clock(id: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(id);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Engine {
    pub(super) fn new(
        core: u32,
        order: Order,
        (commands, called): (Receiver<Command>, OwnedFd),
        beats: Beats,
        astray: Arc<AtomicBool>,
    ) -> Result<Engine, Error> {
        use rustix::event::epoll;
        let kernel =
            |why: rustix::io::Errno| Error::Kernel { doing: "set up the manager".into(), why: why.to_string() };
        let watch = Watch::new(core)?;
        let timer = rustix::time::timerfd_create(
            rustix::time::TimerfdClockId::Monotonic,
            rustix::time::TimerfdFlags::NONBLOCK | rustix::time::TimerfdFlags::CLOEXEC,
        )
        .map_err(kernel)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(kernel)?;
        // Edge-triggered: what is not urgent waits in the buffer until the manager comes by anyway.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for fd in [watch.fd(), timer.as_raw_fd(), called.as_raw_fd()] {
            // SAFETY: the descriptors live as long as the epoll set does.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), flags).map_err(kernel)?;
        }
        let at = monotonic();
        let mut pool = Pool::new(order);
        pool.cooling(COOLING, Back::Idle);
        Ok(Engine {
            core,
            order,
            pool,
            watch,
            servers: Vec::new(),
            commands,
            called,
            timer,
            epoll,
            beats,
            astray,
            at,
            until: None,
            boosts: 0,
            freed: BTreeMap::new(),
            mode: Mode::default(),
            alone: None,
            next_beat: at,
            looked_at: 0,
            listed: 0,
            stops: 0,
            started: (at, own_ns()),
            wakeups: 0,
            late: (0, 0, 0),
            warnings: Vec::new(),
        })
    }

    /// Works until told to stop; then lets everybody go on.
    pub(super) fn run(mut self) {
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
            server.strays.let_go();
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
                let threads = server.group.threads();
                self.take_in(slot, &threads);
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

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) && self.warnings.len() < 100 {
            self.warnings.push(text);
        }
    }

    fn report(&mut self) -> Report {
        let servers = self.servers.iter_mut().enumerate().filter_map(|(slot, server)| {
            let server = server.as_mut()?;
            let account = self.watch.account(slot);
            Some(ServerReport {
                server: slot,
                name: server.managed.name.clone(),
                reservation: server.managed.server,
                threads: server.threads.iter().copied().collect(),
                supplied_ns: account.ran.load(Relaxed).saturating_sub(server.base),
                left_ns: self.pool.left_ns(server.id),
                boost_ns: self.pool.boost_ns(server.id),
                is_ready: server.is_ready,
                is_throttled: server.priority.is_none(),
                throttled: server.throttled,
                overrun_max_ns: server.overrun_max,
                late_stops: server.late_stops,
                replenished: server.periods.replenished,
                missed: server.periods.missed,
                lost: account.lost.load(Relaxed),
                moved: std::mem::take(&mut server.strays.moved).into_iter().collect(),
            })
        });
        let late = std::mem::take(&mut self.late);
        Report {
            core: self.core,
            core_mode: (self.order == Order::MixedCriticality).then(|| ModeReport {
                is_hi: self.mode.since.is_some(),
                hi_ns: self.mode.hi_ns + self.mode.since.map_or(0, |since| self.at - since),
                switches: self.mode.switches,
            }),
            servers: servers.collect(),
            for_ns: self.at - self.started.0,
            own_ns: own_ns() - self.started.1,
            wakeups: self.wakeups,
            late_mean_ns: late.1 / late.0.max(1),
            late_max_ns: late.2,
            guarded: self.stops / 2,
            tells_moves: self.watch.tells_moves,
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}
