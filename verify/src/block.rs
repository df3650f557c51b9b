//! How long the blocks of the bootstrap must be: as long as neighbouring jobs influence each other.

use crate::Sample;

/// Block length in jobs, at least 1, by the automatic rule of Politis and White (Econometric Reviews 23, 2004; corrected by
/// Patton, Politis and White, 28, 2009) for the circular block bootstrap. Taken for the response times and for their
/// ranks, the longer one counts: rare holes dominate the former and hide what the latter show. O(n^1.5).
pub(crate) fn block_length(sample: &Sample) -> usize {
    let (arrival, sorted) = (sample.arrival(), sample.sorted());
    // Never is infinite; for the choice of a length the slowest finished job will do.
    let slowest = sample.finished().last().copied().unwrap_or(0);
    let times: Vec<f64> = arrival.iter().map(|&ns| ns.min(slowest) as f64).collect();
    let ranks: Vec<f64> = arrival.iter().map(|ns| sorted.partition_point(|other| other < ns) as f64).collect();
    optimal(times).max(optimal(ranks))
}

fn optimal(mut series: Vec<f64>) -> usize {
    let n = series.len();
    if n < 10 {
        return 1;
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    series.iter_mut().for_each(|x| *x -= mean);
    let covariance = |lag: usize| series.iter().zip(&series[lag..]).map(|(x, y)| x * y).sum::<f64>() / n as f64;
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1;
    }
    // The last lag with a correlation that is no accident: `quiet` insignificant ones follow it.
    let size = n as f64;
    let significant = 2.0 * (size.log10() / size).sqrt() * variance;
    let quiet = 5.max(size.log10().sqrt().ceil() as usize);
    let most = (size.sqrt().ceil() as usize + quiet).min(n - 1);
    let mut covariances = vec![variance];
    let mut last = 0;
    while covariances.len() <= most && covariances.len() <= last + quiet {
        let lag = covariances.len();
        covariances.push(covariance(lag));
        if covariances[lag].abs() >= significant {
            last = lag;
        }
    }
    // Flat-top window of half-width 2·last; then b = (2 G² / (4/3 g(0)²))^⅓ n^⅓.
    let width = (2 * last.max(1)).min(most);
    let (mut spectrum, mut slope) = (variance, 0.0);
    for lag in 1..=width {
        let weight = (2.0 * (1.0 - lag as f64 / width as f64)).min(1.0);
        let value = covariances.get(lag).copied().unwrap_or_else(|| covariance(lag));
        spectrum += 2.0 * weight * value;
        slope += 2.0 * weight * lag as f64 * value;
    }
    let length = (1.5 * slope * slope / (spectrum * spectrum) * size).cbrt();
    let longest = (3.0 * size.sqrt()).min(size / 3.0);
    // A spectrum of about 0 (a strict pattern) asks for the longest.
    if length.is_finite() {
        length.min(longest).round().max(1.0) as usize
    } else {
        longest as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

    /// Bursts: `length` jobs in a row share one random part.
    fn bursts(n: usize, length: usize) -> Sample {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut level = 0;
        let mut times = Vec::new();
        for job in 0..n {
            if job % length == 0 {
                level = rng.random_range(0..1_000_000u64);
            }
            times.push(Some(level + rng.random_range(0..1000u64)));
        }
        Sample::from_responses(times).unwrap()
    }

    #[test]
    fn blocks_are_short_for_independent_jobs_and_longer_than_the_bursts_of_bursty_ones() {
        let independent = block_length(&bursts(5000, 1));
        assert!(independent <= 8, "{independent}");
        for burst in [5, 20] {
            let length = block_length(&bursts(5000, burst));
            assert!(length >= burst && length <= 213, "bursts of {burst}: blocks of {length}");
        }
    }

    #[test]
    fn degenerate_runs_have_a_block_length_too() {
        for times in [vec![], vec![Some(5)], vec![Some(5); 100], vec![None; 100]] {
            assert_eq!(block_length(&Sample::from_responses(times).unwrap()), 1);
        }
        let pattern = (0..1000u64).map(|job| Some(job % 2));
        assert!((1..=95).contains(&block_length(&Sample::from_responses(pattern).unwrap())));
    }
}
