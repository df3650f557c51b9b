//! Services that get what is left: where they run, that their floors fit there, what is left, how long nothing is.

use super::broken::Broken;
use super::exact::{share, whole, Exact};
use super::hold;
use super::promise;
use giusto_model::{Admission, Backend, HostPlan, LeftoverPlan, ModesPlan, Plan, ServicePlan, STOPPED};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What sums beyond 64 bits are rounded by, for each part.
const ROUNDED: u64 = 1_000_000_000;

/// Those of `host`, whose part of the plan this is, in the mode in which it begins.
pub(super) fn check(plan: &Plan, host: &HostPlan) -> Result<(), Broken> {
    let open: BTreeSet<u32> = open_cores(plan, host).into_iter().collect();
    let left = left(plan, host);
    let sum: Exact = left.iter().map(|(_, left)| left.clone()).sum();
    let rounded = Exact::new(left.len().into(), ROUNDED.into());
    let wait = longest_wait(plan, host);
    for one in &plan.leftovers {
        let broken = |what: &str, needed: String, found: String| {
            Err(Broken { service: Some(one.name.clone()), ..Broken::new(what, needed, found) })
        };
        let cores: BTreeSet<u32> = one.cores.iter().copied().collect();
        if cores != open || cores.len() != one.cores.len() {
            return broken("all open cores of its host, each once", format!("{open:?}"), format!("{:?}", one.cores));
        }
        let available = share(one.available);
        if available > sum || available.clone() + &rounded < sum {
            return broken("what is left on all cores together", sum.to_string(), available.to_string());
        }
        let told = whole(one.longest_wait.ns().into());
        let least = wait.clone().map_or(whole(0), |wait| wait.ceil());
        let most = wait.clone().map_or(whole(0), |wait| wait.floor() + whole(1));
        if wait.is_none() || told < least || told > most {
            let needed = wait.map_or("an end".into(), |wait| format!("{} ns", wait.ceil()));
            return broken("the longest time that it can be kept off all cores", needed, one.longest_wait.to_string());
        }
    }
    first_cores(plan, left)
}

/// Whether the modes of its host begin with this service standing still.
pub(super) fn begins_stopped(plan: &Plan, name: &str) -> bool {
    let stopped = |modes: &ModesPlan| {
        let place = modes.members.iter().position(|member| member.service == name)?;
        modes.modes.first()?.locals.get(place).map(|local| local == STOPPED)
    };
    plan.modes.iter().any(|modes| stopped(modes) == Some(true))
}

/// Where leftovers may run: not on parked cores; nor, under Xen's RTDS, where a server has to have the highest priority of its
/// core, as what RTDS gives to leftovers goes before it whenever its deadline does.
fn open_cores(plan: &Plan, host: &HostPlan) -> Vec<u32> {
    let first = |entry: &&ServicePlan| entry.backend == Backend::Rtds && (promise::claims(&entry.promise).alone)(entry);
    let taken: Vec<u32> = plan.services.iter().filter(first).map(|entry| entry.core).collect();
    host.open_cores().into_iter().filter(|core| !taken.contains(core)).collect()
}

/// What reservations leave of each open core, in their order.
fn left(plan: &Plan, host: &HostPlan) -> Vec<(u32, Exact)> {
    let kept = share(host.keep_free);
    let of = |core: u32| {
        let entry = plan.services.iter().find(|entry| entry.core == core);
        let unused = if kept <= whole(1) { whole(1) - &kept } else { whole(0) };
        entry.map_or(unused, |entry| share(entry.left_for_others))
    };
    open_cores(plan, host).into_iter().map(|core| (core, of(core))).collect()
}

/// The longest that the reservations of one core can hold it where every open core has some; else nothing. `None`: for ever.
fn longest_wait(plan: &Plan, host: &HostPlan) -> Option<Exact> {
    let mut longest = whole(0);
    for core in open_cores(plan, host) {
        let told: Option<&Admission> = host.admission.iter().find(|told| told.core == core);
        let Some(told) = told else { return Some(whole(0)) };
        let here: Vec<&ServicePlan> = plan.services.iter().filter(|entry| entry.core == core).collect();
        longest = longest.max(hold::busy(&here, told)?);
    }
    Some(longest)
}

/// Whether floors are held by the first cores of each list, the largest floor first: a process runs on one core at a time, and
/// its processes are put on these cores in their order. So where one core can hold all of a floor, the first of its list does.
fn first_cores(plan: &Plan, mut left: Vec<(u32, Exact)>) -> Result<(), Broken> {
    let floor = |one: &&LeftoverPlan| !begins_stopped(plan, &one.name);
    let mut all: Vec<&LeftoverPlan> = plan.leftovers.iter().filter(floor).collect();
    all.sort_by_key(|one| Reverse(one.at_least));
    for one in all {
        let mut missing = share(one.at_least);
        let whole_on = left.iter().find(|(_, left)| *left >= missing).map(|(core, _)| *core);
        for core in &one.cores {
            let Some((_, rest)) = left.iter_mut().find(|(other, _)| other == core) else { continue };
            if let Some(better) = whole_on.filter(|_| *rest < missing) {
                let broken = Broken::new("a first core that holds its floor", better, core);
                return Err(Broken { service: Some(one.name.clone()), ..broken });
            }
            let part = rest.clone().min(missing.clone());
            (*rest, missing) = (rest.clone() - &part, missing - part);
            if missing == whole(0) {
                break;
            }
        }
        if missing > whole(0) {
            let broken = Broken::new("room for its floor on its cores", one.at_least, format!("{missing} too little"));
            return Err(Broken { service: Some(one.name.clone()), ..broken });
        }
    }
    Ok(())
}
