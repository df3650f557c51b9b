//! The least bandwidth of two stages, by trying all servers of the steps in which the planner looks for them.

use super::chain::{mean, Chain};
use super::Overhead;
use crate::Error;
use giusto_analysis::path::{within_by, Flow, Laws, Net, Source, Stage, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_model::{Duration, PathSource};

/// In ms: those from which the planner chooses where the manager enforces and was not measured.
const PERIODS: [u64; 8] = [5, 10, 15, 20, 25, 30, 40, 60];
/// The planner counts on no less of a core than this many times what the messages need.
const LEAST_OF_LOAD: f64 = 1.05;
/// What the host keeps free of a core.
const MOST: f64 = 0.95;

/// Least bandwidth of all pairs of servers with which all but `late` of the messages take `within` at most, and how many pairs
/// there are; `than` where none takes less than that. Along one pair of periods the least budget of the second stage falls as
/// that of the first grows, so a budget of the second is only looked for where the pair would cost less than the best so far.
///
/// # Errors
/// A path in periods; what is no matter of the servers.
pub(crate) fn least(
    chain: &Chain,
    within: Duration,
    late: f64,
    overhead: &[Overhead],
    than: f64,
) -> Result<(f64, u64), Error> {
    let PathSource::Poisson(rate) = chain.source else { return Err(giusto_analysis::Error::Range.into()) };
    let bounds: Vec<_> = chain.times.iter().map(giusto_model::ServiceTime::bound).collect();
    let taken: u64 = overhead.iter().map(|one| one.latency.ns()).sum();
    let left = within.ns().saturating_sub(taken);
    let mut laws = Laws::default();
    let mut kept = |servers: [(u64, u64); 2]| {
        let stage = |(budget, period): (u64, u64)| {
            let (budget, period) = (Duration::from_ns(budget), Duration::from_ns(period));
            Stage::Share { share: Share { server: Server::Deferrable, budget, period }, company: true }
        };
        let visit = |nth: usize| Visit { stage: nth, service: bounds[nth].clone(), hold: Duration::ZERO };
        let flow = Flow::line(Source::Poisson(rate), vec![visit(0), visit(1)]);
        let net = Net { stages: servers.map(stage).to_vec(), flows: vec![flow] };
        // Where a stage has no law with these servers, there is no bound.
        within_by(&net, 0, late, &mut laws).is_ok_and(|found| found.within.ns() <= left)
    };
    let loads: Vec<f64> = chain.times.iter().map(|time| mean(time) * chain.rate()).collect();
    let periods = || PERIODS.into_iter().map(|ms| ms * 1_000_000).filter(|period| *period <= within.ns());
    let step = |period: u64| (period / 200).max(100_000);
    let range = |nth: usize, period: u64| {
        let least = (LEAST_OF_LOAD * loads[nth] * period as f64 / step(period) as f64).ceil() as u64;
        let most = ((MOST * period as f64) as u64).saturating_sub(overhead[nth].loss.ns()) / step(period);
        (least.max(1), most)
    };
    let cost = |nth: usize, steps: u64, period: u64| overhead[nth].cost(steps * step(period), period);
    let (mut best, mut pairs) = (than, 0);
    for (p, q) in periods().flat_map(|p| periods().map(move |q| (p, q))) {
        let ((low, high), (least, most)) = (range(0, p), range(1, q));
        pairs += (high + 1).saturating_sub(low) * (most + 1).saturating_sub(least);
        for first in low..=high {
            let cheaper = |second: u64| cost(0, first, p) + cost(1, second, q) < best;
            let mut second = most;
            while second >= least && !cheaper(second) {
                second -= 1;
            }
            if second < least || !kept([(first * step(p), p), (second * step(q), q)]) {
                continue;
            }
            let mut without = least - 1;
            while second - without > 1 {
                let middle = without + (second - without) / 2;
                *(if kept([(first * step(p), p), (middle * step(q), q)]) { &mut second } else { &mut without }) =
                    middle;
            }
            best = cost(0, first, p) + cost(1, second, q);
        }
    }
    Ok((best, pairs))
}
