//! How long servers can keep all other threads off their core.

use super::alone;
use super::broken::Broken;
use super::exact::{share, whole, Exact};
use giusto_model::{Admission, Certificate, Criticality, Duration, Renewal, ServicePlan};

/// Whether the hold of `entry`, `alone` on its core or not, is what its budget makes of it: two budgets in a row where one can
/// end a period and the next begin the next, else one.
pub(super) fn check(entry: &ServicePlan, alone: bool) -> Result<(), Broken> {
    let whole_core = matches!(entry.certificate, Certificate::AsIfAlone { .. });
    let in_a_row = match entry.server.kind.renewal() {
        Renewal::KeptOnGrid => 2,
        Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited if alone && !whole_core => 1,
        Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited => 2,
    };
    let enforced = longest(entry).checked_mul(in_a_row);
    let conforming = match whole_core {
        // Whatever the offsets is right in any case, and all that is known where too much comes in a hyperperiod.
        true => match alone::longest_busy_kept(&entry.tasks) {
            Some(kept) if kept == entry.hold.conforming => Some(kept),
            _ => Some(alone::longest_busy(&entry.tasks)?),
        },
        false => enforced,
    };
    for (what, claimed, needed) in [
        ("how long it can hold its core", entry.hold.enforced, enforced),
        ("how long it holds its core while it keeps to its tasks", entry.hold.conforming, conforming),
    ] {
        if Some(claimed) != needed {
            let needed = needed.map_or("less than 584 years".into(), |needed| needed.to_string());
            return Err(Broken::new(what, needed, claimed));
        }
    }
    match &entry.pessimistic {
        Some(proof) if proof.hold != entry.hold => {
            let (needed, found) = (entry.hold.enforced, proof.hold.enforced);
            Err(Broken::new("at its worst: how long it can hold its core", needed, found))
        }
        _ => Ok(()),
    }
}

/// The larger of its budgets.
fn longest(entry: &ServicePlan) -> Duration {
    match entry.criticality {
        Some(Criticality::High { worst, .. }) => worst,
        Some(Criticality::Low) | None => entry.server.budget,
    }
}

/// The longest time for which the servers `here` can keep all others off their core. One: its hold. Several: in t after an
/// instant at which none could run, a server takes B + t·B/P at most, or 2B + t·B/P where a budget can lie ready, and what
/// boosts take is of that kind; with criticality all take their usual budgets or the high ones alone their worst. So
/// it ends at Σ budgets / (1 − Σ B/P − what the backend takes). `None`: never.
pub(super) fn busy(here: &[&ServicePlan], told: &Admission) -> Option<Exact> {
    if let ([one], None) = (here, told.boost) {
        return Some(whole(one.hold.enforced.ns().into()));
    }
    let taken = share(told.reserved) + share(told.upkeep.unwrap_or(told.cost));
    let rest = (taken < whole(1)).then(|| whole(1) - taken)?;
    let usual = |entry: &&ServicePlan| match entry.server.kind.renewal() {
        Renewal::Steady | Renewal::Parts => u128::from(entry.server.budget.ns()),
        Renewal::Grid | Renewal::KeptOnGrid | Renewal::Unlimited => 2 * u128::from(entry.server.budget.ns()),
    };
    let high = |entry: &&ServicePlan| match entry.criticality {
        Some(Criticality::High { worst, .. }) => u128::from(worst.ns()),
        Some(Criticality::Low) | None => 0,
    };
    let boost = told.boost.map_or(0, |boost| 2 * u128::from(boost.budget.ns()));
    let all = here.iter().map(usual).sum::<u128>() + boost;
    Some(whole(all.max(here.iter().map(high).sum())) / rest)
}
