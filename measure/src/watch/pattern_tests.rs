use super::super::{bursts, Change};
use super::*;

/// A service that is activated at these instants (ns) and read every `step`.
fn seen(at: &[u64], step: u64) -> Vec<Burst> {
    let end = at.last().unwrap() + 2 * step;
    let mut by = at.iter().peekable();
    let mut changes = Vec::new();
    for now in (step..end).step_by(step as usize) {
        let begun = std::iter::from_fn(|| by.next_if(|one| **one <= now)).count() as u64;
        if begun > 0 {
            changes.push(Change { from: now - step, at: now, thread: 0, ran: 40_000 * begun, begun });
        }
    }
    bursts(&changes, &[0])
}

/// Exponential gaps of this mean, `batch` at a time, for `n` batches.
fn poisson(mean: f64, batch: u64, n: usize, seed: u64) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut now = 0.0;
    let mut at = Vec::new();
    for _ in 0..n {
        now += -mean * (1.0 - rng.random::<f64>()).ln();
        at.extend((0..batch).map(|nth| now as u64 + nth * 60_000));
    }
    at.sort_unstable();
    at
}

#[test]
fn a_poisson_process_is_found_as_one_also_where_readings_are_coarse() {
    let mut found = 0;
    for seed in 0..40 {
        for (mean, step) in [(5e6, 250_000), (1e6, 250_000), (300e3, 250_000), (1e6, 1_000_000)] {
            let pattern = pattern(&seen(&poisson(mean, 1, 4_000, seed), step), !seed).unwrap();
            // Another seed than that of the process itself, which would be the same draws.
            found += u32::from(pattern.shape == Shape::Poisson && pattern.exponential);
            assert_eq!(pattern.shape, Shape::Poisson, "{mean} {step} {seed}: {pattern:?}");
            assert!((pattern.rate * mean / 1e9 - 1.0).abs() < 0.08, "{pattern:?}");
            assert!((pattern.dispersion - 1.0).abs() < 0.4, "{pattern:?}");
        }
    }
    assert!(found >= 152, "{found} of 160: more than one of a hundred, twice over, is refused");
}

#[test]
fn a_periodic_one_is_found_with_its_period_also_with_jitter_and_a_timer_beside() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for period in [1_000_000, 2_500_000, 10_000_000, 40_000_000u64] {
        let plain: Vec<u64> = (1..1_000).map(|n| n * period).collect();
        let jitter: Vec<u64> = plain.iter().map(|at| at + rng.random_range(0..period / 20)).collect();
        let mut timer: Vec<u64> =
            plain.iter().copied().chain((1..).map(|n| n * 10 * period + period / 3).take(99)).collect();
        timer.sort_unstable();
        for at in [&plain, &jitter, &timer] {
            let pattern = pattern(&seen(at, 250_000), 1).unwrap();
            let Shape::Periodic(found) = pattern.shape else { panic!("{period}: {pattern:?}") };
            assert!(found.abs_diff(period) <= period / 50, "{found} {period}: {pattern:?}");
        }
        let clean = pattern(&seen(&plain, 250_000), 1).unwrap();
        assert!(clean.variation < EQUAL && clean.dispersion < 0.1, "{clean:?}");
        assert!(!clean.exponential);
    }
}

#[test]
fn bursts_are_told_by_their_size() {
    for (batch, least, most) in [(3, 2, 5), (10, 7, 14)] {
        for seed in 0..10 {
            let at = poisson(20e6, batch, 2_000, seed);
            let pattern = pattern(&seen(&at, 250_000), seed).unwrap();
            let Shape::Bursty(found) = pattern.shape else { panic!("{batch}: {pattern:?}") };
            assert!((least..=most).contains(&found), "{batch}: {pattern:?}");
            assert!(pattern.variation > 1.2, "{pattern:?}");
        }
    }
}

#[test]
fn gaps_that_are_neither_equal_nor_exponential_are_even() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut now = 0;
    let at: Vec<u64> = (0..3_000)
        .map(|_| {
            now += rng.random_range(2_000_000..6_000_000);
            now
        })
        .collect();
    let pattern = pattern(&seen(&at, 250_000), 1).unwrap();
    assert_eq!(pattern.shape, Shape::Even, "{pattern:?}");
}

#[test]
fn the_same_seed_gives_the_same_answer_and_too_little_gives_none() {
    let found = seen(&poisson(1e6, 1, 500, 7), 250_000);
    assert_eq!(pattern(&found, 3), pattern(&found, 3));
    assert_eq!(pattern(&found[..1], 3), None);
    assert_eq!(pattern(&[], 3), None);
}
