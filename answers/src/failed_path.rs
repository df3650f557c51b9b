//! What a simulation says of a path when what it bears fails, again and again.

use crate::simulated::Conditions;
use crate::Error;
use giusto_model::{DespitePlan, Duration, Fails, Instant, JobRecord, PathPlan, PathStage, Plan};
use giusto_simulator::{play_path_that_fails, PathStop, Unobserved};
use serde::Serialize;

/// Promised times between two failures, at least: the one is over before the next.
const APART: u64 = 10;
/// Failures of a simulation, at most.
const MOST: u64 = 200;

/// Messages beside failures of one kind (`formats/simulate.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedRow {
    /// What fails.
    pub fails: Fails,
    /// For how long it stands still.
    #[serde(rename = "gap_ns")]
    pub gap: Duration,
    /// How often.
    pub failures: u64,
    /// Messages that were on their way, or came while it stood still, of all failures.
    pub messages: usize,
    /// Of one failure, at most.
    pub touched: usize,
    /// Of all `messages`, those beyond each percentile that was promised, in order, or beyond the longest time.
    pub late: Vec<usize>,
    /// The longest that one of them took; one that had not ended counts until the end.
    pub longest_ns: u64,
}

/// One for each failure that the path bears.
///
/// # Errors
/// What the simulator refuses.
pub(crate) fn rows(conditions: &Conditions, plan: &Plan, path: &PathPlan) -> Result<Vec<FailedRow>, Error> {
    path.despite.iter().map(|one| row(conditions, plan, path, one)).collect()
}

fn row(conditions: &Conditions, plan: &Plan, path: &PathPlan, one: &DespitePlan) -> Result<FailedRow, Error> {
    let points = path.points.iter().map(|point| (point.within, point.at));
    let promised: Vec<(Duration, Duration)> =
        points.chain(path.every.iter().map(|every| (every.within, every.at))).collect();
    let (within, at) = promised.iter().copied().max().unwrap_or_default();
    let horizon = conditions.horizon.ns();
    let apart = within.ns().saturating_mul(APART).max(horizon / MOST).max(1);
    let failures = (horizon / apart).max(1);
    let apart = horizon / failures;
    let (stage, lost) = match &one.fails {
        Fails::Leader => (None, false),
        Fails::Service(name) => (path.through.iter().position(|stage| stage.service() == Some(name)), true),
        Fails::Topic(name) => {
            let tokens = |stage: &PathStage| matches!(stage, PathStage::Tokens(own) if own.tokens_of == *name);
            (path.through.iter().position(tokens), true)
        }
    };
    let stop = |nth: u64| {
        // Not always at the same place of a server's period.
        let from = apart / 2 + nth * apart + (nth * apart / 997) % (apart / 7).max(1);
        PathStop { stage, from: Instant::from_ns(from), until: Instant::from_ns(from + one.gap.ns()), lost }
    };
    let stops: Vec<PathStop> = (0..failures).map(stop).collect();
    let seed = (conditions.seed, &stops[..]);
    let played = play_path_that_fails(plan, path, conditions.horizon, seed, &mut Unobserved)?;
    let end = horizon.saturating_add(at.ns().saturating_add(path.later().ns()).saturating_mul(2));
    let took = |job: &JobRecord| job.response_ns().unwrap_or_else(|| end.saturating_sub(job.release.ns()));
    let near = |stop: &PathStop, job: &&JobRecord| {
        job.release.ns().saturating_add(at.ns()) >= stop.from.ns() && job.release < stop.until
    };
    let each: Vec<Vec<u64>> =
        stops.iter().map(|stop| played.messages.iter().filter(|job| near(stop, job)).map(took).collect()).collect();
    let all = || each.iter().flatten().copied();
    Ok(FailedRow {
        fails: one.fails.clone(),
        gap: one.gap,
        failures,
        messages: all().count(),
        touched: each.iter().map(Vec::len).max().unwrap_or(0),
        late: promised.iter().map(|(within, _)| all().filter(|took| *took > within.ns()).count()).collect(),
        longest_ns: all().max().unwrap_or(0),
    })
}
