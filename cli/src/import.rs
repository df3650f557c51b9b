//! `giusto measure import`.

use crate::args::ImportArgs;
use crate::failure::{apart, create, Failure};
use crate::import_spans;
use crate::imported::{names, save, told};
use crate::spread::{quantiles, spread};
use crate::table::{json, print, say};
use giusto_model::{JobRecord, Profile};
use giusto_traces::{read_config, read_log, read_sched, read_spans, ConfigTask, Cut, Imported, Job, Select, Why};
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
        /// p50, p99, p99.9 and largest; `None` without a job.
        response_ns: Option<[u64; 4]>,
        execution_ns: Option<[u64; 4]>,
        cut_off: Vec<Piece>,
        losses: u64,
        truncated: bool,
    },
    /// A log of rt-app.
    RtAppLog { jobs: usize, response_ns: Option<[u64; 4]> },
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
    let outputs = [("--out", &args.out), ("--profile", &args.profile), ("--as-site", &args.as_site)];
    apart(&outputs.map(|(flag, file)| (flag, file.as_deref())), &[&args.file])?;
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
    let begins = start.trim_start_matches('\u{feff}').trim_start();
    let key = begins.strip_prefix('{').map_or("", str::trim_start);
    if ["\"resourceSpans\"", "\"data\""].iter().any(|first| key.starts_with(first)) {
        let flags = [("--thread", args.thread.is_some()), ("--profile", args.profile.is_some())];
        without(&name, "spans of services, which become chains of them", &flags)?;
        return import_spans::spans(args, &read_spans(&mut whole).map_err(broken)?);
    }
    let flags = [("--as-site", args.as_site.is_some()), ("--path", args.path.is_some())];
    without(&name, "a file without spans of services", &flags)?;
    if ["{", "/*", "//"].iter().any(|first| begins.starts_with(first)) {
        let flags =
            [("--thread", args.thread.is_some()), ("--out", args.out.is_some()), ("--profile", args.profile.is_some())];
        without(&name, "a configuration of rt-app, which becomes a site on standard output", &flags)?;
        let mut text = String::new();
        whole.read_to_string(&mut text).map_err(cannot)?;
        let tasks = read_config(&text).map_err(broken)?;
        return config(args, &tasks);
    }
    if start.lines().take(10).any(|line| line.starts_with("#idx")) {
        let flags = [("--thread", args.thread.is_some()), ("--profile", args.profile.is_some())];
        without(&name, "a log of rt-app, whose jobs are all imported and which has no processor times", &flags)?;
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

/// Refuses flags that mean nothing for this kind of file.
fn without(name: &str, kind: &str, flags: &[(&str, bool)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::input(format!("{name}: {flag} does not go with {kind}; leave it out"))),
        None => Ok(()),
    }
}

/// No thread was named; says which there are.
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
    save(args, &records)?;
    let execution: Vec<u64> = jobs.iter().map(|job| job.execution.ns()).collect();
    if let Some(path) = args.profile.as_ref().filter(|_| !jobs.is_empty()) {
        let beyond =
            records.iter().zip(&execution).map(|(job, ran)| job.response_ns().unwrap_or(0).saturating_sub(*ran));
        // A clock that is too coarse to see a job run still saw it run.
        let profile =
            Profile { execution: execution.iter().map(|&ns| ns.max(1)).collect(), transport: beyond.collect() };
        let broken = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
        profile.write(create(path)?).map_err(broken)?;
    }
    let (response, ran) = (responses(&records), (!jobs.is_empty()).then(|| quantiles(&execution)));
    if args.json {
        let piece = |cut: &Cut| Piece { line: cut.line, why: why(cut.why), wakeups: cut.wakeups };
        json(&Report::Sched {
            thread: name,
            tid: *tid,
            jobs: jobs.len(),
            wakeups: *wakeups,
            response_ns: response,
            execution_ns: ran,
            cut_off: cuts.iter().map(piece).collect(),
            losses: *losses,
            truncated: *truncated,
        })?;
        return told(args, jobs.len());
    }
    say!("{name} ({tid}): {} jobs of {wakeups} wakeups", jobs.len());
    if let Some((response, ran)) = response.zip(ran) {
        print(&spread(&[("response", &response), ("on a processor", &ran)]))?;
    }
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
    told(args, jobs.len())
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
    save(args, jobs)?;
    let response = responses(jobs);
    if args.json {
        json(&Report::RtAppLog { jobs: jobs.len(), response_ns: response })?;
        return told(args, jobs.len());
    }
    say!("{} jobs", jobs.len());
    if let Some(response) = response {
        print(&spread(&[("response", &response)]))?;
    }
    told(args, jobs.len())
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
    print(&site(&args.file, tasks)?)?;
    Ok(ExitCode::SUCCESS)
}

fn site(file: &Path, tasks: &[ConfigTask]) -> Result<String, Failure> {
    let mut text = String::from("giusto: 1\nhosts:\n  here: {cores: 0}\nservices:\n  rt-app:\n");
    let named = file.to_str().filter(|path| !path.contains(char::is_control));
    let file = named.ok_or_else(|| {
        Failure::input(format!(
            "{file:?}: a site file cannot name this path to rt-app; expected one of visible characters: rename it"
        ))
    })?;
    text += &format!("    start: [rt-app, '{}']\n    tasks:\n", file.replace('\'', "''"));
    let names = names(tasks.iter().map(|task| task.name.as_str()));
    for (ConfigTask { wcet, period, offset, copies, .. }, name) in tasks.iter().zip(names) {
        let offset = if offset.ns() > 0 { format!(", offset: {offset}") } else { String::new() };
        let copies = if *copies > 1 { format!(", copies: {copies}") } else { String::new() };
        text += &format!("      - {{name: '{name}', wcet: {wcet}, period: {period}{offset}{copies}}}\n");
    }
    Ok(text + "    promise: every-deadline\n")
}

fn responses(jobs: &[JobRecord]) -> Option<[u64; 4]> {
    (!jobs.is_empty()).then(|| quantiles(&jobs.iter().filter_map(JobRecord::response_ns).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_traces::read_config;

    /// What is imported is what the site says, in order; else import itself refuses.
    #[test]
    fn every_configuration_that_is_imported_is_a_site() {
        let long = "n".repeat(80);
        let all = [
            "",
            "true",
            "1e3",
            "-a",
            "--",
            "a",
            "a",
            "a-2",
            "it's: [x]",
            "ä#",
            "null",
            "",
            "~",
            "a b",
            &long,
            &long,
            "task",
        ];
        let keys = |run: u64, copies: u64| {
            format!("{{\"instance\": {copies}, \"run\": {run}, \"delay\": 7, \"timer\": {{\"ref\": \"x\", \"period\": 3600000000}}}}")
        };
        let config = |tasks: &[String]| format!("\u{feff}// of rt-app\n{{\"tasks\": {{{}}}}}", tasks.join(", "));
        let task = |name: &str| format!("{name:?}: {}", keys(3_600_000_000, 10_000));
        let tasks = read_config(&config(&all.map(task))).unwrap();
        for path in ["it's.json", "-", "# a: b", " {x} ", "\u{2028}", "%&*!|>@`"] {
            let text = site(Path::new(path), &tasks).unwrap();
            let read = giusto_site::parse("site", &text).unwrap_or_else(|why| panic!("{why}\n{text}"));
            let [service] = read.services.as_slice() else { panic!("{text}") };
            assert!(matches!(&service.origin, giusto_model::Origin::Start(words) if words[1..] == [path.to_string()]));
            let shape = |task: &giusto_model::Task| (task.wcet, task.period, task.offset, task.copies);
            let wanted = tasks.iter().map(|task| (task.wcet, task.period, task.offset, task.copies));
            assert_eq!(service.tasks.iter().map(shape).collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            let names: Vec<&str> = service.tasks.iter().map(|task| task.name.as_str()).collect();
            assert_eq!(names[..9], ["task", "true", "1e3", "a", "task-2", "a-2", "a-3", "a-2-2", "it_s___x_"]);
        }
        assert!(site(Path::new("two\nlines"), &tasks).is_err());
        for (run, copies, word) in [(3_600_000_001, 1, "run"), (1, 10_001, "instance"), (1, u64::MAX, "instance")] {
            let refused = read_config(&config(&[format!("\"b\": {}", keys(run, copies))])).unwrap_err().to_string();
            assert!(refused.contains("'b'") && refused.contains(word), "{refused}");
        }
    }
}
