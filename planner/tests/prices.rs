//! What a promise costs: little more than what its tasks use, and never more than a stronger one.

mod common;

use common::{every_deadline, leftovers, plan, site};
use giusto_analysis::interface::{schedulable, Resource};
use giusto_model::{
    Backend, Bandwidth, Certificate, Duration, GuestScheduler, Interface, Plan, Point, Promise, Release, RestsOn,
    Scheduler, ServerKind, Task,
};
use giusto_planner::{explain, Facts};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

fn task(name: usize, wcet_us: u64, period_us: u64) -> Task {
    let (wcet, period) = (Duration::from_us(wcet_us), Duration::from_us(period_us));
    let (name, offset, release) = (format!("t{name}"), Duration::ZERO, Release::Sporadic);
    Task { name, wcet, period, deadline: period, offset, release, copies: 1 }
}

/// The share of its core that such a service takes alone on it, beside leftovers.
fn price(tasks: &[Task], scheduler: Option<GuestScheduler>, facts: &Facts) -> Option<Bandwidth> {
    let mut service = every_deadline("control", tasks.to_vec(), scheduler.unwrap_or(GuestScheduler::Any));
    if scheduler.is_none() {
        // With the margin that sites have if they do not say another.
        (service.promise, service.margin) = (Promise::AsIfAlone, common::of("5%"));
    }
    let plan = plan(&site(&[1], vec![service, leftovers("batch", "0%")]), facts);
    Some(plan.ok()?.services[0].server.bandwidth())
}

fn percent(share: Bandwidth) -> f64 {
    100.0 * share.as_f64()
}

#[test]
fn one_task_costs_what_it_uses() {
    let facts = Facts::typical(vec![0, 1]);
    for (tasks, used, most) in [
        (vec![task(0, 1_000, 10_000)], 10.0, 15.0),
        (vec![task(0, 20, 1_000)], 2.0, 7.0),
        (vec![task(0, 1_000, 10_000), task(1, 10_000, 100_000)], 20.0, 25.0),
        (vec![task(0, 100, 1_000), task(1, 500, 5_000), task(2, 10_000, 100_000)], 30.0, 35.0),
    ] {
        let price = percent(price(&tasks, Some(GuestScheduler::Own(Scheduler::Rm)), &facts).unwrap());
        assert!(price > used && price <= most, "{price} % for {used} %");
    }
}

/// UUniFast (Bini and Buttazzo 2005): shares that add up to `sum`, evenly from all such.
fn shares(rng: &mut StdRng, count: usize, sum: f64) -> Vec<f64> {
    let mut left = sum;
    let mut all = Vec::new();
    for more in (1..count).rev() {
        let next = left * rng.random_range(0.0..1.0f64).powf(1.0 / more as f64);
        all.push(left - next);
        left = next;
    }
    all.push(left);
    all
}

fn random_tasks(rng: &mut StdRng) -> Vec<Task> {
    let (count, sum) = (rng.random_range(1..=10), rng.random_range(0.02..0.7));
    let shares = shares(rng, count, sum);
    let one = |(name, share): (usize, f64)| {
        let period = (1_000.0 * 1_000f64.powf(rng.random_range(0.0..1.0))) as u64;
        task(name, ((share * period as f64) as u64).max(1), period)
    };
    shares.into_iter().enumerate().map(one).collect()
}

/// Whether all deadlines are kept on a core of its own that is as late and loses as much.
fn dedicated(tasks: &[Task], scheduler: Scheduler, facts: &Facts) -> bool {
    let second = Duration::from_secs(1);
    let whole = Resource::Periodic { period: second, budget: second.checked_sub(facts.loss).unwrap() };
    matches!(schedulable(tasks, scheduler, &whole, facts.lateness), Ok(Ok(_)))
}

#[test]
fn random_sets_cost_little_more_than_they_use() {
    let mut rng = StdRng::seed_from_u64(28);
    let facts = Facts::typical(vec![0, 1]);
    let sets = if std::env::var_os("GIUSTO_SOAK").is_some() { 2000 } else { 200 };
    let (mut all, mut cheap, mut refused, mut worst) = (0, 0, 0, 0.0f64);
    while all < sets {
        let tasks = random_tasks(&mut rng);
        let scheduler = [Scheduler::Rm, Scheduler::Edf][rng.random_range(0..2)];
        if !dedicated(&tasks, scheduler, &facts) {
            continue;
        }
        all += 1;
        let used: f64 = tasks.iter().map(|task| 100.0 * task.wcet.ns() as f64 / task.period.ns() as f64).sum();
        match price(&tasks, Some(GuestScheduler::Own(scheduler)), &facts).map(percent) {
            None => refused += 1,
            Some(price) => {
                worst = worst.max(price - used);
                cheap += u32::from(price - used <= 5.0);
            }
        }
    }
    println!("{all} sets: {cheap} within 5 points of what they use, {refused} refused, at most {worst:.1} points");
    assert!(cheap * 100 >= all * 95, "{cheap} of {all}, {refused} refused");
}

/// Where a stronger promise can be kept for a price, a weaker one costs no more.
#[test]
fn no_promise_costs_more_than_a_stronger_one() {
    let mut rng = StdRng::seed_from_u64(29);
    let facts = Facts::typical(vec![0, 1]);
    let own = |scheduler| Some(GuestScheduler::Own(scheduler));
    let mut compared: BTreeMap<&str, u32> = BTreeMap::new();
    let sets = if std::env::var_os("GIUSTO_SOAK").is_some() { 1000 } else { 60 };
    for _ in 0..sets {
        let tasks = random_tasks(&mut rng);
        let mut weaker = |what: &'static str, weak: (&[Task], Option<GuestScheduler>), strong: Option<Bandwidth>| {
            let Some(strong) = strong else { return };
            *compared.entry(what).or_insert(0) += 1;
            match price(weak.0, weak.1, &facts) {
                Some(weak) => {
                    assert!(weak <= strong, "{what}: {} % and {} %: {tasks:?}", percent(weak), percent(strong))
                }
                None => panic!("{what}: refused beside {} %: {tasks:?}", percent(strong)),
            }
        };
        // A refusal takes long, as it names the nearest fit.
        let cost = |tasks: &[Task], scheduler: Scheduler| {
            dedicated(tasks, scheduler, &facts).then(|| price(tasks, own(scheduler), &facts)).flatten()
        };
        let (edf, dm) = (own(Scheduler::Edf), own(Scheduler::Dm));
        weaker("deadlines by EDF, by DM", (&tasks, edf), cost(&tasks, Scheduler::Dm));
        weaker("deadlines by DM, by RM", (&tasks, dm), cost(&tasks, Scheduler::Rm));
        let shortest = tasks.iter().map(|task| task.deadline).min().unwrap();
        let at_once: Vec<Task> =
            tasks.iter().map(|task| Task { deadline: shortest.max(task.wcet), ..task.clone() }).collect();
        if dedicated(&at_once, Scheduler::Dm, &facts) {
            weaker("deadlines by DM, in any order", (&tasks, dm), price(&tasks, Some(GuestScheduler::Any), &facts));
        }
        // What is lost and late as-if-alone has, too.
        if dedicated(&tasks, Scheduler::Edf, &facts) {
            weaker("deadlines, response times of a whole core", (&tasks, edf), price(&tasks, None, &facts));
        }
        // A supply with which no job is late.
        let period = [10_000u64, 20_000, 50_000][rng.random_range(0..3)];
        let supplied = Interface {
            budget: Duration::from_us(period * rng.random_range(20..90) / 100),
            period: Duration::from_us(period),
        };
        let counted = supplied.budget.checked_sub(facts.loss).unwrap();
        let resource = Resource::Periodic { period: supplied.period, budget: counted };
        if matches!(schedulable(&tasks, Scheduler::Edf, &resource, facts.lateness), Ok(Ok(_))) {
            weaker("deadlines, a supply that keeps them", (&tasks, edf), Some(supplied.bandwidth()));
        }
        let change = |f: &dyn Fn(&mut Task)| {
            let mut tasks = tasks.clone();
            tasks.iter_mut().for_each(f);
            tasks
        };
        let tight =
            change(&|task| task.deadline = Duration::from_ns((task.deadline.ns() * 7 / 10).max(task.wcet.ns())));
        weaker("late and early deadlines", (&tasks, edf), cost(&tight, Scheduler::Edf));
        let long = change(&|task| task.wcet = Duration::from_ns((task.wcet.ns() * 11 / 10).min(task.deadline.ns())));
        weaker("short and long jobs", (&tasks, edf), cost(&long, Scheduler::Edf));
    }
    println!("{compared:?}");
    assert!(compared.len() == 7 && compared.values().all(|count| *count >= sets / 20), "{compared:?}");
}

/// With a later machine nothing costs less, alone and beside another.
#[test]
fn more_latency_never_costs_less() {
    let mut rng = StdRng::seed_from_u64(30);
    let sets = if std::env::var_os("GIUSTO_SOAK").is_some() { 400 } else { 16 };
    let (mut compared, mut rests, mut changes) = (0, BTreeMap::new(), 0);
    for set in 0..sets {
        let beside = set % 3 == 0;
        let scheduler = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf][rng.random_range(0..3)];
        let mut tasks = random_tasks(&mut rng);
        if beside {
            // Of one period, or of two: then a wake-up is dear.
            tasks = vec![task(0, 1_000 + 300 * (set as u64 % 5), 20_000)];
            tasks.extend((set % 2 == 1).then(|| task(1, 10_000, 100_000)));
            if set % 4 == 1 {
                tasks.iter_mut().for_each(|task| task.release = Release::KeptOffset);
            }
        }
        let mut services =
            vec![every_deadline("control", tasks.clone(), GuestScheduler::Own(scheduler)), leftovers("batch", "0%")];
        services.extend(beside.then(|| common::supply("other", &["1ms/100ms"], None)));
        let site = site(&[1], services);
        let mut before: Option<(Bandwidth, &str)> = None;
        for latency in (0..40).map(|step| step * 40).chain([2_500, 5_000, 7_500, 10_000]) {
            let facts = Facts { lateness: Duration::from_us(latency), ..Facts::typical(vec![1]) };
            if !dedicated(&tasks, scheduler, &facts) {
                break;
            }
            let Ok(plan) = plan(&site, &facts) else { break };
            let price = plan.services[0].server.bandwidth();
            let name = match rests_on(&plan) {
                RestsOn::PeriodicResource => "periodic",
                RestsOn::WakeUp => "wake-up",
                RestsOn::AlignedReleases => "aligned releases",
                RestsOn::WholeCore { .. } => "whole core",
            };
            *rests.entry(name).or_insert(0) += 1;
            if let Some((less, other)) = before {
                compared += 1;
                changes += u32::from(other != name);
                assert!(less <= price, "{latency} us: {} % and {} %", percent(less), percent(price));
            }
            before = Some((price, name));
        }
    }
    println!("{compared} compared, {changes} changes of what it rests on, {rests:?}");
    assert!(compared > 200 && rests.len() == 4, "{compared} {rests:?}");
}

fn rests_on(plan: &Plan) -> RestsOn {
    match plan.services[0].certificate {
        Certificate::EveryDeadline { rests_on, .. } => rests_on,
        _ => RestsOn::PeriodicResource,
    }
}

/// Of a control loop whose threads have periods from 250 us to 100 ms, on a machine that is late by 50 us.
#[test]
fn a_control_loop_costs_what_it_uses() {
    let facts = Facts { lateness: Duration::from_us(50), loss: Duration::from_us(20), ..Facts::typical(vec![0, 1]) };
    let tasks = [(50, 250), (100, 1_000), (500, 5_000), (10_000, 100_000)];
    let tasks: Vec<Task> = (0..).zip(tasks).map(|(name, (wcet, period))| task(name, wcet, period)).collect();
    let price = percent(price(&tasks, Some(GuestScheduler::Own(Scheduler::Rm)), &facts).unwrap());
    println!("{price:.2} %");
    assert!(price > 50.0 && price <= 51.0, "{price} %");
}

/// Of threads with several periods beside another service, whose timers are set together.
#[test]
fn beside_others_releases_that_are_aligned_cost_what_they_use() {
    let facts = Facts::typical(vec![1]);
    let other = || common::supply("other", &["1ms/100ms"], None);
    let tasks: Vec<Task> = [(1_000, 10_000), (2_000, 20_000), (5_000, 100_000)]
        .into_iter()
        .enumerate()
        .map(|(name, (wcet, period))| Task { release: Release::KeptOffset, ..task(name, wcet, period) })
        .collect();
    for scheduler in [Scheduler::Rm, Scheduler::Edf] {
        let cost = |tasks: &[Task]| {
            let service = every_deadline("control", tasks.to_vec(), GuestScheduler::Own(scheduler));
            let plan = plan(&site(&[1], vec![service, other(), leftovers("batch", "0%")]), &facts).unwrap();
            (percent(plan.services[0].server.bandwidth()), plan)
        };
        let (aligned, plan) = cost(&tasks);
        assert_eq!(rests_on(&plan), RestsOn::AlignedReleases);
        // U = 25 %; 0.1 ms of each 10 ms is lost, and 0.5 ms of windows from 10 ms on.
        assert!(aligned > 26.0 && aligned <= 27.0, "{aligned} %");
        let sporadic: Vec<Task> =
            tasks.iter().map(|task| Task { release: Release::Sporadic, ..task.clone() }).collect();
        assert!(cost(&sporadic).0 > aligned + 10.0);
        // Refused for want of room, it says what is late with what room there is, by the same supply.
        let services = [("first", 50_000), ("second", 60_000)].map(|(name, wcet)| {
            let slow = Task { release: Release::KeptOffset, ..task(2, wcet, 100_000) };
            every_deadline(name, vec![tasks[0].clone(), slow], GuestScheduler::Own(scheduler))
        });
        let refused = common::plan(&site(&[1], services.to_vec()), &facts).unwrap_err().to_string();
        let supplied = "as in 100 ms up to 60 ms may be asked for and 20 ms is sure to be supplied";
        assert!(refused.contains(supplied), "{refused}");
        let told = explain(&plan, "control").unwrap();
        assert!(
            told.contains("aligned releases") && told.contains("divides the time between any two releases"),
            "{told}"
        );
    }
}

/// A real-time group has no period that begins with work, and a service alone on a core may rest on that core there.
#[test]
fn a_backend_without_periods_that_begin_with_work_gives_none() {
    let mut facts = Facts { insist: Some(Backend::RtGroup), ..Facts::typical(vec![1]) };
    for there in &mut facts.backends {
        (there.available, there.why_not) = (true, String::new());
    }
    let one = every_deadline("control", vec![task(0, 10_000, 200_000)], GuestScheduler::Any);
    let found = plan(&site(&[1], vec![one, leftovers("batch", "0%")]), &facts).unwrap();
    assert!(matches!(rests_on(&found), RestsOn::WholeCore { .. }), "{:?}", found.services[0]);
    let told = explain(&found, "control").unwrap();
    assert!(told.contains("a period of rt-group does not begin with work"), "{told}");
}

/// A plan whose proof rests on something it does not have is no proof.
#[test]
fn a_proof_with_less_than_it_rests_on_is_refused() {
    let facts = Facts::typical(vec![1, 2]);
    let scheduler = GuestScheduler::Own(Scheduler::Rm);
    let other = || common::supply("other", &["1ms/100ms"], None);
    let one = every_deadline("control", vec![task(0, 1_000, 20_000)], scheduler);
    let one = plan(&site(&[1], vec![one, other(), leftovers("batch", "0%")]), &facts).unwrap();
    let many = every_deadline("control", vec![task(0, 100, 1_000), task(1, 10_000, 100_000)], scheduler);
    let many = plan(&site(&[1, 2], vec![many, other(), leftovers("batch", "0%")]), &facts).unwrap();
    let mut set = vec![task(0, 1_000, 20_000), task(1, 10_000, 100_000)];
    set.iter_mut().for_each(|task| task.release = Release::KeptOffset);
    let set = every_deadline("control", set, scheduler);
    let set = plan(&site(&[1], vec![set, other(), leftovers("batch", "0%")]), &facts).unwrap();
    assert!(rests_on(&one) == RestsOn::WakeUp && matches!(rests_on(&many), RestsOn::WholeCore { .. }));
    assert_eq!(rests_on(&set), RestsOn::AlignedReleases);
    type Tampering = fn(&mut Plan);
    fn certificate(plan: &mut Plan) -> (&mut Duration, &mut Vec<Point>, &mut RestsOn) {
        match &mut plan.services[0].certificate {
            Certificate::EveryDeadline { latency, points, rests_on, .. } => (latency, points, rests_on),
            other => panic!("{other:?}"),
        }
    }
    let tamperings: [(&Plan, &str, Tampering); 27] = [
        (&set, "a longer task", |plan| plan.services[0].tasks[1].wcet = Duration::from_us(10_100)),
        (&set, "releases at any time", |plan| plan.services[0].tasks[1].release = Release::Sporadic),
        (&set, "releases elsewhere", |plan| plan.services[0].tasks[1].offset = Duration::from_ms(3)),
        (&set, "a period that does not divide", |plan| plan.services[0].server.period = Duration::from_us(19_999)),
        (&set, "a task that it does not divide", |plan| plan.services[0].tasks[1].period = Duration::from_ms(110)),
        (&set, "another kind", |plan| plan.services[0].server.kind = ServerKind::PeriodicConserving),
        (&set, "more latency", |plan| *certificate(plan).0 = Duration::from_ms(21)),
        (&set, "the periodic resource", |plan| *certificate(plan).2 = RestsOn::PeriodicResource),
        (&one, "aligned releases", |plan| *certificate(plan).2 = RestsOn::AlignedReleases),
        (&one, "a longer task", |plan| plan.services[0].tasks[0].wcet = Duration::from_us(1_100)),
        (&one, "a shorter deadline", |plan| plan.services[0].tasks[0].deadline = Duration::from_ms(10)),
        (&one, "a denser task", |plan| {
            (plan.services[0].tasks[0].deadline, plan.services[0].tasks[0].period) =
                (Duration::from_ms(10), Duration::from_ms(10))
        }),
        (&one, "a second copy", |plan| plan.services[0].tasks[0].copies = 2),
        (&one, "another kind", |plan| plan.services[0].server.kind = ServerKind::Deferrable),
        (&one, "another backend", |plan| {
            plan.services.iter_mut().for_each(|entry| entry.backend = Backend::RtGroup);
            plan.hosts[0].admission[0].backend = Backend::RtGroup;
        }),
        (&one, "a longer period", |plan| plan.services[0].server.period = Duration::from_ms(21)),
        (&one, "a smaller budget", |plan| plan.services[0].server.budget = Duration::from_us(999)),
        (&one, "more latency", |plan| *certificate(plan).0 = Duration::from_ms(5)),
        (&one, "another window", |plan| certificate(plan).1[0].at = Duration::from_ms(10)),
        (&one, "less demand", |plan| certificate(plan).1[0].demand = Duration::from_us(1)),
        (&one, "no window", |plan| certificate(plan).1.clear()),
        (&one, "the periodic resource", |plan| *certificate(plan).2 = RestsOn::PeriodicResource),
        (&many, "a longer task", |plan| plan.services[0].tasks[1].wcet = Duration::from_ms(11)),
        (&many, "a denser task", |plan| plan.services[0].tasks[0].period = Duration::from_us(900)),
        (&many, "a smaller budget", |plan| {
            plan.services[0].server.budget = plan.services[0].server.budget.checked_sub(Duration::from_us(1)).unwrap()
        }),
        (&many, "the wake-up", |plan| *certificate(plan).2 = RestsOn::WakeUp),
        (&many, "another on its core", |plan| plan.services[1].core = plan.services[0].core),
    ];
    for (plan, what, tamper) in tamperings {
        let mut forged = plan.clone();
        tamper(&mut forged);
        assert!(check_plan(&forged).is_err(), "{what}: {:#?}", forged.services[0]);
    }
}

/// The proof itself, where all other numbers of the plan were changed to agree with it.
#[test]
fn a_budget_that_is_too_small_by_a_step_is_refused() {
    let facts = Facts::typical(vec![1, 2]);
    let scheduler = GuestScheduler::Own(Scheduler::Edf);
    for tasks in [vec![task(0, 1_000, 20_000)], vec![task(0, 100, 1_000), task(1, 10_000, 100_000)]] {
        let services = vec![every_deadline("control", tasks, scheduler), common::supply("other", &["1ms/100ms"], None)];
        for cores in [&[1][..], &[1, 2]] {
            let Ok(mut forged) = plan(&site(cores, services.clone()), &facts) else { continue };
            let less = |time: &mut Duration| *time = time.checked_sub(Duration::from_us(1)).unwrap();
            let entry = &mut forged.services[0];
            less(&mut entry.server.budget);
            let Certificate::EveryDeadline { budget, points, rests_on, .. } = &mut entry.certificate else { panic!() };
            less(budget);
            if *rests_on != (RestsOn::WholeCore { loss: facts.loss }) {
                points.iter_mut().for_each(|point| less(&mut point.supply));
            }
            entry.required = Bandwidth::of(*budget, entry.server.period).unwrap();
            let told = check_plan(&forged).unwrap_err().to_string();
            assert!(told.contains("processor time") || told.contains("budget for all windows"), "{told}");
        }
    }
}
