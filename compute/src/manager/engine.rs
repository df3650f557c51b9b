//! The manager of one core: its thread, which carries the policy core's decisions out.
//!
//! It sleeps until a budget or a period ends, or the watch tells of something urgent. Then it charges what was consumed,
//! in the order in which things happened, asks the policy core, and gives each server's threads the real-time priority of
//! its place, or parks them. It runs above all servers of its core and on that core: while it looks, nothing it looks at
//! moves.

use super::beat::Beats;
use super::group::Group;
use super::ranks::{class, may_run, priorities, Standing};
use super::watch::{self, Event, Watch, What};
use super::{Managed, ModeReport, Report, ServerReport};
use crate::sched::{self, Attr};
use crate::Error;
use giusto_model::{Cap, Criticality, Server, ServerKind};
use giusto_policy::{Back, CoreMode, Id, Mixed, Order, Params, Pool, When};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, SyncSender};

/// The manager's real-time priority; servers have those below [`HIGHEST`].
pub(super) const PRIORITY: u32 = 90;
/// The priority of the highest server.
const HIGHEST: u32 = 80;
/// It comes by at least as often (ns), to show that it lives and to look after its threads.
const BEAT: u64 = 100_000_000;
/// A budget's rest below this (ns) counts as consumed, and is given back with the next consumption: a timer for it would cost
/// more than it is worth, and many of them in a row made a storm.
const CRUMB: u64 = 20_000;
/// The timer is never set nearer than this (ns).
const NEAREST: u64 = 10_000;
/// So many periods of its own a server that needed its worst budget is hot (paper 003, section 3.3). With one, a server that needs it
/// in every period would see LO between asking late in one and late in the next.
const COOLING: u32 = 3;
/// Threads that are looked after at a beat.
const LOOKED_AFTER: usize = 64;

/// What the manager is asked to do; the answer goes to the sender.
pub(super) enum Command {
    Add {
        wanted: Box<(Managed, Group)>,
        threads: Vec<u32>,
        answer: SyncSender<Result<usize, Error>>,
    },
    TakeIn {
        server: usize,
        threads: Vec<u32>,
    },
    Prefer {
        server: usize,
        thread: u32,
    },
    /// Answers from when on it is in force.
    Set {
        server: usize,
        wanted: Server,
        criticality: Option<Criticality>,
        when: When,
        answer: SyncSender<Result<u64, Error>>,
    },
    Boost {
        server: usize,
        until: u64,
    },
    /// Answers with its next replenishment.
    Look {
        server: usize,
        answer: SyncSender<Result<u64, Error>>,
    },
    Remove {
        server: usize,
        answer: SyncSender<()>,
    },
    Report {
        answer: SyncSender<Report>,
    },
    Stop,
}

/// A server of this core.
struct Served {
    id: Id,
    managed: Managed,
    group: Group,
    threads: BTreeSet<u32>,
    /// Its threads' priority; `None`: parked.
    priority: Option<u32>,
    frozen: bool,
    /// The thread that was first when it was let go on the last time.
    first: u32,
    /// The thread that runs before its others.
    preferred: Option<u32>,
    is_ready: bool,
    /// Its place among the boosted, and until when.
    boost: Option<(u64, u64)>,
    /// What its place among the accounts had counted before it.
    base: u64,
    /// What of its consumption the policy core knows, in ns; ahead of the truth by a crumb at most.
    charged: i64,
    throttled: u64,
    overrun_max: u64,
}

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
    /// The time up to which the policy core has been told everything (CLOCK_MONOTONIC, ns).
    at: u64,
    until: Option<u64>,
    boosts: u64,
    mode: Mode,
    /// The server of which nothing is urgent; see [`Engine::alone_in_hi`].
    alone: Option<usize>,
    next_beat: u64,
    looked_at: usize,
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
        commands: Receiver<Command>,
        called: OwnedFd,
        beats: Beats,
    ) -> Result<Engine, Error> {
        use rustix::event::epoll;
        let kernel =
            |why: rustix::io::Errno| Error::Kernel { doing: "set up the manager".into(), why: why.to_string() };
        let watch = Watch::new()?;
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
            at,
            until: None,
            boosts: 0,
            mode: Mode::default(),
            alone: None,
            next_beat: at,
            looked_at: 0,
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
            self.sleep();
        }
        for server in self.servers.iter().flatten() {
            let _ = server.group.freeze(false);
            // Undoing knows those in the group; a child that was moved elsewhere would keep its priority for ever.
            server.threads.iter().for_each(|&tid| give(tid, None));
        }
        self.beats.beat(self.core, 0);
    }

    /// Carries commands out; `false`: stop.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.drain();
            self.settle(monotonic());
            match command {
                Command::Add { wanted, threads, answer } => _ = answer.send(self.add(wanted.0, wanted.1, threads)),
                Command::TakeIn { server, threads } => self.take_in(server, &threads),
                Command::Prefer { server, thread } => self.prefer(server, thread),
                Command::Set { server, wanted, criticality, when, answer } => {
                    _ = answer.send(self.set(server, wanted, criticality, when));
                }
                Command::Look { server, answer } => {
                    _ = answer.send(self.server(server).map(|one| one.id).map(|id| self.pool.deadline_ns(id)));
                }
                Command::Boost { server, until } => {
                    if let Err(why) = self.boost(server, until) {
                        self.warnings.push(format!("a boost is refused: {why}"));
                    }
                }
                Command::Remove { server, answer } => {
                    self.remove(server);
                    let _ = answer.send(());
                }
                Command::Report { answer } => _ = answer.send(self.report()),
                Command::Stop => return false,
            }
        }
        true
    }

    fn add(&mut self, managed: Managed, group: Group, threads: Vec<u32>) -> Result<usize, Error> {
        let server = managed.server;
        // Grids of equal periods coincide.
        let period = server.period.ns().max(1);
        let first = match server.kind {
            ServerKind::ConstantBandwidth | ServerKind::Sporadic | ServerKind::Unlimited => 0,
            _ => managed.first.unwrap_or((self.at / period + 1) * period),
        };
        let slot = self.servers.iter().position(Option::is_none).unwrap_or(self.servers.len());
        if slot >= watch::SERVERS {
            let why = format!("a core has at most {} servers; use another core", watch::SERVERS);
            return Err(Error::Kernel { doing: format!("manage {}", managed.name), why });
        }
        let params =
            Params { budget: server.budget.ns(), period: server.period.ns(), first, priority: managed.priority };
        let id = match (managed.criticality, policy_kind(server.kind)) {
            (Some(criticality), _) => self.pool.add_mixed(mixed(server, criticality), self.at),
            (None, Some(kind)) => self.pool.add(kind, params, self.at),
            (None, None) => return Err(Error::Kind(server.kind)),
        };
        let id = id.map_err(|why| refused(&managed.name, &why))?;
        let base = self.watch.account(slot).ran.load(Relaxed);
        let served = Served {
            id,
            managed,
            group,
            threads: BTreeSet::new(),
            priority: None,
            frozen: false,
            first: 0,
            preferred: None,
            is_ready: false,
            boost: None,
            base,
            charged: base as i64,
            throttled: 0,
            overrun_max: 0,
        };
        if slot == self.servers.len() {
            self.servers.push(None);
        }
        self.servers[slot] = Some(served);
        self.take_in(slot, &threads);
        Ok(slot)
    }

    fn take_in(&mut self, slot: usize, threads: &[u32]) {
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        for &tid in threads {
            if server.threads.contains(&tid) {
                continue;
            }
            if let Err(why) = self.watch.add(tid, slot) {
                self.warnings.push(why.to_string());
                continue;
            }
            server.threads.insert(tid);
            server.give(tid);
        }
    }

    fn prefer(&mut self, slot: usize, thread: u32) {
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        let before = server.preferred.replace(thread);
        before.into_iter().chain([thread]).filter(|tid| server.threads.contains(tid)).for_each(|tid| server.give(tid));
    }

    fn set(&mut self, slot: usize, wanted: Server, criticality: Option<Criticality>, when: When) -> Result<u64, Error> {
        let server = self.server(slot)?;
        let (id, name, priority) = (server.id, server.managed.name.clone(), server.managed.priority);
        let (budget, period) = (wanted.budget.ns(), wanted.period.ns());
        let set = match criticality {
            Some(criticality) => self.pool.set_mixed(id, mixed(wanted, criticality), when, self.at),
            None => self.pool.set(id, budget, period, priority, when, self.at),
        };
        set.map_err(|why| refused(&name, &why))?;
        let managed = &mut self.server(slot)?.managed;
        (managed.server, managed.criticality) = (wanted, criticality);
        Ok(match when {
            When::Now => self.at,
            When::NextPeriod => self.pool.deadline_ns(id).max(self.at),
        })
    }

    fn boost(&mut self, slot: usize, until: u64) -> Result<(), Error> {
        let server = self.server(slot)?;
        let (id, name) = (server.id, server.managed.name.clone());
        self.pool.boost(id, until, self.at).map_err(|why| refused(&name, &why))?;
        self.boosts += 1;
        let (boosts, at) = (self.boosts, self.at);
        let server = self.server(slot)?;
        let place = server.boost.map_or(boosts, |(place, _)| place);
        server.boost = (until > at).then_some((place, until));
        Ok(())
    }

    fn remove(&mut self, slot: usize) {
        let Some(server) = self.servers.get_mut(slot).and_then(Option::take) else { return };
        let _ = server.group.freeze(false);
        self.watch.account(slot).parked.store(0, Relaxed);
        server.threads.iter().for_each(|&tid| give(tid, None));
        server.threads.iter().for_each(|&tid| self.watch.remove(tid));
        self.watch.account(slot).awake.store(0, Relaxed);
        self.pool.ready(server.id, false, self.at);
        // The policy core forgets nobody; a server of 1 ns in 146 years is as good as none.
        let _ = self.pool.boost(server.id, 0, self.at);
        let _ = self.pool.set(server.id, 1, 1 << 62, u32::MAX, When::Now, self.at);
    }

    fn server(&mut self, slot: usize) -> Result<&mut Served, Error> {
        let missing = || Error::Kernel {
            doing: "change a server".into(),
            why: format!("there is no server {slot} on this core"),
        };
        self.servers.get_mut(slot).and_then(Option::as_mut).ok_or_else(missing)
    }

    /// Tells the policy core what has happened, in order.
    fn drain(&mut self) {
        while let Some(event) = self.watch.next() {
            let Some(Some(server)) = self.servers.get_mut(event.server) else { continue };
            match event.what {
                What::New(tid) => {
                    server.threads.insert(tid);
                    give(tid, server.priority); // its parent may have got another place in the middle of the fork
                }
                What::Gone(tid) => drop(server.threads.remove(&tid)),
                What::Idle | What::Ready => {
                    let is_ready = event.what == What::Ready;
                    if server.is_ready != is_ready {
                        server.is_ready = is_ready;
                        let id = server.id;
                        self.charge(event.at, Some(event));
                        self.pool.ready(id, is_ready, event.at);
                        self.pool.decide(event.at);
                    }
                }
            }
        }
    }

    /// Charges what was consumed up to `at`. Whoever ran without being chosen (it was being stopped) is charged for it when it
    /// pays next.
    fn charge(&mut self, at: u64, event: Option<Event>) {
        let at = at.max(self.at);
        let passed = (at - self.at) as i64;
        self.at = at;
        let (runs, payer) = (self.pool.running(0), self.pool.payer(0));
        let Some((slot, server)) = self.servers.iter_mut().enumerate().find_map(|(slot, server)| {
            let server = server.as_mut()?;
            (Some(server.id) == runs).then_some((slot, server))
        }) else {
            return self.pool.charge(0, 0, at);
        };
        let total = match event {
            Some(event) if event.server == slot => event.ran as i64,
            _ => self.watch.account(slot).ran.load(Relaxed) as i64,
        };
        if payer.is_none() {
            server.charged = total; // on a lent budget
            return self.pool.charge(0, 0, at);
        }
        let mut ran = (total - server.charged).clamp(0, passed);
        let rest = self.pool.left_ns(server.id) - ran;
        let limited = server.managed.server.kind != ServerKind::Unlimited && server.boost.is_none();
        if event.is_none() && limited && (1..=CRUMB as i64).contains(&rest) && ran + rest <= passed {
            ran += rest;
        }
        server.charged += ran;
        self.pool.charge(0, ran as u64, at);
    }

    /// Brings the policy core up to now.
    fn settle(&mut self, now: u64) {
        self.charge(now, None);
        for (slot, server) in self.servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            server.boost = server.boost.filter(|&(_, until)| until > self.at);
            let account = self.watch.account(slot);
            // Events may have been lost where the buffer was full.
            let is_ready = account.awake.load(Relaxed) > 0;
            if account.parked.load(Relaxed) == 0 && server.is_ready != is_ready {
                server.is_ready = is_ready;
                self.pool.ready(server.id, is_ready, self.at);
            }
        }
        let was = self.mode.since;
        self.until = self.pool.decide(self.at).until;
        let is_hi = self.pool.core_mode(0) == CoreMode::Hi;
        match (was, is_hi) {
            (Some(since), false) => self.mode.hi_ns += self.at - since,
            (None, true) => self.mode.switches += 1,
            _ => {}
        }
        self.mode.since = is_hi.then(|| was.unwrap_or(self.at));
    }

    /// Gives each server's threads their place; `false`: one has fallen asleep, ended or woken since, so that who runs has to be
    /// decided anew.
    fn apply(&mut self) -> bool {
        let slots: Vec<usize> = (0..self.servers.len()).filter(|&slot| self.servers[slot].is_some()).collect();
        let served = || slots.iter().filter_map(|&slot| self.servers[slot].as_ref());
        let is_hi = self.pool.core_mode(0) == CoreMode::Hi;
        let standing = |server: &Served| {
            let kind = server.managed.server.kind;
            let rank = match self.order {
                Order::FixedPriority => u64::from(server.managed.priority),
                Order::Edf => self.pool.deadline_ns(server.id),
                Order::MixedCriticality => {
                    let early = if is_hi { 0 } else { server.early() };
                    self.pool.deadline_ns(server.id).saturating_sub(early)
                }
            };
            let has_budget = kind == ServerKind::Unlimited || self.pool.left_ns(server.id) > 0;
            Standing {
                kind,
                class: match server.managed.criticality {
                    Some(criticality) => class(criticality, is_hi, has_budget),
                    None => has_budget.then_some(0),
                },
                rank: (rank, server.id.index()),
                is_ready: server.is_ready,
                boost: server.boost.map(|(place, _)| place),
            }
        };
        let standings: Vec<Standing> = served().map(standing).collect();
        let runs = self.pool.running(0).and_then(|id| served().position(|server| server.id == id));
        // A low one without budget that is chosen runs like all who have no server.
        let runs = runs.filter(|&place| standings[place].class.is_some() || self.order != Order::MixedCriticality);
        let order = may_run(&standings, runs);
        for (place, &slot) in slots.iter().enumerate() {
            let account = self.watch.account(slot);
            let Some(server) = &mut self.servers[slot] else { continue };
            if !order.contains(&place) {
                let dry = self.pool.left_ns(server.id);
                server.park(account, dry);
            }
        }
        let now: Vec<Option<u32>> =
            order.iter().map(|&place| self.servers[slots[place]].as_ref().and_then(|server| server.priority)).collect();
        for (&place, priority) in order.iter().zip(priorities(&now, HIGHEST)) {
            let slot = slots[place];
            if let Some(server) = &mut self.servers[slot] {
                server.unpark(self.watch.account(slot), priority);
            }
        }
        let mut is_as_decided = true;
        self.alone = self.alone_in_hi();
        // Last: going on is no news to whoever orders it.
        for &slot in &slots {
            let Some(server) = &self.servers[slot] else { continue };
            let follow =
                slots.len() > 1 && self.alone != Some(slot) || server.managed.server.kind == ServerKind::Polling;
            let urgent = match follow {
                true => watch::IDLE | watch::READY,
                false if self.alone == Some(slot) => 0,
                false => watch::READY * u32::from(!server.is_ready),
            };
            let account = self.watch.account(slot);
            account.urgent.store(urgent, SeqCst);
            // Who was woken from another core before that told nobody.
            let is_ready = account.awake.load(SeqCst) > 0;
            is_as_decided &= urgent == 0 || account.parked.load(Relaxed) != 0 || server.is_ready == is_ready;
        }
        is_as_decided
    }

    /// In HI, the only server of high criticality, if it has budget: whenever it wakes it goes before all others, which the kernel does by
    /// itself, so that nobody has to be told before its budget may end.
    fn alone_in_hi(&self) -> Option<usize> {
        if self.pool.core_mode(0) == CoreMode::Lo || self.boosted() {
            return None;
        }
        let high = |(slot, server): (usize, &Option<Served>)| match server.as_ref()?.managed.criticality? {
            Criticality::High { .. } => Some(slot),
            Criticality::Low => None,
        };
        let mut all = self.servers.iter().enumerate().filter_map(high);
        let only = all.next().filter(|_| all.next().is_none())?;
        self.servers[only].as_ref().filter(|server| self.pool.left_ns(server.id) > 0).map(|_| only)
    }

    fn boosted(&self) -> bool {
        self.servers.iter().flatten().any(|server| server.boost.is_some())
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
        let wake = until.unwrap_or(u64::MAX).min(spent).min(self.next_beat).max(now + NEAREST);
        let at = Timespec { tv_sec: (wake / 1_000_000_000) as i64, tv_nsec: (wake % 1_000_000_000) as i64 };
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

    /// Shows that it lives, and mends what threads have done to themselves.
    fn look_after(&mut self) {
        self.next_beat = self.at + BEAT;
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.called, &mut count);
        // SAFETY: no arguments.
        let here = unsafe { libc::sched_getcpu() };
        if here != self.core as i32 {
            // The core has gone offline. Silence makes the watchdog restore everything.
            self.warn(format!("core {} has gone: its manager runs on core {here}", self.core));
            return;
        }
        self.beats.beat(self.core, self.at);
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
        let servers = self.servers.iter().enumerate().filter_map(|(slot, server)| {
            let server = server.as_ref()?;
            let account = self.watch.account(slot);
            Some(ServerReport {
                server: slot,
                name: server.managed.name.clone(),
                reservation: server.managed.server,
                threads: server.threads.len(),
                supplied_ns: account.ran.load(Relaxed).saturating_sub(server.base),
                left_ns: self.pool.left_ns(server.id),
                boost_ns: self.pool.boost_ns(server.id),
                is_ready: server.is_ready,
                is_throttled: server.priority.is_none(),
                throttled: server.throttled,
                overrun_max_ns: server.overrun_max,
                lost: account.lost.load(Relaxed),
            })
        });
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
            late_mean_ns: self.late.1 / self.late.0.max(1),
            late_max_ns: self.late.2,
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}

impl Served {
    /// By how much it is ranked before its deadline in LO.
    fn early(&self) -> u64 {
        match self.managed.criticality {
            Some(Criticality::High { virtual_deadline, .. }) => {
                self.managed.server.period.ns().saturating_sub(virtual_deadline.ns())
            }
            _ => 0,
        }
    }

    /// Keeps its threads off the core: below everybody else's real-time threads, and stopped if it is to be capped.
    fn park(&mut self, account: &watch::Account, left: i64) {
        if self.priority.take().is_some() {
            self.threads.iter().for_each(|&tid| give(tid, None));
            if left <= 0 {
                self.throttled += 1;
                self.overrun_max = self.overrun_max.max(left.unsigned_abs());
            }
        }
        // One that sleeps needs no stopping; it is watched, and stopped when it wakes.
        if self.managed.cap == Cap::Hard && !self.frozen && account.awake.load(Relaxed) > 0 {
            account.parked.store(1, Relaxed);
            self.frozen = self.group.freeze(true).is_ok();
            account.parked.store(u32::from(self.frozen), Relaxed);
        }
    }

    /// Its preferred thread is as high as the server above it: it does not wait for the others of its own, and is through in
    /// microseconds.
    fn priority_of(&self, tid: u32) -> Option<u32> {
        self.priority.map(|priority| priority + u32::from(self.preferred == Some(tid)))
    }

    fn give(&self, tid: u32) {
        give(tid, self.priority_of(tid));
    }

    fn unpark(&mut self, account: &watch::Account, priority: u32) {
        if self.managed.cap == Cap::Soft && self.priority.is_none() {
            self.charged = account.ran.load(Relaxed) as i64; // what it ran on leftovers is free
        }
        if self.frozen {
            // It was stopped while ready, and wakes now: an interrupt and a wake-up to be told what is known.
            account.urgent.store(0, Relaxed);
            account.parked.store(0, Relaxed);
            self.frozen = self.group.freeze(false).is_err();
        }
        if self.priority != Some(priority) {
            // Threads of one priority run in the order in which they got it, once they can run at all: each has its turn to be first.
            let was_parked = self.priority.replace(priority).is_none();
            let next = self.threads.range(self.first + 1..).chain(&self.threads).next();
            self.first = next.copied().filter(|_| was_parked).unwrap_or(self.first);
            let in_turn = self.threads.range(self.first..).chain(self.threads.range(..self.first));
            in_turn.for_each(|&tid| self.give(tid));
        }
    }
}

fn attr(priority: Option<u32>) -> Attr {
    match priority {
        Some(priority) => Attr::inherited(sched::RR, priority),
        None => Attr::default(),
    }
}

/// A thread that has gone is passed over; one that refuses is looked after at the next beat.
fn give(tid: u32, priority: Option<u32>) {
    let _ = sched::set(tid, &attr(priority));
}

fn refused(name: &str, why: &giusto_policy::Error) -> Error {
    Error::Kernel { doing: format!("manage {name}"), why: why.to_string() }
}

fn mixed(server: Server, criticality: Criticality) -> Mixed {
    let (optimistic, period) = (server.budget.ns(), server.period.ns());
    let (worst, virtual_deadline) = match criticality {
        Criticality::Low => (None, period),
        Criticality::High { worst, virtual_deadline } => (Some(worst.ns()), virtual_deadline.ns()),
    };
    Mixed { optimistic, worst, period, virtual_deadline }
}

fn policy_kind(kind: ServerKind) -> Option<giusto_policy::Kind> {
    use giusto_policy::Kind;
    Some(match kind {
        ServerKind::PeriodicStrict => Kind::PeriodicStrict,
        ServerKind::PeriodicConserving => Kind::PeriodicConserving,
        ServerKind::PeriodicReclaiming => Kind::PeriodicReclaiming,
        ServerKind::Polling => Kind::Polling,
        ServerKind::Deferrable => Kind::Deferrable,
        ServerKind::Sporadic => Kind::Sporadic,
        ServerKind::ConstantBandwidth => Kind::ConstantBandwidth,
        ServerKind::Unlimited => Kind::Unlimited,
    })
}
