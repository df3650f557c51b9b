//! A site that stands in memory, through random changes. The oracle is the whole plan with the plan in force.

mod common;
#[path = "common/measured.rs"]
mod measured;

use common::{as_if_alone, every_deadline, leftovers, of, plan, sites, supply, task};
use giusto_model::{
    Adopt, Bandwidth, Copies, Duration, GuestScheduler, LeftoverPlan, Measured, Origin, Plan, Promise, Scheduler,
    ServerKind, Service, ServicePlan, Site, Stress, Unused,
};
use giusto_planner::{adapted, plan_on, Changed, Facts, Placements, Refusal, Replanner, Standing};
use giusto_verify::{check_plan, read_plan};
use measured::measured;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a site is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Supplies on one server each: bandwidths alone decide.
    Plain,
    /// And promises of deadlines, which are cheaper alone on a core.
    Deadlines,
    /// All of them.
    Mixed,
}

fn random_service(name: &str, kind: Kind, rng: &mut StdRng) -> Service {
    let mut supplied = |most: u64| {
        let period = [10, 20, 40][rng.random_range(0..3)];
        format!("{}ms/{period}ms", rng.random_range(1..=period * most / 100))
    };
    let (one, two, three) = (supplied(60), supplied(40), supplied(40));
    let tasks = |rng: &mut StdRng| {
        let period = [20, 40, 100][rng.random_range(0..3)];
        vec![task(&format!("{}us/{period}ms", rng.random_range(500..=period * 250)), 1)]
    };
    match (kind, rng.random_range(0..20)) {
        (Kind::Plain, _) => supply(name, &[&one], None),
        (Kind::Deadlines, 0..10) | (Kind::Mixed, 0..3) => {
            every_deadline(name, tasks(rng), GuestScheduler::Own(Scheduler::Edf))
        }
        (Kind::Mixed, 3..5) => {
            let copies = rng.random_bool(0.4).then(|| Copies { count: 2, threads: Some("worker-*".into()) });
            Service { copies, ..as_if_alone(name, vec![task("2ms/10ms", 1)], "0%") }
        }
        (Kind::Mixed, 5..8) => leftovers(name, ["0%", "10%", "40%", "90%"][rng.random_range(0..4)]),
        (Kind::Mixed, 8..11) => {
            Service { origin: Origin::Adopt(Adopt::Libvirt(name.into())), ..supply(name, &[&two, &three], None) }
        }
        (Kind::Mixed, 11) => supply(name, &[&one], Some(ServerKind::Deferrable)),
        _ => supply(name, &[&one], None),
    }
}

fn random_site(kind: Kind, rng: &mut StdRng) -> Site {
    let cores: Vec<Vec<u32>> = (0..rng.random_range(1..=6)).map(|_| (0..rng.random_range(1..=3)).collect()).collect();
    let cores: Vec<&[u32]> = cores.iter().map(Vec::as_slice).collect();
    let services =
        (0..rng.random_range(2..=14)).map(|number| random_service(&format!("s{number}"), kind, rng)).collect();
    let mut site = sites(&cores, services);
    for host in &mut site.hosts {
        host.keep_free = of(["0%", "3%", "5%"][rng.random_range(0..3)]);
        host.unused = if rng.random_bool(0.2) { Unused::Park } else { Unused::Leave };
    }
    for service in &mut site.services {
        service.on = rng.random_bool(0.2).then(|| site.hosts.choose(rng).unwrap().name.clone());
    }
    site
}

/// Of a host that is unlike a stock machine, or of none.
fn random_facts(site: &Site, rng: &mut StdRng) -> Facts {
    let host = site.hosts.choose(rng).unwrap();
    let mut facts = Facts::typical(host.cores.clone());
    facts.host = (site.hosts.len() == 1 || rng.random_bool(0.5)).then(|| host.name.clone());
    if facts.host.is_some() && rng.random_bool(0.3) {
        facts.tick = Duration::from_ms([1, 10][rng.random_range(0..2)]);
        facts.backends.iter_mut().for_each(|fact| fact.available = rng.random_bool(0.8));
    }
    if facts.host.is_some() && rng.random_bool(0.3) {
        let us = Duration::from_us;
        let runs: Vec<_> = host.cores.iter().map(|&core| (core, us(100), Stress::Quiet, us(150))).collect();
        facts.latency = Some(measured(&runs));
    }
    facts
}

struct Change {
    put: Vec<Service>,
    removed: Vec<String>,
}

fn random_change(site: &Site, kind: Kind, number: usize, rng: &mut StdRng) -> Change {
    let mut change = Change { put: Vec::new(), removed: Vec::new() };
    for more in 0..if rng.random_bool(0.7) { 1 } else { rng.random_range(2..=3) } {
        let old = site.services.choose(rng).filter(|old| !change.put.iter().any(|put| put.name == old.name));
        match (rng.random_range(0..10), old) {
            (0..3, Some(old)) if site.services.len() > 4 => change.removed.push(old.name.clone()),
            (3..7, Some(old)) => {
                let on = match rng.random_bool(0.8) {
                    true => old.on.clone(),
                    false => rng.random_bool(0.5).then(|| site.hosts.choose(rng).unwrap().name.clone()),
                };
                change.put.push(Service { on, ..random_service(&old.name, kind, rng) });
            }
            _ => {
                let on = rng.random_bool(0.15).then(|| site.hosts.choose(rng).unwrap().name.clone());
                change.put.push(Service { on, ..random_service(&format!("n{number}-{more}"), kind, rng) });
            }
        }
    }
    change.removed.retain(|name| !change.put.iter().any(|put| put.name == *name));
    change
}

/// The site after a change, by another way.
fn after(site: &Site, Change { put, removed }: &Change) -> Site {
    let stays = site.services.iter().filter(|old| !removed.contains(&old.name));
    let now = |old: &Service| put.iter().find(|put| put.name == old.name).unwrap_or(old).clone();
    let fresh = put.iter().filter(|put| !site.services.iter().any(|old| old.name == put.name));
    Site { services: stays.map(now).chain(fresh.cloned()).collect(), ..site.clone() }
}

/// A host's part of a plan without reasons.
fn bare(plan: &Plan, host: &str) -> Plan {
    let mut part = plan.on(host).unwrap();
    part.services.iter_mut().for_each(|one: &mut ServicePlan| one.reasons.clear());
    part.leftovers.iter_mut().for_each(|one: &mut LeftoverPlan| one.reasons.clear());
    part
}

/// The hosts whose parts are not alike.
fn unlike(site: &Site, one: &Plan, other: &Plan) -> Vec<String> {
    let names = site.hosts.iter().map(|host| host.name.clone());
    names.filter(|host| bare(one, host) != bare(other, host)).collect()
}

type Places = BTreeMap<String, (String, BTreeSet<(Option<u32>, u32)>)>;

fn places(plan: &Plan) -> Places {
    let mut all = Places::new();
    for one in &plan.services {
        let place = all.entry(one.name.clone()).or_insert((one.on.clone(), BTreeSet::new()));
        place.1.insert((one.vcpu, one.core));
    }
    all.extend(plan.leftovers.iter().map(|one| (one.name.clone(), (one.on.clone(), BTreeSet::new()))));
    all
}

/// Services that run before and after with another host or core for one of their virtual CPUs.
fn moved(before: &Plan, after: &Plan) -> Vec<String> {
    let (before, after) = (places(before), places(after));
    let core =
        |all: &BTreeSet<(Option<u32>, u32)>, vcpu| all.iter().find(|(own, _)| *own == vcpu).map(|(_, core)| *core);
    let other = |(name, (on, cores)): &(&String, &(String, BTreeSet<_>))| {
        before.get(*name).is_some_and(|(was, had)| {
            was != on || cores.iter().any(|(vcpu, now)| core(had, *vcpu).is_some_and(|then| then != *now))
        })
    };
    after.iter().filter(other).map(|(name, _)| name.clone()).collect()
}

/// Has what stands proven from its file.
fn told(standing: &Standing) {
    let read = read_plan(&serde_json::to_string(standing.plan()).unwrap()).unwrap();
    assert_eq!(read, *standing.plan());
    check_plan(&read).unwrap_or_else(|broken| panic!("{broken}: {read:#?}"));
    let place = |name: &String| standing.site().services.iter().position(|one| one.name == *name).unwrap();
    let planned: Vec<usize> = read.services.iter().map(|one| place(&one.name)).collect();
    let left: Vec<usize> = read.leftovers.iter().map(|one| place(&one.name)).collect();
    assert!(planned.is_sorted() && left.is_sorted_by(|one, other| one < other), "the order of the site");
    let all: BTreeSet<usize> = planned.into_iter().chain(left).collect();
    assert_eq!(all.len(), standing.site().services.len(), "none is forgotten");
}

/// Changes what stands, and asserts all that is promised of it.
fn step(standing: &mut Standing, facts: &Facts, change: Change) -> (Result<Changed, Refusal>, bool) {
    let (site, before) = (standing.site().clone(), standing.plan().clone());
    let expected = after(&site, &change);
    let oracle = plan(&expected, &Facts { placed: Placements::of(&before), ..facts.clone() });
    let removed: Vec<&str> = change.removed.iter().map(String::as_str).collect();
    let found = standing.change(change.put.clone(), &removed);
    let Ok(changed) = &found else {
        assert_eq!((&site, &before), (standing.site(), standing.plan()), "then nothing has changed");
        assert_eq!(oracle.as_ref().err(), found.as_ref().err(), "refused only where the whole plan is");
        return (found, true);
    };
    assert_eq!(*standing.site(), expected);
    told(standing);
    assert_eq!(changed.moved, moved(&before, standing.plan()));
    assert_eq!(changed.hosts, unlike(&site, &before, standing.plan()));
    let named =
        |name: &str| change.put.iter().any(|put| put.name == name) || change.removed.iter().any(|own| own == name);
    let has = |plan: &Plan, host: &str| {
        let services = plan.services.iter().filter(|one| one.on == host).map(|one| &one.name);
        services
            .chain(plan.leftovers.iter().filter(|one| one.on == host).map(|one| &one.name))
            .cloned()
            .collect::<Vec<_>>()
    };
    // Neither has nor gets one of those that were named or moved.
    let apart = |host: &&String| {
        let both = [has(&before, host), has(standing.plan(), host)].concat();
        !both.iter().any(|name| named(name) || changed.moved.contains(name))
    };
    let names: Vec<String> = site.hosts.iter().map(|host| host.name.clone()).collect();
    if !changed.whole {
        for host in names.iter().filter(apart) {
            assert_eq!(before.on(host), standing.plan().on(host), "to the last word");
        }
    }
    let same = match &oracle {
        Ok(oracle) => {
            let differs = unlike(&site, standing.plan(), oracle);
            let told: BTreeSet<String> = unlike(&site, &before, oracle).into_iter().collect();
            // On purpose only: where the whole plan changes a host that the change does not concern.
            assert!(
                differs.is_empty() || !changed.whole && names.iter().filter(apart).any(|host| told.contains(host)),
                "{differs:?} are unlike the whole plan's"
            );
            differs.is_empty()
        }
        Err(_) => false,
    };
    (found, same)
}

#[test]
fn what_stands_is_what_the_whole_plan_with_the_plan_in_force_says() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..if std::env::var_os("GIUSTO_SOAK").is_some() { 300 } else { 150 } {
        let rng = &mut StdRng::seed_from_u64(seed);
        let kind = [Kind::Plain, Kind::Deadlines, Kind::Mixed][rng.random_range(0..3)];
        let site = random_site(kind, rng);
        let facts = random_facts(&site, rng);
        let several = site.hosts.len() > 1;
        let fresh = plan(&site, &facts);
        let standing = Standing::new(site, facts.clone());
        assert_eq!(fresh.as_ref(), standing.as_ref().map(Standing::plan));
        let Ok(mut standing) = standing else { continue };
        for number in 0..8 {
            let (site, before) = (standing.site().clone(), standing.plan().clone());
            let change = random_change(&site, kind, number, rng);
            let [put, removed] = [
                change.put.clone(),
                change
                    .removed
                    .iter()
                    .filter_map(|name| site.services.iter().find(|service| service.name == *name).cloned())
                    .collect(),
            ];
            let (found, same) = step(&mut standing, &facts, change);
            let mut count = |what: &'static str, yes: bool| *seen.entry(what).or_default() += u32::from(yes);
            let Ok(changed) = found else {
                count("refused", true);
                continue;
            };
            let part = !changed.whole;
            count("planned in part", part);
            count("planned in whole", changed.whole);
            count("unlike the whole plan on purpose", !same);
            count("one host in part", part && !several);
            count("several hosts in part", part && several);
            count("with a measured latency in part", part && facts.latency.is_some());
            let old = |service: &Service| site.services.iter().any(|old| old.name == service.name);
            let own = |name: &String| put.iter().any(|put| put.name == *name);
            let single = put.len() + removed.len() == 1;
            count("added in part", part && put.iter().any(|put| !old(put)));
            count("bound ones in part", part && put.iter().any(|put| put.on.is_some()));
            count("several at once in part", part && !single);
            count("removed in part", part && !removed.is_empty());
            count(
                "changed ones stay, in part",
                part && put.iter().any(|put| old(put) && !changed.moved.contains(&put.name)),
            );
            count("changed ones move, in part", part && put.iter().any(|put| changed.moved.contains(&put.name)));
            count("others move, in part", part && changed.moved.iter().any(|name| !own(name)));
            count("more hosts than one change", part && changed.hosts.len() > 1);
            let promised =
                |wanted: fn(&Promise) -> bool| part && put.iter().chain(&removed).any(|one| wanted(&one.promise));
            count("a core to itself", promised(|promise| *promise == Promise::AsIfAlone));
            count("workers", part && put.iter().chain(&removed).any(|one| one.copies.is_some()));
            count("deadlines", promised(|promise| matches!(promise, Promise::EveryDeadline { .. })));
            count("virtual machines", promised(|promise| matches!(promise, Promise::Supply(all) if all.len() > 1)));
            let floor = |promise: &Promise| matches!(promise, Promise::Leftovers { at_least, .. } if *at_least > Bandwidth::ZERO);
            count("floors", promised(floor));
            count(
                "without a floor",
                promised(
                    |promise| matches!(promise, Promise::Leftovers { at_least, .. } if *at_least == Bandwidth::ZERO),
                ),
            );
            let [one] = put.as_slice() else { continue };
            if single && kind == Kind::Plain && facts.host.is_none() && has_room(&standing, &before, one) {
                let others: Vec<&String> = changed.moved.iter().filter(|name| !own(name)).collect();
                assert!(others.is_empty() && part, "seed {seed}, change {number}: {others:?} need not move");
                count("there is room and no other moves", true);
            }
        }
    }
    println!("{seen:#?}");
    let differs = seen.remove("unlike the whole plan on purpose");
    println!("{differs:?} unlike the whole plan on purpose");
    assert!(seen.len() == 21 && seen.values().all(|n| *n >= 5), "the cases must occur: {seen:#?}");
}

/// What the oracle finds by itself, of supplies: a core whose reservations leave room for the one of `service` where all others
/// stay; 2 % are the manager's.
fn has_room(after: &Standing, before: &Plan, service: &Service) -> bool {
    let Promise::Supply(asked) = &service.promise else { return false };
    let there = after.site().hosts.iter().filter(|host| service.on.as_ref().is_none_or(|on| *on == host.name));
    there.flat_map(|host| host.cores.iter().map(move |core| (host, core))).any(|(host, core)| {
        let here =
            before.services.iter().filter(|one| one.on == host.name && one.core == *core && one.name != service.name);
        let used: f64 = here.map(|one| one.server.bandwidth().as_f64()).sum();
        used + asked[0].bandwidth().as_f64() + host.keep_free.as_f64() + 0.02 < 0.999_999
    })
}

#[test]
fn a_host_that_is_planned_again_and_again_has_the_plan_that_is_made_with_nothing_known() {
    let mut rng = StdRng::seed_from_u64(32);
    let (mut planned, mut refused) = (0, 0);
    for _ in 0..60 {
        let kind = [Kind::Deadlines, Kind::Mixed][rng.random_range(0..2)];
        let mut site = random_site(kind, &mut rng);
        let facts = random_facts(&site, &mut rng);
        let host = facts.host.clone().unwrap_or_else(|| site.hosts[0].name.clone());
        let replanner = Replanner::new(facts.clone(), host.clone());
        for number in 0..8 {
            let found = replanner.plan(&site);
            assert_eq!(found, plan_on(&site, &facts, &host), "{site:?}");
            *(if found.is_ok() { &mut planned } else { &mut refused }) += 1;
            let before = site.clone();
            site = after(&site, &random_change(&site, kind, 100 + number, &mut rng));
            // Back to what was there, as who tries budgets does.
            if rng.random_bool(0.3) {
                let _ = replanner.plan(&site);
                site = before;
            }
        }
    }
    println!("{planned} planned, {refused} refused");
    assert!(planned > 100 && refused > 50, "{planned} {refused}");
}

/// Of percentiles searches are kept.
#[test]
fn so_it_is_with_percentiles_of_services_that_take_longer_or_less() {
    let site = giusto_site::read(&examples_folder().join("percentiles.yaml")).unwrap();
    let host = site.hosts[0].name.clone();
    let facts = Facts { host: Some(host.clone()), ..Facts::typical((0..8).collect()) };
    let replanner = Replanner::new(facts.clone(), host.clone());
    let mut budgets = BTreeSet::new();
    for factor in [1.0, 0.7, 1.3, 1.6, 1.3] {
        let factors = BTreeMap::from([("search".to_string(), factor)]);
        let (found, _) = adapted(&site, &factors, &factors, &|site| replanner.plan(site)).unwrap();
        let (anew, _) = adapted(&site, &factors, &factors, &|site| plan_on(site, &facts, &host)).unwrap();
        assert_eq!(found, anew, "{factor}");
        budgets.insert(found.services.iter().find(|entry| entry.name == "search").unwrap().server.budget);
    }
    assert_eq!(budgets.len(), 4, "one for each factor: {budgets:?}");
}

fn examples_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites")
}

/// Modes, packets, topics, ensembles, criticality, percentiles: whatever the examples have.
#[test]
fn the_services_of_the_example_sites_can_go_and_come_back() {
    let mut files: Vec<_> = fs::read_dir(examples_folder()).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let (mut sites, mut in_part, mut in_whole, mut refused) = (0, 0, 0, 0);
    for file in files {
        let Ok(site) = giusto_site::read(&file) else { continue };
        let facts = Facts::typical((0..8).collect());
        let Ok(mut standing) = Standing::new(site.clone(), facts.clone()) else { continue };
        sites += 1;
        for service in &site.services {
            // A mode, an interface or a path of a service that is gone would be no site.
            let on_a_path = site.paths.through(&service.name).next().is_some();
            if site.modes.is_none() && !on_a_path && site.services.len() > 1 {
                let name = service.name.clone();
                let gone = step(&mut standing, &facts, Change { put: vec![], removed: vec![name] }).0;
                gone.unwrap_or_else(|why| panic!("{}: {why}", file.display()));
            }
            match step(&mut standing, &facts, Change { put: vec![service.clone()], removed: vec![] }).0 {
                Ok(changed) => *if changed.whole { &mut in_whole } else { &mut in_part } += 1,
                Err(_) => refused += 1,
            }
        }
    }
    println!("{sites} sites; {in_part} planned in part, {in_whole} in whole, {refused} refused");
    assert!(sites > 10 && in_part > 20 && in_whole >= 5);
}

#[test]
fn what_is_refused_undoes_all_of_several_edits() {
    let one = |name: &str| supply(name, &["1ms/10ms"], None);
    let site = sites(&[&[0]], ["a", "b", "c", "d", "e"].map(one).into());
    let facts = Facts::typical(vec![0]);
    let mut standing = Standing::new(site, facts.clone()).unwrap();
    for (put, removed) in [
        (vec![supply("n", &["95ms/100ms"], None)], vec!["a", "c"]),
        (vec![supply("e", &["50ms/100ms"], None), supply("e2", &["45ms/100ms"], None)], vec!["b", "d", "a"]),
        (vec![supply("b", &["5ms/10ms"], None), supply("b", &["9ms/10ms"], None)], vec!["c"]),
    ] {
        let change = Change { put, removed: removed.into_iter().map(String::from).collect() };
        // The last of one name counts.
        let named: BTreeSet<String> = change.put.iter().map(|put| put.name.clone()).collect();
        if named.len() == change.put.len() {
            step(&mut standing, &facts, change).0.unwrap_err();
        } else {
            let (site, before) = (standing.site().clone(), standing.plan().clone());
            standing.change(change.put, &["c"]).unwrap_err();
            assert_eq!((&site, &before), (standing.site(), standing.plan()));
        }
        step(&mut standing, &facts, Change { put: vec![one("f")], removed: vec![] }).0.unwrap();
        step(&mut standing, &facts, Change { put: vec![], removed: vec!["f".into()] }).0.unwrap();
    }
}

#[test]
fn a_shorter_period_makes_another_measured_latency_count_for_all() {
    let (us, ms) = (Duration::from_us, Duration::from_ms);
    let runs: Vec<_> = (0..3)
        .flat_map(|core| [(core, us(100), Stress::Quiet, us(300)), (core, ms(5), Stress::Quiet, us(100))])
        .collect();
    let facts = Facts { latency: Some(measured(&runs)), ..Facts::typical(vec![0, 1, 2]) };
    let edf = GuestScheduler::Own(Scheduler::Edf);
    let site = sites(&[&[0, 1, 2]], vec![every_deadline("a", vec![task("2ms/40ms", 1)], edf)]);
    let mut standing = Standing::new(site, facts.clone()).unwrap();
    let latency = |standing: &Standing| standing.plan().hosts[0].latency.as_ref().unwrap().latency;
    assert_eq!(latency(&standing), us(100));
    let change =
        |put: Vec<Service>, removed: &[&str]| Change { put, removed: removed.iter().map(|s| s.to_string()).collect() };
    let fast = as_if_alone("fast", vec![task("100us/4ms", 1)], "0%");
    for (change, expected, whole) in [
        (change(vec![fast], &[]), us(300), true),
        (change(vec![every_deadline("b", vec![task("2ms/50ms", 1)], edf)], &[]), us(300), false),
        (change(vec![], &["fast"]), us(100), true),
        (change(vec![every_deadline("c", vec![task("2ms/60ms", 1)], edf)], &[]), us(100), false),
    ] {
        let (found, same) = step(&mut standing, &facts, change);
        assert_eq!((found.unwrap().whole, same, latency(&standing)), (whole, true, expected));
    }
}

#[test]
fn measured_times_are_told_and_those_that_are_not_measured_yet_are_refused() {
    let site = sites(&[&[0], &[0]], vec![supply("a", &["1ms/10ms"], None)]);
    let facts = Facts { host: None, ..Facts::typical(vec![0]) };
    let mut standing = Standing::new(site, facts.clone()).unwrap();
    let edf = GuestScheduler::Own(Scheduler::Edf);
    let timed = |measured: Measured| Service { measured, ..every_deadline("b", vec![task("2ms/40ms", 1)], edf) };
    let wanted = Change { put: vec![timed(Measured::Wanted { fits: vec![None] })], removed: vec![] };
    let why = step(&mut standing, &facts, wanted).0.unwrap_err();
    assert!(matches!(why, Refusal::Unmeasured { .. }), "{why}");
    let words = "the longest of 100 jobs";
    let change = Change { put: vec![timed(Measured::Observed(words.into()))], removed: vec![] };
    assert!(!step(&mut standing, &facts, change).0.unwrap().whole);
    let planned = standing.plan().services.iter().find(|one| one.name == "b").unwrap();
    assert!(planned.reasons.iter().any(|reason| reason.why == words), "{:#?}", planned.reasons);
}

#[test]
fn a_host_that_is_not_there_is_refused_and_a_name_that_is_not_there_is_passed_over() {
    let site = sites(&[&[0], &[0]], vec![supply("a", &["1ms/10ms"], None)]);
    let mut standing = Standing::new(site, Facts { host: None, ..Facts::typical(vec![0]) }).unwrap();
    let before = standing.plan().clone();
    let elsewhere = Service { on: Some("edge-3".into()), ..supply("b", &["1ms/10ms"], None) };
    let why = standing.change(vec![elsewhere], &["a"]).unwrap_err();
    assert_eq!(why.to_string(), "the site has no host 'edge-3'; it has edge-1, edge-2");
    assert_eq!(standing.plan(), &before);
    let nothing = standing.change(vec![], &["z"]).unwrap();
    assert_eq!(nothing, Changed { moved: vec![], hosts: vec![], whole: false });
    assert_eq!(standing.plan(), &before);
}
