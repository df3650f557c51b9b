//! Statistics on response times, and the check of a plan's certificates.

use crate::array::Whole;
use crate::error::{failed, input};
use crate::plan::PlanData;
use crate::run::{beside, Stop};
use crate::words::{Many, ObjectiveWord, Seed, Values};
use giusto_model::Within;
use giusto_verify::study::{judge, Judgement, Study, Table};
use giusto_verify::Sample;
use pyo3::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

fn sample(times: &Whole) -> PyResult<Sample> {
    Sample::from_responses(times.times()?).map_err(input)
}

/// In ns.
#[pyfunction]
pub(crate) fn wasserstein(py: Python<'_>, first: Whole, second: Whole) -> PyResult<f64> {
    beside(py, &Stop::default(), move || Ok(giusto_verify::wasserstein(&sample(&first)?, &sample(&second)?)))?
}

/// From 0 to 1.
#[pyfunction]
pub(crate) fn kolmogorov_smirnov(py: Python<'_>, first: Whole, second: Whole) -> PyResult<f64> {
    beside(py, &Stop::default(), move || Ok(giusto_verify::kolmogorov_smirnov(&sample(&first)?, &sample(&second)?)))?
}

/// JSON of two runs beside each other.
#[pyfunction]
pub(crate) fn compare_two(py: Python<'_>, first: Whole, second: Whole, seed: Seed) -> PyResult<String> {
    let work = move || {
        let found = giusto_verify::compare_two(&sample(&first)?, &sample(&second)?, None, seed.0).map_err(input)?;
        serde_json::to_string(&found).map_err(failed)
    };
    beside(py, &Stop::default(), work)?
}

/// JSON of whether percentiles were kept, of runs pooled.
#[pyfunction]
pub(crate) fn kept(py: Python<'_>, promised: Many<ObjectiveWord>, runs: Vec<Whole>) -> PyResult<String> {
    let within = |one: giusto_analysis::response::Objective| {
        let percentile = giusto_answers::notation::percentile(&one.percentile.to_string()).map_err(input)?;
        Ok(Within { percentile, within: one.within })
    };
    let promised = promised.values().into_iter().map(within).collect::<PyResult<Vec<Within>>>()?;
    let work = move || {
        let samples = runs.iter().map(sample).collect::<PyResult<Vec<Sample>>>()?;
        serde_json::to_string(&giusto_verify::kept(&promised, &samples).map_err(input)?).map_err(failed)
    };
    beside(py, &Stop::default(), work)?
}

/// JSON of what was checked of a plan; or which part does not hold.
#[pyfunction]
pub(crate) fn check_plan(py: Python<'_>, plan: &PlanData) -> PyResult<(String, Option<String>)> {
    let plan = Arc::clone(&plan.plan);
    let work = move || match giusto_verify::check_plan(&plan) {
        Ok(checked) => Ok((serde_json::to_string(&checked).map_err(failed)?, None)),
        Err(broken) => Ok((String::new(), Some(broken.to_string()))),
    };
    beside(py, &Stop::default(), work)?
}

/// A claim of a study, and what was found of it.
#[derive(Serialize)]
struct Claim<'a> {
    says: &'a str,
    source: &'a str,
    differs: Option<&'a str>,
    judgements: Vec<&'a Judgement>,
}

/// JSON of the claims in the text of a `study.toml`, judged on tables by name, which are comma-separated values.
#[pyfunction]
pub(crate) fn judge_claims(py: Python<'_>, text: String, tables: BTreeMap<String, String>) -> PyResult<String> {
    let work = move || {
        let study = Study::read(&text).map_err(input)?;
        let table = |(name, text): (&String, &String)| Ok((name.clone(), Table::read(name, text).map_err(input)?));
        let tables = tables.iter().map(table).collect::<PyResult<BTreeMap<_, _>>>()?;
        let judgements = judge(&study, &tables).map_err(input)?;
        let claims = study.claim.iter().enumerate().map(|(nth, claim)| Claim {
            says: &claim.says,
            source: &claim.source,
            differs: claim.differs.as_deref(),
            judgements: judgements.iter().filter(|judgement| judgement.claim == nth).collect(),
        });
        serde_json::to_string(&claims.collect::<Vec<Claim<'_>>>()).map_err(failed)
    };
    beside(py, &Stop::default(), work)?
}
