//! Several virtual CPUs under global EDF: the multiprocessor periodic resource (MPR).
//!
//! Source: Shin, Easwaran, Lee, "Hierarchical scheduling framework for virtual clustering of multiprocessors" (ECRTS 2008): Θ
//! in every Π, on at most m processors at a time, and a test for global EDF on any supply of that kind. The test is sufficient.
//! Copies of a task count one by one, offsets are ignored.
//!
//! Θ is split evenly, the first virtual CPUs have a quantum more. So the largest server is as small as it can be, which is
//! the easiest to place on cores, and none needs a whole core, which is never given away. And the supply then hardly depends
//! on alignment: m virtual CPUs of (Π, Θ/m) whose periods begin when they like supply Σ sbf, which *is* the bound of (Π, Θ, m)
//! if m divides Θ. Alignment counts only where the parts differ by a quantum. On cores of their own, Σ sbf of some whole
//! cores and one part would be more for the same Θ.

mod test;
mod total;

pub use total::Total;

use super::{check, ResourceError, Shortfall};
use crate::admission::Grids;
use crate::share::utilization;
use crate::Error;
use giusto_model::{Bandwidth, Duration, Task};
use serde::{Deserialize, Serialize};

/// What virtual CPUs are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// m: how many, at least 1.
    pub cores: u32,
    /// Budgets are whole numbers of it.
    pub quantum: Duration,
    /// Whether their periods begin together.
    pub grids: Grids,
    /// L: nothing is supplied in the first so much of any window.
    pub latency: Duration,
}

/// An interface of several virtual CPUs, each with a part of the budget in every period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vcpus {
    /// Π
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Θ, of all together.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// The part of each, larger ones first.
    #[serde(rename = "vcpus_ns")]
    pub vcpus: Vec<Duration>,
    /// Whether their periods must begin together.
    pub grids: Grids,
    /// Θ/Π; more than 1 if one core is not enough.
    pub bandwidth: Bandwidth,
    /// Σ C/T, copies counted.
    pub utilization: Bandwidth,
}

/// Why virtual CPUs are not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// In the long run: the bandwidth must be more than the utilization.
    Bandwidth {
        /// U.
        demand: Bandwidth,
        /// Θ/Π.
        supply: Bandwidth,
    },
    /// In one window that ends with a deadline of a task: `demand` is what others may run while they keep the task off, with
    /// all that is supplied while it runs itself.
    Window(Shortfall),
}

/// Whether `total` keeps every deadline of `tasks` under global EDF, with `latency` taken off every window.
///
/// Ok(Ok): how far windows had to be looked at; Ok(Err): the witness. Errors: an impossible task or supply, fractions of more
/// than 64 bits, a bandwidth so close to U that the answer takes millions of steps.
pub fn schedulable(tasks: &[Task], total: &Total, latency: Duration) -> Result<Result<Duration, Short>, Error> {
    check(tasks)?;
    total.validate()?;
    let (demand, supply) = (utilization(tasks)?, total.bandwidth());
    if supply <= demand {
        return Ok(Err(Short::Bandwidth { demand, supply }));
    }
    Ok(test::test(tasks, total, latency)?.map_err(Short::Window))
}

/// The least Θ for the period, each virtual CPU with one quantum at least; `None` if not even whole periods are enough.
///
/// Exact for the test: with more budget each virtual CPU can supply as with less, so that whatever passes still passes.
/// O(log(Π/quantum)) tests. Errors: as [`schedulable`], a quantum of 0, no core.
pub fn least_budget(tasks: &[Task], period: Duration, wanted: &Wanted) -> Result<Option<Vcpus>, Error> {
    let whole = whole(period, wanted)?;
    least(tasks, period, wanted, whole)
}

/// The fewest virtual CPUs for which some budget is enough, with the least; more than tasks are never needed. `None` if whole
/// periods of as many as tasks are not enough, which only a latency or a coarse quantum can cause. `wanted.cores` is ignored.
pub fn least_cores(tasks: &[Task], period: Duration, wanted: &Wanted) -> Result<Option<Vcpus>, Error> {
    check(tasks)?;
    let most: u64 = tasks.iter().map(|task| u64::from(task.copies)).sum();
    let load = utilization(tasks)?;
    let first = (load.numer() / load.denom()).max(1);
    for cores in first..=most {
        let cores = u32::try_from(cores).map_err(|_| Error::Range)?;
        if let Some(found) = least_budget(tasks, period, &Wanted { cores, ..*wanted })? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The least bandwidth over all periods from `shortest` to `longest` that are whole numbers of the quantum, each with its
/// least budget; ties go to the shorter period.
///
/// A period is tried with the largest budget of less bandwidth than the best so far, and searched if that is enough. Beyond
/// Π = (D/2 + quantum)/(1 − α/m), D the shortest deadline, nothing of a bandwidth up to α is supplied within D, so the search
/// ends there whatever `longest` is, as soon as one with α < m is found.
pub fn optimum(tasks: &[Task], shortest: Duration, longest: Duration, wanted: &Wanted) -> Result<Option<Vcpus>, Error> {
    check(tasks)?;
    if wanted.quantum.is_zero() {
        return Err(Error::Quantum);
    }
    if shortest.is_zero() || shortest > longest {
        return Err(Error::Period);
    }
    let quantum = wanted.quantum.ns();
    let first = tasks.iter().map(|task| task.deadline.ns()).min().unwrap_or(0);
    let mut best: Option<Vcpus> = None;
    let mut period = shortest.ns().div_ceil(quantum).checked_mul(quantum).ok_or(Error::Demand)?;
    while period <= longest.ns() {
        let at = Duration::from_ns(period);
        let most = match &best {
            None => whole(at, wanted)?,
            Some(best) if beyond(period, best.bandwidth, wanted, first) => break,
            Some(best) => below(period, best.bandwidth, quantum).min(whole(at, wanted)?),
        };
        best = least(tasks, at, wanted, most)?.or(best);
        let Some(next) = period.checked_add(quantum) else { break };
        period = next;
    }
    Ok(best)
}

/// The most quanta with less than `share` of `period`.
fn below(period: u64, share: Bandwidth, quantum: u64) -> u64 {
    let (top, bottom) = (u128::from(share.numer()) * u128::from(period), u128::from(share.denom()));
    let least = top.div_ceil(bottom * u128::from(quantum));
    u64::try_from(least.saturating_sub(1)).unwrap_or(u64::MAX)
}

/// Whether Π(1 − α/m) ≥ D/2 + quantum: then 2(Π − B) ≥ D for the largest part B ≤ αΠ/m + quantum.
fn beyond(period: u64, share: Bandwidth, wanted: &Wanted, deadline: u64) -> bool {
    let whole = u128::from(share.denom()) * u128::from(wanted.cores);
    let Some(rest) = whole.checked_sub(u128::from(share.numer())) else { return false };
    let left = (2 * u128::from(period)).checked_mul(rest);
    let need = (u128::from(deadline) + 2 * u128::from(wanted.quantum.ns())).checked_mul(whole);
    left.zip(need).is_some_and(|(left, need)| left >= need)
}

/// Quanta of whole periods.
fn whole(period: Duration, wanted: &Wanted) -> Result<u64, Error> {
    let quantum = wanted.quantum.ns();
    if quantum == 0 {
        return Err(Error::Quantum);
    }
    if wanted.cores == 0 {
        return Err(ResourceError::NoCores.into());
    }
    (period.ns() / quantum).checked_mul(wanted.cores.into()).ok_or(Error::Demand)
}

/// The least budget up to `most` quanta that is enough, each virtual CPU with one quantum at least.
fn least(tasks: &[Task], period: Duration, wanted: &Wanted, most: u64) -> Result<Option<Vcpus>, Error> {
    check(tasks)?;
    let total = |quanta: u64| split(period, quanta, wanted);
    let enough = |quanta: u64| Ok::<bool, Error>(schedulable(tasks, &total(quanta), wanted.latency)?.is_ok());
    let fewest = u64::from(wanted.cores);
    if most < fewest || !enough(most)? {
        return Ok(None);
    }
    let (mut low, mut high) = (fewest - 1, most); // short, enough
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    let total = total(high);
    Ok(Some(Vcpus {
        period,
        budget: total.budget(),
        bandwidth: total.bandwidth(),
        vcpus: total.budgets,
        grids: wanted.grids,
        utilization: utilization(tasks)?,
    }))
}

/// As many quanta as evenly as can be; at most whole periods.
fn split(period: Duration, quanta: u64, wanted: &Wanted) -> Total {
    let (each, rest) = (quanta / u64::from(wanted.cores), quanta % u64::from(wanted.cores));
    let part = |n: u64| Duration::from_ns((each + u64::from(n < rest)) * wanted.quantum.ns());
    Total { period, budgets: (0..u64::from(wanted.cores)).map(part).collect(), grids: wanted.grids }
}
