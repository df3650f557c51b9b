//! What the reservations leave, and to whom.

use crate::place::Unplaced;
use crate::size::reason;
use crate::{Cause, Refusal};
use giusto_model::{Bandwidth, Duration, LeftoverPlan, Promise, ServicePlan, Site};

/// Plans the services that get what is left: all of them on all cores of the host.
pub(crate) fn leftovers(site: &Site, services: &[ServicePlan]) -> Result<Vec<LeftoverPlan>, Unplaced> {
    let host = &site.host;
    let floors: Vec<(&str, Bandwidth)> = (site.services.iter())
        .filter_map(|s| match s.promise {
            Promise::Leftovers { at_least } => Some((s.name.as_str(), at_least)),
            Promise::AsIfAlone => None,
        })
        .collect();
    let Some(&(largest, _)) = floors.iter().max_by_key(|(_, floor)| *floor) else { return Ok(Vec::new()) };
    let range = || Unplaced::Other(Refusal::Tasks { service: largest.into(), why: giusto_analysis::Error::Range });
    let available = available(site, services).ok_or_else(range)?;
    let demand = sum(floors.iter().map(|(_, floor)| *floor)).ok_or_else(range)?;
    if demand > available {
        return Err(Unplaced::DoesNotFit {
            service: largest.into(),
            cause: Cause::Floors { demand, supply: available },
        });
    }
    let everywhere = host.cores.iter().all(|core| services.iter().any(|s| s.core == *core));
    let wait = services.iter().map(|s| s.hold.enforced).max().filter(|_| everywhere).unwrap_or(Duration::ZERO);
    let cores = most_left_first(site, services);
    let plan = |(service, at_least): (&giusto_model::Service, Bandwidth)| {
        LeftoverPlan {
        name: service.name.clone(),
        origin: service.origin.clone(),
        cores: cores.iter().map(|&(core, _)| core).collect(),
        at_least,
        available,
        longest_wait: wait,
        reasons: vec![
            reason(
                "cores",
                host.cores.len(),
                "all cores of the host, those with most left first: its processes are spread over them, each on one",
            ),
            reason(
                "available",
                available.percent(),
                format!(
                    "of one core, together: each core less its reservation and the {} kept free; shared by all leftovers",
                    host.keep_free.percent()
                ),
            ),
            reason(
                "at least",
                at_least.percent(),
                format!(
                    "by admission, not by a mechanism: reservations are hard, so what is left is left; all floors \
                     together ask for {}; it takes {} of its own. Among leftovers the kernel shares as it likes",
                    demand.percent(),
                    busy_processes(at_least, &cores)
                ),
            ),
            reason(
                "longest wait",
                wait,
                if everywhere { "largest enforced hold: every core has a reservation" } else { "a core has no reservation" },
            ),
        ],
    }
    };
    Ok(site.services.iter().filter_map(floor_of).map(plan).collect())
}

/// The host's cores with what is left of each, most first; of equals the first.
fn most_left_first(site: &Site, services: &[ServicePlan]) -> Vec<(u32, Bandwidth)> {
    let whole = Bandwidth::ONE.checked_sub(site.host.keep_free).unwrap_or(Bandwidth::ZERO);
    let left = |core: u32| services.iter().find(|s| s.core == core).map_or(whole, |s| s.left_for_others);
    let mut cores: Vec<_> = site.host.cores.iter().map(|&core| (core, left(core))).collect();
    cores.sort_by_key(|&(core, left)| (std::cmp::Reverse(left), core));
    cores
}

/// How many processes have to be busy for a floor, as each runs on one core at a time.
fn busy_processes(floor: Bandwidth, cores: &[(u32, Bandwidth)]) -> String {
    let mut sums = cores.iter().scan(Some(Bandwidth::ZERO), |sum, &(_, left)| {
        *sum = sum.and_then(|sum| sum.checked_add(left));
        Some(*sum)
    });
    let needed = sums.position(|sum| sum.is_none_or(|sum| sum >= floor)).map_or(cores.len(), |at| at + 1);
    if needed == 1 {
        "one busy process".into()
    } else {
        format!("{needed} busy processes")
    }
}

fn floor_of(service: &giusto_model::Service) -> Option<(&giusto_model::Service, Bandwidth)> {
    match service.promise {
        Promise::Leftovers { at_least } => Some((service, at_least)),
        Promise::AsIfAlone => None,
    }
}

/// Σ over the cores of 1 − reservation − keep-free; `None` if the exact sum needs more than 64 bits.
fn available(site: &Site, services: &[ServicePlan]) -> Option<Bandwidth> {
    let whole = Bandwidth::ONE.checked_sub(site.host.keep_free)?;
    let on = |core: &u32| services.iter().find(|s| s.core == *core).map_or(whole, |s| s.left_for_others);
    sum(site.host.cores.iter().map(on))
}

fn sum(mut parts: impl Iterator<Item = Bandwidth>) -> Option<Bandwidth> {
    parts.try_fold(Bandwidth::ZERO, Bandwidth::checked_add)
}
