//! What a service's requests cost under its own load: its processor time is read whenever no request is on its way.

use crate::drive::drive_watched;
use crate::{Error, LoadPlan, LoadReport};
use giusto_model::Duration;
use std::collections::BTreeMap;
use std::io;

/// Between two readings, at least: each costs about a microsecond a process.
const APART_NS: u64 = 250_000;
/// Lengths of the windows of which the greatest mean is told.
const WINDOWS_MS: [u64; 8] = [5, 10, 20, 40, 80, 160, 320, 640];
/// Costs are told to one part in so many.
const PARTS: u64 = 200;

/// A service's processor time, and how many requests it had answered by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    at: u64,
    cpu: u64,
    answered: u64,
}

/// What a load cost, in one stretch or several.
#[derive(Debug)]
pub struct Observed {
    /// Of each stretch, in the order of time.
    stretches: Vec<Vec<Reading>>,
}

/// Drives a load as [`crate::drive()`] does and reads meanwhile the processor time of the processes `pids`, which serve
/// it: by
/// the kernel's account, which is brought up to date when a thread leaves its processor. It is read just before a request is
/// sent while none is on its way, when the service sleeps.
///
/// # Errors
/// As [`crate::drive()`]; [`Error::Process`] without a process to read, [`Error::Idle`] if they took no processor time.
pub fn observe(
    plan: &LoadPlan,
    pids: &[u32],
    on_progress: &mut dyn FnMut(Duration) -> bool,
) -> Result<Observed, Error> {
    let (report, observed) = drive_observed(plan, pids, on_progress)?;
    let (pid, address) = (pids.first().copied().unwrap_or(0), plan.load.address());
    match observed.mean() {
        Some(mean) if !mean.is_zero() => Ok(observed),
        _ => Err(Error::Idle { pid, requests: report.jobs.len() as u32, address }),
    }
}

/// The same with the responses, also where nothing could be read: there always was a request under way.
///
/// # Errors
/// As [`crate::drive()`]; [`Error::Process`] without a process to read.
pub fn drive_observed(
    plan: &LoadPlan,
    pids: &[u32],
    on_progress: &mut dyn FnMut(Duration) -> bool,
) -> Result<(LoadReport, Observed), Error> {
    let clocks = clocks(pids)?;
    let mut readings = Vec::with_capacity((plan.run.ns() / APART_NS) as usize);
    let mut last = 0;
    let report = drive_watched(plan, on_progress, &mut |at, answered| {
        if at >= last + APART_NS && readings.len() < readings.capacity() {
            readings.push(Reading { at, cpu: clocks.iter().map(ran).sum(), answered });
            last = at;
        }
    })?;
    Ok((report, Observed { stretches: vec![readings] }))
}

/// The processor-time clocks of the processes: they count all threads of each, also those that start later, such as one for
/// each connection, and those that have ended.
fn clocks(pids: &[u32]) -> Result<Vec<libc::clockid_t>, Error> {
    let clock = |&pid: &u32| {
        let mut id = 0;
        // SAFETY: plain call that writes the id of a clock.
        match unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut id) } {
            0 => Ok(id),
            why => Err(Error::Process { pid, why: io::Error::from_raw_os_error(why) }),
        }
    };
    match pids {
        [] => Err(Error::Process { pid: 0, why: io::ErrorKind::NotFound.into() }),
        pids => pids.iter().map(clock).collect(),
    }
}

/// Processor time in ns; 0 of a process that has ended.
fn ran(clock: &libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: plain system call that writes a time; it fails where the process is gone.
    match unsafe { libc::clock_gettime(*clock, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

impl Observed {
    /// Both, of the same service.
    pub fn and(mut self, other: Observed) -> Observed {
        self.stretches.extend(other.stretches);
        self
    }

    /// Processor time of all requests between the first and the last reading of each stretch over their number; `None`
    /// without two
    /// readings.
    pub fn mean(&self) -> Option<Duration> {
        let cpu: u64 = self.ends().map(|(first, last)| last.cpu.saturating_sub(first.cpu)).sum();
        cpu.checked_div(self.requests()).map(Duration::from_ns)
    }

    /// Requests between the first and the last reading of each stretch.
    pub fn requests(&self) -> u64 {
        self.ends().map(|(first, last)| last.answered - first.answered).sum()
    }

    fn ends(&self) -> impl Iterator<Item = (&Reading, &Reading)> {
        self.stretches.iter().filter_map(|readings| readings.first().zip(readings.last()))
    }

    /// Processor time of a request, averaged over the requests between two readings: ns (to half a per cent, rounded
    /// up), and how
    /// many requests; ascending. O(readings · log readings).
    pub fn execution(&self) -> Vec<[u64; 2]> {
        let mut counts = BTreeMap::new();
        for pair in self.stretches.iter().flat_map(|readings| readings.windows(2)) {
            let Some(ns) = cost(&pair[0], &pair[1]).filter(|ns| *ns >= 1.0) else { continue };
            let part = (ns as u64 / PARTS).max(1);
            *counts.entry((ns as u64).div_ceil(part) * part).or_insert(0) += pair[1].answered - pair[0].answered;
        }
        counts.into_iter().map(|(ns, requests)| [ns, requests]).collect()
    }

    /// For some lengths the greatest mean processor time of a request, over all stretches from one reading to the first
    /// one at least
    /// so long after it: lengths and means in ns; lengths ascend, means do not. O(readings · lengths).
    pub fn windows(&self) -> Vec<[u64; 2]> {
        self.windows_with(|greatest| greatest.iter().copied().fold(0.0, f64::max))
    }

    /// The same as far as it recurs: the median over the stretches of what was greatest in each, where there are three at
    /// least. What most stretches do not show is not what requests cost: a virtual machine that stood still while the
    /// service had the processor looks as if a request had taken that long, and not every hypervisor tells.
    pub fn recurring_windows(&self) -> Vec<[u64; 2]> {
        match self.stretches.len() {
            0..3 => self.windows(),
            many => self.windows_with(|greatest| {
                greatest.sort_by(f64::total_cmp);
                greatest[many / 2]
            }),
        }
    }

    /// For each length what `of` makes of the greatest of each stretch.
    fn windows_with(&self, of: impl Fn(&mut [f64]) -> f64) -> Vec<[u64; 2]> {
        let mut found: Vec<[u64; 2]> = Vec::new();
        for length in WINDOWS_MS.map(|ms| ms * 1_000_000) {
            let mut each: Vec<f64> = self.stretches.iter().map(|readings| greatest(readings, length)).collect();
            let most = of(&mut each);
            if most > 0.0 {
                found.push([length, most.ceil() as u64]);
            }
        }
        // A longer stretch consists of shorter ones, but for its last reading.
        for place in (1..found.len()).rev() {
            found[place - 1][1] = found[place - 1][1].max(found[place][1]);
        }
        found
    }
}

/// The greatest mean over all stretches from one of `readings` to the first one at least `length` after it; 0 without one.
fn greatest(readings: &[Reading], length: u64) -> f64 {
    let (mut end, mut most) = (0, 0.0f64);
    for begin in readings {
        while readings.get(end).is_some_and(|reading| reading.at < begin.at + length) {
            end += 1;
        }
        let Some(last) = readings.get(end) else { break };
        most = cost(begin, last).map_or(most, |ns| most.max(ns));
    }
    most
}

/// Processor time of a request between two readings; `None` where none was answered.
fn cost(from: &Reading, to: &Reading) -> Option<f64> {
    let requests = to.answered.checked_sub(from.answered).filter(|requests| *requests > 0)?;
    Some(to.cpu.saturating_sub(from.cpu) as f64 / requests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn observed(readings: Vec<Reading>) -> Observed {
        Observed { stretches: vec![readings] }
    }

    #[test]
    fn a_thread_that_starts_later_counts_as_one_that_has_ended() {
        let clocks = clocks(&[std::process::id()]).unwrap();
        let before = ran(&clocks[0]);
        let spin = || {
            let own = rustix::time::ClockId::ThreadCPUTime;
            while rustix::time::clock_gettime(own).tv_nsec < 20_000_000 {}
        };
        std::thread::spawn(spin).join().unwrap();
        assert!(ran(&clocks[0]) - before >= 20_000_000);
        assert!(super::clocks(&[4_194_304]).is_err() && super::clocks(&[]).is_err());
    }

    /// Stretches of a second with a request of 50 us every 1 ms; in some of them one took 30 ms.
    fn stretches(disturbed: usize) -> Observed {
        let stretch = |nth: usize| {
            let (mut cpu, mut readings) = (0, Vec::new());
            for request in 0..1000 {
                cpu += if nth < disturbed && request == 500 { 30_000_000 } else { 50_000 };
                readings.push(Reading { at: request * 1_000_000, cpu, answered: request });
            }
            readings
        };
        Observed { stretches: (0..5).map(stretch).collect() }
    }

    #[test]
    fn what_recurs_in_most_stretches_is_a_cost_and_what_does_not_is_the_machines() {
        let undisturbed = stretches(0).windows();
        for disturbed in 0..3 {
            assert_eq!(stretches(disturbed).recurring_windows(), undisturbed, "{disturbed} of 5");
        }
        assert_eq!(stretches(3).recurring_windows(), stretches(5).windows());
        assert!(stretches(1).windows()[3][1] > 10 * undisturbed[3][1]);
        // Two tell nothing of what recurs.
        let mut two = stretches(1);
        two.stretches.truncate(2);
        assert_eq!(two.recurring_windows(), two.windows());
    }

    #[test]
    fn means_and_windows_are_those_of_brute_force() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
        for _ in 0..50 {
            let (mut at, mut cpu, mut answered) = (7, 11, 3);
            let readings: Vec<Reading> = (0..400)
                .map(|_| {
                    let requests = rng.random_range(0..4);
                    at += rng.random_range(250_000..9_000_000);
                    (cpu, answered) = (cpu + requests * rng.random_range(1_000..90_000), answered + requests);
                    Reading { at, cpu, answered }
                })
                .collect();
            let one = observed(readings.clone());
            for [length, greatest] in one.windows() {
                let mut most = 0.0f64;
                for (nth, from) in readings.iter().enumerate() {
                    for to in &readings[nth..] {
                        if to.at - from.at >= length && to.answered > from.answered {
                            most = most.max((to.cpu - from.cpu) as f64 / (to.answered - from.answered) as f64);
                            break; // the first one that is long enough
                        }
                        if to.at - from.at >= length {
                            break;
                        }
                    }
                }
                assert!(greatest as f64 >= most, "{length}: {greatest} below {most}");
            }
            let ascending = one.windows().windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] >= pair[1][1]);
            assert!(ascending && one.execution().iter().map(|[_, n]| n).sum::<u64>() <= one.requests());
            let (first, last) = (readings[0], readings[399]);
            let (cpu, requests) = (last.cpu - first.cpu, last.answered - first.answered);
            assert_eq!((one.mean().unwrap().ns(), one.requests()), (cpu / requests, requests));
            // What lies between two stretches counts in neither.
            let later: Vec<Reading> =
                readings.iter().map(|one| Reading { at: one.at << 20, cpu: one.cpu << 20, ..*one }).collect();
            let windows = one.windows();
            let both = one.and(observed(readings)).and(observed(later[..1].to_vec()));
            assert_eq!((both.mean().unwrap().ns(), both.requests()), (cpu / requests, 2 * requests));
            assert_eq!(both.windows(), windows);
        }
        assert!(observed(Vec::new()).mean().is_none() && observed(Vec::new()).windows().is_empty());
    }
}
