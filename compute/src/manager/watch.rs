//! What the threads of a core's servers do, as the kernel tells it (bpf/watch.bpf.c).

use crate::Error;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::RawTracePoint;
use aya::Ebpf;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Servers that one watch keeps accounts of (`WATCH_SERVERS`).
pub(super) const SERVERS: usize = giusto_model::Backend::MANAGED;

/// The last running thread of a server fell asleep.
pub(super) const IDLE: u32 = 1;
/// The first thread of a server woke.
pub(super) const READY: u32 = 2;
/// A thread was born.
const NEW: u32 = 4;
/// A thread ended.
const GONE: u32 = 8;
/// A thread was put into another cgroup, or runs on another core.
const MOVED: u32 = 16;

/// `struct account`.
#[repr(C)]
pub(super) struct Account {
    /// Consumed by all threads of the server, in ns; exact while none of them runs.
    pub(super) ran: AtomicU64,
    /// Events that found no room.
    pub(super) lost: AtomicU64,
    /// Threads that run or wait for the core.
    pub(super) awake: AtomicU32,
    _threads: AtomicU32,
    /// Which of [`IDLE`] and [`READY`] wake the manager at once.
    pub(super) urgent: AtomicU32,
    /// Whether the manager has stopped its threads, so that their sleep says nothing.
    pub(super) parked: AtomicU32,
    /// [`What::Moved`] has been told; not again before this is 0.
    pub(super) astray: AtomicU32,
    _pad: u32,
}

/// `struct watched`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Watched {
    total: u64,
    task: u64,
    server: u32,
    asleep: u32,
}
// SAFETY: integers without padding.
unsafe impl aya::Pod for Watched {}

/// `struct event`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    at: u64,
    ran: u64,
    server: u32,
    what: u32,
    tid: u32,
    pad: u32,
}

/// What happened to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Idle,
    Ready,
    New(u32),
    Gone(u32),
    /// Into another cgroup, or to another core.
    Moved(u32),
}

/// Something that happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// CLOCK_MONOTONIC, in ns.
    pub(super) at: u64,
    /// What the server's threads had consumed by then, in ns.
    pub(super) ran: u64,
    /// Its place among the accounts.
    pub(super) server: usize,
    pub(super) what: What,
}

/// The watch over the servers of one core. Dropping it detaches it.
pub(super) struct Watch {
    threads: HashMap<MapData, u32, Watched>,
    events: RingBuf<MapData>,
    accounts: *mut c_void,
    programs: Ebpf,
    /// Whether the kernel tells when a thread is put into another cgroup.
    pub(super) tells_moves: bool,
}

// SAFETY: the mapping is shared memory of atomics, which any thread may use.
unsafe impl Send for Watch {}

const PROGRAMS: [(&str, &str); 5] = [
    ("switched", "sched_switch"),
    ("wakes", "sched_wakeup"),
    ("begins", "sched_wakeup_new"),
    ("forked", "sched_process_fork"),
    ("becomes", "sched_process_exec"),
];
const BYTES: usize = SERVERS * size_of::<Account>();

impl Watch {
    /// Loads the programs and attaches them, for the manager of `core`. Takes about 3 ms. Errors: no privilege, no BPF, no BTF.
    pub(super) fn new(core: u32) -> Result<Watch, Error> {
        let refused = |why: String| {
            Error::Kernel {
            doing: "watch threads by BPF".into(),
            why: format!("{why}; the backend 'manager' needs root (CAP_BPF, CAP_PERFMON), Linux 5.18 and /sys/kernel/btf/vmlinux"),
        }
        };
        let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
        let mut programs = Ebpf::load(object).map_err(|why| refused(told(&why)))?;
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| refused(format!("there is no map {name}")));
        let (threads, events, accounts) = (map("threads")?, map("events")?, map("accounts")?);
        let own = programs.map_mut("core").ok_or_else(|| refused("there is no map core".into()))?;
        let own = Array::try_from(own).and_then(|mut own| own.set(0, core, 0));
        own.map_err(|why| refused(why.to_string()))?;
        let threads = HashMap::try_from(threads).map_err(|why| refused(why.to_string()))?;
        let events = RingBuf::try_from(events).map_err(|why| refused(why.to_string()))?;
        let aya::maps::Map::Array(accounts) = accounts else { return Err(refused("accounts is no array".into())) };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = accounts.fd().as_fd().as_raw_fd();
        // SAFETY: a new mapping of a map that is as large.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(refused(std::io::Error::last_os_error().to_string()));
        }
        let mut watch = Watch { threads, events, accounts: mapped, programs, tells_moves: false };
        for (name, point) in PROGRAMS {
            watch.attach(name, point).map_err(refused)?;
        }
        watch.tells_moves = watch.attach("moved", "cgroup_attach_task").is_ok();
        Ok(watch)
    }

    fn attach(&mut self, name: &str, point: &str) -> Result<(), String> {
        let program = self.programs.program_mut(name).ok_or_else(|| format!("no program {name}"))?;
        let program: &mut RawTracePoint = program.try_into().map_err(|_| format!("program {name}"))?;
        program.load().and_then(|()| program.attach(point)).map(|_| ()).map_err(|why| told(&why))
    }

    /// Where the kernel says that there are events (edge-triggered: only urgent ones are told).
    pub(super) fn fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    pub(super) fn account(&self, server: usize) -> &Account {
        assert!(server < SERVERS);
        // SAFETY: within the mapping, which lives as long as `self`; all fields are atomics.
        unsafe { &*self.accounts.cast::<Account>().add(server) }
    }

    /// The oldest event that has not been taken yet.
    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            let item = self.events.next()?;
            if item.len() < size_of::<Raw>() {
                continue;
            }
            // SAFETY: the programs write nothing but complete events; they are 8-byte aligned.
            let raw = unsafe { item.as_ptr().cast::<Raw>().read_unaligned() };
            let what = match raw.what {
                IDLE => What::Idle,
                READY => What::Ready,
                NEW => What::New(raw.tid),
                GONE => What::Gone(raw.tid),
                MOVED => What::Moved(raw.tid),
                _ => continue,
            };
            return Some(Event { at: raw.at, ran: raw.ran, server: raw.server as usize, what });
        }
    }

    /// Watches a thread from now on. To be called by the manager, on the core that the thread is bound to: so it does not run
    /// meanwhile. A thread that has ended, or is watched already, is passed over.
    pub(super) fn add(&mut self, tid: u32, server: usize) -> Result<(), Error> {
        use std::sync::atomic::Ordering::Relaxed;
        let watched = |watch: &Watch| watch.threads.get(&tid, 0).ok().filter(|now| now.server == server as u32);
        if watched(self).is_none() {
            let Some((total, _)) = standing(tid) else { return Ok(()) };
            let asleep = Watched { total, task: 0, server: server as u32, asleep: 1 };
            self.threads.insert(tid, asleep, 0).map_err(|why| Error::Kernel {
                doing: format!("watch thread {tid}"),
                why: format!("{why}; a core's servers may have 8192 threads together"),
            })?;
        }
        // Asleep by the books and running by the kernel: it was awake before. Had it woken since, the books would say so.
        let runs = standing(tid).is_some_and(|(_, runs)| runs);
        if let Some(asleep) = watched(self).filter(|now| runs && now.asleep == 1) {
            let _ = self.threads.insert(tid, Watched { asleep: 0, ..asleep }, 0);
            self.account(server).awake.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Counts anew which of these threads, all that a server has, are awake. To be called by the manager, as [`Watch::add`].
    pub(super) fn recount(&mut self, threads: &BTreeSet<u32>, server: usize) -> Result<(), Error> {
        threads.iter().for_each(|&tid| self.remove(tid));
        self.account(server).awake.store(0, std::sync::atomic::Ordering::Relaxed);
        threads.iter().try_for_each(|&tid| self.add(tid, server))
    }

    /// Forgets a thread of a server that goes on. To be called by the manager, as [`Watch::add`].
    pub(super) fn part_with(&mut self, tid: u32, server: usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let known = self.threads.get(&tid, 0).ok().filter(|now| now.server == server as u32);
        self.remove(tid);
        if known.is_some_and(|known| known.asleep == 0) {
            self.account(server).awake.fetch_sub(1, Relaxed);
        }
    }

    /// Forgets a thread.
    pub(super) fn remove(&mut self, tid: u32) {
        let _ = self.threads.remove(&tid);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no other reference uses it any more.
        unsafe { libc::munmap(self.accounts, BYTES) };
    }
}

/// An error with all its causes.
fn told(why: &dyn std::error::Error) -> String {
    std::iter::successors(Some(why), |why| why.source()).map(|why| why.to_string()).collect::<Vec<_>>().join(": ")
}

/// Processor time of a thread in ns, and whether it runs or waits for a core.
fn standing(tid: u32) -> Option<(u64, bool)> {
    let stat = giusto_host::read(format!("/proc/{tid}/stat")).ok()?;
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    (!matches!(state, 'Z' | 'X')).then(|| (crate::sched::cpu_time_ns(tid), state == 'R'))
}
