//! `giusto init`.

use crate::args::InitArgs;
use crate::failure::{create, Failure};
use crate::generator::generator;
use crate::plan;
use crate::table::{json, say};
use crate::tell::tell;
use giusto_daemon::{Answered, Draft, Observed, Signals, Summary};
use giusto_measure::watch::{watch_process, Watched};
use giusto_measure::{LoadPlan, Served};
use giusto_model::{Arrivals, Duration, Load, Rate};
use giusto_planner::Facts;
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

/// How often it is said how far the watch is, in seconds.
const TOLD: u64 = 5;

/// Requests of its own, and over how long.
const REQUESTS: u64 = 100;
const OVER: Duration = Duration::from_secs(5);

/// Watches a service that runs, and writes a site file that describes it.
pub(crate) fn init(args: &InitArgs) -> Result<ExitCode, Failure> {
    let adopt = args.adopt.as_deref().unwrap_or_default();
    let file = args.out.clone().unwrap_or_else(|| "site.yaml".into());
    is_free(&file, args.force)?;
    let found = giusto_daemon::find(adopt).map_err(Failure::input)?;
    let watched = watched(args.length, &found.pids, &found.adopt.to_string())?;
    let served = giusto_measure::serves(&found.pids);
    let answered = match served {
        Ok(Served::Http(address)) => asked(address),
        _ => None,
    };
    let facts = giusto_daemon::facts();
    let host = giusto_daemon::host_name();
    let observed =
        Observed { found: &found, watched: &watched, served: &served, answered, host: &host, cores: &facts.cores };
    let draft = giusto_daemon::draft(&observed, &facts).map_err(Failure::cannot_tell)?;
    save(&file, &draft.text)?;
    match args.json {
        true => json(&json!({"site": file, "observed": draft.summary})),
        false => told(&file, &draft, &facts),
    }
}

/// A file that is there is replaced with --force only.
pub(crate) fn is_free(file: &Path, force: bool) -> Result<(), Failure> {
    if !file.is_file() || force {
        return Ok(());
    }
    let shown = file.display();
    Err(Failure::input(format!("{shown} exists already; expected another --out, or --force to replace it")))
}

/// Requests of its own to a web server, which changes nothing there: processor time alone does not tell how long
/// answers take. `None`
/// where it does not answer as it should, which is said.
fn asked(address: SocketAddr) -> Option<Answered> {
    tell(format_args!("asking {address} for / some {REQUESTS} times, as watching does not tell how long answers take"));
    let load = Load::Http { address, path: "/".into() };
    let plan = LoadPlan {
        load: &load,
        tasks: &[],
        arrivals: Rate::of(REQUESTS, OVER).map(|rate| Arrivals { rate, batch: 1 }),
        trace: &[],
        warm_up: Duration::from_ms(300),
        run: OVER,
        seed: 1,
        generator: generator(),
    };
    let report =
        giusto_measure::drive(&plan, &mut |_| true).inspect_err(|error| tell(format_args!("note: {error}"))).ok()?;
    let mut took: Vec<u64> = report.jobs.iter().filter_map(|job| job.response_ns()).collect();
    took.sort_unstable();
    if report.lost > 0 || report.errors > 0 || took.is_empty() {
        tell(format_args!(
            "note: {} of {} were not answered, {} with an error",
            report.lost,
            report.jobs.len(),
            report.errors
        ));
        return None;
    }
    let rank = |percent: usize| Duration::from_ns(took[(took.len() * percent).div_ceil(100) - 1]);
    Some(Answered { requests: took.len(), p90: rank(90), p99: rank(99) })
}

pub(crate) fn watched(length: Duration, pids: &[u32], name: &str) -> Result<Watched, Failure> {
    let signals = Signals::mind(false);
    let whole = length.to_std().as_secs_f64();
    tell(format_args!("watching {name} for {whole:.0} s; it is not touched, and should do what it usually does"));
    let mut next = TOLD;
    let mut on_progress = |passed: Duration| {
        let seconds = passed.to_std().as_secs_f64();
        if seconds >= next as f64 && seconds < whole - 1.0 {
            tell(format_args!("{seconds:.0} of {whole:.0} s"));
            next += TOLD;
        }
        !signals.stopped()
    };
    Ok(watch_process(pids, length, &mut on_progress)?)
}

pub(crate) fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| Failure::running(format!("cannot write {}: {error}", path.display())))
}

/// What was observed, on one line.
pub(crate) fn in_short(observed: &Summary) -> String {
    format!(
        "{} activations, {:.1} in a second ({}), {:.1} % of a core",
        observed.activations,
        observed.rate_per_s,
        observed.shape,
        observed.utilization * 100.0
    )
}

/// What the file says, and what it takes here.
fn told(file: &Path, draft: &Draft, facts: &Facts) -> Result<ExitCode, Failure> {
    let shown = file.display();
    say!("{}: {}", draft.summary.service, in_short(&draft.summary));
    let site = giusto_site::parse(&shown.to_string(), &draft.text)?;
    crate::table::print(&plan::describe(&giusto_planner::plan(&site, facts)?))?;
    say!("written: {shown}; read it and adapt it");
    say!("next: giusto check {shown} && giusto plan {shown}");
    Ok(ExitCode::SUCCESS)
}
