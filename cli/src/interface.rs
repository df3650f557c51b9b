//! `giusto analyze interface`.

use crate::args::{InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::interface::{default_quantum, interface as cheapest};
use giusto_analysis::interface::{Certificate, Family, Interface, Question, Refusal};
use giusto_model::{Duration, Task};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// `giusto analyze interface`
pub(crate) fn interface(args: &InterfaceArgs) -> Result<ExitCode, Failure> {
    let tasks = crate::analyze::named(&args.tasks);
    let question = Question {
        scheduler: args.scheduler,
        supply: match args.supply {
            Supply::General => Family::General,
            Supply::Aligned => Family::Aligned,
            Supply::Edp => Family::ExplicitDeadline,
        },
        quantum: args.quantum.unwrap_or_else(|| default_quantum(&tasks)),
        period: args.period,
        preemption: args.overhead,
        latency: args.latency,
    };
    let found = cheapest(&tasks, &question).map_err(Failure::input)?.map_err(|refusal| refused(&tasks, &refusal))?;
    if args.json {
        return json(&found);
    }
    print(&table(&rows(&found), 3))?;
    say!("{}", proof(&found.certificate, &tasks));
    Ok(ExitCode::SUCCESS)
}

fn rows(found: &Interface) -> Vec<Vec<String>> {
    let time = |time: Duration| format!("{time:.3}");
    let row = |name: &str, value: String, note: String| vec![name.to_string(), value, note];
    let searched = match found.searched {
        Some(longest) => {
            format!("the least in steps of {} of all periods; none beyond {longest} is better", found.quantum)
        }
        None => format!("the least in steps of {} for this period", found.quantum),
    };
    let mut rows = vec![
        row("server", format!("{} every {}", time(found.budget), time(found.period)), searched),
        row("bandwidth", percent(found.bandwidth), found.bandwidth.to_string()),
        row("utilization", found.utilization.percent(), "U = Σ C/T, copies counted".into()),
        row("interface overhead", found.overhead_bandwidth.percent(), "bandwidth − U".into()),
    ];
    if let Some(deadline) = found.deadline {
        rows.insert(1, row("within", time(deadline), "of the beginning of each period: its explicit deadline".into()));
    }
    if let Some(exact) = &found.exact_budget {
        rows.push(row("exact least budget", format!("{exact} ns"), "without a quantum".into()));
    }
    if !found.preemption.is_zero() {
        let note = "a preemption, added to every job and to every budget".into();
        rows.push(row("inflated by", time(found.preemption), note));
    }
    if found.at_least < found.bandwidth {
        let note = "cheaper ones were too close to U to be decided".into();
        rows.push(row("not below", percent(found.at_least), note));
    }
    rows
}

/// The comparison that decides: where least is left over.
fn proof(certificate: &Certificate, tasks: &[Task]) -> String {
    let least = certificate.points.iter().min_by_key(|point| point.supply.ns().saturating_sub(point.demand.ns()));
    let Some(point) = least else { return String::new() };
    let who = point.task.map_or(String::new(), |task| format!(" by {} and those above it", tasks[task].name));
    format!(
        "proof: {} comparisons of demand and supply; the closest: in {} at most {} are asked for{who}, and {} supplied",
        certificate.points.len(),
        point.at,
        point.demand,
        point.supply
    )
}

fn refused(tasks: &[Task], refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::Overload(load) => Failure::does_not_fit(format!(
            "the tasks need {} of a core and one core gives 100 %: run less, or less often",
            load.percent()
        )),
        Refusal::Short { shortfall, .. } => crate::analyze::falls_short(tasks, "a whole core", shortfall),
    }
}
