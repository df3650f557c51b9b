//! `giusto run` and `giusto restore`.

use crate::args::{Log, Only, RestoreArgs, RunArgs};
use crate::failure::{create, Failure};
use crate::report::line;
use crate::table::{say, tell};
use crate::{plan, table};
use giusto_compute::{Lack, Machine};
use giusto_daemon::{
    Arm, Error, Journal, Notify, Observer, Operator, Options, Planner, Restored, Scene, Settings, Signals, Trial,
    Watchdog,
};
use giusto_model::{Bandwidth, Certificate, Duration, HostPlan, JobRecord, Plan, Promise, ServicePlan, Within};
use giusto_planner::Facts;
use giusto_simulator::{predict, Execution, Gantt};
use giusto_verify::{Arms, Drawing, Findings, Predicted, ReportMeta, Round, Sample, Verdict};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Virtual time of a prediction.
const PREDICTED: Duration = Duration::from_secs(10);
/// Requests of a profile.
const PROFILE: u32 = 2000;

/// `giusto run`
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    giusto_daemon::log(args.log == Log::Json);
    enforce_or_try(args).map_err(Failure::logged)
}

fn enforce_or_try(args: &RunArgs) -> Result<ExitCode, Failure> {
    // Before there are threads.
    let notify =
        Notify::from_environment().map_err(|error| Failure::input(format!("NOTIFY_SOCKET is no address: {error}")))?;
    let site = giusto_site::read(&args.site.site)?;
    if args.dry_run {
        let plan = plan::here(&site, &asked(args))?;
        return dry_run(args, &part(plan, args.only)?);
    }
    let watchdog = Watchdog::start()?;
    // First of all: what an earlier giusto left is undone, as looking at the machine may hide it. Without the privilege
    // there is nothing of it.
    let journal = Journal::open();
    let machine = giusto_compute::probe();
    let mut plan = plan::here(&site, &asked(args))?;
    if args.trial {
        giusto_daemon::loads(&plan).map_err(Failure::input)?;
    }
    plan::predict_all(&mut plan, args.seed)?;
    let plan_file = args.out.join("plan.json");
    create(&plan_file)?;
    giusto_planner::write(&plan, &plan_file)?;
    if !args.site.json && args.only.is_none() {
        introduce(&plan, &plan_file)?;
    }
    let plan = part(plan, args.only)?;
    let missing = giusto_daemon::missing(&plan, &machine);
    if !missing.is_empty() {
        return Err(lacks(args, &plan, &missing)?);
    }
    let signals = Signals::mind(!args.trial);
    let (mut journal, earlier) = journal?;
    tell_restored(&earlier)?;
    if !args.trial {
        return enforce(args, &plan, &machine, &mut journal, notify, signals, &watchdog);
    }
    let mut scene = Scene::set(&plan, &machine, &mut journal, &args.out.join("logs"), watchdog.beats())?;
    let options = Options { rounds: args.rounds, length: args.length, seed: args.seed, profile: PROFILE };
    let start = Instant::now();
    let mut say = |text: String| tell(format_args!("[{:>4.0} s] {text}", start.elapsed().as_secs_f64()));
    let stop = || signals.stopped();
    let trials = giusto_daemon::trial(&mut scene, &plan, &machine.cores, options, &stop, &mut say)?;
    let restored = scene.finish();
    let judged = judge(args, &plan, &trials)?; // what was measured is not lost where undoing failed
    restored?;
    Ok(judged)
}

fn asked(args: &RunArgs) -> plan::Asked<'_> {
    let (backend, host, latency) = (args.insist.backend, args.this.host.as_deref(), args.latency.file.as_deref());
    plan::Asked { backend, host, latency }
}

fn enforce(
    args: &RunArgs,
    plan: &Plan,
    machine: &Machine,
    journal: &mut Journal,
    notify: Notify,
    signals: &'static Signals,
    watchdog: &Watchdog,
) -> Result<ExitCode, Failure> {
    let plan_file = args.out.join("plan.json");
    let host = plan.only_host().ok_or(Error::ManyHosts(plan.hosts.len()))?.name.clone();
    let latency = args.latency.file.as_deref().map(giusto_planner::read_latency).transpose()?;
    let facts =
        Facts { insist: args.insist.backend, host: Some(host.clone()), latency, ..giusto_daemon::facts_of(machine) };
    let settings = Settings { plan_file, facts: facts.clone(), metrics: args.metrics, notify, signals };
    let site = std::path::absolute(&args.site.site).map_err(Failure::input)?;
    let plan = &giusto_daemon::begin_with(plan.clone(), journal)?;
    let mut operator = Operator::open(journal, plan, site, planner(facts, host, args.only), settings)?;
    let mut observer = Observer::default();
    let mut scene = Scene::set(plan, machine, journal, &args.out.join("logs"), watchdog.beats())?;
    let mut turn = |scene: &mut Scene, warnings: Vec<String>| operator.turn(&mut observer.stage(scene, warnings));
    let stop = || signals.stopped();
    let done = giusto_daemon::enforce(&mut scene, watchdog, &stop, &mut turn);
    operator.stopping();
    scene.finish()?;
    done?;
    giusto_daemon::forget_mode(journal);
    tracing::info!("stopped; the host is as it was");
    Ok(ExitCode::SUCCESS)
}

/// Plans a site file for this machine as it was at the start, as the `host` that it was then: looking at it again while threads
/// may die under SCHED_DEADLINE would make the kernel miscount.
fn planner(facts: Facts, host: String, only: Option<Only>) -> Planner {
    Box::new(move |site| {
        let site = giusto_site::read(site).map_err(|error| Failure::from(error).into_refused())?;
        let planned = giusto_planner::plan_on(&site, &facts, &host);
        let mut plan = planned.map_err(|refusal| Failure::from(refusal).into_refused())?;
        plan::predict_all(&mut plan, 1).map_err(Failure::into_refused)?;
        part(plan, only).map_err(Failure::into_refused)
    })
}

/// What is to be enforced of a plan.
fn part(plan: Plan, only: Option<Only>) -> Result<Plan, Failure> {
    match only {
        None => Ok(plan),
        Some(Only::Network) if plan.network.is_empty() => {
            Err(Failure::input("--only network: the site says nothing about packets on this host; expected 'network' of a host and of its services"))
        }
        Some(Only::Network) => {
            let (services, leftovers, topics) = (Vec::new(), Vec::new(), Vec::new());
            // Cores are no matter then: they stay as they are.
            let hosts = plan.hosts.into_iter().map(|host| HostPlan { parked: Vec::new(), ..host }).collect();
            Ok(Plan { hosts, services, leftovers, topics, coordination: None, ..plan })
        }
    }
}

fn dry_run(args: &RunArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    let steps = giusto_daemon::dry_run(plan, &giusto_compute::probe());
    if args.site.json {
        return table::json(&json!({"plan": plan, "steps": steps}));
    }
    let steps: String = steps.iter().map(|step| format!("would {step}\n")).collect();
    table::print(&format!("{}{steps}", plan::describe(plan)))?;
    Ok(ExitCode::SUCCESS)
}

/// `giusto restore`
pub(crate) fn restore(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let (_, restored) = Journal::open()?;
    if args.json {
        table::json(&restored)?;
    }
    tell_restored(&restored)?;
    if !args.json {
        say!("{}", if restored.undone == 0 { "there is nothing to restore" } else { "the host is as it was" });
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_restored(restored: &Restored) -> Result<(), Failure> {
    if !restored.failed.is_empty() {
        return Err(Error::NotRestored(restored.failed.join("; ")).into());
    }
    restored.notes.iter().for_each(|note| tell(format_args!("note: {note}")));
    if restored.undone > 0 {
        tell(format_args!("undid {} changes that an earlier giusto had left", restored.undone));
    }
    Ok(())
}

fn introduce(plan: &Plan, file: &Path) -> Result<(), Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "giusto".into());
    for service in &plan.services {
        let explain =
            if file == Path::new("out/plan.json") { String::new() } else { format!(" --plan {}", file.display()) };
        say!("{}      why: {program} explain {}{explain}", plan::service(service), service.name);
    }
    Ok(())
}

/// What could be done was done: planned and predicted. Says what is missing.
fn lacks(args: &RunArgs, plan: &Plan, missing: &[Lack]) -> Result<Failure, Failure> {
    let mut rows = vec![["", "p50", "p99", "p99.9"].map(String::from).to_vec()];
    for service in &plan.services {
        if let Some(p) = &service.prediction {
            rows.push(vec![
                format!("predicted, {}", service.name),
                format!("{:.3}", p.p50),
                format!("{:.3}", p.p99),
                format!("{:.3}", p.p99_9),
            ]);
        }
    }
    if args.site.json {
        table::json(&json!({"plan": plan, "missing": missing}))?;
    } else {
        table::print(&table::table(&rows, 1))?;
    }
    let missing: Vec<String> =
        missing.iter().map(|lack| format!("\n  {} is missing: {}", lack.what, lack.how)).collect();
    Ok(Failure::lacks(format!("planned and predicted, but nothing was enforced or measured:{}", missing.concat())))
}

/// Compares the arms of each trial, prints the table and writes job records and the report.
fn judge(args: &RunArgs, plan: &Plan, trials: &[Trial]) -> Result<ExitCode, Failure> {
    let mut worst = Verdict::Kept;
    let mut all = Vec::new();
    for trial in trials {
        let Some(service) = plan.services.iter().find(|service| service.name == trial.service) else { continue };
        save(&args.out, trial)?;
        let name = if trials.len() == 1 { "report.html".to_string() } else { format!("report-{}.html", service.name) };
        let report = args.out.join(name);
        if let Promise::Percentiles { points, .. } = &service.promise {
            let (verdict, found) = judge_percentiles(args, service, points, trial, &report)?;
            all.extend(found);
            worst = worse(worst, verdict);
            continue;
        }
        let (arms, competitor) = arms(service, trial, args.seed)?;
        let comparison = giusto_verify::compare(&arms, args.seed).map_err(Failure::running)?;
        let note = left_for_others(plan, service, trial);
        let meta = ReportMeta {
            title: format!("{}: as if alone?", service.name),
            outcome: note.clone(),
            lines: how(args, service, trial, Some(competitor)),
            schedule: schedule(service, trial, args.seed)?,
        };
        crate::report::write(&report, &giusto_verify::report_html(&meta, Findings::AsIfAlone(&comparison, &arms)))?;
        if args.site.json {
            all.push(json!({"service": service.name, "comparison": comparison, "voided": trial.voided}));
        } else {
            table::print(&giusto_verify::table(&comparison, &note))?;
            say!("{}", comparison.why);
            say!("{}", crate::measure::conformance(&service.promise, &service.tasks, &trial.profile));
            for why in &trial.voided {
                say!("voided: {why}");
            }
            say!("report: {}", report.display());
        }
        worst = worse(worst, comparison.verdict);
    }
    if args.site.json {
        table::json(&all)?;
    }
    Ok(ExitCode::from(worst.exit_code()))
}

/// Judges percentiles by the runs under the plan, and tells them, or hands out the JSON; those without a plan are shown beside.
fn judge_percentiles(
    args: &RunArgs,
    service: &ServicePlan,
    points: &[Within],
    trial: &Trial,
    report: &Path,
) -> Result<(Verdict, Option<serde_json::Value>), Failure> {
    let mut voided = trial.voided.clone();
    let mut runs = |arm: Arm| -> Result<Vec<Sample>, Failure> {
        let mut samples = Vec::new();
        for run in trial.runs.iter().filter(|run| run.arm == arm) {
            match Sample::from_jobs(&run.jobs) {
                Ok(sample) => samples.push(sample),
                Err(stalled @ giusto_verify::Error::Stalled { .. }) => {
                    voided.push(format!("round {}, {}: {stalled}", run.round, arm.name()));
                }
                Err(error) => return Err(Failure::running(error)),
            }
        }
        Ok(samples)
    };
    let (ours, others) = (runs(Arm::Giusto)?, runs(Arm::NoPlan)?);
    let kept = |runs: &[Sample]| giusto_verify::kept(points, runs, args.seed);
    let judged = match kept(&ours) {
        Err(giusto_verify::Error::Empty { .. }) => None,
        other => Some(other.map_err(Failure::running)?),
    };
    let unprotected = kept(&others).ok();
    let verdict = judged.as_ref().map_or(Verdict::CannotTell, |kept| kept.verdict);
    let predicted = match &service.certificate {
        Certificate::Percentiles { predicted, .. } => predicted.as_slice(),
        _ => &[],
    };
    if let Some(kept) = &judged {
        let mut lines = how(args, service, trial, None);
        lines.extend((!voided.is_empty()).then(|| line("left out", voided.join("; "))));
        let meta = ReportMeta {
            title: format!("{}: percentiles kept?", service.name),
            outcome: String::new(),
            lines,
            schedule: slowest(trial),
        };
        let findings = Findings::Percentiles { kept, runs: &ours, no_plan: &others, predicted };
        crate::report::write(report, &giusto_verify::report_html(&meta, findings))?;
    }
    if args.site.json {
        let found = json!({"service": service.name, "kept": judged, "no_plan": unprotected, "voided": voided});
        return Ok((verdict, Some(found)));
    }
    if let Some(unprotected) = &unprotected {
        say!("{} beside others without a plan, {} requests", service.name, unprotected.jobs);
        table::print(&giusto_verify::table_kept(unprotected, &[], "measured"))?;
    }
    match &judged {
        Some(kept) => {
            say!("{} under its plan, {} requests in {} runs, 95 % intervals", service.name, kept.jobs, kept.runs);
            table::print(&giusto_verify::table_kept(kept, predicted, "measured"))?;
            say!("{}", kept.why);
            say!("report: {}", report.display());
        }
        None => say!("cannot tell: no run of {} counts; measure again on a quieter machine", service.name),
    }
    say!("{}", crate::measure::conformance(&service.promise, &service.tasks, &trial.profile));
    for why in &voided {
        say!("voided: {why}");
    }
    Ok((verdict, None))
}

/// `60 % of the core left for others (5 % kept free), who had 79 %`: what a service does not use of its share is theirs too.
fn left_for_others(plan: &Plan, service: &ServicePlan, trial: &Trial) -> String {
    let kept = plan.hosts.iter().find(|host| host.name == service.on).map_or(Bandwidth::ZERO, |host| host.keep_free);
    let (left, free) = (service.left_for_others.percent(), kept.percent());
    let used: Vec<f64> =
        trial.runs.iter().filter(|run| run.arm == Arm::Giusto).map(|run| run.others.as_f64()).collect();
    let used = used.iter().sum::<f64>() * 100.0 / used.len().max(1) as f64;
    format!("{left} of the core left for others ({free} kept free), who had {used:.0} %")
}

/// A missed promise outweighs one that cannot be told, and that a kept one.
fn worse(so_far: Verdict, now: Verdict) -> Verdict {
    match (so_far, now) {
        (Verdict::Missed, _) | (_, Verdict::Missed) => Verdict::Missed,
        (Verdict::CannotTell, _) | (_, Verdict::CannotTell) => Verdict::CannotTell,
        _ => Verdict::Kept,
    }
}

/// The rounds with the runs that count, and the prediction from the measured execution times.
fn arms(service: &ServicePlan, trial: &Trial, seed: u64) -> Result<(Arms, f64), Failure> {
    let mut arms = Arms { voided: trial.voided.clone(), ..Arms::default() };
    let rounds = trial.runs.iter().map(|run| run.round).max().unwrap_or(0);
    for round in 1..=rounds {
        let mut samples = |arm: Arm| -> Result<Vec<Sample>, Failure> {
            let mut samples = Vec::new();
            for run in trial.runs.iter().filter(|run| run.arm == arm && run.round == round) {
                match Sample::from_jobs(&run.jobs) {
                    Ok(sample) => samples.push(sample),
                    Err(stalled @ giusto_verify::Error::Stalled { .. }) => {
                        arms.voided.push(format!("round {round}, {}: {stalled}", arm.name()));
                    }
                    Err(error) => return Err(Failure::running(error)),
                }
            }
            Ok(samples)
        };
        let (mut whole, none, giusto) =
            (samples(Arm::Whole)?.into_iter(), samples(Arm::NoPlan)?, samples(Arm::Giusto)?);
        arms.rounds.push(Round {
            whole_a: whole.next(),
            whole_b: whole.next(),
            unprotected: none.into_iter().next(),
            giusto: giusto.into_iter().next(),
        });
    }
    let mut jobs: Vec<JobRecord> = Vec::new();
    let mut keep = |server: usize, job: &JobRecord| {
        if server == 0 {
            jobs.push(*job);
        }
    };
    let execution = Execution::Samples(trial.profile.execution.as_slice().into());
    let predicted =
        predict(service, execution, &trial.profile.transport, PREDICTED, seed, &mut keep).map_err(Failure::running)?;
    arms.predicted = Some(Predicted::Sample(Sample::from_jobs(&jobs).map_err(Failure::running)?));
    Ok((arms, predicted.competitor))
}

/// The slowest job under the plan, and two periods of the predicted schedule, drawn.
fn schedule(service: &ServicePlan, trial: &Trial, seed: u64) -> Result<Vec<Drawing>, Failure> {
    let mut drawings = slowest(trial);
    let Some(length) = service.server.period.checked_mul(2) else { return Ok(drawings) };
    let mut gantt = Gantt::default();
    let execution = Execution::Samples(trial.profile.execution.as_slice().into());
    match predict(service, execution, &[], length, seed, &mut gantt) {
        Err(giusto_simulator::Error::TooLongToDraw { .. }) => return Ok(drawings),
        other => other?,
    };
    let caption =
        format!("Simulated: the first two periods of {}, with measured execution times", service.server.period);
    let svg = gantt.svg(&[&service.name, "everybody else"], length.ns());
    drawings.push(Drawing { svg, caption, table: Vec::new() });
    Ok(drawings)
}

/// The slowest job of all runs under the plan, drawn.
fn slowest(trial: &Trial) -> Vec<Drawing> {
    let worst = |run: &&giusto_daemon::Run| run.jobs.iter().filter_map(JobRecord::response_ns).max();
    let run = trial.runs.iter().filter(|run| run.arm == Arm::Giusto).max_by_key(worst);
    let drawn = |run: &giusto_daemon::Run| {
        giusto_verify::slowest(&run.jobs, &format!("{}, {}, round {}", trial.service, run.arm.name(), run.round))
    };
    run.and_then(drawn).into_iter().collect()
}

fn save(out: &Path, trial: &Trial) -> Result<(), Failure> {
    let broken =
        |error: std::io::Error| Failure::running(format!("cannot write job records to {}: {error}", out.display()));
    for (index, run) in trial.runs.iter().enumerate() {
        // A round has two runs of the whole core: 1 and 1b.
        let same = |earlier: &&giusto_daemon::Run| earlier.arm == run.arm && earlier.round == run.round;
        let second = if trial.runs[..index].iter().any(|earlier| same(&earlier)) { "b" } else { "" };
        let path = out.join("jobs").join(format!("{}-{}-{}{second}.csv", trial.service, run.arm.name(), run.round));
        giusto_model::write_jobs(create(&path)?, &run.jobs).map_err(broken)?;
    }
    trial.profile.write(create(&out.join("jobs").join(format!("{}-profile.csv", trial.service)))?).map_err(broken)
}

/// How it was obtained; `competitor` is the share of the core that others have in the simulation.
fn how(args: &RunArgs, service: &ServicePlan, trial: &Trial, competitor: Option<f64>) -> Vec<(String, String)> {
    let steal = trial.runs.iter().map(|run| run.steal).max().unwrap_or_default();
    let uneven = trial.runs.iter().map(|run| run.lateness.excess).max().unwrap_or_default();
    let each = if competitor.is_some() { ", the whole core twice" } else { "" };
    let (rounds, length, seed) = (args.rounds, args.length, args.seed);
    let mut lines = vec![
        line("plan", plan::service(service)),
        line("runs", format!("{rounds} rounds of {length} a run{each}, in random order, seed {seed}")),
    ];
    if let Some(competitor) = competitor {
        let alone = "the service at SCHED_FIFO, competitors stopped, the core kept awake by a SCHED_IDLE loop";
        let (samples, share) = (trial.profile.execution.len(), competitor * 100.0);
        let predicted =
            format!("simulated with {samples} measured execution times; the competitor gets {share:.1} % of the core");
        lines.extend([line("a whole core", alone), line("predicted", predicted)]);
    }
    lines.extend([
        line("shared, no plan", "SCHED_OTHER beside the competitors"),
        line("shared, Giusto", format!("the plan's reservation ({}) beside the competitors", service.backend)),
        line("largest steal of a run", steal),
        line("generator's mean lateness beyond its median (worst run)", uneven),
    ]);
    lines.extend(crate::report::origin());
    lines
}
