//! Intervals hold what they promise, on data whose truth is known.

mod common;

use common::{arms, bursty, bursty_above, exponential, rng, sample};
use giusto_verify::{compare, compare_two, wasserstein, Arms, Sample, Verdict};
use rand::RngExt;

/// Share of `trials` in which the interval holds the truth: W1 of the two distributions, and the p50 of the second.
fn coverage(trials: u64, truth: [f64; 2], draw: impl Fn(u64) -> (Sample, Sample)) -> [f64; 2] {
    let mut held = [0; 2];
    for trial in 0..trials {
        let (a, b) = draw(trial);
        let two = compare_two(&a, &b, None, trial).unwrap();
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

/// One in ten of the second run's jobs never finishes and the others are alike: the functions are 0.1 apart, the area is infinite.
#[test]
fn the_height_between_functions_is_known_where_jobs_never_finished_and_the_area_is_not() {
    let mut held = 0;
    for trial in 0..200 {
        let mut rng = rng(6000 + trial);
        let [a, b] = [0.0, 0.1].map(|never| {
            let mut job = || (!rng.random_bool(never)).then(|| (-50_000.0 * (1.0 - rng.random::<f64>()).ln()) as u64);
            Sample::from_responses((0..1000).map(|_| job())).unwrap()
        });
        let two = compare_two(&a, &b, None, trial).unwrap();
        held += u32::from((two.ks.low..=two.ks.high).contains(&0.1) && two.ks.high < 0.3);
        assert!(two.w1.low.is_infinite() && two.w1.high.is_infinite());
    }
    println!("coverage of KS {held} of 200");
    assert!(held >= 176, "{held}");
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
        let two = compare_two(a, b, None, 7).unwrap();
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
        let mut run = |mean| bursty(1000, mean, 4.0, &mut rng);
        let arms = arms((0..rounds).map(|_| [run(50.0), run(50.0), run(mean)]));
        seen[compare(&arms, trial).unwrap().verdict as usize] += 1;
    }
    seen
}

#[test]
fn a_share_just_like_a_whole_core_is_kept_and_a_slower_one_is_never() {
    let [kept, missed, _] = verdicts(40, 3, 50.0);
    println!("alike: {kept} kept, {missed} missed of 40");
    assert!(kept >= 36 && missed == 0, "alike: {kept} kept, {missed} missed of 40");
    let [kept, missed, _] = verdicts(20, 3, 150.0);
    assert!(kept == 0 && missed >= 18, "slower: {kept} kept, {missed} missed of 20");
}

#[test]
fn the_interval_of_three_rounds_holds_the_truth_where_rounds_share_no_run_and_where_they_do() {
    // W1 of the two distributions: 30 us.
    let (mut apart, mut sharing) = (0, 0);
    for trial in 0..100 {
        let mut rng = rng(4000 + trial);
        let mut run = |mean| bursty(1000, mean, 4.0, &mut rng);
        let holds = |arms: &Arms| {
            let distance = compare(arms, trial).unwrap().distance_giusto.unwrap();
            u32::from((distance.low..=distance.high).contains(&30_000.0))
        };
        apart += holds(&arms((0..3).map(|_| [run(50.0), run(50.0), run(80.0)])));
        sharing += holds(&Arms::of_files(&[run(50.0), run(50.0), run(50.0)], &run(80.0)));
    }
    println!("coverage of 100: own runs {apart}, shared runs {sharing}");
    assert!(apart >= 88 && sharing >= 88, "own runs {apart}, shared runs {sharing}");
}

#[test]
fn drift_between_rounds_inflates_neither_floor_nor_distance() {
    // One experiment on a steady machine, and the same one on a machine that is slower by 2 ms from round to round.
    let experiment = |drift: u64| {
        let mut rng = rng(8);
        let mut run = |round: u64, mean| bursty_above(100_000 + drift * round, 1500, mean, 4.0, &mut rng);
        let rounds: Vec<_> = (0..3).map(|round| [run(round, 50.0), run(round, 50.0), run(round, 55.0)]).collect();
        compare(&arms(rounds), 1).unwrap()
    };
    let (steady, drifting) = (experiment(0), experiment(2_000_000));
    assert_eq!(drifting.floor, steady.floor);
    assert_eq!(drifting.distance_giusto, steady.distance_giusto);
    assert_eq!(drifting.limit, steady.limit);
    assert!(drifting.limit.unwrap() < 100_000.0, "{:?}", drifting.limit);
}

#[test]
fn the_noise_floor_bounds_19_of_20_further_pairs_of_whole_core_runs() {
    let mut within = 0;
    for trial in 0..100 {
        let mut rng = rng(5000 + trial);
        let mut run = || bursty(1000, 50.0, 4.0, &mut rng);
        let comparison = compare(&arms((0..3).map(|_| [run(), run(), run()])), trial).unwrap();
        within += u32::from(wasserstein(&run(), &run()) <= comparison.floor.unwrap().upper);
    }
    println!("{within} of 100 within the upper bound");
    assert!(within >= 88, "{within}");
}

#[test]
fn the_same_seed_gives_the_same_answer_on_one_thread_and_on_two() {
    let mut rng = rng(9);
    let mut run = || bursty(1200, 50.0, 4.0, &mut rng);
    let arms = arms((0..3).map(|_| [run(), run(), run()]));
    let json = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        serde_json::to_string(&pool.install(|| compare(&arms, seed)).unwrap()).unwrap()
    };
    assert_eq!(json(1, 5), json(2, 5));
    assert_ne!(json(1, 5), json(1, 6));
    assert_eq!(Verdict::Kept.exit_code(), 0);
}
