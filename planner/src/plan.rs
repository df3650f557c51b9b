//! The plan of a site: every host's own, put together.

use crate::facts::{self, Facts};
use crate::known::Alike;
use crate::nearest::nearest;
use crate::paths::{self, Networks, Resolved};
use crate::promises::percentiles::Answers;
use crate::refusal::{Refusal, Witness};
use crate::words::{reason, time, EXECUTION_TIME};
use crate::{coordination, latency, modes, network, topics};
use giusto_model::{
    Coordination, Duration, HostLatency, ManagerLatency, Measured, Member, NetworkPlan, PathPlan, Plan, Service, Site,
    TopicPlan,
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
    told(site, facts, None, &Answers::default(), &Alike::default())
}

/// The part of [`plan`] for one host; what else the site asks of others is no matter as long as the services that are bound
/// to none find a place. Errors: as there, and the site has no such host.
pub fn plan_on(site: &Site, facts: &Facts, host: &str) -> Result<Plan, Refusal> {
    told(site, facts, Some(facts::index(site, host)?), &Answers::default(), &Alike::default())
}

/// With what is known already of needs.
pub(crate) fn told(
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    answers: &Answers,
    alike: &Alike,
) -> Result<Plan, Refusal> {
    measured(site)?;
    let latency = late(site, facts)?;
    let Some((host, of_host)) = &latency else { return with(site, facts, only, None, answers, alike) };
    match with(site, &later(facts, latency.as_ref()), only, Some((*host, of_host.latency)), answers, alike) {
        Ok(mut plan) => {
            let own = plan.hosts.iter_mut().find(|own| own.name == site.hosts[*host].name);
            if let Some(own) = own {
                own.latency = Some(of_host.clone());
            }
            Ok(plan)
        }
        Err(refusal) => Err(match with(site, facts, only, None, answers, alike) {
            Err(without) if without == refusal => refusal,
            other => {
                let HostLatency { latency, allowance, .. } = *of_host;
                Refusal::Late { latency, allowance, without: other.is_ok(), refusal: Box::new(refusal) }
            }
        }),
    }
}

/// `facts` with the measured latency of the host that they are of on top of what is allowed for in any case, and with what was
/// measured of the manager.
pub(crate) fn later(facts: &Facts, latency: Option<&(usize, HostLatency)>) -> Facts {
    let more = latency.map_or(Duration::ZERO, |(_, latency)| latency.latency);
    let with_more = |own: Duration| own.checked_add(more).unwrap_or(Duration::from_ns(u64::MAX));
    let manager = latency.and_then(|(_, latency)| latency.manager);
    let manager = manager.map(|own| ManagerLatency { late: with_more(own.late), ..own });
    Facts { lateness: with_more(facts.lateness), manager, ..facts.clone() }
}

/// Refuses a site in which something is still to be measured.
pub(crate) fn measured(site: &Site) -> Result<(), Refusal> {
    let open = site.services.iter().find(|service| matches!(service.measured, Measured::Wanted { .. }));
    match open {
        Some(service) => {
            Err(Refusal::Unmeasured { service: service.name.clone(), why: "nothing was measured yet".into() })
        }
        None => Ok(()),
    }
}

/// The host that is this machine and its latency, if it was measured and has one.
pub(crate) fn late(site: &Site, facts: &Facts) -> Result<Option<(usize, HostLatency)>, Refusal> {
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
fn with(
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    measured: Option<(usize, Duration)>,
    answers: &Answers,
    alike: &Alike,
) -> Result<Plan, Refusal> {
    let (unfilled, filled) = (site, paths::filled(site));
    let site = filled.as_ref().unwrap_or(site);
    let on_path = |service: &Service| site.paths.through(&service.name).next().is_some();
    let networks = match site.services.iter().any(|service| !service.network.is_empty() && on_path(service)) {
        true => network::plan(site, None, measured).map_err(Refusal::Packets)?,
        false => Vec::new(),
    };
    // All machines put stages on the same hosts, whatever is late on the one that asks.
    let alike_everywhere = match measured {
        Some(_) if !networks.is_empty() => Some(network::plan(site, None, None).map_err(Refusal::Packets)?),
        Some(_) | None => None,
    };
    let both = Networks { own: &networks, alike: alike_everywhere.as_ref().unwrap_or(&networks) };
    let placed = paths::placed(site, both.alike, answers);
    let site = placed.as_ref().map_or(site, |placed| &placed.site);
    let asked = site;
    let attempted = |site: &Site| paths::attempted(site, facts, both, only, (answers, alike));
    let fits = |other: &Site| matches!(attempted(other), Ok((Some(_), Ok(_))));
    let (resolved, plan) = attempted(site).map_err(|refusal| paths::with_nearest(site, None, refusal, &fits))?;
    let (site, paths) = match &resolved {
        Some(Resolved { site, paths }) => (site, paths.as_slice()),
        None => (site, &[][..]),
    };
    let plan = plan.map_err(|refusal| match refusal {
        Refusal::DoesNotFit(witness) => {
            let nearest = nearest(site, facts, only, &witness, answers);
            Refusal::DoesNotFit(Box::new(Witness { nearest, ..*witness }))
        }
        other => other,
    });
    let plan = plan.map_err(|refusal| match resolved.is_some() {
        true => paths::with_nearest(asked, Some(site), refusal, &fits),
        false => refusal,
    })?;
    let paths = match only {
        None => paths.to_vec(),
        Some(only) => PathPlan::of_host(paths, &site.hosts[only].name),
    };
    let here = |member: &Member| only.is_none_or(|only| site.hosts[only].name == member.host);
    let ensemble = site.coordination.as_ref().filter(|ensemble| ensemble.servers.iter().any(here));
    let of_member = |(host, latency): (usize, Duration)| {
        let host = site.hosts[host].name.as_str();
        let member = |ensemble: &Coordination| ensemble.servers.iter().any(|member| member.host == host);
        ensemble.is_some_and(member).then_some((host, latency))
    };
    let coordination =
        ensemble.map(|ensemble| coordination::plan(ensemble, measured.and_then(of_member))).transpose()?;
    let topics = topics::plan(&site.topics).map_err(Refusal::Topic)?;
    let here = |topic: &TopicPlan| only.is_none_or(|only| topic.brokers.contains(&site.hosts[only].name));
    let mut topics: Vec<TopicPlan> = topics.into_iter().filter(here).collect();
    topics.iter_mut().for_each(|topic| paths::said(asked, topic));
    let here = |one: &NetworkPlan| only.is_none_or(|only| site.hosts[only].name == one.on);
    let mut network = match networks.is_empty() {
        true => network::plan(site, only, measured).map_err(Refusal::Packets)?,
        false => networks.into_iter().filter(here).collect(),
    };
    paths::say(unfilled, &mut network);
    let mut plan = modes::promised(plan, site, facts, only, answers)?;
    placed.iter().for_each(|placed| placed.say(&mut plan));
    origins(site.services.iter(), &mut plan);
    Ok(Plan { topics, coordination, paths, network, ..plan })
}

/// Says where measured execution times come from; `services` are all that the plan has.
pub(crate) fn origins<'a>(services: impl Iterator<Item = &'a Service>, plan: &mut Plan) {
    let measured = services.filter_map(|service| match &service.measured {
        Measured::Observed(words) => Some((service.name.as_str(), words)),
        _ => None,
    });
    let measured: HashMap<&str, &String> = measured.collect();
    for planned in &mut plan.services {
        let Some(&words) = measured.get(planned.name.as_str()) else { continue };
        let value = match planned.tasks.first() {
            Some(task) => time(task.wcet),
            None => "a distribution".into(),
        };
        planned.reasons.insert(0, reason(EXECUTION_TIME, value, words.clone()));
    }
}
