//! The period that needs least.

use super::supply::Supply;
use super::workload::ns;
use crate::Error;
use giusto_model::{Bandwidth, CurvePoint};

/// Most busy periods looked at in one search, over all its evaluations of B(P).
const MOST_STEPS: u64 = 20_000_000;

/// A period and its B(P), in ns.
type Point = (u64, u64);

/// The point of least W(P) = B(P)/P with `shortest` ≤ P ≤ `longest`; of several, any.
///
/// B(P) is flat or rises one for one, so between two known points a < b it lies above max(B(a), B(b) − (b − P)), and W
/// above its value at the kink c = b − (B(b) − B(a)), which is B(a)/c. Where B(c) = B(a) that bound is reached; where it
/// could still beat the best known point, the stretch is split at c. Exact unless cut off after 20,000,000 steps (many
/// thousands of busy periods with kept offsets); what is found then is the best seen, and its budget is still enough.
pub(super) fn least(supply: &Supply, shortest: u64, longest: u64) -> Result<CurvePoint, Error> {
    if shortest == 0 || shortest > longest {
        return Err(Error::Period);
    }
    let at = |period: u64| Ok::<Point, Error>((period, supply.budget(ns(period))?.ns()));
    let (first, last): (Point, Point) = (at(shortest)?, at(longest)?);
    let mut best = if below(last, first) { last } else { first };
    let mut open = vec![(first, last)];
    let mut left = MOST_STEPS / supply.steps();
    while let Some((a, b)) = open.pop() {
        let kink = b.0 - (b.1 - a.1);
        if left == 0 || !below((kink, a.1), best) {
            continue;
        }
        left -= 1;
        let c = at(kink)?;
        if below(c, best) {
            best = c;
        }
        if c.1 > a.1 {
            open.push((a, c));
            open.push((c, b)); // looked at first: long periods need less, and a good point early cuts off more
        }
    }
    let (period, budget) = (ns(best.0), ns(best.1));
    Ok(CurvePoint { period, budget, bandwidth: Bandwidth::of(budget, period).ok_or(Error::Period)? })
}

/// B/P of the first is less than that of the second.
fn below(a: Point, b: Point) -> bool {
    u128::from(a.1) * u128::from(b.0) < u128::from(b.1) * u128::from(a.0)
}
