//! `giusto verify`.

use crate::args::VerifyArgs;
use crate::failure::{apart, Failure};
use crate::report::{line, origin, write};
use crate::table::{json, print, say};
use giusto_answers::simulated_path::proven;
use giusto_model::{
    Certificate, JobRecord, PathPlan, Plan, PredictedPercentile, Prediction, Promise, ServicePlan, Within,
};
use giusto_verify::{slowest, Arms, Findings, Foreseen, Predicted, ReportMeta, Sample};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Job records of one run, and the file they came from.
struct Run {
    name: String,
    jobs: Vec<JobRecord>,
}

/// Compares two job files; with more runs of the reference there is a noise floor, hence a verdict. Or judges percentiles.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let recordings: Vec<&PathBuf> =
        std::iter::once(&args.reference).chain(&args.measured).chain(&args.baseline).collect();
    let read_too: Vec<&Path> = recordings.iter().copied().chain(&args.plan).map(PathBuf::as_path).collect();
    apart(&[("--html", args.html.as_deref())], &read_too)?;
    let planned = args.plan.as_deref().map(|plan| planned(plan, args.service.as_deref())).transpose()?;
    let (service, path) = match planned {
        Some(Planned::Service(service)) => (Some(*service), None),
        Some(Planned::Path(path)) => (None, Some(*path)),
        None => (None, None),
    };
    let promised = promised(args, service.as_ref(), path.as_ref());
    if args.measured.is_none() && promised.is_empty() {
        let name = service.map(|service| service.name).or(path.map(|path| path.name)).unwrap_or_default();
        return Err(Failure::input(format!("'{name}' is promised no percentile, so one file is nothing to judge; expected a reference and a run to compare with it: giusto verify REFERENCE MEASURED")));
    }
    let (mut runs, mut samples) = (Vec::new(), Vec::new());
    for path in recordings {
        let run = read(path)?;
        samples.push(Sample::from_jobs(&run.jobs).map_err(|error| Failure::input(format!("{}: {error}", run.name)))?);
        runs.push(run);
    }
    let records: Vec<(String, Vec<JobRecord>)> = runs.into_iter().map(|run| (run.name, run.jobs)).collect();
    giusto_verify::distinct(&records).map_err(Failure::input)?;
    let runs: Vec<Run> = records.into_iter().map(|(name, jobs)| Run { name, jobs }).collect();
    let judged = Judged { args, service, path, runs };
    match (promised.is_empty(), args.baseline.is_empty()) {
        (false, _) => judged.percentiles(&promised, &samples),
        (true, true) => judged.two(samples),
        (true, false) => judged.as_if_alone(samples),
    }
}

/// What recordings are of.
enum Planned {
    Service(Box<ServicePlan>),
    Path(Box<PathPlan>),
}

/// The service or path of a plan: the one that was named, or the only service.
fn planned(plan: &Path, name: Option<&str>) -> Result<Planned, Failure> {
    let Plan { services, leftovers, paths, .. } = giusto_planner::read(plan)?;
    if let Some(path) = paths.iter().find(|path| Some(path.name.as_str()) == name) {
        return Ok(Planned::Path(Box::new(path.clone())));
    }
    if let Some(name) = name.filter(|name| leftovers.iter().any(|one| one.name == *name)) {
        return Err(Failure::input(format!(
            "'{name}' was promised leftovers: they have no server, so nothing of them is predicted; leave out --service, or name one of {}",
            services.iter().map(|service| service.name.as_str()).collect::<Vec<_>>().join(", ")
        )));
    }
    let paths = paths.iter().map(|path| path.name.as_str());
    let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).chain(paths).collect();
    let unknown = match name {
        Some(name) => format!("{} has no service '{name}'; it has {}", plan.display(), known.join(", ")),
        None => {
            format!("{} has {} services: name one with --service, of {}", plan.display(), known.len(), known.join(", "))
        }
    };
    let found = services.iter().position(|service| name.map_or(services.len() == 1, |name| service.name == name));
    found.map(|at| Planned::Service(Box::new(services[at].clone()))).ok_or_else(|| Failure::input(unknown))
}

/// The percentiles to judge: those of the command line, else those of the plan.
fn promised(args: &VerifyArgs, service: Option<&ServicePlan>, path: Option<&PathPlan>) -> Vec<Within> {
    if let Some(path) = path.filter(|_| args.promise.is_empty()) {
        return path.points.iter().map(|point| Within { percentile: point.percentile, within: point.within }).collect();
    }
    match service.map(|service| &service.promise) {
        Some(Promise::Percentiles { points, .. }) if args.promise.is_empty() => points.clone(),
        _ => args.promise.clone(),
    }
}

fn read(path: &Path) -> Result<Run, Failure> {
    let name = path.display().to_string();
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{name}: {error}"));
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            named(&"there is no such file; expected the recording of a run (a trial has none of runs that it voided)")
        }
        _ => named(&error),
    })?;
    let jobs = giusto_model::read_jobs(BufReader::new(file)).map_err(|error| named(&error))?;
    Ok(Run { name, jobs })
}

struct Judged<'a> {
    args: &'a VerifyArgs,
    service: Option<ServicePlan>,
    path: Option<PathPlan>,
    /// The reference or the first run, the measured one, more of the reference.
    runs: Vec<Run>,
}

impl Judged<'_> {
    fn percentiles(&self, promised: &[Within], samples: &[Sample]) -> Result<ExitCode, Failure> {
        let kept = giusto_verify::kept(promised, samples).map_err(Failure::input)?;
        let of_path: Vec<PredictedPercentile> = self.path.as_ref().map(proven).unwrap_or_default();
        let foreseen = &[match self.service.as_ref().map(|service| &service.certificate) {
            Some(Certificate::Percentiles { predicted, .. }) => Foreseen::Predicted(predicted),
            _ if self.path.is_some() => Foreseen::Proven(&of_path),
            _ => Foreseen::Predicted(&[]),
        }];
        self.report(Findings::Percentiles { kept: &kept, runs: samples, no_plan: &[], foreseen })?;
        if self.args.json {
            json(&kept)?;
        } else {
            print(&giusto_verify::table_kept(&kept, foreseen, "measured"))?;
            say!("{}", kept.why);
        }
        Ok(ExitCode::from(kept.verdict.exit_code()))
    }

    fn two(&self, mut samples: Vec<Sample>) -> Result<ExitCode, Failure> {
        let measured = samples.remove(1);
        let predicted = self.prediction();
        let two = giusto_verify::compare_two(&samples[0], &measured, predicted.as_ref(), self.args.seed)
            .map_err(Failure::input)?;
        self.report(Findings::Two(&two, &self.arms(&samples, &measured)))?;
        if self.args.json {
            return json(&two);
        }
        print(&giusto_verify::table_two(&two, ["reference", "measured"]))?;
        say!("no verdict: a noise floor needs more runs of the reference (--baseline FILE, twice)");
        Ok(ExitCode::SUCCESS)
    }

    fn as_if_alone(&self, mut samples: Vec<Sample>) -> Result<ExitCode, Failure> {
        let measured = samples.remove(1);
        let arms = self.arms(&samples, &measured);
        let comparison = giusto_verify::compare(&arms, self.args.seed).map_err(Failure::input)?;
        self.report(Findings::AsIfAlone(&comparison, &arms))?;
        if self.args.json {
            json(&comparison)?;
        } else {
            print(&giusto_verify::table(&comparison, ""))?;
            say!("{}", comparison.why);
        }
        Ok(ExitCode::from(comparison.verdict.exit_code()))
    }

    fn prediction(&self) -> Option<Prediction> {
        self.service.as_ref()?.prediction
    }

    /// The runs as arms, with what the plan predicted.
    fn arms(&self, reference: &[Sample], measured: &Sample) -> Arms {
        Arms { predicted: self.prediction().map(Predicted::Percentiles), ..Arms::of_files(reference, measured) }
    }

    /// Writes the page where one is wanted.
    fn report(&self, findings: Findings) -> Result<(), Failure> {
        let Some(path) = &self.args.html else { return Ok(()) };
        let question = match findings {
            Findings::AsIfAlone(..) => "as if alone?",
            Findings::Two(..) => "beside a reference",
            Findings::Percentiles { .. } => "percentiles kept?",
        };
        let judged = match findings {
            Findings::Percentiles { .. } => &self.runs[0],
            _ => &self.runs[1],
        };
        let file = Path::new(&judged.name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let subject = self.service.as_ref().map_or(file, |service| service.name.clone());
        let mut lines: Vec<(String, String)> = Vec::new();
        if let Some(service) = &self.service {
            lines.push(line("plan", crate::plan::service(service)));
        }
        for (place, run) in self.runs.iter().enumerate() {
            let of = match findings {
                Findings::Percentiles { .. } => "run",
                _ if place == 1 => "measured",
                _ => "reference",
            };
            lines.push(line(of, format!("{}, {} jobs", run.name, run.jobs.len())));
        }
        lines.extend(origin());
        let schedule = std::iter::once(judged).chain((!std::ptr::eq(judged, &self.runs[0])).then(|| &self.runs[0]));
        let meta = ReportMeta {
            title: format!("{subject}: {question}"),
            outcome: String::new(),
            lines,
            schedule: schedule.filter_map(|run| slowest(&run.jobs, &run.name)).collect(),
        };
        write(path, &giusto_verify::report_html(&meta, findings))
    }
}
