//! `giusto analyze admission`.

use crate::args::AdmissionArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::admission::{admit, sensitivity, Admitted, Grids, Order, Refused, Room};
use giusto_model::{Bandwidth, Server, ServerKind};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints (`formats/admission.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    scheduler: Order,
    grids: Grids,
    capacity: Bandwidth,
    servers: &'a [Server],
    /// They fit; else why not.
    admitted: Option<&'a Admitted>,
    refused: Option<&'a Refused>,
    /// With --sensitivity, of what fits.
    sensitivity: Option<&'a [Room]>,
}

/// `giusto analyze admission`: 0 they fit, 1 they do not.
pub(crate) fn admission(args: &AdmissionArgs) -> Result<ExitCode, Failure> {
    let (scheduler, servers, capacity) = (args.scheduler.into(), &args.servers, args.capacity);
    let grids = if args.aligned { Grids::Aligned } else { Grids::Apart };
    let found = admit(servers, scheduler, grids, capacity).map_err(Failure::input)?;
    let rooms = match (&found, args.sensitivity) {
        (Ok(_), true) => sensitivity(servers, scheduler, grids, capacity).map_err(Failure::input)?.ok(),
        _ => None,
    };
    if args.json {
        let (admitted, refused) = (found.as_ref().ok(), found.as_ref().err());
        json(&Answer { scheduler, grids, capacity, servers, admitted, refused, sensitivity: rooms.as_deref() })?;
        return Ok(ExitCode::from(u8::from(found.is_err())));
    }
    let admitted = found.map_err(|refused| {
        let periodic: Vec<Server> =
            servers.iter().map(|server| Server { kind: ServerKind::PeriodicStrict, ..*server }).collect();
        let kinds = match admit(&periodic, scheduler, grids, capacity) {
            Ok(Ok(_)) => "make them periodic_strict or polling, as which they would fit, or ",
            _ => "",
        };
        Failure::does_not_fit(format!("refused: {refused}; {kinds}give less budget or a longer period"))
    })?;
    print(&table(&rows(servers, &admitted), 2))?;
    say!("admitted: all together take {} of the {} that they may", percent(admitted.bandwidth), percent(capacity));
    if let Some(until) = admitted.until {
        say!("proof: no window up to {until} has more asked for than its length, and no longer one can be the first");
    }
    if let Some(rooms) = rooms {
        print(&table(&room(servers, &rooms), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(servers: &[Server], admitted: &Admitted) -> Vec<Vec<String>> {
    let mut rows = vec![["server", "kind", "budget", "period", "bandwidth"].map(String::from).to_vec()];
    rows.extend(servers.iter().enumerate().map(|(place, server)| {
        let Server { kind, budget, period } = server;
        let number = (place + 1).to_string();
        vec![number, kind.to_string(), format!("{budget:.3}"), format!("{period:.3}"), percent(server.bandwidth())]
    }));
    if let Some(responses) = &admitted.responses {
        rows[0].push("has it within".into());
        rows[1..].iter_mut().zip(responses).for_each(|(row, response)| row.push(format!("{response:.3}")));
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
