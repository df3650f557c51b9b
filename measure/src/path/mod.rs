//! Open-loop load on a path: messages are sent to its first stage when the plan says, as lines that come back from its last stage
//! over another connection, or as requests over HTTP that the first one answers.

mod connection;
mod lines;
mod requests;
mod run;
mod traceparent;

use crate::clock::now;
use crate::schedule::{LoadPlan, Schedule};
use crate::{Error, Generator};
use giusto_model::{Arrivals, Duration, JobRecord, Lateness, Load, Path, PathLoad, PathSource, Task};
use lines::Lines;
use requests::Requests;
use run::{Run, GRACE_NS};
use std::collections::BTreeMap;

const PROGRESS_NS: u64 = 100_000_000;

/// What came of it.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// One record per message due after the warm-up, in the order they were sent; CLOCK_MONOTONIC. Times count from when a
    /// message was taken up as due, also where it then waited for a connection.
    pub jobs: Vec<JobRecord>,
    /// How many of them never came.
    pub lost: u64,
    /// Why requests were lost, and how many; of lines that is not known.
    pub failures: BTreeMap<String, u64>,
    /// How long they were at each stage that tells, in ns, by its name.
    pub stages: BTreeMap<String, Vec<u64>>,
    /// The trace of each of `jobs`, in 32 digits; none of lines.
    pub traces: Vec<String>,
}

impl PathReport {
    /// Whether the generator itself stalled; then the run is void. O(n log n).
    pub fn lateness(&self) -> Lateness {
        Lateness::of(&self.jobs)
    }
}

/// How messages of a path are sent, as its source would.
#[derive(Clone, Debug)]
pub struct PathRun {
    /// What is sent first, and not counted.
    pub warm_up: Duration,
    /// For so long after that.
    pub length: Duration,
    /// The same seed sends at the same times.
    pub seed: u64,
    /// What sends them.
    pub generator: Generator,
}

/// How messages of a path come, as tasks or at random: what a [`LoadPlan`] takes.
fn arrivals(path: &Path) -> (Vec<Task>, Option<Arrivals>) {
    match path.source {
        PathSource::Poisson(rate) => (Vec::new(), Some(Arrivals { rate, batch: 1 })),
        // Each of a burst is a client of its own; they are sent when they are due.
        PathSource::Periodic { period, burst, .. } => {
            let task = Task { copies: burst, ..Task::sporadic(&path.name, Duration::from_ns(1), period) };
            (vec![task], None)
        }
    }
}

/// Both ends of a path, connected for as long as this lives.
pub struct PathEnds {
    load: PathLoad,
    way: Way,
}

enum Way {
    Lines(Lines),
    Http(Requests),
}

impl PathEnds {
    /// Connects to the first stage, and listens for the last where messages are lines. Traces of requests are other ones each
    /// time.
    ///
    /// # Errors
    /// A connection that is refused, an address that is in use.
    pub fn new(load: &PathLoad, seed: u64) -> Result<PathEnds, Error> {
        let way = match load {
            PathLoad::Lines { send, receive } => Way::Lines(Lines::new(*send, *receive)?),
            PathLoad::Http { address, path } => Way::Http(Requests::new(*address, path, seed)?),
        };
        Ok(PathEnds { load: load.clone(), way })
    }

    /// How the traces of all messages begin, in 16 digits; `None`: lines have none.
    pub fn traces(&self) -> Option<String> {
        match &self.way {
            Way::Lines(_) => None,
            Way::Http(requests) => Some(requests.traces()),
        }
    }

    /// Sends messages of `path`, and waits up to 5 s more until all have come back. `on_progress` hears about ten times a
    /// second how much of that time has gone and says whether to go on.
    ///
    /// # Errors
    /// A plan that makes no sense; of lines a connection that is closed, a last stage that does not connect within 5 s of the
    /// first line that is due, something else than lines; of requests an answer that is not of HTTP/1.1.
    pub fn drive(
        &mut self,
        path: &Path,
        run: &PathRun,
        on_progress: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<PathReport, Error> {
        let (tasks, arrivals) = arrivals(path);
        let PathRun { warm_up, length, seed, generator } = run.clone();
        let load = Load::Echo { address: self.load.address(), value: 1 }; // what a message says is its own
        let (load, tasks) = (&load, &tasks[..]);
        let plan = LoadPlan { load, tasks, arrivals, trace: &[], warm_up, run: length, seed, generator };
        let mut schedule = Schedule::new(&plan)?;
        let _applied = plan.generator.apply()?;
        if let Way::Http(requests) = &mut self.way {
            requests.leave();
        }
        let mut run = Run::default();
        let origin = now() + 5_000_000;
        let mut next_progress = origin;
        let mut end = None;
        loop {
            let round = now();
            while let Some(due) = round.checked_sub(origin).and_then(|time| schedule.pop_due(time)) {
                let (record, at) = run.release(due.job, origin + due.at);
                match &mut self.way {
                    Way::Lines(lines) => lines.send(record, at)?,
                    Way::Http(requests) => requests.send(&mut run, record, origin + due.at),
                }
            }
            if round >= next_progress {
                if !on_progress(Duration::from_ns(round.saturating_sub(origin))) {
                    break;
                }
                next_progress = round + PROGRESS_NS;
            }
            let wake = match schedule.next() {
                Some(next) => origin + next,
                None if run.settled == run.jobs.len() => break,
                None => *end.get_or_insert(round + GRACE_NS),
            };
            if end.is_some_and(|end| round >= end) {
                break;
            }
            match &mut self.way {
                Way::Lines(lines) => lines.wait(&mut run, wake.min(next_progress))?,
                Way::Http(requests) => requests.wait(&mut run, wake.min(next_progress))?,
            }
        }
        let Run { jobs, stages, failures, traces, settled: _ } = run;
        let lost = jobs.iter().filter(|job| job.finish.is_none()).count() as u64;
        Ok(PathReport { jobs, lost, failures, stages, traces })
    }

    /// Waits until all messages of earlier runs have come back, or for so long, or until it is told to `stop`: what is still on
    /// its way then counts as lost.
    ///
    /// # Errors
    /// Of lines a connection that is closed, something else than lines.
    pub fn settle(&mut self, at_most: Duration, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        let end = now() + at_most.ns();
        let mut none = Run::default();
        match &mut self.way {
            Way::Lines(lines) => {
                while lines.is_out() && now() < end && !stop() {
                    lines.wait(&mut none, end.min(now() + PROGRESS_NS))?;
                }
                lines.out = 0;
            }
            Way::Http(requests) => {
                requests.leave();
                while requests.is_out() && now() < end && !stop() {
                    requests.settle(end.min(now() + PROGRESS_NS))?;
                }
                requests.forget();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
