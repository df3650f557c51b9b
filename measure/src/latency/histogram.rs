//! Latencies, counted to a microsecond whatever their length.

use giusto_model::{Duration, LatencySpread};
use std::collections::BTreeMap;

/// Latencies below so many us are counted in place; above, where they are few, in a tree.
const FINE: usize = 10_000;
const US: u64 = 1000;

/// Counts of latencies to 1 us; least and most exactly.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    fine: Vec<u64>,
    beyond: BTreeMap<u64, u64>,
    count: u64,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Empty, its memory touched, so that counting costs no page fault.
    pub(super) fn new() -> Self {
        let mut fine = Vec::with_capacity(FINE);
        fine.resize(FINE, u64::MAX);
        fine.fill(0);
        Histogram { fine, beyond: BTreeMap::new(), count: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a latency in ns. O(1); above 10 ms O(log of those).
    pub(super) fn record(&mut self, ns: u64) {
        match self.fine.get_mut((ns / US) as usize) {
            Some(count) => *count += 1,
            None => *self.beyond.entry(ns / US).or_default() += 1,
        }
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// `(n, count)` of latencies of n to n + 1 us, ascending, without empty ones.
    pub(super) fn buckets(&self) -> Vec<(u64, u64)> {
        let fine = self.fine.iter().enumerate().map(|(us, count)| (us as u64, *count));
        fine.chain(self.beyond.iter().map(|(us, count)| (*us, *count))).filter(|(_, count)| *count > 0).collect()
    }

    /// The latency that `per` in a hundred thousand do not exceed, by nearest rank; 0 if there are none.
    fn percentile(&self, per: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per)).div_ceil(100_000);
        let mut seen = 0;
        let within = |(us, count): &(u64, u64)| {
            seen += u128::from(*count);
            (seen >= rank).then_some((us + 1).saturating_mul(US))
        };
        let found = self.buckets().iter().find_map(within);
        // All of a bucket lies below its upper end, and nothing above the most.
        found.unwrap_or(0).min(self.max)
    }

    /// In numbers.
    pub(super) fn spread(&self) -> LatencySpread {
        let at = |per| Duration::from_ns(self.percentile(per));
        LatencySpread {
            min: Duration::from_ns(if self.count == 0 { 0 } else { self.min }),
            p50: at(50_000),
            p99: at(99_000),
            p99_9: at(99_900),
            p99_99: at(99_990),
            max: Duration::from_ns(self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle sorts all values and takes the one of that rank.
        #[test]
        fn percentiles_are_those_of_the_sorted_values_rounded_up_to_a_us(
            values in proptest::collection::vec(prop_oneof![0u64..50_000, 9_990_000u64..10_010_000, 0u64..1 << 40], 0..400)
        ) {
            let mut all = Histogram::new();
            values.iter().for_each(|ns| all.record(*ns));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let found = all.spread();
            let most = sorted.last().copied().unwrap_or(0);
            prop_assert_eq!(found.min.ns(), sorted.first().copied().unwrap_or(0));
            prop_assert_eq!(found.max.ns(), most);
            for (found, part) in [(found.p50, 0.5), (found.p99, 0.99), (found.p99_9, 0.999), (found.p99_99, 0.9999)] {
                let own = match sorted.len() {
                    0 => 0,
                    n => sorted[((n as f64 * part - 1e-9).ceil() as usize).max(1) - 1],
                };
                prop_assert!(found.ns() >= own && found.ns() <= (own + 1000).min(most), "{found} {own}");
            }
            let told: u64 = all.buckets().iter().map(|(_, count)| count).sum();
            prop_assert_eq!(told, values.len() as u64);
            for (us, count) in all.buckets() {
                prop_assert_eq!(count, values.iter().filter(|ns| **ns / 1000 == us).count() as u64);
            }
            prop_assert!(all.buckets().windows(2).all(|two| two[0].0 < two[1].0));
        }
    }
}
