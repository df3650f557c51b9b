//! `giusto analyze plane`.

use crate::args::PlaneArgs;
use crate::failure::{create, Failure};
use crate::table::{json, print, say, table};
use giusto_analysis::interface::plane::{plane as boundary, Piece, Plane};
use giusto_model::{Bandwidth, Duration, Interface};
use giusto_planner::share as percent;
use num_rational::Ratio;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// What `--json` prints (`formats/plane.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    plane: &'a Plane,
    server: Option<Server>,
}

/// The server of the period that was asked for.
#[derive(Clone, Copy, Serialize)]
struct Server {
    #[serde(flatten)]
    interface: Interface,
    bandwidth: Bandwidth,
    /// Δ = 2(Π − Θ)
    delay_ns: u128,
}

/// `giusto analyze plane`
pub(crate) fn plane(args: &PlaneArgs) -> Result<ExitCode, Failure> {
    let tasks = crate::analyze::named(&args.tasks);
    let plane = boundary(&tasks, args.scheduler, args.from)
        .map_err(Failure::input)?
        .map_err(|shortfall| crate::analyze::falls_short(&tasks, "a whole core", &shortfall))?;
    let server = args.period.map(|period| server(&plane, period, args.quantum)).transpose()?;
    if let Some(path) = &args.plot {
        let drawing = giusto_verify::plane_svg(&plane, server.map(|server| server.interface));
        let cannot = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
        let mut file = create(path)?;
        file.write_all(drawing.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
    }
    if args.json {
        return json(&Answer { plane: &plane, server });
    }
    let head = ["from", "to", "delay at most", "", "because of"].map(str::to_string).to_vec();
    let delay = |share| plane.delay(share).map_or(String::new(), words);
    let row = |piece: &Piece| {
        let task = piece.task.map_or(String::new(), |place| format!(" by {}", tasks[place].name));
        let why = format!("{} asked for in {}{task}", piece.demand, piece.at);
        vec![percent(piece.from), percent(piece.to), delay(piece.from), format!("to {}", delay(piece.to)), why]
    };
    print(&table(&std::iter::once(head).chain(plane.pieces.iter().map(row)).collect::<Vec<_>>(), 5))?;
    if let Some(Server { interface: Interface { budget, period }, bandwidth, delay_ns }) = server {
        let delay = words(Ratio::from(delay_ns));
        say!("server: {budget:.3} every {period:.3}, a bandwidth of {} with a delay of {delay}", percent(bandwidth));
    }
    Ok(ExitCode::SUCCESS)
}

fn server(plane: &Plane, period: Duration, quantum: Duration) -> Result<Server, Failure> {
    let budget = plane.least_budget(period, quantum).map_err(Failure::input)?.ok_or_else(|| {
        let fit = "a whole core is: take a period that is a multiple of it";
        Failure::does_not_fit(format!("no whole number of {quantum} within {period} is enough, and {fit}"))
    })?;
    let interface = Interface { budget, period };
    let delay_ns = 2 * u128::from(period.ns() - budget.ns());
    Ok(Server { interface, bandwidth: interface.bandwidth(), delay_ns })
}

/// A time that may be a fraction of a ns, rounded down: as a delay it is allowed.
fn words(time: Ratio<u128>) -> String {
    u64::try_from(time.to_integer()).map_or("584 years".into(), |ns| format!("{:.3}", Duration::from_ns(ns)))
}
