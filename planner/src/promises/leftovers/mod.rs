//! Leftovers: what the reservations leave, and to whom.

mod refusal;

pub use refusal::Floors;

use crate::facts::Facts;
use crate::host::OneHost;
use crate::promises::method::{Asks, Method};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::{in_tenths, Trial, TENTHS};
use crate::words::{reason, share, time};
use crate::xen::for_leftovers;
use giusto_model::{
    longest_wait, Admission, Backend, Bandwidth, Cap, Duration, Host, LeftoverPlan, Promise, Reason, Service,
    ServicePlan, SiteModes, STOPPED,
};
use std::cmp::Reverse;

/// The method of this promise.
pub(crate) struct Leftovers;

/// The name of the reason that says how many processes of a service have to be busy for its floor, where it is more than one.
pub const BUSY_PROCESSES: &str = "busy processes";

/// A core and what the reservations leave of it.
type Left = (u32, Bandwidth);

/// Plans the services that get what is left: each on all `open` cores of the host, the first of them those that hold its floor.
pub(crate) fn leftovers(
    on: &OneHost,
    open: &[u32],
    services: &[ServicePlan],
    admission: &[Admission],
) -> Result<Vec<LeftoverPlan>, Refusal> {
    let (host, facts) = (on.host, on.facts);
    quota(on)?;
    let asked: Vec<(&Service, Bandwidth)> = on.services.iter().filter_map(|service| floor_of(service)).collect();
    let Some(&(largest, _)) = asked.iter().max_by_key(|(_, floor)| *floor) else { return Ok(Vec::new()) };
    let range = || Refusal::tasks(&largest.name, giusto_analysis::Error::Range);
    let open = &for_leftovers(host, open, services);
    if open.is_empty() {
        return Err(Refusal::Asked {
            service: largest.name.clone(),
            why: "each core of its host is one that another service has to have to itself".into(),
            instead: "expected a core more, or other promises of these".into(),
        });
    }
    let cores = preference(host, open, services).ok_or_else(range)?;
    let available = sum_down(cores.iter().map(|(_, left)| *left)).ok_or_else(range)?;
    let floors: Vec<Bandwidth> = asked.iter().map(|(_, floor)| *floor).collect();
    let running = asked.iter().filter(|(service, _)| !begins_stopped(service, on.modes));
    let demand = sum_up(running.map(|(_, floor)| *floor)).ok_or_else(range)?;
    if demand > available {
        let first = on.modes.map(|modes| modes.modes[0].name.clone());
        let cause = Cause::Floors(Floors { demand, supply: available }).within(first, None);
        return Err(Refusal::does_not_fit(&largest.name, cause));
    }
    let held = hold(&cores, &floors).ok_or_else(range)?;
    let (wait, why_wait) = waits(open, services, admission).ok_or_else(range)?;
    let soft: Vec<&str> = services.iter().filter(|s| s.cap == Cap::Soft).map(|s| s.name.as_str()).collect();
    let plan = |((service, at_least), held): (&(&Service, Bandwidth), Vec<u32>)| {
        let rest = cores.iter().map(|(core, _)| *core).filter(|core| !held.contains(core));
        let mut reasons = vec![
            reason(
                "cores",
                list(&held.iter().copied().chain(rest.clone()).collect::<Vec<_>>()),
                "in order of preference: those that hold its floor, then those without a reservation, then those with most \
                 left; its processes are spread over them in this order, each on one",
            ),
            reason(
                "available",
                share(available),
                format!(
                    "of one core, together: each core less its reservations and the {} kept free{}; shared by all leftovers{}",
                    share(host.keep_free),
                    managed(services, facts),
                    if soft.is_empty() { String::new() } else { format!(" and by {}, whose cap is soft", soft.join(", ")) }
                ),
            ),
            floor(*at_least, demand, &held),
        ];
        let parked: Vec<u32> = host.cores.iter().copied().filter(|core| !open.contains(core)).collect();
        if !parked.is_empty() {
            let why = "the site says 'unused: park': nothing runs on them, and what gets leftovers is on cores that are in use anyhow";
            reasons.insert(1, reason("parked", list(&parked), why));
        }
        let at_most = if let Promise::Leftovers { at_most, .. } = service.promise { at_most } else { None };
        if let Some(most) = at_most {
            let why = "of one core, all its processes together, by the kernel's quota: a cap, never a guarantee";
            reasons.push(reason("at most", share(most), why));
        }
        if held.len() > 1 {
            reasons.push(reason(
                BUSY_PROCESSES,
                held.len(),
                "at least, for its floor: a process runs on one core at a time, and no core has that much left for it",
            ));
        }
        reasons.push(reason("longest wait", time(wait), why_wait));
        LeftoverPlan {
            name: service.name.clone(),
            on: host.name.clone(),
            origin: service.origin.clone(),
            process: service.process.clone(),
            cores: held.iter().copied().chain(rest).collect(),
            at_least: *at_least,
            at_most,
            available,
            longest_wait: wait,
            observe: service.observe.clone(),
            reasons,
        }
    };
    Ok(asked.iter().zip(held).map(plan).collect())
}

/// A cap needs the kernel's quota.
fn quota(on: &OneHost) -> Result<(), Refusal> {
    let capped = |s: &&&Service| matches!(s.promise, Promise::Leftovers { at_most: Some(_), .. });
    match (on.services.iter().find(capped), on.facts.lacks(Backend::CAP)) {
        (Some(service), Some(why)) => Err(Refusal::Machine {
            lacks: format!("service '{}': at-most needs the backend quota: {why}", service.name),
            remedy: "or leave at-most out".into(),
        }),
        _ => Ok(()),
    }
}

/// The longest that the reservations of one core can hold it, where every core has some, and why. `None` beyond 584 years.
fn waits(open: &[u32], services: &[ServicePlan], admission: &[Admission]) -> Option<(Duration, &'static str)> {
    let (wait, several) = longest_wait(open, services, admission)?;
    let why = match (wait.is_zero(), several) {
        (true, _) => "a core has no reservation",
        (false, true) => {
            "every core has reservations, and those of one core together can hold it so long: Σ budgets / (1 − Σ B/P)"
        }
        (false, false) => "largest enforced hold: every core has a reservation",
    };
    Some((wait, why))
}

/// `, less 2 % for the manager where it works`, or nothing.
fn managed(services: &[ServicePlan], facts: &Facts) -> String {
    match services.iter().any(|s| s.backend.abilities().own_thread) {
        true => format!(", less {} for the manager where it works", share(facts.manager_cost)),
        false => String::new(),
    }
}

fn floor_of(service: &Service) -> Option<(&Service, Bandwidth)> {
    match service.promise {
        Promise::Leftovers { at_least, .. } => Some((service, at_least)),
        _ => None,
    }
}

fn floor(at_least: Bandwidth, demand: Bandwidth, held: &[u32]) -> Reason {
    let on = if held.is_empty() {
        String::new()
    } else {
        format!("held by {} {}; ", if held.len() == 1 { "core" } else { "cores" }, list(held))
    };
    reason(
        "at least",
        share(at_least),
        format!(
            "{on}by admission, not by a mechanism: reservations are hard, so what is left is left; all floors together ask \
             for {}. Among leftovers the kernel shares as it likes",
            share(demand)
        ),
    )
}

/// The cores with 1 − reservation − keep-free, most first: those without a reservation have most. Equal ones in the order of
/// the site. `None` if an exact share needs more than 64 bits.
fn preference(host: &Host, open: &[u32], services: &[ServicePlan]) -> Option<Vec<Left>> {
    let whole = Bandwidth::ONE.checked_sub(host.keep_free)?;
    let on = |core: u32| services.iter().find(|s| s.core == core).map_or(whole, |s| s.left_for_others);
    let mut cores: Vec<Left> = open.iter().map(|&core| (core, on(core))).collect();
    cores.sort_by_key(|(_, left)| Reverse(*left));
    Some(cores)
}

/// The cores that hold each floor, which all fit together on `cores`; none for a floor of nothing.
///
/// A process runs on one core at a time, so a floor goes to the first core that holds all of it; where there is none it is cut
/// over as few cores as possible. The largest floor chooses first: a heuristic, so that a floor may be cut that another
/// order would have kept whole. O(floors · cores · log cores). `None` if an exact share needs more than 64 bits.
fn hold(cores: &[Left], floors: &[Bandwidth]) -> Option<Vec<Vec<u32>>> {
    let mut left = cores.to_vec();
    let mut held = vec![Vec::new(); floors.len()];
    let mut largest_first: Vec<usize> = (0..floors.len()).collect();
    largest_first.sort_by_key(|&index| Reverse(floors[index]));
    for index in largest_first {
        let mut missing = floors[index];
        let mut most_left: Vec<usize> = (0..left.len()).collect();
        match left.iter().position(|(_, left)| *left >= missing) {
            Some(whole) => most_left = vec![whole],
            None => most_left.sort_by_key(|&core| Reverse(left[core].1)),
        }
        for core in most_left {
            let part = missing.min(left[core].1);
            if part == Bandwidth::ZERO {
                break;
            }
            left[core].1 = left[core].1.checked_sub(part)?;
            missing = missing.checked_sub(part)?;
            held[index].push(left[core].0);
        }
    }
    Some(held)
}

/// In the order given, which says something.
fn list(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn sum_up(mut parts: impl Iterator<Item = Bandwidth>) -> Option<Bandwidth> {
    parts.try_fold(Bandwidth::ZERO, Bandwidth::add_up)
}

fn sum_down(mut parts: impl Iterator<Item = Bandwidth>) -> Option<Bandwidth> {
    parts.try_fold(Bandwidth::ZERO, Bandwidth::add_down)
}

/// Whether a service is a leftover that stands still in the mode in which its host begins.
fn begins_stopped(service: &Service, modes: Option<&SiteModes>) -> bool {
    let stopped = |modes: &SiteModes| {
        modes.modes[0].locals.iter().any(|local| local.service == service.name && local.local == STOPPED)
    };
    matches!(service.promise, Promise::Leftovers { .. }) && modes.is_some_and(stopped)
}

/// The floor of the witness less what is missing.
fn lower_floor(trial: &Trial, witness: &Service, floors: &Floors) -> Option<NearestFit> {
    let Promise::Leftovers { at_least, at_most } = witness.promise else { return None };
    let room = in_tenths(at_least.checked_sub(floors.demand.checked_sub(floors.supply)?)?);
    let at_least = Bandwidth::new(room, TENTHS)?;
    trial.with(|s, _| s.promise = Promise::Leftovers { at_least, at_most }).then_some(NearestFit::AtLeast(at_least))
}

impl Method for Leftovers {
    fn asks(&self, service: &Service) -> Asks {
        Asks::Rest(floor_of(service).map_or(Bandwidth::ZERO, |(_, floor)| floor))
    }

    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit> {
        match cause {
            Cause::Floors(floors) => {
                lower_floor(trial, witness, floors).into_iter().chain(trial.more_cores(1)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// They come last and displace no other.
    fn smaller(&self, _trial: &Trial, _witness: &Service) -> Vec<NearestFit> {
        Vec::new()
    }
}
