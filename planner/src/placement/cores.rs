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

/// Plans the services that share cores on `cores` of their host, with their
/// places among its services.
///
/// A server for percentiles is cheaper alone on a core, where it has the highest priority; where there are too few
/// cores for that, all of them share.
pub(crate) fn supplies(on: &OneHost, cores: &[u32]) -> Result<(Vec<Supplied>, Option<ChangePolicy>), Refusal> {
    let alone = place_all(on, cores, Company::Alone);
    let cheaper = on.services.iter().any(|service| promises::of(&service.promise).cheaper_alone());
    let Err(why) = alone else { return alone };
    if !cheaper {
        return Err(why);
    }
    place_all(on, cores, Company::Beside).map_err(|beside| match &beside {
        // Not for want of cores: it cannot be had beside others.
        Refusal::DoesNotFit(witness) if matches!(&witness.cause, Cause::Percentiles(miss) if !miss.room()) => why,
        _ => beside,
    })
}

/// Largest bandwidth first, each on the first core that admits it in all modes; virtual CPUs of one VM go to different
/// cores where they fit there, unless they have criticality: then as few cores as possible are in use (Asy20,
/// section 3.6). Also how modes are changed, if there are some. O(modes · (interfaces² + interfaces · cores)).
fn place_all(on: &OneHost, cores: &[u32], company: Company) -> Result<(Vec<Supplied>, Option<ChangePolicy>), Refusal> {
    let mut entries = candidates(on, company)?;
    let policy = policy(on, &entries)?;
    entries.sort_by_key(|entry| Reverse(entry.largest()));
    let modes = on.modes.map_or(1, |modes| modes.modes.len());
    let empty = |&id: &u32| Core { id, on: Vec::new(), used: vec![Bandwidth::ZERO; modes] };
    let mut cores: Vec<Core> = cores.iter().map(empty).collect();
    for index in 0..entries.len() {
        let admitted: Vec<Result<Vec<Bandwidth>, (usize, Full)>> =
            cores.iter().map(|core| admit(core, &entries, index, on, policy)).collect();
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
            let (plan, locals) = place(core, &entries, index, on)?;
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
