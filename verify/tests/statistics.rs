//! Intervals hold what they promise, on data whose truth is known.

mod common;

use common::{bursty, exponential, rng, sample};
use giusto_verify::{compare, compare_two, Arms, Sample, Verdict};

/// Share of `trials` in which the interval holds the truth: W1 of the two distributions, and the p50 of the second.
fn coverage(trials: u64, truth: [f64; 2], draw: impl Fn(u64) -> (Sample, Sample)) -> [f64; 2] {
    let mut held = [0; 2];
    for trial in 0..trials {
        let (a, b) = draw(trial);
        let two = compare_two(&a, &b, trial).unwrap();
        held[0] += u32::from((two.w1.low..=two.w1.high).contains(&truth[0]));
        let p50 = two.b[0];
        held[1] += u32::from((p50.low.unwrap() as f64..=p50.high.unwrap() as f64).contains(&truth[1]));
    }
    held.map(|h| f64::from(h) / trials as f64)
}

/// Exponentials of mean m and m' on the same origin are ordered, so W1 = |m − m'|; the median is m' ln 2.
const TRUTH: [f64; 2] = [30_000.0, 100_000.0 + 80_000.0 * std::f64::consts::LN_2];

#[test]
fn intervals_hold_the_truth_in_about_95_of_100_independent_samples() {
    let [w1, p50] = coverage(200, TRUTH, |trial| {
        let mut rng = rng(trial);
        (exponential(300, 50.0, &mut rng), exponential(300, 80.0, &mut rng))
    });
    println!("coverage of W1 {w1}, of p50 {p50}");
    assert!(w1 >= 0.88 && p50 >= 0.88, "W1 {w1}, p50 {p50}");
}

#[test]
fn intervals_hold_the_truth_when_neighbouring_jobs_are_alike() {
    let [w1, p50] = coverage(200, TRUTH, |trial| {
        let mut rng = rng(1000 + trial);
        (bursty(1500, 50.0, 8.0, &mut rng), bursty(1500, 80.0, 8.0, &mut rng))
    });
    println!("coverage of W1 {w1}, of p50 {p50}");
    assert!(w1 >= 0.88 && p50 >= 0.88, "W1 {w1}, p50 {p50}");
}

#[test]
fn the_interval_reaches_zero_when_both_runs_are_of_one_distribution() {
    let [w1, _] = coverage(200, [0.0, 0.0], |trial| {
        let mut rng = rng(2000 + trial);
        (exponential(300, 50.0, &mut rng), exponential(300, 50.0, &mut rng))
    });
    println!("coverage of W1 = 0: {w1}");
    assert!(w1 >= 0.88, "{w1}");
}

#[test]
fn bursts_make_the_interval_wider_than_the_same_times_shuffled() {
    let (a, b) = (bursty(4000, 50.0, 20.0, &mut rng(1)), bursty(4000, 80.0, 20.0, &mut rng(2)));
    let shuffled = |run: &Sample, stride: usize| {
        // Arrival order is not public: the sorted times, picked with a stride that is coprime to their number.
        let times = run.finished();
        sample((0..times.len()).map(|i| times[i * stride % times.len()]))
    };
    let width = |a: &Sample, b: &Sample| {
        let two = compare_two(a, b, 7).unwrap();
        (two.w1.high - two.w1.low, (two.b[0].high.unwrap() - two.b[0].low.unwrap()) as f64)
    };
    let (bursts, single) = (width(&a, &b), width(&shuffled(&a, 2741), &shuffled(&b, 1723)));
    assert!(bursts.0 > 2.0 * single.0 && bursts.1 > 2.0 * single.1, "{bursts:?} against {single:?}");
}

/// Verdicts of `trials` experiments of `rounds` rounds, in which Giusto's times have mean `mean` and a whole core's 50 us.
fn verdicts(trials: u64, rounds: usize, mean: f64) -> [usize; 3] {
    let mut seen = [0; 3];
    for trial in 0..trials {
        let mut rng = rng(3000 + trial);
        let mut runs = |mean| (0..rounds).map(|_| bursty(1000, mean, 4.0, &mut rng)).collect::<Vec<_>>();
        let arms = Arms { whole: runs(50.0), giusto: runs(mean), ..Arms::default() };
        seen[compare(&arms, trial).unwrap().verdict as usize] += 1;
    }
    seen
}

#[test]
fn a_share_just_like_a_whole_core_is_kept_and_a_slower_one_is_never() {
    let [kept, missed, _] = verdicts(40, 2, 50.0);
    assert!(kept >= 36 && missed == 0, "alike: {kept} kept, {missed} missed of 40");
    let [kept, missed, _] = verdicts(20, 3, 150.0);
    assert!(kept == 0 && missed >= 18, "slower: {kept} kept, {missed} missed of 20");
}

#[test]
fn the_noise_floor_bounds_19_of_20_further_pairs_of_whole_core_runs() {
    let mut within = 0;
    for trial in 0..100 {
        let mut rng = rng(5000 + trial);
        let mut runs = |n: usize| (0..n).map(|_| bursty(1000, 50.0, 4.0, &mut rng)).collect::<Vec<_>>();
        let arms = Arms { whole: runs(3), giusto: runs(1), ..Arms::default() };
        let comparison = compare(&arms, trial).unwrap();
        within += u32::from(comparison.distance_giusto.unwrap().value <= comparison.floor.unwrap().upper);
    }
    println!("{within} of 100 within the upper bound");
    assert!(within >= 88, "{within}");
}

#[test]
fn the_same_seed_gives_the_same_answer_on_one_thread_and_on_two() {
    let mut rng = rng(9);
    let mut runs = |n: usize| (0..n).map(|_| bursty(1200, 50.0, 4.0, &mut rng)).collect::<Vec<_>>();
    let arms = Arms { whole: runs(3), unprotected: runs(2), giusto: runs(3), ..Arms::default() };
    let json = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        serde_json::to_string(&pool.install(|| compare(&arms, seed)).unwrap()).unwrap()
    };
    assert_eq!(json(1, 5), json(2, 5));
    assert_ne!(json(1, 5), json(1, 6));
    assert_eq!(Verdict::Kept.exit_code(), 0);
}
