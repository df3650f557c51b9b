//! The page of `giusto simulate --html`: its rows, their distributions, and the beginning of the schedule.

use crate::failure::Failure;
use giusto_answers::simulated::Row;
use giusto_answers::simulated_path::PathRow;
use giusto_model::Plan;
use giusto_simulator::{Lane, Stats, Timeline};
use serde::Serialize;
use std::path::Path;

/// Of the whole page: some 10 MB.
const DRAWN: usize = 200_000;
/// Of one service: more is no page, but a trace.
const MOST: usize = 20_000;

#[derive(Serialize)]
struct Simulation<'a> {
    plan: serde_json::Value,
    conditions: &'a str,
    services: Vec<Service<'a>>,
    paths: Vec<OfPath<'a>>,
    timeline: Drawn<'a>,
}

#[derive(Serialize)]
struct Service<'a> {
    #[serde(flatten)]
    row: &'a Row,
    /// Under the server that the plan has, not one to compare with.
    is_planned: bool,
    /// Share of a core that it had.
    taken: Option<f64>,
    /// How many jobs were longer than the entry before, and at most as long as this one, in ns.
    lengths: Vec<(u64, f64)>,
}

#[derive(Serialize)]
struct OfPath<'a> {
    #[serde(flatten)]
    row: &'a PathRow,
    /// Share of a core that each stage had, in order.
    taken: Vec<f64>,
    lengths: Vec<(u64, f64)>,
}

#[derive(Serialize)]
struct Drawn<'a> {
    length_ns: u64,
    /// Until when everything was kept, where that is not the whole.
    until_ns: Option<u64>,
    cores: Vec<Core<'a>>,
}

#[derive(Serialize)]
struct Core<'a> {
    core: &'a str,
    lanes: &'a [Lane],
}

/// What keeps the schedules of so many plays for the page.
pub(crate) fn timeline(plays: usize) -> Timeline {
    Timeline::new((DRAWN / plays.max(1)).clamp(100, MOST))
}

/// Writes the page of what was `drawn` of these services in `horizon_ns`; `conditions` are those of the simulation, in words.
pub(crate) fn write<'a>(
    to: &Path,
    (plan, rows, paths): (&Plan, &'a [Row], &'a [PathRow]),
    (drawn, timeline): (&'a [Vec<String>], &'a Timeline),
    (conditions, horizon_ns): (&str, u64),
) -> Result<(), Failure> {
    let text = giusto_planner::text(plan).map_err(Failure::running)?;
    let share = |stats: &Stats, seeds: usize| stats.consumed.ns() as f64 / (horizon_ns as f64 * seeds as f64);
    let services = rows.iter().enumerate().map(|(nth, row)| Service {
        row,
        is_planned: !rows[..nth].iter().any(|before| before.is_same_part(row)),
        taken: row.stats.as_ref().map(|stats| share(stats, row.seeds)),
        lengths: row.stats.as_ref().map(lengths).unwrap_or_default(),
    });
    let until_ns = timeline.plays().iter().filter_map(|play| play.until).min();
    let of_path = |row: &'a PathRow| {
        let PathRow { whole, stages, seeds, .. } = row;
        OfPath { row, taken: stages.iter().map(|(_, stats)| share(stats, *seeds)).collect(), lengths: lengths(whole) }
    };
    // Lanes of a core are beside each other.
    let one = |(core, lane): (&'a String, &'a Lane)| Core { core, lanes: std::slice::from_ref(lane) };
    let cores = drawn.iter().zip(timeline.plays()).flat_map(|(cores, play)| cores.iter().zip(&play.lanes).map(one));
    let simulation = Simulation {
        plan: serde_json::from_str(&text).map_err(Failure::running)?,
        conditions,
        services: services.collect(),
        paths: paths.iter().map(of_path).collect(),
        timeline: Drawn { length_ns: horizon_ns, until_ns, cores: cores.collect() },
    };
    let text = serde_json::to_string(&simulation).map_err(Failure::running)?;
    crate::report::write(to, &giusto_daemon::simulation_page(&text))
}

/// Its distribution in steps of an eighth of a decade of what is longer, and the longest.
fn lengths(stats: &Stats) -> Vec<(u64, f64)> {
    let jobs = stats.jobs() as f64;
    let mut longer: Vec<f64> = (1..20).map(|nth| 1.0 - f64::from(nth) / 20.0).collect();
    longer.extend((11..).map(|nth| 10f64.powf(-f64::from(nth) / 8.0)).take_while(|longer| longer * jobs >= 1.0));
    longer.push(0.0);
    let mut before = 1.0;
    let steps = longer.into_iter().map(|longer| {
        let many = (std::mem::replace(&mut before, longer) - longer) * jobs;
        (stats.percentile(100.0 * (1.0 - longer)).ns(), many)
    });
    steps.filter(|_| jobs > 0.0).collect()
}
