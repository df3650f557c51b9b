//! What a resource supplies: the least processor time in any window of a length.

use giusto_model::{Bandwidth, Duration};
use serde::{Deserialize, Serialize};

/// A resource model. 0 < budget ≤ period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Resource {
    /// Θ somewhere in every Π: the periodic resource, general (Shin & Lee; paper 002 eq. 1, "otherwise").
    Periodic {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
    },
    /// The same where windows of interest begin with a period of it or of a task, and all periods divide each other pairwise
    /// (ARINC 653; paper 002 eq. 1, "harmonic"). The caller asserts that releases sit on its boundaries; divisibility is checked.
    Aligned {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
    },
    /// Θ within the first Δ of every Π: the explicit deadline periodic resource (EDP). budget ≤ deadline ≤ period.
    ExplicitDeadline {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// Δ
        #[serde(rename = "deadline_ns")]
        deadline: Duration,
    },
    /// Fixed slots [from, to) in a table that repeats (paper 004, "Static Time Partitioning").
    Table {
        /// Its length.
        #[serde(rename = "cycle_ns")]
        cycle: Duration,
        /// Ascending, apart, within the cycle.
        slots: Vec<[Duration; 2]>,
    },
    /// α(t − Δ)⁺ (paper 004, "A Linear Approximation"), rounded down to whole ns.
    Linear {
        /// α
        bandwidth: Bandwidth,
        /// Δ
        #[serde(rename = "delay_ns")]
        delay: Duration,
    },
    /// Θ in every Π on at most `cores` processors at a time (MPR), to all of them together.
    Multi {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ ≤ cores · Π
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// m
        cores: u32,
    },
}

impl Resource {
    /// sbf(t): the least that is supplied in any window of length `t`.
    pub fn supply(&self, t: Duration) -> Duration {
        Duration::from_ns(match *self {
            Resource::Periodic { period, budget } => delayed(t, period.ns(), budget.ns(), period.ns()),
            Resource::ExplicitDeadline { period, budget, deadline } => {
                delayed(t, period.ns(), budget.ns(), deadline.ns())
            }
            Resource::Aligned { period, budget } => {
                let (full, rest) = (t.ns() / period.ns(), t.ns() % period.ns());
                full * budget.ns() + rest.saturating_sub(period.ns() - budget.ns())
            }
            Resource::Table { .. } | Resource::Linear { .. } | Resource::Multi { .. } => todo!("helpers"),
        })
    }
}

/// EDP (Easwaran, Anand, Lee 2007, eq. 7); with Δ = Π the general periodic resource of paper 002, eq. 1.
fn delayed(t: Duration, period: u64, budget: u64, deadline: u64) -> u64 {
    let Some(rest) = t.ns().checked_sub(deadline - budget) else { return 0 };
    let full = rest / period;
    full * budget + (rest % period).saturating_sub(period - budget)
}
