//! What `giusto status` tells of the response times of a service: forms, which [`crate::Status`] is made of.

use giusto_model::Observe;
use giusto_verify::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Upper ends of the classic histogram's buckets, in us: about three a decade.
const ENDS_US: [u64; 22] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// What is observed of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedStatus {
    /// What.
    pub by: ObservedBy,
    /// Why just that.
    pub why: String,
}

/// Where response times come from; see [`Observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum ObservedBy {
    Requests,
    WakeUps,
    Supply,
    Reported,
    None,
}

impl From<&Observe> for ObservedBy {
    fn from(observe: &Observe) -> ObservedBy {
        match observe {
            Observe::Requests => ObservedBy::Requests,
            Observe::WakeUps => ObservedBy::WakeUps,
            Observe::Supply => ObservedBy::Supply,
            Observe::Reported(_) => ObservedBy::Reported,
            Observe::None => ObservedBy::None,
        }
    }
}

impl fmt::Display for ObservedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ObservedBy::Requests => "requests",
            ObservedBy::WakeUps => "wake-ups",
            ObservedBy::Supply => "supply",
            ObservedBy::Reported => "reported",
            ObservedBy::None => "none",
        })
    }
}

/// What the requests of a service took, from the arrival of the first byte at its socket until the last byte of the answer was
/// handed to it; or its jobs, from the wake-up of a thread until that went back to sleep; or what it says itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseStatus {
    /// Requests answered, or jobs done, since Giusto watches it.
    pub answered: u64,
    /// What they took, all together.
    pub total_ns: u64,
    /// How many took at most so long, in ns, and longer than the one before.
    pub lengths: Vec<[u64; 2]>,
    /// Connections by what they speak; of `tls` and `unknown` nothing is in the counts. Of jobs empty.
    pub connections: BTreeMap<String, u64>,
    /// How often a connection was not understood for a while, whose requests are in no count then; threads that there was no
    /// place for; what was reported and not understood.
    pub unseen: u64,
    /// The last minute, hour and day.
    pub past: Vec<PastStatus>,
    /// What was promised of them, point by point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promised: Vec<PointStatus>,
}

/// A path of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathStatus {
    /// Its name.
    pub name: String,
    /// Its stages, in order.
    pub through: Vec<String>,
    /// What its messages took, from the beginning of the first service's span to the end of the last one's, ten seconds after
    /// they began; `None`: it is not observed. Late ones by the service at which they took longest beyond what is planned.
    pub responses: Option<ResponseStatus>,
    /// What is wrong with what its services say; `None`: nothing.
    pub problem: Option<String>,
}

/// What a server got in its periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupplyStatus {
    /// Periods so far ...
    pub periods: u64,
    /// ... in which it got its whole budget ...
    pub full: u64,
    /// ... and throughout which it wanted the core and did not. In all others it wanted less.
    pub missed: u64,
    /// The last minute, hour and day.
    pub past: Vec<SupplyPastStatus>,
}

/// The same for some time until now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupplyPastStatus {
    /// How long.
    pub seconds: u64,
    /// Periods in it.
    pub periods: u64,
    /// Periods throughout which it wanted the core and did not get its budget.
    pub missed: u64,
    /// `kept`: there were none; `cannot-tell`: without a period.
    pub verdict: Verdict,
}

/// Some time until now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastStatus {
    /// How long; less than a minute, an hour or a day where Giusto has not watched for so long.
    pub seconds: u64,
    /// Requests answered in it.
    pub requests: u64,
    /// Their median ...
    pub p50_ns: Option<u64>,
    /// ... 99th percentile ...
    pub p99_ns: Option<u64>,
    /// ... longest ...
    pub max_ns: Option<u64>,
    /// ... and the median of the time until the service has read them, or the thread had the processor.
    pub wait_p50_ns: Option<u64>,
}

/// One percentile that was promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointStatus {
    /// Which, in percent.
    pub percentile: f64,
    /// What was promised.
    pub within_ns: u64,
    /// What the plan predicts.
    pub predicted_ns: Option<u64>,
    /// Requests later than promised since Giusto watches it.
    pub late: u64,
    /// Why they were, as far as the second tells in which they were answered: how many by cause.
    pub late_by: BTreeMap<String, u64>,
    /// How it stood over the last minute, hour and day.
    pub past: Vec<StandingStatus>,
    /// The part that is left of the requests that may be late in a day, at the rate of the last day; negative where more were.
    pub left: f64,
}

/// How a promise stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingStatus {
    /// Over how long.
    pub seconds: u64,
    /// The percentile ...
    pub now_ns: Option<u64>,
    /// ... is at least ...
    pub low_ns: Option<u64>,
    /// ... and at most this (95 %); `None`: too few requests tell.
    pub high_ns: Option<u64>,
    /// Requests later than promised.
    pub late: u64,
    /// How many times as many as may be; where none may be, how many.
    pub burn: f64,
    /// `kept`: the whole interval is within the promise; `missed`: it is beyond; else `cannot-tell`.
    pub verdict: Verdict,
}

impl ResponseStatus {
    /// A classic histogram: the upper end of each bucket in s, and how many were in it.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let count = |end: u64| self.lengths.iter().find(|[ns, _]| *ns == end).map_or(0, |[_, count]| *count);
        let ends = ENDS_US.map(|us| (us as f64 / 1e6, count(us * 1000)));
        ends.into_iter().chain([(f64::INFINITY, count(u64::MAX))]).collect()
    }
}

/// The upper end of the classic histogram's bucket, in ns; the last one has no end.
pub(crate) fn bucket(ns: u64) -> u64 {
    ENDS_US.map(|end| end * 1000).into_iter().find(|end| ns <= *end).unwrap_or(u64::MAX)
}
