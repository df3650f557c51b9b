//! `giusto analyze slo`: the cheapest server with which percentiles of response times are kept.

use crate::response::{refused, Requests};
use crate::Error;
use giusto_analysis::response::{pareto, slo, Choice, Objective, Verdict};
use giusto_model::Duration;
use serde::Serialize;

/// Which objectives.
#[derive(Clone, Debug)]
pub struct Question {
    /// What comes.
    pub requests: Requests,
    /// All of them are kept.
    pub objectives: Vec<Objective>,
    /// Server periods to look at; none: from a quarter of the mean service time to 16 times it.
    pub periods: Vec<Duration>,
    /// Budgets are multiples of this.
    pub quantum: Duration,
}

/// What `slo --json` prints (`formats/slo.schema.json`).
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// One a period with which the objectives can be kept.
    pub choices: Vec<Choice>,
    /// Those of them that no other beats both in bandwidth and in hold, by their periods.
    pub pareto_period_ns: Vec<Duration>,
    /// Of each period that was looked at.
    #[serde(skip)]
    pub found: Vec<(Duration, Option<Choice>)>,
}

impl Question {
    /// The choices.
    ///
    /// # Errors
    /// Objectives that even a whole core does not keep; requests that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let question = self.requests.on(Duration::from_ns(1), Duration::from_ns(1));
        let quantum = self.quantum;
        if quantum.is_zero() {
            return Err(Error::input("expected a quantum of more than nothing, such as 1us"));
        }
        let mean: f64 = question.service.iter().map(|(time, p)| time.ns() as f64 * p).sum();
        let scan = (-2..=4).map(|power| (mean * f64::from(power).exp2()) as u64 / quantum.ns() * quantum.ns());
        let scan = scan.filter(|ns| *ns > 0).map(Duration::from_ns).collect();
        let periods = if self.periods.is_empty() { scan } else { self.periods.clone() };
        let found = match slo(&question, &self.objectives, &periods, quantum).map_err(refused)? {
            Verdict::Unachievable { objective: Objective { percentile, within }, limit, least } => {
                return Err(Error::does_not_fit(format!(
                    "p{percentile} = {within} is unachievable: even a whole core serves only {limit:.2} % within it, and its \
                     p{percentile} is {least:.3} (M/G/1); expected a longer latency, shorter service times, or fewer requests"
                )));
            }
            Verdict::Achievable(found) => found,
        };
        let choices: Vec<Choice> = found.iter().flatten().cloned().collect();
        let best: Vec<Duration> = pareto(&choices).iter().map(|choice| choice.period).collect();
        Ok(Answer { choices, pareto_period_ns: best, found: periods.into_iter().zip(found).collect() })
    }
}
