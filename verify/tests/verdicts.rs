//! When a promise is kept, when it is missed, and when the verdict is "cannot tell".

mod common;

use common::{arms, cycles, exponential, rng, sample};
use giusto_model::{Duration, Instant, JobRecord, Prediction, Within};
use giusto_verify::{
    compare, compare_two, distinct, kept, table, table_kept, table_two, Arm, Arms, Comparison, Error, Foreseen,
    Predicted, Round, Sample, Source, Verdict, MIN_CYCLES, MIN_JOBS,
};
use Verdict::{CannotTell, Kept, Missed};

const PREDICTED: Prediction = Prediction {
    jobs: 9,
    p50: Duration::from_us(140),
    p99: Duration::from_us(330),
    p99_9: Duration::from_us(440),
    max: Duration::from_us(500),
};

fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

fn constant(ns: u64) -> Sample {
    sample([ns; MIN_JOBS])
}

fn noisy(seed: u64, mean: f64) -> Sample {
    exponential(MIN_JOBS, mean, &mut rng(seed))
}

/// `run` with its last `n` jobs never finished.
fn cut(run: &Sample, n: usize) -> Sample {
    let times = run.finished()[..run.len() - n].iter().copied().map(Some);
    Sample::from_responses(times.chain(vec![None; n])).unwrap()
}

fn judge(rounds: impl IntoIterator<Item = [Sample; 3]>) -> Comparison {
    compare(&arms(rounds), 1).unwrap()
}

/// Three rounds of noise around whole-core means of 50 us.
fn rounds(giusto: [f64; 3]) -> Vec<[Sample; 3]> {
    let round =
        |(seed, mean): (u64, f64)| [noisy(10 * seed, 50.0), noisy(10 * seed + 1, 50.0), noisy(10 * seed + 2, mean)];
    (1..).zip(giusto).map(round).collect()
}

/// `run` in place of the `arm`-th run of round 2.
fn with(mut rounds: Vec<[Sample; 3]>, arm: usize, run: Sample) -> Vec<[Sample; 3]> {
    rounds[1][arm] = run;
    rounds
}

#[test]
fn the_truth_table_of_as_if_alone() {
    let fair = rounds([50.0; 3]);
    let (empty, short) = (sample([]), sample(1..MIN_JOBS as u64));
    let of = |ns: [u64; 3]| vec![ns.map(constant); 3];
    let cases = [
        ("runs that differ by chance", fair.clone(), Kept, "95 % interval"),
        ("three times slower", rounds([150.0; 3]), Missed, "limit"),
        ("faster is as far as slower", rounds([5.0; 3]), Missed, "limit"),
        ("no noise, no distance", of([5; 3]), Kept, "limit of 0"),
        ("no noise, some distance", of([5_000, 5_000, 6_000]), Missed, "1.00 us from the reference"),
        ("two good rounds of three", rounds([50.0, 50.0, 150.0]), CannotTell, "more rounds, longer runs or a quieter"),
        ("two rounds", fair[..2].to_vec(), CannotTell, "at least 3 are needed"),
        ("nothing", vec![], CannotTell, "no run of 'measured'"),
        ("too few jobs", with(fair.clone(), 2, short.clone()), CannotTell, "'measured' has 999 jobs; at least 1000"),
        ("too few jobs alone", with(fair.clone(), 0, short), CannotTell, "a run of 'the reference' has 999 jobs"),
        ("an empty run", with(fair.clone(), 2, empty.clone()), CannotTell, "has 0 jobs"),
        ("only empty runs", vec![[(); 3].map(|()| empty.clone()); 3], CannotTell, "has 0 jobs"),
        ("unfinished", with(fair.clone(), 2, cut(&fair[1][2], 1)), Missed, "1 job of 'measured' never finished"),
        (
            "unfinished in one round",
            vec![[fair[0][0].clone(), fair[0][1].clone(), cut(&fair[0][2], 1)]],
            CannotTell,
            "2 runs of the reference",
        ),
        ("unfinished alone", with(fair.clone(), 1, cut(&fair[1][1], 3)), CannotTell, "3 jobs of 'the reference' never"),
        (
            "unfinished on both sides",
            with(with(fair.clone(), 0, cut(&fair[1][0], 3)), 2, cut(&fair[1][2], 9)),
            CannotTell,
            "3 jobs of 'the reference' never finished",
        ),
    ];
    for (case, rounds, verdict, words) in cases {
        let comparison = judge(rounds);
        assert_eq!(comparison.verdict, verdict, "{case}: {}", comparison.why);
        assert!(comparison.why.contains(words), "{case}: {}", comparison.why);
        // Whatever the data are: it can be shown and serialised, and the interval holds the value.
        assert!(!table(&comparison, "").contains("NaN") && serde_json::to_string(&comparison).is_ok(), "{case}");
        if let Some(d) = comparison.distance_giusto {
            assert!(0.0 <= d.low && d.low <= d.value && d.value <= d.high, "{case}: {d:?}");
        }
    }
    assert_eq!([Kept, Missed, CannotTell].map(Verdict::exit_code), [0, 5, 6]);
}

#[test]
fn no_difference_found_is_not_yet_equivalence() {
    // Most jobs take `median`, a share of them 20 ms: one whole-core run in each round has 2 % of those, Giusto's 4 %.
    let slow = |median: u64, percent: u64| {
        let mut jobs: Vec<u64> = (0..2000).map(|n| median + n * 7919 % 1000).collect();
        jobs[..20 * percent as usize].fill(20_000_000);
        sample(jobs)
    };
    let experiment = |median| judge((0..3).map(|_| [slow(median, 0), slow(median, 2), slow(median, 4)]));
    let comparison = experiment(100_000);
    // The distance itself is within the limit, which is all that was asked once.
    assert!(comparison.distance_giusto.unwrap().value <= comparison.limit.unwrap());
    assert_eq!(comparison.verdict, CannotTell, "{}", comparison.why);
    assert!(comparison.why.contains("more than the median response (10"), "{}", comparison.why);
    assert!(comparison.why.contains("too blunt: more rounds, longer runs or a quieter machine"), "{}", comparison.why);
    // Where the median is large the limit is not blunt, and the interval alone decides.
    let comparison = experiment(5_000_000);
    let (distance, limit) = (comparison.distance_giusto.unwrap(), comparison.limit.unwrap());
    assert!(distance.value <= limit && limit < distance.high && limit < 5_000_000.0);
    assert_eq!(comparison.verdict, CannotTell, "{}", comparison.why);
    assert!(comparison.why.contains("straddles the limit: more rounds, longer runs"), "{}", comparison.why);
}

#[test]
fn the_distance_is_the_average_to_both_whole_core_runs_of_the_round_and_the_median_of_the_rounds() {
    let round = |ns: [u64; 4]| {
        let [whole_a, whole_b, unprotected, giusto] = ns.map(|ns| Some(constant(ns)));
        Round { whole_a, whole_b, unprotected, giusto }
    };
    let mut rounds =
        vec![round([1000, 1010, 2005, 1005]), round([3000, 3030, 3115, 3055]), round([9000, 9040, 9920, 9030])];
    let comparison = compare(&Arms { rounds: rounds.clone(), source: Source::Files, ..Arms::default() }, 1).unwrap();
    let floor = comparison.floor.unwrap();
    assert_eq!((floor.rounds, floor.median, floor.upper), (3, 30.0, 40.0));
    assert_eq!(comparison.limit, Some(80.0));
    // 5 and 5, 55 and 25, 30 and 10.
    assert_eq!(comparison.distance_giusto.unwrap().value, 20.0);
    // 1005 and 995, 115 and 85, 920 and 880.
    assert_eq!(comparison.distance_unprotected.unwrap().value, 900.0);
    assert_eq!((comparison.ratio_giusto, comparison.ratio_unprotected), (Some(0.5), Some(22.5)));
    assert_eq!((comparison.rows[0].runs, comparison.verdict), (6, Kept));

    // Without one of its whole-core runs a round counts neither for the floor nor for a distance; without the others it
    // counts for what is there.
    rounds[2].whole_b = None;
    rounds[1].unprotected = None;
    let comparison = compare(&Arms { rounds, source: Source::Files, ..Arms::default() }, 1).unwrap();
    let floor = comparison.floor.unwrap();
    assert_eq!((floor.rounds, floor.upper), (2, 30.0));
    assert_eq!(comparison.distance_giusto.unwrap().value, (5.0 + 40.0) / 2.0);
    assert_eq!(comparison.distance_unprotected.unwrap().value, 1000.0);
    assert_eq!((comparison.rows[0].runs, comparison.verdict), (5, CannotTell));
}

#[test]
fn of_a_trial_the_cycles_decide_and_a_negligible_distance_is_kept_however_surely_it_is_measured() {
    let trial = |whole: u64, giusto: u64, n: usize| {
        let arms = cycles((0..n).map(|_| [whole, whole, giusto].map(constant)));
        compare(&arms, 1).unwrap()
    };
    // Without any noise the limit is 5 % of the median on a whole core.
    for (giusto, verdict) in [(100_000, Kept), (105_000, Kept), (95_000, Kept), (105_001, Missed), (94_999, Missed)] {
        let comparison = trial(100_000, giusto, MIN_CYCLES);
        assert_eq!(comparison.verdict, verdict, "{giusto}: {}", comparison.why);
        assert_eq!(comparison.limit, Some(5_000.0));
        assert!(comparison.why.contains("5 % of its median response"), "{}", comparison.why);
    }
    assert_eq!(trial(100_000, 100_000, MIN_CYCLES - 1).verdict, CannotTell);
    // Slices may be short, together they may not.
    let short =
        |jobs: usize| compare(&cycles((0..MIN_CYCLES).map(|_| [5; 3].map(|ns| sample(vec![ns; jobs])))), 1).unwrap();
    assert_eq!(short(MIN_JOBS / MIN_CYCLES).verdict, Kept);
    let few = short(MIN_JOBS / MIN_CYCLES - 1);
    assert!(few.verdict == CannotTell && few.why.contains("'shared, Giusto' has 995 jobs"), "{}", few.why);
    // One that never finished is told as before.
    let mut lost: Vec<[Sample; 3]> = (0..MIN_CYCLES).map(|_| [100_000; 3].map(constant)).collect();
    lost[2][2] = cut(&lost[2][2], 1);
    let lost = compare(&cycles(lost), 1).unwrap();
    assert!(lost.verdict == Missed && lost.why.contains("1 job of 'shared, Giusto' never finished"), "{}", lost.why);
}

#[test]
fn others_that_hardly_disturb_are_named() {
    let [a, b, c] = [noisy(1, 50.0), noisy(2, 50.0), noisy(3, 50.0)].map(Some);
    let round = Round { whole_a: a, whole_b: b, unprotected: c.clone(), giusto: c };
    let comparison = compare(&Arms { rounds: vec![round; MIN_CYCLES], ..Arms::default() }, 1).unwrap();
    assert_eq!(comparison.verdict, Kept, "{}", comparison.why);
    assert!(comparison.why.contains("the others hardly disturbed"), "{}", comparison.why);
}

#[test]
fn runs_that_were_left_out_are_named_where_they_are_missed() {
    let voided = vec!["round 2: 4 % steal".to_string()];
    let arms = Arms { voided, ..cycles([[5; 3].map(constant)]) };
    let why = compare(&arms, 1).unwrap().why;
    assert!(why.starts_with("1 cycle complete") && why.ends_with("(1 run left out)"), "{why}");
}

#[test]
fn files_are_judged_by_all_pairs_of_the_reference_and_called_what_they_are() {
    let reference: Vec<Sample> = (1..=3).map(|seed| noisy(seed, 50.0)).collect();
    let comparison = compare(&Arms::of_files(&reference, &noisy(4, 50.0)), 1).unwrap();
    assert_eq!((comparison.verdict, comparison.floor.unwrap().rounds), (Kept, 3), "{}", comparison.why);
    let runs: Vec<(Arm, usize)> = comparison.rows.iter().map(|row| (row.arm, row.runs)).collect();
    assert_eq!(runs, [(Arm::Reference, 3), (Arm::Measured, 1)]);
    let text = table(&comparison, "") + &comparison.why + &serde_json::to_string(&comparison.rows).unwrap();
    assert!(text.contains("measured") && text.contains("distance from the reference"), "{text}");
    assert!(!text.contains("Giusto") && !text.contains("giusto") && !text.contains("whole"), "{text}");
    assert_eq!(compare(&Arms::of_files(&reference, &noisy(4, 150.0)), 1).unwrap().verdict, Missed);
    for (n, words) in [(1, "1 run of the reference"), (2, "2 runs of the reference")] {
        let comparison = compare(&Arms::of_files(&reference[..n], &noisy(4, 50.0)), 1).unwrap();
        assert_eq!(comparison.verdict, CannotTell);
        assert!(
            comparison.why.contains(words) && comparison.why.ends_with("add --baseline FILE"),
            "{}",
            comparison.why
        );
        assert_eq!(comparison.rows.len(), 2, "all that there is is shown");
    }
}

#[test]
fn one_run_in_two_places_is_refused() {
    let job = |finish| JobRecord { task: 0, job: 0, due: at(1), release: at(1), finish: Some(at(finish)) };
    let run = |name: &str, finish| (name.to_string(), vec![job(finish)]);
    assert_eq!(distinct(&[run("a", 5), run("b", 6), run("c", 7)]), Ok(()));
    let error = distinct(&[run("w1", 5), run("g1", 6), run("w2", 5)]).unwrap_err();
    assert_eq!(error, Error::Same { first: "w1".into(), second: "w2".into() });
    assert!(error.to_string().contains("w1 and w2 hold the same job records; expected a run of its own"), "{error}");
}

#[test]
fn the_table_lines_up() {
    let mut arms = cycles(vec![rounds([50.0; 3]); 5].concat());
    arms.rounds[0].unprotected = Some(cut(&noisy(4, 5000.0), 5));
    let mut comparison = compare(&arms, 1).unwrap();
    let text = table(&comparison, "60 % of the core left for others");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[1].ends_with("(noise floor)") && lines[2].ends_with("never  ✗"), "{text}");
    assert!(lines[3].ends_with("  ✓ promise kept, 60 % of the core left for others"), "{text}");
    // Each percentile ends in the column where its heading ends.
    for p in ["p50", "p99", "p99.9"] {
        let end = lines[0].find(p).unwrap() + p.len();
        assert!(lines[1..].iter().all(|line| line.is_char_boundary(end) && line[end..].starts_with(' ')), "{text}");
        assert!(lines[1..].iter().all(|line| !line[..end].ends_with("  ")), "{p}: {text}");
    }
    comparison.rows.retain(|row| row.arm == Arm::Whole);
    comparison.floor = None;
    assert!(table(&comparison, "").lines().nth(1).unwrap().ends_with("  -"));
    // Percentiles alone have no distance from anything.
    arms.predicted = Some(Predicted::Percentiles(PREDICTED));
    let text = table(&compare(&arms, 1).unwrap(), "");
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with("predicted ") && line.ends_with("  -"), "{text}");
}

#[test]
fn a_percentile_that_never_finished_is_told_as_such_and_an_unknown_one_is_not() {
    let judged = |run: Sample, p: &str| {
        let promised = Within { percentile: p.parse().unwrap(), within: Duration::from_ms(1) };
        let kept = kept(&[promised], &[run]).unwrap();
        let table = table_kept(&kept, &[Foreseen::Predicted(&[])], "measured");
        let cells: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        (kept.why.clone(), kept.verdict, cells[3..].join(" "))
    };
    let tenth = Sample::from_responses((0..MIN_JOBS).map(|job| (job % 10 > 0).then_some(150_000))).unwrap();
    let (why, verdict, cells) = judged(tenth, "p99");
    assert_eq!((why.as_str(), verdict), ("p99 falls on jobs that never finished, and 1.00 ms was promised", Missed));
    assert!(cells.starts_with("- never never never ✗"), "{cells}");
    let (why, verdict, cells) = judged(exponential(100, 50.0, &mut rng(1)), "p99");
    assert!(why.contains(" to what so few jobs cannot tell)") && verdict == CannotTell, "{why}");
    assert!(cells.contains(" us ? "), "{cells}");
}

#[test]
fn two_runs_are_compared_without_a_verdict_and_an_empty_one_is_refused() {
    let (a, b) = (noisy(1, 50.0), noisy(2, 80.0));
    let two = compare_two(&a, &b, None, 3).unwrap();
    assert!(two.w1.low > 15_000.0 && two.w1.high < 45_000.0, "{two:?}");
    assert!(0.0 < two.ks.low && two.ks.high < 0.4, "{two:?}");
    let text = table_two(&two, ["whole.csv", "share.csv"]);
    assert!(!text.contains("predicted") && !text.contains("never"), "{text}");
    assert!(text.contains("whole.csv") && text.contains("Kolmogorov-Smirnov"), "{text}");
    assert_eq!(compare_two(&a, &sample([]), None, 3).unwrap_err(), Error::Empty { side: "the second run" });
    let text = table_two(&compare_two(&a, &cut(&b, 7), Some(&PREDICTED), 3).unwrap(), ["whole.csv", "share.csv"]);
    assert!(text.lines().nth(1).unwrap().starts_with("predicted ") && text.contains("330 us"), "{text}");
    assert!(text.ends_with(&format!("share.csv: 7 of {} never finished\n", b.len())), "{text}");
    // Of 1000 jobs the slowest may well miss what 1 of 1000 does; 40,000 bound it, however much they may depend on each other.
    assert_eq!(two.a[2].high, None);
    let long = exponential(40_000, 50.0, &mut rng(5));
    assert!(compare_two(&long, &b, None, 3).unwrap().a[2].high.is_some());
}
