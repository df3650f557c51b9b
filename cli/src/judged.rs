//! What a trial found: the table, the page, the JSON and the job records.

use crate::args::RunArgs;
use crate::failure::{create, Failure};
use crate::report::line;
use crate::table::say;
use crate::{plan, table};
use giusto_daemon::{Arm, Calibration, Cause, Removed, Slice, Trial};
use giusto_model::{Bandwidth, Certificate, Duration, JobRecord, Plan, Promise, ServicePlan, Within};
use giusto_simulator::{predict, Execution, Gantt, Overload, Shown};
use giusto_verify::{
    Arms, Comparison, Demand, DemandVerdict, Drawing, Findings, Predicted, ReportMeta, Round, Sample, Verdict,
};
use serde_json::json;
use std::path::Path;

/// Virtual time of a prediction.
const PREDICTED: Duration = Duration::from_secs(10);
/// Above this part of the time, what was stolen is said first of all where nothing can be told.
const NOISY: f64 = 0.01;

/// What belongs to a trial.
pub(crate) struct Found<'a> {
    pub(crate) args: &'a RunArgs,
    /// Where its files go.
    pub(crate) folder: &'a Path,
    pub(crate) plan: &'a Plan,
    pub(crate) calibrations: &'a [Calibration],
    /// By service.
    pub(crate) demands: &'a [(String, Demand)],
}

/// Compares the arms of each trial, prints the table and writes job records and the report.
pub(crate) fn judge(found: &Found, trials: &[Trial<Slice>]) -> Result<Verdict, Failure> {
    let mut worst = Verdict::Kept;
    let mut all = Vec::new();
    for trial in trials {
        let Some(service) = found.plan.services.iter().find(|service| service.name == trial.name) else { continue };
        save(found.folder, trial)?;
        let name = if trials.len() == 1 { "report.html".to_string() } else { format!("report-{}.html", service.name) };
        let report = found.folder.join(name);
        let (verdict, told) = match &service.promise {
            Promise::Percentiles { points, .. } => percentiles(found, service, points, trial, &report)?,
            _ => as_if_alone(found, service, trial, &report)?,
        };
        all.extend(told);
        worst = worse(worst, verdict);
    }
    if found.args.site.json {
        table::json(&all)?;
    }
    Ok(worst)
}

/// The comparison of the arms so far. Errors: too many jobs, backward clocks.
pub(crate) fn compared(
    trial: &Trial<Slice>,
    predicted: Option<Predicted>,
    seed: u64,
) -> Result<(Comparison, Arms), Failure> {
    let arms = Arms { predicted, ..arms(trial)? };
    let comparison = giusto_verify::compare(&arms, seed).map_err(Failure::running)?;
    Ok((comparison, arms))
}

/// How percentiles were kept in the slices so far; `None` without any.
pub(crate) fn kept(
    points: &[Within],
    trial: &Trial<Slice>,
    arm: Arm,
) -> Result<Option<(giusto_verify::Kept, Vec<Sample>)>, Failure> {
    let samples: Vec<Sample> = of_arm(trial, arm).map(sample).collect::<Result<_, _>>()?;
    match giusto_verify::kept(points, &samples) {
        Ok(kept) => Ok(Some((kept, samples))),
        Err(giusto_verify::Error::Empty { .. }) => Ok(None),
        Err(error) => Err(Failure::running(error)),
    }
}

fn as_if_alone(
    found: &Found,
    service: &ServicePlan,
    trial: &Trial<Slice>,
    report: &Path,
) -> Result<(Verdict, Option<serde_json::Value>), Failure> {
    let seed = found.args.seed;
    let calibration = found.calibrations.iter().find(|one| one.service == service.name);
    let foreseen = calibration.map(|calibration| foreseen(service, calibration, seed)).transpose()?;
    let (predicted, competitor, overload) = foreseen.map_or((None, None, None), |foreseen| match foreseen {
        Foreseen::Jobs(sample, competitor) => (Some(Predicted::Sample(sample)), Some(competitor), None),
        Foreseen::Overloaded(overload) => (None, None, Some(overload)),
    });
    let (mut comparison, arms) = compared(trial, predicted, seed)?;
    if comparison.verdict == Verdict::CannotTell && trial.stolen.as_f64() > NOISY {
        let stolen = trial.stolen.as_f64() * 100.0;
        comparison.why = format!("too noisy: {stolen:.1} % stolen by the hypervisor; {}", comparison.why);
    }
    let note = left_for_others(found.plan, service, trial);
    let demand = demand(found, service);
    if let Some(overload) = overload {
        comparison.why = format!("{overload}; {}", comparison.why);
    }
    let meta = ReportMeta {
        title: format!("{}: as if alone?", service.name),
        outcome: note.clone(),
        lines: how(found, service, trial, competitor),
        schedule: schedule(service, trial, calibration, seed)?,
    };
    crate::report::write(report, &giusto_verify::report_html(&meta, Findings::AsIfAlone(&comparison, &arms)))?;
    if found.args.site.json {
        let removed = voided(trial);
        let told = json!({"service": service.name, "demand": demand, "comparison": comparison, "voided": removed});
        return Ok((comparison.verdict, Some(told)));
    }
    table::print(&giusto_verify::table(&comparison, &note))?;
    say!("{}", comparison.why);
    tell(found, service, trial, report)?;
    Ok((comparison.verdict, None))
}

/// Judges percentiles by the slices under the plan; those without a plan are shown beside.
fn percentiles(
    found: &Found,
    service: &ServicePlan,
    points: &[Within],
    trial: &Trial<Slice>,
    report: &Path,
) -> Result<(Verdict, Option<serde_json::Value>), Failure> {
    let judged = kept(points, trial, Arm::Giusto)?;
    let unprotected = kept(points, trial, Arm::NoPlan)?;
    let verdict = judged.as_ref().map_or(Verdict::CannotTell, |(kept, _)| kept.verdict);
    let predicted = match &service.certificate {
        Certificate::Percentiles { predicted, .. } => predicted.as_slice(),
        _ => &[],
    };
    let foreseen = &[giusto_verify::Foreseen::Predicted(predicted)];
    if let Some((kept, runs)) = &judged {
        let meta = ReportMeta {
            title: format!("{}: percentiles kept?", service.name),
            outcome: String::new(),
            lines: how(found, service, trial, None),
            schedule: slowest(trial),
        };
        let no_plan = unprotected.as_ref().map_or(&[][..], |(_, runs)| runs);
        let findings = Findings::Percentiles { kept, runs, no_plan, foreseen };
        crate::report::write(report, &giusto_verify::report_html(&meta, findings))?;
    }
    if found.args.site.json {
        let [kept, no_plan] = [&judged, &unprotected].map(|one| one.as_ref().map(|(kept, _)| kept));
        let told = json!({"service": service.name, "demand": demand(found, service), "kept": kept, "no_plan": no_plan,
            "voided": voided(trial)});
        return Ok((verdict, Some(told)));
    }
    if let Some((unprotected, _)) = &unprotected {
        say!("{} beside others without a plan, {} requests", service.name, unprotected.jobs);
        table::print(&giusto_verify::table_kept(unprotected, &[], "measured"))?;
    }
    match &judged {
        Some((kept, _)) => {
            say!("{} under its plan, {} requests in {} slices, 95 % intervals", service.name, kept.jobs, kept.runs);
            table::print(&giusto_verify::table_kept(kept, foreseen, "measured"))?;
            say!("{}", kept.why);
        }
        None => say!(
            "cannot tell: no slice of {} counts ({:.1} % of the time was stolen by the hypervisor); measure again on a quieter machine",
            service.name,
            trial.stolen.as_f64() * 100.0
        ),
    }
    tell(found, service, trial, report)?;
    Ok((verdict, None))
}

/// What is said below either table.
fn tell(found: &Found, service: &ServicePlan, trial: &Trial<Slice>, report: &Path) -> Result<(), Failure> {
    if let Some(demand) = demand(found, service) {
        say!("{}", demand.words());
    }
    if let Some(removed) = removed(&trial.removed, trial.slices.len(), trial.slice) {
        say!("{removed}");
    }
    if report.exists() {
        say!("report: {}", report.display());
    }
    Ok(())
}

fn demand<'a>(found: &Found<'a>, service: &ServicePlan) -> Option<&'a Demand> {
    found.demands.iter().find(|(name, _)| *name == service.name).map(|(_, demand)| demand)
}

/// `removed 7 of 60 slices of 500 ms: 4 with 10 ms to 30 ms stolen by the hypervisor, 1 in which the core stood still for 6 ms,
/// 2 in which the load generator was late`.
pub(crate) fn removed(removed: &[Removed], counted: usize, slice: Duration) -> Option<String> {
    if removed.is_empty() {
        return None;
    }
    let times = |of: fn(&Cause) -> Option<Duration>| -> Vec<Duration> {
        removed.iter().filter_map(|removed| of(&removed.cause)).collect()
    };
    let range = |times: &[Duration]| match (times.iter().min(), times.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least:.1} to {most:.1}"),
        (least, _) => format!("{:.1}", least.copied().unwrap_or_default()),
    };
    let stolen = times(|cause| if let Cause::Stolen(time) = cause { Some(*time) } else { None });
    let stopped = times(|cause| if let Cause::Stopped(time) = cause { Some(*time) } else { None });
    let late = removed.len() - stolen.len() - stopped.len();
    let mut parts = Vec::new();
    if !stolen.is_empty() {
        parts.push(format!("{} with {} stolen by the hypervisor", stolen.len(), range(&stolen)));
    }
    if !stopped.is_empty() {
        parts.push(format!("{} in which the core stood still for {}", stopped.len(), range(&stopped)));
    }
    if late > 0 {
        parts.push(format!("{late} in which the load generator was late"));
    }
    let all = removed.len() + counted;
    Some(format!("removed {} of {all} slices of {slice:.0}: {}", removed.len(), parts.join(", ")))
}

/// Every slice that was removed, with its reason.
fn voided(trial: &Trial<Slice>) -> Vec<String> {
    let one = |one: &Removed| format!("cycle {}, {}: {}", one.cycle, one.arm.name(), one.cause);
    trial.removed.iter().map(one).collect()
}

/// `60 % of the core left for others (5 % kept free), which used 79 %`: what a service does not use of its share is theirs too.
fn left_for_others(plan: &Plan, service: &ServicePlan, trial: &Trial<Slice>) -> String {
    let kept = plan.hosts.iter().find(|host| host.name == service.on).map_or(Bandwidth::ZERO, |host| host.keep_free);
    let (left, free) = (service.left_for_others.percent(), kept.percent());
    let used: Vec<f64> = of_arm(trial, Arm::Giusto).map(|slice| slice.others.as_f64()).collect();
    let used = used.iter().sum::<f64>() * 100.0 / used.len().max(1) as f64;
    format!("{left} of the core left for others ({free} kept free), which used {used:.0} %")
}

/// A missed promise outweighs one that cannot be told, and that a kept one.
pub(crate) fn worse(so_far: Verdict, now: Verdict) -> Verdict {
    match (so_far, now) {
        (Verdict::Missed, _) | (_, Verdict::Missed) => Verdict::Missed,
        (Verdict::CannotTell, _) | (_, Verdict::CannotTell) => Verdict::CannotTell,
        _ => Verdict::Kept,
    }
}

fn of_arm(trial: &Trial<Slice>, arm: Arm) -> impl Iterator<Item = &Slice> {
    trial.slices.iter().filter(move |slice| slice.arm == arm)
}

fn sample(slice: &Slice) -> Result<Sample, Failure> {
    Sample::from_jobs(&slice.jobs).map_err(Failure::running)
}

/// The cycles with the slices that count.
fn arms(trial: &Trial<Slice>) -> Result<Arms, Failure> {
    let mut arms = Arms { voided: voided(trial), ..Arms::default() };
    let cycles = trial.slices.iter().map(|slice| slice.cycle).max().unwrap_or(0);
    for cycle in 1..=cycles {
        let samples = |arm: Arm| -> Result<Vec<Sample>, Failure> {
            of_arm(trial, arm).filter(|slice| slice.cycle == cycle).map(sample).collect()
        };
        let mut whole = samples(Arm::Whole)?.into_iter();
        arms.rounds.push(Round {
            whole_a: whole.next(),
            whole_b: whole.next(),
            unprotected: samples(Arm::NoPlan)?.into_iter().next(),
            giusto: samples(Arm::Giusto)?.into_iter().next(),
        });
    }
    Ok(arms)
}

/// What the simulator predicts from what was calibrated.
enum Foreseen {
    /// Response times, and the share of the core that others get.
    Jobs(Sample, f64),
    /// No percentile would say anything.
    Overloaded(Overload),
}

fn foreseen(service: &ServicePlan, calibration: &Calibration, seed: u64) -> Result<Foreseen, Failure> {
    let mut jobs: Vec<JobRecord> = Vec::new();
    let mut keep = |server: usize, job: &JobRecord| {
        if server == 0 {
            jobs.push(*job);
        }
    };
    let predicted = predict(service, execution(calibration), &calibration.transport(), PREDICTED, seed, &mut keep)
        .map_err(Failure::running)?;
    if let Some(overload) = predicted.overload {
        return Ok(Foreseen::Overloaded(overload));
    }
    Ok(Foreseen::Jobs(Sample::from_jobs(&jobs).map_err(Failure::running)?, predicted.competitor))
}

fn execution(calibration: &Calibration) -> Execution {
    Execution::Samples(calibration.execution().into())
}

/// The slowest job under the plan, and two periods of the predicted schedule, drawn.
fn schedule(
    service: &ServicePlan,
    trial: &Trial<Slice>,
    calibration: Option<&Calibration>,
    seed: u64,
) -> Result<Vec<Drawing>, Failure> {
    let mut drawings = slowest(trial);
    let (Some(length), Some(calibration)) = (service.server.period.checked_mul(2), calibration) else {
        return Ok(drawings);
    };
    let mut gantt = Gantt::default();
    gantt.play(&[Shown { name: &service.name, tasks: &service.tasks }, Shown { name: "all others", tasks: &[] }]);
    match predict(service, execution(calibration), &[], length, seed, &mut gantt) {
        Err(giusto_simulator::Error::TooLongToDraw { .. }) => return Ok(drawings),
        other => other?,
    };
    let caption =
        format!("Simulated: the first two periods of {}, with measured execution times", service.server.period);
    let svg = gantt.svg(length.ns());
    drawings.push(Drawing { svg, caption, table: Vec::new() });
    Ok(drawings)
}

/// The slowest job of all slices under the plan, drawn.
fn slowest(trial: &Trial<Slice>) -> Vec<Drawing> {
    let worst = |slice: &&Slice| slice.jobs.iter().filter_map(JobRecord::response_ns).max();
    let slice = of_arm(trial, Arm::Giusto).max_by_key(worst);
    let drawn = |slice: &Slice| {
        giusto_verify::slowest(&slice.jobs, &format!("{}, {}, cycle {}", trial.name, slice.arm.name(), slice.cycle))
    };
    slice.and_then(drawn).into_iter().collect()
}

/// A file a slice: `jobs/cache-giusto-3.csv`; a cycle has two slices of the whole core, 1 and 1b.
fn save(folder: &Path, trial: &Trial<Slice>) -> Result<(), Failure> {
    let broken =
        |error: std::io::Error| Failure::running(format!("cannot write job records to {}: {error}", folder.display()));
    for (index, slice) in trial.slices.iter().enumerate() {
        let same = |earlier: &&Slice| earlier.arm == slice.arm && earlier.cycle == slice.cycle;
        let second = if trial.slices[..index].iter().any(|earlier| same(&earlier)) { "b" } else { "" };
        let name = format!("{}-{}-{}{second}.csv", trial.name, slice.arm.name(), slice.cycle);
        giusto_model::write_jobs(create(&folder.join("jobs").join(name))?, &slice.jobs).map_err(broken)?;
    }
    Ok(())
}

/// How it was obtained; `competitor` is the share of the core that others have in the simulation.
fn how(found: &Found, service: &ServicePlan, trial: &Trial<Slice>, competitor: Option<f64>) -> Vec<(String, String)> {
    let uneven = trial.slices.iter().map(|slice| slice.lateness.excess).max().unwrap_or_default();
    let cycles = trial.slices.iter().map(|slice| slice.cycle).max().unwrap_or(0);
    let each = if competitor.is_some() { ", the whole core twice" } else { "" };
    let mut lines = Vec::new();
    if let Some(demand) = demand(found, service) {
        let name = match demand.verdict {
            DemandVerdict::Overloaded => "overloaded",
            DemandVerdict::Tight => "tight",
            DemandVerdict::Generous => "generous",
            DemandVerdict::Fits => "demand",
        };
        lines.push(line(name, demand.words()));
    }
    lines.push(line("plan", plan::service(service)));
    lines.push(line(
        "slices",
        format!("{cycles} cycles, {:.0} a slice{each}, in random order, seed {}", trial.slice, found.args.seed),
    ));
    if let Some(competitor) = competitor {
        let alone = "the service at SCHED_FIFO, competitors stopped, the core kept awake by a SCHED_IDLE loop";
        let predicted = format!(
            "simulated with execution times measured under load; the competitor gets {:.1} % of the core",
            competitor * 100.0
        );
        lines.extend([line("a whole core", alone), line("predicted", predicted)]);
    }
    lines.extend([
        line("shared, no plan", "SCHED_OTHER beside the competitors"),
        line("shared, Giusto", format!("the plan's reservation ({}) beside the competitors", service.backend)),
        line("stolen by the hypervisor", format!("{:.2} % of the time", trial.stolen.as_f64() * 100.0)),
        line("generator's mean lateness beyond its median (worst slice)", uneven),
    ]);
    lines.extend(removed(&trial.removed, trial.slices.len(), trial.slice).map(|removed| line("removed", removed)));
    lines.extend(crate::report::origin());
    lines
}
