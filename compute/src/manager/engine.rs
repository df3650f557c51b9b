//! The manager of one core: its thread, which carries the policy core's decisions out.
//!
//! It sleeps until a budget or a period ends, or the watch tells of something urgent. Then it charges what was consumed,
//! in the order in which things happened, asks the policy core, and gives each server's threads the real-time priority of
//! its place, or parks them. It runs above all servers of its core and on that core: while it looks, nothing it looks at
//! moves.
//!
//! What it knows is here. What it does is in the files below, the higher ones first: `run` goes the rounds, `orders` does
//! what it is told, `decide` charges and gives places, `look` looks after strays, `report` tells.

mod decide;
mod look;
mod orders;
mod report;
mod run;
mod served;
mod strays;

use super::beat::Beats;
use super::budgets::Budgets;
use super::command::Command;
use super::watch::Watch;
use crate::Error;
use giusto_policy::{Back, Order, Pool};
use served::Served;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

/// The manager's real-time priority; servers have lower ones.
pub(super) const PRIORITY: u32 = 90;
/// So many periods of its own a server that needed its worst budget is hot [Asy20, section 3.3]. With one, a server that needs it
/// in every period would see LO between asking late in one and late in the next.
const COOLING: u32 = 3;

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
    /// Told of each decision while it is recorded.
    budgets: Arc<Budgets>,
    /// The time up to which the policy core has been told everything (CLOCK_MONOTONIC, ns).
    at: u64,
    until: Option<u64>,
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
        (astray, budgets): (Arc<AtomicBool>, Arc<Budgets>),
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
            budgets,
            at,
            until: None,
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

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) && self.warnings.len() < 100 {
            self.warnings.push(text);
        }
    }
}
