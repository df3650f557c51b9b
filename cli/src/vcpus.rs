//! `giusto analyze interface --scheduler global-edf`: virtual CPUs that share the tasks.

use crate::args::compositional::GLOBAL_EDF;
use crate::args::{InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::table::{json, print, table};
use giusto_analysis::admission::Grids;
use giusto_analysis::interface::default_quantum;
use giusto_analysis::interface::multi::{least_budget, least_cores, optimum, schedulable, Short, Total, Vcpus, Wanted};
use giusto_model::{Duration, Task};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints (`formats/interface.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    scheduler: &'static str,
    #[serde(flatten)]
    found: &'a Vcpus,
    quantum_ns: Duration,
    latency_ns: Duration,
}

/// Finds the least bandwidth of the virtual CPUs that were asked for, or the fewest of a given period.
pub(crate) fn vcpus(args: &InterfaceArgs) -> Result<ExitCode, Failure> {
    if args.supply != Supply::General || !args.overhead.is_zero() || args.sensitivity {
        let why = "with --scheduler global-edf only the general supply is known, without --overhead and --sensitivity";
        return Err(Failure::input(why));
    }
    let tasks = crate::analyze::named(&args.tasks);
    let quantum = args.quantum.unwrap_or_else(|| default_quantum(&tasks));
    // Apart holds for grids that are aligned too.
    let wanted = Wanted { cores: args.vcpus.unwrap_or(1), quantum, grids: Grids::Apart, latency: args.latency };
    let found = match (args.vcpus, args.period) {
        (Some(_), Some(period)) => least_budget(&tasks, period, &wanted),
        (Some(_), None) => {
            let longest = tasks.iter().map(|task| task.period).max().unwrap_or(quantum);
            optimum(&tasks, quantum, longest.max(quantum), &wanted)
        }
        (None, Some(period)) => least_cores(&tasks, period, &wanted),
        (None, None) => {
            let why = "expected --vcpus N, or --period TIME for the fewest virtual CPUs of that period";
            return Err(Failure::input(why));
        }
    };
    let found = found.map_err(Failure::input)?;
    let Some(found) = found else { return Err(refused(&tasks, &wanted, args.vcpus)) };
    if args.json {
        let (scheduler, latency_ns) = (GLOBAL_EDF, args.latency);
        json(&Answer { scheduler, found: &found, quantum_ns: quantum, latency_ns })?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&table(&rows(&found, quantum), 3))?;
    Ok(ExitCode::SUCCESS)
}

fn rows(found: &Vcpus, quantum: Duration) -> Vec<Vec<String>> {
    let row = |name: &str, value: String, note: String| vec![name.to_string(), value, note];
    let each = |alike: &[Duration]| {
        let (count, budget) = (alike.len(), alike[0]);
        let place = if count == 1 { "virtual CPU" } else { "virtual CPUs" };
        row(place, format!("{count} × {budget:.3} every {:.3}", found.period), format!("in steps of {quantum}"))
    };
    let mut rows: Vec<Vec<String>> = found.vcpus.chunk_by(|a, b| a == b).map(each).collect();
    let note = format!("{} of a core, all together", found.bandwidth);
    rows.push(row("bandwidth", percent(found.bandwidth), note));
    rows.push(row("utilization", percent(found.utilization), "U = Σ C/T, copies counted".into()));
    rows
}

/// Why not even whole cores are enough.
fn refused(tasks: &[Task], wanted: &Wanted, asked: Option<u32>) -> Failure {
    let copies: u32 = tasks.iter().fold(0, |all, task| all.saturating_add(task.copies));
    let cores = asked.unwrap_or(copies).max(1);
    let budgets = vec![wanted.quantum; cores as usize];
    let whole = Total { period: wanted.quantum, budgets, grids: wanted.grids };
    let resource = format!("{cores} whole virtual {}", if cores == 1 { "CPU" } else { "CPUs" });
    match schedulable(tasks, &whole, wanted.latency) {
        Err(error) => Failure::input(error),
        Ok(Err(Short::Bandwidth { demand, .. })) => Failure::does_not_fit(format!(
            "the tasks need {} of a core and {cores} virtual {} give less or just that: give more with --vcpus",
            percent(demand),
            if cores == 1 { "CPU" } else { "CPUs" }
        )),
        Ok(Err(Short::Window(shortfall))) => crate::analyze::falls_short(tasks, &resource, &shortfall),
        Ok(Ok(_)) => Failure::does_not_fit(format!(
            "no budget in whole steps of {} is enough for that period: take a shorter --period or a finer --quantum",
            wanted.quantum
        )),
    }
}
