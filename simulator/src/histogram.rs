//! Counts of times at a fixed relative precision, in memory that grows with the spread of the times only.
//!
//! Bucket k of times below 2,048 ns holds one; above, each octave has 1,024 buckets (as HdrHistogram with three significant
//! digits, whose percentiles these are). Pages of them come when the first of their times does, of bytes until one of them has
//! to count more: 7 to 20 kB for response times of one server, where a table of all times up to 2^62 ns takes 440 kB.

use std::collections::BTreeMap;

/// Buckets a page.
const PAGE: usize = 128;
/// Buckets an octave, and the bits of their number.
const BITS: u32 = 10;

/// What the buckets of a page count, modulo 2^16.
#[derive(Clone, Debug, Default)]
enum Page {
    #[default]
    Empty,
    Bytes(Box<[u8; PAGE]>),
    Words(Box<[u16; PAGE]>),
}

impl Page {
    /// Adds to a bucket; whether its count has passed 2^16.
    #[inline]
    fn add(&mut self, place: usize, by: u16) -> bool {
        if let Page::Empty = self {
            *self = Page::Bytes(Box::new([0; PAGE]));
        }
        if let Page::Bytes(counts) = self {
            if let Some(sum) = u16::from(counts[place]).checked_add(by).and_then(|sum| u8::try_from(sum).ok()) {
                counts[place] = sum;
                return false;
            }
            *self = Page::Words(Box::new(counts.map(u16::from)));
        }
        let Page::Words(counts) = self else { return false };
        let (sum, carry) = counts[place].overflowing_add(by);
        counts[place] = sum;
        carry
    }

    /// The counts, in the order of the buckets; none if it is empty.
    fn counts(&self) -> impl Iterator<Item = u16> + '_ {
        let count = |place: usize| match self {
            Page::Empty => 0,
            Page::Bytes(counts) => counts[place].into(),
            Page::Words(counts) => counts[place],
        };
        (0..if matches!(self, Page::Empty) { 0 } else { PAGE }).map(count)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    pages: Vec<Page>,
    /// By bucket, how often its count has passed 2^16: few do.
    carries: BTreeMap<usize, u64>,
    total: u64,
}

fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

/// The largest time of a bucket.
fn last(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let mantissa = (bucket - (shift << BITS)) as u64;
    ((mantissa + 1) << shift) - 1
}

impl Histogram {
    /// Counts a time of at most 2^62 ns.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.count(bucket(ns), 1);
        self.total += 1;
    }

    #[inline]
    fn count(&mut self, bucket: usize, by: u16) {
        let page = bucket / PAGE;
        if self.pages.len() <= page {
            self.pages.reserve_exact(page + 1 - self.pages.len());
            self.pages.resize(page + 1, Page::Empty);
        }
        if self.pages[page].add(bucket % PAGE, by) {
            *self.carries.entry(bucket).or_default() += 1;
        }
    }

    /// Adds all of another.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (page, counts) in other.pages.iter().enumerate() {
            let counted = counts.counts().enumerate().filter(|(_, count)| *count > 0);
            counted.for_each(|(place, count)| self.count(page * PAGE + place, count));
        }
        other.carries.iter().for_each(|(bucket, carries)| *self.carries.entry(*bucket).or_default() += carries);
        self.total += other.total;
    }

    pub(crate) fn len(&self) -> u64 {
        self.total
    }

    /// The largest time of the bucket in which the q-quantile lies; 0 if it is empty.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let wanted = ((q.min(1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (page, counts) in self.pages.iter().enumerate() {
            for (place, count) in counts.counts().enumerate() {
                let bucket = page * PAGE + place;
                seen += u64::from(count) + (self.carries.get(&bucket).copied().unwrap_or(0) << 16);
                if seen >= wanted {
                    return last(bucket);
                }
            }
        }
        0
    }

    /// Bytes that it takes.
    #[cfg(test)]
    fn size(&self) -> usize {
        let page = |page: &Page| match page {
            Page::Empty => 0,
            Page::Bytes(counts) => size_of_val(&**counts),
            Page::Words(counts) => size_of_val(&**counts),
        };
        let carries = self.carries.len() * size_of::<(usize, u64)>();
        size_of_val(self)
            + self.pages.capacity() * size_of::<Page>()
            + self.pages.iter().map(page).sum::<usize>()
            + carries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn percentiles_are_those_of_a_table_of_all_times() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..40 {
            let mut full = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 62, 3).unwrap();
            let (mut ours, mut half) = (Histogram::default(), Histogram::default());
            // Now and then so near to each other that buckets count more than 2^16.
            let farthest = random.random_range(1..=62);
            let often = if farthest < 4 { 400_000 } else { 3000 };
            for n in 0..random.random_range(often / 2..often) {
                let magnitude = random.random_range(0..=farthest);
                let ns = random.random_range(0..=1u64 << magnitude);
                full.record(ns).unwrap();
                if n % 2 == 0 { &mut ours } else { &mut half }.add(ns);
            }
            ours.merge(&half);
            assert_eq!(ours.len(), full.len());
            for per_mille in [0, 1, 10, 250, 500, 900, 990, 999, 1000] {
                let q = f64::from(per_mille) / 1000.0;
                assert!(q == 0.0 || ours.quantile(q) == full.value_at_quantile(q), "{q}");
            }
        }
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }

    #[test]
    fn a_server_takes_at_most_20_kb_also_after_a_million_jobs_over_four_decades() {
        // Response times of 1 to 32 times the shortest, up to 100 ms, in any bucket of these.
        let mut dense = Histogram::default();
        (3_125_000..100_000_000).step_by(1000).for_each(|ns| dense.add(ns));
        // And as queues give them: exponential, mean 1 ms.
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut usual = Histogram::default();
        let mut add = |count: u32, usual: &mut Histogram| {
            (0..count).for_each(|_| usual.add((-random.random_range(f64::MIN_POSITIVE..1.0).ln() * 1e6) as u64));
            usual.size()
        };
        let [few, many] = [100_000, 900_000].map(|count| add(count, &mut usual));
        eprintln!("{}, {few} and {many} bytes", dense.size());
        assert!(dense.size() <= 20_000, "{}", dense.size());
        assert!(few <= 20_000, "{few}");
        assert!(many <= 20_000, "{many}");
    }
}
