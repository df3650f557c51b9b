//! Percentiles over a plane of bandwidths and periods [LiH21, Figs 4.10 and 4.11].

use super::answer::response;
use super::question::{Precision, Question};
use super::slo::LOOKING;
use crate::Error;
use giusto_model::{Bandwidth, Duration};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Percentiles of the response time over the shares of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// In percent, as they were asked for.
    pub percentiles: Vec<f64>,
    /// On a whole core (M/G/1), which no share is better than.
    #[serde(rename = "whole_ns")]
    pub whole: Vec<Duration>,
    /// Period by period, and bandwidth by bandwidth in each.
    pub cells: Vec<Cell>,
}

/// One share of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// P
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// B, the bandwidth that was asked for times P, rounded up.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// B/P
    pub bandwidth: Bandwidth,
    /// The response time of each percentile; none where there is a reason.
    #[serde(rename = "at_ns")]
    pub at: Vec<Duration>,
    /// Why there is no answer: too little bandwidth, or a grid that would be too fine.
    pub refused: Option<String>,
}

/// The response times of `percentiles` (in percent) for every share of `bandwidths` and `periods`, on all processors. The budget
/// and period of `question` do not matter. `done` is called after each cell, from any thread. A cell is read off one pair of grids,
/// without an error of its own: what decides is asked for with [`response`].
///
/// Errors: as [`response`]; a bandwidth of 0 or above 1, a period of 0. What a single cell is refused for is in the cell.
pub fn map(
    question: &Question,
    percentiles: &[f64],
    bandwidths: &[Bandwidth],
    periods: &[Duration],
    done: &(dyn Fn() + Sync),
) -> Result<Map, Error> {
    let whole = response(&question.whole_core(), &[], percentiles, LOOKING)?;
    let shares = periods.iter().flat_map(|&period| bandwidths.iter().map(move |&share| (period, share)));
    let cell = |(period, share): (Duration, Bandwidth)| {
        let budget = share.times_ceil(period).filter(|budget| !budget.is_zero() && *budget <= period);
        let budget = budget.ok_or(Error::Share { what: "a bandwidth of the map", value: share })?;
        let bandwidth = Bandwidth::of(budget, period).ok_or(Error::Period)?;
        let question = Question { budget, period, ..question.clone() };
        let answer = response(&question, &[], percentiles, Precision::Glance);
        done();
        let (at, refused) = match answer {
            Ok(answer) => (answer.percentiles.into_iter().map(|p| p.at).collect(), None),
            Err(why @ (Error::Unstable { .. } | Error::Fine { .. } | Error::Beyond { .. })) => {
                (Vec::new(), Some(why.to_string()))
            }
            Err(error) => return Err(error),
        };
        Ok(Cell { period, budget, bandwidth, at, refused })
    };
    // Long periods take longest: one by one, so that no processor is left with many of them.
    let shares: Vec<_> = shares.collect();
    let cells = shares.into_par_iter().with_max_len(1).map(cell).collect::<Result<_, _>>()?;
    let whole = whole.percentiles.into_iter().map(|p| p.at).collect();
    Ok(Map { percentiles: percentiles.to_vec(), whole, cells })
}
