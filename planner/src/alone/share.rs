//! What a service has without Giusto: a core to itself, a part of one by quota and weight, or what is left.

use giusto_model::{Bandwidth, LeftoverPlan, ServicePlan};

/// A reservation.
pub(super) struct Entry<'a> {
    pub(super) planned: &'a ServicePlan,
    pub(super) core: u32,
    pub(super) way: Way,
}

/// How it gets its time.
pub(super) enum Way {
    /// Its core has no other reservation.
    Whole,
    /// By quota and weight.
    Share(Share),
}

/// A part of a core.
pub(super) struct Share {
    /// Of all of its service, of [`Share::WEIGHTS`] a core.
    pub(super) weight: u64,
    /// What the planner says to its promise under quotas.
    pub(super) refused: String,
    /// Planned as a leftover with its bandwidth for a floor; or why that does not fit.
    pub(super) floor: Result<Floor, String>,
}

impl Share {
    /// The weight of a whole core: the largest that cgroups take.
    pub(super) const WEIGHTS: u64 = 10_000;
}

/// What the fair scheduler gives over time.
#[derive(Clone)]
pub(super) struct Floor {
    /// By its weight, wherever others are busy.
    pub(super) least: Bandwidth,
    /// What all share.
    pub(super) available: Bandwidth,
}

/// A service that gets what is left.
pub(super) struct Rest<'a> {
    pub(super) planned: &'a LeftoverPlan,
    /// Where it may run.
    pub(super) cores: Vec<u32>,
    /// These are cores on which reservations are by quota and weight: there are no others.
    pub(super) shares: bool,
    /// Beside reservations, and where it has a floor.
    pub(super) weight: Option<u64>,
    /// What it has; or why its floor is not held.
    pub(super) floor: Result<Floor, String>,
}
