//! Laws of every plan and every refusal, over random sites.

#[path = "common/advice.rs"]
mod advice;
mod common;

use advice::{assert_helps, follow};
use common::{as_if_alone, leftovers, of, plan, site};
use giusto_model::{Bandwidth, Duration, Plan, Release, Site, Task};
use giusto_planner::{Cause, Facts, NearestFit, Refusal, TooLarge, BUSY_PROCESSES};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const MS: u64 = 1_000_000;

/// Everything in whole milliseconds, so that the tick-by-tick check is exact.
fn random_site(rng: &mut StdRng) -> (Site, Facts) {
    const PERIODS: [u64; 8] = [4, 5, 6, 7, 8, 9, 10, 12];
    let mut services = Vec::new();
    for number in 0..rng.random_range(1..=4) {
        let count = rng.random_range(1..=3);
        let kept = rng.random_bool(0.5);
        let mut draw = || {
            let period = PERIODS[rng.random_range(0..PERIODS.len())];
            let ms = Duration::from_ms;
            Task {
                name: format!("t{}", rng.random_range(0..1000)),
                wcet: ms(rng.random_range(1..=(period / count).max(1))),
                period: ms(period),
                deadline: ms(period),
                offset: ms(rng.random_range(0..=2 * period)),
                release: if kept { Release::KeptOffset } else { Release::Sporadic },
                copies: 1,
            }
        };
        let tasks: Vec<Task> = (0..count).map(|_| draw()).collect();
        services.push(as_if_alone(&format!("s{number}"), tasks, ["0%", "2%", "5%"][rng.random_range(0..3)]));
    }
    for number in 0..rng.random_range(0..=2) {
        services.push(leftovers(&format!("l{number}"), ["0%", "10%", "60%", "130%"][rng.random_range(0..4)]));
    }
    let cores: Vec<u32> = (1..=rng.random_range(1..=4)).collect();
    let mut site = site(&cores, services);
    site.hosts[0].keep_free = of(["0%", "5%", "10%"][rng.random_range(0..3)]);
    let tick = Duration::from_ms(rng.random_range(1..=2));
    let deadline_period_max = Duration::from_ms(rng.random_range(20..=200));
    (site, Facts { tick, deadline_period_max, ..Facts::typical(cores) })
}

/// The most that a whole core works in any `window` ms, ticked through one by one: strictly periodic from the offsets, or
/// from a synchronous release and from there only, if one task is sporadic.
fn demand_by_ticking(tasks: &[Task], window: u64) -> u64 {
    let kept = tasks.iter().all(|t| t.release == Release::KeptOffset);
    let hyperperiod = tasks.iter().fold(1, |all, t| num_integer::lcm(all, t.period.ns() / MS));
    let horizon = if kept { 3 * hyperperiod + 24 + window } else { window };
    let mut pending = 0;
    let works: Vec<u64> = (0..horizon)
        .map(|now| {
            for t in tasks {
                let offset = if kept { t.offset.ns() / MS } else { 0 };
                if now >= offset && (now - offset) % (t.period.ns() / MS) == 0 {
                    pending += t.wcet.ns() / MS;
                }
            }
            let work = u64::from(pending > 0);
            pending -= work;
            work
        })
        .collect();
    works.windows(window as usize).map(|w| w.iter().sum()).max().unwrap()
}

fn check(site: &Site, facts: &Facts, plan: &Plan) {
    let host = &site.hosts[0];
    let limit = facts.deadline_bandwidth_cap.min(Bandwidth::ONE.checked_sub(host.keep_free).unwrap());
    let mut left = host.cores.len() as f64 * (1.0 - host.keep_free.as_f64());
    for (index, service) in plan.services.iter().enumerate() {
        let (server, required) = (service.server, service.required.times_ceil(service.server.period).unwrap());
        assert!(plan.services[..index].iter().all(|s| s.core != service.core), "one a core");
        assert!(host.cores.contains(&service.core));
        assert!(server.bandwidth() <= limit, "{server:?}");
        assert!(server.period >= facts.tick.checked_mul(10).unwrap() && server.period <= facts.deadline_period_max);
        assert_eq!(server.period.ns() % MS, 0);
        let ticked = demand_by_ticking(&service.tasks, server.period.ns() / MS) * MS;
        assert_eq!(required.ns(), ticked, "W(P) is sufficient and exact: {:?}", service.tasks);
        let margin = service.margin.times_ceil(server.period).unwrap();
        assert_eq!(server.budget, required.checked_add(margin).unwrap(), "the margin is honoured");
        let sum = [server.bandwidth(), service.left_for_others, host.keep_free];
        assert_eq!(sum.into_iter().try_fold(Bandwidth::ZERO, Bandwidth::checked_add), Some(Bandwidth::ONE));
        assert_eq!(service.hold.enforced.ns(), 2 * server.budget.ns());
        assert!(service.hold.conforming <= server.budget);
        left -= server.bandwidth().as_f64();
    }
    let floors: f64 = plan.leftovers.iter().map(|l| l.at_least.as_f64()).sum();
    assert!(floors <= left + 1e-9);
    assert!(plan.leftovers.iter().all(|l| (l.available.as_f64() - left).abs() < 1e-9));
    let whole = Bandwidth::ONE.checked_sub(host.keep_free).unwrap();
    let left_on = |core| plan.services.iter().find(|s| s.core == core).map_or(whole, |s| s.left_for_others);
    let floors_on = |core| {
        let kept_whole = plan.leftovers.iter().filter(|l| l.reasons.iter().all(|r| r.what != BUSY_PROCESSES));
        kept_whole.filter(|l| l.cores[0] == core).map(|l| l.at_least.as_f64()).sum::<f64>()
    };
    for leftover in &plan.leftovers {
        let mut cores = leftover.cores.clone();
        cores.sort_unstable();
        assert_eq!(cores, host.cores, "each core once");
        let held = leftover.reasons.iter().find(|r| r.what == BUSY_PROCESSES).map_or(1, |r| r.value.parse().unwrap());
        let most: f64 = leftover.cores[..held].iter().map(|core| left_on(*core).as_f64()).sum();
        assert!(leftover.at_least.as_f64() <= most + 1e-9, "so many cores can hold the floor");
        assert!(leftover.cores[held..].windows(2).all(|two| left_on(two[0]) >= left_on(two[1])), "most left first");
    }
    assert!(
        host.cores.iter().all(|core| floors_on(*core) <= left_on(*core).as_f64() + 1e-9),
        "a core holds its floors"
    );
    assert_eq!(plan.services.len() + plan.leftovers.len(), site.services.len(), "no service is forgotten");
}

#[test]
fn every_plan_keeps_the_laws_and_every_advice_makes_the_witness_fit() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut plans, mut multiples, mut below) = (0, 0, 0);
    let (mut core, mut cores, mut floors, mut fits, mut others) = (0, 0, 0, 0, 0);
    for _ in 0..1500 {
        let (site, facts) = random_site(&mut rng);
        match plan(&site, &facts) {
            Ok(found) => {
                check(&site, &facts, &found);
                plans += 1;
                for service in &found.services {
                    let whole = service.required == service.utilization;
                    *(if whole { &mut multiples } else { &mut below }) += 1;
                }
            }
            Err(Refusal::DoesNotFit(witness)) => {
                match witness.cause {
                    Cause::Core { .. } => core += 1,
                    Cause::Cores { .. } => cores += 1,
                    Cause::Floors { .. } => floors += 1,
                    Cause::Supply { .. }
                    | Cause::Window { .. }
                    | Cause::Deadlines(_)
                    | Cause::Percentiles(_)
                    | Cause::Mode { .. }
                    | Cause::Discord(_)
                    | Cause::Apart { .. }
                    | Cause::AtWorst(_)
                    | Cause::Upkeep { .. }
                    | Cause::Servers { .. } => {
                        unreachable!("all here are promised as-if-alone")
                    }
                }
                let alone = matches!(witness.cause, Cause::Core(TooLarge { required: None, .. }));
                assert!(
                    !witness.nearest.is_empty() || matches!(witness.cause, Cause::Core { .. }),
                    "{alone} {witness}"
                );
                for advice in &witness.nearest {
                    *(if assert_helps(&site, &facts, &witness, advice) { &mut fits } else { &mut others }) += 1;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    let seen = [plans, multiples, below, core, cores, floors, fits, others];
    assert!(seen.iter().all(|n| *n > 50), "the cases that the law is about must occur: {seen:?}");
}

#[test]
fn a_site_with_one_fault_fits_when_the_advice_is_followed_and_the_advice_is_the_nearest() {
    let mut rng = StdRng::seed_from_u64(8);
    let mut followed = 0;
    for _ in 0..2000 {
        let (mut site, facts) = random_site(&mut rng);
        site.services.truncate(1);
        let Err(Refusal::DoesNotFit(witness)) = plan(&site, &facts) else { continue };
        for advice in &witness.nearest {
            let (better, facts) = follow(&site, &facts, &witness, advice);
            check_relaxed(&plan(&better, &facts).unwrap());
            followed += 1;
            // One nanosecond, or one tenth of a point, more does not fit.
            let beyond = match advice {
                NearestFit::Wcet { task, at_most } => {
                    NearestFit::Wcet { task: task.clone(), at_most: Duration::from_ns(at_most.ns() + 1) }
                }
                NearestFit::Margin(margin) => NearestFit::Margin(margin.checked_add(of("0.1%")).unwrap()),
                _ => continue,
            };
            let (worse, facts) = follow(&site, &facts, &witness, &beyond);
            assert!(plan(&worse, &facts).is_err(), "{beyond}");
        }
    }
    assert!(followed > 50, "{followed}");
}

fn check_relaxed(plan: &Plan) {
    assert!(plan.services.iter().all(|s| s.server.budget <= s.server.period && s.server.bandwidth() >= s.required));
}
