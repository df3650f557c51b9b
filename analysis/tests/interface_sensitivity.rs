//! Limits against linear scans of all integers, with verdicts counted unit by unit.

mod oracle;

use giusto_analysis::interface::sensitivity::{sensitivity, Limit, What};
use giusto_analysis::interface::{schedulable, Resource, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Task};
use oracle::{enough, horizon, ns, random_set, supplies, task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const PERIODS: [u64; 5] = [4, 5, 6, 8, 12];
const SCHEDULERS: [Scheduler; 3] = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf];

/// The verdict of the oracle. Sets whose periods are far from each other take too long: `None`.
fn fits(tasks: &[Task], scheduler: Scheduler, resource: &Resource, latency: u64) -> Option<bool> {
    let repeats = match *resource {
        Resource::Linear { bandwidth, .. } => bandwidth.denom(),
        Resource::Table { cycle, .. } => cycle.ns(),
        Resource::Periodic { period, .. }
        | Resource::Aligned { period, .. }
        | Resource::ExplicitDeadline { period, .. }
        | Resource::Multi { period, .. } => period.ns(),
    };
    let longest = match scheduler {
        Scheduler::Edf => horizon(tasks, repeats, latency),
        _ => tasks.iter().map(|task| task.deadline.ns()).max().unwrap() + latency + 1,
    };
    (longest < 4_000).then(|| enough(tasks, scheduler, &supplies(resource, longest), latency))
}

/// What is asked after `limit` is put at `value`.
fn put(limit: &Limit, value: u64, tasks: &[Task], resource: &Resource, latency: u64) -> (Vec<Task>, Resource, u64) {
    let (mut tasks, mut resource, mut latency) = (tasks.to_vec(), resource.clone(), latency);
    match limit.what {
        What::Wcet => tasks[limit.task.unwrap()].wcet = ns(value),
        What::Deadline => tasks[limit.task.unwrap()].deadline = ns(value),
        What::Period => {
            let task = &mut tasks[limit.task.unwrap()];
            task.period = ns(value);
            task.deadline = task.deadline.min(ns(value));
        }
        What::Latency => latency = value,
        What::Budget | What::ServerPeriod => match &mut resource {
            Resource::Periodic { period, budget }
            | Resource::Aligned { period, budget }
            | Resource::ExplicitDeadline { period, budget, .. } => {
                *(if limit.what == What::Budget { budget } else { period }) = ns(value);
            }
            _ => panic!("{limit:?}"),
        },
    }
    (tasks, resource, latency)
}

fn random_resource(rng: &mut StdRng) -> Resource {
    let period = rng.random_range(2..=6);
    let budget = rng.random_range(1 + period / 2..=period);
    match rng.random_range(0..6) {
        0 => Resource::Aligned { period: ns(period), budget: ns(budget) },
        1 => {
            let deadline = ns(rng.random_range(budget..=period));
            Resource::ExplicitDeadline { period: ns(period), budget: ns(budget), deadline }
        }
        2 => {
            Resource::Linear { bandwidth: Bandwidth::new(budget, period).unwrap(), delay: ns(rng.random_range(0..=2)) }
        }
        3 => Resource::Table { cycle: ns(period), slots: vec![[ns(period - budget), ns(period)]] },
        _ => Resource::Periodic { period: ns(period), budget: ns(budget) },
    }
}

/// (limits that moved, of these those checked on all values on the way).
type Counts = BTreeMap<String, (usize, usize)>;

#[test]
fn every_limit_fits_one_step_further_does_not_and_all_values_on_the_way_do() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut counts, mut short, mut reordered, mut before_deadline): (Counts, usize, usize, usize) = Default::default();
    let mut sets = 0;
    while sets < 900 {
        let scheduler = SCHEDULERS[sets % 3];
        let load = if rng.random_bool(0.5) { 0.2 } else { 0.4 };
        let tasks = random_set(&mut rng, &PERIODS, load);
        let (resource, latency) = (random_resource(&mut rng), rng.random_range(0..=1));
        if resource.validate_for(&tasks).is_err() {
            continue;
        }
        let Some(expected) = fits(&tasks, scheduler, &resource, latency) else { continue };
        sets += usize::from(expected);
        let found = sensitivity(&tasks, scheduler, &resource, ns(latency)).unwrap();
        assert_eq!(found.is_ok(), expected, "{scheduler} {resource:?} {tasks:?}");
        let Ok(limits) = found else {
            short += 1;
            continue;
        };
        every_number_has_its_limit(&limits, &tasks, &resource);
        for limit in &limits {
            let at = |value: u64| {
                let (tasks, resource, latency) = put(limit, value, &tasks, &resource, latency);
                let sane = tasks.iter().all(|task| task.validate().is_ok()) && resource.validate().is_ok();
                if sane {
                    fits(&tasks, scheduler, &resource, latency)
                } else {
                    Some(false)
                }
            };
            let (now, last) = (limit.now.ns(), limit.limit.ns());
            let up = matches!(limit.what, What::Wcet | What::Latency | What::ServerPeriod);
            assert!(if up { last >= now } else { last <= now }, "{limit:?}");
            let whole = if limit.what == What::Latency {
                tasks.iter().map(|task| task.deadline).min().unwrap()
            } else {
                limit.now
            };
            assert_eq!(Some(limit.slack), Bandwidth::new(now.abs_diff(last), whole.ns()));
            let told = format!("{limit:?} {scheduler} {latency} {resource:?} {tasks:?}");
            assert!(limit.exact, "{told}");
            let on_the_way: Vec<_> = (now.min(last)..=now.max(last)).map(at).collect();
            assert!(on_the_way.iter().all(|fits| *fits != Some(false)), "{told}");
            assert_ne!(at(if up { last + 1 } else { last - 1 }), Some(true), "{told}");
            let count = counts.entry(format!("{:?} {scheduler}", limit.what)).or_default();
            count.0 += usize::from(last != now);
            count.1 += usize::from(last != now && on_the_way.iter().all(Option::is_some));
            let early = limit.task.is_some_and(|place| tasks[place].deadline < limit.limit);
            before_deadline += usize::from(limit.what == What::Period && early);
            reordered += usize::from(
                limit.what == What::Period && scheduler == Scheduler::Rm && {
                    let (after, ..) = put(limit, last, &tasks, &resource, latency);
                    scheduler.order(&after) != scheduler.order(&tasks)
                },
            );
        }
    }
    println!("{counts:?}, short {short}, other orders {reordered}, before the deadline {before_deadline}");
    assert_eq!(counts.len(), 18);
    for (what, (moved, checked)) in &counts {
        assert!(*moved > 30 && *checked > 25, "{what}: {moved}, {checked}");
    }
    assert!(short > 100 && reordered > 20, "{short} {reordered}");
    assert!(before_deadline > 60, "{before_deadline}");
}

/// One limit each, least slack first.
fn every_number_has_its_limit(limits: &[Limit], tasks: &[Task], resource: &Resource) {
    assert!(limits.windows(2).all(|two| two[0].slack <= two[1].slack), "{limits:?}");
    let aligned = matches!(resource, Resource::Aligned { .. });
    let mut expected = vec![(What::Latency, None)];
    for (place, task) in tasks.iter().enumerate() {
        expected.push((What::Wcet, Some(place)));
        expected.extend((task.deadline < task.period).then_some((What::Deadline, Some(place))));
        expected.extend((!aligned).then_some((What::Period, Some(place))));
    }
    let server = !matches!(resource, Resource::Linear { .. } | Resource::Table { .. });
    expected.extend(server.then_some((What::Budget, None)));
    expected.extend((server && !aligned).then_some((What::ServerPeriod, None)));
    for one in &expected {
        assert_eq!(limits.iter().filter(|limit| (limit.what, limit.task) == *one).count(), 1, "{one:?} {limits:?}");
    }
    assert_eq!(limits.len(), expected.len());
}

#[test]
fn beyond_the_first_period_that_breaks_none_fits_again() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut breaks, mut crossed) = ([0; 3], 0);
    for round in 0..9_000 {
        let scheduler = SCHEDULERS[round % 3];
        let tasks = random_set(&mut rng, &[3, 4, 6, 8, 12], 0.35);
        let period = rng.random_range(1..=3);
        let resource = Resource::Periodic { period: ns(period), budget: ns(rng.random_range(1 + period / 2..=period)) };
        if fits(&tasks, scheduler, &resource, 0) != Some(true) {
            continue;
        }
        for (place, task) in tasks.iter().enumerate() {
            // Without the search: each shorter period down to C, by the oracle alone.
            let mut broken = false;
            for value in (task.wcet.ns()..task.period.ns()).rev() {
                let mut other = tasks.clone();
                (other[place].period, other[place].deadline) = (ns(value), task.deadline.min(ns(value)));
                let Some(fits) = fits(&other, scheduler, &resource, 0) else { continue };
                assert!(!(broken && fits), "{value} for {place}: {scheduler} {resource:?} {tasks:?}");
                let constrained = tasks.iter().any(|task| task.deadline < task.period);
                let other_order = scheduler == Scheduler::Rm && scheduler.order(&other) != scheduler.order(&tasks);
                crossed += usize::from(broken && constrained && other_order);
                broken |= !fits;
            }
            breaks[round % 3] += usize::from(broken);
        }
    }
    println!("broken {breaks:?}; values beyond, under RM with shorter deadlines and in another order, {crossed}");
    assert!(breaks.iter().all(|n| *n > 1000) && crossed > 500, "{breaks:?} {crossed}");
}

#[test]
fn three_tasks_on_their_best_server_by_hand() {
    // Lee11's (2, 7), (1, 8), (1, 10) under RM on (3, 2), in ms. sbf⁻¹(w) = w + 1 ms for each 2 ms begun, and 1 ms:
    // sbf⁻¹(4) = 7, so the last task, with 2 + 1 + 1, is done at 7, and one more job of the first comes at 7: with C + 2 + 1 of
    // 4 ms each may take no more than that, unless it fits by 10: sbf⁻¹(6) = 10 = 2·2 + 1 + C gives C = 1 again.
    let ms = |n: u64| n * 1_000_000;
    let tasks = [(2, 7), (1, 8), (1, 10)].map(|(wcet, period)| task(ms(wcet), ms(period), ms(period), 1));
    let resource = Resource::Periodic { period: ns(ms(3)), budget: ns(ms(2)) };
    let limits = sensitivity(&tasks, Scheduler::Rm, &resource, ns(0)).unwrap().unwrap();
    let of = |what, task| limits.iter().find(|limit| (limit.what, limit.task) == (what, task)).unwrap();
    assert_eq!(of(What::Wcet, Some(2)).limit, ns(ms(1)));
    assert_eq!(of(What::Wcet, Some(2)).slack, Bandwidth::ZERO);
    // The first is done at sbf⁻¹(2) = 4, the second at sbf⁻¹(3) = 6, both long before their periods; but the last one needs
    // the first two to stay away until 7: neither may come more often.
    assert_eq!(of(What::Period, Some(0)).limit, ns(ms(7)));
    assert_eq!(of(What::Period, Some(1)).limit, ns(ms(7)));
    assert_eq!(of(What::Period, Some(2)).limit, ns(ms(7)));
    assert_eq!(of(What::Latency, None).limit, ns(0));
    assert_eq!((of(What::Budget, None).limit, of(What::ServerPeriod, None).limit), (ns(ms(2)), ns(ms(3))));
    assert!(limits.iter().all(|limit| limit.exact));
}

#[test]
fn large_sets_are_answered_to_the_nanosecond() {
    let mut rng = StdRng::seed_from_u64(3);
    let tasks: Vec<Task> = (0..30)
        .map(|_| {
            let period = rng.random_range(100_000_000..=2_000_000_000);
            task(period / 60 + rng.random_range(0..1000), period, period, 1)
        })
        .collect();
    let resource = Resource::Periodic { period: ns(20_000_000), budget: ns(15_000_000) };
    for scheduler in [Scheduler::Rm, Scheduler::Dm] {
        let limits = sensitivity(&tasks, scheduler, &resource, ns(0)).unwrap().unwrap();
        assert_eq!(limits.len(), 63);
        for limit in limits {
            let up = matches!(limit.what, What::Wcet | What::Latency | What::ServerPeriod);
            let fits = |value| {
                let (tasks, resource, latency) = put(&limit, value, &tasks, &resource, 0);
                schedulable(&tasks, scheduler, &resource, ns(latency)).unwrap().is_ok()
            };
            let last = limit.limit.ns();
            assert!(limit.exact && fits(last) && !fits(if up { last + 1 } else { last - 1 }), "{limit:?}");
        }
    }
}

#[test]
fn what_does_not_fit_or_makes_no_sense_is_said() {
    let tasks = [task(3, 6, 6, 1)];
    let small = Resource::Periodic { period: ns(4), budget: ns(1) };
    let shortfall = sensitivity(&tasks, Scheduler::Edf, &small, ns(0)).unwrap().unwrap_err();
    assert_eq!((shortfall.task, shortfall.point.demand), (0, ns(3)));
    assert!(matches!(sensitivity(&[], Scheduler::Edf, &small, ns(0)), Err(Error::NoTasks)));
    let wrong = Resource::Periodic { period: ns(4), budget: ns(5) };
    assert!(matches!(sensitivity(&tasks, Scheduler::Edf, &wrong, ns(0)), Err(Error::Resource(_))));
    let whole = Resource::Periodic { period: ns(4), budget: ns(4) };
    let limits = sensitivity(&tasks, Scheduler::Rm, &whole, ns(0)).unwrap().unwrap();
    let text = serde_json::to_string(&limits[0]).unwrap();
    let expected = r#"{"what":"latency","task":null,"now_ns":0,"limit_ns":3,"slack":"1/2","exact":true}"#;
    assert!(limits.iter().any(|limit| serde_json::to_string(limit).unwrap() == expected), "{text}");
}
