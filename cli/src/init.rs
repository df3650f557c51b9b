//! `giusto init`.

use crate::args::InitArgs;
use crate::failure::{create, Failure};
use crate::plan;
use crate::table::{json, say, tell};
use giusto_daemon::{Draft, Observed, Signals};
use giusto_measure::watch::{watch_process, Watched};
use giusto_planner::Facts;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// How often it is said how far the watch is, in seconds.
const TOLD: u64 = 5;

/// Watches a service that runs, and writes a site file that describes it.
pub(crate) fn init(args: &InitArgs) -> Result<ExitCode, Failure> {
    if args.out.is_file() && !args.force {
        let shown = args.out.display();
        return Err(Failure::input(format!(
            "{shown} exists already; expected another --out, or --force to replace it"
        )));
    }
    let found = giusto_daemon::find(&args.adopt).map_err(Failure::input)?;
    let watched = watched(args, &found.pids, &found.adopt.to_string())?;
    let served = giusto_measure::serves(&found.pids);
    let facts = giusto_daemon::facts();
    let host = giusto_daemon::host_name();
    let observed = Observed { found: &found, watched: &watched, served: &served, host: &host, cores: &facts.cores };
    let draft = giusto_daemon::draft(&observed, &facts).map_err(Failure::cannot_tell)?;
    save(&args.out, &draft.text)?;
    match args.json {
        true => json(&json!({"site": args.out, "observed": draft.summary})),
        false => told(args, &draft, &facts),
    }
}

fn watched(args: &InitArgs, pids: &[u32], name: &str) -> Result<Watched, Failure> {
    let signals = Signals::mind(false);
    let whole = args.length.to_std().as_secs_f64();
    tell(format_args!("watching {name} for {whole:.0} s; it is not touched, and should do what it usually does"));
    let mut next = TOLD;
    let mut on_progress = |passed: giusto_model::Duration| {
        let seconds = passed.to_std().as_secs_f64();
        if seconds >= next as f64 && seconds < whole - 1.0 {
            tell(format_args!("{seconds:.0} of {whole:.0} s"));
            next += TOLD;
        }
        !signals.stopped()
    };
    Ok(watch_process(pids, args.length, &mut on_progress)?)
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| Failure::running(format!("cannot write {}: {error}", path.display())))
}

/// What the file says, and what it takes here.
fn told(args: &InitArgs, draft: &Draft, facts: &Facts) -> Result<ExitCode, Failure> {
    let (shown, observed) = (args.out.display(), &draft.summary);
    say!(
        "{}: {} activations, {:.1} in a second ({}), {:.1} % of a core",
        observed.service,
        observed.activations,
        observed.rate_per_s,
        observed.shape,
        observed.utilization * 100.0
    );
    let site = giusto_site::parse(&shown.to_string(), &draft.text)?;
    crate::table::print(&plan::describe(&giusto_planner::plan(&site, facts)?))?;
    say!("written: {shown}; read it and adapt it");
    say!("next: giusto check {shown} && giusto plan {shown}");
    Ok(ExitCode::SUCCESS)
}
