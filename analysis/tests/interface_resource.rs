//! One resource for one task set: supply, its inverse and its line, the tests and their proofs, and the least budget.

mod oracle;

use giusto_analysis::interface::{least_budget, schedulable, Prepared, Resource, ResourceError, Scheduler};
use giusto_analysis::Error;
use giusto_model::Bandwidth;
use oracle::{ns, task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const PERIODS: [u64; 8] = [2, 3, 4, 5, 6, 8, 10, 12];
const SCHEDULERS: [Scheduler; 3] = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf];

fn general(period: u64, budget: u64) -> Resource {
    Resource::Periodic { period: ns(period), budget: ns(budget) }
}

/// Any resource of one core, and the length after which it repeats itself.
fn random_resource(rng: &mut StdRng) -> (Resource, u64) {
    let period = rng.random_range(1..=8);
    let budget = rng.random_range(1..=period);
    match rng.random_range(0..5) {
        0 => (general(period, budget), period),
        1 => (Resource::Aligned { period: ns(period), budget: ns(budget) }, period),
        2 => {
            let deadline = ns(rng.random_range(budget..=period));
            (Resource::ExplicitDeadline { period: ns(period), budget: ns(budget), deadline }, period)
        }
        3 => {
            let cycle = rng.random_range(1..=12);
            let mut slots = Vec::new();
            let mut at = rng.random_range(0..cycle);
            while at < cycle {
                let end = rng.random_range(at + 1..=cycle);
                slots.push([ns(at), ns(end)]);
                at = end + rng.random_range(1..=3);
            }
            (Resource::Table { cycle: ns(cycle), slots }, cycle)
        }
        _ => {
            let bandwidth = Bandwidth::new(budget, period).unwrap();
            (Resource::Linear { bandwidth, delay: ns(rng.random_range(0..=6)) }, bandwidth.denom())
        }
    }
}

#[test]
fn supply_is_the_least_of_all_windows_and_has_its_inverse_and_its_line() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut kinds = [0; 5];
    for _ in 0..4000 {
        let (resource, _) = random_resource(&mut rng);
        resource.validate().unwrap();
        let kind = match resource {
            Resource::Periodic { .. } => 0,
            Resource::Aligned { .. } => 1,
            Resource::ExplicitDeadline { .. } => 2,
            Resource::Table { .. } => 3,
            _ => 4,
        };
        kinds[kind] += 1;
        let all = oracle::supplies(&resource, 60);
        let (share, delay) = (resource.bandwidth(), resource.delay() as u64);
        let mut touches = false;
        for (t, supply) in (0..).zip(&all) {
            assert_eq!(resource.supply(ns(t)), ns(*supply), "sbf({t}) of {resource:?}");
            // sbf ≥ α(t − Δ); the line of a rounded line is its own.
            let line = (t.saturating_sub(delay)) * share.numer();
            assert!(supply * share.denom() + (share.denom() - 1) * u64::from(kind == 4) >= line, "{resource:?}");
            let closer = (t + 1).saturating_sub(delay) * share.numer();
            touches |= supply * share.denom() < closer;
        }
        assert!(touches || kind == 4, "a shorter delay would do: {resource:?}");
        for work in 0..=*all.last().unwrap() {
            let first = all.iter().position(|s| *s >= work).unwrap() as u64;
            assert_eq!(resource.inverse(u128::from(work)), Some(ns(first)), "sbf⁻¹({work}) of {resource:?}");
        }
    }
    assert!(kinds.iter().all(|n| *n > 600), "{kinds:?}");
}

/// Each way to give `budget` units in one period, at most `cores` at a time.
fn layouts(period: usize, budget: u64, cores: u64) -> Vec<Vec<u64>> {
    if period == 0 {
        return if budget == 0 { vec![vec![]] } else { vec![] };
    }
    let mut all = Vec::new();
    for first in 0..=cores.min(budget) {
        for mut rest in layouts(period - 1, budget - first, cores) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

#[test]
fn several_cores_give_the_least_of_all_schedules_and_one_core_is_the_periodic_resource() {
    let (mut lower, mut exact) = (0, 0);
    for cores in 1..=4u32 {
        for period in 1..=5u64 {
            for budget in 1..=period * u64::from(cores) {
                let resource = Resource::Multi { period: ns(period), budget: ns(budget), cores };
                resource.validate().unwrap();
                // Periods are independent: the least of a window is the sum of the least of its parts over all layouts.
                let all = layouts(period as usize, budget, u64::from(cores));
                let part = |from: u64, to: u64| {
                    all.iter().map(|l| l[from as usize..to as usize].iter().sum::<u64>()).min().unwrap()
                };
                let window = |start: u64, t: u64| {
                    let rounds = (start + t).div_ceil(period);
                    let within = |k: u64| {
                        part(start.saturating_sub(k * period).min(period), (start + t - k * period).min(period))
                    };
                    (0..rounds).map(within).sum::<u64>()
                };
                for t in 0..=4 * period {
                    let least = (0..period).map(|start| window(start, t)).min().unwrap();
                    let told = resource.supply(ns(t)).ns();
                    assert!(told <= least && least - told <= u64::from(cores / 2), "{t} {resource:?} {told} {least}");
                    if (t % 2, period % 2) == (0, 0) || cores == 1 {
                        assert_eq!(told, least, "all rests are even: {t} {resource:?}");
                    }
                    if cores == 1 {
                        assert_eq!(told, general(period, budget).supply(ns(t)).ns());
                    }
                    (lower, exact) = (lower + u32::from(told < least), exact + u32::from(told == least));
                }
                for work in 0..=3 * budget {
                    let first = (0..).find(|t| resource.supply(ns(*t)).ns() >= work).unwrap();
                    assert_eq!(resource.inverse(u128::from(work)), Some(ns(first)), "{work} {resource:?}");
                }
            }
        }
    }
    assert!(lower > 20 && exact > 1000, "{lower} {exact}");
}

#[test]
fn the_tests_equal_trying_every_integer_and_their_proofs_hold() {
    let mut rng = StdRng::seed_from_u64(2);
    // Of each scheduler: kept, missed. Then: α = U kept, α < U, constrained, copies, late.
    let (mut kept, mut missed) = ([0; 3], [0; 3]);
    let (mut equal, mut less, mut constrained, mut copies, mut late) = (0, 0, 0, 0, 0);
    for round in 0..24_000 {
        let tasks = oracle::random_set(&mut rng, &PERIODS, 0.5);
        let (resource, repeats) = random_resource(&mut rng);
        let latency = if rng.random_bool(0.3) { rng.random_range(1..=3) } else { 0 };
        if let Err(error) = resource.validate_for(&tasks) {
            assert!(matches!(error, ResourceError::Misaligned(..)), "{error}");
            let refused = schedulable(&tasks, Scheduler::Edf, &resource, ns(latency));
            assert_eq!(refused, Err(Error::Resource(error.clone())));
            let prepared = Prepared::new(tasks, Scheduler::Edf, ns(latency)).unwrap();
            assert_eq!(prepared.kept_by(&resource), Err(Error::Resource(error)));
            continue;
        }
        let which = round % 3;
        let scheduler = SCHEDULERS[which];
        // `Linear` has its delay in front of what repeats.
        let supply = oracle::supplies(&resource, 7 + oracle::horizon(&tasks, repeats, latency));
        let found = schedulable(&tasks, scheduler, &resource, ns(latency)).unwrap();
        let oracle = oracle::enough(&tasks, scheduler, &supply, latency);
        assert_eq!(found.is_ok(), oracle, "{scheduler} {resource:?} {latency} {tasks:?}");
        let prepared = Prepared::new(tasks.clone(), scheduler, ns(latency)).unwrap();
        assert_eq!(prepared.kept_by(&resource), Ok(oracle), "{scheduler} {resource:?} {latency} {tasks:?}");
        match found {
            Ok(certificate) => {
                oracle::verify(&certificate, &tasks, &supply);
                kept[which] += 1;
                let sum = |t: &giusto_model::Task| t.wcet.ns() * u64::from(t.copies) * 120 / t.period.ns();
                let share = resource.bandwidth();
                equal += u32::from(tasks.iter().map(sum).sum::<u64>() * share.denom() == 120 * share.numer());
                constrained += u32::from(tasks.iter().any(|t| t.deadline < t.period));
                copies += u32::from(tasks.iter().any(|t| t.copies > 1));
                late += u32::from(latency > 0);
            }
            Err(shortfall) => {
                oracle::falls_short(&shortfall, &tasks, scheduler, &supply, latency);
                missed[which] += 1;
                let sum = |t: &giusto_model::Task| t.wcet.ns() * u64::from(t.copies) * 120 / t.period.ns();
                let share = resource.bandwidth();
                less += u32::from(tasks.iter().map(sum).sum::<u64>() * share.denom() > 120 * share.numer());
            }
        }
    }
    let rare = [equal, less, constrained, copies, late];
    assert!(
        kept.iter().chain(&missed).all(|n| *n > 500) && rare.iter().all(|n| *n > 50),
        "{kept:?} {missed:?} {rare:?}"
    );
}

#[test]
fn the_least_budget_is_the_least_of_all_multiples_of_the_quantum() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut none, mut some, mut coarse) = (0, [0; 3], 0);
    for round in 0..3000 {
        let tasks = oracle::random_set(&mut rng, &PERIODS, 0.4);
        let (shape, repeats) = random_resource(&mut rng);
        let quantum = rng.random_range(1..=3);
        let latency = if rng.random_bool(0.2) { 1 } else { 0 };
        let scheduler = SCHEDULERS[round % 3];
        let found = least_budget(&tasks, scheduler, &shape, ns(quantum), ns(latency));
        let with: Box<dyn Fn(u64) -> Resource> = match shape {
            Resource::Periodic { period, .. } => Box::new(move |b| general(period.ns(), b)),
            Resource::Aligned { period, .. } => Box::new(move |b| Resource::Aligned { period, budget: ns(b) }),
            Resource::ExplicitDeadline { period, deadline, .. } => {
                Box::new(move |b| Resource::ExplicitDeadline { period, budget: ns(b), deadline })
            }
            _ => {
                assert_eq!(found, Err(Error::Resource(ResourceError::NoShape)));
                continue;
            }
        };
        if shape.validate_for(&tasks).is_err() {
            assert!(matches!(found, Err(Error::Resource(ResourceError::Misaligned(..)))), "{found:?}");
            continue;
        }
        let whole = if let Resource::ExplicitDeadline { deadline, .. } = shape { deadline.ns() } else { repeats };
        let reach = oracle::horizon(&tasks, repeats, latency);
        let least = (1..=whole / quantum)
            .map(|k| k * quantum)
            .find(|budget| oracle::enough(&tasks, scheduler, &oracle::supplies(&with(*budget), reach), latency));
        assert_eq!(found, Ok(least.map(ns)), "{scheduler} {shape:?} {quantum} {latency} {tasks:?}");
        match least {
            None => none += 1,
            Some(_) => some[round % 3] += 1,
        }
        coarse += u32::from(quantum > 1 && least.is_some());
    }
    assert!(none > 100 && some.iter().all(|n| *n > 100) && coarse > 100, "{none} {some:?} {coarse}");
}

#[test]
fn what_makes_no_sense_is_refused_and_never_panics() {
    use ResourceError as Why;
    let of = |budget: u64, period: u64, deadline: u64| Resource::ExplicitDeadline {
        period: ns(period),
        budget: ns(budget),
        deadline: ns(deadline),
    };
    let table = |cycle: u64, slots: &[(u64, u64)]| Resource::Table {
        cycle: ns(cycle),
        slots: slots.iter().map(|s| [ns(s.0), ns(s.1)]).collect(),
    };
    let line = |share: &str| Resource::Linear { bandwidth: share.parse().unwrap(), delay: ns(1) };
    let several =
        |period: u64, budget: u64, cores: u32| Resource::Multi { period: ns(period), budget: ns(budget), cores };
    for (resource, why) in [
        (general(0, 1), Why::NoPeriod),
        (general(1, 0), Why::NoBudget),
        (general(4, 5), Why::TooMuch { budget: ns(5), whole: ns(4) }),
        (of(3, 5, 2), Why::Deadline { deadline: ns(2) }),
        (of(3, 5, 6), Why::Deadline { deadline: ns(6) }),
        (table(0, &[(0, 1)]), Why::NoPeriod),
        (table(5, &[]), Why::NoBudget),
        (table(5, &[(1, 1)]), Why::Slot(0)),
        (table(5, &[(0, 2), (2, 3)]), Why::Slot(1)),
        (table(5, &[(0, 2), (3, 6)]), Why::Slot(1)),
        (table(u64::MAX, &[(0, 1)]), Why::Range),
        (line("0"), Why::NoBudget),
        (line("3/2"), Why::Bandwidth("3/2".parse().unwrap())),
        (several(3, 4, 0), Why::NoCores),
        (several(3, 7, 2), Why::TooMuch { budget: ns(7), whole: ns(6) }),
        (several(u64::MAX, 7, 2), Why::Range),
        (several(4, 7, 2), Why::Cores),
    ] {
        let one = [task(1, 4, 4, 1)];
        assert_eq!(schedulable(&one, Scheduler::Edf, &resource, ns(0)), Err(Error::Resource(why)), "{resource:?}");
    }
    let unsafe_example = [task(1, 5, 5, 1), task(5, 15, 15, 1)];
    let aligned = Resource::Aligned { period: ns(7), budget: ns(4) };
    assert_eq!(
        schedulable(&unsafe_example, Scheduler::Rm, &aligned, ns(0)),
        Err(Error::Resource(Why::Misaligned(ns(5), ns(7))))
    );
    assert_eq!(schedulable(&[], Scheduler::Rm, &general(2, 1), ns(0)), Err(Error::NoTasks));
    assert!(matches!(schedulable(&[task(0, 5, 5, 1)], Scheduler::Rm, &general(2, 1), ns(0)), Err(Error::Task { .. })));
    assert_eq!(least_budget(&unsafe_example, Scheduler::Rm, &general(2, 1), ns(0), ns(0)), Err(Error::Quantum));
    // The largest numbers there are.
    let long = u64::MAX;
    for scheduler in SCHEDULERS {
        for resource in [general(long, long), general(long, 1), general(3, 1), of(1, long, long), of(1, long, 1)] {
            for set in [vec![task(long, long, long, 1)], vec![task(1, long, long, u32::MAX), task(1, 3, 2, 1)]] {
                for latency in [0, 1, long] {
                    let _ = schedulable(&set, scheduler, &resource, ns(latency));
                    let _ = least_budget(&set, scheduler, &resource, ns(long / 3), ns(latency));
                }
            }
        }
    }
}
