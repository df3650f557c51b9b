//! The thread that spins.

use super::{Gap, Recording, SupplyPlan};
use crate::clock::now;
use crate::{generator, Error, Generator};
use giusto_model::{Duration, Instant};
use rustix::thread::{sched_getaffinity, CpuSet};
use rustix::time::{clock_gettime, ClockId};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

/// Gaps that are kept: 4 MB, below the 8 MB that any process may lock. At 4,000 gaps a second, a minute.
const ROOM: usize = 1 << 18;
/// Readings to find out what one takes.
const READINGS: usize = 4096;
/// Readings this many times further apart than usual are a gap.
const FEW: u64 = 5;

/// A recording, and what the kernel says of that time.
#[derive(Clone, Debug)]
pub struct Probed {
    /// When the probe had the processor.
    pub recording: Recording,
    pub(super) cpu: Duration,
    pub(super) steal: Option<Duration>,
    pub(super) cores: Vec<u32>,
    pub(super) policy: String,
    pub(super) reading: Duration,
    pub(super) threshold: Duration,
    pub(super) locked: bool,
    pub(super) dropped: u64,
}

/// Spins on the calling thread, at its own policy and priority, for `plan.length` or until `stop`, whatever is first.
///
/// A gap is told too long by up to one reading of the clock. While it spins nothing is allocated and, but for the clock where
/// it is not mapped into the process, no system call made. Memory is locked where that is allowed.
///
/// # Errors
/// A plan that cannot be measured; a core that cannot be used; no privilege for it.
pub fn supply(plan: &SupplyPlan, stop: &AtomicBool) -> Result<Probed, Error> {
    plan.check()?;
    let _applied = bind(plan.core)?;
    let mut ring = Ring::new();
    let reading = reading_ns();
    let threshold = FEW * reading;
    let cores = allowed()?;
    let stolen = || crate::steal(&cores).ok().map(|of| of.iter().map(|noise| noise.steal_ns).sum::<u64>());
    let (steal, cpu) = (stolen(), cpu_ns());
    let start = now();
    let end = ring.spin(start, start.saturating_add(plan.length.ns()), threshold, stop);
    let (cpu, steal) = (cpu_ns() - cpu, steal.zip(stolen()).map(|(before, after)| after.saturating_sub(before)));
    let (locked, dropped) = (ring.locked, ring.dropped());
    Ok(Probed {
        recording: ring.recording(start, end),
        cpu: Duration::from_ns(cpu),
        steal: steal.map(Duration::from_ns),
        policy: policy()?,
        cores,
        reading: Duration::from_ns(reading),
        threshold: Duration::from_ns(threshold),
        locked,
        dropped,
    })
}

/// The last gaps.
struct Ring {
    slots: Box<[Gap]>,
    pushed: u64,
    locked: bool,
}

impl Ring {
    fn new() -> Self {
        let mut slots = vec![Gap::default(); ROOM].into_boxed_slice();
        // Every page must be there before it is written to: a page fault would be measured as a gap.
        slots.fill(Gap { from: Instant::ZERO, until: Instant::from_ns(1) });
        black_box(&mut slots);
        // SAFETY: changes no byte; unlocked before it is freed.
        let locked = unsafe { rustix::mm::mlock(slots.as_mut_ptr().cast(), size_of_val(&*slots)) }.is_ok();
        Ring { slots, pushed: 0, locked }
    }

    /// Returns the last reading of the clock.
    fn spin(&mut self, start: u64, end: u64, threshold: u64, stop: &AtomicBool) -> u64 {
        let mut last = start;
        loop {
            let at = now();
            if at - last > threshold {
                self.push(Gap { from: Instant::from_ns(last), until: Instant::from_ns(at) });
            }
            last = at;
            if at >= end || stop.load(Ordering::Relaxed) {
                return at;
            }
        }
    }

    fn push(&mut self, gap: Gap) {
        self.slots[self.pushed as usize % ROOM] = gap;
        self.pushed += 1;
    }

    fn dropped(&self) -> u64 {
        self.pushed.saturating_sub(ROOM as u64)
    }

    /// From `start`, or from the oldest gap where older ones were dropped.
    fn recording(&self, start: u64, end: u64) -> Recording {
        let kept = (self.dropped()..self.pushed).map(|n| self.slots[n as usize % ROOM]);
        let gaps: Vec<Gap> = kept.collect();
        let oldest = gaps.first().filter(|_| self.dropped() > 0);
        Recording::new(oldest.map_or(Instant::from_ns(start), |gap| gap.from), Instant::from_ns(end), gaps)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.locked {
            // SAFETY: the pages that were locked. Nothing can be done where it fails.
            let _ = unsafe { rustix::mm::munlock(self.slots.as_mut_ptr().cast(), size_of_val(&*self.slots)) };
        }
    }
}

/// What one turn of the loop takes: the median, as some are interrupted.
fn reading_ns() -> u64 {
    let mut apart = [0; READINGS];
    let mut last = now();
    for slot in &mut apart {
        let at = now();
        *slot = at - last;
        last = at;
    }
    apart.sort_unstable();
    apart[READINGS / 2].max(1)
}

fn bind(core: Option<u32>) -> Result<generator::Applied, Error> {
    let bound = Generator { cpu: core, fifo_priority: None }.apply();
    bound.map_err(|error| match (error, core) {
        (Error::System { why, .. }, Some(core)) if why.raw_os_error() == Some(libc::EINVAL) => {
            let cores = allowed().unwrap_or_default();
            Error::Plan(format!("core {core} cannot be used from here; expected one of {cores:?}"))
        }
        (error, _) => error,
    })
}

/// Where the calling thread may run.
fn allowed() -> Result<Vec<u32>, Error> {
    let failed = |why: rustix::io::Errno| Error::System { what: "read the probe's affinity".into(), why: why.into() };
    let set = sched_getaffinity(None).map_err(failed)?;
    Ok((0..CpuSet::MAX_CPU as u32).filter(|&core| set.is_set(core as usize)).collect())
}

/// Processor time of the calling thread.
fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The calling thread's policy as chrt names it, with a priority where it has one.
fn policy() -> Result<String, Error> {
    let failed = |why| Error::System { what: "read the probe's policy".into(), why };
    let (policy, parameters) = generator::policy().map_err(failed)?;
    Ok(match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "other".into(),
        libc::SCHED_FIFO => format!("fifo {}", parameters.sched_priority),
        libc::SCHED_RR => format!("rr {}", parameters.sched_priority),
        libc::SCHED_BATCH => "batch".into(),
        libc::SCHED_IDLE => "idle".into(),
        6 => "deadline".into(), // not in libc
        other => format!("policy {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> SupplyPlan {
        let ms = Duration::from_ms;
        SupplyPlan { length: ms(60), window: ms(10), phase: ms(3), core: None, ask: None }
    }

    #[test]
    fn a_probe_accounts_for_all_of_its_time_and_its_thread_is_afterwards_as_before() {
        let before = (allowed().unwrap(), policy().unwrap());
        let plan = SupplyPlan { core: before.0.first().copied(), ..plan() };
        let probed = supply(&plan, &AtomicBool::new(false)).unwrap();
        let report = probed.report(&plan);
        assert!(report.elapsed >= plan.length && report.supply <= report.elapsed);
        assert!(report.windows >= 5 && report.per_window.unwrap().max <= plan.window);
        assert_eq!(report.cores, before.0[..1]);
        assert!(report.threshold > report.reading);
        // What the kernel counts as run, and more: reading the clocks.
        assert!(report.supply.ns() < report.cpu.ns() + 1_000_000, "{report:?}");
        assert_eq!((allowed().unwrap(), policy().unwrap()), before);
    }

    #[test]
    fn a_probe_that_is_stopped_tells_what_it_has_seen() {
        let probed =
            supply(&SupplyPlan { length: Duration::from_secs(3600), ..plan() }, &AtomicBool::new(true)).unwrap();
        let report = probed.report(&plan());
        assert!(report.elapsed < Duration::from_secs(60));
        assert!(report.per_window.is_some() || report.windows == 0);
    }

    #[test]
    fn a_core_that_is_not_there_is_named_with_those_that_are() {
        let nowhere = SupplyPlan { core: Some(1023), ..plan() };
        let text = supply(&nowhere, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(text.contains("core 1023") && text.contains(&allowed().unwrap()[0].to_string()), "{text}");
    }

    #[test]
    fn a_full_ring_keeps_the_last_gaps_and_begins_with_them() {
        let mut ring = Ring::new();
        let gap = |n: u64| Gap { from: Instant::from_ns(10 * n), until: Instant::from_ns(10 * n + 1) };
        (0..3).for_each(|n| ring.push(gap(n)));
        assert_eq!((ring.dropped(), ring.recording(0, 100).start()), (0, Instant::ZERO));
        (3..ROOM as u64 + 2).for_each(|n| ring.push(gap(n)));
        let end = 10 * (ROOM as u64 + 2);
        let recording = ring.recording(0, end);
        assert_eq!((ring.dropped(), recording.gaps().len()), (2, ROOM));
        assert_eq!((recording.start(), recording.gaps()[0]), (Instant::from_ns(20), gap(2)));
    }
}
