//! Paths of random services: what it saves to choose all their servers together, and how far what is proven is from what
//! messages take.

mod chain;
mod exhaustive;
mod rules;
pub(crate) mod split;
pub(crate) mod tightness;

use crate::Error;
use chain::Chain;
use giusto_model::{Certificate, Duration, Plan, Within};
use giusto_planner::{plan, Facts, Refusal};

/// Services of a path, and what the busiest needs of a core, in percent.
const SERVICES: [usize; 3] = [2, 4, 6];
const LOADS: [u64; 3] = [10, 30, 60];

/// What the backend of a stage costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead {
    /// Of each budget.
    pub(crate) loss: Duration,
    /// Once a message.
    pub(crate) latency: Duration,
    /// What the manager takes for each period.
    pub(crate) each: Duration,
}

impl Overhead {
    /// What a server takes of a core with all that.
    pub(crate) fn cost(self, budget: u64, period: u64) -> f64 {
        (budget + self.loss.ns() + self.each.ns()) as f64 / period as f64
    }
}

/// The plan of a path with these percentiles; `None`: it cannot be kept.
///
/// # Errors
/// A refusal for any other reason, which a generated site does not have.
pub(crate) fn planned(chain: &Chain, points: Vec<Within>) -> Result<Option<Plan>, Error> {
    let facts = Facts { host: None, ..Facts::typical(vec![0]) };
    match plan(&chain.site(points), &facts) {
        Ok(plan) => Ok(Some(plan)),
        Err(Refusal::Path(_)) => Ok(None),
        Err(why) => Err(Error::Size(format!("a generated path has no plan: {why}"))),
    }
}

/// By stage.
pub(crate) fn overheads(plan: &Plan) -> Vec<Overhead> {
    let of = |entry: &giusto_model::ServicePlan| match entry.certificate {
        Certificate::Stage { budget, latency } => {
            let loss = entry.server.budget.checked_sub(budget).unwrap_or_default();
            Overhead { loss, latency, each: Facts::PERIOD_COST }
        }
        _ => Overhead { loss: Duration::ZERO, latency: Duration::ZERO, each: Facts::PERIOD_COST },
    };
    plan.services.iter().map(of).collect()
}

/// What all its services take, in cores: what they reserve, and what the manager takes for their periods.
pub(crate) fn taken(plan: &Plan) -> f64 {
    let one = |entry: &giusto_model::ServicePlan| {
        let each = Facts::PERIOD_COST.ns() as f64 / entry.server.period.ns() as f64;
        entry.server.bandwidth().as_f64() + each
    };
    plan.services.iter().map(one).sum()
}

/// A percentile within a time.
pub(crate) fn within(percentile: &str, time: Duration) -> Within {
    Within { percentile: percentile.parse().expect("a percentile"), within: time }
}

/// Quantiles of samples: least, quartiles, most.
fn quantiles(mut all: Vec<f64>) -> Option<[f64; 5]> {
    all.sort_by(f64::total_cmp);
    let most = all.len().checked_sub(1)?;
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(|part| all[(most as f64 * part).round() as usize]))
}
