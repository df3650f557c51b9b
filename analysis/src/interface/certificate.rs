//! What shows that a resource is enough for tasks, or is not.

use super::supply::Resource;
use giusto_model::{Duration, Point, Scheduler};
use serde::{Deserialize, Serialize};

/// What must hold of one resource for one task set: at each point the supply is at least the demand.
///
/// Fixed priority: one point a task (at one instant up to its deadline the work of it and all above it is done, Lemma 1).
/// EDF: ascending deadlines, from the first one on, each with a supply that is enough until the next of them (the last one
/// until `until`): `demand` is what is due by the end of that stretch. Supply never falls, so every deadline up to `until` is
/// covered; the points may be all deadlines, or fewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Which test.
    pub scheduler: Scheduler,
    /// Who supplies.
    pub resource: Resource,
    /// Nothing is supplied in the first so much of any window, because the host is late (L of spec latency.md).
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// Where it was compared.
    pub points: Vec<Point>,
    /// EDF: no deadline beyond this can be the first to be missed.
    #[serde(rename = "until_ns")]
    pub until: Option<Duration>,
}

/// Why a resource is not enough: where every supply falls short (fixed priority: of the points of one task the one that lacks
/// least; EDF: the first, or where that takes more than a million steps to find, a later one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// Where.
    pub point: Point,
    /// The task that misses, by its place in the list; EDF: one whose deadline is there.
    pub task: usize,
}
