//! The least supply of any window: the empirical supply bound function, and the best line below it.

use super::recording::{Lost, Recording};
use super::Resource;

/// Least supply in any window of `length` ns that lies within the recording; `None` if it is shorter than that.
///
/// While a window slides, its supply falls only as its end crosses a gap, or its begin leaves one: the least is where it begins
/// with a gap, ends with one, or touches an end of the recording. O(gaps), exact.
pub(super) fn least(recording: &Recording, length: u64) -> Option<u64> {
    let (start, end) = (recording.start().ns(), recording.end().ns());
    let last = end.checked_sub(length).filter(|&last| last >= start)?;
    let gaps = recording.gaps();
    let lost_most = |begins: &mut dyn Iterator<Item = u64>| {
        let (mut begin, mut finish) = (Lost::of(gaps), Lost::of(gaps));
        begins.map(|at| finish.until(at + length) - begin.until(at)).max().unwrap_or(0)
    };
    let with_a_gap = gaps.iter().map(|gap| gap.from.ns()).filter(|&at| at <= last);
    let to_a_gap = gaps.iter().filter_map(|gap| gap.until.ns().checked_sub(length)).filter(|&at| at >= start);
    let most = lost_most(&mut std::iter::once(start).chain(with_a_gap));
    Some(length - most.max(lost_most(&mut to_a_gap.chain(std::iter::once(last)))))
}

/// Smallest Δ in ns, rounded up, such that every window within the recording, of any length t, has α (t − Δ) or more, with α
/// the share of the whole. 0 if nothing was supplied.
///
/// Δ is the largest t − S(t)/α of all windows: the most that x − S(x)/α rises from any instant to a later one. It rises in
/// gaps only, so one pass over them is enough. O(gaps), exact.
pub(super) fn delay(recording: &Recording) -> u64 {
    let (all, supplied) = (i128::from(recording.elapsed().ns()), i128::from(recording.supply().ns()));
    if supplied == 0 {
        return 0;
    }
    let mut lost = 0;
    let (mut lowest, mut most) = (0, 0);
    // (x − S(x)/α) · supplied, in whole numbers.
    let height = |at: u64, lost: u64| {
        let x = i128::from(at - recording.start().ns());
        x * supplied - (x - i128::from(lost)) * all
    };
    for gap in recording.gaps() {
        lowest = height(gap.from.ns(), lost).min(lowest);
        lost += gap.ns();
        most = most.max(height(gap.until.ns(), lost) - lowest);
    }
    // A height is at most the recording's length times `supplied`, so the quotient fits.
    ((most + supplied - 1) / supplied) as u64
}

/// Most that the least supply lies below the one that `ask` is sure of, in ns, of windows up to `periods` periods long.
///
/// The difference can only rise while the resource's bound does, which supplies fully then; so it is largest where such a
/// rise ends. O(periods · gaps), exact.
pub(super) fn below(recording: &Recording, ask: Resource, periods: u64) -> u64 {
    let (budget, period) = (ask.budget.ns(), ask.period.ns());
    let longest = recording.elapsed().ns().min(periods.saturating_mul(period));
    let ends = (2..=periods).map(|n| n.saturating_mul(period) - budget).take_while(|&end| end < longest);
    let lag = |length| ask.least_ns(length).saturating_sub(least(recording, length).unwrap_or(0));
    ends.chain([longest]).map(lag).max().unwrap_or(0)
}

impl Resource {
    /// Longest time without supply: 2 (P − B).
    pub fn blackout_ns(&self) -> u64 {
        2 * (self.period.ns() - self.budget.ns())
    }

    /// Supply bound function (Lee11; Shin and Lee 2003): least supply that any window of `t` ns is sure of.
    pub fn least_ns(&self, t: u64) -> u64 {
        let idle = self.period.ns() - self.budget.ns();
        let Some(after) = t.checked_sub(idle) else { return 0 };
        let whole = after / self.period.ns();
        whole * self.budget.ns() + (after % self.period.ns()).saturating_sub(idle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::{any_recording, brute, recording};
    use super::*;
    use giusto_model::Duration;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_supply_is_that_of_brute_force_at_every_length(recording in any_recording()) {
            let (start, end) = (recording.start().ns(), recording.end().ns());
            for length in 0..=end - start {
                let expected = (start..=end - length).map(|at| brute(&recording, at, at + length)).min();
                prop_assert_eq!(least(&recording, length), expected, "length {}", length);
            }
            prop_assert_eq!(least(&recording, end - start + 1), None);
        }

        #[test]
        fn the_line_lies_below_every_window_and_none_with_less_delay_does(recording in any_recording()) {
            let (all, supplied) = (recording.elapsed().ns() as i128, recording.supply().ns() as i128);
            // Is α (t − Δ) ≤ S for every window? All edges are whole, so whole windows decide.
            let below = |delay: i128| (0..=all).all(|t| {
                least(&recording, t as u64).unwrap() as i128 * all >= (t - delay) * supplied
            });
            let delay = delay(&recording) as i128;
            prop_assert!(below(delay));
            prop_assert!(delay == 0 || !below(delay - 1));
        }

        #[test]
        fn how_far_it_lies_below_a_resource_is_that_of_every_length(recording in any_recording(), budget in 1..6u64, idle in 0..6u64) {
            let ns = Duration::from_ns;
            let ask = Resource { budget: ns(budget), period: ns(budget + idle) };
            let lengths = 0..=recording.elapsed().ns().min(3 * (budget + idle));
            let all = lengths.map(|t| ask.least_ns(t).saturating_sub(least(&recording, t).unwrap()));
            prop_assert_eq!(below(&recording, ask, 3), all.max().unwrap());
        }

        #[test]
        fn a_periodic_resource_is_bounded_by_its_worst_schedule(budget in 1..8u64, idle in 0..8u64, t in 0..60u64) {
            let period = budget + idle;
            // As early as possible once, then as late as possible for ever (the worst case of the theory).
            let mut pieces = vec![budget, 2 * idle];
            (0..60 / period + 2).for_each(|_| pieces.extend([budget, idle]));
            let worst = recording(0, &if idle == 0 { vec![200] } else { [pieces, vec![1]].concat() });
            let resource = Resource { budget: Duration::from_ns(budget), period: Duration::from_ns(period) };
            prop_assert_eq!(Some(resource.least_ns(t)), (idle == 0).then_some(t).or_else(|| least(&worst, t)));
            prop_assert_eq!(resource.least_ns(resource.blackout_ns()), 0);
        }
    }

    #[test]
    fn a_strictly_periodic_supply_has_the_delay_of_its_gap() {
        // 3 of 10, over whole periods: α = 3/10, and no window lags more than the gap of 7.
        assert_eq!(delay(&recording(0, &[3, 7].repeat(100))), 7);
        assert_eq!(delay(&recording(0, &[5])), 0);
        assert_eq!(delay(&recording(0, &[0, 5])), 0, "nothing was supplied, so there is no line");
    }
}
