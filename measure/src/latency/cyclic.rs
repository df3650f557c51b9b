//! The periodic thread of one core.

use super::histogram::Histogram;
use crate::clock::now;
use crate::{Error, Generator};
use giusto_model::Duration;
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, ClockId};
use rustix::time::Timespec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// From the start of the thread to its first activation: it is on its core by then.
const LEAD_NS: u64 = 5_000_000;

/// What one thread is to do.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) core: u32,
    pub(super) period: Duration,
    pub(super) length: Duration,
}

/// What it saw.
pub(super) struct Seen {
    pub(super) latency: Histogram,
    pub(super) passed: u64,
    pub(super) until_ready: Option<Histogram>,
    pub(super) until_run: Option<Histogram>,
}

/// Whether threads may have the priority, and be on each of these cores.
pub(super) fn allowed(cores: &[u32]) -> Result<(), Error> {
    let try_all =
        || cores.iter().try_for_each(|core| urgent(*core).apply().map(drop).map_err(|error| no_priority(*core, error)));
    // On a thread of its own: the calling thread stays as it is, even where that could not be undone.
    let tried = thread::scope(|scope| scope.spawn(try_all).join());
    tried.unwrap_or_else(|_| Err(Error::system("start a thread", io::Error::other("it died"))))
}

fn urgent(core: u32) -> Generator {
    Generator { cpu: Some(core), fifo_priority: Some(PRIORITY) }
}

fn no_priority(core: u32, error: Error) -> Error {
    match error {
        Error::Privilege { .. } => Error::NoPriority { core, priority: PRIORITY },
        other => other,
    }
}

/// Runs once in every period until the time is over or `stop` is set.
pub(super) fn run(asked: Asked, stop: &AtomicBool) -> Result<Seen, Error> {
    let Asked { core, period, length } = asked;
    let mut seen = Seen { latency: Histogram::new(), passed: 0, until_ready: None, until_run: None };
    let (mut until_ready, mut until_run) = (Histogram::new(), Histogram::new());
    let books = Books::open();
    let _applied = urgent(core).apply().map_err(|error| no_priority(core, error))?;
    let first = now() + LEAD_NS;
    let end = first.saturating_add(length.ns());
    let mut due = first;
    let mut waited = books.as_ref().and_then(Books::waited);
    while due < end && !stop.load(Ordering::Relaxed) {
        sleep_until(due)?;
        let ran = now();
        let late = ran.saturating_sub(due);
        let waits = books.as_ref().and_then(Books::waited);
        if let Some((before, after)) = waited.zip(waits) {
            // What it waited for before it slept, if at all, was not in this latency.
            let own = after.saturating_sub(before).min(late);
            until_run.record(own);
            until_ready.record(late - own);
        }
        waited = waits;
        seen.latency.record(late);
        due += period.ns();
        while due <= ran && due < end {
            seen.latency.record(ran - due);
            seen.passed += 1;
            due += period.ns();
        }
    }
    // Without CONFIG_SCHED_INFO all numbers are 0, but the thread has run.
    let kept = books.as_ref().and_then(Books::numbers).is_some_and(|(ran, _)| ran > 0);
    if kept && until_ready.count() > 0 {
        (seen.until_ready, seen.until_run) = (Some(until_ready), Some(until_run));
    }
    Ok(seen)
}

fn sleep_until(ns: u64) -> Result<(), Error> {
    let at = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &at) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(why) => return Err(Error::system("sleep until an instant", why.into())),
        }
    }
}

/// The kernel's books of the calling thread: how long it was ready without a processor. Between two sleeps that is the time
/// from its wake-up until it ran.
struct Books(File);

impl Books {
    /// `None`: this kernel has none.
    fn open() -> Option<Self> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        File::open(format!("/proc/self/task/{tid}/schedstat")).ok().map(Books)
    }

    fn waited(&self) -> Option<u64> {
        self.numbers().map(|(_, waited)| waited)
    }

    /// Time on a processor and time ready for one, in ns.
    fn numbers(&self) -> Option<(u64, u64)> {
        let mut text = [0; 96];
        let read = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..read)?).ok()?;
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    }
}

/// The highest that there is. Above are only SCHED_DEADLINE and the kernel's own stopper threads.
pub(super) const PRIORITY: u8 = 99;
