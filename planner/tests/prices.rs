//! What a promise costs: little more than what its tasks use, and never more than a stronger one.

mod common;

use common::{every_deadline, leftovers, plan, site};
use giusto_analysis::interface::{schedulable, Resource};
use giusto_model::{
    Bandwidth, Certificate, Duration, GuestScheduler, Plan, Promise, Release, RestsOn, Scheduler, ServerKind, ServicePlan, Task,
};
use giusto_planner::Facts;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

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
    let plan = plan.map_err(|why| println!("{why}")).ok()?;
    Some(plan.services[0].server.bandwidth())
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

#[test]
fn random_sets_cost_little_more_than_they_use() {
    let mut rng = StdRng::seed_from_u64(28);
    let facts = Facts::typical(vec![0, 1]);
    let sets = if std::env::var_os("GIUSTO_SOAK").is_some() { 2000 } else { 200 };
    let (mut all, mut cheap, mut refused, mut worst) = (0, 0, 0, 0.0f64);
    while all < sets {
        let tasks = random_tasks(&mut rng);
        let scheduler = [Scheduler::Rm, Scheduler::Edf][rng.random_range(0..2)];
        // On a core of its own that is as late and loses as much.
        let second = Duration::from_secs(1);
        let whole = Resource::Periodic { period: second, budget: second.checked_sub(facts.loss).unwrap() };
        if !matches!(schedulable(&tasks, scheduler, &whole, facts.lateness), Ok(Ok(_))) {
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

#[test]
fn no_set_costs_more_than_the_response_times_of_a_whole_core() {
    let mut rng = StdRng::seed_from_u64(29);
    let facts = Facts::typical(vec![0, 1]);
    let mut compared = 0;
    for _ in 0..100 {
        let tasks = random_tasks(&mut rng);
        let deadlines = price(&tasks, Some(GuestScheduler::Own(Scheduler::Edf)), &facts);
        if let (Some(deadlines), Some(whole)) = (deadlines, price(&tasks, None, &facts)) {
            compared += 1;
            assert!(deadlines <= whole, "{} % and {} %: {tasks:?}", percent(deadlines), percent(whole));
        }
    }
    println!("{compared} compared");
    assert!(compared > 20);
}

/// A plan whose proof rests on something it does not have is no proof.
#[test]
fn a_proof_with_less_than_it_rests_on_is_refused() {
    let facts = Facts::typical(vec![0, 1]);
    let scheduler = GuestScheduler::Own(Scheduler::Rm);
    let made = |tasks: Vec<Task>| {
        let services = vec![every_deadline("control", tasks, scheduler), leftovers("batch", "0%")];
        plan(&site(&[1], services), &facts).unwrap()
    };
    let one = made(vec![task(0, 1_000, 20_000)]);
    let many = made(vec![task(0, 100, 1_000), task(1, 10_000, 100_000)]);
    type Tampering = fn(&mut ServicePlan);
    let tamperings: [(&Plan, &str, Tampering); 8] = [
        (&one, "a longer task", |entry| entry.tasks[0].wcet = Duration::from_us(1_100)),
        (&one, "a shorter deadline", |entry| entry.tasks[0].deadline = Duration::from_ms(10)),
        (&one, "another kind", |entry| entry.server.kind = ServerKind::Deferrable),
        (&one, "a longer period", |entry| entry.server.period = Duration::from_ms(21)),
        (&many, "a longer task", |entry| entry.tasks[1].wcet = Duration::from_ms(11)),
        (&many, "a denser task", |entry| entry.tasks[0].period = Duration::from_us(900)),
        (&many, "a smaller budget", |entry| entry.server.budget = Duration::from_ns(entry.server.budget.ns() / 2)),
        (&many, "less that is lost", |entry| {
            if let Certificate::EveryDeadline { rests_on, .. } = &mut entry.certificate {
                *rests_on = RestsOn::PeriodicResource;
            }
        }),
    ];
    for (plan, what, tamper) in tamperings {
        let mut forged = plan.clone();
        tamper(&mut forged.services[0]);
        assert!(giusto_verify::check_plan(&forged).is_err(), "{what}: {:#?}", forged.services[0]);
    }
    let rests = |plan: &Plan| match plan.services[0].certificate {
        Certificate::EveryDeadline { rests_on, .. } => rests_on,
        _ => RestsOn::PeriodicResource,
    };
    assert!(rests(&one) == RestsOn::WakeUp && matches!(rests(&many), RestsOn::WholeCore { .. }));
}
