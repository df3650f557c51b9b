//! The records of messages as they grow.

use crate::clock::now;
use giusto_model::{Instant, JobRecord};
use std::collections::BTreeMap;

/// How long messages are waited for after the last one was sent, a request after it was due, and the last stage to connect.
pub(super) const GRACE_NS: u64 = 5_000_000_000;

/// One run over the ends of a path.
#[derive(Default)]
pub(super) struct Run {
    pub(super) jobs: Vec<JobRecord>,
    /// Of the recorded ones, those that came back or are known to be lost.
    pub(super) settled: usize,
    /// How long they were at each stage that tells, in ns.
    pub(super) stages: BTreeMap<String, Vec<u64>>,
    /// Why messages were lost, and how many.
    pub(super) failures: BTreeMap<String, u64>,
    /// The traces of the recorded ones, where they have some.
    pub(super) traces: Vec<String>,
}

impl Run {
    /// Takes up a message that is due: its place among the records, where it is recorded, and the time now.
    pub(super) fn release(&mut self, job: Option<u64>, due: u64) -> (Option<usize>, u64) {
        let at = now();
        let record = job.map(|job| {
            let (due, release) = (Instant::from_ns(due), Instant::from_ns(at));
            self.jobs.push(JobRecord { task: 0, job, due, release, finish: None });
            self.jobs.len() - 1
        });
        (record, at)
    }

    /// A message came back; to be called once for each.
    pub(super) fn done(&mut self, record: Option<usize>, at: u64) {
        if let Some(job) = record.and_then(|record| self.jobs.get_mut(record)) {
            job.finish = Some(Instant::from_ns(at));
            self.settled += 1;
        }
    }

    /// A message will not come back; to be called once for each.
    pub(super) fn lost(&mut self, record: Option<usize>, why: &str) {
        if record.is_some() {
            *self.failures.entry(why.into()).or_default() += 1;
            self.settled += 1;
        }
    }
}
