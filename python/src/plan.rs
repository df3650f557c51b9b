//! Sites and plans.

use crate::error::{failed, from, input, refused, site as site_error};
use crate::readers::{named, open};
use crate::run::{beside, Stop};
use crate::words::Seed;
use giusto_answers::plan::{facts, of, predict_all, Asked, Read};
use giusto_answers::Error;
use giusto_planner::Facts;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A site: hosts, services, and what each was promised.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct SiteData {
    read: Arc<Read>,
    name: String,
    text: String,
}

#[pymethods]
impl SiteData {
    /// Of a text; `name` stands for its file in errors.
    #[staticmethod]
    fn parse(name: &str, text: &str) -> PyResult<SiteData> {
        let site = giusto_site::parse(name, text).map_err(site_error)?;
        let file = std::path::absolute(name).map_err(input)?;
        let from = giusto_planner::site_basis(&file, text.as_bytes());
        Ok(SiteData { read: Arc::new(Read { site, from }), name: name.into(), text: text.into() })
    }
    /// Of a file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<SiteData> {
        let text = giusto_site::text(&path).map_err(site_error)?;
        SiteData::parse(&path.display().to_string(), &text)
    }
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn hosts(&self) -> Vec<(String, Vec<u32>)> {
        self.read.site.hosts.iter().map(|host| (host.name.clone(), host.cores.clone())).collect()
    }
    #[getter]
    fn services(&self) -> Vec<(String, String)> {
        self.read.site.services.iter().map(|one| (one.name.clone(), one.promise.to_string())).collect()
    }
}

/// A plan of a site, and what was to be said of it.
#[pyclass(frozen, module = "giusto._giusto")]
#[derive(Clone)]
pub(crate) struct PlanData {
    pub(crate) plan: Arc<giusto_model::Plan>,
    notes: Vec<String>,
}

#[pymethods]
impl PlanData {
    /// plan.json
    fn text(&self) -> PyResult<String> {
        giusto_planner::text(&self.plan).map_err(failed)
    }
    /// As the command line's `plan --html`.
    fn page(&self) -> PyResult<String> {
        Ok(giusto_daemon::plan_page(&self.text()?))
    }
    /// Where the numbers of a service come from, in words.
    fn explain(&self, name: &str) -> PyResult<String> {
        giusto_planner::explain(&self.plan, name).map_err(input)
    }
    /// The part of one host.
    fn on(&self, host: &str) -> PyResult<PlanData> {
        let own = self.plan.on(host).ok_or_else(|| input(format!("the plan has no host '{host}'")))?;
        Ok(PlanData { plan: Arc::new(own), notes: Vec::new() })
    }
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
    /// Of a file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<PlanData> {
        Ok(PlanData { plan: Arc::new(giusto_planner::read(&path).map_err(input)?), notes: Vec::new() })
    }
}

/// Plans a site; `predicts` as `giusto plan --out` does, with this seed.
#[pyfunction]
#[pyo3(signature = (site, hostname, host, backend, latency, profiles, current, typical, predicts))]
#[allow(clippy::too_many_arguments)] // so much can be asked
pub(crate) fn plan(
    py: Python<'_>,
    site: &SiteData,
    hostname: String,
    host: Option<String>,
    backend: Option<&str>,
    latency: Option<PathBuf>,
    profiles: Option<PathBuf>,
    current: Option<PathBuf>,
    typical: bool,
    predicts: Option<Seed>,
) -> PyResult<PlanData> {
    let backend = backend.map(|name| name.parse().map_err(|why: String| input(why))).transpose()?;
    let read = Arc::clone(&site.read);
    let work = move || -> Result<PlanData, Error> {
        let asked = Asked {
            backend,
            host: host.as_deref(),
            latency: latency.as_deref(),
            profiles: profiles.as_deref(),
            current: current.as_deref(),
        };
        let machine = if typical { anywhere(&read) } else { giusto_daemon::facts() };
        let facts = facts(&read.site, &asked, machine, &hostname)?;
        let mut notes = Vec::new();
        let mut plan = of(&read, &asked, facts, &mut |note| notes.push(note.to_string()))?;
        if let Some(Seed(seed)) = predicts {
            predict_all(&mut plan, seed)?;
        }
        Ok(PlanData { plan: Arc::new(plan), notes })
    };
    beside(py, &Stop::default(), work)?.map_err(|error| match error {
        Error::Refused(refusal) => refused(*refusal, Some((&site.name, &site.text))),
        other => from(other),
    })
}

/// What is assumed of a machine that was not looked at, with all cores of the site.
fn anywhere(read: &Read) -> Facts {
    let mut cores: Vec<u32> = read.site.hosts.iter().flat_map(|host| host.cores.iter().copied()).collect();
    cores.sort_unstable();
    cores.dedup();
    Facts::typical(cores)
}

/// A measured service's execution and transport times, in ns.
#[pyfunction]
pub(crate) fn profile(path: PathBuf) -> PyResult<(Vec<u64>, Vec<u64>)> {
    let read = giusto_measure::Profile::read(open(&path)?).map_err(|error| named(&path, &error))?;
    Ok((read.execution, read.transport))
}
