//! What a service that runs does, as observed from outside: when its threads were busy, and for how long.
//!
//! `/proc/PID/task/TID/schedstat` tells of each thread its processor time, and `status` how often it went to sleep.
//! They are read every quarter of a millisecond or so; between two readings the thread began to work as often as it
//! slept, or works still, and worked as long as its processor time grew. Needs no privilege and touches nothing.

mod bursts;
mod pattern;
mod reader;

pub use bursts::{bursts, workers, Burst, Change};
pub use pattern::{pattern, Pattern, Shape};

use crate::clock::now;
use crate::Error;
use giusto_model::Duration;
use reader::Reader;
use std::thread::sleep;

/// Fewest activations of which anything can be said.
pub const FEWEST: u64 = 50;
/// How often it is told how far the watch is.
const TOLD_NS: u64 = 1_000_000_000;
/// How often new threads are looked for.
const LOOKED_NS: u64 = 100_000_000;

/// What was observed of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// How long.
    pub length: Duration,
    /// Between two readings, on average.
    pub resolution: Duration,
    /// Threads that do the work: not those that only hand it over, or wake up by a timer for next to nothing.
    pub workers: usize,
    /// Whether only a main thread does: others may be one of several, or end with a connection.
    pub main_alone: bool,
    /// All threads.
    pub threads: usize,
    /// Processor time of all of them.
    pub cpu: Duration,
    /// How often one that does the work began to.
    pub activations: u64,
    /// How often a thread was taken off its processor while it had work; going on is no activation.
    pub preempted: u64,
    /// When those that do the work were busy, and how long.
    pub bursts: Vec<Burst>,
}

impl Watched {
    /// Its processor time as a part of one core; above 1 where several threads work at a time.
    pub fn utilization(&self) -> f64 {
        self.cpu.ns() as f64 / self.length.ns().max(1) as f64
    }

    /// Processor time of an activation at this quantile (0 to 1) of all; where several lie between two readings, their
    /// mean.
    pub fn execution(&self, quantile: f64) -> Duration {
        let mut costs: Vec<(u64, u64)> =
            self.bursts.iter().map(|one| (one.cpu / one.count.max(1), one.count)).filter(|(ns, _)| *ns > 0).collect();
        costs.sort_unstable();
        let all: u64 = costs.iter().map(|(_, count)| count).sum();
        let mut left = (quantile * all as f64).ceil() as u64;
        let found = costs.iter().find(|(_, count)| {
            let here = left <= *count;
            left = left.saturating_sub(*count);
            here
        });
        Duration::from_ns(found.or(costs.last()).map_or(0, |(ns, _)| *ns))
    }

    /// Processor time of an activation on average.
    pub fn mean(&self) -> Duration {
        Duration::from_ns(self.serving() / self.activations.max(1))
    }

    /// All processor time over that of the threads that do the work: at least 1.
    pub fn overhead(&self) -> f64 {
        self.cpu.ns() as f64 / self.serving().clamp(1, self.cpu.ns().max(1)) as f64
    }

    /// Processor time of the threads that do the work, in ns.
    fn serving(&self) -> u64 {
        self.bursts.iter().map(|one| one.cpu).sum()
    }
}

/// Watches the processes `pids` for `length`, or until `on_progress`, which is told the time that has passed about once
/// a second, says no.
///
/// # Errors
/// [`Error::Process`] where there is no thread to read, [`Error::Quiet`] with less than [`FEWEST`] activations.
pub fn watch_process(
    pids: &[u32],
    length: Duration,
    on_progress: &mut dyn FnMut(Duration) -> bool,
) -> Result<Watched, Error> {
    let mut reader = Reader::open(pids)?;
    let step = reader.step_ns();
    let start = now();
    let (mut due, mut told, mut looked) = (start, start + TOLD_NS, start + LOOKED_NS);
    let mut changes = Vec::new();
    while now() < start + length.ns() {
        // What was missed is not made up for: a late reading tells the sum.
        due = (due + step).max(now());
        sleep(std::time::Duration::from_nanos(due.saturating_sub(now())));
        let at = now();
        reader.read(at, &mut changes);
        if at >= looked {
            reader.look();
            looked = at + LOOKED_NS;
        }
        if at >= told {
            told = at + TOLD_NS;
            if !on_progress(Duration::from_ns(at - start)) {
                break;
            }
        }
    }
    let length = Duration::from_ns(now() - start);
    let workers = workers(&changes, &reader.timers());
    let bursts = bursts(&changes, &workers);
    let activations = bursts.iter().map(|one| one.count).sum();
    if activations < FEWEST {
        let pid = pids.first().copied().unwrap_or(0);
        return Err(Error::Quiet { pid, activations, seconds: length.to_std().as_secs_f64() });
    }
    Ok(Watched {
        length,
        resolution: Duration::from_ns(length.ns() / reader.readings().max(1)),
        workers: workers.len(),
        main_alone: matches!(workers.as_slice(), [one] if reader.is_main(*one)),
        threads: reader.threads(),
        cpu: Duration::from_ns(changes.iter().map(|one| one.ran).sum()),
        activations,
        preempted: reader.preempted(),
        bursts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    #[test]
    fn quantiles_count_activations_and_not_readings() {
        let burst = |cpu, count| Burst { from: 0, until: 1, count, cpu };
        let bursts = vec![burst(10, 1), burst(60, 3), burst(0, 5), burst(40, 1)];
        let watched = Watched {
            length: Duration::from_ms(1),
            resolution: Duration::from_us(250),
            workers: 1,
            main_alone: true,
            threads: 1,
            cpu: Duration::from_ns(110),
            activations: 5,
            preempted: 0,
            bursts,
        };
        let at = |quantile| watched.execution(quantile).ns();
        assert_eq!((at(0.2), at(0.5), at(0.8), at(1.0)), (10, 20, 20, 40));
        assert_eq!((watched.mean().ns(), watched.overhead()), (22, 1.0));
    }

    #[test]
    fn a_thread_that_works_now_and_then_is_seen_and_a_process_that_is_not_there_is_told() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let worker = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let until = now() + 1_000_000;
                while now() < until {}
                sleep(std::time::Duration::from_millis(4));
            }
        });
        let watched = watch_process(&[std::process::id()], Duration::from_secs(2), &mut |_| true);
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        // This process has other tests' threads too, so that only bounds hold.
        let watched = watched.unwrap();
        assert!(watched.activations >= 100 && watched.cpu >= Duration::from_ms(50), "{watched:?}");
        let told: u64 = watched.bursts.iter().map(|burst| burst.count).sum();
        assert_eq!(told, watched.activations);
        let none = watch_process(&[u32::MAX], Duration::from_ms(10), &mut |_| true);
        assert!(matches!(none, Err(Error::Process { .. })));
    }
}
