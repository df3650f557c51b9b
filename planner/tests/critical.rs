//! Services with criticality: every core that is planned keeps both conditions of EDF-VD, by sums of this test's own.

mod common;

use common::{every_deadline, leftovers, of, plan, site, supply, task};
use giusto_model::{
    Adopt, Backend, Bandwidth, Cap, Criticality, Duration, GuestScheduler, Origin, Plan, Promise, ServerKind, Service,
    ServicePlan, SiteCriticality,
};
use giusto_planner::{explain, Cause, Facts, NearestFit, Refusal};
use giusto_verify::check_plan;
use num_bigint::BigInt;
use num_rational::Ratio;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

type Exact = Ratio<BigInt>;

fn exact(top: u64, bottom: u64) -> Exact {
    Exact::new(top.into(), bottom.into())
}

fn low(service: Service) -> Service {
    Service { criticality: Some(SiteCriticality::Low), cap: Cap::Soft, ..service }
}

fn high(service: Service, worst: &[&str]) -> Service {
    let worst = worst.iter().map(|text| text.parse().unwrap()).collect();
    Service { criticality: Some(SiteCriticality::High { worst }), cap: Cap::Soft, ..service }
}

fn facts(cores: &[u32]) -> Facts {
    Facts::typical(cores.to_vec())
}

/// Type 1 of Table 1 of Asy20 beside three of Type 2.
fn fig5(cores: &[u32]) -> giusto_model::Site {
    let batch = |number| low(supply(&format!("batch-{number}"), &["25ms/100ms"], None));
    let memcached = high(supply("memcached", &["5ms/100ms"], None), &["25ms"]);
    site(cores, vec![memcached, batch(1), batch(2), batch(3)])
}

#[test]
fn a_critical_service_beside_three_others_has_its_virtual_deadline_on_one_core() {
    let found = plan(&fig5(&[1, 2]), &facts(&[1, 2])).unwrap();
    // First-fit: all on the first core, the other sleeps.
    assert!(found.services.iter().all(|one| one.core == 1 && one.backend == Backend::Manager && one.cap == Cap::Soft));
    // Of 93 %: x from 0.05/(0.93 - 0.75) = 5/18 to (0.93 - 0.25)/0.75; 100 ms · 5/18 = 27.777... ms, rounded up to whole ns.
    let deadline = Duration::from_ns(27_777_778);
    let memcached = Criticality::High { worst: Duration::from_ms(25), virtual_deadline: deadline };
    assert_eq!(found.services[0].criticality, Some(memcached));
    assert!(found.services[1..].iter().all(|one| one.criticality == Some(Criticality::Low)));
    let told = &found.hosts[0].admission[0];
    assert_eq!(told.x, Bandwidth::new(27_777_778, 100_000_000));
    // 80 % usually, 25 % at the worst of the high one.
    assert_eq!((told.reserved, found.services[0].left_for_others), (of("80%"), of("13%")));
    let told = explain(&found, "memcached").unwrap();
    for words in
        ["and 25 ms at its worst", "edf-vd, x = 13888889/50000000", "x from 5/18 to 68/75", "27.778 ms", "mixed order"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(explain(&found, "batch-2").unwrap().contains("while no high one of its core needs more than usual"));
}

/// A cache that wakes often gets a later deadline each time; with x = 1 it waited for all others' budgets in a row (60 ms of the real
/// memcached in tests/bench-memcached.py).
#[test]
fn where_plain_edf_would_do_the_critical_one_is_early_all_the_same() {
    let batch = |number| low(supply(&format!("batch-{number}"), &["20ms/100ms"], None));
    let memcached = high(supply("memcached", &["5ms/100ms"], None), &["30ms"]);
    let found = plan(&site(&[1], vec![memcached, batch(1), batch(2), batch(3)]), &facts(&[1])).unwrap();
    // 0.05/(0.93 - 0.6) = 5/33 of 100 ms.
    let deadline = Duration::from_ns(15_151_516);
    let expected = Criticality::High { worst: Duration::from_ms(30), virtual_deadline: deadline };
    assert_eq!(found.services[0].criticality, Some(expected));
    let told = explain(&found, "memcached").unwrap();
    assert!(told.contains("edf, x = 3787879/25000000") && told.contains("15.152 ms"), "{told}");
}

#[test]
fn deadlines_have_a_usual_and_a_worst_budget_in_one_period() {
    let tasks = vec![task("2ms/20ms", 1), giusto_model::Task { name: "vision".into(), ..task("3ms/80ms", 1) }];
    let flight = high(every_deadline("flight", tasks.clone(), GuestScheduler::Any), &["3ms", "5ms"]);
    let survey = low(every_deadline("survey", vec![task("4ms/40ms", 1)], GuestScheduler::Any));
    let found = plan(&site(&[1], vec![flight, survey]), &facts(&[1])).unwrap();
    let [one, other] = &found.services[..] else { panic!("{found:?}") };
    let Some(Criticality::High { worst, .. }) = one.criticality else { panic!("{one:?}") };
    assert!(worst > one.server.budget && worst <= one.server.period, "{one:?}");
    let proof = one.pessimistic.as_ref().unwrap();
    let wcets: Vec<Duration> = proof.tasks.iter().map(|task| task.wcet).collect();
    assert_eq!(wcets, [3, 5].map(Duration::from_ms));
    assert_eq!(one.tasks, tasks);
    assert_eq!((other.criticality, &other.pessimistic), (Some(Criticality::Low), &None));
    // The worst budget is the least of that period: it is what the worst tasks by themselves get there.
    // On a grid, since two budgets of one period are known for the periodic resource only.
    let server = Some(ServerKind::PeriodicStrict);
    let calm = giusto_model::Service { server, ..every_deadline("flight", proof.tasks.clone(), GuestScheduler::Any) };
    let alone = plan(&site(&[1], vec![calm]), &facts(&[1])).unwrap();
    assert_eq!((alone.services[0].server.period, alone.services[0].server.budget), (one.server.period, worst));
}

fn random_site(rng: &mut StdRng) -> giusto_model::Site {
    let count = rng.random_range(1..=6);
    let mut services = Vec::new();
    for number in 0..count {
        let name = format!("s{number}");
        let is_high = rng.random_bool(0.5);
        let part = |rng: &mut StdRng, period: u64, most: u64| (period * rng.random_range(1..=most) / 100).max(1);
        if rng.random_bool(0.15) {
            let period = *[20_000u64, 40_000, 50_000, 100_000].choose(rng).unwrap();
            let wcet = part(rng, period, 15);
            let worst = wcet + rng.random_range(0..=wcet);
            let mut service =
                every_deadline(&name, vec![task(&format!("{wcet}us/{period}us"), 2)], GuestScheduler::Any);
            if rng.random_bool(0.3) {
                service.origin = Origin::Adopt(Adopt::Qmp("/run/vm".into()));
                service.promise = Promise::EveryDeadline { scheduler: GuestScheduler::Any, vcpus: 2, placed: vec![] };
            }
            services.push(if is_high { high(service, &[&format!("{worst}us")]) } else { low(service) });
            continue;
        }
        let vcpus = if rng.random_bool(0.2) { 2 } else { 1 };
        let mut interfaces = Vec::new();
        let mut worst = Vec::new();
        for _ in 0..vcpus {
            let period = *[10_000u64, 12_345, 30_000, 70_000, 100_000].choose(rng).unwrap();
            let budget = part(rng, period, 40).max(200);
            interfaces.push(format!("{budget}us/{period}us"));
            worst.push(format!("{}us", rng.random_range(budget..=(budget * 3).min(period))));
        }
        let strings = |all: &[String]| -> Vec<&'static str> { all.iter().map(|one| &*one.clone().leak()).collect() };
        let mut service = supply(&name, &strings(&interfaces), None);
        if vcpus > 1 {
            service.origin = Origin::Adopt(Adopt::Qmp("/run/vm".into()));
        }
        services.push(match rng.random_range(0..10) {
            0 => Service { cap: Cap::Hard, ..service },
            _ if is_high => high(service, &strings(&worst)),
            _ => low(service),
        });
    }
    services.push(leftovers("rest", "0%"));
    let cores: Vec<u32> = (1..=rng.random_range(1..=3)).collect();
    let mut site = site(&cores, services);
    site.hosts[0].keep_free = [Bandwidth::ZERO, of("5%"), of("20%")][rng.random_range(0..3)];
    site
}

/// U1(1), U2(1), U2(2) of the servers of a core, or nothing if none has criticality; one without among them is wrong.
fn sums(here: &[&ServicePlan]) -> Option<[Exact; 3]> {
    if here.iter().all(|one| one.criticality.is_none()) {
        return None;
    }
    let mut sums = [exact(0, 1), exact(0, 1), exact(0, 1)];
    for one in here {
        let (budget, period) = (one.server.budget.ns(), one.server.period.ns());
        match one.criticality.unwrap_or_else(|| panic!("{here:?}")) {
            Criticality::Low => sums[0] += exact(budget, period),
            Criticality::High { worst, .. } => {
                sums[1] += exact(budget, period);
                sums[2] += exact(worst.ns(), period);
            }
        }
    }
    Some(sums)
}

#[derive(Debug, Default)]
struct Seen {
    planned: u32,
    edf_vd: u32,
    edf: u32,
    both: u32,
    apart: u32,
    beside_plain: u32,
    idle: u32,
    timely: u32,
    discord: u32,
    less_strict: u32,
    fits: u32,
}

#[test]
fn every_core_of_random_sites_keeps_both_conditions_and_what_is_told_to_fit_fits() {
    let mut seen = Seen::default();
    let rounds = if std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1") { 5_000 } else { 200 };
    for seed in 0..rounds {
        let rng = &mut StdRng::seed_from_u64(seed);
        let site = random_site(rng);
        let facts = facts(&site.hosts[0].cores);
        let found: Plan = match plan(&site, &facts) {
            Ok(found) => found,
            Err(Refusal::DoesNotFit(witness)) => {
                match &witness.cause {
                    Cause::Discord(discord) => {
                        seen.discord += 1;
                        seen.less_strict += u32::from(discord.unfit.less_strict);
                    }
                    Cause::Apart { .. } => seen.apart += 1,
                    _ => {}
                }
                seen.fits += u32::from(!witness.nearest.is_empty());
                continue;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        };
        seen.planned += 1;
        let keep = site.hosts[0].keep_free;
        // 2 % are the manager's.
        let most = exact(49, 50) - exact(keep.numer(), keep.denom());
        for told in &found.hosts[0].admission {
            let here: Vec<&ServicePlan> = found.services.iter().filter(|one| one.core == told.core).collect();
            let Some([low, usual, worst]) = sums(&here) else {
                assert_eq!(told.x, None, "seed {seed}");
                seen.beside_plain += 1;
                continue;
            };
            let x = told.x.unwrap_or_else(|| panic!("seed {seed}: {told:?}"));
            let x = exact(x.numer(), x.denom());
            assert!(x > exact(0, 1) && x <= exact(1, 1), "seed {seed}");
            assert!(&low + &usual / &x <= most && &x * &low + &worst <= most, "seed {seed}: {told:?}");
            let plain = &low + &worst <= most;
            let grid = here.iter().filter(|one| one.criticality != Some(Criticality::Low));
            let grid = grid.fold(0, |all, one| num_integer::gcd(all, one.server.period.ns())).max(1);
            let less = if x > exact(1, grid) { &x - exact(1, grid) } else { exact(0, 1) };
            let is_least = less == exact(0, 1) || &low + &usual / less > most;
            let alone = low == exact(0, 1) || usual == exact(0, 1);
            assert!(if alone { x == exact(1, 1) } else { is_least }, "seed {seed}: {told:?}");
            for one in &here {
                assert_eq!((one.server.kind, one.cap), (ServerKind::ConstantBandwidth, Cap::Soft), "seed {seed}");
                if let Some(Criticality::High { virtual_deadline, .. }) = one.criticality {
                    assert_eq!(exact(virtual_deadline.ns(), 1), &x * exact(one.server.period.ns(), 1), "seed {seed}");
                    seen.timely += u32::from(matches!(one.promise, Promise::EveryDeadline { .. }));
                }
            }
            let reserved = exact(told.reserved.numer(), told.reserved.denom());
            assert!(reserved >= &low + &usual && reserved >= worst, "seed {seed}");
            *(if plain { &mut seen.edf } else { &mut seen.edf_vd }) += 1;
            seen.both += u32::from(low > exact(0, 1) && usual > exact(0, 1));
        }
        let idle = site.hosts[0].cores.iter().any(|core| found.services.iter().all(|one| one.core != *core));
        seen.idle += u32::from(idle);
    }
    println!("{seen:?}");
    let Seen { planned, edf_vd, edf, both, apart, beside_plain, idle, timely, discord, less_strict, fits } = seen;
    let all = [planned, edf_vd, edf, both, apart, beside_plain, idle, timely, discord, less_strict, fits];
    assert!(all.iter().all(|&count| count >= 10), "{seen:?}");
}

#[test]
fn a_refusal_names_what_is_too_much_and_what_would_fit() {
    let of = |worst: &str| {
        let hungry = high(supply("hungry", &["10ms/100ms"], None), &[worst]);
        site(&[1], vec![hungry, low(supply("batch", &["70ms/100ms"], None))])
    };
    let Err(Refusal::DoesNotFit(witness)) = plan(&of("90ms"), &facts(&[1])) else { panic!("it fits") };
    let told = witness.to_string();
    assert!(matches!(witness.cause, Cause::Discord(_)), "{told}");
    for words in ["service 'batch'", "together with hungry", "U2(1)/(c - U1(1)) = 10/23", "the less strict test"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Whatever is told to fit does: a smaller supply, or a core more.
    let smaller = witness.nearest.iter().find_map(|fit| match fit {
        NearestFit::Supply { at_most, .. } => Some(*at_most),
        _ => None,
    });
    let smaller = smaller.unwrap_or_else(|| panic!("{told}"));
    let mut calm = of("90ms");
    calm.services[1].promise = Promise::Supply(vec![smaller]);
    plan(&calm, &facts(&[1])).unwrap();
    assert!(witness.nearest.contains(&NearestFit::MoreCores(1)), "{told}");
    // One that is alone too much at its worst.
    let alone = site(&[1], vec![high(supply("hungry", &["10ms/100ms"], None), &["95ms"])]);
    let Err(Refusal::DoesNotFit(witness)) = plan(&alone, &facts(&[1])) else { panic!("it fits") };
    let at_most = Duration::from_ms(93);
    assert_eq!(witness.nearest, [NearestFit::Worst { vcpu: None, at_most }], "{witness}");
    // Tasks whose worst does not fit on any core.
    let tasks = vec![task("2ms/20ms", 1)];
    let late = site(&[1], vec![high(every_deadline("late", tasks, GuestScheduler::Any), &["19900us"])]);
    let Err(Refusal::DoesNotFit(witness)) = plan(&late, &facts(&[1])) else { panic!("it fits") };
    assert!(witness.to_string().contains("at its worst it needs"), "{witness}");
    let [NearestFit::WorstWcet { at_most, .. }, ..] = witness.nearest[..] else { panic!("{witness}") };
    let tasks = vec![task("2ms/20ms", 1)];
    let calm = high(every_deadline("late", tasks, GuestScheduler::Any), &[&at_most.to_string().replace(' ', "")]);
    plan(&site(&[1], vec![calm]), &facts(&[1])).unwrap();
    // Beside one without criticality.
    let mixed = site(&[1], vec![supply("plain", &["5ms/100ms"], None), low(supply("batch", &["1ms/100ms"], None))]);
    let told = plan(&mixed, &facts(&[1])).unwrap_err().to_string();
    assert!(told.contains("a core is under one order") && told.contains("one core more"), "{told}");
}

#[test]
fn only_the_manager_keeps_the_mixed_order() {
    for backend in [Backend::Deadline, Backend::RtGroup, Backend::Quota] {
        let insist = Facts { insist: Some(backend), ..facts(&[1]) };
        let refused = plan(&fig5(&[1]), &insist).unwrap_err();
        let told = refused.to_string();
        assert!(matches!(refused, Refusal::Asked { .. }), "{told}");
        if backend != Backend::Quota {
            assert!(told.contains("the kernel knows no criticality") && told.contains("the manager's"), "{told}");
        }
    }
    let insist = Facts { insist: Some(Backend::Manager), ..facts(&[1]) };
    plan(&fig5(&[1]), &insist).unwrap();
}

#[test]
fn a_plan_that_was_tampered_with_is_noticed() {
    // On the second core a service with deadlines, by itself.
    let tasks = vec![task("2ms/20ms", 1)];
    let flight = high(every_deadline("flight", tasks, GuestScheduler::Any), &["3ms"]);
    let plain = plan(&fig5(&[1]), &facts(&[1])).unwrap();
    let second = plan(&site(&[2], vec![flight]), &facts(&[2])).unwrap();
    let mut good = plain.clone();
    good.services.extend(second.services);
    good.hosts[0].cores.push(2);
    good.hosts[0].admission.extend(second.hosts[0].admission.clone());
    check_plan(&good).unwrap();
    let us = Duration::from_us;
    let change = |what: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        what(&mut plan);
        match check_plan(&plan) {
            Ok(_) => panic!("not noticed"),
            Err(broken) => broken.to_string(),
        }
    };
    let critical = |plan: &mut Plan, at: usize, more: &dyn Fn(&mut Duration, &mut Duration)| {
        let Some(Criticality::High { worst, virtual_deadline }) = &mut plan.services[at].criticality else {
            panic!("{plan:?}")
        };
        more(worst, virtual_deadline);
    };
    let by_itself = good.services.len() - 1;
    let x = |plan: &Plan, share: Bandwidth| {
        let mut plan = plan.clone();
        plan.hosts[0].admission[0].x = Some(share);
        for one in plan.services.iter_mut().filter(|one| one.core == 1) {
            if let Some(Criticality::High { virtual_deadline, .. }) = &mut one.criticality {
                *virtual_deadline = Duration::from_ns(one.server.period.ns() / share.denom() * share.numer());
            }
        }
        plan
    };
    for (told, words) in [
        (change(&|plan| plan.hosts[0].admission[0].x = None), "x, the factor of virtual deadlines"),
        (change(&|plan| plan.hosts[0].admission[0].x = Some(Bandwidth::ZERO)), "a factor x of virtual deadlines"),
        (change(&|plan| plan.services[1].criticality = None), "criticality of all servers of its core"),
        (change(&|plan| plan.services[1].cap = Cap::Hard), "a soft cap"),
        (change(&|plan| plan.services[1].server.kind = ServerKind::Deferrable), "a server of the mixed order"),
        (change(&|plan| plan.services[0].pessimistic = None), "a proof of its worst budget"),
        (
            change(&|plan| plan.services[1].pessimistic = plan.services[0].pessimistic.clone()),
            "with high criticality only",
        ),
        (change(&|plan| critical(plan, 0, &|_, deadline| *deadline = us(30_000))), "x times its period"),
        (change(&|plan| critical(plan, 0, &|worst, _| *worst = us(200_000))), "a worst budget from its budget"),
        (change(&|plan| critical(plan, 0, &|worst, _| *worst = us(4_000))), "a worst budget from its budget"),
        (change(&|plan| critical(plan, by_itself, &|worst, _| *worst = us(worst.ns() / 1000 - 200))), "at its worst"),
        (
            change(&|plan| {
                plan.services[by_itself].pessimistic.as_mut().unwrap().tasks[0].wcet = us(1_999);
            }),
            "its own tasks at their worst",
        ),
        // x smaller than LO mode allows, and larger than HI mode does.
        (change(&|plan| *plan = x(plan, Bandwidth::new(1, 4).unwrap())), "room in LO mode"),
        (change(&|plan| *plan = x(plan, Bandwidth::ONE)), "room in HI mode"),
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
