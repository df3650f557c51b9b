//! Which core of its host each server gets, several on a core under EDF.

use super::entry::place;
use crate::admission::{admit, refuse, Core, Full};
use crate::candidates::{candidates, Candidate};
use crate::host::{OneHost, Supplied};
use crate::needs::Company;
use crate::promises;
use crate::refusal::{Cause, Refusal};
use giusto_model::{Bandwidth, ChangePolicy};
use std::cmp::Reverse;

type Placed = (Vec<Supplied>, Option<ChangePolicy>);

/// Plans the services that share cores on `cores` of their host, with their
/// places among its services.
///
/// Some servers are cheaper alone on a core, where they have the highest priority. Where there are too few cores for all of
/// these, those that save least by it share, one after the other, until all fit. O(services) attempts.
pub(crate) fn supplies(on: &OneHost, cores: &[u32]) -> Result<Placed, Refusal> {
    let of = |company: Company| move |order: usize| candidates(on, order, company);
    let all = || 0..on.services.len();
    let alone: Vec<Vec<Candidate>> = all().map(of(Company::Alone)).collect::<Result<_, _>>()?;
    let why = match place_all(on, cores, alone.concat()) {
        Ok(placed) => return Ok(placed),
        Err(why) => why,
    };
    if !on.services.iter().any(|service| promises::of(&service.promise).cheaper_alone()) {
        return Err(why);
    }
    // A service that needs no core of its own even where there is one is the same beside others.
    let same = |order: usize| alone[order].iter().all(|entry| !entry.vcpu.alone);
    let other = |order: usize| if same(order) { Ok(alone[order].clone()) } else { of(Company::Beside)(order) };
    let beside: Vec<Result<Vec<Candidate>, Refusal>> = all().map(other).collect();
    let mixed = |apart: &[usize]| -> Vec<Candidate> {
        let pick = |order: usize| match &beside[order] {
            Ok(beside) if !apart.contains(&order) => beside.clone(),
            _ => alone[order].clone(),
        };
        all().flat_map(pick).collect()
    };
    let least_first = least_first(&alone, &beside);
    for given_up in 1..least_first.len() {
        let entries = mixed(&least_first[given_up..]);
        let lonely = entries.iter().filter(|entry| entry.vcpu.alone).count();
        let enough = lonely + usize::from(lonely < entries.len()) <= cores.len();
        if let Some(placed) = enough.then(|| place_all(on, cores, entries).ok()).flatten() {
            return Ok(placed);
        }
    }
    let last = place_all(on, cores, mixed(&[]));
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

/// Largest bandwidth first, each on the first core that admits it in all modes; virtual CPUs of one VM go to different
/// cores where they fit there, unless they have criticality: then as few cores as possible are in use (Asy20,
/// section 3.6). Also how modes are changed, if there are some. Those that have a core now stay there; where that leaves no
/// place for others, all are placed anew. O(modes · (interfaces² + interfaces · cores)).
fn place_all(on: &OneHost, cores: &[u32], mut entries: Vec<Candidate>) -> Result<Placed, Refusal> {
    let policy = policy(on, &entries)?;
    entries.sort_by_key(|entry| Reverse(entry.largest()));
    if !on.facts.placed.is_empty() {
        if let Ok(placed) = place_in_turn(on, cores, &entries, policy, &|entry| entry.now(on)) {
            return Ok((placed, policy));
        }
    }
    Ok((place_in_turn(on, cores, &entries, policy, &|_| None)?, policy))
}

/// `entries` in their order, after those that stay on the core that they have `now`: first those of which no more is asked
/// than is reserved.
fn place_in_turn(
    on: &OneHost,
    cores: &[u32],
    entries: &[Candidate],
    policy: Option<ChangePolicy>,
    now: &dyn Fn(&Candidate) -> Option<(u32, Bandwidth)>,
) -> Result<Vec<Supplied>, Refusal> {
    let modes = on.modes.map_or(1, |modes| modes.modes.len());
    let empty = |&id: &u32| Core { id, on: Vec::new(), used: vec![Bandwidth::ZERO; modes] };
    let mut cores: Vec<Core> = cores.iter().map(empty).collect();
    let mut others = Vec::new();
    let grown = |index: &usize| now(&entries[*index]).is_none_or(|(_, reserved)| entries[*index].largest() > reserved);
    let (larger, same): (Vec<usize>, Vec<usize>) = (0..entries.len()).partition(grown);
    for index in same.into_iter().chain(larger) {
        let core = now(&entries[index]).and_then(|(id, _)| cores.iter_mut().find(|core| core.id == id));
        let taken = core.and_then(|core| Some((admit(core, entries, index, on, policy).ok()?, core)));
        match taken {
            Some((used, core)) => (core.used, _) = (used, core.on.push(index)),
            None => others.push(index),
        }
    }
    for index in others {
        let admitted: Vec<Result<Vec<Bandwidth>, (usize, Full)>> =
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
    Ok(plans.into_iter().map(|(.., plan)| plan).collect())
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
