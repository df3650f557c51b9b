//! `giusto measure import`.

use crate::args::ImportArgs;
use crate::failure::{create, Failure};
use crate::measure::{quantiles, spread};
use crate::table::{json, print, say};
use giusto_model::{write_jobs, JobRecord, Profile};
use giusto_traces::{read_config, read_log, read_sched, ConfigTask, Cut, Imported, Job, Select, Why};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::process::ExitCode;

/// What a file is is seen in its first bytes.
const FIRST: u64 = 4096;

/// What `--json` prints (`formats/import.schema.json`).
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Report<'a> {
    /// A recording of the scheduler.
    Sched {
        thread: &'a str,
        tid: u32,
        jobs: usize,
        wakeups: u64,
        /// p50, p99, p99.9 and largest.
        response_ns: [u64; 4],
        execution_ns: [u64; 4],
        cut_off: Vec<Piece>,
        losses: u64,
        truncated: bool,
    },
    /// A log of rt-app.
    RtAppLog { jobs: usize, response_ns: [u64; 4] },
    /// A configuration of rt-app.
    RtAppConfig { tasks: Vec<Task<'a>> },
}

#[derive(Serialize)]
struct Piece {
    line: usize,
    why: &'static str,
    wakeups: u64,
}

#[derive(Serialize)]
struct Task<'a> {
    name: &'a str,
    wcet_ns: u64,
    period_ns: u64,
    offset_ns: u64,
    copies: u32,
}

/// Reads a recording, whatever it is.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let name = args.file.display().to_string();
    let cannot = |error: std::io::Error| Failure::input(format!("{name}: {error}"));
    let mut file = File::open(&args.file).map_err(cannot)?;
    let mut first = Vec::new();
    Read::by_ref(&mut file).take(FIRST).read_to_end(&mut first).map_err(cannot)?;
    let start = String::from_utf8_lossy(&first).into_owned();
    let mut whole = BufReader::new(Cursor::new(first).chain(file));
    let broken = |error: giusto_traces::Error| {
        // file:line: ..., as editors know it.
        let colon = if matches!(error, giusto_traces::Error::Line { .. }) { ":" } else { ": " };
        Failure::input(format!("{name}{colon}{error}"))
    };
    let begins = start.trim_start();
    if begins.starts_with('{') || begins.starts_with("/*") {
        let mut text = String::new();
        whole.read_to_string(&mut text).map_err(cannot)?;
        let tasks = read_config(&text).map_err(broken)?;
        return config(args, &tasks);
    }
    if start.lines().take(10).any(|line| line.starts_with("#idx")) {
        let jobs = read_log(&mut whole).map_err(broken)?;
        return log(args, &jobs);
    }
    let wanted = args.thread.as_deref().map(|thread| match thread.parse() {
        Ok(tid) => Select::Tid(tid),
        Err(_) => Select::Name(thread.into()),
    });
    match wanted {
        Some(wanted) => sched(args, &read_sched(&mut whole, &wanted).map_err(broken)?),
        None => Err(unnamed(&name, &mut whole)),
    }
}

/// Nobody was named; says who is there.
fn unnamed(name: &str, trace: &mut impl BufRead) -> Failure {
    let known = match read_sched(trace, &Select::Name(String::new())) {
        Err(giusto_traces::Error::NoThread { known, .. }) => format!(", such as {known}"),
        Err(error) => return Failure::input(format!("{name}: {error}")),
        Ok(_) => String::new(),
    };
    Failure::input(format!("{name}: whose jobs? expected --thread with a name or a number{known}"))
}

fn sched(args: &ImportArgs, imported: &Imported) -> Result<ExitCode, Failure> {
    let Imported { tid, name, jobs, cuts, wakeups, losses, truncated } = imported;
    let record = |(number, job): (usize, &Job)| JobRecord {
        task: 0,
        job: number as u64,
        due: job.release,
        release: job.release,
        finish: Some(job.finish),
    };
    let records: Vec<JobRecord> = jobs.iter().enumerate().map(record).collect();
    save(args.out.as_deref(), &records)?;
    let execution: Vec<u64> = jobs.iter().map(|job| job.execution.ns()).collect();
    if let Some(path) = &args.profile {
        let beyond =
            records.iter().zip(&execution).map(|(job, ran)| job.response_ns().unwrap_or(0).saturating_sub(*ran));
        // A clock that is too coarse to see a job run still saw it run.
        let profile =
            Profile { execution: execution.iter().map(|&ns| ns.max(1)).collect(), transport: beyond.collect() };
        let broken = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
        profile.write(create(path)?).map_err(broken)?;
    }
    let (response, ran) = (responses(&records), quantiles(&execution));
    if args.json {
        let piece = |cut: &Cut| Piece { line: cut.line, why: why(cut.why), wakeups: cut.wakeups };
        return json(&Report::Sched {
            thread: name,
            tid: *tid,
            jobs: jobs.len(),
            wakeups: *wakeups,
            response_ns: response,
            execution_ns: ran,
            cut_off: cuts.iter().map(piece).collect(),
            losses: *losses,
            truncated: *truncated,
        });
    }
    say!("{name} ({tid}): {} jobs of {wakeups} wakeups", jobs.len());
    print(&spread(&[("response", &response), ("on a processor", &ran)]))?;
    for reason in [Why::Begun, Why::Unended, Why::Lost, Why::Contradiction] {
        let of: Vec<&Cut> = cuts.iter().filter(|cut| cut.why == reason).collect();
        if let Some(first) = of.first() {
            let wakeups: u64 = of.iter().map(|cut| cut.wakeups).sum();
            say!(
                "cut off: {} with {wakeups} wakeups, {}; the first ends at line {}",
                of.len(),
                why(reason),
                first.line
            );
        }
    }
    if *losses > 0 {
        say!("the recorder lost events {losses} times: give it larger buffers (perf record -m 16M, buffer_size_kb)");
    }
    if *truncated {
        say!("the last line is incomplete and was left out");
    }
    told(args.out.as_deref())
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Begun => "begun before the recording",
        Why::Unended => "not ended with it",
        Why::Lost => "events were lost",
        Why::Contradiction => "events contradict each other",
    }
}

fn log(args: &ImportArgs, jobs: &[JobRecord]) -> Result<ExitCode, Failure> {
    save(args.out.as_deref(), jobs)?;
    let response = responses(jobs);
    if args.json {
        return json(&Report::RtAppLog { jobs: jobs.len(), response_ns: response });
    }
    say!("{} jobs", jobs.len());
    print(&spread(&[("response", &response)]))?;
    told(args.out.as_deref())
}

/// The tasks as a site file.
fn config(args: &ImportArgs, tasks: &[ConfigTask]) -> Result<ExitCode, Failure> {
    if args.json {
        let task = |task: &'_ ConfigTask| (task.wcet.ns(), task.period.ns(), task.offset.ns());
        let tasks = tasks.iter().map(|one| {
            let (wcet_ns, period_ns, offset_ns) = task(one);
            Task { name: &one.name, wcet_ns, period_ns, offset_ns, copies: one.copies }
        });
        return json(&Report::RtAppConfig { tasks: tasks.collect() });
    }
    let mut text = String::from("giusto: 1\nhosts:\n  here: {cores: 0}\nservices:\n  rt-app:\n");
    let file = args.file.display().to_string().replace('\'', "''");
    text += &format!("    start: [rt-app, '{file}']\n    tasks:\n");
    for ConfigTask { name, wcet, period, offset, copies } in tasks {
        // What a site allows in a name.
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        let offset = if offset.ns() > 0 { format!(", offset: {offset}") } else { String::new() };
        let copies = if *copies > 1 { format!(", copies: {copies}") } else { String::new() };
        text += &format!("      - {{name: {name}, wcet: {wcet}, period: {period}{offset}{copies}}}\n");
    }
    text += "    promise: every-deadline\n";
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn responses(jobs: &[JobRecord]) -> [u64; 4] {
    quantiles(&jobs.iter().filter_map(JobRecord::response_ns).collect::<Vec<_>>())
}

fn save(path: Option<&Path>, jobs: &[JobRecord]) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let broken = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
    write_jobs(create(path)?, jobs).map_err(broken)
}

fn told(path: Option<&Path>) -> Result<ExitCode, Failure> {
    if let Some(path) = path {
        say!("job records: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
