//! A small driver: plays periodic, thinking and always-ready loads on a scheduler, and watches it.

use giusto_simulator::Scheduler;

/// What a server has to do.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// Always ready.
    Hog,
    /// Work of `run` every `period` from `first` on.
    Periodic { run: u64, period: u64, first: u64 },
    /// Sleeps for `sleep` after each `run` of work.
    Thinking { run: u64, sleep: u64 },
}
use Load::{Hog, Thinking};

pub(crate) fn periodic(run: u64, period: u64, first: u64) -> Load {
    Load::Periodic { run, period, first }
}

/// Where a server is with its load.
struct Work {
    load: Load,
    /// When the work that is now done, or next, was or will be released; and how much of it is left.
    release: u64,
    left: u64,
}

impl Work {
    fn new(load: Load) -> Work {
        match load {
            Hog => Work { load, release: 0, left: u64::MAX },
            Load::Periodic { run, first, .. } => Work { load, release: first, left: run },
            Thinking { run, .. } => Work { load, release: 0, left: run },
        }
    }

    /// Returns how long the work took if it is done.
    fn run(&mut self, ran: u64, now: u64) -> Option<u64> {
        self.left -= ran;
        if self.left > 0 {
            return None;
        }
        let took = now - self.release;
        match self.load {
            Hog => unreachable!("a hog is never done"),
            Load::Periodic { run, period, .. } => (self.release, self.left) = (self.release + period, run),
            Thinking { run, sleep } => (self.release, self.left) = (now + sleep, run),
        }
        Some(took)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Played {
    /// What each server ran.
    pub(crate) ran: Vec<u64>,
    /// The longest time from a release to the end of its work, unfinished work counted until the horizon.
    pub(crate) worst: Vec<u64>,
    /// Time in which a core idled while a ready server waited, and the cores that idled then.
    pub(crate) wasted: u64,
    /// Who was given which core when, whenever that changed.
    pub(crate) schedule: Vec<(u64, Vec<Option<usize>>)>,
}

/// Plays the loads, and checks what must hold at every instant: a server has one core at most and is ready, and the
/// scheduler wants to be asked again only later.
pub(crate) fn play(scheduler: &mut dyn Scheduler, cores: u32, loads: &[Load], horizon: u64) -> Played {
    let mut out = Played { ran: vec![0; loads.len()], worst: vec![0; loads.len()], ..Played::default() };
    let mut works: Vec<Work> = loads.iter().map(|&load| Work::new(load)).collect();
    let mut was = vec![false; loads.len()];
    let mut now = 0;
    while now < horizon {
        let mut next = horizon;
        for (index, work) in works.iter().enumerate() {
            let ready = work.release <= now;
            if ready != was[index] {
                was[index] = ready;
                scheduler.ready(index, ready, now);
            }
            if !ready {
                next = next.min(work.release);
            }
        }
        if let Some(until) = scheduler.decide(now) {
            assert!(until > now, "asked to decide again at {until}, at {now}");
            next = next.min(until);
        }
        let running: Vec<_> = (0..cores).map(|core| scheduler.running(core)).collect();
        for (core, index) in running.iter().enumerate() {
            let Some(index) = *index else { continue };
            assert!(was[index], "{index} is idle, yet has core {core} at {now}");
            assert!(!running[..core].contains(&Some(index)), "{index} has two cores at {now}");
            next = next.min(now.saturating_add(works[index].left));
        }
        let waits = (0..loads.len()).any(|index| was[index] && !running.contains(&Some(index)));
        if waits && running.contains(&None) {
            out.wasted += next - now;
        }
        for (core, index) in (0..).zip(&running) {
            let Some(index) = *index else { continue };
            scheduler.charge(core, next - now, next);
            out.ran[index] += next - now;
            if let Some(took) = works[index].run(next - now, next) {
                out.worst[index] = out.worst[index].max(took);
            }
        }
        if out.schedule.last().is_none_or(|(_, last)| *last != running) {
            out.schedule.push((now, running));
        }
        now = next;
    }
    for (index, work) in works.iter().enumerate().filter(|(_, work)| !matches!(work.load, Hog)) {
        out.worst[index] = out.worst[index].max(horizon.saturating_sub(work.release));
    }
    out
}
