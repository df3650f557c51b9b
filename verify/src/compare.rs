//! The arms of an experiment side by side.

use crate::bootstrap::{pair_distances, percentiles, quantile, stream, Estimate, PairDistances, Run, REPLICATES};
use crate::verdict::{judge, Verdict};
use crate::{Error, Percentile, Sample};
use giusto_model::Prediction;
use rand::Rng;
use rayon::prelude::*;
use serde::Serialize;

/// The runs of an experiment, arm by arm. Element *i* of an arm is round *i*; a run of one arm is compared with the
/// whole-core run of its round (with round *i* modulo their number, if there are fewer of those). Runs should hold
/// about equally many jobs: the chance part of a distance shrinks as they grow.
#[derive(Clone, Debug, Default)]
pub struct Arms {
    /// The service alone on a whole core; two or more give the noise floor.
    pub whole: Vec<Sample>,
    /// The core shared without a plan.
    pub unprotected: Vec<Sample>,
    /// The core shared as Giusto planned it.
    pub giusto: Vec<Sample>,
    /// What the plan predicted.
    pub predicted: Option<Predicted>,
    /// One sentence for every round that was left out because the machine disturbed it. Leave it out of all arms.
    pub voided: Vec<String>,
}

/// A prediction: every job, or the plan's summary of them.
#[derive(Clone, Debug)]
pub enum Predicted {
    /// Simulated response times.
    Sample(Sample),
    /// The percentiles kept in plan.json.
    Percentiles(Prediction),
}

/// Which runs a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// What the plan predicted.
    Predicted,
    /// The service alone on a whole core.
    Whole,
    /// The core shared without a plan.
    Unprotected,
    /// The core shared as Giusto planned it.
    Giusto,
}

impl Arm {
    /// The arm's name in tables and plots.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Predicted => "predicted",
            Arm::Whole => "a whole core",
            Arm::Unprotected => "shared, no plan",
            Arm::Giusto => "shared, Giusto",
        }
    }
}

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
    /// Kolmogorov–Smirnov statistic against the whole-core runs, median over the rounds.
    pub ks: Option<Estimate>,
}

/// How far apart two runs of the same thing are: the Wasserstein-1 distances of all pairs of whole-core runs, as paper
/// 000, section 3.4.3 uses one pair for a baseline.
///
/// Assumed: runs are exchangeable, and each is stationary but for correlation shorter than the bootstrap's blocks. What
/// varies from run to run only is seen through the pairs there are: one pair from two runs, three from three.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Number of whole-core runs.
    pub runs: usize,
    /// Median over all pairs, ns.
    #[serde(rename = "median_ns")]
    pub median: f64,
    /// Upper 95 % bound, ns: what a pair of whole-core runs stays under with 95 % probability. The larger of two: the 95th
    /// percentile of the distances that chance alone causes between two runs (by resampling the jobs of every pair in
    /// blocks, all pairs pooled), and the 95th percentile of the pairs observed (with fewer than 20: the largest).
    #[serde(rename = "upper_ns")]
    pub upper: f64,
}

/// Everything that is known about the arms, and the verdict on `as-if-alone`. Serialises as the JSON of `giusto verify`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// One row an arm that has any job, in the order of the table.
    pub rows: Vec<Row>,
    /// Noise floor; `None` with fewer than two whole-core runs or if a job of theirs never finished.
    pub floor: Option<NoiseFloor>,
    /// Wasserstein-1 distance from a whole core to Giusto's runs, ns: median over the rounds, with its interval.
    #[serde(rename = "distance_giusto_ns")]
    pub distance_giusto: Option<Estimate>,
    /// The same for the runs without a plan, ns.
    #[serde(rename = "distance_unprotected_ns")]
    pub distance_unprotected: Option<Estimate>,
    /// The same for the predicted jobs, ns: how far the prediction is off.
    #[serde(rename = "distance_predicted_ns")]
    pub distance_predicted: Option<Estimate>,
    /// What the distance may be, ns: twice the noise floor's upper bound.
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
    /// Distance of `arm` from a whole core, ns.
    pub fn distance(&self, arm: Arm) -> Option<Estimate> {
        match arm {
            Arm::Predicted => self.distance_predicted,
            Arm::Whole => None,
            Arm::Unprotected => self.distance_unprotected,
            Arm::Giusto => self.distance_giusto,
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
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Compares two runs; the intervals are those of [`compare`] with one round.
///
/// # Errors
/// [`Error::Empty`] if either has no job. O(n log n + [`REPLICATES`] · n).
pub fn compare_two(a: &Sample, b: &Sample, seed: u64) -> Result<TwoWay, Error> {
    for (sample, side) in [(a, "the first run"), (b, "the second run")] {
        if sample.is_empty() {
            return Err(Error::Empty { side });
        }
    }
    let (runs_a, runs_b) = (Run::all(std::slice::from_ref(a)), Run::all(std::slice::from_ref(b)));
    let pair = pair_distances(&runs_a[0], &runs_b[0], seed, 0);
    let (w1, ks) = over_rounds(&[pair], seed, 1);
    Ok(TwoWay { w1, ks, a: percentiles(a, seed, 2), b: percentiles(b, seed, 3), seed })
}

/// Compares the arms and judges `as-if-alone`: kept if the median distance of Giusto's runs from the whole-core runs is
/// at most twice the upper bound of the noise floor, missed if the whole 95 % interval of that distance lies above, else
/// nobody can tell ([`Verdict`] has the fine print).
///
/// The interval: rounds are drawn with replacement, and for each the error e* that chance may have put into its distance
/// d, by resampling the jobs of both runs in blocks. The low end is the 5th percentile of the median of d − e*, the high
/// end the 95th of the median of d + e*. It holds the true distance with at least 95 % probability, and reaches 0 when
/// nothing but chance is seen.
///
/// # Errors
/// [`Error::TooManyJobs`] if an arm has too many; where anything is missing the verdict says what. O([`REPLICATES`] · jobs
/// · runs).
pub fn compare(arms: &Arms, seed: u64) -> Result<Comparison, Error> {
    let empty = |runs: &[Sample]| runs.iter().all(Sample::is_empty);
    let predicted_runs = match &arms.predicted {
        Some(Predicted::Sample(sample)) => vec![sample.clone(); arms.whole.len()],
        _ => Vec::new(),
    };
    let whole = Run::all(&arms.whole);
    let floor = noise_floor(&whole, seed);
    let mut rows = Vec::new();
    let mut distance = |arm: Arm, runs: &[Sample]| -> Result<Option<Estimate>, Error> {
        let what = arm as u32;
        let distances = if arm == Arm::Whole { None } else { rounds(&whole, runs, seed, what) };
        if !empty(runs) {
            let distinct = if arm == Arm::Predicted { &runs[..1] } else { runs };
            let pooled = Sample::pool(distinct)?;
            rows.push(Row {
                arm,
                runs: distinct.len(),
                jobs: pooled.len() as u64,
                unfinished: pooled.unfinished() as u64,
                percentiles: percentiles(&pooled, seed, stream_of(what, 0)),
                ks: distances.map(|(_, ks)| ks),
            });
        }
        Ok(distances.map(|(w1, _)| w1))
    };
    let distance_predicted = distance(Arm::Predicted, &predicted_runs)?;
    distance(Arm::Whole, &arms.whole)?;
    let distance_unprotected = distance(Arm::Unprotected, &arms.unprotected)?;
    let distance_giusto = distance(Arm::Giusto, &arms.giusto)?;
    if let Some(Predicted::Percentiles(p)) = &arms.predicted {
        let exact = |(p, value): (f64, giusto_model::Duration)| {
            let ns = Some(value.ns());
            Percentile { p, value: ns, low: ns, high: ns }
        };
        let percentiles = [(50.0, p.p50), (99.0, p.p99), (99.9, p.p99_9)].map(exact).to_vec();
        rows.insert(0, Row { arm: Arm::Predicted, runs: 1, jobs: p.jobs, unfinished: 0, percentiles, ks: None });
    }
    let ratio = |distance: Option<Estimate>| Some(distance?.value / floor?.upper).filter(|ratio| !ratio.is_nan());
    let (ratio_giusto, ratio_unprotected) = (ratio(distance_giusto), ratio(distance_unprotected));
    let mut comparison = Comparison {
        rows,
        floor,
        distance_giusto,
        distance_unprotected,
        distance_predicted,
        limit: floor.map(|floor| 2.0 * floor.upper),
        ratio_giusto: ratio_giusto.filter(|r| r.is_finite()),
        ratio_unprotected: ratio_unprotected.filter(|r| r.is_finite()),
        verdict: Verdict::CannotTell,
        why: String::new(),
        seed,
    };
    (comparison.verdict, comparison.why) = judge(arms, &comparison);
    Ok(comparison)
}

/// Random streams: one number for each thing that is resampled, apart for every arm.
fn stream_of(arm: u32, index: usize) -> u32 {
    ((arm + 1) << 24) + index as u32
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// Both distances of `runs` from the whole-core runs of their rounds, median with interval; `None` if a side is empty.
fn rounds(whole: &[Run], runs: &[Sample], seed: u64, arm: u32) -> Option<(Estimate, Estimate)> {
    let runs = Run::all(runs);
    if runs.is_empty() || whole.is_empty() || whole.iter().chain(&runs).any(|run| run.sample.is_empty()) {
        return None;
    }
    let round = |(i, run)| pair_distances(&whole[i % whole.len()], run, seed, stream_of(arm, 2 + i));
    let pairs: Vec<PairDistances> = runs.par_iter().enumerate().map(round).collect();
    Some(over_rounds(&pairs, seed, stream_of(arm, 1)))
}

/// Median over the rounds of W1 and KS, with intervals as [`compare`] describes. Not for an empty list.
fn over_rounds(pairs: &[PairDistances], seed: u64, what: u32) -> (Estimate, Estimate) {
    let w1 = median(pairs.iter().map(|p| p.w1).collect());
    let ks = median(pairs.iter().map(|p| p.ks).collect());
    if pairs.iter().any(|p| p.w1_error.is_empty()) {
        // Jobs that never finished: nothing bounds the distance from above.
        let low = if w1.is_infinite() { w1 } else { 0.0 };
        return (Estimate { value: w1, low, high: f64::INFINITY }, Estimate { value: ks, low: 0.0, high: 1.0 });
    }
    let estimate = |value, distance: fn(&PairDistances) -> (f64, &[f64])| {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for replicate in 0..REPLICATES {
            let mut rng = stream(seed, what, replicate);
            let drawn = (0..pairs.len()).map(|_| {
                let (observed, errors) = distance(&pairs[rng.random_range(0..pairs.len() as u32) as usize]);
                (observed, errors[rng.random_range(0..errors.len() as u32) as usize])
            });
            let drawn: Vec<(f64, f64)> = drawn.collect();
            low.push(median(drawn.iter().map(|(observed, error)| observed - error).collect()));
            high.push(median(drawn.iter().map(|(observed, error)| observed + error).collect()));
        }
        Estimate::from_ends(value, low, high)
    };
    let mut ks = estimate(ks, |pair| (pair.ks, &pair.ks_error));
    ks.high = ks.high.min(1.0);
    (estimate(w1, |pair| (pair.w1, &pair.w1_error)), ks)
}

/// See [`NoiseFloor`].
fn noise_floor(whole: &[Run], seed: u64) -> Option<NoiseFloor> {
    let unfit = |run: &Run| run.sample.is_empty() || run.sample.unfinished() > 0;
    if whole.len() < 2 || whole.iter().any(unfit) {
        return None;
    }
    let pairs: Vec<(usize, usize)> = (0..whole.len()).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let pairs: Vec<PairDistances> = pairs
        .into_par_iter()
        .enumerate()
        .map(|(index, (i, j))| pair_distances(&whole[i], &whole[j], seed, stream_of(Arm::Whole as u32, 2 + index)))
        .collect();
    let mut chance: Vec<f64> = pairs.iter().flat_map(|pair| pair.w1_error.iter().copied()).collect();
    chance.sort_unstable_by(f64::total_cmp);
    let mut observed: Vec<f64> = pairs.iter().map(|p| p.w1).collect();
    observed.sort_unstable_by(f64::total_cmp);
    let upper = quantile(&chance, 0.95).max(quantile(&observed, 0.95));
    Some(NoiseFloor { runs: whole.len(), median: median(observed), upper })
}
