//! U of any number of tasks, exactly: a fraction of as many digits as it takes.

use giusto_model::{Bandwidth, Task};
use num_bigint::BigUint;
use std::cmp::Ordering;

/// Σ C/T and Σ (C/T)(T − D) over one denominator, not reduced.
#[derive(Debug)]
pub(super) struct Load {
    work: BigUint,
    /// Σ U_i (T_i − D_i) · `period`.
    early: BigUint,
    /// lcm of the periods.
    period: BigUint,
}

impl Load {
    /// Of checked tasks. O(n) operations on numbers of at most the digits of all periods together.
    pub(super) fn new(tasks: &[Task]) -> Self {
        let mut period = BigUint::from(1u32);
        for task in tasks {
            let own = task.period.ns();
            let rest = u64::try_from(&period % own).unwrap_or(0); // less than `own`
            period *= own / num_integer::gcd(rest, own);
        }
        let (mut work, mut early) = (BigUint::ZERO, BigUint::ZERO);
        for task in tasks {
            let part = &period / task.period.ns() * super::demand::work(task);
            early += &part * (task.period.ns() - task.deadline.ns());
            work += part;
        }
        Load { work, early, period }
    }

    /// α compared with U.
    pub(super) fn compare(&self, share: Bandwidth) -> Ordering {
        (&self.period * share.numer()).cmp(&(&self.work * share.denom()))
    }

    /// No t ≥ this has dbf(t) > α(t − delay): the least whole t with α(t − delay) ≥ U·t + Σ U_i (T_i − D_i), the line that no
    /// dbf passes. `None` if α ≤ U or it is beyond 584 years.
    pub(super) fn crossing(&self, share: Bandwidth, delay: u128) -> Option<u64> {
        let (gain, cost) = (&self.period * share.numer(), &self.work * share.denom());
        if gain <= cost {
            return None;
        }
        let top = &gain * delay + &self.early * share.denom();
        let apart = gain - cost;
        u64::try_from((top + &apart - 1u32) / apart).ok()
    }

    /// A t from which on dbf(t) > αt for sure, since dbf(t) > Σ U_i (t − D_i) from the last first deadline on. `None` if
    /// α ≥ U or it is beyond 584 years.
    pub(super) fn overtaken(&self, share: Bandwidth, tasks: &[Task]) -> Option<u64> {
        let (gain, cost) = (&self.period * share.numer(), &self.work * share.denom());
        if gain >= cost {
            return None;
        }
        let due =
            tasks.iter().map(|task| &self.period / task.period.ns() * super::demand::work(task) * task.deadline.ns());
        let top = due.sum::<BigUint>() * share.denom();
        let apart = cost - gain;
        let after = u64::try_from((top + &apart - 1u32) / apart).ok()?;
        Some(tasks.iter().map(|task| task.deadline.ns()).fold(after, u64::max))
    }

    /// lcm of the periods and `other`, if that fits.
    pub(super) fn hyperperiod(&self, other: u64) -> Option<u64> {
        u64::try_from(num_integer::lcm(self.period.clone(), BigUint::from(other))).ok()
    }
}
