//! Statistics on response times, and the check of a plan's certificates.

use crate::array::Whole;
use crate::error::{failed, input};
use crate::plan::PlanData;
use crate::run::{beside, Stop};
use crate::words::{ObjectiveWord, Values};
use giusto_model::Within;
use giusto_verify::Sample;
use pyo3::prelude::*;
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
pub(crate) fn compare_two(py: Python<'_>, first: Whole, second: Whole, seed: u64) -> PyResult<String> {
    let work = move || {
        let found = giusto_verify::compare_two(&sample(&first)?, &sample(&second)?, None, seed).map_err(input)?;
        serde_json::to_string(&found).map_err(failed)
    };
    beside(py, &Stop::default(), work)?
}

/// JSON of whether percentiles were kept, of runs pooled.
#[pyfunction]
pub(crate) fn kept(py: Python<'_>, promised: Vec<ObjectiveWord>, runs: Vec<Whole>) -> PyResult<String> {
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
