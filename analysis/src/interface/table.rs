//! A cyclic table of slots (Abe22, "Static Time Partitioning").

use super::error::ResourceError;
use giusto_model::Duration;

type Slots = [[Duration; 2]];

/// Longest cycle: sums over a few of them stay within 64 bits.
pub(super) const LONGEST: u64 = 1 << 61;

pub(super) fn validate(cycle: Duration, slots: &Slots) -> Result<(), ResourceError> {
    if cycle.is_zero() {
        return Err(ResourceError::NoPeriod);
    }
    if cycle.ns() > LONGEST {
        return Err(ResourceError::Range);
    }
    if slots.is_empty() {
        return Err(ResourceError::NoBudget);
    }
    let wrong = |i: usize| slots[i][0] >= slots[i][1] || slots[i][1] > cycle || i > 0 && slots[i - 1][1] >= slots[i][0];
    (0..slots.len()).find(|&i| wrong(i)).map_or(Ok(()), |i| Err(ResourceError::Slot(i)))
}

/// Supplied in one cycle, in ns.
pub(super) fn total(slots: &Slots) -> u64 {
    slots.iter().map(|[from, to]| to.ns() - from.ns()).sum()
}

/// The least in any window of length `t`.
///
/// Whole cycles give their total wherever they start. For the rest slide the window: what it holds changes at the rate
/// (supplied at its end) − (supplied at its start). From a window that starts in a gap, moving back to where the gap began
/// never gains; from one that starts in a slot, moving on to where the slot ends never gains. So the least is among the
/// windows that start where a slot ends.
pub(super) fn supply(cycle: Duration, slots: &Slots, t: Duration) -> u64 {
    let (full, rest) = (t.ns() / cycle.ns(), t.ns() % cycle.ns());
    let (mut before, mut index, mut until) = (0, 0, 0); // supplied before the window; slots that end within it, their sum
    let least = slots.iter().map(|&[from, to]| {
        before += to.ns() - from.ns();
        let end = to.ns() + rest; // within the second cycle at most
        let slot = |i: usize| {
            let ([from, to], round) = (slots[i % slots.len()], (i / slots.len()) as u64 * cycle.ns());
            (from.ns() + round, to.ns() + round)
        };
        while slot(index).1 <= end {
            until += slot(index).1 - slot(index).0;
            index += 1;
        }
        until + end.saturating_sub(slot(index).0) - before
    });
    full * total(slots) + least.min().unwrap_or(0)
}

/// The most that a window waits beyond its length at the full bandwidth: max of t − sbf(t)/α, rounded up.
///
/// With φ(x) = x − S(x)/α, which repeats with the cycle, that is max φ − min φ: φ falls in slots and rises in gaps, so its
/// extremes are where slots start and end.
pub(super) fn delay(cycle: Duration, slots: &Slots) -> u128 {
    let (total, cycle) = (i128::from(total(slots)), i128::from(cycle.ns()));
    let (mut before, mut most, mut least) = (0, 0, 0);
    for [from, to] in slots {
        most = most.max(i128::from(from.ns()) * total - before * cycle);
        before += i128::from(to.ns() - from.ns());
        least = least.min(i128::from(to.ns()) * total - before * cycle);
    }
    ((most - least) as u128).div_ceil(total as u128)
}
