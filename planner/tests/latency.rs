//! A host's measured latency: nothing of it changes nothing, more of it never helps, what a plan says of it is proven, and no
//! job is late when all that is supplied comes as late as was measured.

mod common;
#[path = "common/measured.rs"]
mod measured;

use common::{as_if_alone, every_deadline, leftovers, of, percentiles, plan, site, supply, task, walk};
use giusto_model::{
    Behind, Bucket, Certificate, Duration, GuestScheduler, HostNetwork, Latency, ManagerRun, PacketClass, PacketUnit,
    Plan, Rate, Release, RestsOn, Scheduler, ServerKind, Service, ServiceTime, Site, Stress, Task, Tokens, Uplink, Vif,
    Within,
};
use giusto_planner::{explain, read_latency, Facts, Refusal};
use giusto_verify::check_plan;
use measured::measured;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

/// With what the manager lost of each budget, and made late as a rule and at most.
fn and_manager(latency: Latency, loss: Duration, usual: Duration, late: Duration) -> Latency {
    let (period, budget) = (Duration::from_ms(5), Duration::from_ms(1));
    let load = Stress::Quiet;
    let behind = Behind { loss, usual, late };
    let run = ManagerRun { core: 1, load, budget, period, periods: 2000, cost: None, behind, steal: None };
    Latency { manager: vec![run], ..latency }
}

/// Cores 1 to 4, all as late.
fn late(latency: Duration) -> Latency {
    let runs: Vec<_> = (1..=4).map(|core| (core, us(500), Stress::Quiet, latency)).collect();
    measured(&runs)
}

fn with(facts: &Facts, latency: Latency) -> Facts {
    Facts { latency: Some(latency), ..facts.clone() }
}

fn mixed() -> Site {
    let mut tail = percentiles("tail", &["p90=60ms"], "20/s", 1, ServiceTime::Constant { time: Duration::from_ms(2) });
    tail.margin = of("0%");
    let services = vec![
        every_deadline("edf", vec![task("2ms/40ms", 1)], GuestScheduler::Own(Scheduler::Edf)),
        every_deadline(
            "any",
            vec![task("1ms/50ms", 1), Task { name: "b".into(), ..task("2ms/80ms", 1) }],
            GuestScheduler::Any,
        ),
        supply("flat", &["1ms/10ms"], None),
        tail,
        as_if_alone("alone", vec![task("1ms/10ms", 1)], "5%"),
        leftovers("rest", "0%"),
    ];
    site(&[1, 2, 3], services)
}

#[test]
fn a_host_without_latency_has_the_plan_of_one_that_was_not_measured() {
    for site in [walk(), mixed()] {
        let facts = Facts::typical(site.hosts[0].cores.clone());
        let text = |facts: &Facts| serde_json::to_string_pretty(&plan(&site, facts).unwrap()).unwrap();
        assert_eq!(text(&facts), text(&with(&facts, late(Duration::ZERO))));
        assert_ne!(text(&facts), text(&with(&facts, late(Duration::from_ns(1)))));
    }
}

#[test]
fn what_counts_is_the_worst_of_the_plans_cores_from_the_period_below_its_shortest_on() {
    let site = site(&[1, 2], vec![every_deadline("s", vec![task("100us/2ms", 1)], GuestScheduler::Any)]);
    let facts = Facts { lateness: us(10), loss: Duration::ZERO, ..Facts::typical(vec![1, 2]) };
    let ms = Duration::from_ms;
    let runs = [
        (1, us(50), Stress::Stress, us(900)), // its timer is set more often than any of the plan
        (2, us(50), Stress::Quiet, us(800)),
        (1, ms(1), Stress::Quiet, us(30)),
        (2, ms(1), Stress::Quiet, us(20)),
        (2, ms(1), Stress::Stress, us(40)),
        (1, ms(10), Stress::Quiet, us(35)),
        (2, ms(10), Stress::Quiet, us(70)), // sleeps deeper
        (3, ms(1), Stress::Quiet, ms(100)), // is not of this host
    ];
    let found = plan(&site, &with(&facts, measured(&runs))).unwrap().hosts[0].latency.clone().unwrap();
    assert_eq!((found.latency, found.allowance), (us(70), us(10)));
    assert_eq!((found.shortest, found.period, found.stressed), (ms(2), ms(1), true));
    assert_eq!(found.cores.iter().map(|one| (one.core, one.worst)).collect::<Vec<_>>(), [(1, us(35)), (2, us(70))]);
    // A core that was not measured, or not often enough; a machine that is none of the site's.
    for (runs, words) in
        [(&runs[..3], "core 2 of host 'edge-1'"), (&runs[5..7], "the shortest period that matters is 2 ms")]
    {
        let refusal = plan(&site, &with(&facts, measured(runs))).unwrap_err();
        assert!(matches!(refusal, Refusal::Latency { .. }) && refusal.to_string().contains(words), "{refusal}");
    }
}

fn random_site(rng: &mut StdRng, cores: &[u32]) -> Site {
    let count = rng.random_range(1..=2);
    let service = |number: u32| {
        let tasks = (0..rng.random_range(1..=3)).map(|nth| {
            let period = *[10_000u64, 12_500, 20_000, 25_000, 50_000].choose(rng).unwrap();
            let wcet = us((period * rng.random_range(1..=40) / 400).max(100));
            let deadline = us(rng.random_range(period * 6 / 10..=period)).max(wcet);
            let (name, period, offset) = (format!("t{nth}"), us(period), Duration::ZERO);
            Task { name, wcet, period, deadline, offset, release: Release::Sporadic, copies: 1 }
        });
        let tasks = tasks.collect();
        every_deadline(&format!("s{number}"), tasks, *GuestScheduler::ALL.choose(rng).unwrap())
    };
    let services = (0..count).map(service).collect();
    site(cores, services)
}

#[test]
fn more_latency_never_makes_a_refused_site_fit() {
    let mut rng = StdRng::seed_from_u64(21);
    let (mut fell, mut named, mut otherwise) = (0, 0, 0);
    for _ in 0..24 {
        let site = random_site(&mut rng, &[1]);
        let facts = Facts::typical(vec![1]);
        let mut fits = plan(&site, &facts).is_ok();
        otherwise += usize::from(!fits);
        let mut used = None;
        for latency in [0, 1, 100, 700, 2000, 5000, 9000] {
            match plan(&site, &with(&facts, late(us(latency)))) {
                Ok(plan) => {
                    assert!(fits, "{latency} us fit where less did not: {site:#?}");
                    let least = plan.services.iter().map(|one| one.server.bandwidth().as_f64()).sum::<f64>();
                    assert!(used.is_none_or(|before| before <= least + 1e-9), "{latency} us need less");
                    used = Some(least);
                }
                Err(refusal) => {
                    fell += usize::from(fits);
                    if let Refusal::Late { without, .. } = &refusal {
                        named += 1;
                        let words = if *without { "without it would fit" } else { "something else would not fit" };
                        assert!(
                            refusal.to_string().contains(words) && *without == plan(&site, &facts).is_ok(),
                            "{refusal}"
                        );
                    } else {
                        assert_eq!(
                            refusal,
                            plan(&site, &facts).unwrap_err(),
                            "a latency without a part in it is not named"
                        );
                    }
                    fits = false;
                }
            }
        }
    }
    println!("{fell} sites fit until some latency, {named} refusals name it, {otherwise} never fit");
    assert!(fell > 5 && named > 15 && otherwise > 1);
}

/// When each job of the tasks is done, in us, where the only thing that runs is a server that is as bad as it may: released at
/// once when its budget was just used up, then nothing for `late`, then each budget at the end of its period.
fn all_in_time(tasks: &[Task], order: &GuestScheduler, budget: u64, period: u64, late: u64) -> bool {
    let micro = |time: Duration| time.ns() / 1000;
    let supplied = |t: u64| {
        // 2(P - B) after the lateness the first budget comes, then one at the end of each period.
        let Some(after) = t.checked_sub(late + 2 * (period - budget)) else { return false };
        after % period < budget
    };
    let rounds = tasks.iter().fold(period, |all, task| num_integer::lcm(all, micro(task.period)));
    let horizon = (3 * rounds).min(3_000_000);
    // Of each task: the next release, and what is left of jobs by their deadlines.
    let mut next = vec![0u64; tasks.len()];
    let mut open: Vec<(u64, usize, u64)> = Vec::new();
    for t in 0..horizon {
        for (task, next) in next.iter_mut().enumerate() {
            if *next == t {
                open.push((t + micro(tasks[task].deadline), task, micro(tasks[task].wcet)));
                *next += micro(tasks[task].period);
            }
        }
        if open.iter().any(|(deadline, ..)| *deadline <= t) {
            return false;
        }
        if supplied(t) {
            let key = |&(deadline, task, _): &(u64, usize, u64)| match order {
                GuestScheduler::Own(Scheduler::Edf) => (deadline, task),
                GuestScheduler::Own(Scheduler::Rm) => (micro(tasks[task].period), task),
                _ => (micro(tasks[task].deadline), task),
            };
            if let Some(first) = (0..open.len()).min_by_key(|&nth| key(&open[nth])) {
                open[first].2 -= 1;
                if open[first].2 == 0 {
                    open.swap_remove(first);
                }
            }
        }
    }
    true
}

#[test]
fn the_budget_is_the_least_with_which_no_job_is_late_when_the_supply_is_and_the_tightest_pattern_shows_it() {
    let mut rng = StdRng::seed_from_u64(22);
    let (mut played, mut late_without) = (0, 0);
    while played < 25 {
        let mut site = random_site(&mut rng, &[1]);
        site.services.truncate(1);
        let order = *[Scheduler::Edf, Scheduler::Dm, Scheduler::Rm].choose(&mut rng).unwrap();
        let order = GuestScheduler::Own(order);
        let tasks = site.services[0].tasks.clone();
        // What is played is the periodic resource: a server on a grid gives nothing better.
        let server = Some(ServerKind::PeriodicStrict);
        site.services[0] = Service { server, ..every_deadline("only", tasks.clone(), order) };
        let facts = Facts { loss: Duration::ZERO, lateness: Duration::ZERO, ..Facts::typical(vec![1]) };
        let latency = rng.random_range(1..4000);
        let Ok(plan) = plan(&site, &with(&facts, late(us(latency)))) else { continue };
        let (server, least) = (plan.services[0].server, us(100));
        let (budget, period) = (server.budget.ns() / 1000, server.period.ns() / 1000);
        assert!(all_in_time(&tasks, &order, budget, period, latency), "{tasks:?} {server:?} {latency} us");
        played += 1;
        if server.budget > least {
            // One us less, or a us later, and one is.
            assert!(!all_in_time(&tasks, &order, budget - 1, period, latency), "{tasks:?} {server:?} {latency} us");
            let unaware = common::plan(&site, &facts).unwrap().services[0].server;
            let (budget, period) = (unaware.budget.ns() / 1000, unaware.period.ns() / 1000);
            late_without += usize::from(!all_in_time(&tasks, &order, budget, period, latency));
        }
    }
    println!("{played} plans; {late_without} that know nothing of the latency have jobs late");
    assert!(late_without > 15);
}

#[test]
fn predicted_percentiles_are_later_by_it() {
    let service = percentiles("tail", &["p90=60ms"], "20/s", 1, ServiceTime::Constant { time: Duration::from_ms(2) });
    let site = site(&[1], vec![service]);
    let facts = Facts { lateness: Duration::ZERO, ..Facts::typical(vec![1]) };
    let plan = plan(&site, &with(&facts, late(Duration::from_ms(3)))).unwrap();
    let Certificate::Percentiles { latency, ref predicted, .. } = plan.services[0].certificate else { panic!() };
    assert_eq!(latency, Duration::from_ms(3));
    // No job is done in less than the work and what comes late.
    assert!(predicted[0].at >= Duration::from_ms(5), "{predicted:?}");
}

#[test]
fn it_is_explained_to_every_promise() {
    let site = mixed();
    let plan = plan(&site, &with(&Facts::typical(vec![1, 2, 3]), late(us(180)))).unwrap();
    for (name, words) in [
        ("edf", "sbf(t − L)"),
        ("any", "first 680 us of any window"),
        ("tail", "680 us are added to every response time"),
        ("flat", "may come so much later"),
        ("alone", "added to what is predicted"),
    ] {
        let text = explain(&plan, name).unwrap();
        assert!(text.contains("host's latency") && text.contains("180 us") && text.contains(words), "{text}");
        assert!(text.contains("the worst of cores 1-3"), "{text}");
    }
}

#[test]
fn the_checker_believes_no_other_latency_than_that_of_the_cores() {
    let good = plan(&mixed(), &with(&Facts::typical(vec![1, 2, 3]), late(us(180)))).unwrap();
    check_plan(&good).unwrap();
    let latency =
        |plan: &mut Plan, f: &dyn Fn(&mut giusto_model::HostLatency)| f(plan.hosts[0].latency.as_mut().unwrap());
    let mut bad: Vec<(&str, Plan)> = Vec::new();
    let mut forge = |what, f: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        f(&mut plan);
        bad.push((what, plan));
    };
    forge("the worst", &|plan| latency(plan, &|one| one.latency = us(10)));
    forge("the worst", &|plan| latency(plan, &|one| one.cores[1].worst = us(181)));
    forge("what each certificate", &|plan| {
        latency(plan, &|one| {
            one.latency = us(10);
            one.cores.iter_mut().for_each(|core| core.worst = us(10));
        })
    });
    forge("what each certificate", &|plan| latency(plan, &|one| one.allowance = us(0)));
    forge("a measurement of each core", &|plan| latency(plan, &|one| one.cores.truncate(2)));
    forge("a period", &|plan| latency(plan, &|one| one.period = Duration::from_ms(50)));
    forge("the shortest period", &|plan| {
        latency(plan, &|one| (one.shortest, one.period) = (Duration::from_ms(60), Duration::from_ms(60)))
    });
    forge("", &|plan| {
        // The certificate of one service forgets it: its supplies are then claimed too early.
        for entry in &mut plan.services {
            if let Certificate::EveryDeadline { latency, .. } = &mut entry.certificate {
                *latency = us(500);
            }
        }
    });
    for (what, plan) in bad {
        let told = check_plan(&plan).unwrap_err().to_string();
        assert!(told.contains(what), "{what}: {told}");
    }
}

#[test]
fn what_was_measured_of_the_manager_takes_the_place_of_what_is_assumed() {
    let site = mixed();
    let facts = Facts::typical(vec![1, 2, 3]);
    let planned = |latency: Latency| plan(&site, &with(&facts, latency)).unwrap();
    let good = planned(and_manager(late(us(60)), us(12), us(35), us(80)));
    check_plan(&good).unwrap();
    let host = good.hosts[0].latency.as_ref().unwrap();
    assert_eq!((host.latency, host.allowance), (us(60), us(35)), "80 us at most are less than 35 and the host's 60");
    let mut seen = 0;
    for entry in good.services.iter().filter(|entry| entry.backend.abilities().own_thread) {
        let (budget, latency) = match &entry.certificate {
            Certificate::EveryDeadline { rests_on: RestsOn::WholeCore { loss }, latency, .. } => {
                (entry.server.budget.checked_sub(*loss).unwrap(), latency)
            }
            Certificate::EveryDeadline { budget, latency, .. } | Certificate::Percentiles { budget, latency, .. } => {
                (*budget, latency)
            }
            _ => continue,
        };
        assert_eq!(*latency, us(95), "{}", entry.name);
        assert!(entry.server.budget.checked_sub(budget).unwrap() >= us(12), "{}", entry.name);
        seen += 1;
    }
    assert_eq!(seen, 3);
    assert!(explain(&good, "any").unwrap().contains("35 us were measured of the manager, over 2000 periods"));
    // What is rare beyond that is the machine's latency.
    let rare = planned(and_manager(late(us(60)), us(12), us(35), us(300)));
    assert_eq!(rare.hosts[0].latency.as_ref().unwrap().latency, us(265));
    check_plan(&rare).unwrap();
    // Never dearer than with what is assumed of any machine, if less was measured.
    let assumed = planned(late(us(60)));
    for (one, other) in good.services.iter().zip(&assumed.services) {
        assert!(one.server.interface().bandwidth() <= other.server.interface().bandwidth(), "{}", one.name);
    }
    for f in [
        (|one| one.allowance = us(0)) as fn(&mut giusto_model::HostLatency),
        |one| one.manager.as_mut().unwrap().late = us(0),
        |one| one.manager.as_mut().unwrap().periods = 0,
    ] {
        let mut forged = good.clone();
        f(forged.hosts[0].latency.as_mut().unwrap());
        let told = check_plan(&forged).unwrap_err().to_string();
        assert!(told.contains("what was measured of the manager"), "{told}");
    }
}

#[test]
fn a_deadline_below_what_is_assumed_can_be_kept_where_the_manager_was_measured() {
    let fast = vec![task("50us/400us", 1), Task { name: "b".into(), ..task("2ms/10ms", 1) }];
    let site = site(&[1], vec![every_deadline("loop", fast, GuestScheduler::Own(Scheduler::Dm))]);
    let runs = measured(&[(1, us(200), Stress::Quiet, us(60))]);
    let facts = Facts::typical(vec![1]);
    assert!(plan(&site, &with(&facts, runs.clone())).is_err());
    let planned = plan(&site, &with(&facts, and_manager(runs, us(12), us(35), us(80)))).unwrap();
    check_plan(&planned).unwrap();
}

#[test]
fn packets_wait_for_it_and_for_what_comes_meanwhile() {
    let rate = |per_second| Rate::of(per_second, Duration::from_ms(1000)).unwrap();
    let bucket = |per_second, burst| Bucket { rate: rate(per_second), depth: Tokens::whole(burst) };
    let mut site = site(&[2], vec![leftovers("batch", "0%")]);
    let uplinks = vec![Uplink { name: "eth0".into(), bucket: bucket(10_000, 20) }];
    let (capacity, count) = (rate(50_000), PacketUnit::Skb);
    site.hosts[0].network = Some(HostNetwork { cores: vec![1], uplinks, capacity, poll: 64, count });
    let promise = vec![Within { percentile: "p99".parse().unwrap(), within: Duration::from_ms(5) }];
    let received = Some(bucket(2_500, 5).into());
    let (name, class, bucket) = ("vnet0".into(), PacketClass::High, Some(bucket(5_000, 10).into()));
    site.services[0].network = vec![Vif { name, class, bucket, received, promise }];
    let facts = Facts::typical(vec![1, 2]);
    let bound = |plan: &Plan| plan.network[0].vifs[0].bound.unwrap();
    // 20 us a packet: a poll of 64, 10 that it sends and 5 that are sent to it, the uplink's 20 at once; the uplink takes a fifth
    // of the core, and what it sends a tenth, for which the others wait.
    let wait = |us: u64| Duration::from_ns((us * 10_000).div_ceil(7));
    let none = plan(&site, &facts).unwrap();
    assert_eq!(bound(&none), wait(1980));
    let some = plan(&site, &with(&facts, late(us(40)))).unwrap();
    assert_eq!(bound(&some), wait(2020));
    assert!(explain(&some, "vnet0").unwrap().contains("the host's latency of 40 us"));
    let mut forged = some.clone();
    forged.network.clone_from(&none.network);
    assert!(check_plan(&forged).unwrap_err().to_string().contains("waits any more"));
    let refusal = plan(&site, &with(&facts, late(Duration::from_ms(3)))).unwrap_err();
    assert!(matches!(&refusal, Refusal::Late { without: true, .. }), "{refusal}");
    assert!(refusal.to_string().contains("3 ms of the host's latency"), "{refusal}");
}

#[test]
fn a_file_is_read_if_it_is_one_and_something_follows_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency.json");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let good = late(us(180));
    write(&serde_json::to_string(&good).unwrap());
    assert_eq!(read_latency(&path).unwrap(), good);
    let void = Latency { void: Some("a hypervisor took 1 s".into()), ..good.clone() };
    for (text, words) in [
        (serde_json::to_string(&void).unwrap(), "a hypervisor took 1 s"),
        (
            serde_json::to_string(&good).unwrap().replace("\"giusto_latency\":1", "\"giusto_latency\":2"),
            "version 2, expected 1",
        ),
        (serde_json::to_string(&good).unwrap().replace("\"split\"", "\"spilt\""), "spilt"),
        ("no".into(), "expected"),
    ] {
        write(&text);
        let told = read_latency(&path).unwrap_err().to_string();
        assert!(told.contains(words) && told.contains("latency.json"), "{told}");
    }
}
