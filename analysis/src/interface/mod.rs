//! Compositional analysis: the periodic resource that is enough for a task set, and cheapest (CSA).
//!
//! Sources: paper 002 (eq. 1, Lemma 1, Algorithm 1), paper 004 ("Schedulability Analysis", (α, Δ) design). Time is integer
//! nanoseconds; bandwidths that decide are compared as exact fractions. Offsets are ignored: all tasks count as sporadic,
//! which is sufficient, and exact for sporadic tasks. Copies count as so many tasks.
//!
//! [`Resource`] is what supplies, [`demand`] what a task set asks for; `schedulable` compares the two and gives a
//! [`Certificate`], the points that decide.

pub mod demand;
pub mod supply;

pub use giusto_model::Scheduler;
pub use supply::Resource;

use giusto_model::{Duration, Task};
use serde::{Deserialize, Serialize};

/// What must hold of one resource for one task set: at each point the supply is at least the demand.
///
/// Fixed priority: one point a task (at one instant up to its deadline the work of it and all above it is done, Lemma 1).
/// EDF: every point at which demand rises up to a bound that is told (`until`).
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

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Fixed priority: the task, by its place in the list.
    pub task: Option<usize>,
    /// Length of the window.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// Most that may be asked for in it.
    #[serde(rename = "demand_ns")]
    pub demand: Duration,
    /// Least that is supplied in it.
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
}

/// Why a resource is not enough: where every supply falls short (fixed priority: of the points of one task the one that lacks
/// least; EDF: the first).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// Where.
    pub point: Point,
    /// The task that misses, by its place in the list; EDF: one whose deadline is there.
    pub task: usize,
}

/// Whether `resource` keeps every deadline of `tasks` under `scheduler`, with `latency` taken off every window.
///
/// Ok(Ok): the certificate; Ok(Err): the witness. Errors: an impossible task or resource, U = bandwidth without a bound.
pub fn schedulable(
    tasks: &[Task],
    scheduler: Scheduler,
    resource: &Resource,
    latency: Duration,
) -> Result<Result<Certificate, Shortfall>, crate::Error> {
    let _ = (tasks, scheduler, resource, latency);
    todo!("the core of this module")
}

/// Least whole number of `quantum` that is enough as the budget of `shape`, whose period (and EDP deadline, MPR cores) is kept
/// and whose budget is ignored; `None` if not even a whole period of it (times its cores) is.
pub fn least_budget(
    tasks: &[Task],
    scheduler: Scheduler,
    shape: &Resource,
    quantum: Duration,
    latency: Duration,
) -> Result<Option<Duration>, crate::Error> {
    let _ = (tasks, scheduler, shape, quantum, latency);
    todo!("the core of this module")
}
