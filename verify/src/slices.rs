//! Distances between arms that were measured in many short slices, taken in turns on a machine that is not steady.
//!
//! Whatever disturbs a machine (other guests of the hypervisor, clocks, caches, interrupts) comes and goes in times
//! longer than a job
//! and shorter than a trial. Jobs of one slice therefore share their luck, and slices of one cycle, made one right after the
//! other, share most of it. So a cycle is what is drawn anew: a paired cluster bootstrap (Davison and Hinkley, Bootstrap
//! Methods and their Application, 1997, § 3.8). What the machine adds to one arm in one cycle and not in the next is
//! thus part of every
//! interval, and of the noise floor.

use crate::bootstrap::{quantile, stream, Estimate, REPLICATES, SLICES};
use crate::sample::NEVER;
use crate::Sample;
use rand::RngExt;
use rayon::prelude::*;

/// Points of the common support at which resampled functions are compared; the slowest [`TAIL`] of them are every job
/// that there is.
const GRID: usize = 4096;
const TAIL: usize = 2048;

/// How far apart two arms are.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    /// Wasserstein-1, ns.
    pub(crate) w1: f64,
    /// Kolmogorov–Smirnov.
    pub(crate) ks: f64,
    /// By how much chance and the machine may have moved them, once for every resample; none where a job never finished.
    pub(crate) w1_error: Vec<f64>,
    pub(crate) ks_error: Vec<f64>,
    /// The distances of every resample.
    w1_again: Vec<f64>,
    ks_again: Vec<f64>,
}

impl Apart {
    /// The averages of two distances and of their errors, replicate by replicate.
    pub(crate) fn average(self, other: Apart) -> Apart {
        let half = |(x, y): (f64, f64)| (x + y) / 2.0;
        let halves = |x: Vec<f64>, y: Vec<f64>| x.into_iter().zip(y).map(half).collect();
        Apart {
            w1: half((self.w1, other.w1)),
            ks: half((self.ks, other.ks)),
            w1_error: halves(self.w1_error, other.w1_error),
            ks_error: halves(self.ks_error, other.ks_error),
            w1_again: halves(self.w1_again, other.w1_again),
            ks_again: halves(self.ks_again, other.ks_again),
        }
    }

    /// Both with their intervals: from the 5th percentile of d − ‖e*‖ to the 95th of ‖Δ + e*‖, where d = ‖Δ‖.
    ///
    /// The upper end is that of the percentile bootstrap. It errs upwards: ‖Δ + e*‖ has the error twice, that of the slices and
    /// that of the resample. d + ‖e*‖ is more still, as it adds errors that point away from Δ, or lie elsewhere than Δ.
    pub(crate) fn estimates(&self) -> (Estimate, Estimate) {
        let ends = |value: f64, errors: &[f64], again: &[f64]| {
            let low = errors.iter().map(|error| value - error).collect();
            Estimate::from_ends(value, low, again.to_vec())
        };
        let mut ks = ends(self.ks, &self.ks_error, &self.ks_again);
        ks.high = ks.high.min(1.0);
        if self.w1_error.is_empty() {
            let low = if self.w1.is_infinite() { self.w1 } else { 0.0 };
            return (Estimate { value: self.w1, low, high: f64::INFINITY }, ks);
        }
        (ends(self.w1, &self.w1_error, &self.w1_again), ks)
    }

    /// What the distance of two arms that are alike stays under with 95 % probability: the 95th percentile of its
    /// errors, or the
    /// distance itself where that is more.
    pub(crate) fn upper(&self) -> f64 {
        let mut errors = self.w1_error.clone();
        errors.sort_unstable_by(f64::total_cmp);
        if errors.is_empty() {
            f64::INFINITY
        } else {
            quantile(&errors, 0.95).max(self.w1)
        }
    }
}

/// How far apart two arms are, cycle by cycle the slices of the one and of the other; `None` without a cycle, or with an empty
/// slice. The distribution function of an arm is the mean of those of its slices, so that each slice weighs the same.
///
/// The error of a replicate is ‖Σ (mₖ − 1)(Fₖ − Gₖ)‖ / n, where mₖ is how often cycle k was drawn: the same cycles for
/// both arms,
/// and for every pair of arms with equally many cycles; times what few cycles ask for. O(jobs · log jobs +
/// [`REPLICATES`] · cycles · [`GRID`]).
pub(crate) fn apart(cycles: &[[&Sample; 2]], seed: u64) -> Option<Apart> {
    if cycles.is_empty() || cycles.iter().flatten().any(|slice| slice.is_empty()) {
        return None;
    }
    let mut all: Vec<u64> = cycles.iter().flatten().flat_map(|slice| slice.sorted()).copied().collect();
    all.sort_unstable();
    let never = all.last() == Some(&NEVER);
    let support = distinct(&all);
    let exact = mean(cycles.iter().map(|pair| difference(pair, &support)));
    let (w1, ks) = norms(&exact, &support);
    let grid = thinned(&all);
    let differences: Vec<Vec<f64>> = cycles.par_iter().map(|pair| difference(pair, &grid)).collect();
    let observed = mean(differences.iter().cloned());
    let n = cycles.len();
    let replicates: Vec<[f64; 4]> = (0..REPLICATES)
        .into_par_iter()
        .map(|replicate| {
            let mut rng = stream(seed, SLICES, replicate);
            let mut error: Vec<f64> = observed.iter().map(|value| -value).collect();
            for _ in 0..n {
                let drawn = &differences[rng.random_range(0..n as u32) as usize];
                error.iter_mut().zip(drawn).for_each(|(sum, value)| *sum += value / n as f64);
            }
            let again: Vec<f64> = error.iter().zip(&observed).map(|(error, value)| value + error * few(n)).collect();
            let ((error, ks), (w1_again, ks_again)) = (norms(&error, &grid), norms(&again, &grid));
            // What sums of fractions leave of slices that are all the same is none.
            let (error, w1_again) = if error < ROUNDING * w1 { (0.0, w1) } else { (error, w1_again) };
            [error * few(n), ks * few(n), w1_again, ks_again]
        })
        .collect();
    let column = |nth: usize| replicates.iter().map(|one| one[nth]).collect::<Vec<f64>>();
    let w1_error = if never { Vec::new() } else { column(0) };
    Some(Apart { w1, ks, w1_error, ks_error: column(1), w1_again: column(2), ks_again: column(3) })
}

/// An error that is a smaller part of the distance is one of rounding.
const ROUNDING: f64 = 1e-9;

/// What errors are multiplied by, as few cycles say little of their own spread: √(n/(n − 1)), and Student's 95th
/// percentile over the
/// normal one (to two terms of Cornish and Fisher's series).
fn few(cycles: usize) -> f64 {
    let free = cycles.max(2) as f64 - 1.0;
    (1.0 + 1.0 / free).sqrt() * (1.0 + (1.524 / free + 1.42 / (free * free)) / 1.645)
}

fn distinct(sorted: &[u64]) -> Vec<u64> {
    let mut values = sorted.to_vec();
    values.dedup();
    values
}

/// At most [`GRID`] of the values: the largest ones all, of the others evenly thinned.
fn thinned(sorted: &[u64]) -> Vec<u64> {
    let body = sorted.len().saturating_sub(TAIL);
    let step = body.div_ceil(GRID - TAIL).max(1);
    distinct(&[sorted[..body].iter().copied().step_by(step).collect(), sorted[body..].to_vec()].concat())
}

/// F − G at the points of `support`, F of the first slice.
fn difference([f, g]: &[&Sample; 2], support: &[u64]) -> Vec<f64> {
    let (mut i, mut j) = (0, 0);
    let (f, g) = (f.sorted(), g.sorted());
    let at = |&point: &u64| {
        i += f[i..].iter().take_while(|&&ns| ns <= point).count();
        j += g[j..].iter().take_while(|&&ns| ns <= point).count();
        i as f64 / f.len() as f64 - j as f64 / g.len() as f64
    };
    support.iter().map(at).collect()
}

fn mean(rows: impl ExactSizeIterator<Item = Vec<f64>>) -> Vec<f64> {
    let n = rows.len() as f64;
    let mut sum = rows.reduce(|mut sum, row| {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        sum
    });
    sum.iter_mut().flatten().for_each(|sum| *sum /= n);
    sum.unwrap_or_default()
}

/// Area and greatest height of a difference of distribution functions. The area is infinite where it is not 0 up to
/// jobs that never
/// finished; differences below a millionth of a job's share are rounding.
fn norms(difference: &[f64], support: &[u64]) -> (f64, f64) {
    let height = difference.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let area = support.windows(2).zip(difference).map(|(ends, value)| match ends[1] {
        NEVER if value.abs() > 1e-12 => f64::INFINITY,
        NEVER => 0.0,
        end => (end - ends[0]) as f64 * value.abs(),
    });
    (area.sum(), height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kolmogorov_smirnov, wasserstein};
    use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

    fn slice(rng: &mut ChaCha8Rng, jobs: usize, shift: u64) -> Sample {
        let job = |_| Some(shift + 100_000 + (-50_000.0 * (1.0 - rng.random::<f64>()).ln()) as u64);
        Sample::from_responses((0..jobs).map(job).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn with_slices_of_one_length_the_distances_are_those_of_all_jobs_together() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let slices: Vec<[Sample; 2]> =
            (0..7).map(|_| [slice(&mut rng, 3000, 0), slice(&mut rng, 3000, 4_000)]).collect();
        let pairs: Vec<[&Sample; 2]> = slices.iter().map(|[a, b]| [a, b]).collect();
        let found = apart(&pairs, 1).unwrap();
        let all = |arm: usize| Sample::pool(slices.iter().map(|pair| &pair[arm])).unwrap();
        assert!((found.w1 - wasserstein(&all(0), &all(1))).abs() < 1e-6, "{found:?}");
        assert!((found.ks - kolmogorov_smirnov(&all(0), &all(1))).abs() < 1e-9);
        let (w1, _) = found.estimates();
        assert!(w1.low > 2_000.0 && w1.high < 7_000.0, "{w1:?}");
    }

    /// Cycles whose luck differs: a shift of up to 40 us for both slices, and now and then a hole of 10 ms in one of them.
    fn unsteady(seed: u64, cycles: usize, apart_by: u64) -> Vec<[Sample; 2]> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let one = |rng: &mut ChaCha8Rng, shift: u64| {
            let hole = rng.random::<f64>() < 0.2;
            let mut times: Vec<_> = slice(rng, 1000, shift).sorted().iter().map(|&ns| Some(ns)).collect();
            if hole {
                (0..20).for_each(|job| times[job] = Some(10_000_000 - 400_000 * job as u64));
            }
            Sample::from_responses(times).unwrap()
        };
        (0..cycles)
            .map(|_| {
                let shift = rng.random_range(0..40_000u64);
                [one(&mut rng, shift), one(&mut rng, shift + apart_by)]
            })
            .collect()
    }

    #[test]
    fn on_an_unsteady_machine_arms_that_are_alike_stay_under_the_bound_and_the_interval_holds_the_truth() {
        let trials = 200;
        let (mut under, mut covered, mut little) = (0, 0, 0);
        for seed in 0..trials {
            let alike = unsteady(seed, 12, 0);
            let pairs: Vec<[&Sample; 2]> = alike.iter().map(|[a, b]| [a, b]).collect();
            let found = apart(&pairs, seed).unwrap();
            // The bound of one experiment against the distance of another: neither has seen the other.
            let other = unsteady(seed + 10_000, 12, 0);
            let other: Vec<[&Sample; 2]> = other.iter().map(|[a, b]| [a, b]).collect();
            under += u32::from(apart(&other, seed).unwrap().w1 <= found.upper());
            let shifted = unsteady(seed + 20_000, 12, 200_000);
            let shifted: Vec<[&Sample; 2]> = shifted.iter().map(|[a, b]| [a, b]).collect();
            let (w1, _) = apart(&shifted, seed).unwrap().estimates();
            covered += u32::from((w1.low..=w1.high).contains(&200_000.0));
            // As far apart as the noise itself moves them: the upper end is what a promise is judged by.
            let shifted = unsteady(seed + 30_000, 12, 15_000);
            let shifted: Vec<[&Sample; 2]> = shifted.iter().map(|[a, b]| [a, b]).collect();
            little += u32::from(apart(&shifted, seed).unwrap().estimates().0.high >= 15_000.0);
        }
        println!("{under} of {trials} under the bound, {covered} intervals hold the truth, {little} a small one");
        assert!(under >= 170 && covered >= 180 && little >= 190, "{under}, {covered} and {little} of {trials}");
    }

    #[test]
    fn a_job_that_never_finished_leaves_the_area_without_a_bound() {
        let good = Sample::from_responses((1..=100).map(Some)).unwrap();
        let bad = Sample::from_responses((1..100).map(Some).chain([None])).unwrap();
        let found = apart(&[[&good, &bad], [&good, &good]], 1).unwrap();
        assert!(found.w1.is_infinite() && found.w1_error.is_empty() && found.upper().is_infinite());
        assert_eq!(found.estimates().0.low, f64::INFINITY);
        assert!(apart(&[], 1).is_none() && apart(&[[&good, &Sample::from_responses([]).unwrap()]], 1).is_none());
    }
}
