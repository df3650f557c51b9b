//! What is asked: a service and its share, and how fine.

use crate::Error;
use giusto_model::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    /// Keeps its budget while idle: M/G(DS)/1.
    Deferrable,
    /// Its budget runs off at a fixed place in each period: M/G(PS)/1. Poisson arrivals do not care where that place is.
    Periodic,
    /// Its period begins anew with a request after a rest, as SCHED_DEADLINE's does: [`reanchored`].
    ConstantBandwidth,
}

/// A service and its share. Budget = period is the whole core, M/G/1.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Who serves.
    pub server: Server,
    /// B
    pub budget: Duration,
    /// P
    pub period: Duration,
    /// λ: how often a request, or a batch of them, comes.
    pub rate: Rate,
    /// Service times and their probabilities (Σ = 1): one for M/D/1, a measured histogram as it is.
    pub service: Vec<(Duration, f64)>,
    /// Sizes of batches and their probabilities (Σ = 1); `[(1, 1.0)]` where requests come alone.
    pub batch: Vec<(u32, f64)>,
}

impl Question {
    /// λ in 1/ns.
    pub(super) fn rate_per_ns(&self) -> f64 {
        self.rate.per_ns()
    }

    /// Mean service time of one request in ns.
    pub(super) fn mean_service(&self) -> f64 {
        self.service.iter().map(|(time, p)| p * time.ns() as f64).sum()
    }

    /// U = λ · mean size · mean service.
    pub fn utilization(&self) -> f64 {
        let size: f64 = self.batch.iter().map(|&(size, p)| p * f64::from(size)).sum();
        self.rate_per_ns() * size * self.mean_service()
    }

    /// The same service on a whole core: M/G/1. With B = P the period does not matter; a short one is solved fastest.
    pub(super) fn whole_core(&self) -> Question {
        let shortest = self.service.iter().map(|(time, _)| time.ns()).min().unwrap_or(0);
        // Service times far shorter than the mean would have far too many slots.
        let period = Duration::from_ns(shortest.max((self.mean_service() / 10.0) as u64).max(1));
        Question { server: Server::Deferrable, budget: period, period, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.period.is_zero() {
            return Err(Error::Period);
        }
        if self.budget.is_zero() || self.budget > self.period {
            return Err(Error::Budget { budget: self.budget, period: self.period });
        }
        let sums_to_one = |sum: f64| (sum - 1.0).abs() < 1e-6;
        let fair = |p: f64| p.is_finite() && p >= 0.0;
        let service = self.service.iter().all(|(time, p)| !time.is_zero() && fair(*p));
        if !service || !sums_to_one(self.service.iter().map(|(_, p)| p).sum()) {
            return Err(Error::Distribution { what: "service times" });
        }
        let batch = self.batch.iter().all(|(size, p)| *size > 0 && fair(*p));
        if !batch || !sums_to_one(self.batch.iter().map(|(_, p)| p).sum()) {
            return Err(Error::Distribution { what: "batch sizes" });
        }
        let bandwidth = self.budget.ns() as f64 / self.period.ns() as f64;
        if self.rate_per_ns() <= 0.0 || self.utilization() >= bandwidth * (1.0 - 1e-6) {
            let percent = |share: f64| format!("{:.2} %", 100.0 * share);
            let (utilization, bandwidth) = (percent(self.utilization()), percent(bandwidth));
            return Err(Error::Unstable { utilization, bandwidth });
        }
        Ok(())
    }
}

/// How fine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// Slots are halved until what was asked for moves by less than this, or by less than 1e-3 where service times are no whole
    /// slots: see [`Response::error`].
    Within(f64),
    /// One pair of grids, whose error is known by its order only: some thousandths of probability at most in what was tried.
    /// An eighth of the time and less, for looking around.
    Glance,
    /// The paper's model on one grid with so many slots (or a few more, to divide B and P) in a mean service time, its bias
    /// included: N of Table 4.1.
    Slots(u32),
    /// The same, with service times between two slots' ends rounded up: never too optimistic about them.
    SlotsUp(u32),
}

impl Default for Precision {
    fn default() -> Self {
        Precision::Within(2e-3)
    }
}
