//! Fractions of any size.

use giusto_model::{Bandwidth, Duration, Task};
use num_bigint::BigUint;
use num_rational::Ratio;

/// An exact share or length.
pub(super) type Exact = Ratio<BigUint>;

/// top / bottom; `None` if that is nothing.
pub(super) fn fraction(top: u128, bottom: u64) -> Option<Exact> {
    (bottom != 0).then(|| Exact::new(top.into(), bottom.into()))
}

pub(super) fn whole(length: u128) -> Exact {
    Exact::from_integer(length.into())
}

pub(super) fn share(share: Bandwidth) -> Exact {
    Exact::new(share.numer().into(), share.denom().into())
}

/// B/P.
pub(super) fn of(budget: Duration, period: Duration) -> Option<Exact> {
    fraction(budget.ns().into(), period.ns())
}

/// Σ C/T, copies counted; tasks have periods.
pub(super) fn utilization(tasks: &[Task]) -> Exact {
    let part = |task: &Task| fraction(work(task), task.period.ns()).unwrap_or_else(|| whole(0));
    tasks.iter().map(part).sum()
}

/// C, copies counted.
pub(super) fn work(task: &Task) -> u128 {
    u128::from(task.wcet.ns()) * u128::from(task.copies)
}
