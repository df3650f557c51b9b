//! How activations come: periodically, at random as a Poisson process, or in bursts.
//!
//! They are known only up to the readings between which they lie. That does no harm to a test for a Poisson process:
//! given how many of its events lie between two readings, they are spread evenly there, so that drawing their places
//! anew leaves it what it is.

use super::Burst;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Gaps that are compared with a law: of more, a part of them, taken evenly. With very many every real service differs
/// from every law, if only since requests that come while it is busy are not activations.
const COMPARED: usize = 500;
/// Critical value at 1 % of the Kolmogorov-Smirnov statistic against an exponential law whose mean is that of the
/// sample, as modified by Stephens (1974).
const CRITICAL: f64 = 1.308;
/// Below this coefficient of variation gaps count as equal.
const EQUAL: f64 = 0.1;
/// ... or where so many of them lie this close to their median, since services have timers of their own.
const MOST: f64 = 0.75;
/// Between these indices of dispersion counts are as even as those of a Poisson process, about.
const POISSON: [f64; 2] = [0.5, 1.6];
/// A window in which activations are counted holds so many on average.
const IN_A_WINDOW: u64 = 10;
/// Largest batch that is told.
const LARGEST_BATCH: f64 = 50.0;

/// How activations come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One after each period, in ns.
    Periodic(u64),
    /// At random, independently of each other.
    Poisson,
    /// At random, so many at a time on average.
    Bursty(u32),
    /// Neither periodic nor as uneven as a Poisson process.
    Even,
}

/// What the gaps between activations say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// How they come.
    pub shape: Shape,
    /// Activations in a second.
    pub rate: f64,
    /// Standard deviation of the gaps over their mean: 0 where they are equal, 1 of a Poisson process.
    pub variation: f64,
    /// Variance of counts over their mean: 0 where activations are even, 1 of a Poisson process, more in bursts.
    pub dispersion: f64,
    /// Kolmogorov-Smirnov distance of the gaps from an exponential law.
    pub distance: f64,
    /// Whether a Poisson process would be as far from it in at least one of a hundred cases.
    pub exponential: bool,
}

/// Judges `bursts` in order, of one service; at least two. The same `seed` gives the same answer. O(n log n).
pub fn pattern(bursts: &[Burst], seed: u64) -> Option<Pattern> {
    let (first, last) = (bursts.first()?, bursts.last()?);
    let count: u64 = bursts.iter().map(|burst| burst.count).sum();
    let length = last.until.checked_sub(first.until).filter(|length| *length > 0 && count > 1)?;
    let rate = (count - first.count) as f64 / length as f64 * 1e9;
    let spread = spread(bursts, seed);
    let even = gaps(&evenly(bursts));
    let mean = length as f64 / (count - 1) as f64;
    let blur = bursts.iter().map(|one| ((one.until - one.from) as f64).powi(2) / 12.0).sum::<f64>();
    let variation = variation(&even, 2.0 * blur / bursts.len() as f64);
    let dispersion = dispersion(bursts, (mean * IN_A_WINDOW as f64) as u64);
    let (distance, exponential) = exponential_distance(&gaps(&spread));
    let shape = match (period(&even, bursts), dispersion) {
        (Some(period), _) => Shape::Periodic(period),
        (None, _) if variation < EQUAL => Shape::Periodic(mean as u64),
        (_, more) if more > POISSON[1] => Shape::Bursty(more.round().clamp(2.0, LARGEST_BATCH) as u32),
        (_, some) if exponential && some >= POISSON[0] => Shape::Poisson,
        (_, some) if some >= POISSON[0] && variation > 0.75 => Shape::Poisson,
        _ => Shape::Even,
    };
    Some(Pattern { shape, rate, variation, dispersion, distance, exponential })
}

/// Where activations were, drawn between the readings that they lie between.
fn spread(bursts: &[Burst], seed: u64) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = Vec::new();
    for burst in bursts {
        at.extend((0..burst.count).map(|_| rng.random_range(burst.from..burst.until.max(burst.from + 1))));
    }
    at.sort_unstable();
    at
}

/// Where they were if those between two readings are even.
fn evenly(bursts: &[Burst]) -> Vec<u64> {
    let of = |burst: &Burst| {
        let Burst { from, until, count, .. } = *burst;
        (1..=count).map(move |nth| from + (until - from) * nth / count)
    };
    bursts.iter().flat_map(of).collect()
}

fn gaps(at: &[u64]) -> Vec<u64> {
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Standard deviation over mean, less the `blur` (a variance) that readings add.
fn variation(gaps: &[u64], blur: f64) -> f64 {
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len().max(1) as f64;
    let square = gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>() / gaps.len().max(1) as f64;
    (square - blur).max(0.0).sqrt() / mean.max(1.0)
}

/// The period, where most gaps are equal as far as readings can tell: the mean of those.
fn period(gaps: &[u64], bursts: &[Burst]) -> Option<u64> {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let mut widths: Vec<u64> = bursts.iter().map(|burst| burst.until - burst.from).collect();
    widths.sort_unstable();
    let blur = *widths.get(widths.len() / 2)?;
    let near = |gap: &&u64| gap.abs_diff(median) <= (median / 10).max(blur + blur / 4);
    let close: Vec<u64> = sorted.iter().filter(near).copied().collect();
    // Where readings are as far apart as activations, every gap would be near.
    let resolved = median >= 4 * blur;
    let share = close.len() as f64 / sorted.len() as f64;
    (resolved && share >= MOST).then(|| close.iter().sum::<u64>() / close.len() as u64)
}

/// Variance of the counts in windows over their mean.
fn dispersion(bursts: &[Burst], window: u64) -> f64 {
    let (Some(first), Some(last)) = (bursts.first(), bursts.last()) else { return 0.0 };
    let window = window.max(1);
    let mut counts = vec![0u64; ((last.until - first.from) / window) as usize];
    for at in evenly(bursts) {
        if let Some(count) = counts.get_mut(((at - first.from) / window) as usize) {
            *count += 1;
        }
    }
    let mean = counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
    let square = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>();
    square / counts.len().saturating_sub(1).max(1) as f64 / mean.max(f64::MIN_POSITIVE)
}

/// Largest height between the distribution of the gaps and the exponential one with their mean, and whether chance
/// alone makes it so large in at least one of a hundred cases.
fn exponential_distance(gaps: &[u64]) -> (f64, bool) {
    let every = gaps.len().div_ceil(COMPARED).max(1);
    let mut some: Vec<u64> = gaps.iter().step_by(every).copied().collect();
    some.sort_unstable();
    let n = some.len() as f64;
    let mean = some.iter().sum::<u64>() as f64 / n;
    let height = |(place, gap): (usize, &u64)| {
        let law = 1.0 - (-(*gap as f64) / mean).exp();
        (law - place as f64 / n).abs().max(((place + 1) as f64 / n - law).abs())
    };
    let distance = some.iter().enumerate().map(height).fold(0.0, f64::max);
    let modified = (distance - 0.2 / n) * (n.sqrt() + 0.26 + 0.5 / n.sqrt());
    (distance, modified <= CRITICAL)
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
