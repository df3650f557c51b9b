//! How far a supply is behind one that gives each budget at the beginning of its window.

use super::recording::Lost;
use super::{Recording, Resource};
use giusto_model::{Behind, Duration};

/// What is lost of each budget is told of the worst so many windows in a row.
const IN_A_ROW: usize = 100;

/// Of the whole windows that begin at `phase` and all periods from it; `None`: there are none. O(windows + gaps).
pub(super) fn behind(recording: &Recording, ask: Resource, phase: Duration) -> Option<Behind> {
    let budget = i128::from(ask.budget.ns());
    let windows: Vec<_> = recording.windows(ask.period, phase).collect();
    let lacks: Vec<i128> = windows.iter().map(|window| budget - i128::from(window.supply.ns())).collect();
    let row = IN_A_ROW.min(lacks.len());
    let mut sum: i128 = lacks[..row].iter().sum();
    let mut most = sum;
    for (new, old) in lacks[row..].iter().zip(&lacks) {
        sum += new - old;
        most = most.max(sum);
    }
    let count = i128::try_from(row).ok().filter(|count| *count > 0)?;
    let loss = most.max(0).div_euclid(count) + i128::from(most.max(0) % count > 0);
    let (mut short, mut furthest) = (0, 0);
    for lack in lacks {
        short = (short + lack - loss).max(0);
        furthest = furthest.max(short);
    }
    let mut lost = Lost::of(recording.gaps());
    let mut gaps = recording.gaps().iter().peekable();
    let held = windows.iter().map(|window| {
        let (from, until) = (window.from.ns(), window.from.ns() + ask.period.ns());
        while gaps.next_if(|gap| gap.until.ns() < until).is_some() {}
        let last = gaps.peek().map_or(until, |gap| gap.from.ns().clamp(from, until));
        let before = lost.until(from);
        lost.until(last) - before
    });
    let mut held: Vec<u64> = held.collect();
    held.sort_unstable();
    let usual = held[(held.len() * 99).div_ceil(100) - 1];
    let late = held[held.len() - 1] + u64::try_from(furthest).unwrap_or(u64::MAX);
    let [loss, usual, late] = [loss as u64, usual, late].map(Duration::from_ns); // loss: less than a period
    Some(Behind { loss, usual, late })
}
#[cfg(test)]
mod tests {
    use super::super::recording::tests::{any_recording, brute, recording};
    use super::*;
    use proptest::prelude::*;

    fn of(recording: &Recording, budget: u64, period: u64, phase: u64) -> Option<Behind> {
        let ns = Duration::from_ns;
        behind(recording, Resource { budget: ns(budget), period: ns(period) }, ns(phase))
    }

    #[test]
    fn a_supply_that_begins_late_or_lacks_something_is_behind_by_that() {
        let ns = Duration::from_ns;
        let told = |loss, late| Some(Behind { loss: ns(loss), usual: ns(late), late: ns(late) });
        assert_eq!(of(&recording(0, &[3, 7, 3, 7, 3, 7]), 3, 10, 0), told(0, 0));
        assert_eq!(of(&recording(0, &[3, 7, 0, 2, 3, 5, 3, 7]), 3, 10, 0), told(0, 2), "the second begins 2 late");
        assert_eq!(of(&recording(0, &[2, 8, 2, 8, 2, 8]), 3, 10, 0), told(1, 0), "each lacks 1");
        assert_eq!(of(&recording(0, &[1, 1, 2, 6, 3, 7]), 3, 10, 0), told(0, 1), "one is interrupted");
        // One of a hundred and fifty lacks all: 3 of 100 are 0.03 each, rounded up to 1; the other 2 come late.
        let pieces: Vec<u64> = (0..150).flat_map(|nth| if nth == 70 { [0, 10] } else { [3, 7] }).collect();
        assert_eq!(of(&recording(0, &pieces), 3, 10, 0), Some(Behind { loss: ns(1), usual: ns(0), late: ns(2) }));
        let pieces: Vec<u64> = (0..200).flat_map(|nth| if nth == 70 { [0, 4, 3, 3] } else { [0, 1, 3, 6] }).collect();
        assert_eq!(of(&recording(0, &pieces), 3, 10, 0), Some(Behind { loss: ns(0), usual: ns(1), late: ns(4) }));
        assert_eq!(of(&recording(0, &[3, 2]), 3, 10, 0), None);
    }

    proptest! {
        /// Whatever the supply: from the beginning of any window on it is, at the end of each, no further behind than told, and
        /// within one no further than it was held up.
        #[test]
        fn no_window_is_further_behind(recording in any_recording(), budget in 1..6u64, period in 1..9u64, phase in 0..9u64) {
            let budget = budget.min(period);
            let starts: Vec<u64> = (recording.start().ns()..recording.end().ns())
                .filter(|at| at % period == phase % period && at + period <= recording.end().ns())
                .collect();
            let Some(told) = of(&recording, budget, period, phase) else {
                prop_assert!(starts.is_empty());
                return Ok(());
            };
            let (loss, late) = (told.loss.ns(), told.late.ns());
            for (nth, &from) in starts.iter().enumerate() {
                for (after, &last) in starts[nth..].iter().enumerate() {
                    let promised = (after as u64 + 1) * budget.saturating_sub(loss);
                    prop_assert!(brute(&recording, from, last + period) + late >= promised);
                }
                let all = brute(&recording, from, from + period);
                let done = (from..=from + period).find(|&at| brute(&recording, from, at) == all).unwrap();
                prop_assert!(done - from <= all + late && told.usual <= told.late, "{told:?} {from}");
            }
        }
    }
}
