//! What all trials have in common: slices in cycles until the verdict is clear, those left out in which the machine did something
//! else.

use crate::Error;
use giusto_model::{Bandwidth, Duration, Lateness};
use std::time::Instant;

/// How a service gets its processor time in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Nothing else wants the core.
    Whole,
    /// The kernel's default beside the competitors.
    NoPlan,
    /// The plan's reservation beside the competitors.
    Giusto,
}

impl Arm {
    /// For file names and progress.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Whole => "whole",
            Arm::NoPlan => "no-plan",
            Arm::Giusto => "giusto",
        }
    }
}

/// A slice that was removed, as it measured the machine and not the service.
#[derive(Clone, Debug)]
pub struct Removed {
    /// Which arm.
    pub arm: Arm,
    /// Which cycle, from 1.
    pub cycle: u32,
    /// Why.
    pub cause: Cause,
}

/// What the machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The hypervisor took this much of one core.
    Stolen(Duration),
    /// The service's core stood still for so long, which the hypervisor's clock does not show.
    Stopped(Duration),
    /// The load generator waited this long for its processor.
    Waited(Duration),
    /// The load generator was this late (99th percentile).
    Late(Duration),
    /// The load generator stalled.
    Stalled(Lateness),
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Stolen(time) => write!(f, "{time} stolen by the hypervisor"),
            Cause::Stopped(time) => write!(f, "its core stood still for {time}"),
            Cause::Waited(time) => write!(f, "the load generator waited {time} for its processor"),
            Cause::Late(time) => write!(f, "the load generator was {time} late (99th percentile)"),
            Cause::Stalled(lateness) => write!(f, "the load generator stalled: {lateness}"),
        }
    }
}

/// All slices of one service or path.
#[derive(Debug)]
pub struct Trial<S> {
    /// Its name.
    pub name: String,
    /// Slices that count, in the order in which they were made.
    pub slices: Vec<S>,
    /// Slices that were removed.
    pub removed: Vec<Removed>,
    /// Part of the measured time that the hypervisor took from one of the cores that are measured, removed slices included.
    pub stolen: Bandwidth,
    /// Length of a slice.
    pub slice: Duration,
}

/// How long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Least length of a slice; longer where the server's period or the rate of requests asks for it.
    pub slice: Duration,
    /// Most time for one service.
    pub at_most: Duration,
    /// Seed of keys and values.
    pub seed: u64,
}

/// A slice counts only if at most this part of it was stolen or waited for, one in. What is stolen the kernel counts in
/// ticks: one
/// tick a core may be of long ago.
pub(crate) const LOST_LIMIT: u64 = 100;
/// ... and the generator was late by at most this in 99 % of the jobs, which also tells one that is always late.
pub(crate) const LATE_LIMIT: Duration = Duration::from_ms(1);
/// Tries for a slice that counts.
const TRIES: u32 = 4;
/// Without a plan is measured in one cycle of so many: that is for show, and takes long, as requests pile up.
pub(crate) const NO_PLAN_EVERY: u32 = 4;
/// The generator's real-time priority, on a core of its own.
pub(crate) const GENERATOR_PRIORITY: u8 = 50;

/// What the caller says of the slices so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The verdict is clear.
    Enough,
    /// It is not, and why.
    More(String),
}

/// What a trial of an `O` in slices `S` asks and tells its caller.
pub struct Talk<'a, O, S> {
    /// Whether it was told to stop; asked ten times a second.
    pub stop: &'a dyn Fn() -> bool,
    /// Progress.
    pub say: &'a mut dyn FnMut(String),
    /// Whether the slices so far are enough; asked a few times in all, so that looking again and again does not make chance a
    /// verdict.
    pub judge: &'a mut dyn FnMut(&O, &Trial<S>) -> Next,
}

/// A slice, and what of it was the machine's.
pub(crate) struct Made<S> {
    pub(crate) slice: S,
    /// Time that the hypervisor took from one of the cores, whichever lost most.
    pub(crate) steal: Duration,
    /// How long it took.
    pub(crate) lasted: Duration,
    /// Why it does not count.
    pub(crate) void: Option<Cause>,
}

impl<S> Trial<S> {
    /// Of slices of this length, none yet.
    pub(crate) fn new(name: &str, slice: Duration) -> Trial<S> {
        let (slices, removed) = (Vec::new(), Vec::new());
        Trial { name: name.into(), slices, removed, stolen: Bandwidth::ZERO, slice }
    }

    /// Cycles of the slices that `arms` tells, each made by `once`, until the caller has enough of them, as it is asked from the
    /// cycle `look` on, or the time is over.
    pub(crate) fn run<O>(
        mut self,
        of: &O,
        at_most: Duration,
        mut look: u32,
        talk: &mut Talk<O, S>,
        arms: &mut dyn FnMut(u32) -> Vec<Arm>,
        once: &mut dyn FnMut(Arm, u32) -> Result<Made<S>, Error>,
    ) -> Result<Trial<S>, Error> {
        let (begin, mut lost, mut measured) = (Instant::now(), 0, 0);
        let over = || begin.elapsed().as_nanos() >= u128::from(at_most.ns());
        for cycle in 1.. {
            for arm in arms(cycle) {
                for _ in 0..TRIES {
                    let Made { slice, steal, lasted, void } = once(arm, cycle)?;
                    (lost, measured) = (lost + steal.ns(), measured + lasted.ns());
                    let Some(cause) = void else {
                        self.slices.push(slice);
                        break;
                    };
                    self.removed.push(Removed { arm, cycle, cause });
                    if over() {
                        break;
                    }
                }
            }
            self.stolen = Bandwidth::new(lost, measured.max(1)).unwrap_or(Bandwidth::ZERO);
            if over() {
                break;
            }
            if cycle < look {
                continue;
            }
            look += look.div_ceil(2);
            match (talk.judge)(of, &self) {
                Next::Enough => break,
                Next::More(why) => (talk.say)(format!("{}: {cycle} cycles of slices: {why}; goes on", self.name)),
            }
        }
        Ok(self)
    }
}

/// Time that the hypervisor has taken from each of these cores so far.
pub(crate) fn stolen(cpus: &[u32]) -> Vec<u64> {
    giusto_measure::steal(cpus).map(|all| all.iter().map(|one| one.steal_ns).collect()).unwrap_or_default()
}

/// The most of any of them since then.
pub(crate) fn stolen_since(cpus: &[u32], then: &[u64]) -> Duration {
    let lost = stolen(cpus).into_iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).max();
    Duration::from_ns(lost.unwrap_or(0))
}

/// More than one in `parts` of a slice was stolen.
pub(crate) fn is_stolen(steal: Duration, slice: Duration, parts: u64) -> bool {
    steal > Duration::from_ns(slice.ns() / parts).max(giusto_measure::steal_clock())
}
