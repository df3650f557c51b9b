//! A topic of messages: who publishes how much, what was promised, and what is known of its brokers.

use crate::{Arrivals, Duration, Rate, Reason, Tokens, Within};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A token bucket, or an equal share of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// r
    pub rate: Rate,
    /// b
    pub depth: Tokens,
}

impl Bucket {
    /// One of `count` equal shares; `None` of no shares, or beyond 64 bits.
    pub fn share(self, count: u32) -> Option<Bucket> {
        Some(Bucket { rate: self.rate.share(count)?, depth: self.depth.share(count)? })
    }
}

/// What passes a topic's bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopicLimit {
    /// What each channel sends to its consumers, also again and after any restart.
    #[default]
    Delivery,
    /// What is published, each message once.
    Publishing,
}

impl TopicLimit {
    /// What a message can count on of a bucket that is split into `shares`, whichever other message goes before it. At
    /// delivery a token keeps its place in its share until its message is in a consumer's socket, so that of each share
    /// one token less is there for who comes meanwhile. `None`: nothing.
    pub fn free(self, bucket: Bucket, shares: u32) -> Option<Bucket> {
        match self {
            TopicLimit::Publishing => Some(bucket),
            TopicLimit::Delivery => {
                let (parts, in_one) = bucket.depth.fraction();
                let left = parts.checked_sub(in_one.checked_mul(shares.into())?).filter(|left| *left > 0)?;
                Some(Bucket { depth: Tokens::of(left, in_one)?, ..bucket })
            }
        }
    }
}

impl fmt::Display for TopicLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TopicLimit::Delivery => "delivery",
            TopicLimit::Publishing => "publishing",
        })
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{rate: {}, depth: {}}}", self.rate, self.depth)
    }
}

/// A topic of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// How many publish, each at random and by itself; at least one.
    pub publishers: u32,
    /// Messages of each of them.
    pub each: Rate,
    /// Messages that come at once; at least one.
    pub batch: u32,
    /// Hosts of the site whose brokers may carry it, at least one, each once.
    pub brokers: Vec<String>,
    /// The service that is its only broker, whose share the paths over it decide; `None`: what carries it has a share already.
    pub service: Option<String>,
    /// From being sent to being received; ascending.
    pub promise: Vec<Within>,
    /// What passes its bucket.
    pub limit: TopicLimit,
    /// The bucket that was agreed on; `None`: the planner chooses.
    pub bucket: Option<Bucket>,
    /// What each of the brokers can do; `None`: not known, and the promise is about the wait for tokens alone.
    pub measured: Option<BrokerTimes>,
}

impl Topic {
    /// λ, of all its publishers together; `None` beyond 64 bits.
    pub fn messages(&self) -> Option<Rate> {
        self.each.times(self.publishers)
    }

    /// How they come; `None` beyond 64 bits.
    pub fn arrivals(&self) -> Option<Arrivals> {
        Some(Arrivals { rate: self.messages()?.share(self.batch)?, batch: self.batch })
    }
}

/// A broker without its token buckets, as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerTimes {
    /// Messages of all topics at which `latency` was measured: it carries no more.
    pub capacity: Rate,
    /// From being sent to being received, with so many messages; ascending, at least one.
    pub latency: Vec<Within>,
    /// No message took longer; `None`: not known.
    #[serde(rename = "worst_ns", default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Duration>,
}

/// What was decided for a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// How its messages come, all publishers together.
    pub arrivals: Arrivals,
    /// What was promised.
    pub promise: Vec<Within>,
    /// Hosts whose brokers carry it, an equal part each.
    pub brokers: Vec<String>,
    /// The service that is its only broker: a stage of the paths over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// What passes its bucket.
    pub limit: TopicLimit,
    /// Its bucket.
    pub bucket: Bucket,
    /// What each of its brokers enforces of it.
    pub share: Bucket,
    /// What the prediction rests on, beside the law of the bucket.
    pub measured: Option<BrokerTimes>,
    /// Millionths of all messages that wait for a token.
    pub delayed_ppm: u32,
    /// A latency that holds for each percentile that was promised, in the same order.
    pub predicted: Vec<Within>,
    /// Where each number comes from.
    pub reasons: Vec<Reason>,
}
