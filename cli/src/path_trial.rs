//! `giusto run --trial` of a site whose promises are of paths: without the plan, and with it.

use crate::args::RunArgs;
use crate::begin::Around;
use crate::failure::{create, Failure};
use crate::judged::removed;
use crate::measure_path::{failures, judge, spent, Judged};
use crate::report::line;
use crate::table::{json, print, say, time};
use giusto_answers::simulated_path::{foreseen, proven};
use giusto_daemon::{Arm, Deployment, Journal, Next, Options, PathSlice, Talk, Trial};
use giusto_model::{together, JobRecord, Path, PathLoad, PathPart, PathPlan, PathStage, Plan, Site};
use giusto_verify::{Findings, Foreseen, ReportMeta, Sample, Verdict};
use serde_json::{json, Value};
use std::process::ExitCode;

/// Where the files of a trial go.
pub(crate) struct Files<'a> {
    /// Those of this trial alone.
    pub(crate) folder: &'a std::path::Path,
    pub(crate) plan: &'a std::path::Path,
    pub(crate) logs: &'a std::path::Path,
}

/// Tries all paths, one after the other, and tells of each what was promised, proven, simulated and measured.
pub(crate) fn trial(
    args: &RunArgs,
    site: &Site,
    plan: &Plan,
    files: &Files,
    journal: &mut Journal,
    around: &Around,
    progress: &mut dyn FnMut(String),
) -> Result<ExitCode, Failure> {
    for file in [files.plan, &files.folder.join("plan.json")] {
        create(file)?;
        giusto_planner::write(plan, file)?;
    }
    if !args.site.json {
        crate::begin::introduce(plan, files.plan)?;
        plan.paths.iter().try_for_each(|path| print(&crate::paths::planned(path)))?;
    }
    let mut deployment = Deployment::set(plan, around.machine, journal, files.logs, around.watchdog.beats())?;
    deployment.check()?;
    let options = Options { slice: args.slice, at_most: args.at_most, seed: args.seed };
    let stop = || around.signals.stopped();
    let mut trials = Vec::new();
    let loads = giusto_daemon::path_loads(&site.paths.all)?;
    let together = together(site.paths.all.iter().map(Path::services));
    for (nth, &(path, load)) in loads.iter().enumerate() {
        let others = loads
            .iter()
            .zip(&together)
            .filter(|((other, _), first)| other.name != path.name && **first == together[nth]);
        let beside: Vec<(&Path, &PathLoad)> = others.map(|(other, _)| *other).collect();
        progress(format!("{}: slices without the plan and with it", path.name));
        let mut enough = |path: &Path, trial: &Trial<PathSlice>| next(path, trial);
        let mut talk = Talk { stop: &stop, say: progress, judge: &mut enough };
        let cores = &around.machine.cores;
        trials.push((
            path,
            giusto_daemon::try_path(&mut deployment, (plan, path, load), &beside, cores, options, &mut talk)?,
        ));
    }
    let restored = deployment.finish();
    let mut worst = Verdict::Kept;
    let mut all = Vec::new();
    for (path, trial) in &trials {
        let judged = told(args, plan, path, trial, files)?;
        worst = crate::judged::worse(worst, judged.0);
        all.extend(judged.1);
    }
    restored?;
    if args.site.json {
        json(&all)?;
    }
    Ok(ExitCode::from(worst.exit_code()))
}

fn of_arm(trial: &Trial<PathSlice>, arm: Arm) -> Vec<&PathSlice> {
    trial.slices.iter().filter(|slice| slice.arm == arm).collect()
}

fn judged(path: &Path, slices: &[&PathSlice]) -> Result<Judged, Failure> {
    let runs: Vec<&[JobRecord]> = slices.iter().map(|slice| slice.report.jobs.as_slice()).collect();
    judge(path, &runs)
}

/// Whether more slices are needed.
fn next(path: &Path, trial: &Trial<PathSlice>) -> Next {
    match judged(path, &of_arm(trial, Arm::Giusto)) {
        Err(failure) => Next::More(failure.to_string()),
        Ok(Judged { verdict: Verdict::CannotTell, kept, .. }) => {
            Next::More(kept.map_or("no slice counts yet".into(), |kept| kept.why))
        }
        Ok(_) => Next::Enough,
    }
}

fn told(
    args: &RunArgs,
    plan: &Plan,
    path: &Path,
    trial: &Trial<PathSlice>,
    files: &Files,
) -> Result<(Verdict, Option<Value>), Failure> {
    save(trial, files)?;
    let (without, with) = (of_arm(trial, Arm::NoPlan), of_arm(trial, Arm::Giusto));
    let (no_plan, kept) = (judged(path, &without)?, judged(path, &with)?);
    let verdict = if with.is_empty() { Verdict::CannotTell } else { kept.verdict };
    let Some(planned) = plan.paths.iter().find(|one| one.name == path.name) else {
        return Err(Failure::running(format!("the plan has no path '{}'", path.name)));
    };
    let (proven, simulated) = (proven(planned), foreseen(plan, planned, args.seed)?);
    let known = [Foreseen::Proven(&proven), Foreseen::Simulated(&simulated)];
    let known = &known[usize::from(proven.is_empty())..];
    let report = files.folder.join(format!("report-{}.html", path.name));
    if let Some(kept) = &kept.kept {
        let samples = |slices: &[&PathSlice]| -> Result<Vec<Sample>, Failure> {
            slices.iter().map(|slice| Sample::from_jobs(&slice.report.jobs).map_err(Failure::running)).collect()
        };
        let meta = ReportMeta {
            title: format!("{}: percentiles kept?", path.name),
            outcome: String::new(),
            lines: how(args, planned, trial),
            schedule: Vec::new(),
        };
        let (runs, no_plan) = (samples(&with)?, samples(&without)?);
        let findings = Findings::Percentiles { kept, runs: &runs, no_plan: &no_plan, foreseen: known };
        crate::report::write(&report, &giusto_verify::report_html(&meta, findings))?;
    }
    if args.site.json {
        let of = |judged: &Judged| json!({"kept": judged.kept, "late": judged.late});
        let told = json!({"path": path.name, "proven": proven, "simulated": simulated, "with": of(&kept),
            "without": of(&no_plan), "beside": beside(trial), "removed": trial.removed.len(), "stolen": trial.stolen});
        return Ok((verdict, Some(told)));
    }
    for (how, slices, judged) in [("without the plan", &without, &no_plan), ("with the plan", &with, &kept)] {
        let reports: Vec<_> = slices.iter().map(|slice| &slice.report).collect();
        let messages: usize = reports.iter().map(|report| report.jobs.len()).sum();
        let lost: u64 = reports.iter().map(|report| report.lost).sum();
        say!("{} {how}: {messages} messages in {} slices, {lost} lost", path.name, slices.len());
        failures(&reports).iter().try_for_each(|line| print(line))?;
        print(&spent(path, &reports))?;
        let known = if how.starts_with("without") { &[][..] } else { known };
        if let Some(kept) = &judged.kept {
            print(&giusto_verify::table_kept(kept, known, "measured"))?;
        }
        if let (Some(late), Some(every), Some(planned)) = (judged.late, path.every, &planned.every) {
            say!("{late} took longer than the {every} that none may; {:.3} are proven", planned.at);
        }
    }
    match &kept.kept {
        Some(kept) => {
            say!("{}", kept.why);
            if let (Verdict::Missed, Some(broken)) = (verdict, broken(planned, &with)) {
                say!("{broken}");
            }
        }
        None if with.is_empty() => say!(
            "cannot tell: no slice counts ({:.1} % of the time was stolen by the hypervisor); measure again on a quieter machine",
            trial.stolen.as_f64() * 100.0
        ),
        None => {}
    }
    if let Some(removed) = removed(&trial.removed, trial.slices.len(), trial.slice) {
        say!("{removed}");
    }
    if report.exists() {
        say!("report: {}", report.display());
    }
    Ok((verdict, None))
}

/// The stage that is furthest beyond what is planned for it, at the first percentile.
fn broken<'a>(planned: &'a PathPlan, slices: &[&PathSlice]) -> Option<String> {
    let point = planned.points.first()?;
    let stage = |(stage, part): (&'a PathStage, &'a PathPart)| {
        let service = stage.service()?;
        let times = slices.iter().filter_map(|slice| slice.report.stages.get(service)).flatten();
        let mut times: Vec<u64> = times.copied().collect();
        times.sort_unstable();
        let place = (point.percentile.percent() / 100.0 * times.len() as f64).ceil() as usize;
        let took = *times.get(place.checked_sub(1)?)?;
        Some((took as f64 / part.within.ns() as f64, service, took, part.within))
    };
    let all = planned.through.iter().zip(&point.parts).filter_map(stage);
    let (_, service, took, within) = all.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let percentile = point.percentile;
    Some(format!("its dearest stage is '{service}': {percentile} {}, of which {within:.3} are planned", time(took)))
}

/// A file a slice: `jobs/braking-giusto-3.csv`.
fn save(trial: &Trial<PathSlice>, files: &Files) -> Result<(), Failure> {
    let broken = |error| Failure::running(format!("cannot write job records to {}: {error}", files.folder.display()));
    for slice in &trial.slices {
        let name = format!("{}-{}-{}.csv", trial.name, slice.arm.name(), slice.cycle);
        giusto_model::write_jobs(create(&files.folder.join("jobs").join(name))?, &slice.report.jobs).map_err(broken)?;
    }
    Ok(())
}

/// How it was obtained.
/// Messages of other paths that came to their end meanwhile.
fn beside(trial: &Trial<PathSlice>) -> u64 {
    trial.slices.iter().map(|slice| slice.beside).sum()
}

fn how(args: &RunArgs, planned: &PathPlan, trial: &Trial<PathSlice>) -> Vec<(String, String)> {
    let cycles = trial.slices.iter().map(|slice| slice.cycle).max().unwrap_or(0);
    let mut lines = vec![
        line("path", format!("{} through {}", planned.source, crate::paths::route(planned))),
        line("slices", format!("{cycles} cycles, {:.0} a slice, seed {}", trial.slice, args.seed)),
        line("shared, no plan", "SCHED_OTHER beside the competitors"),
        line("shared, Giusto", "the plan's reservations of all stages beside the competitors"),
        line("stolen by the hypervisor", format!("{:.2} % of the time", trial.stolen.as_f64() * 100.0)),
    ];
    if beside(trial) > 0 {
        lines.push(line("beside it", format!("{} messages of paths that share services with it", beside(trial))));
    }
    lines.extend(removed(&trial.removed, trial.slices.len(), trial.slice).map(|removed| line("removed", removed)));
    lines.extend(crate::report::origin());
    lines
}
