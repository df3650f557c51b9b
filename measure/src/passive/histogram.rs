//! Histograms that programs in the kernel count (bpf/histogram.h).

use std::sync::atomic::{AtomicU64, Ordering};

/// `BUCKET_BITS`.
const BUCKET_BITS: u32 = 7;
/// `BUCKETS`.
pub(super) const BUCKETS: usize = (38 - BUCKET_BITS as usize + 1) << BUCKET_BITS;

/// The longest time that is told, in ns: a longer one counts as this one.
pub const LONGEST_NS: u64 = 1 << 38;

/// The least time in ns that is above all of a bucket's.
pub(super) fn above(bucket: usize) -> u64 {
    let (octave, part) = (bucket as u64 >> BUCKET_BITS, bucket as u64 & ((1 << BUCKET_BITS) - 1));
    match octave.checked_sub(1) {
        None => part + 1,
        Some(shift) => ((1 << BUCKET_BITS) + part + 1) << shift,
    }
}

/// The least time that is above all of the bucket of `ns`: as counts from the kernel tell it.
pub fn rounded(ns: u64) -> u64 {
    let ns = ns.min(LONGEST_NS - 1);
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    ((ns >> shift) + 1) << shift
}

/// The non-empty buckets of a histogram: [`above`], and how many.
pub(super) fn read(histogram: &[AtomicU64; BUCKETS]) -> Vec<[u64; 2]> {
    let counts = histogram.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
    counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| [above(bucket), count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_below_the_end_of_its_bucket_and_not_below_that_of_the_one_before() {
        for ns in (0..100_000).chain((17..38).flat_map(|octave| [0, 1, 77, 4_000].map(|more| (1 << octave) + more))) {
            let end = rounded(ns);
            let bucket = (0..BUCKETS).find(|&bucket| above(bucket) == end).unwrap();
            assert!(ns < end && (bucket == 0 || above(bucket - 1) <= ns), "{ns}: {end}");
        }
        assert_eq!((rounded(u64::MAX), above(BUCKETS - 1)), (LONGEST_NS, LONGEST_NS));
    }
}
