//! `giusto analyze`.

use crate::args::{Releases, ShareArgs};
use crate::failure::Failure;
use crate::table;
use giusto_analysis::share::Wanted;
use giusto_answers::share;
use giusto_model::{Bandwidth, Duration};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// `giusto analyze share`
pub(crate) fn share(args: &ShareArgs) -> Result<ExitCode, Failure> {
    let releases = args.releases.map(|releases| match releases {
        Releases::Kept => share::Releases::Kept,
        Releases::Sporadic => share::Releases::Sporadic,
    });
    let wanted = match (args.period, args.max_period) {
        (Some(period), _) => Wanted::Exactly(period),
        (None, Some(longest)) => Wanted::AtMost(longest),
        (None, None) => Wanted::Hyperperiod,
    };
    let question = share::Question { tasks: args.tasks.clone(), releases, wanted, margin: args.margin };
    let answer = question.answer()?;
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
