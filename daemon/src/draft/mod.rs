//! The first site file of a service that runs: found by its name, watched for a while, and described as it was
//! observed.
//!
//! Called by `giusto init`. Flows in: a process id, a unit or a container; out: the text of a site file that can be
//! checked and planned. It enforces nothing, and needs no privilege but to look at the process.

mod find;
mod numbers;
mod observed;
mod text;

pub use find::{find, host_name, Found};
pub use numbers::Demand;
pub use observed::{Answered, Observed};

use giusto_measure::watch::{pattern, Pattern, Shape};
use giusto_model::Duration;
use giusto_planner::Facts;
use serde::Serialize;

/// A draft of a site file, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The file.
    pub text: String,
    /// What it says that the service has to do, and what it is promised.
    pub demand: Demand,
    /// The same in numbers, for scripts.
    pub summary: Summary,
}

/// What was observed (`formats/init.schema.json`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The service's name in the site.
    pub service: String,
    /// How it is adopted, in words.
    pub adopt: String,
    /// Its processes.
    pub processes: Vec<u32>,
    /// How long it was watched.
    pub length_ns: u64,
    /// Processor time as a part of one core.
    pub utilization: f64,
    /// How often it became busy.
    pub activations: u64,
    /// In a second.
    pub rate_per_s: f64,
    /// Processor time of an activation: mean, p99, greatest.
    pub execution_ns: [u64; 3],
    /// `periodic`, `poisson`, `bursty` or `even`.
    pub shape: &'static str,
    /// Standard deviation of the gaps over their mean.
    pub variation: f64,
    /// Variance of counts over their mean.
    pub dispersion: f64,
    /// Kolmogorov-Smirnov distance of the gaps from an exponential law.
    pub distance: f64,
    /// Whether an exponential law fits.
    pub exponential: bool,
    /// Response time of the requests that it was sent: 90th and 99th percentile. `None`: it was sent none.
    pub response_ns: Option<[u64; 2]>,
}

/// Longest percentiles that are promised, in ms: the first that can be planned without much more than the service
/// takes.
const WITHIN_MS: [u64; 9] = [5, 10, 20, 40, 80, 160, 320, 640, 1280];
/// More than this part of a core beyond the load that is planned for is not reserved for a shorter percentile.
const BEYOND: f64 = 0.2;
/// Seed of what is drawn to judge a pattern.
const SEED: u64 = 1;

/// Writes the site file that describes `observed` and that a machine of these `facts` can plan.
///
/// # Errors
/// In words, where activations say nothing.
pub fn draft(observed: &Observed, facts: &Facts) -> Result<Draft, String> {
    let nothing = || "nothing can be said of so few activations; watch it for longer".to_string();
    let pattern = pattern(&observed.watched.bursts, SEED).ok_or_else(nothing)?;
    let first = numbers::demand(observed.watched, &pattern);
    let (demand, text) = planned(observed, &pattern, first, facts);
    Ok(Draft { text, demand, summary: summary(observed, &pattern) })
}

/// The demand with a promise that fits, and its text.
fn planned(observed: &Observed, pattern: &Pattern, first: Demand, facts: &Facts) -> (Demand, String) {
    let load = observed.watched.utilization();
    let written = |demand: &Demand| text::text(observed, pattern, demand);
    let mut fits: Option<(Demand, String)> = None;
    for demand in candidates(first).into_iter().filter(|demand| demand.promises_what_is_kept(observed.answered)) {
        let text = written(&demand);
        let Some(share) = share(&text, facts) else { continue };
        let cheap = share <= demand.load() + BEYOND;
        fits = Some((demand, text));
        if cheap {
            break;
        }
    }
    fits.unwrap_or_else(|| {
        let demand = numbers::leftovers(load, "no reservation for it could be planned on one core");
        let text = written(&demand);
        (demand, text)
    })
}

/// The same demand with all promises that are tried, in this order.
fn candidates(demand: Demand) -> Vec<Demand> {
    match demand {
        Demand::Arrivals { .. } => WITHIN_MS.iter().map(|ms| demand.clone().within(Duration::from_ms(*ms))).collect(),
        other => vec![other],
    }
}

/// The share of a core that a site's services get; `None` where it cannot be read or does not fit.
fn share(text: &str, facts: &Facts) -> Option<f64> {
    let site = giusto_site::parse("draft", text).ok()?;
    let plan = giusto_planner::plan(&site, facts).ok()?;
    let of = |budget: Duration, period: Duration| budget.ns() as f64 / period.ns().max(1) as f64;
    Some(plan.services.iter().map(|one| of(one.server.budget, one.server.period)).sum())
}

fn summary(observed: &Observed, pattern: &Pattern) -> Summary {
    let Observed { found, watched, .. } = observed;
    Summary {
        service: found.name.clone(),
        adopt: found.adopt.to_string(),
        processes: found.pids.clone(),
        length_ns: watched.length.ns(),
        utilization: watched.utilization(),
        activations: watched.activations,
        rate_per_s: pattern.rate,
        execution_ns: [watched.mean(), watched.execution(0.99), watched.execution(1.0)].map(|time| time.ns()),
        shape: match pattern.shape {
            Shape::Periodic(_) => "periodic",
            Shape::Poisson => "poisson",
            Shape::Bursty(_) => "bursty",
            Shape::Even => "even",
        },
        variation: pattern.variation,
        dispersion: pattern.dispersion,
        distance: pattern.distance,
        exponential: pattern.exponential,
        response_ns: observed.answered.map(|Answered { p90, p99, .. }| [p90, p99].map(|time| time.ns())),
    }
}

#[cfg(test)]
mod tests;
