//! Files of other tools.

use crate::array::Whole;
use crate::columns::{Job, JobRecords};
use crate::error::{input, site as site_error};
use crate::value::{fields, Fields};
use giusto_model::{Duration, Instant, Interface, JobRecord};
use giusto_site::carts::{self, Component, Period, Scheduler, Unit};
use giusto_traces::Select;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is wrong with a file.
pub(crate) fn named(path: &Path, error: &dyn std::fmt::Display) -> PyErr {
    input(format!("{}: {error}", path.display()))
}

/// To be read.
pub(crate) fn open(path: &Path) -> PyResult<BufReader<File>> {
    File::open(path).map(BufReader::new).map_err(|error| named(path, &error))
}

fn component<'py>(py: Python<'py>, of: &Component) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    made.set_item("name", &of.name)?;
    let scheduler = match of.scheduler {
        Scheduler::Edf => "edf",
        Scheduler::Rm => "rm",
        Scheduler::Dm => "dm",
    };
    made.set_item("scheduler", scheduler)?;
    let period = match of.period {
        Period::Exactly(period) => Some((period.ns(), period.ns())),
        Period::Between(shortest, longest) => Some((shortest.ns(), longest.ns())),
        Period::Free => None,
    };
    made.set_item("period_ns", period)?;
    let tasks: Vec<(&str, Fields)> = of.tasks.iter().map(|task| (task.name.as_str(), fields(task))).collect();
    made.set_item("tasks", tasks)?;
    let inner = of.components.iter().map(|inner| component(py, inner)).collect::<PyResult<Vec<_>>>()?;
    made.set_item("components", PyList::new(py, inner)?)?;
    Ok(made)
}

fn unit(name: &str) -> PyResult<Unit> {
    name.parse().map_err(|why: String| input(why))
}

/// A tree of components in the XML of CARTS.
#[pyfunction]
pub(crate) fn read_carts<'py>(py: Python<'py>, path: PathBuf, unit_name: &str) -> PyResult<Bound<'py, PyDict>> {
    component(py, &carts::read(&path, unit(unit_name)?).map_err(site_error)?)
}

/// The file's system with interfaces, (period, budget) by component, as a text.
#[pyfunction]
pub(crate) fn write_carts(path: PathBuf, unit_name: &str, known: HashMap<String, (u64, u64)>) -> PyResult<String> {
    let unit = unit(unit_name)?;
    let system = carts::read(&path, unit).map_err(site_error)?;
    let of = |component: &Component| {
        let (period, budget) = known.get(&component.name)?;
        Some(Interface { period: Duration::from_ns(*period), budget: Duration::from_ns(*budget) })
    };
    Ok(carts::write(&system, unit, &of))
}

fn records<'a>(jobs: impl IntoIterator<Item = &'a JobRecord>) -> JobRecords {
    JobRecords(Arc::new(jobs.into_iter().map(|job| Job::new(0, job)).collect()))
}

/// Jobs that came and ended at these times; -1: it never ended.
#[pyfunction]
pub(crate) fn job_records(release_ns: Whole, finish_ns: Whole) -> PyResult<JobRecords> {
    let (releases, finishes) = (release_ns.known()?, finish_ns.times()?);
    let record = |(job, (release, finish)): (u64, (u64, Option<u64>))| JobRecord {
        task: 0,
        job,
        due: Instant::from_ns(release),
        release: Instant::from_ns(release),
        finish: finish.map(Instant::from_ns),
    };
    let jobs: Vec<JobRecord> = (0..).zip(releases.into_iter().zip(finishes)).map(record).collect();
    Ok(records(&jobs))
}

/// Jobs of the log of an rt-app.
#[pyfunction]
pub(crate) fn read_rtapp_log(path: PathBuf) -> PyResult<JobRecords> {
    let jobs = giusto_traces::read_log(open(&path)?).map_err(|error| named(&path, &error))?;
    Ok(records(&jobs))
}

/// Tasks of the configuration of an rt-app.
#[pyfunction]
pub(crate) fn read_rtapp_config(path: PathBuf) -> PyResult<Vec<(String, Fields)>> {
    let text = std::fs::read_to_string(&path).map_err(|error| named(&path, &error))?;
    let tasks = giusto_traces::read_config(&text).map_err(|error| named(&path, &error))?;
    let of = |task: giusto_traces::ConfigTask| {
        let fields = (task.wcet.ns(), task.period.ns(), task.period.ns(), Some(task.offset.ns()), task.copies);
        (task.name, fields)
    };
    Ok(tasks.into_iter().map(of).collect())
}

/// Jobs of a thread in what perf, trace-cmd or ftrace printed, and the execution time of each in ns.
#[pyfunction]
pub(crate) fn read_sched(path: PathBuf, thread: &str) -> PyResult<(JobRecords, Vec<u64>)> {
    let wanted = thread.parse().map_or_else(|_| Select::Name(thread.into()), Select::Tid);
    let found = giusto_traces::read_sched(open(&path)?, &wanted).map_err(|error| named(&path, &error))?;
    let record = |(job, one): (u64, &giusto_traces::Job)| JobRecord {
        task: 0,
        job,
        due: one.release,
        release: one.release,
        finish: Some(one.finish),
    };
    let jobs: Vec<JobRecord> = (0..).zip(&found.jobs).map(record).collect();
    Ok((records(&jobs), found.jobs.iter().map(|job| job.execution.ns()).collect()))
}
