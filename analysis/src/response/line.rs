//! Bounds where the queue of a server is too large to be solved: the server as a core of speed W = B/P.

use super::answer::{response, Response};
use super::question::{Precision, Question};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Rate};

/// Response times on a core of speed W, and those times and Δ = 2(P − B) later, than which none on the server is longer.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// On the core of speed W. On the server each request takes Δ longer at most, and Δ less at most.
    pub about: Response,
    /// Never too optimistic.
    pub most: Response,
    /// Δ
    pub delay: Duration,
}

/// The law of response times within Δ, for all kinds of server, at a cost that does not depend on its period.
///
/// In t ns throughout which it has work a server gives at least W(t − Δ), and at most W(t + Δ): 2B in a row, and B a period.
/// From the beginning of a busy period on, request for request, it is done with as much work Δ later at most, and Δ sooner at
/// most, than a core of speed W that had at that time nothing to do, so than one that had. On that core responses are those of
/// M/G/1 with the rate λ/W, 1/W times as long. Abe22 ("(α, Δ)"). Errors: as [`response`].
pub fn line(question: &Question, at: &[Duration], percentiles: &[f64]) -> Result<Line, Error> {
    question.check()?;
    let bandwidth = Bandwidth::of(question.budget, question.period).ok_or(Error::Period)?;
    let speed = bandwidth.as_f64();
    let delay = Duration::from_ns(2 * (question.period.ns() - question.budget.ns()));
    let alone = Question { rate: slower(question.rate, bandwidth).ok_or(Error::Range)?, ..question.whole_core() };
    let shorter = |time: u64| Duration::from_ns((time as f64 * speed) as u64);
    let earlier = |by: u64| move |time: &Duration| shorter(time.ns().saturating_sub(by));
    let law = |by: u64| {
        let times: Vec<Duration> = at.iter().map(earlier(by)).collect();
        let mut found = response(&alone, &times, percentiles, Precision::default())?;
        let longer = |time: Duration| Duration::from_ns((time.ns() as f64 / speed).ceil() as u64 + by);
        found.mean = longer(found.mean);
        found.percentiles.iter_mut().for_each(|percentile| percentile.at = longer(percentile.at));
        found.cdf.iter_mut().zip(at).for_each(|(found, at)| found.at = *at);
        (found.utilization, found.bandwidth) = (question.utilization(), bandwidth);
        Ok::<Response, Error>(found)
    };
    Ok(Line { about: law(0)?, most: law(delay.ns())?, delay })
}

/// λ/W, rounded up where that is no fraction of 64 bits.
fn slower(rate: Rate, bandwidth: Bandwidth) -> Option<Rate> {
    let (events, time) = rate.fraction();
    let mut top = u128::from(events) * u128::from(bandwidth.denom());
    let mut bottom = u128::from(time) * u128::from(bandwidth.numer());
    let common = num_integer::gcd(top, bottom);
    (top, bottom) = (top / common, bottom / common);
    let digits = u128::BITS - (top.max(bottom)).leading_zeros();
    let over = digits.saturating_sub(63);
    let top = u64::try_from((top >> over) + u128::from(over > 0)).ok()?;
    Rate::of(top, Duration::from_ns(u64::try_from(bottom >> over).ok()?))
}
