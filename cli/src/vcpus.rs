//! `giusto analyze interface --scheduler global-edf`: virtual CPUs that share the tasks.

use crate::args::{InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::table::{json, print, table};
use giusto_analysis::interface::multi::Vcpus;
use giusto_answers::vcpus::Question;
use giusto_model::Duration;
use giusto_planner::share as percent;
use std::process::ExitCode;

/// Finds the least bandwidth of the virtual CPUs that were asked for, or the fewest of a given period.
pub(crate) fn vcpus(args: &InterfaceArgs) -> Result<ExitCode, Failure> {
    if args.supply != Supply::General || !args.overhead.is_zero() || args.sensitivity {
        let why = "with --scheduler global-edf only the general supply is known, without --overhead and --sensitivity";
        return Err(Failure::input(why));
    }
    let (tasks, vcpus, period) = (args.tasks.clone(), args.vcpus, args.period);
    let answer = Question { tasks, vcpus, period, quantum: args.quantum, latency: args.latency }.answer()?;
    if args.json {
        return json(&answer);
    }
    print(&table(&rows(&answer.found, answer.quantum_ns), 3))?;
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
