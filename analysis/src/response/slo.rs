//! The cheapest share of a core that keeps a latency objective [LiH21, § 4.3].

use super::answer::response;
use super::question::{Precision, Question};
use crate::Error;
use giusto_model::{Bandwidth, Duration};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// So many of all response times (in percent) are at most so long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// In percent, between 0 and 100.
    pub percentile: f64,
    /// The latency.
    #[serde(rename = "within_ns")]
    pub within: Duration,
}

/// A share that keeps all objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// B, the least at this period.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// P
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// B/P
    pub bandwidth: Bandwidth,
    /// How long it can keep others off the core: 2B, the end of one period and the start of the next.
    #[serde(rename = "hold_ns")]
    pub hold: Duration,
    /// What it gives for each objective, in percent.
    pub reached: Vec<f64>,
}

/// What can be had.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// For each period asked for, the least budget, if any.
    Achievable(Vec<Option<Choice>>),
    /// Not even a whole core does (M/G/1): the objective that it misses, and what it reaches of it, in percent.
    Unachievable {
        /// The first that is missed.
        objective: Objective,
        /// Percent of response times within it on a whole core.
        limit: f64,
        /// Its percentile on a whole core: the least latency that could be promised.
        least: Duration,
    },
}

/// While looking, and for the answer itself.
pub(super) const LOOKING: Precision = Precision::Within(4e-3);
const ANSWER: Precision = Precision::Within(1e-3);

/// For each of `periods` the least budget, a whole number of `quantum` (and exact to 1/2000 of the period), with which all
/// `objectives` are kept. The budget and period of `question` do not matter.
///
/// Percentiles fall as B grows at one P, so B is found by bisection; they are *not* monotone in P at one W, so each P is looked
/// at, all of them in parallel. Errors: as [`response`]; no objective.
pub fn slo(
    question: &Question,
    objectives: &[Objective],
    periods: &[Duration],
    quantum: Duration,
) -> Result<Verdict, Error> {
    if let Some(o) = objectives.iter().find(|o| !(o.percentile > 0.0 && o.percentile < 100.0)) {
        return Err(Error::Percentile { p: o.percentile.to_string() });
    }
    if quantum.is_zero() || periods.iter().any(|period| period.is_zero()) {
        return Err(Error::Period);
    }
    let whole = question.whole_core();
    let limit = reached(&whole, objectives, ANSWER)?;
    if let Some((objective, limit)) = objectives.iter().zip(&limit).find(|(o, limit)| **limit < o.percentile) {
        let least = response(&whole, &[], &[objective.percentile], ANSWER)?.percentiles[0].at;
        return Ok(Verdict::Unachievable { objective: *objective, limit: *limit, least });
    }
    let choices = periods.par_iter().with_max_len(1).map(|&period| least(question, objectives, period, quantum));
    Ok(Verdict::Achievable(choices.collect::<Result<_, _>>()?))
}

/// Percent of response times within each objective.
fn reached(question: &Question, objectives: &[Objective], precision: Precision) -> Result<Vec<f64>, Error> {
    let at: Vec<Duration> = objectives.iter().map(|objective| objective.within).collect();
    Ok(response(question, &at, &[], precision)?.cdf.into_iter().map(|at| 100.0 * at.p).collect())
}

/// The least budget at `period`.
fn least(
    question: &Question,
    objectives: &[Objective],
    period: Duration,
    quantum: Duration,
) -> Result<Option<Choice>, Error> {
    let given = |budget: u64, precision| -> Result<Option<Vec<f64>>, Error> {
        let question = Question { budget: Duration::from_ns(budget * quantum.ns()), period, ..question.clone() };
        match reached(&question, objectives, precision) {
            Err(Error::Unstable { .. }) => Ok(None),
            other => other.map(Some),
        }
    };
    let enough = |reached: &[f64]| reached.iter().zip(objectives).all(|(r, o)| *r >= o.percentile);
    let kept = |budget, precision| Ok::<_, Error>(given(budget, precision)?.filter(|reached| enough(reached)));
    let whole = period.ns() / quantum.ns();
    if whole == 0 {
        return Ok(None);
    }
    let all = given(whole, LOOKING)?;
    let Some(all) = all.filter(|all| enough(all)).map_or_else(|| kept(whole, ANSWER), |all| Ok(Some(all)))? else {
        return Ok(None);
    };
    let look = |budget: u64| match given(budget, LOOKING) {
        // So near the load that the queue is too long to be computed, or a percentile lies beyond: far too little.
        Err(Error::Fine { .. } | Error::Beyond { .. }) => Ok(None),
        other => Ok(other?.map(|reached| room(&reached, objectives))),
    };
    let high = boundary(whole, room(&all, objectives), look)?;
    // What was found in haste is looked at again, from a little below.
    let step = (period.ns() / quantum.ns() / 2000).max(1);
    let mut budget = high.saturating_sub(step).max(1);
    while budget * quantum.ns() <= period.ns() {
        let answer = match kept(budget, ANSWER) {
            Err(Error::Fine { .. } | Error::Beyond { .. }) => None,
            other => other?,
        };
        if let Some(reached) = answer {
            let budget = Duration::from_ns(budget * quantum.ns());
            let bandwidth = Bandwidth::of(budget, period).ok_or(Error::Period)?;
            let hold = budget.checked_mul(2).ok_or(Error::Range)?;
            return Ok(Some(Choice { budget, period, bandwidth, hold, reached }));
        }
        budget += step;
    }
    Ok(None)
}

/// How far the tightest objective is from being missed, as the logarithm of what may be late over what is: 0 where it just is
/// not.
fn room(reached: &[f64], objectives: &[Objective]) -> f64 {
    let of = |(reached, o): (&f64, &Objective)| ((100.0 - o.percentile) / (100.0 - reached).max(1e-9)).ln();
    reached.iter().zip(objectives).map(of).fold(f64::INFINITY, f64::min)
}

/// The least n up to `whole`, where `room` is `most`, from which on it is not negative; `None` is far below 0.
///
/// The chord between both ends, the value at an end that stays halved (Illinois, Dowell and Jarratt 1971), which takes some six
/// looks; halves the range where that is slow.
fn boundary(whole: u64, most: f64, room: impl Fn(u64) -> Result<Option<f64>, Error>) -> Result<u64, Error> {
    let (mut low, mut high): ((u64, Option<f64>), (u64, f64)) = ((0, None), (whole, most.max(0.0)));
    let (mut before, mut looks) = (whole, 0u32);
    let mut last_enough = None;
    while high.0 - low.0 > 1 {
        let width = high.0 - low.0;
        let is_slow = looks % 3 == 2 && width > before / 4;
        if looks % 3 == 2 {
            before = width;
        }
        let part = match low.1 {
            Some(short) if !is_slow => -short / (high.1 - short),
            _ => 0.5,
        };
        let middle = low.0 + ((width as f64 * part) as u64).clamp(1, width - 1);
        looks += 1;
        let found = room(middle)?;
        let is_enough = found.is_some_and(|room| room >= 0.0);
        let again = last_enough == Some(is_enough);
        last_enough = Some(is_enough);
        if is_enough {
            high = (middle, found.unwrap_or(0.0));
            low.1 = low.1.map(|short| if again { short / 2.0 } else { short });
        } else {
            low = (middle, found);
            high.1 = if again { high.1 / 2.0 } else { high.1 };
        }
    }
    Ok(high.0)
}

/// Those of `choices` than which no other has both less bandwidth and a shorter hold; by bandwidth.
pub fn pareto(choices: &[Choice]) -> Vec<&Choice> {
    let mut sorted: Vec<&Choice> = choices.iter().collect();
    sorted.sort_by_key(|choice| (choice.bandwidth, choice.hold));
    let mut shortest = None;
    sorted.retain(|choice| {
        let keep = shortest.is_none_or(|hold| choice.hold < hold);
        if keep {
            shortest = Some(choice.hold);
        }
        keep
    });
    sorted
}
