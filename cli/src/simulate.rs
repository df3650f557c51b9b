//! `giusto simulate`.

use crate::args::SimulateArgs;
use crate::failure::{apart, create, Failure};
use crate::simulated_page;
use crate::table::{json, say, table};
use giusto_answers::failed_path::FailedRow;
use giusto_answers::simulated::{self, has_jobs, is_stage, Conditions, Row};
use giusto_answers::simulated_path::{self, PathRow};
use giusto_measure::Profile;
use giusto_model::{
    together, Bandwidth, Certificate, JobRecord, JobWriter, PathPlan, Plan, Promise, ServicePlan, Task,
};
use giusto_simulator::{on_its_cores, Error, Execution, Gantt, Observer, Shown, Timeline, Trace, PERCENTILE_ERROR};
use giusto_verify::Foreseen;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A measured service, from a file.
pub(crate) fn profile(path: &Path) -> Result<Profile, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| named(&error))?;
    Profile::read(BufReader::new(file)).map_err(|error| named(&error))
}

/// Plays the plan of every service with tasks or requests at random, each beside a competitor that takes everything else, and of
/// every path.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let read: Vec<&Path> = std::iter::once(args.site.site.as_path()).chain(args.profile.as_deref()).collect();
    let outputs = [("--html", &args.html), ("--gantt", &args.gantt), ("--jobs", &args.jobs), ("--trace", &args.trace)];
    apart(&outputs.map(|(flag, file)| (flag, file.as_deref())), &read)?;
    let asked = crate::plan::Asked { backend: args.insist.backend, host: args.host.as_deref(), ..Default::default() };
    let whole = crate::plan::of(&args.site.site, &asked)?;
    let (plan, whose) = match &args.host {
        None => (whole, "this site".to_string()),
        Some(name) => {
            let mut own = whole.on(name).unwrap_or(whole);
            // Of a path that goes on elsewhere, only all of it can be played, and so with those that share services with it.
            let together = together(own.paths.iter().map(PathPlan::services));
            let elsewhere = |path: &PathPlan| path.through.iter().any(|stage| stage.on() != name);
            let parts: Vec<usize> =
                own.paths.iter().zip(&together).filter(|(path, _)| elsewhere(path)).map(|(_, first)| *first).collect();
            let is_whole: Vec<bool> = together.iter().map(|first| !parts.contains(first)).collect();
            for (path, _) in own.paths.iter().zip(&is_whole).filter(|(_, is_whole)| !**is_whole && !args.site.json) {
                say!(
                    "path '{}' is not simulated: it, or one that shares services with it, goes on elsewhere; leave --host out",
                    path.name
                );
            }
            let mut is_whole = is_whole.into_iter();
            own.paths.retain(|_| is_whole.next() == Some(true));
            (own, format!("host {name}"))
        }
    };
    if plan.services.is_empty() {
        return Err(Failure::input(format!("there is nothing to simulate: no service of {whose} has a reservation; promise one as-if-alone or {{supply: 3ms/10ms}}")));
    }
    let played: Vec<&ServicePlan> = plan.services.iter().filter(|service| has_jobs(service)).collect();
    let first = played.first().copied();
    let asked = [&args.jobs, &args.trace, &args.gantt, &args.html];
    if first.is_none() && plan.paths.is_empty() && asked.iter().any(|file| file.is_some()) {
        return Err(Failure::input(format!("there are no jobs to record or to draw: no service of {whose} has tasks")));
    }
    let profile = args.profile.as_deref().map(profile).transpose()?;
    let execution = profile.as_ref().map_or(Execution::Worst, |p| Execution::Samples(p.execution.as_slice().into()));
    let conditions = Conditions {
        compare: args.compare.clone(),
        execution,
        transport: profile.as_ref().map_or(Vec::new(), |profile| profile.transport.clone()),
        horizon: args.horizon,
        seed: args.seed,
        seeds: args.seeds,
    };
    let mut rows = Vec::new();
    let mut files = Files::new(args, played.len() + plan.paths.len())?;
    for service in plan.services.iter().filter(|service| !is_stage(service)) {
        if has_jobs(service) {
            files.play_service(service, first.is_some_and(|first| std::ptr::eq(first, service)))?;
        }
        rows.extend(simulated::rows(&conditions, &plan, service, &mut files)?);
    }
    let mut paths = Vec::new();
    for (nth, path) in plan.paths.iter().enumerate() {
        paths.push(of_path(&conditions, (&plan, path), nth == 0 && first.is_none(), &mut files)?);
    }
    let told = format!(
        "{} of virtual time, {}, {}; percentiles up to {} % above the exact ones, max exact",
        args.horizon,
        match args.seeds {
            1 => format!("seed {}", args.seed),
            more => format!("{more} seeds from {}", args.seed),
        },
        if profile.is_some() { "measured execution times" } else { "worst-case execution times" },
        PERCENTILE_ERROR * 100.0
    );
    if let (Some(html), Some(timeline)) = (&args.html, &files.timeline) {
        let cores = drawn(&plan, &played);
        simulated_page::write(html, (&plan, &rows, &paths), (&cores, timeline), (&told, args.horizon.ns()))?;
    }
    files.finish(args)?;
    if args.site.json {
        let all = rows.iter().map(serde_json::to_value).chain(paths.iter().map(serde_json::to_value));
        return json(&all.collect::<Result<Vec<_>, _>>().map_err(Failure::running)?);
    }
    say!("{told}");
    for (row, path) in paths.iter().zip(&plan.paths) {
        print_path(row, path)?;
    }
    if rows.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines =
        vec![["service", "under", "jobs", "p50", "p99", "p99.9", "max", "left to others"].map(String::from).to_vec()];
    for row in &rows {
        let name = row.part.as_ref().map_or(row.service.clone(), |part| format!("{}, {part}", row.service));
        let (Some(p), Some(share)) = (&row.prediction, row.competitor_share) else {
            let nothing = "-".to_string();
            lines.push([vec![name, row.scheduler.clone()], vec![nothing; 6]].concat());
            continue;
        };
        let share = Bandwidth::new((share * 1e6) as u64, 1_000_000).unwrap_or(Bandwidth::ZERO);
        lines.push(vec![
            name,
            row.scheduler.clone(),
            p.jobs.to_string(),
            format!("{:.3}", p.p50),
            format!("{:.3}", p.p99),
            format!("{:.3}", p.p99_9),
            format!("{:.3}", p.max),
            share.percent(),
        ]);
    }
    let lines = table(&lines, 2);
    if plan.only_host().is_some() {
        crate::table::print(&lines)?;
    } else {
        let mut lines = lines.lines();
        say!("{}", lines.next().unwrap_or_default());
        let lines: Vec<(&Row, &str)> = rows.iter().zip(lines).collect();
        for host in &plan.hosts {
            crate::table::print(&crate::plan::heading(host))?;
            for (_, line) in lines.iter().filter(|(row, _)| row.on == host.name) {
                say!("{line}");
            }
        }
        crate::table::print(&crate::plan::assumed(&plan))?;
    }
    for (row, service) in
        rows.iter().filter_map(|row| Some((row, plan.services.iter().find(|s| s.name == row.service)?)))
    {
        if let (Some(kept), Certificate::Percentiles { predicted, wait, .. }) = (&row.promised, &service.certificate) {
            let beside = if wait.is_zero() { "" } else { "; beside others the prediction is a bound" };
            say!("{}, {}: {} requests at random, 95 % intervals{beside}", row.service, row.scheduler, kept.jobs);
            crate::table::print(&giusto_verify::table_kept(kept, &[Foreseen::Predicted(predicted)], "simulated"))?;
        }
    }
    for row in rows.iter() {
        deadlines(row)?;
    }
    for row in &rows {
        if let Some(overloaded) = &row.overloaded {
            say!("{} under {}: {overloaded}", row.service, row.scheduler);
        }
    }
    if rows.iter().any(|row| row.prediction.is_none() && row.overloaded.is_none()) {
        say!("-: its promise is a supply, and it has no tasks whose response times could be predicted");
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays a path; the first run is observed by `files`, and written as job records, if it `records`.
fn of_path(
    conditions: &Conditions,
    (plan, path): (&Plan, &PathPlan),
    records: bool,
    files: &mut Files,
) -> Result<PathRow, Failure> {
    let servers = on_its_cores(plan, path);
    let message = |one: &ServicePlan| {
        let period = one.server.period;
        // What is drawn as its deadline at a stage is the time that is planned for it there.
        let nth = path.through.iter().position(|stage| stage.service() == Some(&one.name)).unwrap_or(0);
        let of_point = path.points.last().and_then(|point| Some(point.parts.get(nth)?.within));
        let of_every = path.every.as_ref().and_then(|every| every.parts.get(nth).copied());
        let deadline = of_point.or(of_every).unwrap_or(period);
        let task = Task { deadline, ..Task::sporadic("message", period, period) };
        if matches!(one.promise, Promise::Stage { .. }) {
            vec![task]
        } else {
            Vec::new()
        }
    };
    let tasks: Vec<Vec<Task>> = servers.iter().map(|one| message(one)).collect();
    let shown: Vec<Shown> = servers.iter().zip(&tasks).map(|(one, tasks)| Shown { name: &one.name, tasks }).collect();
    files.play(&path.name, &shown, false)?;
    let (row, messages) = simulated_path::row(conditions, plan, path, files)?;
    if let Some(jobs) = files.jobs.as_mut().filter(|_| records) {
        let broken = |error| Failure::running(format!("cannot write job records: {error}"));
        messages.iter().try_for_each(|job| jobs.write(job)).map_err(broken)?;
    }
    Ok(row)
}

/// The cores of the servers in each schedule of the page: of a service and what is beside it, or of all that a path concerns.
fn drawn(plan: &Plan, played: &[&ServicePlan]) -> Vec<Vec<String>> {
    let core = |service: &ServicePlan| match plan.only_host() {
        Some(_) => service.core.to_string(),
        None => format!("{} of {}", service.core, service.on),
    };
    let services = played.iter().map(|service| vec![core(service); 2]);
    let paths = plan.paths.iter().map(|path| on_its_cores(plan, path).into_iter().map(core).collect());
    services.chain(paths).collect()
}

/// Prints how the tasks of a service that is promised every deadline keep theirs.
fn deadlines(row: &Row) -> Result<(), Failure> {
    let Some(tasks) = &row.tasks else { return Ok(()) };
    say!(
        "{}, {}: its tasks, and the latest end of a job, before (-) or after its deadline",
        row.service,
        row.scheduler
    );
    let mut lines =
        vec![["task", "jobs", "p50", "p99", "max", "deadline", "latest end", "late"].map(String::from).to_vec()];
    for (place, task) in tasks.iter().enumerate() {
        let name = if task.task.is_empty() { format!("task {place}") } else { task.task.clone() };
        let times = task.prediction.as_ref().map_or_else(
            || ["0", "-", "-", "-"].map(String::from),
            |p| [p.jobs.to_string(), format!("{:.3}", p.p50), format!("{:.3}", p.p99), format!("{:.3}", p.max)],
        );
        let latest = task.lateness_max_ns.map_or("-".into(), |after| {
            let length = giusto_model::Duration::from_ns(after.unsigned_abs());
            format!("{}{length:.3}", if after > 0 { "+" } else { "-" })
        });
        let own = [format!("{}", task.deadline), latest, task.late.to_string()];
        lines.push([vec![name], times.to_vec(), own.to_vec()].concat());
    }
    crate::table::print(&table(&lines, 1))
}

/// Prints what was played of a path.
fn print_path(row: &PathRow, path: &PathPlan) -> Result<(), Failure> {
    say!("path {}: {} messages, {} not at their end yet", row.path, row.messages, row.unfinished);
    let stages = row.stages.iter().filter_map(|(name, _)| Some((name.as_str(), row.stages_ns.get(name)?)));
    let rows: Vec<(&str, &[u64; 4])> = std::iter::once(("all of it", &row.response_ns)).chain(stages).collect();
    crate::table::print(&crate::spread::spread(&rows))?;
    if let Some(kept) = &row.promised {
        let known = [Foreseen::Proven(&row.proven)];
        let known = if row.proven.is_empty() { &[][..] } else { &known };
        crate::table::print(&giusto_verify::table_kept(kept, known, "simulated"))?;
    }
    if let (Some(late), Some(every)) = (row.late, &path.every) {
        let (at, within) = (every.at, every.within);
        say!("{late} took longer than the {within} that none may; none takes longer than {at:.3}, as is proven");
    }
    for FailedRow { fails, failures, messages, touched, late, longest_ns, .. } in &row.despite {
        let late: Vec<String> = late.iter().map(usize::to_string).collect();
        say!(
            "{fails} failed {failures} times: {messages} messages are touched, {touched} by one failure at most; {} are later \
             than promised, the longest took {:.3}",
            late.join(" and "),
            giusto_model::Duration::from_ns(*longest_ns)
        );
    }
    Ok(())
}

/// The files that were asked for, and how far the simulation is.
struct Files {
    jobs: Option<JobWriter<BufWriter<File>>>,
    /// Whether the service that is played is the one whose jobs are recorded.
    records: bool,
    trace: Option<Trace<BufWriter<File>>>,
    gantt: Option<Gantt>,
    timeline: Option<Timeline>,
    service: String,
    horizon: u64,
    finished: u32,
    next_word: Instant,
}

impl Files {
    fn new(args: &SimulateArgs, plays: usize) -> Result<Files, Failure> {
        let open = |path: &Option<PathBuf>| path.as_ref().map(|path| create(path)).transpose();
        Ok(Files {
            jobs: open(&args.jobs)?.map(JobWriter::new).transpose().map_err(Failure::running)?,
            records: false,
            trace: open(&args.trace)?.map(Trace::new).transpose()?,
            gantt: args.gantt.as_ref().map(|_| Gantt::default()),
            timeline: args.html.as_ref().map(|_| simulated_page::timeline(plays)),
            service: String::new(),
            horizon: args.horizon.ns(),
            finished: 0,
            next_word: Instant::now() + Duration::from_secs(2),
        })
    }

    /// What is told from now on is of this service and of what else its core does.
    fn play_service(&mut self, service: &ServicePlan, records: bool) -> Result<(), Failure> {
        let vcpu = service.vcpu.map(|vcpu| format!(" {vcpu}")).unwrap_or_default();
        let name = format!("{}{vcpu}", service.name);
        let others = format!("all others of core {}", service.core);
        let servers = [Shown { name: &name, tasks: &service.tasks }, Shown { name: &others, tasks: &[] }];
        self.play(&name, &servers, records)
    }

    /// What is told from now on is of these servers.
    fn play(&mut self, name: &str, servers: &[Shown], records: bool) -> Result<(), Failure> {
        (self.service, self.records) = (name.to_string(), records);
        if let Some(trace) = &mut self.trace {
            trace.play(servers)?;
        }
        if let Some(gantt) = &mut self.gantt {
            gantt.play(servers);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.play(servers);
        }
        Ok(())
    }

    fn drawings(&mut self) -> impl Iterator<Item = &mut dyn Observer> {
        let trace = self.trace.as_mut().map(|trace| trace as &mut dyn Observer);
        let gantt = self.gantt.as_mut().map(|gantt| gantt as &mut dyn Observer);
        let timeline = self.timeline.as_mut().map(|timeline| timeline as &mut dyn Observer);
        trace.into_iter().chain(gantt).chain(timeline)
    }

    fn finish(self, args: &SimulateArgs) -> Result<(), Failure> {
        self.jobs.map(JobWriter::finish).transpose().map_err(Failure::running)?;
        self.trace.map(Trace::finish).transpose()?;
        if let (Some(gantt), Some(path)) = (self.gantt, &args.gantt) {
            let svg = gantt.svg(self.horizon);
            create(path)?
                .write_all(svg.as_bytes())
                .map_err(|error| Failure::running(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// After two seconds, and then each second, says how far it is.
    fn progress(&mut self, job: &JobRecord) {
        self.finished = self.finished.wrapping_add(1);
        if self.finished.is_multiple_of(1 << 18) && Instant::now() >= self.next_word {
            self.next_word = Instant::now() + Duration::from_secs(1);
            let percent = job.release.ns() as f64 / self.horizon as f64 * 100.0;
            let _ = writeln!(std::io::stderr(), "{}: {percent:.0} % simulated", self.service);
        }
    }
}

impl Observer for Files {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        self.progress(job);
        match &mut self.jobs {
            Some(jobs) if server == 0 && self.records => {
                jobs.write(job).map_err(|error| Error::Write(error.to_string()))
            }
            _ => Ok(()),
        }
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        self.drawings().try_for_each(|drawing| drawing.slice(server, job, from, to))
    }
    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        self.drawings().try_for_each(|drawing| drawing.release(server, task, at))
    }
    fn shows_budgets(&self) -> bool {
        self.trace.is_some() || self.gantt.is_some() || self.timeline.is_some()
    }
    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        self.drawings().try_for_each(|drawing| drawing.budget(server, at, left))
    }
}
