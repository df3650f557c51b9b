//! A plan in virtual time, as `giusto simulate` plays it.

use crate::columns::{Job, JobRecords, SliceRecords};
use crate::error::{from, input};
use crate::plan::PlanData;
use crate::recorder::{Of, Recorder, Watcher};
use crate::run::{beside, Stop};
use crate::words::{Count, Seed, Span};
use giusto_answers::simulated::{self, has_jobs, is_stage, Conditions};
use giusto_answers::simulated_path;
use giusto_answers::Error;
use giusto_model::{Plan, ServicePlan};
use giusto_simulator::{Execution, Under};
use pyo3::prelude::*;
use std::sync::Arc;

/// What was played: the rows of `giusto simulate --json`, and the jobs and schedule of one service or path.
type Played = (String, Option<(String, JobRecords, SliceRecords)>);

/// Plays a plan; records the jobs of `record`, else of the first that has some.
#[pyfunction]
#[pyo3(signature = (plan, horizon, seed, seeds, compare, execution_ns, transport_ns, record, slices))]
#[allow(clippy::too_many_arguments)] // so much can be asked
pub(crate) fn simulate_plan(
    py: Python<'_>,
    plan: &PlanData,
    horizon: Span,
    seed: Seed,
    seeds: Count,
    compare: Vec<String>,
    execution_ns: Option<Vec<u64>>,
    transport_ns: Vec<u64>,
    record: Option<String>,
    slices: bool,
) -> PyResult<Played> {
    let (seed, seeds) = (seed.0, seeds.0);
    if !(1..=10_000).contains(&seeds) {
        return Err(input("expected 1 to 10,000 seeds"));
    }
    let compare: Vec<Under> = compare.iter().map(|name| name.parse()).collect::<Result<_, String>>().map_err(input)?;
    let execution = execution_ns.map_or(Execution::Worst, |times| Execution::Samples(times.into()));
    let conditions = Conditions { compare, execution, transport: transport_ns, horizon: horizon.0, seed, seeds };
    let plan = Arc::clone(&plan.plan);
    let recorded = match record {
        Some(name) => Some(known(&plan, name)?),
        None => first(&plan),
    };
    let stop = Stop::default();
    let inner = stop.clone();
    beside(py, &stop, move || play(&plan, &conditions, recorded, slices, &inner))?.map_err(from)
}

/// A service of several virtual CPUs has an entry for each: the first is recorded.
fn known(plan: &Plan, name: String) -> PyResult<String> {
    let service = plan.services.iter().any(|one| one.name == name && has_jobs(one));
    if service || plan.paths.iter().any(|path| path.name == name) {
        return Ok(name);
    }
    Err(input(format!("the plan has no service or path '{name}' with jobs to record")))
}

fn first(plan: &Plan) -> Option<String> {
    let plays = |one: &&ServicePlan| has_jobs(one) && !is_stage(one);
    let service = plan.services.iter().find(plays).map(|one| one.name.clone());
    service.or_else(|| plan.paths.first().map(|path| path.name.clone()))
}

fn play(
    plan: &Plan,
    conditions: &Conditions,
    recorded: Option<String>,
    slices: bool,
    stop: &Stop,
) -> Result<Played, Error> {
    let mut rows = Vec::new();
    let mut kept: Option<Recorder> = None;
    for service in plan.services.iter().filter(|service| !is_stage(service)) {
        let own = if kept.is_none() && recorded.as_ref() == Some(&service.name) && has_jobs(service) {
            let mut recorder = Recorder::new(Of::First, slices, stop.clone());
            let own = simulated::rows(conditions, plan, service, &mut recorder)?;
            kept = Some(recorder);
            own
        } else {
            simulated::rows(conditions, plan, service, &mut Watcher(stop.clone()))?
        };
        for row in own {
            rows.push(serde_json::to_value(&row).map_err(Error::running)?);
        }
    }
    for path in &plan.paths {
        // The messages from end to end, not the jobs of its stages.
        let wanted = kept.is_none() && recorded.as_ref() == Some(&path.name);
        let mut recorder = Recorder::new(Of::None, wanted && slices, stop.clone());
        let (row, messages) = simulated_path::row(conditions, plan, path, &mut recorder)?;
        rows.push(serde_json::to_value(&row).map_err(Error::running)?);
        if wanted {
            recorder.jobs = messages.iter().map(|job| Job::new(0, job)).collect();
            kept = Some(recorder);
        }
    }
    let text = serde_json::to_string(&rows).map_err(Error::running)?;
    let jobs = recorded
        .zip(kept)
        .map(|(name, kept)| (name, JobRecords(Arc::new(kept.jobs)), SliceRecords(Arc::new(kept.slices))));
    Ok((text, jobs))
}
