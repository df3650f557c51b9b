//! `giusto analyze admission`.

use crate::args::AdmissionArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::admission::{
    admit, admit_global, place, sensitivity, Admitted, Density, Fit, Grids, Known, OnAll, Order, PlacementRefusal,
    Refused, Room,
};
use giusto_model::{Bandwidth, Duration, Server, ServerKind};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints (`formats/admission.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    scheduler: Order,
    grids: Grids,
    capacity: Bandwidth,
    /// That all share; `None`: one.
    cores: Option<u32>,
    /// How they were placed core by core.
    fit: Option<Fit>,
    servers: &'a [Server],
    /// They fit; else why not.
    admitted: Option<&'a Fits>,
    refused: Option<&'a Not>,
    /// With --sensitivity, of what fits.
    sensitivity: Option<&'a [Room]>,
}

/// That they fit.
#[derive(Serialize)]
#[serde(untagged)]
enum Fits {
    One(Admitted),
    Shared(OnAll),
    Placed { cores: Vec<usize> },
}

/// That they do not, or that it is not known.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Not {
    Unplaced(PlacementRefusal),
    #[serde(untagged)]
    Together(Refused),
}

/// `giusto analyze admission`: 0 they fit, 1 they do not.
pub(crate) fn admission(args: &AdmissionArgs) -> Result<ExitCode, Failure> {
    let (scheduler, servers, capacity) = (args.scheduler.into(), &args.servers, args.capacity);
    let grids = if args.aligned { Grids::Aligned } else { Grids::Apart };
    let fit = args.fit.map(Fit::from);
    let found = match (args.cores, fit) {
        (None, _) => {
            admit(servers, scheduler, grids, capacity).map(|found| found.map(Fits::One).map_err(Not::Together))
        }
        (Some(cores), None) => admit_global(servers, scheduler, cores, capacity)
            .map(|found| found.map(Fits::Shared).map_err(Not::Together)),
        (Some(cores), Some(fit)) => place(servers, scheduler, grids, capacity, cores, fit)
            .map(|found| found.map(|cores| Fits::Placed { cores }).map_err(Not::Unplaced)),
    };
    let found = found.map_err(Failure::input)?;
    let rooms = match (&found, args.sensitivity) {
        (Ok(_), true) => sensitivity(servers, scheduler, grids, capacity).map_err(Failure::input)?.ok(),
        _ => None,
    };
    if args.json {
        let (admitted, refused) = (found.as_ref().ok(), found.as_ref().err());
        let sensitivity = rooms.as_deref();
        let cores = args.cores;
        json(&Answer { scheduler, grids, capacity, cores, fit, servers, admitted, refused, sensitivity })?;
        return Ok(ExitCode::from(u8::from(found.is_err())));
    }
    let admitted = found.map_err(|why| refused(args, &why, scheduler, grids))?;
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
    if let Some(rooms) = rooms {
        print(&table(&room(servers, &rooms), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why not, and what to change.
fn refused(args: &AdmissionArgs, why: &Not, scheduler: Order, grids: Grids) -> Failure {
    const LESS: &str = "give less budget or a longer period";
    match why {
        Not::Together(refused) if args.cores.is_some() => Failure::does_not_fit(format!(
            "refused: {refused}; place servers core by core (--fit first), make them periodic_strict or polling, give more \
             cores, or {LESS}"
        )),
        Not::Together(refused) => {
            let strict = |server: &Server| Server { kind: ServerKind::PeriodicStrict, ..*server };
            let periodic: Vec<Server> = args.servers.iter().map(strict).collect();
            let kinds = match admit(&periodic, scheduler, grids, args.capacity) {
                Ok(Ok(_)) => "make them periodic_strict or polling, as which they would fit, or ",
                _ => "",
            };
            Failure::does_not_fit(format!("refused: {refused}; {kinds}{LESS}"))
        }
        Not::Unplaced(PlacementRefusal { server, refused }) => {
            let why = |(core, why): (usize, &Refused)| format!("core {core}: {why}");
            let cores: Vec<String> = refused.iter().enumerate().map(why).collect();
            let cores = cores.join("; ");
            Failure::does_not_fit(format!("refused: no core has room for server {}; {cores}; {LESS}", server + 1))
        }
    }
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
