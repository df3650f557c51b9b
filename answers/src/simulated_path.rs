//! What a simulation says of the paths of a plan.

use crate::failed_path::{self, FailedRow};
use crate::simulated::Conditions;
use crate::Error;
use giusto_model::{Duration, JobRecord, PathPlan, PathStage, Plan, PredictedPercentile, Within};
use giusto_simulator::{in_parallel, play_path, Observer, PlayedPath, Stats, Unobserved, PERCENTILE_ERROR};
use giusto_verify::{Kept, Sample};
use serde::Serialize;
use std::collections::BTreeMap;

/// Messages of a simulation whose percentiles are told beside what is measured.
const FORESEEN: f64 = 20_000.0;

/// What `--json` prints for a path (`formats/simulate.schema.json`).
#[derive(Serialize)]
pub struct PathRow {
    /// Its name.
    pub path: String,
    /// Of the first run.
    pub seed: u64,
    /// Runs pooled, of this seed and the following.
    pub seeds: usize,
    /// That came.
    pub messages: usize,
    /// That had not ended.
    pub unfinished: usize,
    /// p50, p99, p99.9 and the longest, of messages that ended.
    pub response_ns: [u64; 4],
    /// The same of each stage, by its service.
    pub stages_ns: BTreeMap<String, [u64; 4]>,
    /// How far those of stages may lie above the true ones, as a share; the longest is exact.
    pub percentile_error: f64,
    /// What is proven of each percentile that was promised.
    pub proven: Vec<PredictedPercentile>,
    /// Each percentile that was promised, as played, with its interval.
    pub promised: Option<Kept>,
    /// Messages that took longer than every one may; `None`: that was not promised.
    pub late: Option<usize>,
    /// What happens when what it bears fails; not there where it bears nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub despite: Vec<FailedRow>,
    /// Of all that ended.
    #[serde(skip)]
    pub whole: Stats,
    /// Of each stage.
    #[serde(skip)]
    pub stages: Vec<(String, Stats)>,
}

impl PathRow {
    /// Of runs pooled, one at least.
    ///
    /// # Errors
    /// Response times of which nothing can be told.
    pub fn new(path: &PathPlan, seed: u64, runs: &[PlayedPath]) -> Result<PathRow, Error> {
        let messages = || runs.iter().flat_map(|run| &run.messages);
        let responses: Vec<u64> = messages().filter_map(JobRecord::response_ns).collect();
        let promised: Vec<Within> =
            path.points.iter().map(|point| Within { percentile: point.percentile, within: point.within }).collect();
        let samples = || runs.iter().map(|run| Sample::from_jobs(&run.messages)).collect::<Result<Vec<_>, _>>();
        let kept = match promised.is_empty() {
            true => None,
            false => {
                let samples = samples().map_err(Error::running)?;
                Some(giusto_verify::kept(&promised, &samples).map_err(Error::running)?)
            }
        };
        let pooled = |of: &dyn Fn(&PlayedPath) -> Stats| {
            let mut all = of(&runs[0]);
            runs[1..].iter().for_each(|run| all.merge(&of(run)));
            all
        };
        let stage = |(nth, stage): (usize, &PathStage)| (stage.to_string(), pooled(&|run| run.stages[nth].clone()));
        let stages: Vec<(String, Stats)> = path.through.iter().enumerate().map(stage).collect();
        Ok(PathRow {
            path: path.name.clone(),
            seed,
            seeds: runs.len(),
            messages: messages().count(),
            unfinished: messages().count() - responses.len(),
            response_ns: quantiles(&responses),
            stages_ns: stages.iter().map(|(name, stats)| (name.clone(), of_stage(stats))).collect(),
            percentile_error: PERCENTILE_ERROR,
            proven: proven(path),
            promised: kept,
            late: path.every.as_ref().map(|every| responses.iter().filter(|ns| **ns > every.within.ns()).count()),
            despite: Vec::new(),
            whole: pooled(&|run| run.whole.clone()),
            stages,
        })
    }
}

/// Plays a path of the plan; the first run is told to the observer, and returned with the row.
///
/// # Errors
/// What the simulator refuses.
pub fn row(
    conditions: &Conditions,
    plan: &Plan,
    path: &PathPlan,
    observer: &mut dyn Observer,
) -> Result<(PathRow, Vec<JobRecord>), Error> {
    let (horizon, seeds) = (conditions.horizon, conditions.all_seeds());
    let played = play_path(plan, path, horizon, conditions.seed, observer)?;
    let rest = in_parallel(seeds.len() - 1, |nth| play_path(plan, path, horizon, seeds[nth + 1], &mut Unobserved))?;
    let runs: Vec<PlayedPath> = std::iter::once(played).chain(rest).collect();
    let despite = failed_path::rows(conditions, plan, path)?;
    let row = PathRow { despite, ..PathRow::new(path, conditions.seed, &runs)? };
    Ok((row, runs.into_iter().next().map_or(Vec::new(), |first| first.messages)))
}

/// Median, 99 %, 99.9 % and largest, by nearest rank.
pub fn quantiles(values: &[u64]) -> [u64; 4] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = |per_mille: usize| {
        sorted.get((sorted.len() * per_mille).div_ceil(1000).saturating_sub(1)).copied().unwrap_or(0)
    };
    [rank(500), rank(990), rank(999), rank(1000)]
}

/// What a plan has proven of the percentiles of a path.
pub fn proven(path: &PathPlan) -> Vec<PredictedPercentile> {
    let one = |point: &giusto_model::PathPoint| PredictedPercentile {
        percentile: point.percentile,
        at: point.at,
        expected: None,
    };
    // What simulation decided is not proven.
    path.points.iter().filter(|_| path.simulated.is_none()).map(one).collect()
}

/// The same as they are simulated: of some twenty thousand messages.
///
/// # Errors
/// What the simulator refuses.
pub fn foreseen(plan: &Plan, path: &PathPlan, seed: u64) -> Result<Vec<PredictedPercentile>, Error> {
    let horizon = Duration::from_ns((FORESEEN / path.source.per_ns()) as u64);
    let played = play_path(plan, path, horizon, seed, &mut Unobserved)?;
    let at = |one: &giusto_model::PathPoint| PredictedPercentile {
        percentile: one.percentile,
        at: played.whole.percentile(one.percentile.percent()),
        expected: None,
    };
    Ok(path.points.iter().map(at).collect())
}

fn of_stage(stats: &Stats) -> [u64; 4] {
    [50.0, 99.0, 99.9, 100.0].map(|p| stats.percentile(p).ns())
}
