//! `giusto analyze plane`.

use crate::args::PlaneArgs;
use crate::failure::{create, Failure};
use crate::table::{json, print, say, table};
use giusto_analysis::interface::plane::Piece;
use giusto_answers::plane::{Question, Server};
use giusto_model::{Duration, Interface};
use giusto_planner::share as percent;
use num_rational::Ratio;
use std::io::Write;
use std::process::ExitCode;

/// `giusto analyze plane`
pub(crate) fn plane(args: &PlaneArgs) -> Result<ExitCode, Failure> {
    let PlaneArgs { scheduler, from, period, quantum, .. } = *args;
    let tasks = giusto_answers::named(&args.tasks);
    let answer = Question { tasks: tasks.clone(), scheduler, from, period, quantum }.answer()?;
    let plane = &answer.plane;
    if let Some(path) = &args.plot {
        let drawing = giusto_verify::plane_svg(plane, answer.server.map(|server| server.interface));
        let cannot = |error| Failure::running(format!("cannot write {}: {error}", path.display()));
        let mut file = create(path)?;
        file.write_all(drawing.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
    }
    if args.json {
        return json(&answer);
    }
    let head = ["from", "to", "delay at most", "", "because of"].map(str::to_string).to_vec();
    let delay = |share| plane.delay(share).map_or(String::new(), words);
    let row = |piece: &Piece| {
        let task = piece.task.map_or(String::new(), |place| format!(" by {}", tasks[place].name));
        let why = format!("{} asked for in {}{task}", piece.demand, piece.at);
        vec![percent(piece.from), percent(piece.to), delay(piece.from), format!("to {}", delay(piece.to)), why]
    };
    print(&table(&std::iter::once(head).chain(plane.pieces.iter().map(row)).collect::<Vec<_>>(), 5))?;
    if let Some(Server { interface: Interface { budget, period }, bandwidth, delay_ns }) = answer.server {
        let delay = words(Ratio::from(delay_ns));
        say!("server: {budget:.3} every {period:.3}, a bandwidth of {} with a delay of {delay}", percent(bandwidth));
    }
    Ok(ExitCode::SUCCESS)
}

/// A time that may be a fraction of a ns, rounded down: as a delay it is allowed.
fn words(time: Ratio<u128>) -> String {
    u64::try_from(time.to_integer()).map_or("584 years".into(), |ns| format!("{:.3}", Duration::from_ns(ns)))
}
