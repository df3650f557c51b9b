//! `giusto simulate`.

use crate::args::SimulateArgs;
use crate::failure::{create, Failure};
use crate::table::{json, say, table};
use giusto_measure::Profile;
use giusto_model::{Bandwidth, JobRecord, JobWriter, Prediction};
use giusto_simulator::{predict, Error, Execution, Observer, Predicted, Trace, PERCENTILE_ERROR};
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::process::ExitCode;

/// What `--json` prints for a service (`formats/simulate.schema.json`).
#[derive(Serialize)]
struct Row {
    service: String,
    seed: u64,
    prediction: Prediction,
    /// How far percentiles may lie above the true ones, as a share; max and mean are exact.
    percentile_error: f64,
    mean_ns: f64,
    unfinished: u64,
    competitor_share: f64,
}

/// Plays the plan of every time-sensitive service, each beside a competitor that takes everything else.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let plan = crate::plan::of(&args.site.site)?;
    if plan.services.is_empty() {
        return Err(Failure::input("there is nothing to simulate: no service of this site is promised as-if-alone"));
    }
    let profile = match &args.profile {
        Some(path) => {
            let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
            let file = File::open(path).map_err(|error| named(&error))?;
            Some(Profile::read(BufReader::new(file)).map_err(|error| named(&error))?)
        }
        None => None,
    };
    let execution = profile.as_ref().map_or(Execution::Worst, |p| Execution::Samples(p.execution.as_slice().into()));
    let transport = profile.as_ref().map_or(&[][..], |p| &p.transport);
    let mut rows = Vec::new();
    for (index, service) in plan.services.iter().enumerate() {
        let first = index == 0;
        let jobs = args.jobs.as_ref().filter(|_| first).map(|path| create(path)).transpose()?;
        let trace = args.trace.as_ref().filter(|_| first).map(|path| create(path)).transpose()?;
        let mut files = Files {
            jobs: jobs.map(JobWriter::new).transpose().map_err(Failure::running)?,
            trace: trace
                .map(|to| Trace::new(to, &[&service.name, "everybody else"]))
                .transpose()
                .map_err(Failure::running)?,
        };
        let Predicted { stats, competitor } =
            predict(service, execution.clone(), transport, args.horizon, args.seed, &mut files)?;
        files.jobs.map(JobWriter::finish).transpose().map_err(Failure::running)?;
        files.trace.map(Trace::finish).transpose().map_err(Failure::running)?;
        rows.push(Row {
            service: service.name.clone(),
            seed: args.seed,
            prediction: stats.prediction(),
            percentile_error: PERCENTILE_ERROR,
            mean_ns: stats.mean_ns(),
            unfinished: stats.unfinished,
            competitor_share: competitor,
        });
    }
    if args.site.json {
        return json(&rows);
    }
    say!(
        "{} of virtual time, seed {}, {}; percentiles up to {} % above the exact ones, max exact",
        args.horizon,
        args.seed,
        if profile.is_some() { "measured execution times" } else { "worst-case execution times" },
        PERCENTILE_ERROR * 100.0
    );
    let mut lines =
        vec![["service", "jobs", "p50", "p99", "p99.9", "max", "left to others"].map(String::from).to_vec()];
    for row in &rows {
        let p = &row.prediction;
        let share = Bandwidth::new((row.competitor_share * 1e6) as u64, 1_000_000).unwrap_or(Bandwidth::ZERO);
        lines.push(vec![
            row.service.clone(),
            p.jobs.to_string(),
            format!("{:.3}", p.p50),
            format!("{:.3}", p.p99),
            format!("{:.3}", p.p99_9),
            format!("{:.3}", p.max),
            share.percent(),
        ]);
    }
    crate::table::print(&table(&lines, 1))?;
    Ok(ExitCode::SUCCESS)
}

/// The files that were asked for.
struct Files {
    jobs: Option<JobWriter<BufWriter<File>>>,
    trace: Option<Trace<BufWriter<File>>>,
}

impl Observer for Files {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        match &mut self.jobs {
            Some(jobs) if server == 0 => jobs.write(job).map_err(|error| Error::Write(error.to_string())),
            _ => Ok(()),
        }
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.slice(server, job, from, to))
    }
}
