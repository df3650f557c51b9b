//! Statistics that stream: their size does not grow with the run.

use crate::histogram::Histogram;
use giusto_model::{Duration, Prediction};

/// How far a percentile of [`Stats`] may lie above the true one, as a share of it: the histogram keeps three significant
/// digits. Never below, and the largest is exact.
pub const PERCENTILE_ERROR: f64 = 0.001;

/// Response times of one server's jobs. Percentiles are off by [`PERCENTILE_ERROR`] at most, the rest is exact.
#[derive(Clone, Debug)]
pub struct Stats {
    histogram: Histogram,
    smallest_ns: u64,
    largest_ns: u64,
    sum_ns: u128,
    /// Jobs released but not finished at the horizon.
    pub unfinished: u64,
    /// Processor time that the server consumed.
    pub consumed: Duration,
}

impl Stats {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::default();
        Stats { histogram, smallest_ns: u64::MAX, largest_ns: 0, sum_ns: 0, unfinished: 0, consumed: Duration::ZERO }
    }

    #[inline]
    pub(crate) fn add(&mut self, response_ns: u64) {
        self.histogram.add(response_ns.min(1 << 62));
        self.smallest_ns = self.smallest_ns.min(response_ns);
        self.largest_ns = self.largest_ns.max(response_ns);
        self.sum_ns += u128::from(response_ns);
    }

    /// Adds the jobs of another run.
    pub fn merge(&mut self, other: &Stats) {
        self.histogram.merge(&other.histogram);
        self.smallest_ns = self.smallest_ns.min(other.smallest_ns);
        self.largest_ns = self.largest_ns.max(other.largest_ns);
        self.sum_ns += other.sum_ns;
        self.unfinished += other.unfinished;
        self.consumed = self.consumed.checked_add(other.consumed).unwrap_or(Duration::from_ns(u64::MAX));
    }

    /// Finished jobs.
    pub fn jobs(&self) -> u64 {
        self.histogram.len()
    }
    /// Mean response time in ns; 0 if no job finished.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / (self.jobs().max(1)) as f64
    }
    /// Smallest response time, exact; 0 if no job finished.
    pub fn min(&self) -> Duration {
        Duration::from_ns(if self.jobs() == 0 { 0 } else { self.smallest_ns })
    }
    /// Largest response time, exact; 0 if no job finished.
    pub fn max(&self) -> Duration {
        Duration::from_ns(self.largest_ns)
    }
    /// The `p`-th percentile, p in percent: at most [`PERCENTILE_ERROR`] above the true one, and never above the largest; 0
    /// if no job finished.
    pub fn percentile(&self, p: f64) -> Duration {
        Duration::from_ns(self.histogram.quantile(p / 100.0).min(self.largest_ns))
    }
    /// The percentiles that a plan carries.
    pub fn prediction(&self) -> Prediction {
        let (p50, p99, p99_9) = (self.percentile(50.0), self.percentile(99.0), self.percentile(99.9));
        Prediction { jobs: self.jobs(), p50, p99, p99_9, max: self.max() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_exact_and_percentiles_are_as_near_as_promised_and_never_beyond_it() {
        // The histogram alone says 150.015 us to all of these.
        let mut all_alike = Stats::new();
        (0..1000).for_each(|_| all_alike.add(150_000));
        let p = all_alike.prediction();
        assert_eq!([p.p50, p.p99, p.p99_9, p.max], [Duration::from_us(150); 4]);

        let times: Vec<u64> = (1..=100_000u64).map(|k| 777 + k * k % 999_983 * 31).collect();
        let mut stats = Stats::new();
        times.iter().for_each(|&ns| stats.add(ns));
        let mut sorted = times;
        sorted.sort_unstable();
        let mut inexact = 0;
        for per_mille in [1, 10, 500, 900, 990, 999, 1000] {
            let (true_ns, found) = (sorted[per_mille * 100 - 1], stats.percentile(per_mille as f64 / 10.0).ns());
            assert!(found >= true_ns && found as f64 <= true_ns as f64 * (1.0 + PERCENTILE_ERROR), "{true_ns} {found}");
            inexact += usize::from(found > true_ns);
        }
        assert!(inexact > 0, "the error is stated because it occurs");
        assert_eq!((stats.min().ns(), stats.max().ns()), (sorted[0], sorted[99_999]));
        assert_eq!((Stats::new().min(), Stats::new().max()), (Duration::ZERO, Duration::ZERO));
    }
}
