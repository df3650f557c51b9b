//! What is planned for known sites, and what people are told.

mod common;

use common::{as_if_alone, every_deadline, golden, leftovers, of, percentiles, plan, site, sites, supply, task, walk};
use giusto_model::{
    Backend, Bandwidth, Duration, GuestScheduler, LeftoverPlan, Plan, Release, Scheduler, Server, ServerKind, Service,
    ServiceTime, Site, Task,
};
use giusto_planner::{
    explain, plan_on, read, write, Cause, Error, Facts, NearestFit, Refusal, TooLarge, TooMany, BUSY_PROCESSES,
};
use std::path::Path;

fn typical(site: &Site) -> Facts {
    Facts::typical(site.hosts[0].cores.clone())
}

fn refusal(site: &Site) -> Refusal {
    plan(site, &typical(site)).unwrap_err()
}

#[test]
fn the_walk_gets_35_percent_every_10_ticks() {
    let found = plan(&walk(), &typical(&walk())).unwrap();
    let cache = &found.services[0];
    let server =
        Server { kind: ServerKind::ConstantBandwidth, budget: Duration::from_ms(14), period: Duration::from_ms(40) };
    assert_eq!((cache.core, cache.server), (1, server));
    assert_eq!((cache.utilization, cache.required, cache.left_for_others), (of("30%"), of("30%"), of("60%")));
    assert_eq!(cache.hold.conforming, Duration::from_us(300));
    assert_eq!(cache.hold.enforced, Duration::from_ms(28));
    let batch = &found.leftovers[0];
    assert_eq!((batch.available, batch.longest_wait), (of("60%"), Duration::from_ms(28)));
}

#[test]
fn the_walks_plan_and_its_explanation_are_as_reviewed() {
    let found = plan(&walk(), &typical(&walk())).unwrap();
    golden("walk.plan.json", &(serde_json::to_string_pretty(&found).unwrap() + "\n"));
    golden(
        "walk.explain.txt",
        &format!("{}\n{}", explain(&found, "cache").unwrap(), explain(&found, "batch").unwrap()),
    );
}

#[test]
fn an_unknown_name_is_told_the_known_ones() {
    let found = plan(&walk(), &typical(&walk())).unwrap();
    assert_eq!(explain(&found, "cash").unwrap_err().to_string(), "the plan has no 'cash'; it has cache, batch");
}

#[test]
fn the_largest_reservation_is_placed_first_and_the_plan_keeps_the_sites_order() {
    let service = |name, wcet| as_if_alone(name, vec![task(wcet, 1)], "5%");
    let three = vec![
        service("small", "1ms/10ms"),
        leftovers("rest", "0%"),
        service("large", "7ms/10ms"),
        service("middle", "5ms/10ms"),
    ];
    let found = plan(&site(&[2, 3, 5], three), &Facts::typical(vec![0, 1, 2, 3, 4, 5])).unwrap();
    let placed: Vec<_> = found.services.iter().map(|s| (s.name.as_str(), s.core)).collect();
    assert_eq!(placed, [("small", 5), ("large", 2), ("middle", 3)]);
    assert_eq!(found.leftovers[0].available, of("140%"), "3 · 95 % less 15, 75 and 55 %");
    let free = site(&[2, 3], vec![service("small", "1ms/10ms"), leftovers("rest", "0%")]);
    let found = plan(&free, &typical(&free)).unwrap();
    assert_eq!(found.leftovers[0].longest_wait, Duration::ZERO, "core 3 has no reservation");
}

#[test]
fn a_hyperperiod_beyond_the_kernels_longest_period_gets_the_least_bandwidth_below_it() {
    // lcm = 7 s > 4.19 s.
    let long = site(&[0], vec![as_if_alone("long", vec![task("100ms/1s", 1), task("200ms/1.4s", 1)], "5%")]);
    let found = plan(&long, &typical(&long)).unwrap();
    let service = &found.services[0];
    assert!(service.server.period <= Duration::from_us(4_194_304));
    assert!(service.required > service.utilization);
    assert!(service.reasons.iter().any(|r| r.what == "period" && r.why.contains("W(P)")));
}

#[test]
fn a_refusal_names_the_service_the_numbers_and_the_nearest_fit() {
    let tight = site(&[0], vec![as_if_alone("cache", vec![task("152us/1ms", 6)], "5%")]);
    let told = refusal(&tight).to_string();
    assert_eq!(
        told,
        "service 'cache' does not fit: it needs 91.2 % of one core every 40 ms (U = 91.2 %) and a margin of 5 %, and one \
         core can reserve 95 %: 1.2 % too much; it fits with wcet ≤ 150 us for task 'work', or with margin 3.8 %, \
         or with period ≥ 1.02 ms for task 'work'"
    );
    let Refusal::DoesNotFit(witness) = refusal(&tight) else { panic!() };
    assert!(matches!(witness.cause, Cause::Core(TooLarge { required: Some(_), .. })));
    let over = site(&[0], vec![as_if_alone("cache", vec![task("300us/1ms", 6)], "5%")]);
    let told = refusal(&over).to_string();
    assert!(
        told.contains("its tasks alone need U = 180 %")
            && told.ends_with("it fits with wcet ≤ 150 us for task 'work', or with period ≥ 2 ms for task 'work'"),
        "{told}"
    );
}

#[test]
fn where_no_order_of_jobs_is_named_that_is_why_and_an_order_is_advised() {
    // U = 15 %, but a job of 5 ms may run before one that has 1 ms.
    let named = |name: &str, wcet: &str| Task { name: name.into(), ..task(wcet, 1) };
    let tasks = vec![named("fast", "100us/1ms"), named("slow", "5ms/100ms")];
    let told = refusal(&site(&[0], vec![every_deadline("mixed", tasks.clone(), GuestScheduler::Any)])).to_string();
    assert!(told.contains("if its jobs run in any order (no 'scheduler' is named)"), "{told}");
    assert!(told.contains("it fits with scheduler: rm, or with period ≥"), "{told}");
    let ordered = every_deadline("mixed", tasks, GuestScheduler::Own(Scheduler::Rm));
    let site = site(&[0], vec![ordered]);
    plan(&site, &typical(&site)).unwrap();
}

#[test]
fn too_few_cores_and_floors_too_high_are_refused_with_what_is_missing() {
    let service = |name, wcet| as_if_alone(name, vec![task(wcet, 1)], "5%");
    let three = site(&[0], vec![service("a", "1ms/10ms"), service("b", "2ms/10ms"), service("c", "3ms/10ms")]);
    let Refusal::DoesNotFit(witness) = refusal(&three) else { panic!() };
    assert_eq!(
        (witness.service.as_str(), &witness.cause),
        ("b", &Cause::Cores(TooMany { services: 3, demand: 3, supply: 1 }))
    );
    assert_eq!(witness.nearest, [NearestFit::MoreCores(2)]);
    let mut floors = walk();
    floors.services.push(leftovers("index", "55%"));
    let told = refusal(&floors).to_string();
    assert_eq!(
        told,
        "service 'index' does not fit: all floors together ask for 65 % of a core, and the reservations leave 60 %: 5 % \
         too much; it fits with at-least 50 %, or with one core more"
    );
}

#[test]
fn a_floor_is_held_by_single_cores_and_the_cores_without_a_reservation_come_first() {
    let service = |name, wcet| as_if_alone(name, vec![task(wcet, 1)], "5%");
    let on = |services: Vec<_>| {
        let site = site(&[0, 1, 2], [vec![service("a", "5ms/10ms"), service("b", "3ms/10ms")], services].concat());
        let found = plan(&site, &typical(&site)).unwrap();
        let busy = |l: &LeftoverPlan| l.reasons.iter().find(|r| r.what == BUSY_PROCESSES).map(|r| r.value.clone());
        found.leftovers.iter().map(|l| (l.cores.clone(), busy(l))).collect::<Vec<_>>()
    };
    // Core 0 has 40 % left, core 1 60 %, core 2 has no reservation: 95 %.
    let busy = |n: &str| Some(n.to_string());
    assert_eq!(on(vec![leftovers("batch", "0%")]), [(vec![2, 1, 0], None)]);
    assert_eq!(on(vec![leftovers("batch", "95%")]), [(vec![2, 1, 0], None)], "the free core holds it");
    assert_eq!(on(vec![leftovers("batch", "96%")]), [(vec![2, 1, 0], busy("2"))], "no core holds it");
    let two = vec![leftovers("x", "50%"), leftovers("y", "60%")];
    assert_eq!(on(two), [(vec![1, 2, 0], None), (vec![2, 1, 0], None)], "the larger floor chooses first");
    let three = vec![leftovers("x", "70%"), leftovers("y", "70%"), leftovers("z", "50%")];
    let expected = [(vec![2, 1, 0], None), (vec![1, 0, 2], busy("2")), (vec![0, 2, 1], busy("2"))];
    assert_eq!(on(three), expected, "70 % of 60 + 40 % for the second, 50 % of 30 + 25 % for the third");
}

#[test]
fn what_the_machine_lacks_is_no_question_of_fitting() {
    let asks = site(&[0, 2, 3], walk().services);
    let told = plan(&asks, &Facts::typical(vec![0, 1])).unwrap_err();
    assert!(
        matches!(&told, Refusal::Machine { lacks, .. } if lacks.contains("cores 2, 3") && lacks.contains("are 0, 1")),
        "{told}"
    );
    let mut slow =
        Facts { tick: Duration::from_ms(10), deadline_period_max: Duration::from_ms(99), ..Facts::typical(vec![1]) };
    slow.backends.retain(|fact| fact.backend == Backend::Deadline);
    let told = plan(&walk(), &slow).unwrap_err();
    assert!(matches!(told, Refusal::Machine { .. }) && told.to_string().contains("up to 99 ms"), "{told}");
}

/// The text of a plan with another host, which has core 0.
fn one_more_host(text: &str, name: &str) -> String {
    let host =
        format!("\"hosts\": [{{\"name\": \"{name}\", \"cores\": [0], \"keep_free\": \"0\", \"assumed\": null, \"admission\": []}},");
    text.replacen("\"hosts\": [", &host, 1)
}

#[test]
fn a_plan_file_round_trips_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    let found = plan(&walk(), &typical(&walk())).unwrap();
    write(&found, &path).unwrap();
    assert_eq!(read(&path).unwrap(), found);
    let (site, facts) = two_hosts();
    let several = plan(&site, &facts).unwrap();
    assert!(several.services.iter().any(|s| several.services.iter().any(|o| o.core == s.core && o.on != s.on)));
    write(&several, &folder.path().join("several.json")).unwrap();
    assert_eq!(read(&folder.path().join("several.json")).unwrap(), several);
    let text = std::fs::read_to_string(&path).unwrap();
    let bad = [
        (text.replace("\"giusto_plan\": 3", "\"giusto_plan\": 9"), "version 9, expected 3"),
        (text.replace("\"core\": 1", "\"core\": 7"), "core 7"),
        (text.replace("\"budget_ns\": 14000000", "\"budget_ns\": 0"), "0 < budget_ns"),
        (text.replace("\"backend\"", "\"backends\""), "backends"),
        (text.replace("\"on\": \"edge-1\"", "\"on\": \"edge-7\""), "'batch' is on 'edge-7', which is no host of it"),
        (text.replacen("\"name\": \"edge-1\"", "\"name\": \"edge-7\"", 1), "no host of it"),
        (one_more_host(&text, "edge-1"), "host 'edge-1' is there twice"),
        (
            one_more_host(&text, "edge-2").replacen("\"on\": \"edge-1\"", "\"on\": \"edge-2\"", 1),
            "core 1 is parked or not one of",
        ),
        ("{".into(), "EOF"),
    ];
    for (text, expected) in bad {
        std::fs::write(&path, text).unwrap();
        let told = read(&path).unwrap_err();
        assert!(matches!(told, Error::Format { .. }), "{told}");
        assert!(told.to_string().contains("plan.json") && told.to_string().contains(expected), "{told}");
    }
    assert!(matches!(read(Path::new("/nowhere/plan.json")), Err(Error::Io { .. })));
    assert!(matches!(write(&found, Path::new("/nowhere/plan.json")), Err(Error::Io { .. })));
}

#[test]
fn a_tiny_service_gets_the_least_runtime_that_the_kernel_accepts() {
    let tiny = site(&[0], vec![as_if_alone("tiny", vec![task("1ns/40ms", 1)], "0%")]);
    let found = plan(&tiny, &typical(&tiny)).unwrap();
    assert_eq!(found.services[0].server.budget, Duration::from_ns(1024));
    assert_eq!(found.services[0].required, Bandwidth::new(1, 40_000_000).unwrap());
    let told = explain(&found, "tiny").unwrap();
    assert!(told.contains("utilization      0.0000025 %"), "{told}");
}

fn bound(service: Service, on: &str) -> Service {
    Service { on: Some(on.into()), ..service }
}

/// Four services on a machine with one core, which is this one, and one with two.
fn two_hosts() -> (Site, Facts) {
    let services = vec![
        supply("alpha", &["6ms/10ms"], None),
        supply("beta", &["5ms/10ms"], None),
        bound(supply("gamma", &["2ms/10ms"], None), "edge-2"),
        as_if_alone("cache", vec![task("1ms/10ms", 1)], "5%"),
        leftovers("batch", "40%"),
        leftovers("rest", "0%"),
    ];
    (sites(&[&[1], &[0, 1, 2]], services), Facts { host: Some("edge-1".into()), ..Facts::typical(vec![0, 1]) })
}

#[test]
fn who_is_where_and_why_on_several_hosts_is_as_reviewed() {
    let (site, facts) = two_hosts();
    let found = plan(&site, &facts).unwrap();
    let text: Vec<String> = site.services.iter().map(|s| explain(&found, &s.name).unwrap()).collect();
    golden("two-hosts.explain.txt", &text.join("\n"));
    assert_eq!(found.hosts[0].assumed, None);
    assert!(found.hosts[1].assumed.as_ref().is_some_and(|assumed| assumed.starts_with("a stock kernel: tick 4 ms")));
    let elsewhere = plan(&site, &Facts { host: None, ..facts }).unwrap();
    assert!(elsewhere.hosts.iter().all(|host| host.assumed.is_some()), "planned from elsewhere");
}

#[test]
fn a_service_that_no_host_takes_is_told_what_each_lacks_and_what_would_fit() {
    let told = |cores: &[&[u32]], services: Vec<Service>| {
        plan(&sites(cores, services), &Facts::typical(vec![0])).unwrap_err().to_string()
    };
    let three = || {
        vec![supply("a", &["6ms/10ms"], None), supply("b", &["5ms/10ms"], None), supply("c", &["4500us/10ms"], None)]
    };
    assert_eq!(
        told(&[&[0], &[0]], three()),
        "service 'c' does not fit on edge-2: it is promised 4.5 ms every 10 ms (45 % of a core), and the one core for it can \
         give 93 % and has 43 % left: 2 % too much; nor on edge-1: it is promised 4.5 ms every 10 ms (45 % of a core), and the \
         one core for it can give 93 % and has 33 % left: 12 % too much; it fits with a supply of 4.3 ms every 10 ms, or with \
         one core more on edge-2"
    );
    // Bound, it is told of that host alone; and that another one would take it.
    let bound_to =
        |on: &str| vec![bound(supply("a", &["6ms/10ms"], None), on), bound(supply("b", &["5ms/10ms"], None), on)];
    assert_eq!(
        told(&[&[0], &[0]], bound_to("edge-2")),
        "service 'b' does not fit on edge-2: it is promised 5 ms every 10 ms (50 % of a core), and the one core for it can \
         give 93 % and has 33 % left: 17 % too much; it fits with a supply of 3.3 ms every 10 ms, or \
         with on: edge-1, or with one core more on edge-2"
    );
    // The floor came first, as it is bound: the free one is refused, not the floor.
    let floor = bound(leftovers("batch", "50%"), "edge-1");
    assert_eq!(
        told(&[&[0], &[0]], vec![floor, bound(supply("a", &["9ms/10ms"], None), "edge-2"), supply("b", &["6ms/10ms"], None)]),
        "service 'b' does not fit on edge-2: it is promised 6 ms every 10 ms (60 % of a core), and the one core for it can \
         give 93 % and has 3 % left: 57 % too much; nor on edge-1: it would leave no place for 'batch': all floors together \
         ask for 50 % of a core, and the reservations leave 33 %: 17 % too much; it fits with a supply of 4.3 ms every 10 ms, or with one core \
         more on edge-2"
    );
}

#[test]
fn a_host_that_cannot_keep_what_the_site_binds_to_it_takes_no_other_and_holds_up_no_other_host() {
    let full =
        || vec![bound(supply("a", &["9ms/10ms"], None), "edge-1"), bound(supply("b", &["1ms/10ms"], None), "edge-1")];
    let site = sites(&[&[0], &[0]], [full(), vec![supply("c", &["1ms/10ms"], None)]].concat());
    assert!(plan(&site, &typical(&site)).is_err());
    assert!(plan_on(&site, &typical(&site), "edge-1").is_err());
    let part = plan_on(&site, &typical(&site), "edge-2").unwrap();
    assert_eq!(part.services.iter().map(|s| (s.name.as_str(), s.on.as_str())).collect::<Vec<_>>(), [("c", "edge-2")]);
    let why = &part.services[0].reasons[0].why;
    assert!(
        why.starts_with("the first host with room; not edge-1: what the site puts there does not fit a stock machine"),
        "{why}"
    );
    // Elsewhere it is no question of room: each host's reason is told.
    let short = vec![supply("e", &["1ms/2ms"], None)];
    let site = sites(&[&[0], &[0]], [full(), short].concat());
    let told = plan_on(&site, &typical(&site), "edge-2").unwrap_err();
    assert!(matches!(&told, Refusal::Nowhere { service, lacks } if service == "e" && lacks.len() == 2));
    let told = told.to_string();
    assert!(told.starts_with("service 'e' has a place on no host; on edge-1: what the site puts there"), "{told}");
    assert!(told.contains("; on edge-2: service 'e': nothing here can enforce it: not manager"), "{told}");
}

#[test]
fn all_vcpus_of_a_virtual_machine_are_on_the_first_host_that_takes_all_of_them() {
    let services = vec![supply("big", &["7ms/10ms"], None), supply("vm", &["3ms/10ms", "2ms/10ms"], None)];
    let site = sites(&[&[0], &[4, 5]], services);
    let found = plan(&site, &Facts::typical(vec![0])).unwrap();
    let places: Vec<_> = found.services.iter().map(|s| (s.name.as_str(), s.on.as_str(), s.core)).collect();
    // 70 + 20 % would fit on edge-1.
    assert_eq!(places, [("big", "edge-1", 0), ("vm", "edge-2", 4), ("vm", "edge-2", 5)]);
}

#[test]
fn what_this_machine_lacks_moves_no_service_to_another_host() {
    let (site, facts) = two_hosts();
    let hosts = |plan: &Plan| plan.services.iter().map(|s| (s.name.clone(), s.on.clone())).collect::<Vec<_>>();
    let stock = plan(&site, &facts).unwrap();
    let cache =
        |plan: &Plan| plan.services.iter().find(|s| s.name == "cache").map(|s| (s.on.clone(), s.backend)).unwrap();
    let with = |backend, tick, deadline_period_max| {
        let mut facts = Facts { tick, deadline_period_max, ..facts.clone() };
        facts.backends.retain(|fact| fact.backend == backend);
        plan(&site, &facts)
    };
    let (fine, coarse) = (Duration::from_ms(1), Duration::from_ms(10));
    let here = with(Backend::Manager, fine, fine).unwrap();
    assert_eq!(hosts(&here), hosts(&stock));
    assert_eq!(
        (cache(&stock), cache(&here)),
        (("edge-1".into(), Backend::Deadline), ("edge-1".into(), Backend::Manager))
    );
    let told = with(Backend::Deadline, coarse, fine).unwrap_err();
    assert!(matches!(told, Refusal::On { .. }));
    let told = told.to_string();
    assert!(
        told.starts_with("on edge-1: service 'cache': nothing here can enforce it: not deadline: it allows"),
        "{told}"
    );
    let told = plan(&site, &Facts { host: Some("edge-9".into()), ..facts }).unwrap_err().to_string();
    assert_eq!(told, "the site has no host 'edge-9'; it has edge-1, edge-2");
}

#[test]
fn requests_that_take_their_longest_are_said_to_do_so_and_fewer_or_shorter_ones_fit() {
    let bounded = ServiceTime::Bounded { mean: Duration::from_ms(1), wcet: Duration::from_ms(4) };
    let told = refusal(&site(&[0], vec![percentiles("web", &["p99=50ms"], "300/s", 1, bounded)])).to_string();
    assert!(told.contains("need 120 % of one core if each takes its wcet of 4 ms"), "{told}");
    assert!(told.contains("(30 % if each takes the mean") && told.contains("it fits with execution ≤"), "{told}");
    assert!(told.contains("or with poisson:"), "{told}");
}

#[test]
fn a_percentile_that_needs_a_core_of_its_own_is_said_to_need_it() {
    let web = || percentiles("web", &["p99=8ms"], "10/s", 1, ServiceTime::Constant { time: Duration::from_ms(2) });
    let others = [supply("a", &["6ms/10ms"], None), supply("b", &["6ms/10ms"], None)];
    let told = refusal(&site(&[0, 1], [others.to_vec(), vec![web()]].concat())).to_string();
    assert!(told.contains("on a core without others") && told.contains("each of 2 cores has others"), "{told}");
    assert!(told.ends_with("it fits with one core more"), "{told}");
    let others = [supply("a", &["6ms/10ms"], None), supply("b", &["6ms/10ms"], None)];
    let three = site(&[0, 1, 2], [others.to_vec(), vec![web()]].concat());
    plan(&three, &typical(&three)).unwrap();
}

#[test]
fn kept_offsets_with_too_many_jobs_in_a_hyperperiod_count_as_sporadic() {
    let of = |release: Release| {
        let tasks =
            ["7001us", "11003us", "13007us"].map(|period| Task { release, ..task(&format!("1ms/{period}"), 1) });
        let site = site(&[0], vec![as_if_alone("loop", tasks.to_vec(), "5%")]);
        plan(&site, &typical(&site)).unwrap()
    };
    let (kept, sporadic) = (of(Release::KeptOffset), of(Release::Sporadic));
    assert_eq!(kept.services[0].server, sporadic.services[0].server);
    let why =
        |plan: &Plan| plan.services[0].reasons.iter().find(|reason| reason.what == "required").unwrap().why.clone();
    assert!(why(&kept).contains("too many jobs") && why(&sporadic).contains("not every task keeps"), "{}", why(&kept));
}

#[test]
fn where_a_longer_period_or_a_weaker_promise_is_enough_it_is_advised() {
    // 91 % and a margin; a whole core with every deadline does.
    let tight = as_if_alone("tight", vec![task("9100us/10ms", 1)], "5%");
    let Refusal::DoesNotFit(witness) = refusal(&site(&[0], vec![tight])) else { panic!() };
    assert!(witness.nearest.contains(&NearestFit::Promise("every-deadline")), "{witness}");
    let longer = witness
        .nearest
        .iter()
        .any(|fit| matches!(fit, NearestFit::Period { at_least, .. } if *at_least > Duration::from_ms(10)));
    assert!(longer, "{witness}");
}
