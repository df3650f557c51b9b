//! `giusto analyze response`: the distribution of response times of requests at random.

use crate::notation::{shares, Weighted};
use crate::Error;
use giusto_analysis::response::{line, response, At, Line, Percentile, Precision, Response, Server};
use giusto_model::{Bandwidth, Duration, Rate};
use giusto_simulator::{sample, Sampled};
use serde::Serialize;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::{thread, time};

/// What is told where nothing is asked for.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Jobs of a simulation, and their seed.
const JOBS: u64 = 2_000_000;
const SEED: u64 = 1;
/// Periods of service of a simulation at most, and runs of which each leaves its first tenth out.
const PERIODS: f64 = 4e7;
const RUNS: f64 = 20.0;
/// After so long the queue is simulated instead of solved; where a time is given, after half of that.
const PATIENCE: Duration = Duration::from_secs(2);

/// Requests that come at random.
#[derive(Clone, Debug)]
pub struct Requests {
    /// How often (Poisson), or how often batches of them.
    pub rate: Rate,
    /// Service times, and their shares.
    pub service: Vec<(Duration, f64)>,
    /// How many come together.
    pub batch: Vec<Weighted<u32>>,
    /// What becomes of the budget of an idle server.
    pub server: Server,
}

impl Requests {
    /// On a share.
    pub fn on(&self, budget: Duration, period: Duration) -> giusto_analysis::response::Question {
        giusto_analysis::response::Question {
            server: self.server,
            budget,
            period,
            rate: self.rate,
            service: self.service.clone(),
            batch: shares(&self.batch),
        }
    }
}

/// Each measured service time with its share.
pub fn measured(times: Vec<u64>) -> Vec<(Duration, f64)> {
    let each = 1.0 / times.len() as f64;
    times.into_iter().map(|ns| (Duration::from_ns(ns), each)).collect()
}

/// Which distribution.
#[derive(Clone, Debug)]
pub struct Question {
    /// What comes.
    pub requests: Requests,
    /// Of the server; the period for a whole core.
    pub budget: Duration,
    /// Of the server.
    pub period: Duration,
    /// The share of response times up to these.
    pub at: Vec<Duration>,
    /// Without these and those, p50, p90, p99 and p99.9.
    pub percentiles: Vec<f64>,
    /// The paper's model on one grid with so many slots in a mean service time; `None`: the limit.
    pub slots: Option<u32>,
    /// For so long at most; `None`: until the queue is solved or 2 s are over, then simulated.
    pub most: Option<Duration>,
}

/// What `response --json` prints (`formats/response.schema.json`).
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Where the numbers come from.
    pub method: Method,
    /// What was asked for.
    #[serde(flatten)]
    pub response: Response,
    /// Never too optimistic: with service times rounded up to whole slots, where they are not; of a line its later end.
    pub bound: Option<Response>,
    /// The intervals, where it was simulated.
    pub simulated: Option<Sampled>,
    /// Of a line: by how much no response is longer, or shorter.
    #[serde(skip)]
    pub delay: Option<Duration>,
}

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The chain was solved.
    Analysis,
    /// It is too large.
    Simulation,
    /// By a core of the speed of the server.
    Line,
}

impl Question {
    /// As it was asked for, or what is told where nothing is.
    pub fn told_percentiles(&self) -> &[f64] {
        if self.percentiles.is_empty() && self.at.is_empty() {
            &PERCENTILES
        } else {
            &self.percentiles
        }
    }

    /// The distribution.
    ///
    /// # Errors
    /// A load that does not fit; requests that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let question = self.requests.on(self.budget, self.period);
        let percentiles = self.told_percentiles();
        let of = |precision| response(&question, &self.at, percentiles, precision);
        let answer = match self.slots {
            Some(slots) => of(Precision::Slots(slots)),
            None => {
                let patience = self.most.map_or(PATIENCE, |most| Duration::from_ns(most.ns() / 2));
                use giusto_analysis::Error::Fine;
                match (solved(&question, &self.at, percentiles, patience)?, jobs(&question)) {
                    (Some(Err(Fine { .. })) | None, Some(jobs)) => return self.simulated(&question, jobs),
                    (Some(Err(Fine { .. })) | None, None) => return self.bounded(&question),
                    (Some(answer), _) => answer,
                }
            }
        };
        let answer = answer.map_err(refused)?;
        let of = |precision| of(precision).map_err(refused);
        let up = self.slots.map(|slots| of(Precision::SlotsUp(slots))).transpose()?;
        let bound = up.filter(|bound| *bound != answer);
        Ok(Answer { method: Method::Analysis, response: answer, bound, simulated: None, delay: None })
    }

    /// Where neither the chain nor a simulation says anything in time: two ends, at once.
    fn bounded(&self, question: &giusto_analysis::response::Question) -> Result<Answer, Error> {
        let Line { about, most, delay } = line(question, &self.at, self.told_percentiles()).map_err(refused)?;
        Ok(Answer { method: Method::Line, response: about, bound: Some(most), simulated: None, delay: Some(delay) })
    }

    /// Where the chain is too large to be solved.
    fn simulated(&self, question: &giusto_analysis::response::Question, jobs: u64) -> Result<Answer, Error> {
        let percentiles = self.told_percentiles();
        let found = sample(question, &self.at, percentiles, jobs, SEED).map_err(Error::running)?;
        let time = |ns: f64| Duration::from_ns(ns.max(0.0).round() as u64);
        let cdf = self.at.iter().zip(&found.cdf).map(|(&at, share)| At { at, p: share.value });
        let tiles = percentiles.iter().zip(&found.percentiles_ns);
        let response = Response {
            mean: time(found.mean_ns.value),
            cdf: cdf.collect(),
            percentiles: tiles.map(|(&p, at)| Percentile { p, at: time(at.value) }).collect(),
            slots: 0.0,
            error: None,
            lost: 0.0,
            utilization: question.utilization(),
            bandwidth: Bandwidth::of(question.budget, question.period).unwrap_or(Bandwidth::ONE),
        };
        Ok(Answer { method: Method::Simulation, response, bound: None, simulated: Some(found), delay: None })
    }
}

/// The answer of the chain; `None`: it takes longer than `patience`. What still computes then goes on until it is done: a
/// caller that asks many such questions sets their slots.
fn solved(
    question: &giusto_analysis::response::Question,
    at: &[Duration],
    percentiles: &[f64],
    patience: Duration,
) -> Result<Option<Result<Response, giusto_analysis::Error>>, Error> {
    let (to, from) = channel();
    let (question, at, percentiles) = (question.clone(), at.to_vec(), percentiles.to_vec());
    let solve = move || {
        let _ = to.send(response(&question, &at, &percentiles, Precision::default()));
    };
    thread::Builder::new().spawn(solve).map_err(Error::running)?;
    match from.recv_timeout(time::Duration::from_nanos(patience.ns())) {
        Ok(answer) => Ok(Some(answer)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(Error::running("the computation broke off")),
    }
}

/// How many jobs a simulation may play; `None`: they would say nothing. A queue of load ρ forgets how it began within some
/// 4/(1 − ρ)² jobs, which must be over in what each run leaves out.
fn jobs(question: &giusto_analysis::response::Question) -> Option<u64> {
    let bandwidth = question.budget.ns() as f64 / question.period.ns() as f64;
    let free = 1.0 - question.utilization() / bandwidth;
    let work: f64 = question.service.iter().map(|(time, p)| p * time.ns() as f64).sum();
    let periods = work / question.budget.ns() as f64 + 1.0;
    let jobs = (JOBS as f64).min(PERIODS / periods);
    (free > 0.0 && jobs / RUNS / 10.0 * free.powi(2) >= 4.0).then_some(jobs as u64)
}

/// A load that does not fit is a refusal, all else bad input.
pub fn refused(error: giusto_analysis::Error) -> Error {
    match error {
        giusto_analysis::Error::Unstable { .. } => Error::does_not_fit(error),
        _ => Error::input(error),
    }
}
