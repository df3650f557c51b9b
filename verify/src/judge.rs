//! Whether a promise of response times as on a whole core was kept: the rule, and why in words.

use crate::comparison::Comparison;
use crate::verdict::Verdict;
use crate::words::{count, time};
use crate::{Arm, Arms, Sample, Source};

/// Fewest jobs a run must have for a verdict: ten beyond the 99th percentile.
pub const MIN_JOBS: usize = 1000;

/// Fewest rounds with both whole-core runs and one of Giusto's: fewer pairs do not tell what runs differ by.
pub const MIN_ROUNDS: usize = 3;

/// Fewest complete cycles of a trial's slices: fewer say too little of what a machine does from one to the next.
pub const MIN_CYCLES: usize = 5;

/// The verdict on `comparison`, which is complete but for it.
pub(crate) fn judge(arms: &Arms, comparison: &Comparison) -> (Verdict, String) {
    let (reference, judged) = (arms.reference(), arms.judged());
    let unfinished = |arm: Arm| arms.runs(arm).into_iter().map(Sample::unfinished).sum::<usize>();
    let (alone, shared) = (unfinished(reference), unfinished(judged));
    if alone > 0 {
        let jobs = count(alone, "job");
        return (
            Verdict::CannotTell,
            format!("{jobs} of '{}' never finished: more work than it can do?", reference.name()),
        );
    }
    if let Some(lacking) = lacking(arms) {
        return (Verdict::CannotTell, lacking);
    }
    if shared > 0 {
        let jobs = count(shared, "job");
        let why = format!("{jobs} of '{}' never finished; of '{}' all did", judged.name(), reference.name());
        return (Verdict::Missed, why);
    }
    let (Some(distance), Some(limit), Some(floor)) = (comparison.distance_giusto, comparison.limit, comparison.floor)
    else {
        return (Verdict::CannotTell, "there is no distance to judge".into());
    };
    let why_limit = if limit > 2.0 * floor.upper {
        format!(
            "{} % of its median response; two of its runs differ by {}, by at most {} with 95 % probability",
            NEGLIGIBLE * 100.0,
            time(floor.median),
            time(floor.upper)
        )
    } else {
        format!("twice what two of its runs differ by ({}, upper 95 % bound {})", time(floor.median), time(floor.upper))
    };
    let facts = format!(
        "{} from {} (95 % interval {} to {}) against a limit of {}, {why_limit}",
        time(distance.value),
        reference.name(),
        time(distance.low),
        time(distance.high),
        time(limit),
    );
    let alone = comparison.rows.iter().find(|row| row.arm == reference);
    let median = alone.and_then(|row| row.percentiles.first()?.value);
    if let Some(median) = median.map(|ns| ns as f64).filter(|&ns| limit > ns) {
        let blunt =
            format!("; that limit is more than the median response ({}), so the test is too blunt", time(median));
        return (Verdict::CannotTell, facts + &blunt + REMEDY);
    }
    match Verdict::of(distance, limit) {
        Verdict::Kept => (Verdict::Kept, facts + caution(comparison, limit)),
        Verdict::Missed => (Verdict::Missed, facts),
        Verdict::CannotTell => (Verdict::CannotTell, facts + "; the interval straddles the limit" + REMEDY),
    }
}

/// What to do where the data do not suffice.
const REMEDY: &str = ": more rounds, longer runs or a quieter machine would tell";

/// What evidence is missing, if any is.
fn lacking(arms: &Arms) -> Option<String> {
    let voided = match arms.voided.len() {
        0 => String::new(),
        n => format!(" ({} left out)", count(n, "run")),
    };
    let (reference, judged) = (arms.reference(), arms.judged());
    let least = match arms.source {
        Source::Trial => MIN_CYCLES,
        Source::Files => MIN_ROUNDS,
    };
    if arms.runs(judged).is_empty() {
        return Some(format!("there is no run of '{}'; expected {least}, one a round{voided}", judged.name()));
    }
    let complete = arms.beside_whole(judged).len();
    if complete < least {
        return Some(match arms.source {
            Source::Trial => format!(
                "{} complete (two slices of '{}', one of '{}'); at least {least} are needed to know what the machine \
                 does from one to the next: measure longer{voided}",
                count(complete, "cycle"),
                reference.name(),
                judged.name()
            ),
            Source::Files => format!(
                "{} of the reference; at least 3 are needed, which make {MIN_ROUNDS} pairs, to know how much runs \
                 differ by chance: add --baseline FILE",
                count(arms.runs(reference).len(), "run")
            ),
        });
    }
    let of = |arm: Arm| -> Vec<(usize, &'static str)> {
        let runs = arms.runs(arm).into_iter().map(Sample::len);
        match arms.source {
            Source::Trial => vec![(runs.sum(), arm.name())],
            Source::Files => runs.map(|jobs| (jobs, arm.name())).collect(),
        }
    };
    let (jobs, arm) = of(reference).into_iter().chain(of(judged)).min_by_key(|&(jobs, _)| jobs)?;
    let what = match arms.source {
        Source::Trial => "",
        Source::Files => "a run of ",
    };
    (jobs < MIN_JOBS)
        .then(|| format!("{what}'{arm}' has {}; at least {MIN_JOBS} are needed: let it run longer", count(jobs, "job")))
}

/// What makes a kept promise prove less than it seems.
fn caution(comparison: &Comparison, limit: f64) -> &'static str {
    match comparison.distance_unprotected {
        Some(distance) if distance.value <= limit => {
            ". Mind that without a plan the distance was within the limit too: the others hardly disturbed"
        }
        _ => "",
    }
}

/// Of the median response time on a whole core: a smaller distance is of no consequence, however surely it is measured.
/// Without it
/// a trial that goes on long enough would find any promise missed: after a gap a service comes back to caches that others used.
pub const NEGLIGIBLE: f64 = 0.05;
