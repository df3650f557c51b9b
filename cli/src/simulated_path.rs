//! What a simulation says of the paths of a plan.

use crate::failure::Failure;
use crate::spread::{quantiles, spread};
use crate::table::{print, say};
use giusto_model::{Duration, JobRecord, PathPlan, PathStage, Plan, PredictedPercentile, Within};
use giusto_simulator::{play_path, PlayedPath, Stats, Unobserved, PERCENTILE_ERROR};
use giusto_verify::{Foreseen, Kept, Sample};
use serde::Serialize;
use std::collections::BTreeMap;

/// Messages of a simulation whose percentiles are told beside what is measured.
const FORESEEN: f64 = 20_000.0;

/// What `--json` prints for a path (`formats/simulate.schema.json`).
#[derive(Serialize)]
pub(crate) struct PathRow {
    pub(crate) path: String,
    pub(crate) seed: u64,
    /// Runs pooled, of this seed and the following.
    pub(crate) seeds: usize,
    pub(crate) messages: usize,
    pub(crate) unfinished: usize,
    /// p50, p99, p99.9 and the longest, of messages that ended.
    pub(crate) response_ns: [u64; 4],
    /// The same of each stage, by its service.
    pub(crate) stages_ns: BTreeMap<String, [u64; 4]>,
    /// How far those of stages may lie above the true ones, as a share; the longest is exact.
    pub(crate) percentile_error: f64,
    /// What is proven of each percentile that was promised.
    pub(crate) proven: Vec<PredictedPercentile>,
    /// Each percentile that was promised, as played, with its interval.
    pub(crate) promised: Option<Kept>,
    /// Messages that took longer than every one may; `None`: that was not promised.
    pub(crate) late: Option<usize>,
    /// Of all that ended.
    #[serde(skip)]
    pub(crate) whole: Stats,
    #[serde(skip)]
    pub(crate) stages: Vec<(String, Stats)>,
}

impl PathRow {
    pub(crate) fn new(path: &PathPlan, seed: u64, runs: &[PlayedPath]) -> Result<PathRow, Failure> {
        let messages = || runs.iter().flat_map(|run| &run.messages);
        let responses: Vec<u64> = messages().filter_map(JobRecord::response_ns).collect();
        let promised: Vec<Within> =
            path.points.iter().map(|point| Within { percentile: point.percentile, within: point.within }).collect();
        let samples = || runs.iter().map(|run| Sample::from_jobs(&run.messages)).collect::<Result<Vec<_>, _>>();
        let kept = match promised.is_empty() {
            true => None,
            false => {
                let samples = samples().map_err(Failure::running)?;
                Some(giusto_verify::kept(&promised, &samples).map_err(Failure::running)?)
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
            whole: pooled(&|run| run.whole.clone()),
            stages,
        })
    }

    pub(crate) fn print(&self, path: &PathPlan) -> Result<(), Failure> {
        say!("path {}: {} messages, {} not at their end yet", self.path, self.messages, self.unfinished);
        let stages = self.stages.iter().filter_map(|(name, _)| Some((name.as_str(), self.stages_ns.get(name)?)));
        let rows: Vec<(&str, &[u64; 4])> = std::iter::once(("all of it", &self.response_ns)).chain(stages).collect();
        print(&spread(&rows))?;
        if let Some(kept) = &self.promised {
            print(&giusto_verify::table_kept(kept, &[Foreseen::Proven(&self.proven)], "simulated"))?;
        }
        if let (Some(late), Some(every)) = (self.late, &path.every) {
            let (at, within) = (every.at, every.within);
            say!("{late} took longer than the {within} that none may; none takes longer than {at:.3}, as is proven");
        }
        Ok(())
    }
}

/// What a plan has proven of the percentiles of a path.
pub(crate) fn proven(path: &PathPlan) -> Vec<PredictedPercentile> {
    let one = |point: &giusto_model::PathPoint| PredictedPercentile {
        percentile: point.percentile,
        at: point.at,
        expected: None,
    };
    path.points.iter().map(one).collect()
}

/// The same as they are simulated: of some twenty thousand messages.
pub(crate) fn foreseen(plan: &Plan, path: &PathPlan, seed: u64) -> Result<Vec<PredictedPercentile>, Failure> {
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
