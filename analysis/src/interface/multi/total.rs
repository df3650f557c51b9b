//! What several virtual CPUs supply together.

use crate::admission::Grids;
use crate::interface::{Resource, ResourceError};
use giusto_model::{Bandwidth, Duration};

/// Virtual CPUs of one period, each with a budget of its own on a core of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// Π
    pub period: Duration,
    /// Of each virtual CPU.
    pub budgets: Vec<Duration>,
    /// Aligned: all periods begin together, so that Θ = Σ budgets comes in every Π on at most m at a time, and
    /// [`Resource::Multi`] bounds it. Apart: each comes when it likes, and Σ sbf bounds it. The second holds in both cases,
    /// and for servers without a grid.
    pub grids: Grids,
}

impl Total {
    /// Whether each makes sense, and all together.
    pub(super) fn validate(&self) -> Result<(), ResourceError> {
        self.each().try_for_each(|one| one.validate())?;
        self.multi().validate()
    }

    /// Θ.
    pub(super) fn budget(&self) -> Duration {
        self.budgets
            .iter()
            .fold(Duration::ZERO, |all, one| all.checked_add(*one).unwrap_or(Duration::from_ns(u64::MAX)))
    }

    /// Θ/Π.
    pub(super) fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(self.budget(), self.period).unwrap_or(Bandwidth::ZERO)
    }

    /// The least that all supply together in any window of length t.
    pub fn supply(&self, t: Duration) -> u128 {
        match self.grids {
            Grids::Aligned => self.multi().supply(t).ns().into(),
            Grids::Apart => self.each().map(|one| u128::from(one.supply(t).ns())).sum(),
        }
    }

    /// Δ of a line below: supply(t) ≥ Θ/Π · (t − Δ).
    pub(super) fn delay(&self) -> u128 {
        match self.grids {
            Grids::Aligned => self.multi().delay(),
            Grids::Apart => self.each().map(|one| one.delay()).max().unwrap_or(0),
        }
    }

    /// Where supply can change its slope, modulo Π: it stands still until 2Π − 2Θ/m and every Π later, and then grows by m a
    /// ns until it stands still again at 2Π − Θ/m; in whole ns it may grow by less in the first and in the last of them.
    pub(super) fn corners(&self) -> Vec<u64> {
        let parts = match self.grids {
            Grids::Aligned => vec![(self.budget().ns(), self.budgets.len() as u64)],
            Grids::Apart => self.budgets.iter().map(|budget| (budget.ns(), 1)).collect(),
        };
        let period = self.period.ns();
        let of = |(budget, cores): (u64, u64)| {
            // Lengths back from 2Π, at most as long.
            let (begins, ends) = ((2 * budget).div_ceil(cores), budget / cores);
            [begins, begins.saturating_sub(1), ends + 1, ends].map(|back| (2 * period - back) % period)
        };
        let mut corners: Vec<u64> = parts.into_iter().flat_map(of).collect();
        corners.sort_unstable();
        corners.dedup();
        corners
    }

    fn multi(&self) -> Resource {
        // As many virtual CPUs as fit into memory.
        Resource::Multi { period: self.period, budget: self.budget(), cores: self.budgets.len() as u32 }
    }

    fn each(&self) -> impl Iterator<Item = Resource> + '_ {
        self.budgets.iter().map(|&budget| Resource::Periodic { period: self.period, budget })
    }
}
