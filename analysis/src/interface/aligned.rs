//! Periods that go with those of the tasks: pairwise divisible, and whole numbers of a quantum.
//!
//! The supply function without a first gap ([Lee11, eq. 1], "harmonic") is sound for them if all releases, those of the
//! server too, sit on one grid: each task's at multiples of its period, though some may be left out. No deadline is missed
//! before the first miss. Then with fixed priority a window from a release at s has only work released in it: whatever
//! comes before a task has deadlines up to the task's own period, so its older jobs are done by s. If T ≥ Π the window
//! starts a server period, and sbf(t) = ⌊t/Π⌋Θ + (t mod Π − (Π − Θ))⁺ is the least it gets. If T < Π it lies within one
//! server period, of which only Π − Θ is not supplied; sbf says the same. With EDF take the last instant s before the
//! miss without older work that matters; a window from s inside a server period that went on after its end b would start
//! with releases of tasks with T ≤ Π only, all of whose jobs are due by b and done, so that b were a later such instant.
//!
//! Jitter or an unknown offset breaks this: {(5,1), (15,5)} on (7,4), whose periods do not even divide each other, passes the
//! test and misses at 10.

use super::error::ResourceError;
use crate::Error;
use giusto_model::{Duration, Task};

/// All candidates, in quanta, ascending. Errors: task periods of which neither divides the other.
///
/// Complete: Π divides the shortest period, or lies between two that follow each other, or is a multiple of the longest, T.
/// Of those only M = lcm(T, quantum) is needed. For Π = kM let g = Π − Θ be the gap. Windows up to Π give t − L − g, so no
/// slack there is less than L + g; slack t − dbf(t) (or that of any point of a fixed-priority task, all ≤ T) grows by
/// (1 − U)M ≥ 0 with each M. So (M, M − g) is enough too: at t = mM + r it supplies m(M − g) + (r − L − g)⁺ or more (with
/// r < L, m(M − g) − (L − r)), the task set asks for mUM + dbf(r), and (1 − U)M ≥ L + g. And its bandwidth 1 − g/M is no more
/// than 1 − g/(kM). What is lost of each budget is in g, and changes nothing.
pub(super) fn periods(tasks: &[Task], quantum: u64) -> Result<Vec<u64>, Error> {
    let mut own: Vec<u64> = tasks.iter().map(|task| task.period.ns()).collect();
    own.sort_unstable();
    own.dedup();
    if let Some(two) = own.windows(2).find(|two| two[1] % two[0] != 0) {
        return Err(ResourceError::Misaligned(Duration::from_ns(two[0]), Duration::from_ns(two[1])).into());
    }
    let (shortest, longest) = (own[0], own[own.len() - 1]);
    let mut all = Vec::new();
    if shortest % quantum == 0 {
        all.extend(divisors(shortest / quantum));
    }
    for two in own.windows(2) {
        let between = divisors(two[1] / two[0]).into_iter().map(|d| two[0] * d);
        all.extend(between.filter(|period| period % quantum == 0).map(|period| period / quantum));
    }
    all.push(longest / num_integer::gcd(longest, quantum));
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// All divisors, in no order. O(√n).
fn divisors(mut n: u64) -> Vec<u64> {
    let mut all = vec![1];
    let mut take = |prime: u64, n: &mut u64| {
        let (known, mut power) = (all.len(), 1);
        while n.is_multiple_of(prime) {
            *n /= prime;
            power *= prime;
            all.extend_from_within(..known);
            let new = all.len() - known;
            all[new..].iter_mut().for_each(|d| *d *= power);
        }
    };
    let mut prime = 2;
    while prime * prime <= n {
        take(prime, &mut n);
        prime += 1;
    }
    if n > 1 {
        take(n, &mut { n });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_all_that_divide() {
        for n in 1..3000 {
            let mut found = divisors(n);
            found.sort_unstable();
            assert_eq!(found, (1..=n).filter(|d| n % d == 0).collect::<Vec<_>>());
        }
    }
}
