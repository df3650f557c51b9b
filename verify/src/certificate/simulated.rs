//! Paths whose promise simulation decided (docs/decisions/0066): that runs of this check's own do not say the opposite.

use super::broken::Broken;
use super::route::{Server, Stage};
use giusto_model::{Duration, Interface, PathPlan, PathSource, Plan, SimulatedPath};
use giusto_simulator::{play_alone, Alone, AloneRun};
use rayon::prelude::*;

/// Runs, each of so many messages that count.
const RUNS: usize = 256;
const COUNTED: usize = 200;
/// So many standard errors beyond what may be late, runs are no chance.
const ERRORS: f64 = 4.0;
/// Runs of this check, not of the planner.
const SEED: u64 = 0x5eed_c4ec;

/// Messages that were simulated: none where a stage is on a host that the plan is not for.
pub(super) fn check(
    plan: &Plan,
    (path, simulated): (&PathPlan, &SimulatedPath),
    stages: &[Stage],
) -> Result<u64, Broken> {
    let PathSource::Poisson(rate) = path.source else {
        return Err(Broken::new("messages at random, where simulation decides", "some", path.source));
    };
    let alone = plan.paths.iter().filter(|other| other.services().any(|one| path.services().any(|own| own == one)));
    if alone.count() != 1 {
        return Err(Broken::new("a path alone, where simulation decides", "no services of others", "some"));
    }
    let SimulatedPath { runs, messages, late_ppb, risk_ppm, .. } = simulated;
    if *runs == 0 || *messages < u64::from(*runs) || late_ppb.len() != path.points.len() || *risk_ppm == 0 {
        return Err(Broken::new("runs with messages, and how many of them were late", "some", runs));
    }
    for (point, late) in path.points.iter().zip(late_ppb) {
        let most = (100_000 - point.percentile.thousandths()) * 10_000;
        if *late >= most || point.at > point.within || !point.parts.is_empty() || !point.meets.is_empty() {
            return Err(Broken::new(format!("billionths beyond {}, fewer than", point.percentile), most, late));
        }
    }
    if stages.iter().any(|stage| matches!(stage, Stage::Elsewhere)) {
        return Ok(0);
    }
    let alone = |server: &Server| {
        let server_of =
            Interface { budget: Duration::from_ns(server.budget), period: Duration::from_ns(server.period) };
        let late = Duration::from_ns(server.latency.saturating_add(server.period));
        (server_of, late)
    };
    let own: Vec<&Server> = stages.iter().filter_map(Stage::server).collect();
    let services: Vec<Alone> = own
        .iter()
        .map(|server| {
            let (reserved, late) = alone(server);
            Alone { server: reserved, late, service: server.service }
        })
        .collect();
    let longest = path.points.iter().map(|point| point.within).max().unwrap_or_default();
    let before = (20.0 * longest.ns() as f64 * rate.per_ns()).clamp(200.0, 20_000.0) as usize;
    let longest = longest.checked_mul(4).unwrap_or(longest);
    let run = |nth: usize| {
        let run = AloneRun { rate, before, counted: COUNTED, longest, seed: SEED.wrapping_add(nth as u64) };
        play_alone(&path.through, &services, &run)
    };
    let took: Result<Vec<Vec<Duration>>, _> = (0..RUNS).into_par_iter().map(run).collect();
    let took = took.map_err(|why| Broken::new("a path that can be simulated", "one", why))?;
    for point in &path.points {
        // What a failure may take is promised as well.
        let within = point.within.checked_sub(path.later()).unwrap_or_default();
        let late = |run: &Vec<Duration>| run.iter().filter(|took| **took > within).count() as f64 / COUNTED as f64;
        let late: Vec<f64> = took.iter().map(late).collect();
        let mean = late.iter().sum::<f64>() / RUNS as f64;
        let spread = late.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
        let most = 1.0 - point.percentile.percent() / 100.0;
        if mean - ERRORS * (spread / RUNS as f64).sqrt() > most {
            let what = format!("messages beyond {} in simulation, of a million, at most", point.percentile);
            return Err(Broken::new(what, 1e6 * most, 1e6 * mean));
        }
    }
    Ok((RUNS * COUNTED) as u64)
}
