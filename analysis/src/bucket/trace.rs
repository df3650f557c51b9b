//! The bucket that messages that were recorded would have needed.

use super::error::BucketError;
use crate::Error;
use giusto_model::{Duration, Percentile, Rate, Tokens};

/// How often messages came: all but the first, over the time from the first to the last.
///
/// # Errors
/// [`Error::Bucket`]: fewer than two messages, all at one instant, or arrivals that do not ascend.
pub fn mean_rate(arrivals: &[Duration]) -> Result<Rate, Error> {
    let bad = |why| Error::from(BucketError::Trace(why));
    if !arrivals.is_sorted() {
        return Err(bad("arrivals must ascend; sort them"));
    }
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Err(bad("there is no message; expected two or more"));
    };
    Rate::of(arrivals.len() as u64 - 1, Duration::from_ns(last.ns() - first.ns()))
        .filter(|rate| !rate.is_zero())
        .ok_or_else(|| bad("all messages came at one instant; expected two or more at different ones"))
}

/// The least depth with which so many of the messages would not have waited, at tokens of this `rate`: exactly.
///
/// What a message finds unfinished, and itself, is what the depth must hold. It does not depend on the depth, since a message
/// that waits takes its token no later than one that need not. Source: [LiC20, section 2.6.1], footnote. O(n log n).
///
/// # Errors
/// As [`mean_rate`]; and numbers beyond 64 bits.
pub fn least_depth_of_trace(arrivals: &[Duration], rate: Rate, access: Percentile) -> Result<Tokens, Error> {
    mean_rate(arrivals)?;
    // In parts of which `in_one` are a token, of which `flow` come in a ns.
    let (flow, in_one) = rate.fraction();
    let (mut unfinished, mut before) = (0u128, arrivals[0].ns());
    let mut needs: Vec<u128> = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        let passed = u128::from(arrival.ns() - before) * u128::from(flow);
        unfinished = unfinished.saturating_sub(passed) + u128::from(in_one);
        before = arrival.ns();
        needs.push(unfinished);
    }
    needs.sort_unstable();
    let counted = (needs.len() as u128 * u128::from(access.thousandths())).div_ceil(100_000).max(1) as usize;
    let parts = u64::try_from(needs[counted - 1]).map_err(|_| Error::Range)?;
    Tokens::of(parts, in_one).ok_or(Error::Range)
}
