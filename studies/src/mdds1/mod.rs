//! Requests at random on a deferrable server: what the studies of [LiH21, chapter 4] share.

pub(crate) mod measured;
pub(crate) mod redis;
pub(crate) mod select;
pub(crate) mod sweep;
pub(crate) mod synthetic;

use crate::{Error, Size};
use giusto_analysis::response::{response, Precision, Question, Server};
use giusto_model::Duration;
use giusto_simulator::sample;

/// λ, d, B, P, the last three in µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// As it is written: `0.4/ms`.
    pub(crate) rate: &'static str,
    /// d
    pub(crate) service: u64,
    /// B
    pub(crate) budget: u64,
    /// P
    pub(crate) period: u64,
}

impl Case {
    pub(crate) fn question(self) -> Question {
        let us = Duration::from_us;
        Question {
            server: Server::Deferrable,
            budget: us(self.budget),
            period: us(self.period),
            rate: self.rate.parse().expect("a constant"),
            service: vec![(us(self.service), 1.0)],
            batch: vec![(1, 1.0)],
        }
    }
}

/// The share of response times up to each of `at` by three methods: `numerical` (the limit of no slots), `n20` (the paper's model
/// with its N = 20), and `simulated` by the policy core, with random numbers of their own for each `stream`.
pub(crate) fn shares(
    question: &Question,
    at: &[Duration],
    size: &Size,
    stream: u64,
) -> Result<[(&'static str, Vec<f64>); 3], Error> {
    let analysed = |precision| -> Result<Vec<f64>, Error> {
        Ok(response(question, at, &[], precision)?.cdf.into_iter().map(|at| at.p).collect())
    };
    let jobs = (question.rate.per_ns() * size.length.ns() as f64) as u64;
    let simulated = sample(question, at, &[], jobs, size.seed << 32 | stream)?;
    Ok([
        ("numerical", analysed(Precision::default())?),
        ("n20", analysed(Precision::Slots(20))?),
        ("simulated", simulated.cdf.iter().map(|share| share.value).collect()),
    ])
}

/// k/10 of `unit`.
pub(crate) fn tenths(unit: Duration, k: u64) -> Duration {
    Duration::from_ns(unit.ns() * k / 10)
}
