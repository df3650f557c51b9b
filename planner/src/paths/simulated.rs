//! Percentiles of a path that simulation of the model decides (`assurance: simulated`, docs/decisions/0066).
//!
//! Runs are independent; of each the part x of its counted messages that are late is known. A stake of λ on x < q, at odds that
//! are fair if as many are late as may be, multiplies the money by 1 + λ(q − x). If more are late, there is on average no more of
//! it after a run than before, and ever 1/α times as much with a chance of α at most (Ville 1939; Waudby-Smith, Ramdas 2024). So
//! that is when the promise counts as kept.

use super::course::{Asked, Course};
use giusto_analysis::Error;
use giusto_model::{Duration, Interface, PathSource, PathStage, Rate, Within};
use giusto_simulator::{play_alone, settling, Alone, AloneRun};
use rayon::prelude::*;

/// The chance of a yes where the promise is not kept.
pub(super) const RISK: f64 = 1e-4;
/// Messages of a run that count.
const COUNTED: usize = 100;
/// Messages before those, at least and at most.
const BEFORE: (f64, f64) = (200.0, 20_000.0);
/// ... and those of so many promised times, and as long as queues take to forget ([`settling`]).
const FORGOTTEN: f64 = 20.0;
/// Runs at once.
const AT_ONCE: usize = 64;
/// Of the money what is staked at most.
const STAKED: f64 = 0.9;
/// Of what may be late, what is to be late in a trial before the runs that decide.
const TRIED: f64 = 0.6;
/// Runs of such a trial, in messages that may be late.
const TRIAL: f64 = 400.0;

/// What decided.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) runs: usize,
    /// Of each percentile.
    pub(super) late: Vec<f64>,
    pub(super) at: Vec<Duration>,
}

impl Shown {
    pub(super) fn messages(&self) -> u64 {
        (self.runs * COUNTED) as u64
    }
}

/// A path with its stages, each by itself.
pub(super) struct Model<'a> {
    asked: &'a Asked,
    course: &'a Course,
    through: &'a [PathStage],
    rate: Rate,
}

impl<'a> Model<'a> {
    /// That of a path whose percentiles are simulated, alone.
    pub(super) fn of(asked: &'a Asked) -> Option<Model<'a>> {
        let [course] = &asked.courses[..] else { return None };
        let through = course.simulated.as_deref()?;
        match course.source {
            PathSource::Poisson(rate) => Some(Model { asked, course, through, rate }),
            PathSource::Periodic { .. } => None,
        }
    }

    /// Whether servers are worth the runs that decide.
    pub(super) fn seems_kept(&self, servers: &[Interface]) -> Result<bool, Error> {
        let points = self.points(servers);
        let least = points.iter().map(beyond).fold(1.0, f64::min);
        let runs = ((TRIAL / least / COUNTED as f64) as usize).max(AT_ONCE);
        let Some(took) = self.runs(servers, 0, runs)? else { return Ok(false) };
        let late = |point: &Within| took.iter().flatten().filter(|took| **took > point.within).count() as f64;
        let messages = (runs * COUNTED) as f64;
        Ok(points.iter().all(|point| late(point) <= TRIED * beyond(point) * messages))
    }

    /// Runs until they decide, of which those of another `attempt` are others; `None`: for no. The chance of a wrong yes at any
    /// attempt is [`RISK`] at most.
    pub(super) fn decided(&self, servers: &[Interface], attempt: u32) -> Result<Option<Shown>, Error> {
        let points = &self.points(servers);
        // Each attempt has half of the risk of the one before, and there may be two questions for a path (`Group::asked`).
        let enough = (f64::from(2u32.pow(attempt + 2)) / RISK).ln();
        let least = points.iter().map(beyond).fold(1.0, f64::min);
        let most = (8.0 * enough / least) as usize;
        let first = u64::from(attempt + 1) << 32;
        let mut bets: Vec<Bet> = points.iter().map(|point| Bet::new(beyond(point))).collect();
        let mut all: Vec<Duration> = Vec::new();
        let mut runs = 0;
        while runs < most {
            let Some(took) = self.runs(servers, first + runs as u64, AT_ONCE)? else { return Ok(None) };
            for took in took {
                for (bet, point) in bets.iter_mut().zip(points) {
                    bet.take(took.iter().filter(|took| **took > point.within).count() as f64 / COUNTED as f64);
                }
                all.extend(took);
                runs += 1;
            }
            if bets.iter().all(|bet| bet.money >= enough) {
                all.sort_unstable();
                let at = |point: &Within| {
                    let rank = (all.len() as f64 * (1.0 - beyond(point))).ceil() as usize;
                    all[rank.clamp(1, all.len()) - 1]
                };
                let (late, at) = (bets.iter().map(Bet::mean).collect(), points.iter().map(at).collect());
                return Ok(Some(Shown { runs, late, at }));
            }
            if runs >= 4 * AT_ONCE && bets.iter().any(|bet| bet.mean() >= bet.most) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// What is promised, less what a failure that is borne may cost.
    fn points(&self, servers: &[Interface]) -> Vec<Within> {
        let later = self.asked.more(self.course, servers);
        let left = |point: &Within| Within { within: point.within.checked_sub(later).unwrap_or_default(), ..*point };
        self.course.points.iter().map(left).collect()
    }

    /// What the counted messages of so many runs took; `None`: queues take too long to forget how a run began.
    fn runs(&self, servers: &[Interface], first: u64, count: usize) -> Result<Option<Vec<Vec<Duration>>>, Error> {
        let alone = |(ask, server): (&'a super::course::Ask, &Interface)| Alone {
            server: *server,
            late: ask.latency,
            service: &ask.service,
        };
        let services: Vec<Alone> = self.asked.stages.iter().zip(servers).map(alone).collect();
        let promised = self.course.points.iter().map(|point| point.within).max().unwrap_or_default();
        let within = promised.ns() as f64 * self.rate.per_ns();
        let before = (within * FORGOTTEN).max(settling(self.through, &services, self.rate)).max(BEFORE.0);
        if before > BEFORE.1 {
            return Ok(None);
        }
        let before = before.ceil() as usize;
        let run = |nth: usize| {
            let run = AloneRun { rate: self.rate, before, counted: COUNTED, seed: first.wrapping_add(nth as u64) };
            play_alone(self.through, &services, &run).map_err(|_| Error::Range)
        };
        (0..count).into_par_iter().map(run).collect::<Result<_, Error>>().map(Some)
    }
}

/// How many may take longer.
fn beyond(point: &Within) -> f64 {
    1.0 - point.percentile.percent() / 100.0
}

/// Money that is staked on fewer late ones than may be.
struct Bet {
    /// q.
    most: f64,
    /// Its logarithm; one at the beginning.
    money: f64,
    runs: f64,
    sum: f64,
    squares: f64,
}

impl Bet {
    fn new(most: f64) -> Bet {
        Bet { most, money: 0.0, runs: 0.0, sum: 0.0, squares: 0.0 }
    }

    fn mean(&self) -> f64 {
        self.sum / self.runs.max(1.0)
    }

    /// The stake follows from runs before this one alone: as much as would have made most of them.
    fn take(&mut self, late: f64) {
        let (mean, runs) = ((self.sum + 0.5 * self.most) / (self.runs + 1.0), self.runs + 1.0);
        let spread = (self.squares + self.most * self.most) / runs - mean * mean;
        let gain = self.most - mean;
        let stake = (gain / (spread.max(0.0) + gain * gain).max(1e-12)).clamp(0.0, STAKED / (1.0 - self.most));
        self.money += (1.0 + stake * (self.most - late)).ln();
        (self.runs, self.sum, self.squares) = (runs, self.sum + late, self.squares + late * late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// Whether the money is ever 1/`risk` times as much, when so many are late on average.
    fn says_yes(rng: &mut StdRng, late: f64, risk: f64, runs: usize) -> bool {
        let mut bet = Bet::new(0.01);
        (0..runs).any(|_| {
            // All messages of a run are late, or none: they depend on each other as much as they can.
            let whole = rng.random_bool(late);
            bet.take(if whole { 1.0 } else { 0.0 });
            bet.money >= (1.0 / risk).ln()
        })
    }

    #[test]
    fn a_wrong_yes_is_as_rare_as_is_said() {
        let mut rng = StdRng::seed_from_u64(66);
        let yes = (0..4_000).filter(|_| says_yes(&mut rng, 0.01, 0.05, 3_000)).count();
        // 200 are allowed; six standard errors more are 283.
        assert!((1..283).contains(&yes), "{yes}");
        let right = (0..200).filter(|_| says_yes(&mut rng, 0.002, 0.05, 3_000)).count();
        assert!(right > 180, "{right}");
    }
}
