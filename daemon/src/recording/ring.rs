//! The last seconds, in rings of bounded size.

use super::form::{RecordedLate, RecordedThread, Recording};
use crate::ObservedBy;
use giusto_measure::timeline::{Change, What};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// At most so many are kept: 12 MB of changes, and 4 MB each of jobs and points.
const CHANGES: usize = 250_000;
const JOBS: usize = 100_000;
const POINTS: usize = 100_000;

/// What `what` is in a [`Recording`].
const RUNS: u64 = 0;
const STAYS: u64 = 1;
const WAKES: u64 = 2;

/// A service as it was known when something of it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) by: ObservedBy,
    pub(super) within_ns: Option<u64>,
}

/// A job of a service, by the number that the ring gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnJob {
    pub(super) service: usize,
    pub(super) thread: u32,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// What was left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at_ns: u64,
    pub(super) service: usize,
    pub(super) part: Option<u32>,
    pub(super) left_ns: i64,
    pub(super) missed: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Services by their numbers here.
    names: Vec<String>,
    known: BTreeMap<usize, Known>,
    changes: VecDeque<Change>,
    jobs: VecDeque<OwnJob>,
    points: VecDeque<Point>,
    /// What was told of each budget last.
    last: BTreeMap<(usize, Option<u32>), (i64, u64)>,
    /// Everything until then may be incomplete, as older things had to go.
    gone_ns: u64,
}

impl Ring {
    /// A ring of a recording that begins now.
    pub(super) fn new(now_ns: u64) -> Ring {
        Ring { gone_ns: now_ns, ..Ring::default() }
    }

    /// The number of a service.
    pub(super) fn number(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    /// What is observed of a service, and what its jobs may take.
    pub(super) fn is_known(&mut self, service: usize, known: Known) {
        self.known.insert(service, known);
    }

    pub(super) fn change(&mut self, change: Change) {
        self.changes.push_back(change);
        while self.changes.len() > CHANGES {
            self.gone_ns = self.gone_ns.max(self.changes.pop_front().map_or(0, |gone| gone.at_ns));
        }
    }

    /// Whether the job is late.
    pub(super) fn job(&mut self, job: OwnJob) -> bool {
        self.jobs.push_back(job);
        while self.jobs.len() > JOBS {
            self.gone_ns = self.gone_ns.max(self.jobs.pop_front().map_or(0, |gone| gone.to_ns));
        }
        let within = self.known.get(&job.service).and_then(|known| known.within_ns);
        within.is_some_and(|within| job.to_ns - job.from_ns > within)
    }

    /// A value that stays is kept once.
    pub(super) fn point(&mut self, point: Point) {
        let now = (point.left_ns, point.missed);
        if self.last.insert((point.service, point.part), now) == Some(now) {
            return;
        }
        self.points.push_back(point);
        while self.points.len() > POINTS {
            self.gone_ns = self.gone_ns.max(self.points.pop_front().map_or(0, |gone| gone.at_ns));
        }
    }

    /// The name of a service.
    pub(super) fn name(&self, service: usize) -> &str {
        &self.names[service]
    }

    /// What was kept from the first to the second time; the services are those of `recording`, which is filled, and whose
    /// processes are told by `service_of`. O(all that is kept).
    pub(super) fn cut(
        &self,
        (from_ns, until_ns): (u64, u64),
        late: Option<&OwnJob>,
        mut recording: Recording,
        service_of: impl Fn(u32) -> Option<String>,
    ) -> Recording {
        let from_ns = from_ns.max(self.gone_ns).min(until_ns);
        (recording.from_ns, recording.until_ns) = (from_ns, until_ns);
        recording.late = late.map(|job| RecordedLate {
            service: self.name(job.service).into(),
            from_ns: job.from_ns,
            to_ns: job.to_ns,
        });
        let place = |name: &str| recording.services.iter().position(|service| service.name == name);
        let places: Vec<Option<usize>> = self.names.iter().map(|name| place(name)).collect();
        let mut threads: BTreeMap<u32, RecordedThread> = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.at_ns <= until_ns && change.thread != 0) {
            let new = || {
                let service = service_of(change.process).and_then(|name| place(&name));
                RecordedThread { thread: change.thread, process: change.process, name: change.name(), service }
            };
            threads.entry(change.thread).or_insert_with(new);
        }
        recording.changes = self.standing(from_ns);
        let new = self.changes.iter().filter(|change| (from_ns..=until_ns).contains(&change.at_ns));
        recording.changes.extend(new.map(|change| told(change, change.what)));
        recording.changes.sort_by_key(|[at, ..]| *at);
        let used: BTreeSet<u64> = recording.changes.iter().map(|[_, _, thread, _]| *thread).collect();
        recording.threads = threads.into_values().filter(|one| used.contains(&one.thread.into())).collect();
        for job in self.jobs.iter().filter(|job| job.from_ns <= until_ns && job.to_ns >= from_ns) {
            if let Some(service) = places[job.service] {
                recording.jobs.push([service as u64, u64::from(job.thread), job.from_ns, job.to_ns]);
            }
        }
        for (service, known) in &self.known {
            let Some(place) = places[*service] else { continue };
            (recording.services[place].jobs, recording.services[place].within_ns) = (Some(known.by), known.within_ns);
        }
        for point in self.points.iter().filter(|point| (from_ns..=until_ns).contains(&point.at_ns)) {
            let Some(place) = places[point.service] else { continue };
            let budgets = &mut recording.services[place].budgets;
            let nth = budgets.iter().position(|(part, _)| *part == point.part).unwrap_or_else(|| {
                budgets.push((point.part, Vec::new()));
                budgets.len() - 1
            });
            budgets[nth].1.push((point.at_ns, point.left_ns, point.missed));
        }
        recording
    }

    /// How the cores stood at a time: what runs there, and what waits.
    fn standing(&self, at_ns: u64) -> Vec<[u64; 4]> {
        let (mut running, mut waiting) = (BTreeMap::<u32, Change>::new(), BTreeMap::<u32, Change>::new());
        for change in self.changes.iter().take_while(|change| change.at_ns < at_ns) {
            match change.what {
                What::Wakes => drop(waiting.entry(change.thread).or_insert(*change)),
                What::Runs { stays } => {
                    waiting.remove(&change.thread);
                    let before = running.insert(change.core, *change);
                    if let Some(before) = before.filter(|before| stays && before.thread != 0) {
                        waiting.insert(before.thread, Change { at_ns: change.at_ns, ..before });
                    }
                }
            }
        }
        let waiting = waiting.values().map(|change| told(change, What::Wakes));
        running.values().map(|change| told(change, What::Runs { stays: false })).chain(waiting).collect()
    }
}

fn told(change: &Change, what: What) -> [u64; 4] {
    let what = match what {
        What::Runs { stays: false } => RUNS,
        What::Runs { stays: true } => STAYS,
        What::Wakes => WAKES,
    };
    [change.at_ns, change.core.into(), change.thread.into(), what]
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
