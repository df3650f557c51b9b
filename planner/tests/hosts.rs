//! Laws of plans for several hosts, over random sites. The oracle for a host is the plan of a site with that host alone.

#[path = "common/advice.rs"]
mod advice;
mod common;

use advice::{assert_helps, follow};
use common::{as_if_alone, leftovers, of, plan, sites, supply, task};
use giusto_model::{
    Adopt, Backend, Bandwidth, Duration, HostPlan, LeftoverPlan, Origin, Plan, Promise, Reason, ServerKind, Service,
    ServicePlan, Site,
};
use giusto_planner::{plan_on, Facts, NearestFit, Refusal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

fn random_service(number: usize, rng: &mut StdRng) -> Service {
    let name = format!("s{number}");
    let mut supplied = |most: u64| {
        let period = [10, 20, 40][rng.random_range(0..3)];
        format!("{}ms/{period}ms", rng.random_range(1..=period * most / 100))
    };
    let (one, two, three) = (supplied(80), supplied(40), supplied(40));
    match rng.random_range(0..20) {
        0..=4 => {
            let wcet = [1, 2, 5, 8, 9][rng.random_range(0..5)];
            as_if_alone(&name, vec![task(&format!("{wcet}ms/10ms"), 1)], ["0%", "5%"][rng.random_range(0..2)])
        }
        5..=11 => {
            let kind = rng.random_bool(0.15).then_some(ServerKind::Deferrable);
            supply(&name, &[&one], kind)
        }
        12..=13 => {
            let origin = Origin::Adopt(Adopt::Libvirt(name.clone()));
            let vcpus = [two.as_str(), &three, &two];
            Service { origin, ..supply(&name, &vcpus[..rng.random_range(2..=3)], None) }
        }
        _ => leftovers(&name, ["0%", "0%", "10%", "40%", "90%", "150%"][rng.random_range(0..6)]),
    }
}

fn random_site(rng: &mut StdRng) -> Site {
    let cores: Vec<Vec<u32>> =
        (0..rng.random_range(1..=4)).map(|first| (first..first + rng.random_range(1..=3)).collect()).collect();
    let cores: Vec<&[u32]> = cores.iter().map(Vec::as_slice).collect();
    let services = (0..rng.random_range(2..=8)).map(|number| random_service(number, rng)).collect();
    let mut site = sites(&cores, services);
    for host in &mut site.hosts {
        // With 3 % and the manager's 2 % a core can be full to the last bit: supplies are multiples of 2.5 % or 5 %.
        host.keep_free = of(["0%", "3%", "5%", "10%"][rng.random_range(0..4)]);
    }
    for service in &mut site.services {
        let host = rng.random_bool(0.35).then(|| rng.random_range(0..site.hosts.len()));
        service.on = host.map(|host| site.hosts[host].name.clone());
    }
    site
}

/// Of some host, or of none, and unlike a stock machine.
fn random_facts(site: &Site, rng: &mut StdRng) -> Facts {
    let host = site.hosts.choose(rng).unwrap();
    let tick = Duration::from_ms([1, 4, 10][rng.random_range(0..3)]);
    let mut facts = Facts { tick, ..Facts::typical(host.cores.clone()) };
    facts.host = (site.hosts.len() == 1 || rng.random_bool(0.8)).then(|| host.name.clone());
    facts.backends.iter_mut().for_each(|fact| fact.available = rng.random_bool(0.8));
    facts
}

/// What is known of a host: asked here, or a stock machine.
fn known(site: &Site, facts: &Facts, host: usize) -> Facts {
    let host = &site.hosts[host];
    match facts.host.as_ref() == Some(&host.name) {
        true => facts.clone(),
        false => Facts::typical(host.cores.clone()),
    }
}

/// The oracle: a host by itself with some services, in the order of the site, planned by `facts`.
fn alone(site: &Site, host: usize, services: &[usize], facts: &Facts) -> Result<Plan, Refusal> {
    let mut sorted = services.to_vec();
    sorted.sort_unstable();
    let services = sorted.iter().map(|&index| Service { on: None, ..site.services[index].clone() }).collect();
    plan(
        &Site {
            hosts: vec![site.hosts[host].clone()],
            services,
            topics: Vec::new(),
            coordination: None,
            paths: Default::default(),
            modes: None,
        },
        facts,
    )
}

fn sum(parts: impl IntoIterator<Item = Bandwidth>) -> Bandwidth {
    parts.into_iter().fold(Bandwidth::ZERO, |all, part| all.checked_add(part).unwrap())
}

fn bound(site: &Site, host: usize) -> Vec<usize> {
    let only = site.hosts.len() == 1;
    let here = |s: &Service| s.on.as_ref().map_or(only, |on| *on == site.hosts[host].name);
    (0..site.services.len()).filter(|&index| here(&site.services[index])).collect()
}

/// Where every service is. Asserts that it is on one host, where the site wants it, on cores of that host, and that no core
/// is given away beyond what it has.
fn places(site: &Site, facts: &Facts, plan: &Plan) -> BTreeMap<String, String> {
    let mut on = BTreeMap::new();
    let reserved = plan.services.iter().map(|s| (&s.name, &s.on, vec![s.core]));
    let left = plan.leftovers.iter().map(|l| (&l.name, &l.on, l.cores.clone()));
    for (name, host, cores) in reserved.chain(left) {
        assert_eq!(on.entry(name.clone()).or_insert(host.clone()), host, "{name} is on one host");
        let host = site.hosts.iter().find(|h| h.name == *host).unwrap();
        assert!(cores.iter().all(|core| host.cores.contains(core)), "{name}");
    }
    for service in &site.services {
        let host = on.get(&service.name).expect("no service is forgotten");
        assert!(service.on.as_ref().is_none_or(|wanted| wanted == host), "{service:?} is on {host}");
        let entries = plan.services.iter().filter(|s| s.name == service.name).count();
        let expected = match &service.promise {
            Promise::AsIfAlone => 1,
            Promise::Supply(interfaces) => interfaces.len(),
            Promise::EveryDeadline { vcpus, .. } => *vcpus as usize,
            Promise::Percentiles { .. } => 1,
            Promise::Leftovers { .. } | Promise::Stage { .. } => 0,
        };
        assert_eq!(entries, expected);
    }
    assert_eq!(on.len(), site.services.len());
    for (index, host) in site.hosts.iter().enumerate() {
        let facts = known(site, facts, index);
        let mut left = Vec::new();
        for core in &host.cores {
            let here: Vec<&ServicePlan> =
                plan.services.iter().filter(|s| s.on == host.name && s.core == *core).collect();
            let managed = here.first().is_some_and(|s| s.backend == Backend::Manager);
            let cost = if managed { facts.manager_cost } else { Bandwidth::ZERO };
            let taken = sum(here.iter().map(|s| s.server.bandwidth()));
            assert!(managed || taken <= facts.deadline_bandwidth_cap);
            let rest = Bandwidth::ONE.checked_sub(sum([taken, host.keep_free, cost]));
            left.push(rest.expect("no core is given away beyond what it has"));
        }
        let here = plan.leftovers.iter().filter(|l| l.on == host.name);
        let floors = sum(here.clone().map(|l| l.at_least));
        assert!(floors <= sum(left.iter().copied()), "the floors of a host fit on it");
        assert!(here.clone().all(|l| l.available == sum(left.iter().copied())));
    }
    on
}

/// Without what only a site with several hosts has.
fn stripped(plan: &Plan) -> Plan {
    let without = |reasons: &[Reason]| reasons.iter().filter(|r| r.what != "host").cloned().collect();
    let services = plan.services.iter().map(|s| ServicePlan { reasons: without(&s.reasons), ..s.clone() });
    let leftovers = plan.leftovers.iter().map(|l| LeftoverPlan { reasons: without(&l.reasons), ..l.clone() });
    let hosts = plan.hosts.iter().map(|host| HostPlan { assumed: None, ..host.clone() });
    Plan { services: services.collect(), leftovers: leftovers.collect(), hosts: hosts.collect(), ..plan.clone() }
}

/// The choice of hosts by another way: services in the documented order, each to the first stock host that can be planned with
/// it, or, without a floor, to the one with most left. `Err`: whom no host takes.
fn first_fit(site: &Site) -> Result<BTreeMap<String, String>, String> {
    let stock: Vec<Facts> = site.hosts.iter().map(|host| Facts::typical(host.cores.clone())).collect();
    let mut sets: Vec<Vec<usize>> = (0..site.hosts.len()).map(|host| bound(site, host)).collect();
    let several = site.hosts.len() > 1;
    let mut free: Vec<usize> = (0..site.services.len()).filter(|&i| several && site.services[i].on.is_none()).collect();
    let server = |index| {
        let plans = (0..stock.len()).map(|host| alone(site, host, &[index], &stock[host]));
        plans.flatten().next().map_or(Bandwidth::ONE, |plan| plan.services[0].server.bandwidth())
    };
    let size: HashMap<usize, (u8, Bandwidth)> = free
        .iter()
        .map(|&index| match &site.services[index].promise {
            Promise::AsIfAlone => (index, (0, server(index))),
            Promise::Supply(all) => (index, (1, all.iter().map(|i| i.bandwidth()).max().unwrap())),
            Promise::EveryDeadline { .. } | Promise::Percentiles { .. } | Promise::Stage { .. } => {
                unreachable!("no service here is promised deadlines or percentiles, or is in a path")
            }
            Promise::Leftovers { at_least, .. } => (index, (2, *at_least)),
        })
        .collect();
    free.sort_by_key(|index| (size[index].0, Reverse(size[index].1), *index));
    let open: Vec<bool> = (0..stock.len())
        .map(|host| sets[host].is_empty() || alone(site, host, &sets[host], &stock[host]).is_ok())
        .collect();
    for index in free {
        let with = |host: usize| {
            let all: Vec<usize> = sets[host].iter().copied().chain([index]).collect();
            open[host].then(|| alone(site, host, &all, &stock[host]).ok()).flatten()
        };
        let mut takers = (0..stock.len()).filter_map(|host| with(host).map(|plan| (host, plan)));
        let taker = match size[&index] {
            (2, floor) if floor == Bandwidth::ZERO => {
                let left = |plan: &Plan| {
                    let floors = sum(plan.leftovers.iter().map(|l| l.at_least));
                    plan.leftovers[0].available.checked_sub(floors).unwrap()
                };
                // Of equal ones the first: max_by_key takes the last.
                takers.collect::<Vec<_>>().into_iter().rev().max_by_key(|(_, plan)| left(plan))
            }
            _ => takers.next(),
        };
        sets[taker.ok_or(site.services[index].name.clone())?.0].push(index);
    }
    let names = |(host, set): (usize, &Vec<usize>)| {
        let on = site.hosts[host].name.clone();
        set.iter().map(|&index| (site.services[index].name.clone(), on.clone())).collect::<Vec<_>>()
    };
    Ok(sets.iter().enumerate().flat_map(names).collect())
}

/// What a host by itself says of the services that are bound to it, and of all that the choice puts there.
fn said(site: &Site, facts: &Facts, host: usize, on: Option<&BTreeMap<String, String>>) -> Vec<Result<Plan, Refusal>> {
    let name = &site.hosts[host].name;
    let here = |on: &BTreeMap<String, String>| {
        (0..site.services.len()).filter(|&index| on[&site.services[index].name] == *name).collect()
    };
    let sets: Vec<Vec<usize>> = [Some(bound(site, host)), on.map(here)].into_iter().flatten().collect();
    let sets = sets.iter().filter(|set| !set.is_empty());
    sets.map(|set| alone(site, host, set, &known(site, facts, host))).collect()
}

#[test]
fn every_plan_of_several_hosts_is_the_first_fit_of_plans_of_one() {
    let mut rng = StdRng::seed_from_u64(11);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..800 {
        let site = random_site(&mut rng);
        let facts = random_facts(&site, &mut rng);
        let several = site.hosts.len() > 1;
        let choice = first_fit(&site);
        let mut count = |what: &'static str, yes: bool| *seen.entry(what).or_default() += u32::from(yes);
        match plan(&site, &facts) {
            Ok(found) => {
                let on = places(&site, &facts, &found);
                // Whatever this machine is like: so all machines of the site choose alike.
                assert_eq!(Ok(&on), choice.as_ref());
                for (index, host) in site.hosts.iter().enumerate() {
                    let part = found.on(&host.name).unwrap();
                    assert_eq!(plan_on(&site, &facts, &host.name).unwrap(), part);
                    let here = !several || facts.host.as_ref() == Some(&host.name);
                    assert_eq!(part.only_host().unwrap().assumed.is_none(), here);
                    match said(&site, &facts, index, Some(&on)).pop() {
                        Some(alone) => assert_eq!(stripped(&part), alone.unwrap()),
                        None => assert!(part.services.is_empty() && part.leftovers.is_empty()),
                    }
                    count("a host without services", part.services.is_empty() && part.leftovers.is_empty());
                }
                assert_eq!(found.hosts.len(), site.hosts.len());
                let free = |s: &&Service| several && s.on.is_none();
                let later = |s: &Service| on[&s.name] != site.hosts[0].name;
                let of = |wanted: fn(&Promise) -> bool| {
                    site.services.iter().filter(free).any(|s| wanted(&s.promise) && later(s))
                };
                count("plans of one host", !several);
                count("plans of several hosts", several);
                count("as-if-alone on a later host", of(|p| *p == Promise::AsIfAlone));
                count("supply on a later host", of(|p| matches!(p, Promise::Supply(all) if all.len() == 1)));
                count("virtual machine on a later host", of(|p| matches!(p, Promise::Supply(all) if all.len() > 1)));
                count(
                    "floor on a later host",
                    of(|p| matches!(p, Promise::Leftovers { at_least, .. } if *at_least > Bandwidth::ZERO)),
                );
                count(
                    "no floor, on a later host",
                    of(|p| matches!(p, Promise::Leftovers { at_least, .. } if *at_least == Bandwidth::ZERO)),
                );
                count("bound to a later host", several && site.services.iter().any(|s| s.on.is_some() && later(s)));
                count("bound services, all of them", site.services.iter().all(|s| s.on.is_some()));
                let ran = |s: &&Service| on.get(&s.name) == facts.host.as_ref();
                count(
                    "a machine that is no stock machine",
                    several && facts.tick != Duration::from_ms(4) && site.services.iter().any(|s| ran(&s)),
                );
            }
            Err(Refusal::DoesNotFit(witness)) => {
                assert_eq!(witness.host.is_some(), several);
                let host = site.hosts.iter().position(|h| Some(&h.name) == witness.host.as_ref()).unwrap_or(0);
                if witness.elsewhere.is_empty() {
                    let refusals = said(&site, &facts, host, choice.as_ref().ok());
                    let same = |said: &Result<Plan, Refusal>| match said {
                        Err(Refusal::DoesNotFit(one)) => {
                            (&one.service, &one.cause) == (&witness.service, &witness.cause)
                        }
                        _ => false,
                    };
                    assert!(refusals.iter().any(same), "{witness}");
                    count("refused on its host", several);
                } else {
                    assert_eq!(choice, Err(witness.service.clone()), "{witness}");
                    let told: Vec<&String> =
                        witness.elsewhere.iter().map(|lack| &lack.host).chain(&witness.host).collect();
                    assert!(site.hosts.iter().all(|host| told.contains(&&host.name)) && told.len() == site.hosts.len());
                    count("refused by all hosts", true);
                    let displaces = witness.to_string().contains("would leave no place for");
                    count("refused as it would displace another", displaces);
                }
                for advice in &witness.nearest {
                    if let NearestFit::On(host) = advice {
                        let (site, facts) = follow(&site, &facts, &witness, advice);
                        plan_on(&site, &facts, host).unwrap();
                        count("advised another host", true);
                    }
                    assert_helps(&site, &facts, &witness, advice);
                    count("advised something", several);
                }
            }
            Err(Refusal::Nowhere { service, lacks }) => {
                assert_eq!((&choice, lacks.len()), (&Err(service), site.hosts.len()));
            }
            Err(Refusal::On { host, refusal }) => {
                let host = site.hosts.iter().position(|h| h.name == host).unwrap();
                let refusals = said(&site, &facts, host, choice.as_ref().ok());
                assert!(refusals.contains(&Err(*refusal)));
                count("something else on one host", true);
            }
            Err(other) => {
                assert!(!several || choice.is_err(), "{other}");
                count("something else", true);
            }
        }
        // What one host refuses is no matter to the others.
        if let (Ok(on), Err(_), true) = (&choice, plan(&site, &facts), several) {
            for (index, host) in site.hosts.iter().enumerate() {
                let fits = said(&site, &facts, index, Some(on)).iter().all(Result::is_ok);
                assert_eq!(plan_on(&site, &facts, &host.name).is_ok(), fits);
                count("a part beside a refused one", fits);
            }
        }
    }
    println!("{seen:#?}");
    assert!(
        seen.len() == 19 && seen.values().all(|n| *n >= 10),
        "the cases that the laws are about must occur: {seen:#?}"
    );
}
