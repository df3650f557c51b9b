//! The answer, from grids that are made finer until it settles.

use super::chain::Chain;
use super::curve::{Curve, Limit};
use super::grid::{Grid, Rounding};
use super::question::{Precision, Question, Server};
use super::reanchored;
use crate::Error;
use giusto_model::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};

/// The law of the response time, where it was asked for. What `giusto analyze response --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// Mean.
    #[serde(rename = "mean_ns")]
    pub mean: Duration,
    /// Pr{R ≤ t}.
    pub cdf: Vec<At>,
    /// Least t with Pr{R ≤ t} ≥ p.
    pub percentiles: Vec<Percentile>,
    /// Slots in a mean service time on the finest grid.
    pub slots: f64,
    /// How far the last halving of the slots moved the answers at most: probabilities twice, and the probability of what lies
    /// beyond a percentile by a tenth of itself. About three times the error that is left. `None` for the model on one grid, and
    /// for a glance.
    pub error: Option<f64>,
    /// Probability that lies beyond what was computed.
    pub lost: f64,
    /// U = λ · mean work.
    pub utilization: f64,
    /// W = B/P
    pub bandwidth: Bandwidth,
}

/// A point of the distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// t
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// Pr{R ≤ t}
    pub p: f64,
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    /// In percent.
    pub p: f64,
    /// The response time.
    #[serde(rename = "ns")]
    pub at: Duration,
}

/// Slots in a mean service time on the first grid; with a period of many service times fewer, as responses are as long then and
/// work grows with the square: so many of them times the service times in a period, but [`FEWEST`] at least.
const FIRST: u32 = 10;
const FIRST_IN_PERIOD: f64 = 400.0;
const FEWEST: f64 = 3.0;

/// With service times between two slots' ends answers do not settle as regularly: then they must not move by more than this.
const BETWEEN: f64 = 1e-3;

/// An answer that the last halving moved by more is none.
const NONE: f64 = 2e-2;

/// The grid is made finer at most so many times.
const MOST_HALVINGS: u32 = 9;

/// Slots of work times slots of period on a grid that is still tried.
const MOST_STEPS: f64 = 2e9;

impl Question {
    fn curve(&self, grid: Grid, rounding: Rounding) -> Result<Curve, Error> {
        let chains = grid.chains(self, rounding)?;
        let steps = |chain: &Chain| match self.server {
            Server::ConstantBandwidth => reanchored::steps(chain),
            _ => chain.period as f64 * chain.size().max(chain.period as f64),
        };
        if let Some((chain, _)) = chains.iter().find(|(chain, _)| steps(chain) > MOST_STEPS) {
            return Err(Error::Fine { states: steps(chain) as u64 });
        }
        Curve::new(&chains, grid, self.server)
    }

    /// Slots in a mean service time to begin with.
    fn few(&self) -> u32 {
        let services = self.period.ns() as f64 / self.mean_service();
        FIRST.min((FIRST_IN_PERIOD / services).max(FEWEST) as u32)
    }

    /// The first grid that is fine enough for the queue to be stable on it and to tell arrivals apart.
    fn first(&self, slots: u32, rounding: Rounding) -> Result<(Grid, Curve), Error> {
        let mut grid = Grid::new(self, self.mean_service(), slots)?;
        for _ in 0..MOST_HALVINGS {
            match grid.chains(self, rounding) {
                Ok(_) => break,
                Err(_) => grid = grid.finer(),
            }
        }
        Ok((grid, self.curve(grid, rounding)?))
    }
}

/// The response time of `question` at the times `at` and the `percentiles` (in percent, each in (0, 100)).
///
/// O(M·P + B·M) on a grid of P slots in a period, with M slots of work that can be waiting. Errors: a distribution that is none,
/// U ≥ W, a percentile out of range, and a grid that would be too large, which says what to change.
pub fn response(
    question: &Question,
    at: &[Duration],
    percentiles: &[f64],
    precision: Precision,
) -> Result<Response, Error> {
    question.check()?;
    // Its period says nothing, and may be far too long for a grid.
    let whole = (question.budget == question.period && question.server != Server::ConstantBandwidth)
        .then(|| question.whole_core());
    let question = whole.as_ref().unwrap_or(question);
    if let Some(&p) = percentiles.iter().find(|p| !(**p > 0.0 && **p < 100.0)) {
        return Err(Error::Percentile { p: p.to_string() });
    }
    let told = |grid: Grid, limit: &Limit, error| told(question, at, percentiles, (grid, limit), error);
    let (slots, rounding) = match precision {
        Precision::Slots(slots) => (slots, Rounding::Split),
        Precision::SlotsUp(slots) => (slots, Rounding::Up),
        Precision::Within(_) | Precision::Glance => (question.few(), Rounding::Split),
    };
    let (mut grid, mut coarse) = question.first(slots, rounding)?;
    let tolerance = match precision {
        Precision::Within(tolerance) => tolerance,
        Precision::Glance => {
            let fine = question.curve(grid.finer(), rounding)?;
            return told(grid.finer(), &Limit { coarse: Some(&coarse), fine: &fine }, None);
        }
        _ => return told(grid, &Limit { coarse: None, fine: &coarse }, None),
    };
    let mut last: Option<Response> = None;
    for _ in 0..MOST_HALVINGS {
        grid = grid.finer();
        let fine = match (question.curve(grid, rounding), last.take()) {
            (Ok(fine), before) => {
                last = before;
                fine
            }
            // Two grids alone do not tell how good they are.
            (Err(error @ Error::Fine { .. }), before) => return before.filter(settled).ok_or(error),
            (Err(error), _) => return Err(error),
        };
        let limit = Limit { coarse: Some(&coarse), fine: &fine };
        let mut answer = told(grid, &limit, None)?;
        answer.error = last.as_ref().map(|before| moved(before, &limit));
        let whole = question.service.iter().all(|(time, _)| grid.divides(*time));
        let tolerance = if whole { tolerance } else { tolerance.min(BETWEEN) };
        let enough = answer.error.is_some_and(|error| error <= tolerance);
        last = Some(answer);
        coarse = fine;
        if enough {
            break;
        }
    }
    last.filter(settled).ok_or(Error::Fine { states: grid.slots(question.period.ns()).0 as u64 })
}

fn settled(answer: &Response) -> bool {
    answer.error.is_some_and(|error| error <= NONE)
}

/// What `limit` says, its finest grid being `grid`.
fn told(
    question: &Question,
    at: &[Duration],
    percentiles: &[f64],
    (grid, limit): (Grid, &Limit),
    error: Option<f64>,
) -> Result<Response, Error> {
    let lost = (1.0 - limit.fine.mass()).max(0.0);
    let percentile = |&p: &f64| Some(Percentile { p, at: rounded(limit.percentile(p / 100.0)?) });
    Ok(Response {
        mean: rounded(limit.mean()),
        cdf: at.iter().map(|&at| At { at, p: limit.at(at.ns() as f64) }).collect(),
        percentiles: percentiles
            .iter()
            .map(percentile)
            .collect::<Option<_>>()
            .ok_or(Error::Beyond { lost: format!("{lost:.1e}") })?,
        slots: question.mean_service() / grid.slot(),
        error,
        lost,
        utilization: question.utilization(),
        bandwidth: Bandwidth::of(question.budget, question.period).ok_or(Error::Period)?,
    })
}

fn rounded(ns: f64) -> Duration {
    Duration::from_ns(ns.round() as u64)
}

/// How far `before` is from `now`; see [`Response::error`].
fn moved(before: &Response, now: &Limit) -> f64 {
    let probabilities = before.cdf.iter().map(|at| 2.0 * (at.p - now.at(at.at.ns() as f64)).abs());
    let beyond = before.percentiles.iter().map(|p| {
        // In the jump of an atom a percentile lies exactly.
        let at = p.at.ns() as f64;
        let (below, up_to) = (now.at(at * (1.0 - 1e-9) - 1.0), now.at(at + 1.0));
        let p = p.p / 100.0;
        0.1 * (below - p).max(p - up_to).max(0.0) / (1.0 - p)
    });
    probabilities.chain(beyond).fold(0.0, f64::max)
}
