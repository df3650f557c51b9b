//! Sites whose execution times were measured, or are exceeded: what is planned from observations, and what of them is refused.

mod common;

use common::{as_if_alone, of, percentiles, plan, site, task};
use giusto_model::{
    Arrivals, Bandwidth, Duration, Load, Measured, Observation, ObservedHost, Plan, Promise, ServiceTime, Site, Task,
    OBSERVATION_VERSION,
};
use giusto_planner::{adapted, with_measured, Facts, Here, Refusal};
use std::collections::BTreeMap;

const NOW: u64 = 2_000_000_000;

fn facts() -> Facts {
    Facts::typical(vec![0, 1])
}

fn load() -> Load {
    Load::Redis { address: ([127, 0, 0, 1], 7001).into(), fields: 70, value: 8 }
}

fn here() -> Here {
    Here { host: ObservedHost { name: "edge-1".into(), kernel: "6.1".into(), cpu: "A".into() }, now: NOW }
}

/// 50 us on average, 60 us over the worst 10 ms.
fn observation(tasks: Vec<Task>, arrivals: Option<Arrivals>) -> Observation {
    Observation {
        giusto_profile: OBSERVATION_VERSION,
        service: "cache".into(),
        host: here().host,
        origin: "work".into(),
        taken: NOW - 60,
        load: load(),
        tasks,
        arrivals,
        length: Duration::from_secs(5),
        requests: 30_000,
        mean: Duration::from_us(50),
        execution: vec![[45_000, 20_000], [60_000, 10_000]],
        transport: vec![[20_000, 200]],
        windows: vec![[5_000_000, 80_000], [10_000_000, 60_000], [40_000_000, 55_000]],
    }
}

/// One service that is to be measured.
fn wanted(fit: Option<Bandwidth>) -> Site {
    let mut cache = as_if_alone("cache", vec![task("10us/1ms", 6)], "5%");
    (cache.load, cache.measured) = (Some(load()), Measured::Wanted { fits: vec![fit] });
    site(&[1], vec![cache])
}

fn unmeasured(site: &Site, observations: &[Observation], here: &Here) -> String {
    match with_measured(site, observations, &[], here, &facts()) {
        Err(Refusal::Unmeasured { service, why }) if service == "cache" => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_takes_the_greatest_mean_over_a_period_and_the_plan_says_where_it_comes_from() {
    let resolved =
        with_measured(&wanted(None), &[observation(vec![task("50us/1ms", 6)], None)], &[], &here(), &facts()).unwrap();
    assert!(resolved.notes.is_empty());
    let planned = plan(&resolved.site, &facts()).unwrap();
    let cache = &planned.services[0];
    assert_eq!((cache.tasks[0].wcet, cache.tasks[0].period), (Duration::from_us(55), Duration::from_ms(1)));
    assert!(cache.server.period >= Duration::from_ms(40));
    assert_eq!(cache.utilization, of("33%"));
    let text = giusto_planner::explain(&planned, "cache").unwrap();
    for words in ["observed on edge-1", "30000 requests", "not proven", "its execution time as measured"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn where_periods_are_shorter_the_window_is_too() {
    let manager = Facts { insist: Some(giusto_model::Backend::Manager), ..facts() };
    let seen = [observation(vec![task("50us/1ms", 6)], None)];
    let resolved = with_measured(&wanted(None), &seen, &[], &here(), &manager).unwrap();
    let planned = plan(&resolved.site, &manager).unwrap();
    let (wcet, period) = (planned.services[0].tasks[0].wcet, planned.services[0].server.period);
    assert!(period < Duration::from_ms(40), "{period}");
    assert_eq!(wcet, Duration::from_us(60));
}

#[test]
fn what_follows_from_measuring_is_the_density_that_was_driven() {
    let seen = observation(vec![task("50us/1200us", 6)], None);
    let resolved = with_measured(&wanted(Some(of("25%"))), &[seen], &[], &here(), &facts()).unwrap();
    let task = &resolved.site.services[0].tasks[0];
    assert_eq!((task.period, task.deadline), (Duration::from_us(1200), Duration::from_us(1200)));
    let constant = ServiceTime::Constant { time: Duration::from_us(1) };
    let mut search = percentiles("cache", &["p99=40ms"], "1/s", 1, constant);
    (search.load, search.measured) = (Some(load()), Measured::Wanted { fits: vec![Some(of("25%"))] });
    let arrivals = Arrivals { rate: "5000/s".parse().unwrap(), batch: 1 };
    let resolved =
        with_measured(&site(&[1], vec![search]), &[observation(vec![], Some(arrivals))], &[], &here(), &facts())
            .unwrap();
    let Promise::Percentiles { arrivals: planned, service, .. } = &resolved.site.services[0].promise else { panic!() };
    assert_eq!(*planned, arrivals);
    let mean: f64 = service.bound().iter().map(|(time, part)| time.ns() as f64 * part).sum();
    assert!((50_000.0..50_500.0).contains(&mean), "{mean}"); // rounded up to a part of the longest
}

#[test]
fn profiles_of_others_are_refused_and_doubtful_ones_are_told() {
    let tasks = || vec![task("50us/1ms", 6)];
    assert!(unmeasured(&wanted(None), &[], &here()).contains("nothing was measured yet"));
    let other = |change: &dyn Fn(&mut Observation)| {
        let mut seen = observation(tasks(), None);
        change(&mut seen);
        seen
    };
    for (seen, words) in [
        (other(&|seen| seen.host.cpu = "B".into()), "the processor was 'B', now it is 'A'"),
        (other(&|seen| seen.origin = "work --hard".into()), "the service was 'work --hard'"),
        (
            other(&|seen| seen.load = Load::Redis { address: ([127, 0, 0, 1], 7001).into(), fields: 1, value: 8 }),
            "the load was another one",
        ),
    ] {
        let why = unmeasured(&wanted(None), &[seen], &here());
        assert!(why.contains(words), "{why}");
    }
    let old = other(&|seen| {
        seen.host.kernel = "5.10".into();
        seen.taken -= 40 * 86_400;
    });
    let resolved = with_measured(&wanted(None), &[old], &[], &here(), &facts()).unwrap();
    assert_eq!(resolved.notes.len(), 2, "{:?}", resolved.notes);
    // What was declared stays, whatever was observed.
    let mut declared = wanted(None);
    declared.services[0].measured = Measured::Declared;
    let resolved = with_measured(&declared, &[observation(tasks(), None)], &[], &here(), &facts()).unwrap();
    assert_eq!(resolved.site, declared);
    // It is refused to plan with placeholders.
    assert!(matches!(giusto_planner::plan(&wanted(None), &facts()), Err(Refusal::Unmeasured { .. })));
}

fn share(plan: &Plan) -> f64 {
    plan.services[0].server.bandwidth().as_f64()
}

#[test]
fn a_service_that_asks_for_more_gets_it_up_to_what_the_site_allows() {
    let mut cache = as_if_alone("cache", vec![task("50us/1ms", 6)], "5%");
    cache.adapt = Some(of("60%"));
    let site = site(&[1], vec![cache]);
    let plan = |site: &Site| plan(site, &facts());
    let with = |factor: f64| {
        adapted(&site, &BTreeMap::from([("cache".to_string(), factor)]), &BTreeMap::new(), &plan).unwrap()
    };
    for (factor, most) in [(1.0, 0.36), (1.5, 0.51), (1.8, 0.6), (2.5, 0.6), (40.0, 0.6)] {
        let (planned, used) = with(factor);
        assert!(share(&planned) <= most + 1e-6, "{factor}: {}", share(&planned));
        assert!(share(&planned) > most - 0.06, "{factor}: {}", share(&planned));
        assert!(used["cache"] <= factor, "{used:?}");
    }
    // Nothing is lost where what is declared does not fit either.
    let mut full = site.clone();
    full.services[0].tasks = vec![task("50us/1ms", 19)];
    assert!(adapted(&full, &BTreeMap::from([("cache".to_string(), 2.0)]), &BTreeMap::new(), &plan).is_err());
}
