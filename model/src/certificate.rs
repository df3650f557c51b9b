//! What proves that a plan keeps its promises: numbers that a checker can compute again (`giusto check --certificate`).

use crate::{Backend, Bandwidth, Duration, Interface, Percentile};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What proves that one entry of a plan keeps its promise, given that its server gets its budget in every period, which is
/// what [`Admission`] proves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Certificate {
    /// In every window the server supplies in time what the tasks may ask for.
    EveryDeadline {
        /// What is counted on in every period: the budget less what may be lost of it.
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// Nothing is counted on in the first so much of any window.
        #[serde(rename = "latency_ns")]
        latency: Duration,
        /// Where it was compared. Fixed priority: for each task one instant up to its deadline at which its work and all
        /// above it is done. Any order: one instant up to the shortest deadline at which all work is done. EDF: ascending
        /// deadlines from the first on, each with a supply that is enough until the next (the last one: until `until`).
        points: Vec<Point>,
        /// EDF: no deadline beyond this can be the first to be missed.
        #[serde(rename = "until_ns")]
        until: Option<Duration>,
        /// On what of its server this rests.
        #[serde(default, skip_serializing_if = "RestsOn::is_periodic_resource")]
        rests_on: RestsOn,
    },
    /// No window as long as the server's period has more work on a whole core than the budget.
    AsIfAlone {
        /// A window that has most begins here: after a joint release of all tasks, or, where all keep their offsets, so long
        /// after any multiple of their hyperperiod once all have started. `None`: every one has as much.
        #[serde(rename = "from_ns")]
        from: Option<Duration>,
        /// Work in it.
        #[serde(rename = "demand_ns")]
        demand: Duration,
    },
    /// The law of the response time on the server, as computed [LiH21, chapter 4].
    Percentiles {
        /// What is counted on in every period: the budget less what may be lost of it.
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// What is added to every response time for what comes late.
        #[serde(rename = "latency_ns")]
        latency: Duration,
        /// What is added to every response time as others of the core may go first: the period; 0 where it is alone.
        #[serde(rename = "wait_ns")]
        wait: Duration,
        /// Each that was promised, with all of that in it.
        predicted: Vec<PredictedPercentile>,
        /// N: slots in a mean service time on the finest grid.
        slots: u64,
        /// How far the last halving of the slots moved probabilities, in millionths; about three times the error that is left.
        error_ppm: u32,
    },
    /// A stage of paths: what they count on ([`PathPlan`](crate::PathPlan) proves that it is enough).
    Stage {
        /// What is counted on in every period: the budget less what may be lost of it.
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// What is added to every response time for what comes late.
        #[serde(rename = "latency_ns")]
        latency: Duration,
    },
    /// Budget and period are what was promised.
    Supply,
}

/// What of a server the proof of deadlines rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RestsOn {
    /// The budget comes anywhere in each period, late once by the latency.
    #[default]
    PeriodicResource,
    /// A period begins with the work: what may come within a period and the latency is done by its end. The one point
    /// compares all of that with the budget.
    WakeUp,
    /// Periods begin with the work as well, and all releases are multiples of the period apart, so that windows begin with a
    /// period, late by the latency ([Lee11, eq. 1], "harmonic").
    AlignedReleases,
    /// The highest priority of a core and a budget that never runs out (Theorem 1): all of the core but this much of each
    /// period is supplied, late once by the latency. `budget` is the most work of any period, these losses included; the
    /// server has the loss and the latency besides.
    WholeCore {
        /// What is lost of each period.
        #[serde(rename = "loss_ns")]
        loss: Duration,
    },
}

impl fmt::Display for RestsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RestsOn::PeriodicResource => "the periodic resource",
            RestsOn::WakeUp => "the wake-up",
            RestsOn::AlignedReleases => "aligned releases",
            RestsOn::WholeCore { .. } => "a whole core",
        })
    }
}

impl RestsOn {
    fn is_periodic_resource(&self) -> bool {
        *self == RestsOn::PeriodicResource
    }
}

/// A percentile that was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictedPercentile {
    /// Which.
    pub percentile: Percentile,
    /// It is at most this.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// What to expect if every request takes the mean, where only a bound and a mean are known; no bound on anything.
    #[serde(rename = "expected_ns")]
    pub expected: Option<Duration>,
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Fixed priority: the task, by its place in the list.
    pub task: Option<usize>,
    /// Length of the window.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// Most that may be asked for in it; in a certificate of EDF, in any window shorter than the next point's.
    #[serde(rename = "demand_ns")]
    pub demand: Duration,
    /// Least that is supplied in it.
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
}

/// What proves that each server of one core gets its budget in every period beside the others: Σ B/P ≤ `most`, and, where one
/// is deferrable and can take two budgets in a row, that no window asks for more than its length, which follows from the
/// servers alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// The core.
    pub core: u32,
    /// Who enforces its servers.
    pub backend: Backend,
    /// What the backend itself takes of the core.
    pub cost: Bandwidth,
    /// What it takes for all periods of its servers, in whatever mode, where that is more than `cost`: at most keep-free more.
    /// Not written where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Bandwidth>,
    /// Σ B/P of its servers, that of `boost` included; with criticality the larger of Σ B/P and Σ over high ones worst/P.
    pub reserved: Bandwidth,
    /// Most that may be reserved: at most 1 − keep-free − cost.
    pub most: Bandwidth,
    /// A hypothetical server for agents that are boosted: the work of all agents of the core, once in the least time between
    /// two changes of the mode. It goes before all others, and is to them a deferrable one. `None`: no agent is boosted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<Interface>,
    /// Of a core whose servers have criticality, which is then under the mixed order: the factor of all virtual deadlines (x of
    /// [Asy20, eqs. 4 to 6]), 1 where plain EDF suffices. With it Σ over low B/P + Σ over high B/(x·P) ≤ `most` and
    /// x · Σ over low B/P + Σ over high worst/P ≤ `most`. `None`: no server has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<Bandwidth>,
}
