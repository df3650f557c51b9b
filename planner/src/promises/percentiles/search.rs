//! The search for the cheapest deferrable server that keeps percentiles.

use crate::needs::Company;
use crate::paths::PathAnswers;
use crate::steps::{periods, quantum, QUANTUM};
use giusto_analysis::response::{self, response, slo, Objective, Precision, Question, Verdict};
use giusto_analysis::Error;
use giusto_model::{Arrivals, Duration, Interface, PredictedPercentile, ServiceTime, Within};
use std::cell::RefCell;
use std::collections::HashMap;

/// No period is looked at that is longer than the longest latency that was promised or so many mean service times, which would
/// need grids too fine.
const SERVICES: f64 = 1000.0;
/// What is counted on is more than so much of the load: nearer to it a rate that is a little higher than the site says would make
/// the queue grow for ever (and the law takes ever longer to compute).
const LEAST_OF_LOAD: f64 = 1.05;
/// As [`slo`] answers.
pub(super) const ANSWER: Precision = Precision::Within(1e-3);
/// For what is only told beside it.
const ASIDE: Precision = Precision::Within(1e-2);
/// Where a glance sees less than this missing of a percentile, as a part of what may lie beyond it, it is looked at again.
const UNSURE: f64 = 0.2;

/// What was found before: one and the same question is asked whenever a change of the site is tried.
#[derive(Default)]
pub(crate) struct Answers {
    found: RefCell<HashMap<Asked, Result<Found, Error>>>,
    /// Of paths.
    pub(crate) paths: PathAnswers,
}

/// All that a search depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) points: Vec<Within>,
    pub(super) arrivals: Arrivals,
    pub(super) service: ServiceTime,
    pub(super) company: Company,
    pub(super) loss: Duration,
    pub(super) latency: Duration,
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
    pub(super) least: Duration,
}

/// What a search found.
#[derive(Clone)]
pub(super) enum Found {
    /// The cheapest server; `None`: of these periods none.
    Server(Option<Chose>),
    /// Not even a whole core serves all requests.
    Overload,
    /// Not even a whole core keeps this point: what part of all it serves within it, in thousandths of a percent, and where the
    /// percentile is there.
    Missed(Within, u32, Duration),
}

/// A server, and what it gives.
#[derive(Clone)]
pub(super) struct Chose {
    pub(super) server: Interface,
    /// Of the budget.
    pub(super) counted: Duration,
    pub(super) predicted: Vec<PredictedPercentile>,
    pub(super) slots: u64,
    pub(super) error_ppm: u32,
}

impl Answers {
    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    pub(super) fn to(&self, asked: &Asked) -> Result<Found, Error> {
        if let Some(known) = self.found.borrow().get(asked) {
            return known.clone();
        }
        let found = search(asked);
        self.found.borrow_mut().insert(asked.clone(), found.clone());
        found
    }
}

/// Budget and period are for the caller.
pub(super) fn question(arrivals: Arrivals, service: &ServiceTime, company: Company) -> Question {
    let server = match company {
        Company::Alone => response::Server::Deferrable,
        Company::Beside => response::Server::Periodic,
    };
    let (service, batch) = (service.bound(), vec![(arrivals.batch, 1.0)]);
    Question { server, budget: QUANTUM, period: QUANTUM, rate: arrivals.rate, service, batch }
}

/// What is left of each latency.
fn objectives(points: &[Within], less: Duration) -> Vec<Objective> {
    let left = |point: &Within| Objective {
        percentile: point.percentile.percent(),
        within: point.within.checked_sub(less).unwrap_or(Duration::ZERO),
    };
    points.iter().map(left).collect()
}

/// Where no other shares the core the response is as on the server; else up to a period later.
pub(super) fn wait(company: Company, period: Duration) -> Duration {
    match company {
        Company::Alone => Duration::ZERO,
        Company::Beside => period,
    }
}

fn search(asked: &Asked) -> Result<Found, Error> {
    let question = question(asked.arrivals, &asked.service, asked.company);
    let whole = Question { server: response::Server::Deferrable, ..question.clone() };
    match slo(&whole, &objectives(&asked.points, asked.latency), &[], QUANTUM) {
        Err(Error::Unstable { .. }) => return Ok(Found::Overload),
        Ok(Verdict::Unachievable { objective, limit, .. }) => {
            let missed = asked.points.iter().find(|point| point.percentile.percent() == objective.percentile);
            let missed = missed.ok_or(Error::Range)?;
            return Ok(Found::Missed(*missed, (1000.0 * limit) as u32, whole_core(&whole, *missed)?));
        }
        other => drop(other?),
    }
    let latest = asked.points.iter().map(|point| point.within.ns()).max().unwrap_or(0);
    let mean: f64 = question.service.iter().map(|(time, p)| p * time.ns() as f64).sum();
    let most = latest.min((SERVICES * mean) as u64);
    let bounded: Vec<Duration> =
        periods(asked.shortest, asked.longest.min(Duration::from_ns(most).max(asked.shortest))).collect();
    let mut best: Option<(Interface, Duration)> = None;
    let mut fine = None;
    // Longer ones first: seldom is a shorter one cheaper, and then that is seen at once.
    for period in bounded.into_iter().rev() {
        let less = asked.latency.checked_add(wait(asked.company, period)).ok_or(Error::Range)?;
        let objectives = objectives(&asked.points, less);
        // As much as the best so far, ties to the shorter period.
        let most = best.map_or(u128::from(period.ns()), |(best, _)| {
            u128::from(best.budget.ns()) * u128::from(period.ns()) / u128::from(best.period.ns())
        });
        let most = Duration::from_ns(u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(asked.loss.ns()));
        let found = match least(&question, &objectives, period, most) {
            // What takes too long to compute for this period may be quick for the next.
            Err(error @ Error::Fine { .. }) => {
                fine = Some(error);
                continue;
            }
            other => other?,
        };
        let Some(counted) = found else { continue };
        let Some(budget) = counted.checked_add(asked.loss).map(|b| b.max(asked.least)).filter(|b| *b <= period) else {
            continue;
        };
        let server = Interface { budget, period };
        if best.is_none_or(|(best, _)| server.bandwidth() <= best.bandwidth()) {
            best = Some((server, counted));
        }
    }
    if let (None, Some(fine)) = (best, fine) {
        return Err(fine);
    }
    let chose = best.map(|(server, counted)| chose(asked, &question, server, counted));
    Ok(Found::Server(chose.transpose()?))
}

/// The least budget at `period`, in whole quanta, with which all are kept; `None` if `most` is too little.
///
/// Percentiles fall as the budget grows. Near U·P, below which the queue is not stable, nothing is looked for.
fn least(
    question: &Question,
    objectives: &[Objective],
    period: Duration,
    most: Duration,
) -> Result<Option<Duration>, Error> {
    let step = quantum(period).ns();
    let at: Vec<Duration> = objectives.iter().map(|objective| objective.within).collect();
    // What part of those that may be later than a percentile are too many; below 0 if none.
    let missing = |count: u64, precision| -> Result<f64, Error> {
        let question = Question { budget: Duration::from_ns(count * step), period, ..question.clone() };
        let missing = |(at, o): (&response::At, &Objective)| (o.percentile - 100.0 * at.p) / (100.0 - o.percentile);
        match response(&question, &at, &[], precision) {
            Err(Error::Unstable { .. } | Error::Budget { .. }) => Ok(f64::INFINITY),
            found => Ok(found?.cdf.iter().zip(objectives).map(missing).fold(f64::NEG_INFINITY, f64::max)),
        }
    };
    let kept = |count| Ok::<_, Error>(missing(count, ANSWER)? <= 0.0);
    let unstable = (LEAST_OF_LOAD * question.utilization() * period.ns() as f64 / step as f64) as u64;
    let (mut low, mut high) = (unstable, most.ns() / step);
    if high <= low {
        return Ok(None);
    }
    let seen = missing(high, Precision::Glance)?;
    if seen > UNSURE || seen > 0.0 && !kept(high)? {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if missing(middle, Precision::Glance)? <= 0.0 { &mut high } else { &mut low }) = middle;
    }
    // What was found in haste is looked at again.
    let found = high;
    while high - 1 > unstable && kept(high - 1)? {
        high -= 1;
    }
    while high * step <= period.ns() {
        if high < found || kept(high)? {
            return Ok(Some(Duration::from_ns(high * step)));
        }
        high += 1;
    }
    Ok(None)
}

/// The percentile of `point` on a whole core.
fn whole_core(question: &Question, point: Within) -> Result<Duration, Error> {
    let shortest = question.service.iter().map(|(time, _)| *time).min().unwrap_or(QUANTUM);
    let whole = Question { budget: shortest, period: shortest, ..question.clone() };
    let found = response(&whole, &[], &[point.percentile.percent()], ANSWER)?;
    found.percentiles.first().map(|p| p.at).ok_or(Error::Range)
}

/// What this server gives.
fn chose(asked: &Asked, question: &Question, server: Interface, counted: Duration) -> Result<Chose, Error> {
    let later = asked.latency.checked_add(wait(asked.company, server.period)).ok_or(Error::Range)?;
    let percents: Vec<f64> = asked.points.iter().map(|point| point.percentile.percent()).collect();
    let on_server = Question { budget: counted, period: server.period, ..question.clone() };
    let bound = response(&on_server, &[], &percents, ANSWER)?;
    let expected = asked.service.expected().map(|service| Question { service, ..on_server.clone() });
    let expected = expected.map(|question| response(&question, &[], &percents, ASIDE)).transpose()?;
    let mut predicted = Vec::new();
    for (nth, point) in asked.points.iter().enumerate() {
        let at = |found: &response::Response| found.percentiles.get(nth).and_then(|p| p.at.checked_add(later));
        // That it is within what was promised is what the budget was chosen for.
        let at_most = at(&bound).ok_or(Error::Range)?.min(point.within);
        let expected = expected.as_ref().and_then(at);
        predicted.push(PredictedPercentile { percentile: point.percentile, at: at_most, expected });
    }
    let error_ppm = (bound.error.unwrap_or(0.0) * 1e6).ceil() as u32;
    Ok(Chose { server, counted, predicted, slots: bound.slots.round() as u64, error_ppm })
}
