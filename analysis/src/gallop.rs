//! Where something that stays so begins.

/// The first t in [from, last] with `above(t)`, of what is so at all later t too. O(log(t − from)) trials.
pub(crate) fn first(from: u64, last: u64, above: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut step, mut high) = (from, 1u64, from);
    while !above(high) {
        if high >= last {
            return None;
        }
        (low, high, step) = (high, high.saturating_add(step).min(last), step.saturating_mul(2));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if above(middle) { &mut high } else { &mut low }) = middle;
    }
    Some(high)
}
