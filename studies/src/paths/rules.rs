//! Two rules that divide the time and the messages that may be late among the stages first, and then give each the least server
//! that keeps its part.

use super::chain::{mean, Chain};
use super::Overhead;
use giusto_analysis::response::{Class, Server, Share, Tail};
use giusto_model::Duration;

/// How the time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each stage has as much of it.
    Equal,
    /// Each has as much of it as of the utilization.
    ByUtilization,
}

impl Rule {
    /// All there are.
    pub(crate) const ALL: [Rule; 2] = [Rule::Equal, Rule::ByUtilization];

    /// As tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rule::Equal => "equal",
            Rule::ByUtilization => "by-utilization",
        }
    }
}

/// By how much the rate may grow from stage to stage: the cheapest of these is taken, the same at all stages.
const GROWTHS: [f64; 3] = [0.02, 0.06, 0.15];
/// In ms: those from which the planner chooses where the manager enforces and was not measured.
const PERIODS: [u64; 13] = [5, 10, 15, 20, 25, 30, 40, 60, 80, 100, 150, 200, 250];

/// Bandwidth of all stages, so that all but `late` of the messages take `within` at most; `None`: with these parts there is none.
pub(crate) fn split(rule: Rule, chain: &Chain, within: Duration, late: f64, overhead: &[Overhead]) -> Option<f64> {
    let parts: Vec<f64> = match rule {
        Rule::Equal => vec![1.0; chain.times.len()],
        Rule::ByUtilization => chain.times.iter().map(mean).collect(),
    };
    let all: f64 = parts.iter().sum();
    let sum = |growth: f64| {
        let stage = |nth: usize| {
            let part = parts[nth] / all;
            let rate = chain.rate() / (1.0 - growth).powi(nth as i32);
            let each = if nth + 1 < parts.len() { rate / growth } else { 0.0 };
            let part = Part { within: within.ns() as f64 * part, late: late * part, rate, each };
            part.least(&chain.times[nth].bound(), overhead[nth])
        };
        (0..parts.len()).map(stage).sum::<Option<f64>>()
    };
    GROWTHS.into_iter().filter_map(sum).reduce(f64::min)
}

/// What a stage has to keep by itself: at this rate P(R > d) + `each` · E(R − d)⁺ ≤ `late`, with d = `within`.
struct Part {
    within: f64,
    late: f64,
    rate: f64,
    each: f64,
}

impl Part {
    /// What the least server takes.
    fn least(&self, service: &[(Duration, f64)], overhead: Overhead) -> Option<f64> {
        let Overhead { loss, latency, each } = overhead;
        let mut best: Option<f64> = None;
        for period in PERIODS.map(Duration::from_ms).into_iter().filter(|period| (period.ns() as f64) < self.within) {
            let step = (period.ns() / 200).max(100_000);
            let kept = |steps: u64| {
                let share = Share { server: Server::Periodic, budget: Duration::from_ns(steps * step), period };
                let Ok(tail) = Tail::new(share, &[Class { rate: self.rate, service }], service) else { return false };
                tail.least(1.0, self.each, self.late).0 + (period.ns() + latency.ns()) as f64 <= self.within
            };
            // No more than the best so far.
            let most = period.ns() as f64 * best.unwrap_or(1.0);
            let (mut low, mut high) = (0, (most as u64).saturating_sub(loss.ns() + each.ns()) / step);
            if high == 0 || !kept(high) {
                continue;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                *(if kept(middle) { &mut high } else { &mut low }) = middle;
            }
            let cost = overhead.cost(high * step, period.ns());
            best = Some(best.map_or(cost, |best| best.min(cost)));
        }
        best
    }
}
