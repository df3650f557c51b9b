//! The plan of a site: every host's own, put together.

use crate::choice::{choose_hosts, Choice};
use crate::nearest::nearest;
use crate::percentiles::Answers;
use crate::place::{one_host, OneHost, Placed, Unplaced};
use crate::size::{reason, size};
use crate::words::time;
use crate::{coordination, facts, latency, measured, modes, network, topics, Facts, Refusal, Witness};
use giusto_model::{
    Backend, Duration, HostLatency, HostPlan, Measured, Member, Plan, Service, ServicePlan, Site, TopicPlan,
    PLAN_VERSION,
};
use std::collections::HashMap;

/// Decides every parameter for `site`; `facts` are those of the host that is this machine, and for the others a stock
/// machine is assumed.
///
/// A service that the site binds to a host is placed there, before all others. The others go to the first host with room
/// ([`Facts::host`] does not matter for that: the machines of a site choose alike). Each host is then planned by itself, by
/// what is known of it. Predictions are left empty. O(services · hosts) plans of a host, of O(services · (analysis + cores))
/// each. Errors: see [`Refusal`].
pub fn plan(site: &Site, facts: &Facts) -> Result<Plan, Refusal> {
    told(site, facts, None)
}

/// The part of [`plan`] for one host; what else the site asks of others is no matter as long as the services that are bound
/// to none find a place. Errors: as there, and the site has no such host.
pub fn plan_on(site: &Site, facts: &Facts, host: &str) -> Result<Plan, Refusal> {
    told(site, facts, Some(facts::index(site, host)?))
}

fn told(site: &Site, facts: &Facts, only: Option<usize>) -> Result<Plan, Refusal> {
    measured::complete(site)?;
    let Some((host, latency)) = late(site, facts)? else { return with(site, facts, only, None) };
    let lateness = facts.lateness.checked_add(latency.latency).unwrap_or(Duration::from_ns(u64::MAX));
    let late = Facts { lateness, ..facts.clone() };
    match with(site, &late, only, Some((host, latency.latency))) {
        Ok(mut plan) => {
            let own = plan.hosts.iter_mut().find(|own| own.name == site.hosts[host].name);
            if let Some(own) = own {
                own.latency = Some(latency);
            }
            Ok(plan)
        }
        Err(refusal) => Err(match with(site, facts, only, None) {
            Err(without) if without == refusal => refusal,
            other => {
                let HostLatency { latency, allowance, .. } = latency;
                Refusal::Late { latency, allowance, without: other.is_ok(), refusal: Box::new(refusal) }
            }
        }),
    }
}

/// The host that is this machine and its latency, if it was measured and has one.
fn late(site: &Site, facts: &Facts) -> Result<Option<(usize, HostLatency)>, Refusal> {
    match (facts.place(site)?, &facts.latency) {
        (Some(host), _) => Ok(latency::of_host(site, &site.hosts[host], facts)?.map(|latency| (host, latency))),
        (None, Some(_)) => Err(Refusal::Latency {
            why: "it is this machine's, which is none of the site's hosts".into(),
            remedy: "say with --host NAME which of them it is, or leave --latency out".into(),
        }),
        (None, None) => Ok(None),
    }
}

/// With all that comes late in `facts`; what of it was measured comes on top for packets, of the host whose it is.
fn with(site: &Site, facts: &Facts, only: Option<usize>, measured: Option<(usize, Duration)>) -> Result<Plan, Refusal> {
    let answers = Answers::default();
    let plan = attempt(site, facts, only, &answers).map_err(|refusal| match refusal {
        Refusal::DoesNotFit(witness) => {
            let nearest = nearest(site, facts, only, &witness, &answers);
            Refusal::DoesNotFit(Box::new(Witness { nearest, ..*witness }))
        }
        other => other,
    })?;
    let here = |member: &Member| only.is_none_or(|only| site.hosts[only].name == member.host);
    let ensemble = site.coordination.as_ref().filter(|ensemble| ensemble.servers.iter().any(here));
    let coordination = ensemble.map(coordination::plan).transpose()?;
    let topics = topics::plan(&site.topics).map_err(Refusal::Topic)?;
    let here = |topic: &TopicPlan| only.is_none_or(|only| topic.brokers.contains(&site.hosts[only].name));
    let topics = topics.into_iter().filter(here).collect();
    let network = network::plan(site, only, measured).map_err(Refusal::Packets)?;
    let mut plan = modes::promised(plan, site, facts, only, &answers)?;
    plan.services.iter_mut().for_each(|planned| where_from(site, planned));
    Ok(Plan { topics, coordination, network, ..plan })
}

/// What the reason is called that says where measured execution times come from.
pub(crate) const EXECUTION_TIME: &str = "execution time";

/// Says where measured execution times come from.
fn where_from(site: &Site, planned: &mut ServicePlan) {
    let service = site.services.iter().find(|service| service.name == planned.name);
    if let Some(Measured::Observed(words)) = service.map(|service| &service.measured) {
        let value = match planned.tasks.first() {
            Some(task) => time(task.wcet),
            None => "a distribution".into(),
        };
        planned.reasons.insert(0, reason(EXECUTION_TIME, value, words.clone()));
    }
}

/// A plan of all hosts, or of the `only` one, or why not, before anybody looked for what would fit.
pub(crate) fn attempt(site: &Site, facts: &Facts, only: Option<usize>, answers: &Answers) -> Result<Plan, Refusal> {
    let here = facts.place(site)?;
    let one = |index: usize, services: &[usize]| on(site, index, &known(site, facts, here, index).0, services, answers);
    let wanted: Vec<usize> = (0..site.hosts.len()).filter(|index| only.is_none_or(|only| only == *index)).collect();
    let bound: Vec<Vec<usize>> = (0..site.hosts.len()).map(|index| bound(site, index)).collect();
    // Those first that have no choice: if they do not fit, it is not because of others.
    let mut parts: Vec<Placed> = wanted.iter().map(|&index| one(index, &bound[index])).collect::<Result<_, _>>()?;
    let Choice { sets, whys } = choose_hosts(site, bound.clone(), answers)?;
    for (part, &index) in parts.iter_mut().zip(&wanted) {
        if sets[index].len() > bound[index].len() {
            *part = one(index, &sets[index])?;
        }
    }
    let order: HashMap<&str, usize> = site.services.iter().map(|s| s.name.as_str()).zip(0..).collect();
    let place = |name: &str| order.get(name).copied().unwrap_or(usize::MAX);
    let (mut services, mut leftovers, mut admissions, mut modes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        modes.extend(part.modes);
        services.extend(part.services);
        leftovers.extend(part.leftovers);
        admissions.push((part.admission, part.parked));
    }
    services.sort_by_key(|service| place(&service.name));
    leftovers.sort_by_key(|leftover| place(&leftover.name));
    if site.hosts.len() > 1 {
        let why = |name: &str, on: &str| reason("host", on, whys.get(place(name)).cloned().unwrap_or_default());
        services.iter_mut().for_each(|s| s.reasons.insert(0, why(&s.name, &s.on)));
        leftovers.iter_mut().for_each(|l| l.reasons.insert(0, why(&l.name, &l.on)));
    }
    let hosts = wanted.iter().zip(admissions).map(|(&index, (admission, parked))| {
        let host = &site.hosts[index];
        let assumed = known(site, facts, here, index).1;
        let (name, cores) = (host.name.clone(), host.cores.clone());
        HostPlan { name, cores, keep_free: host.keep_free, assumed, admission, parked, latency: None }
    });
    Ok(Plan {
        giusto_plan: PLAN_VERSION,
        basis: None,
        hosts: hosts.collect(),
        services,
        leftovers,
        topics: Vec::new(),
        coordination: None,
        network: Vec::new(),
        modes,
    })
}

/// What is known of a host, and what was assumed if it is not this machine.
pub(crate) fn known(site: &Site, facts: &Facts, here: Option<usize>, index: usize) -> (Facts, Option<String>) {
    if here == Some(index) {
        return (facts.clone(), None);
    }
    let (assumed, words) = facts.assumed(&site.hosts[index]);
    (assumed, Some(words))
}

/// The services that can be nowhere else.
fn bound(site: &Site, index: usize) -> Vec<usize> {
    let host = &site.hosts[index];
    let here = |service: &Service| service.on.as_ref().map_or(site.hosts.len() == 1, |on| *on == host.name);
    (0..site.services.len()).filter(|&service| here(&site.services[service])).collect()
}

/// The plan of one host; where others keep the cores that the backend `deadline` would get, without that one.
fn on(site: &Site, index: usize, facts: &Facts, services: &[usize], answers: &Answers) -> Result<Placed, Refusal> {
    let placed = with_all(site, index, facts, services, answers)?;
    let reserved = placed.services.iter().filter(|service| service.backend == Backend::Deadline);
    let cores: Vec<u32> = reserved.map(|service| service.core).collect();
    match facts.without(&cores).filter(|_| !cores.is_empty()) {
        Some(facts) => match with_all(site, index, &facts, services, answers) {
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
) -> Result<Placed, Refusal> {
    let host = &site.hosts[index];
    let several = site.hosts.len() > 1;
    let services = services.iter().map(|&service| &site.services[service]).collect();
    let placed = one_host(&OneHost { host, facts, services, answers, modes: site.modes.as_ref() }, &mut |service| {
        size(service, host, facts)
    });
    placed.map_err(|unplaced| match unplaced {
        Unplaced::DoesNotFit { service, cause } => Refusal::DoesNotFit(Box::new(Witness {
            service,
            host: several.then(|| host.name.clone()),
            displaced: None,
            cause,
            elsewhere: Vec::new(),
            nearest: Vec::new(),
        })),
        Unplaced::Other(refusal) if several => Refusal::On { host: host.name.clone(), refusal: Box::new(refusal) },
        Unplaced::Other(refusal) => refusal,
    })
}
