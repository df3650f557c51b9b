//! `giusto analyze`.

use crate::args::{Releases, ShareArgs};
use crate::failure::Failure;
use crate::table;
use giusto_analysis::interface::{Point, Shortfall};
use giusto_analysis::share::{self, Wanted};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Release, Task};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// The tasks of the command line, named after their places.
pub(crate) fn named(tasks: &[Task]) -> Vec<Task> {
    let named = |(place, task): (usize, &Task)| Task { name: format!("task{}", place + 1), ..task.clone() };
    tasks.iter().enumerate().map(named).collect()
}

/// The witness that `resource` is not enough for `tasks`.
pub(crate) fn falls_short(tasks: &[Task], resource: &str, shortfall: &Shortfall) -> Failure {
    let Shortfall { point: Point { at, demand, supply, .. }, task } = shortfall;
    let name = &tasks[*task].name;
    Failure::does_not_fit(format!(
        "{resource} is not enough: '{name}' can miss its deadline, as in {at} up to {demand} of work are asked for, and as \
         little as {supply} is supplied"
    ))
}

/// `giusto analyze share`
pub(crate) fn share(args: &ShareArgs) -> Result<ExitCode, Failure> {
    let mut tasks = named(&args.tasks);
    let kept = match args.releases {
        Some(releases) => releases == Releases::Kept,
        None => tasks.iter().any(|task| task.release == Release::KeptOffset),
    };
    for task in &mut tasks {
        task.release = if kept { Release::KeptOffset } else { Release::Sporadic };
    }
    let wanted = match (args.period, args.max_period) {
        (Some(period), _) => Wanted::Exactly(period),
        (None, Some(longest)) => Wanted::AtMost(longest),
        (None, None) => Wanted::Hyperperiod,
    };
    let answer = share::share(&tasks, wanted, args.margin, Bandwidth::ZERO).map_err(|error| match error {
        Error::Overload { .. } => Failure::does_not_fit(error),
        _ => Failure::input(error),
    })?;
    if args.json {
        return table::json(&answer);
    }
    let hold = |hold: Option<Duration>| hold.map_or("for ever".to_string(), |d| format!("{d:.3}"));
    let row = |name: &str, value: String, note: &str| vec![name.to_string(), value, note.to_string()];
    let mut rows = vec![
        row("utilization", percent(answer.utilization), &format!("U = {}", answer.utilization)),
        row("hyperperiod", format!("{:.3}", answer.hyperperiod), ""),
        row("server", format!("{:.3} every {:.3}", answer.budget, answer.period), ""),
        row("bandwidth", percent(answer.bandwidth), &format!("W = {} [LiH21, Theorem 2 and § 3.2]", answer.bandwidth)),
        row("holds the core", hold(answer.hold.conforming), "at most, while the tasks keep to their parameters"),
        row("", hold(answer.hold.enforced), "at most, whatever they do (2B)"),
    ];
    match &answer.with_margin {
        Some(with) => rows.push(row(
            "in practice",
            format!("{:.3} every {:.3}", with.budget, answer.period),
            &format!(
                "{} with a margin of {}; {} left for others",
                percent(with.bandwidth),
                percent(with.margin),
                percent(with.left_for_others.unwrap_or(Bandwidth::ZERO))
            ),
        )),
        None => rows.push(row("in practice", "a whole core".into(), "the margin does not fit beside the bandwidth")),
    }
    table::print(&table::table(&rows, 3))?;
    Ok(ExitCode::SUCCESS)
}
