//! A guest: when its tasks release jobs, and which job runs.

use crate::system::{Error, Execution, Guest, Sporadic, Workload};
use giusto_model::{Release, Task};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// 2^61 ns, 73 years: sums of two stay far below 2^63.
pub(crate) const LONGEST: u64 = 1 << 61;

/// A job that is not finished. The order of fields is the order of service: smaller first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) key: u64,
    pub(crate) task: u32,
    pub(crate) number: u64,
    pub(crate) release: u64,
    pub(crate) left: u64,
}

/// One task copy.
struct Source {
    period: u64,
    deadline: u64,
    wcet: u64,
    arrivals: Sporadic,
    next: u64,
    number: u64,
    /// Its jobs behind the one that is queued or runs: a task's jobs run one after the other.
    backlog: VecDeque<Job>,
    /// One of its jobs is queued or runs.
    is_active: bool,
    /// One stream a task: what a task draws does not depend on how the jobs of others are scheduled.
    rng: ChaCha8Rng,
    /// Of the noise of its execution times; the same one where they have none.
    noise: ChaCha8Rng,
}

/// Tasks and queue of one server.
pub(crate) struct Guests {
    guest: Guest,
    execution: Execution,
    sources: Vec<Source>,
    /// The first job of each task that has one: no job overtakes an earlier one of its task in any order of service.
    queue: BinaryHeap<Reverse<Job>>,
}

impl Guests {
    pub(crate) fn new(workload: &Workload, index: usize, seed: u64) -> Result<Self, Error> {
        let mut sources = Vec::new();
        for task in &workload.tasks {
            task.validate().map_err(|why| Error::Task { index, why })?;
            if task.offset.ns() > LONGEST || task.period.ns() > LONGEST {
                return Err(Error::Horizon);
            }
            for _ in 0..task.copies {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let stream = (index as u64) << 32 | sources.len() as u64;
                rng.set_stream(stream);
                let mut noise = rng.clone();
                if let Execution::Noisy { seed, .. } = workload.execution {
                    noise = ChaCha8Rng::seed_from_u64(seed);
                    noise.set_stream(stream);
                }
                sources.push(Source::new(task, &workload.sporadic, rng, noise));
            }
        }
        match &workload.sporadic {
            Sporadic::Batches(0) => return Err(Error::Gaps { index }),
            Sporadic::Thinking { percent } if *percent > 100 => {
                return Err(Error::Thinking { index, percent: *percent })
            }
            Sporadic::Gaps(gaps) if gaps.iter().all(|&gap| gap == 0) || gaps.iter().any(|&gap| gap > LONGEST) => {
                return Err(Error::Gaps { index });
            }
            _ => {}
        }
        if let Execution::Samples(samples) = &workload.execution {
            if samples.is_empty() {
                return Err(Error::NoSamples { index });
            }
            // A job of nothing would never be seen.
            bounded(samples, index, "execution", 1)?;
        }
        if let Execution::Noisy { ppm, .. } = &workload.execution {
            if ppm.is_empty() || ppm.contains(&0) {
                return Err(Error::NoSamples { index });
            }
        }
        let execution = workload.execution.clone();
        Ok(Guests { guest: workload.guest, execution, sources, queue: BinaryHeap::new() })
    }

    /// When the first job of each task comes that needs no message for it.
    pub(crate) fn first_releases(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let own = self.sources.iter().zip(0..).filter(|(source, _)| source.arrivals != Sporadic::Messages);
        own.map(|(source, task)| (source.next, task))
    }

    /// Whether a message releases a job of it.
    pub(crate) fn waits(&self, task: u32) -> bool {
        self.sources.get(task as usize).is_some_and(|source| source.arrivals == Sporadic::Messages)
    }

    /// Queues the job of a task that comes at `at`; when its next one comes, which may be at once, if that is known already.
    #[inline]
    pub(crate) fn release(&mut self, task: u32, at: u64) -> Option<u64> {
        let source = &mut self.sources[task as usize];
        let key = match self.guest {
            Guest::Fifo => at,
            Guest::RateMonotonic => source.period,
            Guest::DeadlineMonotonic => source.deadline,
            Guest::Listed => u64::from(task),
            Guest::Edf => at + source.deadline,
        };
        let left = source.execution(&self.execution);
        let job = Job { key, task, number: source.number, release: at, left };
        match std::mem::replace(&mut source.is_active, true) {
            true => source.backlog.push_back(job),
            false => self.queue.push(Reverse(job)),
        }
        source.number += 1;
        if let Sporadic::Thinking { .. } | Sporadic::Messages = source.arrivals {
            return None;
        }
        source.next += source.gap();
        Some(source.next)
    }

    /// A job of the task has finished at `at`, and the task's next one is queued, if it has come; when its next one
    /// comes, if that depends on it.
    #[inline]
    pub(crate) fn finished(&mut self, task: u32, at: u64) -> Option<u64> {
        let source = &mut self.sources[task as usize];
        match source.backlog.pop_front() {
            Some(next) => self.queue.push(Reverse(next)),
            None => source.is_active = false,
        }
        let Sporadic::Thinking { .. } = source.arrivals else { return None };
        source.next = at + source.gap();
        Some(source.next)
    }

    /// The job that runs when the server does.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Job> {
        self.queue.peek().map(|Reverse(job)| job)
    }

    /// The current job has run for `ran`; hands it out if that finished it.
    #[inline]
    pub(crate) fn run(&mut self, ran: u64) -> Option<Job> {
        let mut first = self.queue.peek_mut()?;
        first.0.left -= ran; // does not change its place: `left` is the last field, and keys with numbers are unique
        (first.0.left == 0).then(|| std::collections::binary_heap::PeekMut::pop(first).0)
    }

    /// What is left of the current job is all of one once more.
    pub(crate) fn again(&mut self) {
        if let Some(mut first) = self.queue.peek_mut() {
            let task = first.0.task as usize;
            first.0.left = self.sources[task].execution(&self.execution);
        }
    }

    /// Takes the current job out, for one of several virtual CPUs; see [`Guests::put`].
    pub(crate) fn take(&mut self) -> Option<Job> {
        self.queue.pop().map(|Reverse(job)| job)
    }

    /// Puts a job back that is not finished.
    pub(crate) fn put(&mut self, job: Job) {
        self.queue.push(Reverse(job));
    }

    /// How many tasks have a job, if none is taken out: as many virtual CPUs have something to do.
    pub(crate) fn active(&self) -> u64 {
        self.queue.len() as u64
    }

    /// Jobs that are not finished.
    pub(crate) fn pending(&self) -> u64 {
        self.active() + self.sources.iter().map(|source| source.backlog.len() as u64).sum::<u64>()
    }
}

/// An exponentially distributed time of that mean, in ns.
pub(crate) fn exponential(mean: u64, rng: &mut ChaCha8Rng) -> u64 {
    let uniform: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
    ((-uniform.ln() * mean as f64) as u64).min(LONGEST)
}

/// Checks measured times, so that what is computed with them stays within 64 bits.
pub(crate) fn bounded(samples: &[u64], index: usize, what: &'static str, least: u64) -> Result<(), Error> {
    match samples.iter().find(|ns| !(least..=LONGEST).contains(ns)) {
        Some(&ns) => Err(Error::Sample { index, what, ns, least }),
        None => Ok(()),
    }
}

impl Source {
    fn new(task: &Task, sporadic: &Sporadic, rng: ChaCha8Rng, noise: ChaCha8Rng) -> Self {
        let kept = task.release == Release::KeptOffset;
        Source {
            period: task.period.ns(),
            deadline: task.deadline.ns(),
            wcet: task.wcet.ns(),
            arrivals: if kept { Sporadic::Densest } else { sporadic.clone() },
            next: task.offset.ns(),
            number: 0,
            backlog: VecDeque::new(),
            is_active: false,
            rng,
            noise,
        }
    }

    /// From the job just released to the next.
    fn gap(&mut self) -> u64 {
        match &self.arrivals {
            Sporadic::Densest => self.period,
            Sporadic::Random => self.rng.random_range(self.period..=2 * self.period),
            Sporadic::Poisson => exponential(self.period, &mut self.rng),
            Sporadic::Batches(size) if !self.number.is_multiple_of(u64::from(*size)) => 0,
            Sporadic::Batches(size) => exponential(self.period.saturating_mul(u64::from(*size)), &mut self.rng),
            Sporadic::Thinking { percent } => {
                let mean = self.period - self.wcet;
                let half = (u128::from(mean) * u128::from(*percent) / 100) as u64;
                self.rng.random_range(mean - half..=mean + half)
            }
            Sporadic::Gaps(gaps) => gaps[(self.number as usize - 1) % gaps.len()],
            Sporadic::Messages => LONGEST, // never asked for
        }
    }

    fn execution(&mut self, execution: &Execution) -> u64 {
        match execution {
            Execution::Worst => self.wcet,
            Execution::Uniform { percent } => {
                let least = u128::from(self.wcet) * u128::from((*percent).min(100)) / 100;
                self.rng.random_range((least as u64).max(1)..=self.wcet)
            }
            Execution::Samples(samples) => samples[self.rng.random_range(0..samples.len())],
            Execution::Noisy { ppm, .. } => {
                let factor = u128::from(ppm[self.noise.random_range(0..ppm.len())]);
                ((u128::from(self.wcet) * factor / 1_000_000) as u64).clamp(1, LONGEST)
            }
        }
    }
}
