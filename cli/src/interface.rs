//! `giusto analyze interface`.

use crate::args::{Inside, InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::interface::sensitivity::{Limit, What};
use giusto_analysis::interface::{Certificate, Family, Interface, Scheduler};
use giusto_answers::interface::{Answer, Question};
use giusto_model::{Bandwidth, Duration, Task};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// `giusto analyze interface`; with `most` that long at most.
pub(crate) fn interface(args: &InterfaceArgs, most: Option<Duration>) -> Result<ExitCode, Failure> {
    let scheduler = match args.scheduler {
        Some(Inside::Global) if args.deadline.is_some() => {
            return Err(Failure::input("--deadline goes with a scheduler of one processor: rm, dm or edf"))
        }
        Some(Inside::Global) => return crate::vcpus::vcpus(args),
        Some(Inside::One(_)) if args.vcpus.is_some() => {
            return Err(Failure::input("--vcpus goes with --scheduler global-edf only"))
        }
        Some(Inside::One(scheduler)) => scheduler,
        None => return Err(Failure::input("expected --scheduler rm, dm, edf or global-edf")),
    };
    if args.deadline.is_some() && family(args) != Family::ExplicitDeadline {
        return Err(Failure::input("--deadline goes with --supply edp, where budgets have one"));
    }
    let answer = question(args, scheduler, most).answer()?;
    if args.json {
        return json(&answer);
    }
    let Answer { interface, sensitivity } = &answer;
    let tasks = giusto_answers::named(&args.tasks);
    print(&table(&rows(interface), 3))?;
    say!("{}", proof(&interface.certificate, &tasks));
    if let Some(limits) = sensitivity {
        print(&table(&slack(&tasks, limits), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the flags ask for.
pub(crate) fn question(args: &InterfaceArgs, scheduler: Scheduler, most: Option<Duration>) -> Question {
    Question {
        tasks: args.tasks.clone(),
        scheduler,
        supply: family(args),
        quantum: args.quantum,
        period: args.period,
        deadline: args.deadline,
        preemption: args.overhead,
        latency: args.latency,
        sensitivity: args.sensitivity,
        most,
    }
}

fn family(args: &InterfaceArgs) -> Family {
    match args.supply {
        Supply::General => Family::General,
        Supply::Aligned => Family::Aligned,
        Supply::Edp => Family::ExplicitDeadline,
    }
}

/// What breaks first is at the top.
pub(crate) fn slack(tasks: &[Task], limits: &[Limit]) -> Vec<Vec<String>> {
    let words = |what| match what {
        What::Wcet => "longest wcet",
        What::Period => "shortest period",
        What::Deadline => "shortest deadline",
        What::Latency => "longest latency of the host",
        What::Budget => "least budget",
        What::ServerPeriod => "longest server period",
    };
    let head = ["breaks first", "of", "now", "at the limit", "slack"].map(String::from).to_vec();
    let row = |limit: &Limit| {
        let of = limit.task.map_or(String::new(), |task| tasks[task].name.clone());
        let limit_text = if limit.exact { limit.limit.to_string() } else { format!("at least {}", limit.limit) };
        vec![words(limit.what).into(), of, limit.now.to_string(), limit_text, percent(limit.slack)]
    };
    std::iter::once(head).chain(limits.iter().map(row)).collect()
}

fn rows(found: &Interface) -> Vec<Vec<String>> {
    let time = |time: Duration| format!("{time:.3}");
    let row = |name: &str, value: String, note: String| vec![name.to_string(), value, note];
    let is_least = found.at_least == found.bandwidth;
    let searched = match found.searched {
        Some(_) if !is_least => format!("nearly the least in steps of {} of all periods", found.quantum),
        None if !is_least => format!("nearly the least in steps of {} for this period", found.quantum),
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
    if let Some(gap) = found.bandwidth.checked_sub(found.at_least).filter(|gap| *gap > Bandwidth::ZERO) {
        let note = format!(
            "at most {:.1e} points of a core less, where a budget so close to U takes too long to be decided: --for longer, or a \
             coarser --quantum",
            100.0 * gap.as_f64()
        );
        rows.push(row("not below", found.at_least.to_string(), note));
    }
    rows
}

/// The comparison that decides: where least is left over.
pub(crate) fn proof(certificate: &Certificate, tasks: &[Task]) -> String {
    let least = certificate.points.iter().min_by_key(|point| point.supply.ns().saturating_sub(point.demand.ns()));
    let Some(point) = least else {
        return "proof: no deadline comes before the time from which supply is ahead of demand".into();
    };
    let who = point.task.map_or(String::new(), |task| format!(" by {} and those above it", tasks[task].name));
    format!(
        "proof: {} comparison{} of demand and supply; the closest: in {} at most {} are asked for{who}, and {} supplied",
        certificate.points.len(),
        if certificate.points.len() == 1 { "" } else { "s" },
        point.at,
        point.demand,
        point.supply
    )
}
