//! Services that are promised every deadline, played with the policy core: beside servers that take every cycle of their
//! budgets no job is ever late, on cores as full as they get, and where budgets end at the tick, too.

mod common;
#[path = "common/play.rs"]
mod play;

use common::{every_deadline, leftovers, of, plan, site, supply};
use giusto_model::{
    Adopt, Backend, Bandwidth, Certificate, Duration, GuestScheduler, Origin, Plan, Promise, Release, RestsOn,
    ServerKind, Service, ServicePlan, Site, Task,
};
use giusto_planner::{Facts, Refusal};
use play::{kept, play};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

const LENGTH: Duration = Duration::from_ms(800);
/// Those whose supply can be counted on at any time.
const KINDS: [ServerKind; 5] = [
    ServerKind::PeriodicStrict,
    ServerKind::PeriodicConserving,
    ServerKind::PeriodicReclaiming,
    ServerKind::Deferrable,
    ServerKind::ConstantBandwidth,
];

fn random_tasks(rng: &mut StdRng, share: u64) -> Vec<Task> {
    let count = rng.random_range(1..=3);
    let task = |number| {
        let period = *[10_000u64, 12_500, 16_000, 20_000, 25_000, 40_000, 50_000, 80_000].choose(rng).unwrap();
        let wcet = (period * rng.random_range(share / 2..=share) / 100 / count).max(1);
        let deadline =
            if rng.random_bool(0.5) { period } else { rng.random_range((period * 6 / 10).max(wcet)..=period) };
        let copies = if rng.random_bool(0.1) { 2 } else { 1 };
        let (wcet, period, deadline) =
            (Duration::from_us(wcet / u64::from(copies) + 1), Duration::from_us(period), Duration::from_us(deadline));
        let deadline = deadline.max(wcet);
        let (name, offset) = (format!("t{number}"), Duration::ZERO);
        Task { name, wcet, period, deadline, offset, release: Release::Sporadic, copies }
    };
    (0..count).map(task).collect()
}

/// Some services on one or two cores, of which nothing is kept free.
fn random_site(rng: &mut StdRng) -> Site {
    let one_kind = *KINDS.choose(rng).unwrap();
    let count = rng.random_range(1..=4);
    let mut services: Vec<Service> = (0..count)
        .map(|number| {
            let scheduler = *GuestScheduler::ALL.choose(rng).unwrap();
            let share = rng.random_range(2..=50 / count);
            let mut service = every_deadline(&format!("s{number}"), random_tasks(rng, share), scheduler);
            service.server = [None, Some(one_kind), Some(*KINDS.choose(rng).unwrap())][rng.random_range(0..3)];
            if service.tasks.len() > 1 && rng.random_bool(0.3) {
                service.origin = Origin::Adopt(Adopt::Qmp("/run/vm".into()));
                service.promise = Promise::EveryDeadline { scheduler, vcpus: 2, placed: Vec::new() };
            }
            service
        })
        .collect();
    services.push(leftovers("batch", "0%"));
    let cores: Vec<u32> = (1..=rng.random_range(1..=2)).collect();
    let mut site = site(&cores, services);
    site.hosts[0].keep_free = Bandwidth::ZERO;
    site
}

/// A plan for it, and for as much as is left of the first core a service that was promised just that.
fn filled(mut site: Site, facts: &Facts, rng: &mut StdRng) -> Result<Plan, Refusal> {
    let first = plan(&site, facts)?;
    let left =
        first.services.iter().find(|entry| entry.core == 1).map_or(Bandwidth::ZERO, |entry| entry.left_for_others);
    let period = *[5_000u64, 10_000, 20_000, 40_000].choose(rng).unwrap();
    let budget = (left.as_f64() * period as f64) as u64;
    // Beside a deferrable server not every window has room for it, and what would fit is looked for long.
    let deferrable = first.services.iter().any(|entry| entry.server.kind == ServerKind::Deferrable);
    if budget < 101 || (deferrable && rng.random_bool(0.8)) {
        return Ok(first);
    }
    site.services.push(supply("rest", &[&format!("{}us/{period}us", budget - 1)], None));
    Ok(plan(&site, facts).unwrap_or(first))
}

fn deadlines(entry: &ServicePlan) -> bool {
    matches!(entry.promise, Promise::EveryDeadline { .. })
}

#[test]
fn beside_whatever_others_do_no_job_is_late_on_cores_as_full_as_they_get() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut sites, mut jobs, mut shared, mut full, mut three, mut vms, mut refused, mut tight) =
        (0, 0, 0, 0, 0, 0, 0, 0);
    let (mut kinds, mut orders) = (HashMap::new(), HashMap::new());
    let soak = std::env::var_os("GIUSTO_SOAK").is_some();
    let (most, enough) = if soak { (2000, 100) } else { (100, 10) };
    while sites < most {
        let site = random_site(&mut rng);
        let facts = Facts {
            manager_cost: Bandwidth::ZERO,
            period_cost: Duration::ZERO,
            ..Facts::typical(site.hosts[0].cores.clone())
        };
        let exact = Facts { loss: Duration::ZERO, lateness: Duration::ZERO, ..facts.clone() };
        let Ok(plan) = filled(site, if rng.random_bool(0.7) { &exact } else { &facts }, &mut rng) else {
            refused += 1;
            continue;
        };
        sites += 1;
        for (victim, entry) in plan.services.iter().enumerate().filter(|(_, entry)| deadlines(entry)) {
            *kinds.entry(entry.server.kind).or_insert(0) += 1;
            if let Promise::EveryDeadline { scheduler, .. } = entry.promise {
                *orders.entry(scheduler).or_insert(0) += 1;
            }
            let beside = plan.services.iter().filter(|other| other.core == entry.core).count();
            shared += usize::from(beside > 1);
            three += usize::from(beside > 2);
            full += usize::from(entry.left_for_others < of("10%"));
            vms += usize::from(entry.vcpu == Some(1));
            let late = kept(&plan, victim, LENGTH, None, &mut rng);
            (jobs, tight) = (jobs + late.jobs, tight + usize::from(late.spare < 0.1));
        }
    }
    println!("{sites} sites, {jobs} jobs, {shared} servers share a core, {three} with two others or more, {full} on a core that is full to 90 %, {vms} second virtual CPUs, {refused} sites refused, {tight} with less than a tenth to spare; {kinds:?} {orders:?}");
    assert!([shared, three, full, vms, refused, tight].iter().all(|n| *n > enough), "the cases that matter must occur");
    assert!(kinds.len() == 5 && kinds.values().all(|n| *n > enough) && orders.len() == 4, "{kinds:?} {orders:?}");
}

/// Releases that are known to the instant, mostly on a grid.
fn kept_tasks(rng: &mut StdRng, share: u64) -> Vec<Task> {
    let grid = *[5_000u64, 10_000].choose(rng).unwrap();
    let count = rng.random_range(1..=4);
    let task = |number| {
        let period = grid * [1, 2, 3, 4, 6, 8][rng.random_range(0..6)];
        let wcet = (period * rng.random_range(share / 2..=share) / 100 / count).max(1);
        let deadline = rng.random_range((period * 7 / 10).max(wcet)..=period * 13 / 10).min(period);
        let offset = Duration::from_us(grid * rng.random_range(0..4));
        let [wcet, period, deadline] = [wcet, period, deadline].map(Duration::from_us);
        Task { name: format!("t{number}"), wcet, period, deadline, offset, release: Release::KeptOffset, copies: 1 }
    };
    (0..count).map(task).collect()
}

#[test]
fn releases_whole_periods_apart_are_served_with_the_periods_and_each_may_be_seen_late() {
    let mut rng = StdRng::seed_from_u64(13);
    let (mut played, mut jobs, mut late, mut tight, mut orders) = (0, 0, 0, 0, HashMap::new());
    let (mut shifted, mut without) = (0, 0);
    let most = if std::env::var_os("GIUSTO_SOAK").is_some() { 3000 } else { 150 };
    while played < most {
        let scheduler = *GuestScheduler::ALL.choose(&mut rng).unwrap();
        let share = rng.random_range(10..=50);
        let services = [every_deadline("aligned", kept_tasks(&mut rng, share), scheduler), leftovers("batch", "0%")];
        let mut site = site(&[1], services.to_vec());
        site.hosts[0].keep_free = Bandwidth::ZERO;
        let facts = Facts { manager_cost: Bandwidth::ZERO, period_cost: Duration::ZERO, ..Facts::typical(vec![1]) };
        let exact = Facts { loss: Duration::ZERO, lateness: Duration::ZERO, ..facts.clone() };
        let facts = if rng.random_bool(0.5) { exact } else { facts };
        // Beside another, so that a whole core is none of the answers.
        site.services.push(supply("beside", &["1ms/20ms"], None));
        let Ok(plan) = filled(site, &facts, &mut rng) else { continue };
        let Certificate::EveryDeadline { rests_on, budget, .. } = plan.services[0].certificate else { panic!() };
        if rests_on != RestsOn::AlignedReleases {
            continue;
        }
        played += 1;
        *orders.entry(scheduler).or_insert(0) += 1;
        let kept = kept(&plan, 0, LENGTH, None, &mut rng);
        (jobs, tight) = (jobs + kept.jobs, tight + usize::from(kept.spare < 0.1));
        late += usize::from(!facts.lateness.is_zero());
        // Off its grid, or with what is lost of each budget and a twentieth less, jobs are late.
        let mut less = plan.clone();
        less.services[0].server.budget = Duration::from_ns(budget.ns() * 19 / 20);
        without += usize::from(!play(&less, 0, LENGTH, None, &mut rng).0.late.is_empty());
        let mut off = plan.clone();
        for (nth, task) in off.services[0].tasks.iter_mut().enumerate() {
            task.offset = Duration::from_us(task.offset.ns() / 1000 + 3_100 * nth as u64);
        }
        shifted += usize::from(!play(&off, 0, LENGTH, None, &mut rng).0.late.is_empty());
    }
    println!(
        "{played} plans, {jobs} jobs, {late} plans with a latency, {tight} with less than a tenth to spare; {orders:?}"
    );
    println!("{without} have jobs late with a twentieth less, {shifted} with releases off the grid");
    assert!(late > played / 4 && tight > played / 20 && without > played / 20 && orders.len() == 4);
}

#[test]
fn where_budgets_end_at_the_tick_what_runs_over_is_allowed_for() {
    let mut rng = StdRng::seed_from_u64(12);
    let (mut played, mut jobs, mut without, mut endless) = (0, 0, 0, 0);
    let most = if std::env::var_os("GIUSTO_SOAK").is_some() { 300 } else { 30 };
    while played < most {
        let mut tasks = random_tasks(&mut rng, 40);
        for task in &mut tasks {
            let longer = |time: Duration| Duration::from_ns(4 * time.ns());
            (task.wcet, task.period, task.deadline) = (longer(task.wcet), longer(task.period), longer(task.deadline));
        }
        let scheduler = *GuestScheduler::ALL.choose(&mut rng).unwrap();
        let mut site = site(&[1], vec![every_deadline("only", tasks, scheduler), leftovers("batch", "0%")]);
        site.hosts[0].keep_free = Bandwidth::ZERO;
        let tick = Duration::from_ms([1, 4][rng.random_range(0..2)]);
        let facts = Facts { insist: Some(Backend::Deadline), tick, ..Facts::typical(vec![1]) };
        let facts = Facts { loss: Duration::ZERO, lateness: Duration::ZERO, ..facts };
        let Ok(plan) = plan(&site, &facts) else { continue };
        let Certificate::EveryDeadline { budget, rests_on, .. } = plan.services[0].certificate else { panic!() };
        jobs += kept(&plan, 0, LENGTH, Some(tick), &mut rng).jobs;
        played += 1;
        let lost = plan.services[0].server.budget.ns() - budget.ns();
        if matches!(rests_on, RestsOn::WholeCore { .. }) {
            assert_eq!(lost, 0, "a budget that never runs out is not run over");
            endless += 1;
            continue;
        }
        assert_eq!(lost, tick.ns(), "a tick of each budget is not counted on");
        // Without it jobs are late.
        let mut less = plan.clone();
        less.services[0].server.budget = budget;
        without += usize::from(!play(&less, 0, LENGTH, Some(tick), &mut rng).0.late.is_empty());
    }
    println!("{played} plans, {jobs} jobs; {endless} with budgets that never run out");
    println!("without the tick's allowance {without} had jobs late");
    assert!(endless > 10);
}
