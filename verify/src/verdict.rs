//! Kept, missed, or cannot tell: and why, in words.

use crate::compare::{Arm, Arms, Comparison};
use crate::words::{count, time};
use crate::Sample;
use serde::Serialize;

/// Fewest jobs a run must have for a verdict: ten beyond the 99th percentile.
pub const MIN_JOBS: usize = 1000;

/// The answer to *was the promise kept?*
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The distance is within the limit.
    Kept,
    /// The whole interval of the distance is beyond the limit; or jobs never finished that did on a whole core.
    Missed,
    /// The interval straddles the limit; or there is no noise floor, a run of fewer than [`MIN_JOBS`] jobs, or jobs that
    /// never finished even on a whole core.
    CannotTell,
}

impl Verdict {
    /// Exit code of a command that judges: 0 kept, 5 missed, 6 cannot tell.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Kept => 0,
            Verdict::Missed => 5,
            Verdict::CannotTell => 6,
        }
    }

    /// In words: `promise kept`, `promise missed`, `cannot tell`.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Kept => "promise kept",
            Verdict::Missed => "promise missed",
            Verdict::CannotTell => "cannot tell",
        }
    }

    /// One column wide: ✓, ✗ or ?.
    pub fn mark(self) -> char {
        match self {
            Verdict::Kept => '✓',
            Verdict::Missed => '✗',
            Verdict::CannotTell => '?',
        }
    }
}

/// The verdict on `comparison`, which is complete but for it.
pub(crate) fn judge(arms: &Arms, comparison: &Comparison) -> (Verdict, String) {
    let unfinished = |runs: &[Sample]| runs.iter().map(Sample::unfinished).sum::<usize>();
    let (alone, shared) = (unfinished(&arms.whole), unfinished(&arms.giusto));
    if alone > 0 {
        let why = format!("{} never finished even on a whole core: more work than a core can do?", count(alone, "job"));
        return (Verdict::CannotTell, why);
    }
    if shared > 0 && arms.whole.iter().any(|run| !run.is_empty()) {
        let why = format!("{} never finished under Giusto; on a whole core all did", count(shared, "job"));
        return (Verdict::Missed, why);
    }
    if let Some(lacking) = lacking(arms) {
        return (Verdict::CannotTell, lacking);
    }
    let (Some(distance), Some(limit), Some(floor)) = (comparison.distance_giusto, comparison.limit, comparison.floor)
    else {
        return (Verdict::CannotTell, "there is no distance to judge".into());
    };
    let facts = format!(
        "{} from a whole core (95 % interval {} to {}) against a limit of {}, twice what two whole-core runs differ by \
         ({}, upper 95 % bound {})",
        time(distance.value),
        time(distance.low),
        time(distance.high),
        time(limit),
        time(floor.median),
        time(floor.upper),
    );
    if distance.value <= limit {
        (Verdict::Kept, facts + &cautions(comparison, limit))
    } else if distance.low > limit {
        (Verdict::Missed, facts)
    } else {
        (Verdict::CannotTell, facts + "; more rounds or longer runs would tell")
    }
}

/// What evidence is missing, if any is.
fn lacking(arms: &Arms) -> Option<String> {
    let voided = match arms.voided.len() {
        0 => String::new(),
        n => format!(" ({} left out: {})", count(n, "round"), arms.voided.join("; ")),
    };
    if arms.giusto.is_empty() {
        return Some(format!("there is no run under Giusto; at least 1 is needed{voided}"));
    }
    if arms.whole.len() < 2 {
        return Some(format!(
            "there is {} on a whole core; at least 2 are needed to know how much runs differ by chance{voided}",
            count(arms.whole.len(), "run")
        ));
    }
    let shortest = [(Arm::Whole, &arms.whole), (Arm::Giusto, &arms.giusto)]
        .into_iter()
        .flat_map(|(arm, runs)| runs.iter().enumerate().map(move |(i, run)| (run.len(), i + 1, arm.name())))
        .min_by_key(|&(jobs, ..)| jobs)?;
    let (jobs, round, arm) = shortest;
    (jobs < MIN_JOBS).then(|| {
        format!(
            "run {round} of '{arm}' has {}; at least {MIN_JOBS} a run are needed: let it run longer",
            count(jobs, "job")
        )
    })
}

/// What makes a kept promise prove less than it seems.
fn cautions(comparison: &Comparison, limit: f64) -> String {
    let mut words = String::new();
    let alone = comparison.rows.iter().find(|row| row.arm == Arm::Whole);
    let median = alone.and_then(|row| row.percentiles.first()?.value);
    if median.is_some_and(|ns| limit > ns as f64) {
        words += ". Mind that the limit is more than the median response time: the machine is noisy, the test is blunt";
    }
    if comparison.distance_unprotected.is_some_and(|d| d.value <= limit) {
        words += ". Mind that without a plan the distance was within the limit too: the others hardly disturbed";
    }
    words
}
