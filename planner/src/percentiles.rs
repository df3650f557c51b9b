//! Services that are promised percentiles of their response times: the cheapest deferrable server of each.
//!
//! The law of the response time is known for a server with the highest priority on its core [LiH21, chapter 4]. Alone on a
//! core every server has that. Beside others, under EDF, it is sure of its budget by the end of each period for the work that
//! was there at the start, so that whatever a periodic server with its budget at a fixed place has done by t, it has done by
//! t + P: its response times are at most P longer than that one's, whose law is known too (docs/decisions/0010).

use crate::backend::{choose, deviation, most_of_a_core, Chosen, Deviation, Limits, Wanted};
use crate::place::Unplaced;
use crate::size::reason;
use crate::words::{share, time};
use crate::{Cause, Facts, Miss, Missed, Refusal};
use giusto_analysis::response::{self, response, slo, Objective, Precision, Question, Verdict};
use giusto_analysis::Error;
use giusto_model::{
    Arrivals, Bandwidth, Certificate, Duration, Host, Interface, PredictedPercentile, Promise, Reason, Service,
    ServiceTime, Within,
};
use std::cell::RefCell;
use std::collections::HashMap;

/// Budgets are whole multiples of this or of a 200th of the period, whichever is more: the manager keeps them no finer.
const QUANTUM: Duration = Duration::from_us(100);
const PARTS: u64 = 200;
/// Periods to choose from, in ms, over and over, ten times as long each time.
const PERIODS: [u64; 8] = [10, 15, 20, 25, 30, 40, 60, 80];
/// No period is looked at that is longer than the longest latency that was promised or so many mean service times, which would
/// need grids too fine.
const SERVICES: f64 = 1000.0;
/// What is counted on is more than so much of the load: nearer to it a rate that is a little higher than the site says would make
/// the queue grow for ever (and the law takes ever longer to compute).
const LEAST_OF_LOAD: f64 = 1.05;
/// As [`slo`] answers.
const ANSWER: Precision = Precision::Within(1e-3);
/// For what is only told beside it.
const ASIDE: Precision = Precision::Within(1e-2);
/// Where a glance sees less than this missing of a percentile, as a part of what may lie beyond it, it is looked at again.
const UNSURE: f64 = 0.2;

/// Who else is on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Company {
    /// Nobody with a reservation: it has the highest priority.
    Alone,
    /// Others, under EDF.
    Beside,
}

/// What a server for percentiles rests on.
#[derive(Clone)]
pub(crate) struct Tail {
    /// Of the server's bandwidth, what is counted on, and what may be lost.
    pub(crate) required: Bandwidth,
    pub(crate) margin: Bandwidth,
    pub(crate) certificate: Certificate,
    pub(crate) reasons: Vec<Reason>,
    company: Company,
}

impl Tail {
    /// Whether it needs a core without others.
    pub(crate) fn alone(&self) -> bool {
        self.company == Company::Alone
    }
}

/// What was found before: one and the same question is asked whenever a change of the site is tried.
#[derive(Default)]
pub(crate) struct Answers(RefCell<HashMap<Asked, Result<Found, Error>>>);

/// All that a search depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    points: Vec<Within>,
    arrivals: Arrivals,
    service: ServiceTime,
    company: Company,
    loss: Duration,
    latency: Duration,
    shortest: Duration,
    longest: Duration,
    least: Duration,
}

/// What a search found.
#[derive(Clone)]
enum Found {
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
struct Chose {
    server: Interface,
    /// Of the budget.
    counted: Duration,
    predicted: Vec<PredictedPercentile>,
    slots: u64,
    error_ppm: u32,
}

/// The server of `service`, with the reasons. Errors: no backend, requests that cannot be analysed, percentiles for which no
/// core is enough.
pub(crate) fn entry(
    service: &Service,
    host: &Host,
    facts: &Facts,
    company: Company,
    answers: &Answers,
) -> Result<(Interface, Chosen, Tail), Unplaced> {
    let Promise::Percentiles { points, arrivals, service: times } = &service.promise else {
        return Err(refused(service, Error::NoTasks)); // is only called for these
    };
    let chosen = choose(service, Wanted::Percentiles, facts).map_err(Unplaced::Other)?;
    let (limits, deviation) = (&chosen.limits, deviation(chosen.backend, facts));
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let asked = |shortest| Asked {
        points: points.clone(),
        arrivals: *arrivals,
        service: times.clone(),
        company,
        loss: deviation.loss,
        latency: deviation.latency,
        shortest,
        longest: limits.longest,
        least: limits.budget,
    };
    let fault = |why| refused(service, why);
    let mut shortest = limits.chosen;
    let mut found = answers.to(&asked(shortest)).map_err(fault)?;
    let fits = |found: &Found| matches!(found, Found::Server(Some(chose)) if chose.server.bandwidth() <= most);
    if matches!(found, Found::Server(_)) && !fits(&found) && limits.shortest < shortest {
        shortest = limits.shortest;
        found = answers.to(&asked(shortest)).map_err(fault)?;
    }
    let chose = match found {
        Found::Server(Some(chose)) if chose.server.bandwidth() <= most => chose,
        other => {
            let utilization = question(*arrivals, times, company).utilization();
            let how = match other {
                Found::Overload => Missed::Overload { percent: (100.0 * utilization).ceil() as u64 },
                Found::Missed(point, thousandths, at) => {
                    Missed::WholeCore { point, thousandths, at, latency: deviation.latency }
                }
                Found::Server(needs) => {
                    let needs = needs.map(|chose| chose.server);
                    Missed::Room { needs, room: most, whole: most, cores: 1 }
                }
            };
            let cause = Cause::Percentiles(Box::new(Miss { points: points.clone(), how }));
            return Err(Unplaced::DoesNotFit { service: service.name.clone(), cause });
        }
    };
    let server = chose.server;
    let tail = tail(chose, &asked(shortest), limits, &deviation, (most, limit));
    Ok((server, chosen, tail))
}

impl Answers {
    fn to(&self, asked: &Asked) -> Result<Found, Error> {
        if let Some(known) = self.0.borrow().get(asked) {
            return known.clone();
        }
        let found = search(asked);
        self.0.borrow_mut().insert(asked.clone(), found.clone());
        found
    }
}

/// What its requests need of a core: a measure of its size, no bound.
pub(crate) fn load(arrivals: Arrivals, service: &ServiceTime) -> Bandwidth {
    let millionths = 1e6 * question(arrivals, service, Company::Alone).utilization();
    Bandwidth::new(millionths as u64, 1_000_000).unwrap_or(Bandwidth::ONE)
}

fn refused(service: &Service, why: Error) -> Unplaced {
    Unplaced::Other(Refusal::Tasks { service: service.name.clone(), why })
}

/// Budget and period are for whoever asks.
fn question(arrivals: Arrivals, service: &ServiceTime, company: Company) -> Question {
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

/// Where nobody shares the core the response is as on the server; else up to a period later.
fn wait(company: Company, period: Duration) -> Duration {
    match company {
        Company::Alone => Duration::ZERO,
        Company::Beside => period,
    }
}

/// Multiples of it divide the period.
fn quantum(period: Duration) -> Duration {
    QUANTUM.max(Duration::from_ns(period.ns() / PARTS))
}

/// Ascending, all within the bounds.
fn periods(shortest: Duration, longest: Duration) -> impl Iterator<Item = Duration> {
    let decades = (0..4).flat_map(|decade| PERIODS.map(|ms| Duration::from_ms(ms * 10u64.pow(decade))));
    std::iter::once(Duration::from_ms(5)).chain(decades).filter(move |p| (shortest..=longest).contains(p))
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
    // Longer ones first: seldom is a shorter one cheaper, and then that is seen at once.
    for period in bounded.into_iter().rev() {
        let less = asked.latency.checked_add(wait(asked.company, period)).ok_or(Error::Range)?;
        let objectives = objectives(&asked.points, less);
        // As much as the best so far, ties to the shorter period.
        let most = best.map_or(u128::from(period.ns()), |(best, _)| {
            u128::from(best.budget.ns()) * u128::from(period.ns()) / u128::from(best.period.ns())
        });
        let most = Duration::from_ns(u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(asked.loss.ns()));
        let Some(counted) = least(&question, &objectives, period, most)? else { continue };
        let Some(budget) = counted.checked_add(asked.loss).map(|b| b.max(asked.least)).filter(|b| *b <= period) else {
            continue;
        };
        let server = Interface { budget, period };
        if best.is_none_or(|(best, _)| server.bandwidth() <= best.bandwidth()) {
            best = Some((server, counted));
        }
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

/// The shortest latency that the percentile of `point` can have on the largest server there is, in tenths of a millisecond.
pub(crate) fn shortest_latency(service: &Service, host: &Host, facts: &Facts, point: Within) -> Option<Duration> {
    let Promise::Percentiles { arrivals, service: times, .. } = &service.promise else { return None };
    let chosen = choose(service, Wanted::Percentiles, facts).ok()?;
    let (most, _) = most_of_a_core(host, facts, chosen.backend);
    let deviation = deviation(chosen.backend, facts);
    let largest = |period: Duration| {
        let budget = u128::from(period.ns()) * u128::from(most.numer()) / u128::from(most.denom());
        let step = quantum(period).ns();
        let counted = u64::try_from(budget).ok()?.checked_sub(deviation.loss.ns())? / step * step;
        Some(Question { budget: Duration::from_ns(counted), period, ..question(*arrivals, times, Company::Alone) })
    };
    let latency = |question: &Question, precision| {
        let found = response(question, &[], &[point.percentile.percent()], precision).ok()?;
        found.percentiles.first()?.at.checked_add(deviation.latency)
    };
    let longest = chosen.limits.longest.min(Duration::from_ms(100));
    // As in the search, no period is longer than the latency, unless there is no shorter one.
    let chosen_anyway = chosen.limits.chosen;
    let seen = periods(chosen.limits.shortest, longest).filter_map(|period| {
        let question = largest(period)?;
        let seen = latency(&question, Precision::Glance)?;
        (seen >= period || period <= chosen_anyway).then_some((seen, question))
    });
    let (_, best) = seen.min_by_key(|(seen, _)| *seen)?;
    let least = latency(&best, ANSWER)?;
    // A little more than the last digit: what is looked for is found in steps.
    let tenths = least.ns().div_ceil(QUANTUM.ns()) + 1 + least.ns() / QUANTUM.ns() / 500;
    Some(Duration::from_ns(tenths * QUANTUM.ns()))
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

/// The server with its reasons.
fn tail(chose: Chose, asked: &Asked, limits: &Limits, deviation: &Deviation, (most, limit): (Bandwidth, &str)) -> Tail {
    let Chose { server, counted, predicted, slots, error_ppm } = chose;
    let Interface { budget, period } = server;
    let (company, shortest) = (asked.company, asked.shortest);
    let wait = wait(company, period);
    let utilization = question(asked.arrivals, &asked.service, company).utilization();
    let part_of = |time: Duration| Bandwidth::of(time, period).unwrap_or(Bandwidth::ZERO);
    let (required, margin) = (part_of(counted), part_of(budget.checked_sub(counted).unwrap_or(Duration::ZERO)));
    let law = match company {
        Company::Alone => "M/G(DS)/1: alone on its core it has the highest priority [LiH21, Algorithms 1 and 2]",
        Company::Beside => {
            "M/G(PS)/1 and a period: others of its core may go first, but not beyond the end of a period"
        }
    };
    let mut reasons = vec![
        reason("requests", asked.arrivals, format!("{}: {:.1} % of a core", asked.service, 100.0 * utilization)),
        reason("law", if company == Company::Alone { "M/G(DS)/1" } else { "P + M/G(PS)/1" }, law),
        reason(
            "period",
            time(period),
            format!(
                "of some from {} ({}) to the longest latency promised the one whose server is cheapest",
                time(shortest),
                limits.bounds
            ),
        ),
        reason(
            "required",
            format!("{} ({})", time(counted), share(required)),
            format!(
                "the least, in steps of {}, with which all percentiles are kept [LiH21, § 4.3], and at least 5 % more than \
                 the load",
                time(quantum(period))
            ),
        ),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason(
            "latency",
            time(deviation.latency),
            "added to every response time: timers, wake-ups and the kernel's own work",
        ),
    ];
    if company == Company::Beside {
        reasons.push(reason("wait", time(wait), "added to every response time: beside others, a period"));
    }
    reasons.push(reason(
        "budget",
        format!("{} ({})", time(budget), share(server.bandwidth())),
        format!("required + loss; at most {} ({limit})", share(most)),
    ));
    let certificate =
        Certificate::Percentiles { budget: counted, latency: deviation.latency, wait, predicted, slots, error_ppm };
    Tail { required, margin, certificate, reasons, company }
}
