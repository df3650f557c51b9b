//! How much a statistic would vary if the run were repeated: the circular block bootstrap (Politis and Romano 1992), since
//! response times of neighbouring jobs are correlated and single jobs may not be drawn on their own.

use crate::block::block_length;
use crate::{kolmogorov_smirnov, wasserstein, Sample};
use rand::RngExt;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};
use rayon::prelude::*;
use serde::Serialize;

/// Resamples behind every interval.
pub const REPLICATES: usize = 200;

/// A statistic with its interval, 95 % unless said otherwise; `low ≤ value ≤ high`. Infinite (null in JSON) where jobs
/// never finished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The statistic as observed.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// From what the ends would be in every resample: 95 % of them lie within, each on its side.
    pub(crate) fn from_ends(value: f64, mut low: Vec<f64>, mut high: Vec<f64>) -> Self {
        low.sort_unstable_by(f64::total_cmp);
        high.sort_unstable_by(f64::total_cmp);
        Estimate { value, low: quantile(&low, 0.05).min(value).max(0.0), high: quantile(&high, 0.95).max(value) }
    }
}

/// The value that a share `p` of the `sorted` values does not exceed, by nearest rank.
pub(crate) fn quantile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * (sorted.len() + 1) as f64).round() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Numbers of random streams: of runs, of rounds, of the claims of a study, and of the cycles of a trial.
const RUNS: u32 = 1 << 24;
pub(crate) const ROUNDS: u32 = 2 << 24;
pub(crate) const CLAIMS: u32 = 4 << 24;
pub(crate) const SLICES: u32 = 6 << 24;

/// A random stream of its own for every replicate, so that the number of threads changes nothing.
pub(crate) fn stream(seed: u64, what: u32, replicate: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(what) << 32 | replicate as u64);
    rng
}

/// Hands `visit` as many jobs as there are: blocks of `length` neighbours from random places, the end joined to the start.
fn draw_blocks<T: Copy>(jobs: &[T], length: usize, rng: &mut ChaCha8Rng, mut visit: impl FnMut(T)) {
    let mut wanted = jobs.len();
    while wanted > 0 {
        let start = rng.random_range(0..jobs.len() as u32) as usize;
        let taken = length.min(wanted);
        let (before_end, wrapped) = (taken.min(jobs.len() - start), taken.saturating_sub(jobs.len() - start));
        jobs[start..start + before_end].iter().chain(&jobs[..wrapped]).for_each(|&job| visit(job));
        wanted -= taken;
    }
}

/// Both distances of a pair of runs, and by how much chance may have moved them, once for every resample.
pub(crate) struct PairDistances {
    pub(crate) w1: f64,
    pub(crate) ks: f64,
    /// Empty where a job never finished: no number of such jobs bounds the area.
    pub(crate) w1_error: Vec<f64>,
    pub(crate) ks_error: Vec<f64>,
}

impl PairDistances {
    /// The averages of two pairs' distances, and what chance may have added to those. The norm of an average is at most the
    /// average of the norms, so the errors average too; replicate by replicate, as both pairs share a run.
    pub(crate) fn average(self, other: PairDistances) -> PairDistances {
        let half = |(x, y): (f64, f64)| (x + y) / 2.0;
        let halves = |x: Vec<f64>, y: Vec<f64>| x.into_iter().zip(y).map(half).collect();
        PairDistances {
            w1: half((self.w1, other.w1)),
            ks: half((self.ks, other.ks)),
            w1_error: halves(self.w1_error, other.w1_error),
            ks_error: halves(self.ks_error, other.ks_error),
        }
    }
}

/// A run, ready to be resampled.
pub(crate) struct Run<'a> {
    sample: &'a Sample,
    block: usize,
    /// Of its random streams: replicate *i* of a run is the same resample in every pair that it is part of.
    stream: u32,
}

/// Runs, each once.
#[derive(Default)]
pub(crate) struct Runs<'a>(Vec<Run<'a>>);

impl<'a> Runs<'a> {
    /// O(n^1.5) a run, see [`block_length`].
    pub(crate) fn new(samples: impl IntoIterator<Item = &'a Sample>) -> Self {
        let mut distinct: Vec<&Sample> = Vec::new();
        for sample in samples {
            if !distinct.iter().any(|other| other.is_same_run(sample)) {
                distinct.push(sample);
            }
        }
        let run = |(index, sample)| Run { sample, block: block_length(sample), stream: RUNS + index as u32 };
        Runs(distinct.into_par_iter().enumerate().map(run).collect())
    }

    /// Distances of two runs that are among these.
    pub(crate) fn distances(&self, a: &Sample, b: &Sample, seed: u64) -> Option<PairDistances> {
        let run = |sample: &Sample| self.0.iter().find(|run| run.sample.is_same_run(sample));
        Some(pair_distances(run(a)?, run(b)?, seed))
    }
}

/// Distances of `a` and `b`, and their errors by [`REPLICATES`] resamples F*, G* of both.
/// Neither run may be empty. A job that never finished is drawn as any other and has the last place of the merged support:
/// it counts in the height between the functions, but no number of such jobs bounds the area. O(n log n) and O(n) a replicate:
/// resampled jobs are counts on the merged support.
///
/// The error is ‖(F* − F) − (G* − G)‖, the norm being the distance's own (∫|·| or sup|·|). A distance ‖F − G‖ differs from
/// the true one by at most the norm of the samples' own error, by the triangle inequality; the bootstrap estimates its
/// distribution. So intervals made of it hold the truth even where it is 0, which resampling ‖F* − G*‖ does not: its
/// distribution is wrong there (Fang and Santos, Review of Economic Studies 86, 2019), and that is the case that matters
/// here.
fn pair_distances(a: &Run, b: &Run, seed: u64) -> PairDistances {
    let (w1, ks) = (wasserstein(a.sample, b.sample), kolmogorov_smirnov(a.sample, b.sample));
    let mut support = [a.sample.sorted(), b.sample.sorted()].concat();
    support.sort_unstable();
    support.dedup();
    let gaps: Vec<f64> = support.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    let places = |run: &Run| -> Vec<u32> {
        let place = |&ns: &u64| support.partition_point(|&other| other < ns) as u32;
        run.sample.arrival().iter().map(place).collect()
    };
    let (places_a, places_b) = (places(a), places(b));
    // Steps of F and G in units of 1/(n·m), so that sums stay whole.
    let (step_a, step_b) = (b.sample.len() as i64, a.sample.len() as i64);
    let scale = step_a as f64 * step_b as f64;
    let mut observed = vec![0i64; support.len()];
    places_a.iter().for_each(|&place| observed[place as usize] += step_a);
    places_b.iter().for_each(|&place| observed[place as usize] -= step_b);
    let (mut w1_error, ks_error): (Vec<f64>, Vec<f64>) = (0..REPLICATES)
        .into_par_iter()
        .map_init(
            || vec![0i64; support.len()],
            |steps, replicate| {
                let rng = |run: &Run| stream(seed, run.stream, replicate);
                draw_blocks(&places_a, a.block, &mut rng(a), |place| steps[place as usize] += step_a);
                draw_blocks(&places_b, b.block, &mut rng(b), |place| steps[place as usize] -= step_b);
                let (mut apart, mut area, mut most) = (0i64, 0.0, 0u64);
                for ((step, observed), gap) in steps.iter_mut().zip(&observed).zip(gaps.iter().chain([&0.0])) {
                    apart += std::mem::take(step) - observed;
                    area += apart.unsigned_abs() as f64 * gap;
                    most = most.max(apart.unsigned_abs());
                }
                (area / scale, most as f64 / scale)
            },
        )
        .unzip();
    if a.sample.unfinished() + b.sample.unfinished() > 0 {
        w1_error.clear();
    }
    PairDistances { w1, ks, w1_error, ks_error }
}
