//! The arms of an experiment side by side.

use crate::bootstrap::{quantile, stream, Estimate, PairDistances, Runs, REPLICATES, ROUNDS};
use crate::comparison::{Comparison, NoiseFloor, Row, TwoWay};
use crate::interval::percentiles_at;
use crate::judge::{judge, NEGLIGIBLE};
use crate::slices::{apart, Apart};
use crate::verdict::Verdict;
use crate::{Arm, Arms, Error, Percentile, Predicted, Sample, Source, PERCENTILES};
use giusto_model::{Duration, Prediction};
use rand::RngExt;
use rayon::prelude::*;

/// Compares two runs; the intervals are those of [`compare`] with one round. What was `predicted` is shown beside them.
///
/// # Errors
/// [`Error::Empty`] if either has no job. O(n log n + [`REPLICATES`] · n).
pub fn compare_two(a: &Sample, b: &Sample, predicted: Option<&Prediction>, seed: u64) -> Result<TwoWay, Error> {
    for (sample, side) in [(a, "the first run"), (b, "the second run")] {
        if sample.is_empty() {
            return Err(Error::Empty { side });
        }
    }
    let pair: Vec<PairDistances> = Runs::new([a, b]).distances(a, b, seed).into_iter().collect();
    let (w1, ks) = over_rounds(&pair, seed, ROUNDS);
    Ok(TwoWay {
        w1,
        ks,
        a: percentiles_at(&PERCENTILES, a),
        b: percentiles_at(&PERCENTILES, b),
        predicted: predicted.map(exact),
        jobs: [a, b].map(|run| run.len() as u64),
        unfinished: [a, b].map(|run| run.unfinished() as u64),
        seed,
    })
}

/// Compares the arms and judges `as-if-alone` ([`Verdict`] has the rule): is the distance of Giusto's runs from the
/// whole-core runs at most the limit?
///
/// Of a trial the runs are slices of a second or less, and a round is a cycle of them. Compared are the distribution
/// functions of all
/// slices of an arm; the distance is the average of those from the first and from the second whole-core slices.
/// Intervals and the
/// noise floor's bound come from a paired bootstrap over the cycles: see the module `slices`.
///
/// Of files: the distance of a run is the average of its distances to the two whole-core runs of its round. Each of these is a
/// distance of one run from one other, made within minutes, as that of the noise floor is: were the run a third one on a
/// whole core, both would have the same distribution. (Against the pooled pair it would not: twice the jobs, half the
/// chance.) The arm's distance is the median over the rounds that have all three runs.
///
/// The interval is made by [`REPLICATES`] resamples. In each, the jobs of every run are drawn anew in blocks of neighbours
/// (circular block bootstrap), once for all the pairs that the run is part of; that gives each round the error e* that
/// chance may have put into its distance d. Then rounds are drawn with replacement. The low end is the 5th percentile of
/// the median of d − e*, the high end the 95th of the median of d + e*. It holds the true distance with at least 95 %
/// probability, and reaches 0 when nothing but chance is seen. No run is ever compared with one of another round, so
/// drift between rounds widens neither interval nor floor.
///
/// # Errors
/// [`Error::TooManyJobs`] if an arm has too many; where anything is missing the verdict says what. O([`REPLICATES`] · jobs
/// · runs).
pub fn compare(arms: &Arms, seed: u64) -> Result<Comparison, Error> {
    let all = [Arm::Predicted, arms.reference(), Arm::Unprotected, arms.judged()];
    let runs = match arms.source {
        Source::Trial => Runs::default(),
        Source::Files => Runs::new(all.into_iter().flat_map(|arm| arms.runs(arm))),
    };
    let floor = match arms.source {
        Source::Trial => noise_of_slices(arms, seed),
        Source::Files => noise_floor(arms, &runs, seed),
    };
    let mut rows = Vec::new();
    let mut distances = [None; 4];
    for (arm, distance) in all.into_iter().zip(&mut distances) {
        let found = match arms.source {
            Source::Trial => over_slices(arms, arm, seed),
            Source::Files => over_arm(arms, arm, &runs, seed),
        };
        let samples = arms.runs(arm);
        let pooled = Sample::pool(samples.iter().copied())?;
        if !pooled.is_empty() {
            rows.push(Row {
                arm,
                runs: samples.len(),
                jobs: pooled.len() as u64,
                unfinished: pooled.unfinished() as u64,
                percentiles: percentiles_at(&PERCENTILES, &pooled),
                ks: found.map(|(_, ks)| ks),
            });
        }
        *distance = found.map(|(w1, _)| w1);
    }
    let [distance_predicted, _, distance_unprotected, distance_giusto] = distances;
    if let Some(Predicted::Percentiles(p)) = &arms.predicted {
        let percentiles = exact(p);
        rows.insert(0, Row { arm: Arm::Predicted, runs: 1, jobs: p.jobs, unfinished: 0, percentiles, ks: None });
    }
    let ratio = |distance: Option<Estimate>| Some(distance?.value / floor?.upper).filter(|ratio| !ratio.is_nan());
    let (ratio_giusto, ratio_unprotected) = (ratio(distance_giusto), ratio(distance_unprotected));
    let median = rows.iter().find(|row| row.arm == arms.reference()).and_then(|row| row.percentiles.first()?.value);
    let negligible = match arms.source {
        Source::Trial => median.map_or(0.0, |ns| ns as f64 * NEGLIGIBLE),
        Source::Files => 0.0,
    };
    let mut comparison = Comparison {
        rows,
        floor,
        distance_giusto,
        distance_unprotected,
        distance_predicted,
        limit: floor.map(|floor| (2.0 * floor.upper).max(negligible)),
        ratio_giusto: ratio_giusto.filter(|r| r.is_finite()),
        ratio_unprotected: ratio_unprotected.filter(|r| r.is_finite()),
        verdict: Verdict::CannotTell,
        why: String::new(),
        seed,
    };
    (comparison.verdict, comparison.why) = judge(arms, &comparison);
    Ok(comparison)
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

/// The percentiles of a prediction: no interval, as nothing was drawn.
fn exact(of: &Prediction) -> Vec<Percentile> {
    let point = |(p, at): (f64, Duration)| {
        let ns = Some(at.ns());
        Percentile { p, value: ns, low: ns, high: ns }
    };
    PERCENTILES.into_iter().zip([of.p50, of.p99, of.p99_9]).map(point).collect()
}

/// Both distances of `arm` from the whole-core slices, with intervals; `None` without a cycle that has all three.
fn over_slices(arms: &Arms, arm: Arm, seed: u64) -> Option<(Estimate, Estimate)> {
    let cycles = arms.beside_whole(arm);
    let from = |whole: usize| -> Option<Apart> {
        apart(&cycles.iter().map(|cycle| [cycle[whole], cycle[2]]).collect::<Vec<_>>(), seed)
    };
    Some(from(0)?.average(from(1)?).estimates())
}

/// See [`NoiseFloor`].
fn noise_of_slices(arms: &Arms, seed: u64) -> Option<NoiseFloor> {
    let cycles: Vec<[&Sample; 2]> = arms.rounds.iter().filter_map(|round| round.whole()).collect();
    if cycles.iter().flatten().any(|slice| slice.unfinished() > 0) {
        return None;
    }
    let found = apart(&cycles, seed)?;
    Some(NoiseFloor { rounds: cycles.len(), median: found.w1, upper: found.upper() })
}

/// Both distances of `arm` from the whole-core runs of its rounds, median with interval; `None` without a round in which
/// all three have jobs.
fn over_arm(arms: &Arms, arm: Arm, runs: &Runs, seed: u64) -> Option<(Estimate, Estimate)> {
    let rounds = arms.beside_whole(arm);
    let round = |[a, b, run]: [&Sample; 3]| {
        let some = [a, b, run].iter().all(|run| !run.is_empty());
        some.then(|| Some(runs.distances(a, run, seed)?.average(runs.distances(b, run, seed)?))).flatten()
    };
    let rounds: Vec<PairDistances> = rounds.into_par_iter().filter_map(round).collect();
    (!rounds.is_empty()).then(|| over_rounds(&rounds, seed, ROUNDS + arm as u32))
}

/// Median over the rounds of W1 and KS, with intervals as [`compare`] describes. Not for an empty list.
fn over_rounds(rounds: &[PairDistances], seed: u64, what: u32) -> (Estimate, Estimate) {
    let w1 = median(rounds.iter().map(|p| p.w1).collect());
    let ks = median(rounds.iter().map(|p| p.ks).collect());
    let estimate = |value, distance: fn(&PairDistances) -> (f64, &[f64])| {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for replicate in 0..REPLICATES {
            let mut rng = stream(seed, what, replicate);
            let drawn = (0..rounds.len()).map(|_| {
                let (observed, errors) = distance(&rounds[rng.random_range(0..rounds.len() as u32) as usize]);
                (observed, errors[replicate])
            });
            let drawn: Vec<(f64, f64)> = drawn.collect();
            low.push(median(drawn.iter().map(|(observed, error)| observed - error).collect()));
            high.push(median(drawn.iter().map(|(observed, error)| observed + error).collect()));
        }
        Estimate::from_ends(value, low, high)
    };
    let mut ks = estimate(ks, |round| (round.ks, &round.ks_error));
    ks.high = ks.high.min(1.0);
    if rounds.iter().any(|p| p.w1_error.is_empty()) {
        // Jobs that never finished: nothing bounds the area from above.
        let low = if w1.is_infinite() { w1 } else { 0.0 };
        return (Estimate { value: w1, low, high: f64::INFINITY }, ks);
    }
    (estimate(w1, |round| (round.w1, &round.w1_error)), ks)
}

/// See [`NoiseFloor`].
fn noise_floor(arms: &Arms, runs: &Runs, seed: u64) -> Option<NoiseFloor> {
    let pairs: Vec<[&Sample; 2]> = arms.rounds.iter().filter_map(|round| round.whole()).collect();
    let unfit = |run: &&Sample| run.is_empty() || run.unfinished() > 0;
    if pairs.is_empty() || pairs.iter().flatten().any(unfit) {
        return None;
    }
    let pairs: Vec<PairDistances> = pairs.into_par_iter().filter_map(|[a, b]| runs.distances(a, b, seed)).collect();
    let mut chance: Vec<f64> = pairs.iter().flat_map(|pair| pair.w1_error.iter().copied()).collect();
    chance.sort_unstable_by(f64::total_cmp);
    let mut observed: Vec<f64> = pairs.iter().map(|p| p.w1).collect();
    observed.sort_unstable_by(f64::total_cmp);
    let upper = quantile(&chance, 0.95).max(quantile(&observed, 0.95));
    Some(NoiseFloor { rounds: pairs.len(), median: median(observed), upper })
}
