//! The plans of all hosts, or of one, put together.

use crate::facts::{known, Facts};
use crate::host::{OneHost, Placed};
use crate::known::{Alike, Known};
use crate::placement::choice::{choose_hosts, stock, Given};
use crate::placement::host::one_host;
use crate::placements::Placements;
use crate::promises::as_if_alone::size;
use crate::promises::percentiles::Answers;
use crate::refusal::{Refusal, Witness};
use crate::words::reason;
use giusto_model::{HostPlan, Plan, Site, PLAN_VERSION};
use std::collections::HashMap;

/// A plan of all hosts, or of the `only` one, or why not, before the search for what would fit. Services stay where they are now;
/// where that leaves no place for others, all are placed anew.
pub(crate) fn attempt(
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    answers: &Answers,
    alike: &Alike,
) -> Result<Plan, Refusal> {
    if !facts.placed.is_empty() {
        if let Ok(plan) = placed(site, facts, only, answers, alike) {
            return Ok(plan);
        }
    }
    placed(site, &Facts { placed: Placements::default(), ..facts.clone() }, only, answers, alike)
}

fn placed(site: &Site, facts: &Facts, only: Option<usize>, answers: &Answers, alike: &Alike) -> Result<Plan, Refusal> {
    let machines = Machines::of(site, facts, answers, alike)?;
    let wanted: Vec<usize> = (0..site.hosts.len()).filter(|index| only.is_none_or(|only| only == *index)).collect();
    let bound = bound(site);
    // Those first that have no choice: if they do not fit, it is not because of others.
    let parts = wanted.iter().map(|&index| Ok((index, machines.one(index, &bound[index])?)));
    let mut parts: Vec<(usize, Placed)> = parts.collect::<Result<_, _>>()?;
    // Machines that plan for themselves choose alike: by the site alone.
    let now = if only.is_none() { facts.placed.clone() } else { Placements::default() };
    let stock = stock(site);
    let choice = choose_hosts(&Given { site, stock: &stock, known: &alike.stock, now: &now, answers }, bound.clone())?;
    for (index, part) in &mut parts {
        if choice.sets[*index].len() > bound[*index].len() {
            *part = machines.one(*index, &choice.sets[*index])?;
        }
    }
    Ok(machines.together(parts, 0..site.services.len(), &choice.whys))
}

/// The machines of a site, and what is computed once for them.
pub(crate) struct Machines<'a> {
    site: &'a Site,
    facts: &'a Facts,
    /// The host that these facts are of.
    here: Option<usize>,
    answers: &'a Answers,
    alike: &'a Alike,
}

impl<'a> Machines<'a> {
    /// Errors: the site is not for the machine that `facts` are of.
    pub(crate) fn of(
        site: &'a Site,
        facts: &'a Facts,
        answers: &'a Answers,
        alike: &'a Alike,
    ) -> Result<Self, Refusal> {
        Ok(Machines { site, facts, here: facts.place(site)?, answers, alike })
    }

    /// The plan of the only host, with what is `known` of its services.
    pub(crate) fn only(&self, known: &Known) -> Result<Plan, Refusal> {
        let all: Vec<usize> = (0..self.site.services.len()).collect();
        let part = on(self.site, 0, self.facts, &all, self.answers, known)?;
        Ok(self.together(vec![(0, part)], all.into_iter(), &HashMap::new()))
    }

    /// The plan of one host with these services, by their places in the site.
    pub(crate) fn one(&self, index: usize, services: &[usize]) -> Result<Placed, Refusal> {
        let Machines { site, facts, here, answers, alike } = *self;
        let own = Known::default();
        let known_needs = if here == Some(index) { &own } else { alike.planned(facts) };
        on(site, index, &known(site, facts, here, index).0, services, answers, known_needs)
    }

    /// Plans of hosts with these `services`, by their places, as one; `whys` tells of services, by their places, why they are
    /// on their hosts.
    pub(crate) fn together(
        &self,
        parts: Vec<(usize, Placed)>,
        services: impl Iterator<Item = usize>,
        whys: &HashMap<usize, String>,
    ) -> Plan {
        let site = self.site;
        let order: HashMap<&str, usize> = services.map(|place| (site.services[place].name.as_str(), place)).collect();
        let place = |name: &str| order.get(name).copied().unwrap_or(usize::MAX);
        let (mut services, mut leftovers, mut hosts, mut modes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (index, part) in parts {
            modes.extend(part.modes);
            services.extend(part.services);
            leftovers.extend(part.leftovers);
            let host = &site.hosts[index];
            let assumed = known(site, self.facts, self.here, index).1;
            let (name, cores) = (host.name.clone(), host.cores.clone());
            let (admission, parked) = (part.admission, part.parked);
            hosts.push(HostPlan { name, cores, keep_free: host.keep_free, assumed, admission, parked, latency: None });
        }
        services.sort_by_key(|service| place(&service.name));
        leftovers.sort_by_key(|leftover| place(&leftover.name));
        if site.hosts.len() > 1 {
            let from_the_site = "from the site".to_string();
            let why =
                |name: &str, on: &str| reason("host", on, whys.get(&place(name)).unwrap_or(&from_the_site).clone());
            services.iter_mut().for_each(|s| s.reasons.insert(0, why(&s.name, &s.on)));
            leftovers.iter_mut().for_each(|l| l.reasons.insert(0, why(&l.name, &l.on)));
        }
        Plan {
            giusto_plan: PLAN_VERSION,
            basis: None,
            hosts,
            services,
            leftovers,
            topics: Vec::new(),
            coordination: None,
            paths: Vec::new(),
            network: Vec::new(),
            modes,
        }
    }
}

/// For each host the services that can be nowhere else.
fn bound(site: &Site) -> Vec<Vec<usize>> {
    let hosts: HashMap<&str, usize> = site.hosts.iter().map(|host| host.name.as_str()).zip(0..).collect();
    let mut bound = vec![Vec::new(); site.hosts.len()];
    for (place, service) in site.services.iter().enumerate() {
        let only = (site.hosts.len() == 1).then_some(0);
        if let Some(host) = service.on.as_ref().map_or(only, |on| hosts.get(on.as_str()).copied()) {
            bound[host].push(place);
        }
    }
    bound
}

/// The plan of one host; where others keep the cores that the backend `deadline` would get, without that one.
fn on(
    site: &Site,
    index: usize,
    facts: &Facts,
    services: &[usize],
    answers: &Answers,
    known: &Known,
) -> Result<Placed, Refusal> {
    let placed = with_all(site, index, facts, services, answers, known)?;
    let reserved = placed.services.iter().filter(|service| service.backend.abilities().isolates);
    let cores: Vec<u32> = reserved.map(|service| service.core).collect();
    match facts.without(&cores).filter(|_| !cores.is_empty()) {
        Some(facts) => match with_all(site, index, &facts, services, answers, &Known::default()) {
            // What would not fit elsewhere is not what is wrong: a run will say who keeps the core.
            Err(Refusal::DoesNotFit(_)) => Ok(placed),
            other => other,
        },
        None => Ok(placed),
    }
}

/// The plan of one host with all that `facts` say it has.
fn with_all(
    site: &Site,
    index: usize,
    facts: &Facts,
    services: &[usize],
    answers: &Answers,
    known: &Known,
) -> Result<Placed, Refusal> {
    let host = &site.hosts[index];
    let several = site.hosts.len() > 1;
    let services = services.iter().map(|&service| &site.services[service]).collect();
    let placed =
        one_host(&OneHost { host, facts, services, answers, known, modes: site.modes.as_ref() }, &mut |service| {
            size(service, host, facts)
        });
    placed.map_err(|refusal| match refusal {
        Refusal::DoesNotFit(witness) => {
            Refusal::DoesNotFit(Box::new(Witness { host: several.then(|| host.name.clone()), ..*witness }))
        }
        refusal if several => Refusal::On { host: host.name.clone(), refusal: Box::new(refusal) },
        refusal => refusal,
    })
}
