//! `giusto analyze bucket` and `giusto analyze trace`: waits for tokens, and the least buckets.

use crate::Error;
use giusto_analysis::bucket::{least_depth, least_depth_of_trace, mean_rate, wait, Wait};
use giusto_model::{Arrivals, Bucket, Duration, Percentile, Rate, Tokens};
use serde::Serialize;

/// By how many percent tokens come more often than messages, by default.
const HEADROOM: [u32; 6] = [2, 5, 10, 20, 50, 100];

/// Which buckets, and which waits.
#[derive(Clone, Debug)]
pub struct Question {
    /// How often messages come, and how many together.
    pub arrivals: Arrivals,
    /// How often a token comes; `None`: several rates above that of the messages.
    pub tokens: Option<Rate>,
    /// `None`: the fewest for `access`.
    pub depth: Option<Tokens>,
    /// So many messages must not wait at all.
    pub access: Percentile,
    /// Messages and bucket are split over up to so many brokers.
    pub split: u32,
    /// Of the wait.
    pub percentiles: Vec<Percentile>,
}

/// What was found; `formats/bucket.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    arrivals: Arrivals,
    /// The least depth was looked for, for this.
    pub access: Option<Percentile>,
    percentiles: Vec<Percentile>,
    /// For each rate of tokens, and for each split.
    pub waits: Vec<Wait>,
}

impl Question {
    /// The waits.
    ///
    /// # Errors
    /// Tokens that come less often than messages, a rate beyond 64 bits, what makes no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let Question { arrivals, tokens, depth, access, split, percentiles } = self;
        let beyond = || Error::input("the rate is beyond 64 bits");
        let messages = arrivals.rate.times(arrivals.batch).ok_or_else(beyond)?;
        let rates = tokens.map_or_else(|| above(messages), |rate| Ok(vec![rate]))?;
        let mut waits = Vec::new();
        for rate in rates {
            let depth = depth.map_or_else(|| least_depth(*arrivals, rate, *access), Ok).map_err(Error::input)?;
            for shares in 1..=*split {
                waits.push(wait(*arrivals, Bucket { rate, depth }, shares, percentiles).map_err(Error::input)?);
            }
        }
        let access = depth.is_none().then_some(*access);
        Ok(Answer { arrivals: *arrivals, access, percentiles: percentiles.clone(), waits })
    }
}

/// Rates of tokens to choose from.
fn above(messages: Rate) -> Result<Vec<Rate>, Error> {
    let more = |percent: u32| messages.times(100 + percent)?.share(100);
    HEADROOM.into_iter().map(more).collect::<Option<_>>().ok_or_else(|| Error::input("the rate is beyond 64 bits"))
}

/// Which buckets of a recording are asked for.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When messages came, ascending.
    pub arrivals: Vec<Duration>,
    /// How often a token comes; `None`: several rates above that of the messages.
    pub tokens: Option<Rate>,
    /// So many messages must not wait at all.
    pub access: Percentile,
}

/// What was found; `formats/trace.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    /// How many there are.
    pub messages: usize,
    /// Of the messages.
    pub rate: Rate,
    access: Percentile,
    /// For each rate of tokens.
    pub least: Vec<Bucket>,
}

impl Trace {
    /// The buckets.
    ///
    /// # Errors
    /// Arrivals that have no rate, and rates beyond 64 bits.
    pub fn answer(&self) -> Result<Recorded, Error> {
        let rate = mean_rate(&self.arrivals).map_err(Error::input)?;
        let rates = self.tokens.map_or_else(|| above(rate), |rate| Ok(vec![rate]))?;
        let least = |rate| Ok(Bucket { rate, depth: least_depth_of_trace(&self.arrivals, rate, self.access)? });
        let least = rates
            .into_iter()
            .map(least)
            .collect::<Result<Vec<Bucket>, giusto_analysis::Error>>()
            .map_err(Error::input)?;
        Ok(Recorded { messages: self.arrivals.len(), rate, access: self.access, least })
    }
}
