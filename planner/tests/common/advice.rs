//! What a refusal advises, followed.

use super::plan;
use giusto_model::{GuestScheduler, Promise, ServiceTime, Site, SiteCriticality, Task};
use giusto_planner::{Facts, NearestFit, Refusal, Witness};

/// The site and the facts after following the advice; no service may have modes.
pub(crate) fn follow(site: &Site, facts: &Facts, witness: &Witness, advice: &NearestFit) -> (Site, Facts) {
    let (mut site, mut facts) = (site.clone(), facts.clone());
    let service = site.services.iter_mut().find(|service| service.name == witness.service).unwrap();
    let named = |tasks: &[Task], name: &String| {
        let own = (0..tasks.len()).filter(|&at| tasks[at].name == *name);
        own.max_by_key(|&at| tasks[at].utilization()).unwrap()
    };
    match (advice, &mut service.promise, &mut service.criticality) {
        (NearestFit::Wcet { task, at_most }, ..) => {
            let at = named(&service.tasks, task);
            service.tasks[at].wcet = *at_most;
        }
        (NearestFit::WorstWcet { task, at_most }, _, Some(SiteCriticality::High { worst })) => {
            worst[named(&service.tasks, task)] = *at_most;
        }
        (NearestFit::Worst { vcpu, at_most }, _, Some(SiteCriticality::High { worst })) => {
            worst[vcpu.unwrap_or(0) as usize] = *at_most;
        }
        (NearestFit::Period { task, at_least }, ..) => {
            let at = named(&service.tasks, task);
            let task = &mut service.tasks[at];
            task.deadline = if task.deadline == task.period { *at_least } else { task.deadline };
            task.period = *at_least;
        }
        (NearestFit::Promise(name), promise, _) => {
            assert_eq!(*name, "every-deadline");
            *promise = Promise::EveryDeadline { scheduler: GuestScheduler::Any, vcpus: 1, placed: Vec::new() };
        }
        (NearestFit::Margin(margin), ..) => service.margin = *margin,
        (NearestFit::AtLeast(floor), Promise::Leftovers { at_least, .. }, _) => *at_least = *floor,
        (NearestFit::Supply { vcpu, at_most }, Promise::Supply(all), _) => all[vcpu.unwrap_or(0) as usize] = *at_most,
        (NearestFit::Kind(kind), ..) => service.server = Some(*kind),
        (NearestFit::Scheduler(order), Promise::EveryDeadline { scheduler, .. }, _) => *scheduler = *order,
        (NearestFit::Within(longer), Promise::Percentiles { points, .. }, _) => {
            points.iter_mut().filter(|point| point.percentile == longer.percentile).for_each(|point| *point = *longer);
        }
        (NearestFit::Requests(rate), Promise::Percentiles { arrivals, .. }, _) => arrivals.rate = *rate,
        (NearestFit::Execution(shorter), Promise::Percentiles { service: times, .. }, _) => {
            *times = match *times {
                ServiceTime::Bounded { mean, .. } if mean < *shorter => ServiceTime::Bounded { mean, wcet: *shorter },
                _ => ServiceTime::Constant { time: *shorter },
            };
        }
        (NearestFit::On(host), ..) => service.on = Some(host.clone()),
        (NearestFit::MoreCores(more), ..) => {
            let added = 100..100 + *more as u32;
            let host = |host: &&mut giusto_model::Host| witness.host.as_ref().is_none_or(|name| host.name == *name);
            site.hosts.iter_mut().find(host).unwrap().cores.extend(added.clone());
            facts.cores.extend(added);
        }
        (other, ..) => panic!("{other}: {witness}"),
    }
    (site, facts)
}

/// Asserts that all fits with the advice, but for what does not fit without the witness either. Whether all does.
pub(crate) fn assert_helps(site: &Site, facts: &Facts, witness: &Witness, advice: &NearestFit) -> bool {
    let (mut site, facts) = follow(site, facts, witness, advice);
    if plan(&site, &facts).is_ok() {
        return true;
    }
    let mut without = site.clone();
    without.services.retain(|service| service.name != witness.service);
    while let Err(Refusal::DoesNotFit(next)) = plan(&without, &facts) {
        without.services.retain(|service| service.name != next.service);
    }
    let there = |name: &String| without.services.iter().any(|service| service.name == *name);
    site.services.retain(|service| service.name == witness.service || there(&service.name));
    let found = plan(&site, &facts);
    assert!(found.is_ok(), "{advice} does not help: {}; {witness}", found.unwrap_err());
    false
}
