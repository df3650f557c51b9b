//! `giusto analyze criticality`.

use crate::args::CriticalityArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::criticality::{Interval, Level, Slack, Utilizations};
use giusto_answers::criticality::{name, Answer, Core, Placed, Question, Told};
use giusto_model::Duration;
use giusto_planner::share as percent;
use std::process::ExitCode;

/// `giusto analyze criticality`: 0 they go together, or find cores, 1 they do not.
pub(crate) fn criticality(args: &CriticalityArgs) -> Result<ExitCode, Failure> {
    let question = Question { vms: args.vms.clone(), capacity: args.capacity, cores: args.cores };
    let answer = question.answer()?;
    if args.json {
        json(&answer)?;
        return Ok(ExitCode::from(u8::from(!answer.schedulable)));
    }
    if !answer.schedulable {
        return Err(question.refused(&answer).into());
    }
    print(&rows(&answer.vms))?;
    match (&answer.placement, args.cores) {
        (Some(placement), Some(cores)) => placed(placement, cores)?,
        _ => {
            say!("{}", core(&answer));
            if let Some(grown) = &answer.robustness {
                say!(
                    "with this x each alone may grow: U1(1) by {}, U2(1) by {}, U2(2) by {}",
                    grown.u1_1.percent(),
                    grown.u2_1.percent(),
                    grown.u2_2.percent()
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was found of one core.
fn core(answer: &Answer) -> String {
    let sums = answer.utilizations.as_ref().map_or(String::new(), |of| {
        let Utilizations { u1_1, u2_1, u2_2 } = of;
        format!("U1(1) = {u1_1}, U2(1) = {u2_1}, U2(2) = {u2_2} of {}", percent(answer.capacity))
    });
    let how = match (&answer.interval, answer.x) {
        (Some(Interval { from, to }), Some(x)) => {
            format!("EDF with virtual deadlines, x = {x} (from {from} to {to} would do)")
        }
        _ => "plain EDF has room for all at their worst, x = 1".into(),
    };
    let spare = answer.slack.as_ref().map_or(String::new(), |Slack { usual, worst }| {
        format!("; to spare {} in LO mode, {} in HI mode", usual.percent(), worst.percent())
    });
    format!("{sums}: {how}{spare}")
}

fn rows(all: &[Told]) -> String {
    let time = |time: Option<Duration>| time.map_or("-".into(), |time| format!("{time:.3}"));
    let head =
        ["VM", "criticality", "core", "budget", "worst", "period", "virtual deadline", "most budget", "most worst"];
    let row = |(place, one): (usize, &Told)| {
        let level = if one.level == Level::High { "high" } else { "low" };
        let core = one.core.map_or("none".into(), |core| core.to_string());
        let head = [(place + 1).to_string(), level.into(), core];
        let times = [Some(one.optimistic_ns), one.worst_ns, Some(one.period_ns), one.virtual_deadline_ns];
        let room = one.room.map_or([None, None], |room| [room.most_optimistic, room.most_worst]);
        head.into_iter().chain(times.into_iter().chain(room).map(time)).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(String::from).to_vec()).chain(all.iter().enumerate().map(row)).collect();
    table(&rows, 2)
}

/// First-fit, and what best-fit and worst-fit would do.
fn placed(placement: &[Placed], cores: u32) -> Result<(), Failure> {
    for way in placement {
        let lines = match (&way.cores, way.idle) {
            (Some(each), Some(idle)) => {
                let core = |core: &Core| {
                    let vms: Vec<String> = core.vms.iter().map(|vm| (vm + 1).to_string()).collect();
                    if vms.is_empty() {
                        "idle".into()
                    } else {
                        format!("{} (x = {})", vms.join(" "), core.x)
                    }
                };
                format!("{idle} of {cores} cores idle: {}", each.iter().map(core).collect::<Vec<_>>().join(" | "))
            }
            _ => format!("no core for VM {}", way.unplaced.map_or(0, |vm| vm + 1)),
        };
        say!("{:9}  {lines}", name(way.fit));
    }
    Ok(())
}
