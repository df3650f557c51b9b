//! The nearest changes of a site with which a refused service fits.

use crate::facts::{known, Facts};
use crate::hosts::attempt;
use crate::known::Alike;
use crate::promises;
use crate::promises::percentiles::Answers;
use crate::refusal::{Cause, NearestFit, Witness};
use crate::trial::Trial;
use giusto_model::{About, Promise, Service, Site};
use std::cell::OnceCell;

/// With more services than this, changes are tried on the witness's host alone, with the services that had their places there
/// before it: each takes the time of one host's plan.
const MOST: usize = 100;

/// Changes with which the service of `witness` is no longer refused, when all hosts are planned or the `only` one.
pub(crate) fn nearest(
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    witness: &Witness,
    answers: &Answers,
) -> Vec<NearestFit> {
    let alone = (site.services.len() > MOST).then(|| alone(site, facts, witness)).flatten();
    match alone {
        Some((site, facts)) => among(&site, &facts, None, witness, answers),
        None => among(site, facts, only, witness, answers),
    }
}

/// The witness's host as a site of its own, and what is known of it; `None`: there is one host only.
fn alone(site: &Site, facts: &Facts, witness: &Witness) -> Option<(Site, Facts)> {
    let index = site.hosts.iter().position(|host| Some(&host.name) == witness.host.as_ref())?;
    let host = &site.hosts[index];
    let facts = known(site, facts, facts.place(site).ok()?, index).0;
    let there = |service: &&Service| {
        service.on.as_ref() == Some(&host.name)
            || service.name == witness.service
            || witness.beside.contains(&service.name)
    };
    let services = site.services.iter().filter(there).cloned();
    let services = services.map(|service| Service { on: Some(host.name.clone()), ..service }).collect();
    let modes = site.modes.clone();
    let site = Site {
        hosts: vec![host.clone()],
        services,
        topics: Vec::new(),
        coordination: None,
        paths: Default::default(),
        modes,
    };
    Some((site, Facts { host: Some(host.name.clone()), ..facts }))
}

fn among(site: &Site, facts: &Facts, only: Option<usize>, witness: &Witness, answers: &Answers) -> Vec<NearestFit> {
    let Some(service) = site.services.iter().find(|s| s.name == witness.service) else { return Vec::new() };
    let host =
        witness.host.as_ref().and_then(|name| site.hosts.iter().position(|host| host.name == *name)).unwrap_or(0);
    let named = |local: &String| service.modes.iter().position(|mode| mode.name == *local);
    let local = match &witness.cause {
        Cause::Mode { local: Some(local), .. } => named(local),
        _ => None,
    };
    // What services of the same name need differs from trial to trial.
    let attempt = |site: &Site, facts: &Facts, only| attempt(site, facts, only, answers, &Alike::default());
    let trial = Trial { site, facts, only, witness, host, local, attempt: &attempt, hopeless: OnceCell::new() };
    let method = promises::of(&service.promise);
    let here = match (&witness.displaced, witness.cause.itself()) {
        (Some(_), _) => method.smaller(&trial, service),
        (None, Cause::Window { vcpu, demand, .. }) => {
            let smaller = match &service.promise {
                Promise::Supply(_) => trial.smaller_budget(service, *vcpu, *demand),
                _ => trial.shorter_task(service),
            };
            smaller.into_iter().chain(trial.more_cores(1)).collect()
        }
        (None, Cause::Servers { .. } | Cause::Upkeep { .. } | Cause::Apart { .. }) => {
            trial.more_cores(1).into_iter().collect()
        }
        (None, Cause::Discord(discord)) => trial.calmer(service, discord.vcpu),
        (None, Cause::Deadlines(_)) if matches!(witness.cause, Cause::AtWorst(_)) => trial.calmer(service, None),
        (None, own) => method.nearest(&trial, service, own),
    };
    let more = anything_else(&trial, service, witness.cause.itself());
    let mut all: Vec<NearestFit> = here.into_iter().chain(more).chain(trial.another_host()).collect();
    // Last what costs more than a line of the site.
    all.sort_by_key(|fit| matches!(fit, NearestFit::MoreCores(_)));
    all
}

/// What else of the service may change: its kind, a period, its promise.
fn anything_else(trial: &Trial, service: &Service, cause: &Cause) -> Vec<NearestFit> {
    // A core that is too small or taken is so for every kind.
    let kind =
        !matches!(cause, Cause::Core(_) | Cause::Cores(_) | Cause::Floors(_) | Cause::Discord(_) | Cause::Apart { .. });
    let kind = kind && matches!(service.promise.about(), About::Supply | About::Deadlines);
    let kind = kind.then(|| trial.another_kind(service)).flatten();
    let period = trial.longer_period(service);
    kind.into_iter().chain(period).chain(trial.weaker_promise(service)).collect()
}
