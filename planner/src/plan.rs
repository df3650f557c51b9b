//! The plan of a site: every host's own, put together.

use crate::facts::{self, Facts};
use crate::hosts::attempt;
use crate::nearest::nearest;
use crate::promises::percentiles::Answers;
use crate::refusal::{Refusal, Witness};
use crate::words::{reason, time, EXECUTION_TIME};
use crate::{coordination, latency, modes, network, topics};
use giusto_model::{
    Duration, HostLatency, ManagerLatency, Measured, Member, Plan, Service, ServicePlan, Site, TopicPlan,
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
    measured(site)?;
    let Some((host, latency)) = late(site, facts)? else { return with(site, facts, only, None) };
    let with_latency = |own: Duration| own.checked_add(latency.latency).unwrap_or(Duration::from_ns(u64::MAX));
    let manager = latency.manager.map(|own| ManagerLatency { late: with_latency(own.late), ..own });
    let late = Facts { lateness: with_latency(facts.lateness), manager, ..facts.clone() };
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

/// Refuses a site in which something is still to be measured.
fn measured(site: &Site) -> Result<(), Refusal> {
    let open = site.services.iter().find(|service| matches!(service.measured, Measured::Wanted { .. }));
    match open {
        Some(service) => {
            Err(Refusal::Unmeasured { service: service.name.clone(), why: "nothing was measured yet".into() })
        }
        None => Ok(()),
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
    let services: HashMap<&str, &Service> = site.services.iter().map(|one| (one.name.as_str(), one)).collect();
    let planned = plan.services.iter_mut().filter_map(|planned| Some((*services.get(planned.name.as_str())?, planned)));
    planned.for_each(|(service, planned)| where_from(service, planned));
    Ok(Plan { topics, coordination, network, ..plan })
}

/// Says where measured execution times come from.
fn where_from(service: &Service, planned: &mut ServicePlan) {
    if let Measured::Observed(words) = &service.measured {
        let value = match planned.tasks.first() {
            Some(task) => time(task.wcet),
            None => "a distribution".into(),
        };
        planned.reasons.insert(0, reason(EXECUTION_TIME, value, words.clone()));
    }
}
