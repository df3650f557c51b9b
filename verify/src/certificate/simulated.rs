//! Paths whose promise simulation decided (docs/decisions/0066): that runs of this check's own, by code of its own, do not say
//! the opposite, and show that no more than half as many again are late.
//!
//! What they show has a chance of being wrong of [`RISK`]: a stake on fewer late ones, at odds that are fair if as many are late
//! as is to be excluded, wins 1/[`RISK`] times the money with that chance at most (Ville). Several fixed stakes share it.

use super::broken::Broken;
use super::played::{forgotten, Run};
use super::route::Stage;
use giusto_model::{PathPlan, PathPoint, PathSource, Plan, SimulatedPath};
use rayon::prelude::*;

/// Runs at once, each of so many messages that count.
const RUNS: usize = 256;
const COUNTED: usize = 100;
/// Of what may be late, how much is excluded.
const EXCLUDED: f64 = 1.5;
const RISK: f64 = 1e-3;
const STAKES: [f64; 4] = [0.1, 0.3, 0.6, 0.9];
/// Runs at most, in messages that may be late.
const MOST: f64 = 200.0;
/// Messages before those that count, at least and at most.
const BEFORE: (f64, f64) = (200.0, 50_000.0);
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
    let longest = path.points.iter().map(|point| point.within).max().unwrap_or_default();
    let before = 20.0 * longest.ns() as f64 * rate.per_ns();
    let before = before.max(forgotten(path, stages, rate)).max(BEFORE.0);
    if before > BEFORE.1 {
        return Err(Broken::new("messages before queues have forgotten their beginning", BEFORE.1, before));
    }
    let mut all: Vec<Seen> = path.points.iter().map(|point| Seen::of(path, point)).collect();
    let fewest = all.iter().map(|seen| seen.most).fold(1.0, f64::min);
    let mut runs = 0;
    while runs == 0 || all.iter().any(|seen| !seen.is_shown()) {
        if runs as f64 * fewest > MOST {
            let unsure = all.iter().find(|seen| !seen.is_shown()).unwrap_or(&all[0]);
            let what = format!(
                "runs that show how few messages are beyond {} in simulation, of a million",
                unsure.point.percentile
            );
            return Err(Broken::new(what, 1e6 * unsure.most, 1e6 * unsure.mean()));
        }
        let run = |nth: usize| {
            let seed = SEED.wrapping_add((runs + nth) as u64);
            Run { path, stages, rate, before: before.ceil() as usize, counted: COUNTED, seed }.took()
        };
        let took: Vec<Vec<u64>> = (0..RUNS).into_par_iter().map(run).collect::<Result<_, Broken>>()?;
        for seen in &mut all {
            took.iter().for_each(|run| seen.take(run));
            seen.contradicts()?;
        }
        runs += RUNS;
    }
    Ok((runs * COUNTED) as u64)
}

/// What runs say of a percentile.
struct Seen<'a> {
    point: &'a PathPoint,
    /// What was promised, less what a failure may take.
    within: u64,
    /// How many may be later.
    most: f64,
    runs: f64,
    sum: f64,
    squares: f64,
    /// By stake.
    money: [f64; STAKES.len()],
}

impl<'a> Seen<'a> {
    fn of(path: &PathPlan, point: &'a PathPoint) -> Seen<'a> {
        let within = point.within.ns().saturating_sub(path.later().ns());
        let most = 1.0 - point.percentile.percent() / 100.0;
        Seen { point, within, most, runs: 0.0, sum: 0.0, squares: 0.0, money: [1.0; STAKES.len()] }
    }

    fn take(&mut self, run: &[u64]) {
        let late = run.iter().filter(|took| **took > self.within).count() as f64 / run.len() as f64;
        (self.runs, self.sum, self.squares) = (self.runs + 1.0, self.sum + late, self.squares + late * late);
        let odds = EXCLUDED * self.most - late;
        self.money.iter_mut().zip(STAKES).for_each(|(money, stake)| *money *= 1.0 + stake * odds);
    }

    fn mean(&self) -> f64 {
        self.sum / self.runs.max(1.0)
    }

    fn is_shown(&self) -> bool {
        self.money.iter().sum::<f64>() / STAKES.len() as f64 >= 1.0 / RISK
    }

    fn contradicts(&self) -> Result<(), Broken> {
        let mean = self.mean();
        let variance = (self.squares - self.runs * mean * mean).max(0.0) / (self.runs - 1.0).max(1.0);
        match mean - ERRORS * (variance / self.runs).sqrt() > self.most {
            true => {
                let what = format!("messages beyond {} in simulation, of a million, at most", self.point.percentile);
                Err(Broken::new(what, 1e6 * self.most, 1e6 * mean))
            }
            false => Ok(()),
        }
    }
}
