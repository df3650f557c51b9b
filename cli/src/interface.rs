//! `giusto analyze interface`.

use crate::args::{Inside, InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::interface::sensitivity::{sensitivity, Limit, What};
use giusto_analysis::interface::{default_quantum, interface_with as cheapest_with, interface_with_deadline};
use giusto_analysis::interface::{Certificate, Family, Interface, Question, Refusal, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Task};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

/// What `--json` prints (`formats/interface.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    interface: &'a Interface,
    /// With --sensitivity: how far each number may be off, what breaks first at the front.
    sensitivity: Option<Vec<Limit>>,
}

/// An interface that is not known to be the least is looked for again with so many times as many steps.
const MORE: u32 = 8;
/// For so long where no time is given.
const SOON: Duration = Duration::from_secs(1);

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
    let tasks = crate::analyze::named(&args.tasks);
    let question = question(args, &tasks, scheduler, args.period);
    let found = match args.deadline {
        Some(_) if question.supply != Family::ExplicitDeadline => {
            return Err(Failure::input("--deadline goes with --supply edp, where budgets have one"))
        }
        Some(deadline) => interface_with_deadline(&tasks, &question, deadline).map_err(Failure::input)?,
        None => in_time(&tasks, &question, most.unwrap_or(SOON))?,
    };
    let found = found.map_err(|refusal| refused(&tasks, &refusal))?;
    let limits = if args.sensitivity { Some(limits(&tasks, &found)?) } else { None };
    if args.json {
        return json(&Answer { interface: &found, sensitivity: limits });
    }
    print(&table(&rows(&found), 3))?;
    say!("{}", proof(&found.certificate, &tasks));
    if let Some(limits) = limits {
        print(&table(&slack(&tasks, &limits), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cheapest interface, looked for with more and more steps until it is the least for sure, or the next search could last
/// longer than `most`.
fn in_time(tasks: &[Task], question: &Question, most: Duration) -> Result<Result<Interface, Refusal>, Failure> {
    let begin = Instant::now();
    let mut effort = 1;
    let mut best = None;
    loop {
        let before = begin.elapsed();
        let found = match (cheapest_with(tasks, question, effort), best) {
            (Ok(found), _) => found,
            // What is nearer to U takes too long to prove.
            (Err(Error::TooClose), Some(before)) => return Ok(before),
            (Err(error), _) => return Err(Failure::input(error)),
        };
        let is_least = found.as_ref().map_or(true, |found| found.at_least == found.bandwidth);
        let last = begin.elapsed() - before;
        if is_least || (begin.elapsed() + last * MORE).as_nanos() > u128::from(most.ns()) {
            return Ok(found);
        }
        best = Some(found);
        effort = effort.saturating_mul(MORE);
    }
}

/// What the flags ask for `tasks`.
pub(crate) fn question(
    args: &InterfaceArgs,
    tasks: &[Task],
    scheduler: Scheduler,
    period: Option<Duration>,
) -> Question {
    Question {
        scheduler,
        supply: match args.supply {
            Supply::General => Family::General,
            Supply::Aligned => Family::Aligned,
            Supply::Edp => Family::ExplicitDeadline,
        },
        quantum: args.quantum.unwrap_or_else(|| default_quantum(tasks)),
        period,
        preemption: args.overhead,
        latency: args.latency,
    }
}

/// How far each number may be off, with what preemptions cost in the execution times.
fn limits(tasks: &[Task], found: &Interface) -> Result<Vec<Limit>, Failure> {
    let cost = |task: &Task| Some(Task { wcet: task.wcet.checked_add(found.preemption)?, ..task.clone() });
    let tasks: Vec<Task> = tasks.iter().map(cost).collect::<Option<_>>().ok_or_else(|| Failure::input("too long"))?;
    let Certificate { scheduler, resource, latency, .. } = &found.certificate;
    let limits = sensitivity(&tasks, *scheduler, resource, *latency).map_err(Failure::input)?;
    limits.map_err(|shortfall| crate::analyze::falls_short(&tasks, "the interface", &shortfall))
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

pub(crate) fn refused(tasks: &[Task], refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::Overload(load) => Failure::does_not_fit(format!(
            "the tasks need {} of a core and one core gives 100 %: run less, or less often",
            load.percent()
        )),
        Refusal::Short { shortfall, .. } => crate::analyze::falls_short(tasks, "a whole core", shortfall),
    }
}
