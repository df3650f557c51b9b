//! Which core of its host each server gets, several on a core under EDF.

use super::entry::place;
use crate::admission::{admit, refuse, Core, CoreRefusal};
use crate::candidates::{candidates, Candidate};
use crate::host::{OneHost, Supplied};
use crate::needs::Company;
use crate::promises;
use crate::refusal::{Cause, Refusal};
use crate::xen;
use giusto_model::{Bandwidth, ChangePolicy};
use std::cmp::Reverse;

type Placed = (Vec<Supplied>, Option<ChangePolicy>);

/// Plans the services that share cores on `cores` of their host, with their
/// places among its services.
///
/// Some servers are cheaper alone on a core, where they have the highest priority. Where there are too few cores for all of
/// these, those that save least by it share, one after the other, until all fit. Servers that have a core now stay there
/// ([`as_now`]); where that leaves no place for others, all are placed anew. O(services) attempts.
pub(crate) fn supplies(on: &OneHost, cores: &[u32]) -> Result<Placed, Refusal> {
    let of = |company: Company| move |order: usize| candidates(on, order, company);
    let all = || 0..on.services.len();
    let alone: Vec<Vec<Candidate>> = all().map(of(Company::Alone)).collect::<Result<_, _>>()?;
    let choice = on.services.iter().any(|service| promises::of(&service.promise).cheaper_alone());
    // A service that needs no core of its own even where there is one is the same beside others.
    let same = |order: usize| alone[order].iter().all(|entry| !entry.vcpu.alone);
    let other = |order: usize| if same(order) { Ok(alone[order].clone()) } else { of(Company::Beside)(order) };
    let staying = !on.facts.placed.is_empty();
    let beside: Vec<Result<Vec<Candidate>, Refusal>> =
        if staying || choice { all().map(other).collect() } else { Vec::new() };
    if let Some(placed) = staying.then(|| as_now(on, cores, &alone, &beside)).flatten() {
        return Ok(placed);
    }
    let why = match place_all(on, cores, alone.concat(), Stay::Nowhere) {
        Ok(placed) => return Ok(placed),
        Err(why) => why,
    };
    if !choice {
        return Err(why);
    }
    let least_first = least_first(&alone, &beside);
    for given_up in 1..least_first.len() {
        let entries = mixed(&alone, &beside, &least_first[given_up..]);
        if let Some(placed) =
            enough(&entries, cores).then(|| place_all(on, cores, entries, Stay::Nowhere).ok()).flatten()
        {
            return Ok(placed);
        }
    }
    let last = place_all(on, cores, mixed(&alone, &beside, &[]), Stay::Nowhere);
    match (last, beside.into_iter().find_map(Result::err)) {
        (Ok(placed), _) => Ok(placed),
        // Not for want of cores: it cannot be had beside others.
        (Err(_), Some(Refusal::DoesNotFit(witness))) if matches!(&witness.cause, Cause::Percentiles(miss) if !miss.room()) => {
            Err(why)
        }
        (Err(_), Some(beside)) => Err(beside),
        (Err(last), None) => Err(last),
    }
}

/// With the services that have a core now on it, all of them if that can be. Those that have theirs for themselves save what
/// that saves, as do those that are new; where there is no place for all, the new ones share first, then the others, the least
/// saving first.
fn as_now<'a>(
    on: &OneHost<'a>,
    cores: &[u32],
    alone: &[Vec<Candidate<'a>>],
    beside: &[Result<Vec<Candidate<'a>>, Refusal>],
) -> Option<Placed> {
    let own: Vec<Vec<u32>> =
        alone.iter().map(|all| all.iter().filter_map(|one| Some(one.now(on)?.0)).collect()).collect();
    let shared = |order: usize| {
        own[order].iter().any(|core| own.iter().enumerate().any(|(other, all)| other != order && all.contains(core)))
    };
    let mut least_first = least_first(alone, beside);
    least_first.retain(|order| !shared(*order));
    least_first.sort_by_key(|order| !own[*order].is_empty()); // stable
    let given_up = || 0..=least_first.len();
    let entries = given_up().map(|given_up| mixed(alone, beside, &least_first[given_up..]));
    let entries: Vec<Vec<Candidate>> = entries.filter(|entries| enough(entries, cores)).collect();
    let ways = [Stay::All, Stay::Some].into_iter().flat_map(|stay| entries.iter().map(move |entries| (stay, entries)));
    ways.into_iter().find_map(|(stay, entries)| place_all(on, cores, entries.clone(), stay).ok())
}

/// The servers of all services, of those that are `apart` on cores of their own.
fn mixed<'a>(
    alone: &[Vec<Candidate<'a>>],
    beside: &[Result<Vec<Candidate<'a>>, Refusal>],
    apart: &[usize],
) -> Vec<Candidate<'a>> {
    let pick = |order: usize| match &beside[order] {
        Ok(beside) if !apart.contains(&order) => beside.clone(),
        _ => alone[order].clone(),
    };
    (0..alone.len()).flat_map(pick).collect()
}

/// Whether there are cores for all that want one of their own, and one for the others.
fn enough(entries: &[Candidate], cores: &[u32]) -> bool {
    let lonely = entries.iter().filter(|entry| entry.vcpu.alone).count();
    lonely + usize::from(lonely < entries.len()) <= cores.len()
}

/// The services that save bandwidth by a core of their own and could do without, by their places, the least saving first.
fn least_first(alone: &[Vec<Candidate>], beside: &[Result<Vec<Candidate>, Refusal>]) -> Vec<usize> {
    let saving = |order: usize| {
        let pairs = alone[order].iter().zip(beside[order].as_ref().ok()?);
        let pairs: Vec<_> = pairs.filter(|(alone, beside)| alone.vcpu.alone && !beside.vcpu.alone).collect();
        let saved = |(alone, beside): &(&Candidate, &Candidate)| beside.largest().as_f64() - alone.largest().as_f64();
        (!pairs.is_empty()).then(|| (order, pairs.iter().map(saved).sum::<f64>()))
    };
    let mut found: Vec<(usize, f64)> = (0..alone.len()).filter_map(saving).collect();
    found.sort_by(|(_, one), (_, other)| one.total_cmp(other)); // stable
    found.into_iter().map(|(order, _)| order).collect()
}

/// Which servers that have a core now stay there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    All,
    /// Those that it takes; first those of which no more is asked than is reserved.
    Some,
    Nowhere,
}

/// Largest bandwidth first, each on the first core that admits it in all modes; virtual CPUs of one VM go to different
/// cores where they fit there, unless they have criticality: then as few cores as possible are in use (Asy20,
/// section 3.6). Those that `stay` come first, before them the control domain of Xen, which is where the site says.
/// Also how modes are changed, if there are some.
/// O(modes · (interfaces² + interfaces · cores)).
fn place_all(on: &OneHost, cores: &[u32], mut entries: Vec<Candidate>, stay: Stay) -> Result<Placed, Refusal> {
    let policy = policy(on, &entries)?;
    entries.sort_by_key(|entry| Reverse(entry.largest()));
    let entries = entries.as_slice();
    let modes = on.modes.map_or(1, |modes| modes.modes.len());
    let empty = |&id: &u32| Core { id, on: Vec::new(), used: vec![Bandwidth::ZERO; modes] };
    let mut cores: Vec<Core> = cores.iter().map(empty).collect();
    let mut others = Vec::new();
    let is_dom0 = |index: &usize| xen::is_dom0(on.host, &entries[*index].service.name);
    let now = |index: usize| if stay == Stay::Nowhere && !is_dom0(&index) { None } else { entries[index].now(on) };
    let grown = |index: &usize| now(*index).is_none_or(|(_, reserved)| entries[*index].largest() > reserved);
    let (dom0, all): (Vec<usize>, Vec<usize>) = (0..entries.len()).partition(is_dom0);
    let (larger, same): (Vec<usize>, Vec<usize>) = all.into_iter().partition(grown);
    for index in dom0.into_iter().chain(same).chain(larger) {
        let Some((id, _)) = now(index) else {
            others.push(index);
            continue;
        };
        let core = cores.iter_mut().find(|core| core.id == id);
        let admitted = core.map(|core| (admit(core, entries, index, on, policy), core));
        match admitted {
            Some((Ok(used), core)) => (core.used, _) = (used, core.on.push(index)),
            Some((Err(full), _)) if stay == Stay::All => return Err(refuse(&entries[index], &[Err(full)], on)),
            _ => others.push(index),
        }
    }
    for index in others {
        let admitted: Vec<Result<Vec<Bandwidth>, (usize, CoreRefusal)>> =
            cores.iter().map(|core| admit(core, entries, index, on, policy)).collect();
        let sibling = |core: &Core| core.on.iter().any(|&other| entries[other].order == entries[index].order);
        let free = |at: &usize| admitted[*at].is_ok();
        let anywhere = entries[index].vcpu.critical;
        let apart = (0..cores.len()).find(|at| free(at) && (anywhere || !sibling(&cores[*at])));
        let Some(at) = apart.or_else(|| (0..cores.len()).find(free)) else {
            return Err(refuse(&entries[index], &admitted, on));
        };
        if let Ok(used) = &admitted[at] {
            cores[at].used.clone_from(used);
        }
        cores[at].on.push(index);
    }
    let mut plans = Vec::new();
    for core in &cores {
        for &index in &core.on {
            let order = entries[index].order;
            let (plan, locals) = place(core, entries, index, on)?;
            plans.push((order, entries[index].vcpu.vcpu, Supplied { order, plan, locals }));
        }
    }
    plans.sort_by_key(|(order, vcpu, _)| (*order, *vcpu));
    Ok((plans.into_iter().map(|(.., plan)| plan).collect(), policy))
}

/// How modes are changed, if there are some: as the site says, else with boosts, where all agents are on servers that
/// can be boosted.
fn policy(on: &OneHost, entries: &[Candidate]) -> Result<Option<ChangePolicy>, Refusal> {
    let Some(modes) = on.modes else { return Ok(None) };
    let agents = entries.iter().filter(|entry| entry.service.agent.is_some());
    let unable = agents.clone().find(|entry| !entry.vcpu.chosen.backend.abilities().boosts);
    match (modes.changes.policy, unable) {
        (Some(ChangePolicy::Boost), Some(entry)) => Err(Refusal::Asked {
            service: entry.service.name.clone(),
            why: format!("the policy is boost, and backend {} cannot boost its agent", entry.vcpu.chosen.backend),
            instead: "expected another policy, such as greedy, or leave it out".into(),
        }),
        (Some(policy), _) => Ok(Some(policy)),
        (None, Some(_)) => Ok(Some(ChangePolicy::Greedy)),
        (None, None) => Ok(Some(ChangePolicy::Boost)),
    }
}
