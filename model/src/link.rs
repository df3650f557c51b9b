//! Links between hosts, which a path goes over.

use crate::{Duration, Within};
use serde::{Deserialize, Serialize};

/// What neither host controls on the way of a message from one to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The host that sends.
    pub from: String,
    /// The host that receives, another one.
    pub to: String,
    /// No message takes longer: `{worst: 300us}`. Where it was measured, the longest of all.
    pub worst: Duration,
    /// `{measured: links/lan.csv}`; `None`: the site says the longest time.
    pub measured: Option<LinkTimes>,
}

/// How long messages took over a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTimes {
    /// The file, as the site names it.
    pub file: String,
    /// How many of them.
    pub messages: usize,
    /// Percentiles below the longest time, ascending in both; perhaps none.
    pub latency: Vec<Within>,
}

/// A link on the way of a path, as it was measured: not computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkStage {
    /// The host that sends.
    pub link_from: String,
    /// The host that receives.
    pub on: String,
    /// Percentiles; ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Within>,
    /// No message took longer.
    #[serde(rename = "worst_ns")]
    pub worst: Duration,
}

impl LinkStage {
    /// The slowest law with these percentiles: times with their probabilities.
    pub fn times(&self) -> Vec<(Duration, f64)> {
        times_of(&self.latency, self.worst)
    }
}

/// The slowest law of which `latency` are percentiles, in ascending order, and `worst` is the longest time: times with their
/// probabilities.
pub fn times_of(latency: &[Within], worst: Duration) -> Vec<(Duration, f64)> {
    let ends = latency.iter().map(|point| (point.within, point.percentile.percent() / 100.0));
    let ends = ends.chain([(worst, 1.0)]);
    let part =
        |before: &mut f64, (time, below): (Duration, f64)| Some((time, below - std::mem::replace(before, below)));
    ends.scan(0.0, part).collect()
}
