//! The arms of an experiment side by side: what is known of them.

use crate::bootstrap::Estimate;
use crate::verdict::Verdict;
use crate::{Arm, Percentile};
use serde::Serialize;

/// One arm: all its runs pooled.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which arm.
    pub arm: Arm,
    /// How many runs.
    pub runs: usize,
    /// How many jobs in all runs.
    pub jobs: u64,
    /// How many of them never finished.
    pub unfinished: u64,
    /// p50, p99 and p99.9 of all jobs together.
    pub percentiles: Vec<Percentile>,
    /// Kolmogorov–Smirnov statistic against the whole-core runs, formed as the distance is.
    pub ks: Option<Estimate>,
}

/// How far apart two runs of the same thing are: the Wasserstein-1 distance of the two whole-core runs, as
/// [LiH21, section 3.4.3] uses one such pair for a baseline.
///
/// Of a trial ([`Source::Trial`]) it is the distance of all first whole-core slices from all second ones; its upper
/// bound is what
/// the paired bootstrap over the cycles gives ([`compare`]). Of files it is the distance within each round:
/// runs of different rounds are not compared: what drifts between rounds is no part of a distance, so it may be none of
/// the floor.
///
/// Assumed of files: the runs of a round are exchangeable, and each is stationary but for correlation shorter than the
/// bootstrap's
/// blocks. What varies from run to run only is seen through the pairs there are, one a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Number of rounds with both whole-core runs.
    pub rounds: usize,
    /// Of a trial the distance, of files the median over the rounds, ns.
    #[serde(rename = "median_ns")]
    pub median: f64,
    /// Upper 95 % bound, ns: what a pair of whole-core runs of one round stays under with 95 % probability. The larger of
    /// two: the 95th percentile of the distances that chance alone causes between two runs (by resampling the jobs of
    /// every pair in blocks, all pairs pooled), and the 95th percentile of the pairs observed (with fewer than 20: the
    /// largest).
    #[serde(rename = "upper_ns")]
    pub upper: f64,
}

/// Everything that is known about the arms, and the verdict on `as-if-alone`. Serialises as the JSON of `giusto verify`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// One row an arm that has any job, in the order of the table.
    pub rows: Vec<Row>,
    /// Noise floor; `None` without a round that has two whole-core runs, or if a job of such a pair never finished.
    pub floor: Option<NoiseFloor>,
    /// Wasserstein-1 distance from a whole core to Giusto's runs (or those to be judged), ns, with its interval; of files the
    /// median over the rounds.
    #[serde(rename = "distance_giusto_ns")]
    pub distance_giusto: Option<Estimate>,
    /// The same for the runs without a plan, ns.
    #[serde(rename = "distance_unprotected_ns")]
    pub distance_unprotected: Option<Estimate>,
    /// The same for the predicted jobs, ns: how far the prediction is off.
    #[serde(rename = "distance_predicted_ns")]
    pub distance_predicted: Option<Estimate>,
    /// What the distance may be, ns: twice the noise floor's upper bound; of a trial at least [`NEGLIGIBLE`] of the median
    /// response time on a whole core.
    #[serde(rename = "limit_ns")]
    pub limit: Option<f64>,
    /// Giusto's distance as a multiple of the noise floor's upper bound; `None` without one, or if it is 0.
    pub ratio_giusto: Option<f64>,
    /// The same for the runs without a plan.
    pub ratio_unprotected: Option<f64>,
    /// Was the promise kept?
    pub verdict: Verdict,
    /// Why, in words for people.
    pub why: String,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Comparison {
    /// The limit as a part of the median response time on a whole core: the smaller, the more a kept promise says.
    pub fn bluntness(&self) -> Option<f64> {
        let whole = self.rows.iter().find(|row| matches!(row.arm, Arm::Whole | Arm::Reference))?;
        let median = whole.percentiles.first()?.value?;
        Some(self.limit? / median.max(1) as f64)
    }

    /// Distance of `arm` from a whole core, ns.
    pub fn distance(&self, arm: Arm) -> Option<Estimate> {
        match arm {
            Arm::Predicted => self.distance_predicted,
            Arm::Whole | Arm::Reference => None,
            Arm::Unprotected => self.distance_unprotected,
            Arm::Giusto | Arm::Measured => self.distance_giusto,
        }
    }
}

/// Two runs side by side, without a verdict: what is noise needs repeated runs.
#[derive(Clone, Debug, Serialize)]
pub struct TwoWay {
    /// Wasserstein-1 distance, ns.
    #[serde(rename = "w1_ns")]
    pub w1: Estimate,
    /// Kolmogorov–Smirnov statistic.
    pub ks: Estimate,
    /// Percentiles of the first run.
    pub a: Vec<Percentile>,
    /// Percentiles of the second run.
    pub b: Vec<Percentile>,
    /// The same as they were predicted, where that is known.
    pub predicted: Option<Vec<Percentile>>,
    /// How many jobs each run has.
    pub jobs: [u64; 2],
    /// How many of them never finished.
    pub unfinished: [u64; 2],
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl TwoWay {
    /// `3 of 1000 never finished`, of each run with such jobs.
    pub(crate) fn never_finished(&self) -> [Option<String>; 2] {
        [0, 1].map(|run| match self.unfinished[run] {
            0 => None,
            some => Some(format!("{some} of {} never finished", self.jobs[run])),
        })
    }
}
