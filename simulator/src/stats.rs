//! Statistics that stream: their size does not grow with the run.

use giusto_model::{Duration, Prediction};
use hdrhistogram::Histogram;

/// Response times of one server's jobs. Percentiles are exact to three significant digits, the rest is exact.
#[derive(Clone, Debug)]
pub struct Stats {
    histogram: Histogram<u64>,
    sum_ns: u128,
    /// Jobs released but not finished at the horizon.
    pub unfinished: u64,
    /// Processor time that the server consumed.
    pub consumed: Duration,
}

impl Stats {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, 1 << 62, 3).expect("the bounds are within the library's range");
        Stats { histogram, sum_ns: 0, unfinished: 0, consumed: Duration::ZERO }
    }

    #[inline]
    pub(crate) fn add(&mut self, response_ns: u64) {
        self.histogram.saturating_record(response_ns);
        self.sum_ns += u128::from(response_ns);
    }

    /// Finished jobs.
    pub fn jobs(&self) -> u64 {
        self.histogram.len()
    }
    /// Mean response time in ns; 0 if no job finished.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / (self.jobs().max(1)) as f64
    }
    /// The `p`-th percentile, p in percent.
    pub fn percentile(&self, p: f64) -> Duration {
        Duration::from_ns(self.histogram.value_at_quantile(p / 100.0))
    }
    /// The percentiles that a plan carries.
    pub fn prediction(&self) -> Prediction {
        let (p50, p99, p99_9) = (self.percentile(50.0), self.percentile(99.0), self.percentile(99.9));
        Prediction { jobs: self.jobs(), p50, p99, p99_9, max: Duration::from_ns(self.histogram.max()) }
    }
}
