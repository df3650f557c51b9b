//! How long messages wait for tokens, and what splitting a token bucket costs [LiC20, section 2.2.1].
//!
//! Tokens come at rate r, at most b are kept, a message takes one. A message that comes at random (Poisson, alone or in
//! batches of j) finds the unfinished work U of M/D/1 with a service time of j tokens; the i-th of its batch waits for
//! (U + i − b)⁺ tokens ([`law`]). That is exact. Eq. (2.1) of the paper is so for b = 1 only: given that a message waits,
//! how long it does depends on b.

mod error;
mod law;
mod trace;

pub use error::BucketError;
pub use trace::{least_depth_of_trace, mean_rate};

use crate::response::Tail;
use crate::Error;
use giusto_model::{Arrivals, Bucket, Duration, Percentile, Rate, Tokens};
use law::Law;
use serde::{Deserialize, Serialize};

/// How long messages wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Over how many brokers bucket and messages are split.
    pub shares: u32,
    /// The bucket at each.
    pub bucket: Bucket,
    /// The part of all messages that wait.
    pub delayed: f64,
    /// Of all messages.
    #[serde(rename = "mean_ns")]
    pub mean: Duration,
    /// Percentiles that were asked for.
    #[serde(rename = "percentiles_ns")]
    pub percentiles: Vec<Duration>,
}

/// One arrival process at one bucket, in units of 1/r and of a batch's tokens.
struct Queue {
    law: Law,
    batch: f64,
    depth: f64,
    /// r in tokens a ns.
    rate: f64,
}

impl Queue {
    fn new(arrivals: Arrivals, bucket: Bucket, shares: u32) -> Result<Queue, Error> {
        let (depth, batch) = (bucket.depth, f64::from(arrivals.batch));
        if depth < Tokens::whole(1) {
            return Err(BucketError::Depth(depth).into());
        }
        let rate = bucket.rate.per_ns();
        let load = arrivals.rate.per_ns() / f64::from(shares) * batch / rate;
        Ok(Queue { law: Law::new(load)?, batch, depth: depth.as_f64(), rate })
    }

    /// Each place in the batch, as what it leaves of the depth.
    fn left(&self) -> impl Iterator<Item = f64> + '_ {
        (1..=self.batch as u32).map(|place| self.depth - f64::from(place))
    }

    /// The part of messages that wait for more than `time` ns.
    fn beyond(&self, time: f64) -> f64 {
        let later = |left: f64| self.law.beyond((left + self.rate * time) / self.batch);
        self.left().map(later).sum::<f64>() / self.batch
    }

    /// In ns.
    fn mean(&self) -> f64 {
        self.left().map(|left| self.law.excess(left / self.batch)).sum::<f64>() / self.rate
    }

    /// Least time in ns within which so many are let through.
    fn percentile(&self, part: f64) -> f64 {
        let later = |time: f64| self.beyond(time) > 1.0 - part;
        if !later(0.0) {
            return 0.0;
        }
        let mut high = self.batch / self.rate;
        while later(high) {
            high *= 2.0;
        }
        let mut low = 0.0;
        while high - low > 0.25 {
            let middle = low + (high - low) / 2.0;
            *(if later(middle) { &mut low } else { &mut high }) = middle;
        }
        high
    }
}

/// How long messages wait if bucket and messages are split evenly over `shares` brokers.
///
/// A message goes to a broker at random, so that each sees a Poisson process of its share: time passes `shares` times more
/// slowly for a bucket `shares` times smaller. Source: LiC20, eq. (2.1), made exact. O(1/(1 − ρ)²) a percentile.
///
/// # Errors
/// [`Error::Bucket`]: a load that is not below the rate of tokens, a depth below 1, more shares than whole tokens.
pub fn wait(arrivals: Arrivals, bucket: Bucket, shares: u32, percentiles: &[Percentile]) -> Result<Wait, Error> {
    let each = share(bucket, shares)?;
    let queue = Queue::new(arrivals, each, shares)?;
    let time = |ns: f64| Duration::from_ns(ns.round() as u64);
    Ok(Wait {
        shares,
        bucket: each,
        delayed: queue.beyond(0.0),
        mean: time(queue.mean()),
        // Rounded up, so that as many are let through within it.
        percentiles: percentiles.iter().map(|p| time(queue.percentile(p.percent() / 100.0).ceil())).collect(),
    })
}

/// Times at which [`tail`] looks, and the probability beyond which it does not.
const POINTS: usize = 256;
const NOTHING: f64 = 1e-9;

/// Upper ends of the law of the wait of messages that come alone, `rate` of them in a ns: ten digits of it are exact, and a
/// part in 10^9 is added. O(1/(1 − ρ)²) for each of 256 times.
///
/// # Errors
/// As [`wait`].
pub(crate) fn tail(bucket: Bucket, rate: f64) -> Result<Tail, Error> {
    if bucket.depth < Tokens::whole(1) {
        return Err(BucketError::Depth(bucket.depth).into());
    }
    let tokens = bucket.rate.per_ns();
    let law = Law::new(rate / tokens)?;
    let left = bucket.depth.as_f64() - 1.0;
    // Lundberg: Pr{U > x} <= e^(-decay x).
    let decay = law.decay();
    let end = ((-NOTHING.ln() / decay - left).max(1.0)) / tokens;
    let at: Vec<f64> = (0..=POINTS).map(|i| end * i as f64 / POINTS as f64).collect();
    let beyond = at.iter().map(|t| law.beyond(left + tokens * t) + NOTHING).collect();
    let excess = at.iter().map(|t| (law.excess(left + tokens * t) + NOTHING) / tokens).collect();
    Ok(Tail::of(at, beyond, excess, decay * tokens, -left / tokens))
}

/// Messages that are dropped where they find no token.
pub(crate) struct Dropped {
    /// P(U > depth − 1 − j), by the number j of those that come at once.
    without: Vec<f64>,
}

impl Dropped {
    /// `rate` of them come in a ns. O(depth).
    ///
    /// # Errors
    /// As [`wait`].
    pub(crate) fn new(bucket: Bucket, rate: f64) -> Result<Dropped, Error> {
        if bucket.depth < Tokens::whole(1) {
            return Err(BucketError::Depth(bucket.depth).into());
        }
        let law = Law::new(rate / bucket.rate.per_ns())?;
        let left = (0..bucket.depth.at_once()).map(|at_once| bucket.depth.as_f64() - 1.0 - at_once as f64);
        Ok(Dropped { without: left.map(|left| (law.beyond(left) + NOTHING).min(1.0)).collect() })
    }

    /// The part that is dropped, where all of a time in which `mean` of them come may come at once: of these there are M, by
    /// Poisson's law, and those before that time have taken U tokens of the depth, independent of M: P(M + U + 1 > depth).
    pub(crate) fn part(&self, mean: f64) -> f64 {
        let (mut log, mut up_to, mut sum) = (-mean, 0.0, 0.0);
        for (count, without) in (1..).zip(&self.without) {
            let p = log.exp();
            (up_to, sum) = (up_to + p, sum + p * without);
            log += (mean / f64::from(count)).ln();
        }
        (sum + (1.0 - up_to).max(0.0)).min(1.0)
    }
}

/// The part of messages at random that are dropped by a bucket in which all of a time `at_once` may come at once
/// (docs/decisions/0073).
///
/// # Errors
/// As [`wait`].
pub fn dropped(rate: Rate, bucket: Bucket, at_once: Duration) -> Result<f64, Error> {
    Ok(Dropped::new(bucket, rate.per_ns())?.part(rate.per_ns() * at_once.ns() as f64))
}

fn share(bucket: Bucket, shares: u32) -> Result<Bucket, Error> {
    let (depth, most) = (bucket.depth, bucket.depth.at_once());
    let refused = BucketError::Shares { depth, shares, most };
    if shares == 0 || u64::from(shares) > most.max(1) {
        return Err(refused.into());
    }
    bucket.share(shares).ok_or(Error::Range)
}

/// The largest depth that is looked at.
const DEEPEST: u64 = 1 << 32;

/// The least whole depth with which so many messages do not wait at all. O(log b) evaluations of the law.
///
/// # Errors
/// As [`wait`]; and if none up to 2^32 is enough.
pub fn least_depth(arrivals: Arrivals, rate: Rate, access: Percentile) -> Result<Tokens, Error> {
    let enough = |depth: u64| -> Result<bool, Error> {
        let queue = Queue::new(arrivals, Bucket { rate, depth: Tokens::whole(depth) }, 1)?;
        Ok(queue.beyond(0.0) <= 1.0 - access.percent() / 100.0)
    };
    let (mut low, mut high) = (0, 1);
    while !enough(high)? {
        (low, high) = (high, 2 * high);
        if high > DEEPEST {
            return Err(BucketError::TooDeep { most: DEEPEST }.into());
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if enough(middle)? { &mut high } else { &mut low }) = middle;
    }
    Ok(Tokens::whole(high))
}
