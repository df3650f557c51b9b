//! A task set, checked and merged into streams of jobs.

use crate::Error;
use giusto_model::{Bandwidth, Duration, Release, Task};

/// Longest hyperperiod: three times of it must still fit in 64 bits.
const LONGEST: u128 = 1 << 62;
/// Most stream releases that are enumerated for one answer.
pub(super) const MOST_JOBS: u64 = 5_000_000;

/// All tasks with one period and one offset: `work` comes at offset, offset + period, …
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) offset: u64,
    pub(super) work: u64,
    pub(super) period: u64,
}

/// A task set with U ≤ 1. Lengths in ns.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) streams: Vec<Stream>,
    pub(super) releases: Release,
    pub(super) hyperperiod: u64,
    /// U · hyperperiod.
    pub(super) work: u64,
}

impl Workload {
    pub(super) fn new(tasks: &[Task]) -> Result<Self, Error> {
        let hyperperiod = hyperperiod(tasks)?;
        let work = match u64::try_from(demand(tasks, hyperperiod)?) {
            Ok(work) if work <= hyperperiod => work,
            _ => return Err(Error::Overload { utilization: utilization(tasks)? }),
        };
        let releases = releases(tasks, hyperperiod);
        let kept = releases == Release::KeptOffset;
        let mut streams: Vec<Stream> = Vec::new();
        for task in tasks {
            let period = task.period.ns();
            // Only A mod T counts: see `Supply`, "the steady state".
            let offset = if kept { task.offset.ns() % period } else { 0 };
            // U ≤ 1, so a stream's work fits in its period.
            let work = task.wcet.ns() * u64::from(task.copies);
            match streams.iter_mut().find(|s| (s.offset, s.period) == (offset, period)) {
                Some(stream) => stream.work += work,
                None => streams.push(Stream { offset, work, period }),
            }
        }
        Ok(Workload { streams, releases, hyperperiod, work })
    }

    /// At least the number of stream releases in a time of `length`.
    pub(super) fn jobs(&self, length: u64) -> u128 {
        self.streams.iter().map(|s| u128::from(length / s.period) + 1).sum()
    }

    /// Everything that is released in the closed interval from 0 to `at` after a synchronous release at 0.
    pub(super) fn released(&self, at: u64) -> u128 {
        self.streams.iter().map(|s| (u128::from(at / s.period) + 1) * u128::from(s.work)).sum()
    }
}

/// lcm of the periods; see [`super::hyperperiod`].
pub(super) fn hyperperiod(tasks: &[Task]) -> Result<u64, Error> {
    if tasks.is_empty() {
        return Err(Error::NoTasks);
    }
    let mut all = 1u64;
    for task in tasks {
        task.validate().map_err(|why| Error::Task { name: task.name.clone(), why })?;
        let lcm = num_integer::lcm(u128::from(all), u128::from(task.period.ns()));
        all = if lcm <= LONGEST { lcm as u64 } else { return Err(Error::Hyperperiod) };
    }
    Ok(all)
}

/// What is counted on; see [`super::releases`].
pub(super) fn releases(tasks: &[Task], hyperperiod: u64) -> Release {
    let jobs: u128 = tasks.iter().map(|t| u128::from(hyperperiod / t.period.ns()) + 1).sum();
    match tasks.iter().all(|t| t.release == Release::KeptOffset) && jobs <= u128::from(MOST_JOBS) {
        true => Release::KeptOffset,
        false => Release::Sporadic,
    }
}

/// Σ C/T; see [`super::utilization`].
pub(super) fn utilization(tasks: &[Task]) -> Result<Bandwidth, Error> {
    let hyperperiod = hyperperiod(tasks)?;
    let demand = demand(tasks, hyperperiod)?;
    let common = num_integer::gcd(demand, u128::from(hyperperiod));
    let numerator = u64::try_from(demand / common).map_err(|_| Error::Range)?;
    Bandwidth::new(numerator, hyperperiod / common as u64).ok_or(Error::Range)
}

/// Work released in one hyperperiod.
fn demand(tasks: &[Task], hyperperiod: u64) -> Result<u128, Error> {
    tasks.iter().try_fold(0u128, |sum, task| {
        let jobs = u128::from(hyperperiod / task.period.ns()) * u128::from(task.copies);
        jobs.checked_mul(u128::from(task.wcet.ns())).and_then(|work| sum.checked_add(work)).ok_or(Error::Range)
    })
}

/// The same for a [`Duration`].
pub(super) fn ns(length: u64) -> Duration {
    Duration::from_ns(length)
}
