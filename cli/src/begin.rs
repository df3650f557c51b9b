//! What a run and a trial begin with, and what they say of it.

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::table::say;
use crate::tell::tell;
use crate::{plan, table};
use giusto_compute::{Lack, Machine};
use giusto_daemon::{Error, Restored, Signals, Watchdog};
use giusto_model::Plan;
use serde_json::json;
use std::path::Path;

/// What a trial needs of the process that runs it.
pub(crate) struct Around<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) signals: &'static Signals,
    pub(crate) watchdog: &'a Watchdog,
}

pub(crate) fn asked(args: &RunArgs) -> plan::Asked<'_> {
    let (backend, host, latency) = (args.insist.backend, args.this.host.as_deref(), args.latency.file.as_deref());
    plan::Asked { backend, host, latency, ..Default::default() }
}

pub(crate) fn tell_restored(restored: &Restored) -> Result<(), Failure> {
    if !restored.failed.is_empty() {
        return Err(Error::NotRestored(restored.failed.join("; ")).into());
    }
    restored.notes.iter().for_each(|note| tell(format_args!("note: {note}")));
    if restored.undone > 0 {
        tell(format_args!("undid {} changes that an earlier giusto had left", restored.undone));
    }
    Ok(())
}

pub(crate) fn introduce(plan: &Plan, file: &Path) -> Result<(), Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "giusto".into());
    for service in &plan.services {
        let explain =
            if file == Path::new("out/plan.json") { String::new() } else { format!(" --plan {}", file.display()) };
        say!("{}      why: {program} explain {}{explain}", plan::service(service), service.name);
    }
    Ok(())
}

/// What could be done was done: planned and predicted, unless there was something to measure first. Says what is missing.
pub(crate) fn lacks(args: &RunArgs, plan: Option<&Plan>, missing: &[Lack]) -> Result<Failure, Failure> {
    if args.site.json {
        table::json(&json!({"plan": plan, "missing": missing}))?;
    } else if let Some(plan) = plan {
        table::print(&table::table(&predicted(plan), 1))?;
    }
    let done = match plan {
        Some(_) => "planned and predicted, but nothing was enforced or measured",
        None => "nothing was measured, so that there is nothing to plan with ('giusto demo' shows what would come)",
    };
    let missing: Vec<String> =
        missing.iter().map(|lack| format!("\n  {} is missing: {}", lack.what, lack.how)).collect();
    Ok(Failure::lacks(format!("{done}:{}", missing.concat())))
}

fn predicted(plan: &Plan) -> Vec<Vec<String>> {
    let mut rows = vec![["", "p50", "p99", "p99.9"].map(String::from).to_vec()];
    for service in &plan.services {
        if let Some(p) = &service.prediction {
            let times = [p.p50, p.p99, p.p99_9].map(|time| format!("{time:.3}"));
            rows.push(std::iter::once(format!("predicted, {}", service.name)).chain(times).collect());
        }
    }
    rows
}
