//! Services that are promised processor time: laws of their plans over random sites, and the supply itself, played with the
//! policy core.

#[path = "common/advice.rs"]
mod advice;
mod common;

use advice::assert_helps;
use common::{as_if_alone, leftovers, of, plan, site, supply, task};
use giusto_model::{
    Backend, Bandwidth, Duration, Interface, ManagerLatency, Plan, Promise, ServerKind, ServicePlan, Site, Task,
};
use giusto_planner::{basis, site_basis, Cause, Facts, NearestFit, NoSupply, Refusal};
use giusto_policy::Order;
use giusto_simulator::{simulate, Error, Execution, Guest, Observer, ServerSpec, Sporadic, System, Workload};
use giusto_verify::check_site;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::path::Path;

fn on_grid(kind: ServerKind) -> bool {
    kind != ServerKind::ConstantBandwidth && kind != ServerKind::Sporadic
}

fn random_site(rng: &mut StdRng) -> (Site, Facts) {
    let mut services = Vec::new();
    let one_kind = *ServerKind::ALL[..7].choose(rng).unwrap();
    let same_period = rng.random_bool(0.3);
    for number in 0..rng.random_range(1..=4) {
        let vcpus = if rng.random_bool(0.2) { rng.random_range(2..=3) } else { 1 };
        let interfaces: Vec<String> = (0..vcpus)
            .map(|_| {
                let period = if same_period { 40 } else { [10, 16, 40, 60][rng.random_range(0..4)] };
                format!("{}ms/{period}ms", rng.random_range(1..=period / 2))
            })
            .collect();
        let kind = match rng.random_range(0..4) {
            0 => Some(*ServerKind::ALL[..7].choose(rng).unwrap()),
            1 => Some(one_kind),
            _ => None,
        };
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        services.push(supply(&format!("s{number}"), &interfaces, kind));
    }
    if rng.random_bool(0.2) {
        services.push(as_if_alone("alone", vec![task("2ms/10ms", 1)], "5%"));
    }
    services.push(leftovers("batch", ["0%", "5%", "40%"][rng.random_range(0..3)]));
    let cores: Vec<u32> = (1..=rng.random_range(1..=3)).collect();
    let mut site = site(&cores, services);
    site.hosts[0].keep_free = of(["0%", "5%", "10%"][rng.random_range(0..3)]);
    let mut facts = Facts { tick: Duration::from_ms([1, 4][rng.random_range(0..2)]), ..Facts::typical(cores) };
    facts.backends.iter_mut().for_each(|fact| fact.available = rng.random_bool(0.7));
    facts.insist = [None, None, Some(Backend::Manager), Some(Backend::RtGroup)][rng.random_range(0..4)];
    (site, facts)
}

fn sum(parts: impl IntoIterator<Item = Bandwidth>) -> Bandwidth {
    parts.into_iter().fold(Bandwidth::ZERO, |all, part| all.checked_add(part).unwrap())
}

fn ms(time: Duration) -> u64 {
    assert!(time.ns().is_multiple_of(1_000_000), "random sites have whole milliseconds");
    time.ns() / 1_000_000
}

/// What the servers of a core can ask for in a window of `t` ms that ends with a deadline, ms by ms: at first what deferrable
/// ones have left, the one that loses it first before the others; then whole budgets; renewed ones at their bandwidth.
fn asked_for(here: &[&ServicePlan], t: u64) -> f64 {
    let mut left: Vec<(u64, u64)> = (here.iter().filter(|s| s.server.kind == ServerKind::Deferrable))
        .map(|s| (t % ms(s.server.period), ms(s.server.budget)))
        .collect();
    left.sort_unstable();
    let mut kept = 0;
    for now in 0..t {
        if let Some(one) = left.iter_mut().find(|(until, left)| *until > now && *left > 0) {
            one.1 -= 1;
            kept += 1;
        }
    }
    let whole = |s: &&ServicePlan| match s.server.kind {
        ServerKind::ConstantBandwidth => t as f64 * s.server.bandwidth().as_f64(),
        _ => (t / ms(s.server.period) * ms(s.server.budget)) as f64,
    };
    kept as f64 + here.iter().map(whole).sum::<f64>()
}

fn check(site: &Site, facts: &Facts, plan: &Plan) {
    for core in &site.hosts[0].cores {
        let here: Vec<&ServicePlan> = plan.services.iter().filter(|s| s.core == *core).collect();
        let Some(first) = here.first() else { continue };
        let alone = here.iter().any(|s| s.promise == Promise::AsIfAlone || s.backend == Backend::RtGroup);
        assert!(!alone || here.len() == 1, "alone on its core");
        assert!(here.iter().all(|s| s.backend == first.backend && s.backend != Backend::Quota), "one backend a core");
        let cost = if first.backend == Backend::Manager { facts.manager_cost } else { Bandwidth::ZERO };
        let reserved = sum(here.iter().map(|s| s.server.bandwidth()));
        assert!(first.backend == Backend::Manager || reserved <= facts.deadline_bandwidth_cap);
        assert!(reserved < Bandwidth::ONE);
        for service in &here {
            assert_eq!(sum([reserved, service.left_for_others, site.hosts[0].keep_free, cost]), Bandwidth::ONE);
        }
        if here.len() > 1 && here.iter().any(|s| s.server.kind == ServerKind::Deferrable) {
            let least = here.iter().map(|s| ms(s.server.period)).min().unwrap();
            let over = (least..4000).find(|&t| asked_for(&here, t) > t as f64 + 1e-6);
            assert_eq!(over, None, "a window asks for more than its length: {here:?}");
        }
    }
    for service in &site.services {
        let Promise::Supply(interfaces) = &service.promise else { continue };
        let entries: Vec<&ServicePlan> = plan.services.iter().filter(|s| s.name == service.name).collect();
        let planned: Vec<Interface> =
            entries.iter().map(|s| Interface { budget: s.server.budget, period: s.server.period }).collect();
        assert_eq!(&planned, interfaces, "what was promised, virtual CPU by virtual CPU");
        assert!(entries.iter().zip(0..).all(|(s, n)| s.vcpu == (interfaces.len() > 1).then_some(n)));
        assert!(entries.iter().all(|s| service.server.is_none_or(|kind| kind == s.server.kind)));
        assert!(entries.iter().all(|s| facts.insist.is_none_or(|backend| backend == s.backend)));
        let tick = Duration::from_ns(10 * facts.tick.ns());
        assert!(entries.iter().all(|s| s.backend == Backend::Manager || s.server.period >= tick));
    }
}

#[test]
fn every_plan_of_supplies_keeps_the_laws_and_every_advice_makes_the_witness_fit() {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut shared, mut double, mut refused, mut windows, mut smaller, mut kinds, mut more) = (0, 0, 0, 0, 0, 0, 0);
    let (mut asked, mut lacks, mut managed, mut deadline, mut groups) = (0, 0, 0, 0, 0);
    for _ in 0..3000 {
        let (site, facts) = random_site(&mut rng);
        match plan(&site, &facts) {
            Ok(found) => {
                check(&site, &facts, &found);
                let of = |backend| usize::from(found.services.iter().any(|s| s.backend == backend));
                managed += of(Backend::Manager);
                deadline += of(Backend::Deadline);
                groups += of(Backend::RtGroup);
                let two = |s: &ServicePlan| found.services.iter().filter(|o| o.core == s.core).count() > 1;
                shared += usize::from(found.services.iter().any(two));
                let mixed = |s: &ServicePlan| {
                    let other = |o: &ServicePlan| o.core == s.core && o.server.period != s.server.period;
                    s.server.kind == ServerKind::Deferrable && found.services.iter().any(other)
                };
                double += usize::from(found.services.iter().any(mixed));
            }
            Err(Refusal::DoesNotFit(witness)) => {
                match &witness.cause {
                    Cause::Supply(NoSupply { demand, supply, whole, .. }) => {
                        refused += 1;
                        assert!(demand.bandwidth() > *supply || supply == whole, "{witness}");
                    }
                    Cause::Window { window, .. } => {
                        windows += 1;
                        assert!(window.demand > window.supply && window.supply == window.at, "{witness}");
                    }
                    _ => continue,
                }
                for advice in &witness.nearest {
                    *(match advice {
                        NearestFit::Supply { .. } => &mut smaller,
                        NearestFit::Kind(_) => &mut kinds,
                        _ => &mut more,
                    }) += 1;
                    assert_helps(&site, &facts, &witness, advice);
                }
            }
            Err(Refusal::Asked { .. }) => asked += 1,
            Err(Refusal::Machine { .. }) => lacks += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let seen = [shared, double, refused, windows, smaller, kinds, more, asked, lacks, managed, deadline, groups];
    assert!(seen.iter().all(|n| *n > 10), "the cases that the law is about must occur: {seen:?}");
}

#[test]
fn a_manager_is_never_given_more_servers_than_it_keeps() {
    let facts = |cores: &[u32]| Facts { insist: Some(Backend::Manager), ..Facts::typical(cores.to_vec()) };
    let many = |count: usize, cores: &[u32]| {
        let services = (0..count).map(|number| supply(&format!("s{number:03}"), &["1ms/100ms"], None)).collect();
        plan(&site(cores, services), &facts(cores))
    };
    for cores in [&[1][..], &[1, 2]] {
        let full = many(64 * cores.len(), cores).unwrap();
        let on = |core: &u32| full.services.iter().filter(|service| service.core == *core).count();
        assert!(cores.iter().all(|core| on(core) == 64), "as many as there are places, though there is room for 93");
        let Err(Refusal::DoesNotFit(witness)) = many(64 * cores.len() + 1, cores) else { panic!("{cores:?}") };
        assert_eq!(witness.service, format!("s{:03}", 64 * cores.len()));
        assert_eq!(
            (witness.cause, &witness.nearest[..]),
            (Cause::Servers { cores: cores.len() }, &[NearestFit::MoreCores(1)][..])
        );
    }
    let Err(Refusal::DoesNotFit(witness)) = many(65, &[1]) else { panic!() };
    assert_eq!(
        witness.to_string(),
        "service 's064' does not fit: a manager keeps 64 servers at most, and the one core with room for its supply has 64 \
         already; it fits with one core more"
    );
}

/// What the manager takes of a core for all periods of these servers, at `each`.
fn upkeep(each: Duration, here: &[&ServicePlan]) -> f64 {
    here.iter().map(|service| each.ns() as f64 / service.server.period.ns() as f64).sum()
}

#[test]
fn a_manager_has_the_time_for_all_periods_of_its_servers() {
    let us = Duration::from_us;
    let (mut more, mut refused) = (0, 0);
    for (keep_free, cores, count, period) in [
        ("0%", &[1][..], 4, 5), // 45 us each: 3.6 %, of 2 %
        ("5%", &[1], 7, 5),     // 6.3 %, of 7 %
        ("5%", &[1], 8, 5),
        ("5%", &[1, 2], 14, 5),
        ("5%", &[1, 2], 15, 5),
        ("1%", &[1, 2], 8, 10),
        ("0%", &[1], 4, 10),
    ] {
        let service = |number: u32| format!("  s{number}: {{start: [sleep], promise: {{supply: 100us/{period}ms}}}}\n");
        let text = format!(
            "giusto: 1\nhosts: {{h: {{cores: {cores:?}, keep-free: {keep_free}}}}}\nservices:\n{}",
            (0..count).map(service).collect::<String>()
        );
        let site = giusto_site::parse("site.yaml", &text).unwrap();
        let facts = Facts { insist: Some(Backend::Manager), ..Facts::typical(cores.to_vec()) };
        let room = (0.02 + site.hosts[0].keep_free.as_f64()) / (0.045 / f64::from(period));
        let fits = cores.len() as f64 * (room + 1e-9).floor();
        match plan(&site, &facts) {
            Ok(mut plan) => {
                plan.basis = Some(basis(&plan, site_basis(Path::new("/site.yaml"), text.as_bytes()), &facts));
                assert!(f64::from(count) <= fits, "{count} fit, {fits} may");
                for told in &plan.hosts[0].admission {
                    let here: Vec<_> = plan.services.iter().filter(|service| service.core == told.core).collect();
                    let takes = upkeep(us(45), &here);
                    assert_eq!(told.upkeep.is_some(), takes > 0.02, "told where it is more than what any takes");
                    assert!((told.upkeep.unwrap_or(told.cost).as_f64() - takes.max(0.02)).abs() < 1e-9);
                    more += usize::from(told.upkeep.is_some());
                }
                check_site(&plan, &site, text.as_bytes()).unwrap();
                for forged in [None, Some(Bandwidth::new(1, 50).unwrap()), Some(Bandwidth::new(9, 100).unwrap())] {
                    let mut plan = plan.clone();
                    if plan.hosts[0].admission[0].upkeep.is_some() {
                        plan.hosts[0].admission[0].upkeep = forged;
                        assert!(check_site(&plan, &site, text.as_bytes()).is_err(), "{forged:?}");
                    }
                }
            }
            Err(Refusal::DoesNotFit(witness)) => {
                assert!(matches!(witness.cause, Cause::Upkeep { .. }), "{witness}");
                assert!(f64::from(count) > fits, "{count} do not fit, {fits} may: {witness}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(more > 2 && refused > 2, "{more} {refused}");
}

#[test]
fn the_managers_shortest_period_is_that_at_which_it_was_measured_to_be_cheap() {
    let us = Duration::from_us;
    let site = site(&[1], vec![supply("fast", &["200us/1ms"], None)]);
    let with = |cost: Option<Duration>| {
        let manager = Some(ManagerLatency { loss: us(20), late: us(100), periods: 600, cost });
        plan(&site, &Facts { manager, ..Facts::typical(vec![1]) })
    };
    assert_eq!(with(Some(us(50))).unwrap().services[0].server.period, Duration::from_ms(1));
    for (cost, from) in [(None, "5 ms"), (Some(us(51)), "1.1 ms"), (Some(us(1000)), "10 ms")] {
        let why = with(cost).unwrap_err().to_string();
        assert!(why.contains(&format!("not manager: it keeps periods from {from} to 4 s")), "{why}");
    }
}

/// One core, nothing kept free, reserved as far as whole milliseconds go.
fn full_core(rng: &mut StdRng) -> Site {
    // Beside a deferrable server a core is seldom reserved to the end.
    let (mut services, mut left) = (Vec::new(), [0.99, 0.9, 0.8][rng.random_range(0..3)]);
    let mut kinds = [(); 2].map(|()| *ServerKind::ALL[..7].choose(rng).unwrap());
    if rng.random_bool(0.3) {
        kinds[0] = ServerKind::Deferrable; // the kind whose test is not the sum
        if rng.random_bool(0.4) {
            kinds[1] = ServerKind::ConstantBandwidth; // and the one that asks for most beside it
        }
    }
    let same_period = rng.random_bool(0.5);
    for number in 0..rng.random_range(1..=4) {
        let period = if same_period { 20 } else { [5, 10, 12, 20, 30][rng.random_range(0..5)] };
        let most = (left * period as f64) as u64;
        if most == 0 {
            break;
        }
        let budget = if rng.random_bool(0.5) { most } else { rng.random_range(1..=most) };
        left -= budget as f64 / period as f64;
        let kind = Some(kinds[rng.random_range(0..2)]);
        services.push(supply(&format!("s{number}"), &[&format!("{budget}ms/{period}ms")], kind));
    }
    services.push(leftovers("batch", "0%"));
    let mut site = site(&[1], services);
    site.hosts[0].keep_free = Bandwidth::ZERO;
    site
}

const HORIZON: u64 = 500_000_000;

/// What server `victim` got, and when `rest` had the core.
struct Watch {
    victim: usize,
    rest: usize,
    got: Vec<(u64, u64)>,
    free: Vec<(u64, u64)>,
}

impl Observer for Watch {
    fn slice(&mut self, server: usize, _job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        if server == self.victim {
            self.got.push((from, to));
        }
        if server == self.rest {
            self.free.push((from, to));
        }
        Ok(())
    }
}

/// What the workloads of a core do.
struct Scene {
    /// From when on the victim has work, without end.
    ready: Duration,
    /// From when on all others have too, after they waited with full budgets; else they come and go at random.
    waiting: Option<Duration>,
}

/// The servers of a plan on one core, under EDF, on grids that begin at `first`.
fn play(plan: &Plan, victim: usize, scene: &Scene, first: &[Duration], rng: &mut StdRng) -> Watch {
    let mut servers: Vec<ServerSpec> = plan
        .services
        .iter()
        .enumerate()
        .map(|(index, service)| {
            let (budget, period) = (service.server.budget.ns(), service.server.period.ns());
            let endless = |offset| Task { offset, ..task("9s/9s", 1) };
            let mut work = || {
                let (execution, sporadic) = (Execution::Worst, Sporadic::Densest);
                let all = |tasks| Workload { tasks, guest: Guest::Fifo, execution: execution.clone(), sporadic };
                match scene.waiting {
                    _ if index == victim => all(vec![endless(scene.ready)]),
                    // One whose budget is renewed uses a little of it before.
                    Some(from) if rng.random_bool(0.5) => {
                        let wcet = rng.random_range(1..=budget);
                        let before = from.ns().saturating_sub(wcet + rng.random_range(0..=period));
                        let little = Task { wcet: Duration::from_ns(wcet), ..endless(Duration::from_ns(before)) };
                        all(vec![little, endless(from)])
                    }
                    Some(from) => all(vec![endless(from)]),
                    // Bursts of up to two budgets after a rest, at any phase.
                    None => {
                        let wcet = [budget / 4, budget / 2, budget, 2 * budget][rng.random_range(0..4)];
                        let gap = Duration::from_ns(wcet.max(rng.random_range(budget / 2..3 * period)));
                        let (wcet, offset) = (Duration::from_ns(wcet), Duration::from_ms(rng.random_range(0..50)));
                        let tasks = vec![Task { wcet, period: gap, deadline: gap, offset, ..task("1ms/2ms", 1) }];
                        let sporadic = if rng.random_bool(0.5) { Sporadic::Random } else { Sporadic::Densest };
                        Workload { tasks, guest: Guest::Fifo, execution: Execution::Worst, sporadic }
                    }
                }
            };
            let workload = Some(work());
            ServerSpec {
                kind: service.server.kind,
                budget: service.server.budget,
                period: service.server.period,
                first: first[index],
                priority: 0,
                vcpus: 1,
                workload,
            }
        })
        .collect();
    servers.push(ServerSpec { kind: ServerKind::Unlimited, workload: None, priority: 1, ..servers[0].clone() });
    let mut watch = Watch { victim, rest: servers.len() - 1, got: Vec::new(), free: Vec::new() };
    let system = System::new(Order::Edf, servers);
    simulate(&system, Duration::from_ns(HORIZON), rng.random(), &mut watch).unwrap();
    watch
}

/// A victim with work from an instant on; half of the time all others wait for one, and where grids are apart their periods
/// end together some time after it.
fn random_scene(plan: &Plan, rng: &mut StdRng) -> (Scene, Vec<Duration>) {
    let whole = |rng: &mut StdRng| Duration::from_ms(rng.random_range(0..50));
    let apart = rng.random_bool(0.5);
    let due = 60 + rng.random_range(0..60);
    let first = plan.services.iter().map(|s| match apart && on_grid(s.server.kind) {
        true => Duration::from_ms(due % ms(s.server.period)),
        false => Duration::ZERO,
    });
    let first = first.collect();
    let waiting = rng.random_bool(0.5).then(|| Duration::from_ms(60));
    let ready = match waiting {
        Some(from) if rng.random_bool(0.7) => Duration::from_ns(from.ns() - 1_000_000 * rng.random_range(0..=10)),
        _ if rng.random_bool(0.5) => Duration::ZERO,
        _ => whole(rng),
    };
    (Scene { ready, waiting }, first)
}

#[test]
fn under_the_policy_core_every_supply_is_kept_and_no_leftover_waits_longer_than_planned() {
    let mut rng = StdRng::seed_from_u64(10);
    let (mut windows, mut shared, mut longest) = (0, 0, 0.0f64);
    let (mut double, mut renewed, mut parted) = (0, 0, 0);
    let mut kinds = HashMap::new();
    for _ in 0..8000 {
        let site = full_core(&mut rng);
        let Ok(plan) = plan(
            &site,
            &Facts { manager_cost: Bandwidth::ZERO, period_cost: Duration::ZERO, ..Facts::typical(vec![1]) },
        ) else {
            continue;
        };
        shared += usize::from(plan.services.len() > 1);
        let of = |kind| plan.services.iter().any(|s| s.server.kind == kind);
        let periods: HashSet<_> = plan.services.iter().map(|s| s.server.period).collect();
        double += usize::from(of(ServerKind::Deferrable) && periods.len() > 1);
        renewed += usize::from(of(ServerKind::Deferrable) && of(ServerKind::ConstantBandwidth));
        parted += usize::from(of(ServerKind::Deferrable) && of(ServerKind::Sporadic));
        for (victim, service) in plan.services.iter().enumerate() {
            *kinds.entry(service.server.kind).or_insert(0) += 1;
            let (budget, period) = (service.server.budget.ns(), service.server.period.ns());
            let (scene, first) = random_scene(&plan, &mut rng);
            let watch = play(&plan, victim, &scene, &first, &mut rng);
            // Its periods: of the grid, or from its wake-up on.
            let (grid, ready, begin) = (on_grid(service.server.kind), scene.ready.ns(), first[victim].ns());
            let first = if grid { begin + ready.saturating_sub(begin).next_multiple_of(period) } else { ready };
            for window in 0..(HORIZON - first) / period {
                let (from, to) = (first + window * period, first + (window + 1) * period);
                let got: u64 = watch.got.iter().map(|&(a, b)| b.min(to).saturating_sub(a.max(from))).sum();
                assert!(got >= budget, "{got} of {budget} in {from}..{to}: {:?}", plan.services);
                windows += 1;
            }
            let wait = plan.leftovers[0].longest_wait.ns();
            let mut since = 0;
            for &(from, to) in &watch.free {
                assert!(from - since <= wait, "{} > {wait}: {:?}", from - since, plan.services);
                longest = longest.max((from - since) as f64 / wait as f64);
                since = to;
            }
        }
    }
    println!("{windows} windows, {shared} shared cores, {longest}, {kinds:?}");
    println!("a deferrable server beside other periods {double}, constant_bandwidth {renewed}, sporadic {parted}");
    assert!(double > 100 && renewed > 100 && parted > 50);
    assert!(windows > 20_000 && shared > 50 && longest > 0.5, "{windows} windows, {shared} shared, {longest}");
    assert!(kinds.len() == 7, "{kinds:?}");
}
