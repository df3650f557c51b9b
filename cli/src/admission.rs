//! `giusto analyze admission`.

use crate::args::AdmissionArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::admission::{Admitted, Density, Fit, Grids, Known, OnAll, Room};
use giusto_answers::admission::{Fits, Question};
use giusto_model::{Duration, Server};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// `giusto analyze admission`: 0 they fit, 1 they do not.
pub(crate) fn admission(args: &AdmissionArgs) -> Result<ExitCode, Failure> {
    let (servers, capacity) = (&args.servers, args.capacity);
    let question = Question {
        servers: servers.clone(),
        scheduler: args.scheduler.into(),
        grids: if args.aligned { Grids::Aligned } else { Grids::Apart },
        capacity,
        cores: args.cores,
        fit: args.fit.map(Fit::from),
        sensitivity: args.sensitivity,
    };
    let answer = question.answer()?;
    if args.json {
        json(&answer)?;
        return Ok(ExitCode::from(u8::from(answer.refused.is_some())));
    }
    if let Some(why) = &answer.refused {
        return Err(question.refused(why).into());
    }
    let Some(admitted) = answer.admitted else { return Ok(ExitCode::SUCCESS) };
    print(&table(&rows(servers, &admitted), 2))?;
    let all = servers.iter().map(|server| server.bandwidth().as_f64()).sum::<f64>();
    let may = f64::from(args.cores.unwrap_or(1)) * capacity.as_f64();
    say!("admitted: all together take {:.1} % of the {:.1} % that they may", 100.0 * all, 100.0 * may);
    match &admitted {
        Fits::One(Admitted { until: Some(until), .. }) => {
            say!(
                "proof: no window up to {until} has more asked for than its length, and no longer one can be the first"
            );
        }
        Fits::Shared(OnAll { by: Known::Density(Density { demand, supply }), .. }) => {
            say!("proof: {} is at most the {} that fit beside the largest", percent(*demand), percent(*supply));
        }
        Fits::Shared(OnAll { by: Known::OneEach, .. }) => say!("proof: there is a core for each"),
        _ => {}
    }
    if let Some(rooms) = answer.sensitivity {
        print(&table(&room(servers, &rooms), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(servers: &[Server], admitted: &Fits) -> Vec<Vec<String>> {
    let mut rows = vec![["server", "kind", "budget", "period", "bandwidth"].map(String::from).to_vec()];
    rows.extend(servers.iter().enumerate().map(|(place, server)| {
        let Server { kind, budget, period } = server;
        let number = (place + 1).to_string();
        vec![number, kind.to_string(), format!("{budget:.3}"), format!("{period:.3}"), percent(server.bandwidth())]
    }));
    let mut more = |head: &str, cells: Vec<String>| {
        rows[0].push(head.into());
        rows[1..].iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    };
    let times = |times: &[Duration]| times.iter().map(|time| format!("{time:.3}")).collect();
    match admitted {
        Fits::One(Admitted { responses: Some(responses), .. }) => more("has it within", times(responses)),
        Fits::Shared(OnAll { by: Known::Responses(responses), .. }) => more("has it within", times(responses)),
        Fits::Shared(OnAll { by: Known::Slacks(slacks), .. }) => more("so long before its period ends", times(slacks)),
        Fits::Placed { cores } => more("core", cores.iter().map(usize::to_string).collect()),
        _ => {}
    }
    rows
}

/// What breaks first is at the top.
fn room(servers: &[Server], rooms: &[Room]) -> Vec<Vec<String>> {
    let head = ["tightest", "kind", "most budget", "least period", "slack"].map(String::from).to_vec();
    let row = |room: &Room| {
        let about = if room.exact { "" } else { "at least " };
        vec![
            (room.server + 1).to_string(),
            servers[room.server].kind.to_string(),
            room.most_budget.to_string(),
            room.least_period.to_string(),
            format!("{about}{}", percent(room.slack)),
        ]
    };
    std::iter::once(head).chain(rooms.iter().map(row)).collect()
}
