//! When a promise is kept, missed, or nobody can tell.

mod common;

use common::{exponential, rng, sample};
use giusto_verify::{compare, compare_two, table, table_two, Arm, Arms, Comparison, Error, Sample, Verdict, MIN_JOBS};
use Verdict::{CannotTell, Kept, Missed};

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

fn judge(whole: Vec<Sample>, giusto: Vec<Sample>) -> Comparison {
    compare(&Arms { whole, giusto, ..Arms::default() }, 1).unwrap()
}

#[test]
fn the_truth_table_of_as_if_alone() {
    let (a, b) = (noisy(1, 50.0), noisy(2, 50.0));
    let empty = sample([]);
    let short = sample(1..MIN_JOBS as u64);
    let cases = [
        ("identical runs", vec![a.clone(); 2], vec![a.clone(); 2], Kept, "limit"),
        ("runs that differ by chance", vec![a.clone(), b.clone()], vec![noisy(3, 50.0)], Kept, "95 % interval"),
        ("three times slower", vec![a.clone(), b.clone()], vec![noisy(3, 150.0), noisy(4, 150.0)], Missed, "limit"),
        ("faster is as far as slower", vec![a.clone(), b.clone()], vec![noisy(3, 5.0); 2], Missed, "limit"),
        ("no noise, no distance", vec![constant(5); 2], vec![constant(5)], Kept, "limit of 0"),
        ("no noise, some distance", vec![constant(5_000); 2], vec![constant(6_000)], Missed, "1.00 us from"),
        (
            "one good round of two",
            vec![a.clone(), b.clone()],
            vec![a.clone(), noisy(3, 100.0)],
            CannotTell,
            "more rounds",
        ),
        ("one whole-core run", vec![a.clone()], vec![b.clone()], CannotTell, "1 run on a whole core; at least 2"),
        ("no whole-core run", vec![], vec![b.clone()], CannotTell, "0 runs on a whole core; at least 2"),
        ("no run of Giusto's", vec![a.clone(), b.clone()], vec![], CannotTell, "no run under Giusto"),
        ("nothing", vec![], vec![], CannotTell, "no run under Giusto"),
        (
            "too few jobs",
            vec![a.clone(), b.clone()],
            vec![b.clone(), short.clone()],
            CannotTell,
            "run 2 of 'shared, Giusto' has 999 jobs; at least 1000",
        ),
        (
            "too few jobs alone",
            vec![a.clone(), short],
            vec![b.clone()],
            CannotTell,
            "run 2 of 'a whole core' has 999 jobs",
        ),
        ("an empty run", vec![a.clone(), b.clone()], vec![empty.clone()], CannotTell, "has 0 jobs"),
        ("only empty runs", vec![empty.clone(); 2], vec![empty], CannotTell, "has 0 jobs"),
        (
            "unfinished with Giusto only",
            vec![a.clone(), b.clone()],
            vec![cut(&a, 1)],
            Missed,
            "1 job never finished under Giusto",
        ),
        ("unfinished, and no floor", vec![a.clone()], vec![cut(&a, 2)], Missed, "2 jobs never finished under Giusto"),
        ("unfinished, and nothing to compare with", vec![], vec![cut(&a, 2)], CannotTell, "0 runs"),
        (
            "unfinished alone",
            vec![a.clone(), cut(&b, 3)],
            vec![a.clone()],
            CannotTell,
            "3 jobs never finished even on a whole",
        ),
        ("unfinished on both sides", vec![a.clone(), cut(&b, 3)], vec![cut(&a, 9)], CannotTell, "even on a whole core"),
    ];
    for (case, whole, giusto, verdict, words) in cases {
        let comparison = judge(whole, giusto);
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
fn the_limit_is_twice_the_upper_bound_and_the_distance_the_median_of_the_rounds() {
    let whole = vec![constant(1000), constant(1010), constant(1040)];
    let giusto = [1005, 1040, 1050].map(constant).to_vec();
    let unprotected = [2000, 3010, 9040].map(constant).to_vec();
    let comparison = compare(&Arms { whole, giusto, unprotected, ..Arms::default() }, 1).unwrap();
    let floor = comparison.floor.unwrap();
    assert_eq!((floor.runs, floor.median, floor.upper), (3, 30.0, 40.0));
    assert_eq!(comparison.limit, Some(80.0));
    assert_eq!(comparison.distance_giusto.unwrap().value, 10.0);
    assert_eq!(comparison.distance_unprotected.unwrap().value, 2000.0);
    assert_eq!((comparison.ratio_giusto, comparison.ratio_unprotected), (Some(0.25), Some(50.0)));
    assert_eq!(comparison.verdict, Kept);
}

#[test]
fn a_blunt_test_says_so() {
    let whole = vec![constant(1000), constant(3000)];
    let unprotected = vec![constant(1100), constant(3000)];
    let comparison = compare(&Arms { giusto: whole.clone(), whole, unprotected, ..Arms::default() }, 1).unwrap();
    assert_eq!(comparison.verdict, Kept);
    assert!(comparison.why.contains("the test is blunt") && comparison.why.contains("the others hardly disturbed"));
}

#[test]
fn rounds_that_were_left_out_are_named_where_they_are_missed() {
    let voided = vec!["round 2: 4 % steal".to_string()];
    let arms = Arms { whole: vec![constant(5)], giusto: vec![constant(5)], voided, ..Arms::default() };
    let why = compare(&arms, 1).unwrap().why;
    assert!(why.ends_with("(1 round left out: round 2: 4 % steal)"), "{why}");
}

#[test]
fn the_table_lines_up() {
    let (whole, giusto) = (vec![noisy(1, 50.0), noisy(2, 50.0)], vec![noisy(3, 50.0)]);
    let unprotected = vec![cut(&noisy(4, 5000.0), 5)];
    let mut comparison = compare(&Arms { whole, giusto, unprotected, ..Arms::default() }, 1).unwrap();
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
}

#[test]
fn two_runs_are_compared_without_a_verdict_and_an_empty_one_is_refused() {
    let (a, b) = (noisy(1, 50.0), noisy(2, 80.0));
    let two = compare_two(&a, &b, 3).unwrap();
    assert!(two.w1.low > 15_000.0 && two.w1.high < 45_000.0, "{two:?}");
    assert!(0.0 < two.ks.low && two.ks.high < 0.4, "{two:?}");
    let text = table_two(&two, ["whole.csv", "share.csv"]);
    assert!(text.contains("whole.csv") && text.contains("Kolmogorov-Smirnov"), "{text}");
    assert_eq!(compare_two(&a, &sample([]), 3).unwrap_err(), Error::Empty { side: "the second run" });
    // Of 1000 jobs the slowest may well miss what 1 of 1000 does; 4000 bound it.
    assert_eq!(two.a[2].high, None);
    let long = exponential(4000, 50.0, &mut rng(5));
    assert!(compare_two(&long, &b, 3).unwrap().a[2].high.is_some());
}
