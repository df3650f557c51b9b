//! The distances are what their definitions say, and metrics.

mod common;

use common::sample;
use giusto_verify::{kolmogorov_smirnov, wasserstein, Sample};
use proptest::collection::vec;
use proptest::prelude::*;

/// Few values, so that ties are common, and now and then large ones.
fn times() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![0u64..20, 0u64..1000, 0u64..1 << 40], 1..40)
}

fn share_within(times: &[u64], at: u64) -> f64 {
    times.iter().filter(|&&t| t <= at).count() as f64 / times.len() as f64
}

/// |F − G| on each stretch of the merged support, counted afresh, with the stretch's length.
fn stretches(a: &[u64], b: &[u64]) -> Vec<(f64, f64)> {
    let mut support = [a, b].concat();
    support.sort_unstable();
    let apart = |w: &[u64]| ((share_within(a, w[0]) - share_within(b, w[0])).abs(), (w[1] - w[0]) as f64);
    support.windows(2).map(apart).collect()
}

fn close(x: f64, y: f64) -> bool {
    (x - y).abs() <= 1e-9 * (1.0 + x.abs().max(y.abs()))
}

proptest! {
    #[test]
    fn wasserstein_is_the_area_between_the_distribution_functions(a in times(), b in times()) {
        let area: f64 = stretches(&a, &b).iter().map(|(height, length)| height * length).sum();
        prop_assert!(close(wasserstein(&sample(a), &sample(b)), area));
    }

    #[test]
    fn wasserstein_of_equal_sizes_is_the_mean_distance_of_sorted_pairs(pairs in vec((0u64..5000, 0u64..5000), 1..60)) {
        let (mut a, mut b): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        let distance = wasserstein(&sample(a.clone()), &sample(b.clone()));
        a.sort_unstable();
        b.sort_unstable();
        let sum: u64 = a.iter().zip(&b).map(|(x, y)| x.abs_diff(*y)).sum();
        prop_assert!(close(distance, sum as f64 / a.len() as f64));
    }

    #[test]
    fn kolmogorov_smirnov_is_the_largest_height_between_the_distribution_functions(a in times(), b in times()) {
        let highest = stretches(&a, &b).into_iter().filter(|s| s.1 > 0.0).map(|s| s.0).fold(0.0, f64::max);
        prop_assert!(close(kolmogorov_smirnov(&sample(a), &sample(b)), highest));
    }

    #[test]
    fn both_are_metrics(a in times(), b in times(), c in times()) {
        let [a, b, c] = [a, b, c].map(sample);
        for distance in [wasserstein, kolmogorov_smirnov] {
            prop_assert_eq!(distance(&a, &a), 0.0);
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0.0, share_alike(&a, &b));
            let detour = distance(&a, &b) + distance(&b, &c);
            prop_assert!(distance(&a, &c) <= detour * (1.0 + 1e-12));
        }
    }

    #[test]
    fn a_shift_moves_wasserstein_by_itself_and_repetition_moves_nothing(a in times(), by in 0u64..1 << 50, k in 1usize..4) {
        let shifted = sample(a.iter().map(|t| t + by));
        prop_assert!(close(wasserstein(&sample(a.clone()), &shifted), by as f64));
        prop_assert_eq!(wasserstein(&sample(a.repeat(k)), &sample(a)), 0.0);
    }
}

/// Equal distribution functions, by cross-multiplied counts.
fn share_alike(a: &Sample, b: &Sample) -> bool {
    let count = |s: &Sample, at: u64| s.finished().iter().filter(|&&t| t <= at).count();
    a.finished().iter().chain(b.finished()).all(|&at| count(a, at) * b.len() == count(b, at) * a.len())
}

#[test]
fn jobs_that_never_finished_are_infinitely_far_unless_both_sides_have_the_same_share_of_them() {
    let run = |times: &[Option<u64>]| Sample::from_responses(times.iter().copied()).unwrap();
    let (all, half, other) = (run(&[Some(1), Some(2)]), run(&[Some(1), None]), run(&[Some(3), None, None, Some(5)]));
    assert_eq!(wasserstein(&all, &half), f64::INFINITY);
    assert_eq!((wasserstein(&half, &other), wasserstein(&half, &half)), (1.5, 0.0));
    assert_eq!((kolmogorov_smirnov(&all, &half), kolmogorov_smirnov(&half, &other)), (0.5, 0.5));
    let (none, empty) = (run(&[None]), run(&[]));
    assert_eq!((wasserstein(&none, &none), wasserstein(&all, &none)), (0.0, f64::INFINITY));
    assert_eq!((wasserstein(&empty, &empty), wasserstein(&all, &empty)), (0.0, f64::INFINITY));
    assert_eq!((kolmogorov_smirnov(&empty, &empty), kolmogorov_smirnov(&all, &empty)), (0.0, 1.0));
}

#[test]
fn areas_near_the_end_of_the_clock_do_not_overflow() {
    let (low, high) = (sample([0; 1000]), sample([u64::MAX - 1; 999]));
    assert_eq!(wasserstein(&low, &high), (u64::MAX - 1) as f64);
}
