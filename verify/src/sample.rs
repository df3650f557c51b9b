//! The response times of one run.

use crate::error::Error;
use giusto_model::{JobRecord, Lateness};
use serde::Serialize;
use std::sync::Arc;

/// The percentiles that tables show.
pub const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Most jobs in one run: positions fit 32 bits, and products of two run sizes 62.
pub(crate) const MAX_JOBS: usize = (1 << 31) - 1;

/// Stands for the response time of a job that never finished: later than any other.
pub(crate) const NEVER: u64 = u64::MAX;

/// The response times of one run in ns, both in order of arrival (the bootstrap needs to know which jobs were neighbours)
/// and sorted. A job that never finished counts as +infinity. A clone is the same run, not another with equal times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    arrival: Arc<[u64]>,
    sorted: Arc<[u64]>,
}

/// A percentile and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// Which one: 99.9 means that 99.9 % of the jobs are no slower.
    pub p: f64,
    /// Its value; `None` if it falls on a job that never finished.
    #[serde(rename = "value_ns")]
    pub value: Option<u64>,
    /// Lower end of the interval; `None` for never.
    #[serde(rename = "low_ns")]
    pub low: Option<u64>,
    /// Upper end; `None` if the data do not bound it: jobs that never finished, or too few jobs for so high a percentile.
    #[serde(rename = "high_ns")]
    pub high: Option<u64>,
}

impl Sample {
    /// The response times of `jobs`, put in order of release.
    ///
    /// # Errors
    /// [`Error::Backwards`] for a job that finishes before its release, [`Error::Stalled`] if the load generator itself
    /// stalled, [`Error::TooManyJobs`]. O(n log n).
    pub fn from_jobs(jobs: &[JobRecord]) -> Result<Self, Error> {
        let lateness = Lateness::of(jobs);
        let mut jobs: Vec<&JobRecord> = jobs.iter().collect();
        jobs.sort_unstable_by_key(|j| (j.release, j.task, j.job));
        if let Some(j) = jobs.iter().find(|j| j.finish.is_some() && j.response_ns().is_none()) {
            return Err(Error::Backwards { task: j.task, job: j.job });
        }
        if lateness.is_stall() {
            return Err(Error::Stalled { lateness });
        }
        Sample::from_responses(jobs.iter().map(|j| j.response_ns()))
    }

    /// Response times in ns in order of arrival; `None` for a job that never finished.
    ///
    /// # Errors
    /// [`Error::TooManyJobs`]. O(n log n).
    pub fn from_responses(responses: impl IntoIterator<Item = Option<u64>>) -> Result<Self, Error> {
        let arrival: Arc<[u64]> = responses.into_iter().map(|r| r.unwrap_or(NEVER)).collect();
        if arrival.len() > MAX_JOBS {
            return Err(Error::TooManyJobs { jobs: arrival.len(), most: MAX_JOBS });
        }
        let mut sorted = arrival.to_vec();
        sorted.sort_unstable();
        Ok(Sample { arrival, sorted: sorted.into() })
    }

    /// All jobs of `runs` as one sample, run after run.
    ///
    /// # Errors
    /// [`Error::TooManyJobs`]. O(n log n).
    pub fn pool<'a>(runs: impl IntoIterator<Item = &'a Sample>) -> Result<Self, Error> {
        Sample::from_responses(runs.into_iter().flat_map(|r| r.arrival.iter().map(|&ns| Some(ns))))
    }

    /// Number of jobs, finished or not.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True without any job.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Number of jobs that never finished.
    pub fn unfinished(&self) -> usize {
        self.len() - self.finished().len()
    }

    /// Response times of the jobs that finished, in ns, sorted.
    pub fn finished(&self) -> &[u64] {
        &self.sorted[..self.sorted.partition_point(|&ns| ns < NEVER)]
    }

    /// The `p`-th percentile in ns by nearest rank (the smallest response time that at least `p` % of the jobs do not
    /// exceed), `p` to a thousandth; `None` if it is a job that never finished, or if there is no job. O(1).
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let rank = rank(p, self.len());
        self.sorted.get(rank.checked_sub(1)?).copied().filter(|&ns| ns < NEVER)
    }

    /// Whether both are clones of one.
    pub(crate) fn is_same_run(&self, other: &Sample) -> bool {
        Arc::ptr_eq(&self.arrival, &other.arrival)
    }

    /// Response times in ns in order of arrival, [`NEVER`] among them.
    pub(crate) fn arrival(&self) -> &[u64] {
        &self.arrival
    }

    /// Response times in ns, sorted, [`NEVER`] at the end.
    pub(crate) fn sorted(&self) -> &[u64] {
        &self.sorted
    }
}

/// Nearest rank, from 1: ⌈p·n/100⌉ in whole numbers, because 99.9 is not exact in binary. 0 only for no jobs.
pub(crate) fn rank(p: f64, n: usize) -> usize {
    let thousandths = (p.clamp(0.0, 100.0) * 1000.0).round() as u128;
    (thousandths * n as u128).div_ceil(100_000).max(u128::from(n > 0)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Instant;

    #[test]
    fn percentiles_are_nearest_ranks_and_unfinished_jobs_are_slower_than_any() {
        let run = Sample::from_responses((1..=1000).rev().map(Some)).unwrap();
        for (p, ns) in [(0.0, 1), (0.1, 1), (50.0, 500), (99.0, 990), (99.9, 999), (99.901, 1000), (100.0, 1000)] {
            assert_eq!(run.percentile(p), Some(ns), "p{p}");
        }
        let run = Sample::from_responses([None, Some(3), Some(1), Some(2)]).unwrap();
        assert_eq!((run.percentile(75.0), run.percentile(76.0)), (Some(3), None));
        assert_eq!((run.len(), run.unfinished(), run.finished()), (4, 1, &[1, 2, 3][..]));
        assert_eq!(Sample::from_responses([]).unwrap().percentile(50.0), None);
    }

    #[test]
    fn jobs_are_ordered_by_release_and_a_backward_clock_is_named() {
        let job = |job, release, finish: Option<u64>| JobRecord {
            task: 4,
            job,
            due: Instant::from_ns(release),
            release: Instant::from_ns(release),
            finish: finish.map(Instant::from_ns),
        };
        let run = Sample::from_jobs(&[job(1, 50, Some(51)), job(2, 70, None), job(0, 10, Some(40))]).unwrap();
        assert_eq!(run.arrival(), [30, 1, NEVER]);
        assert_eq!(Sample::from_jobs(&[job(7, 9, Some(8))]), Err(Error::Backwards { task: 4, job: 7 }));
    }

    #[test]
    fn jobs_of_a_generator_that_stalled_are_no_measurement() {
        // Every millisecond one job of 1 ms; in the bad run the generator stands still for 2 of 5 s.
        let run = |stall: u64| -> Vec<JobRecord> {
            let job = |job: u64| {
                let late = stall.saturating_sub(job * 1_000_000);
                let [due, release, finish] =
                    [0, late, late + 1_000_000].map(|ns| Instant::from_ns(job * 1_000_000 + ns));
                JobRecord { task: 0, job, due, release, finish: Some(finish) }
            };
            (0..5000).map(job).collect()
        };
        assert_eq!(Sample::from_jobs(&run(0)).unwrap().percentile(99.0), Some(1_000_000));
        let error = Sample::from_jobs(&run(2_000_000_000)).unwrap_err();
        assert!(matches!(error, Error::Stalled { .. }));
        for words in ["load generator itself stalled", "limit 100 us", "measure it again"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
