//! Services that are promised processor time: laws of their plans over random sites, and the supply itself, played with the
//! policy core.

mod common;

use common::{as_if_alone, leftovers, of, plan, site, supply, task};
use giusto_model::{Backend, Bandwidth, Duration, Interface, Plan, Promise, ServerKind, ServicePlan, Site, Task};
use giusto_planner::{Cause, Facts, NearestFit, Refusal};
use giusto_policy::Order;
use giusto_simulator::{simulate, Error, Execution, Guest, Observer, ServerSpec, Sporadic, System, Workload};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

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
        if here.iter().any(|s| s.server.kind == ServerKind::Deferrable) {
            let one_grid = |s: &&ServicePlan| s.server.period == first.server.period && on_grid(s.server.kind);
            assert!(here.len() == 1 || here.iter().all(one_grid), "deferrable servers share one grid");
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

/// The site after following the advice.
fn follow(site: &Site, facts: &Facts, service: &str, advice: &NearestFit) -> (Site, Facts) {
    let (mut site, mut facts) = (site.clone(), facts.clone());
    match advice {
        NearestFit::Supply { vcpu, at_most } => {
            let witness = site.services.iter_mut().find(|s| s.name == service).unwrap();
            let Promise::Supply(interfaces) = &mut witness.promise else { panic!("{advice}") };
            interfaces[vcpu.unwrap_or(0) as usize] = *at_most;
        }
        NearestFit::MoreCores(more) => {
            site.hosts[0].cores.extend(100..100 + *more as u32);
            facts.cores.extend(100..100 + *more as u32);
        }
        other => panic!("{other}"),
    }
    (site, facts)
}

#[test]
fn every_plan_of_supplies_keeps_the_laws_and_every_advice_makes_the_witness_fit() {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut shared, mut grids, mut refused, mut smaller, mut more) = (0, 0, 0, 0, 0);
    let (mut not_yet, mut lacks, mut managed, mut deadline, mut groups) = (0, 0, 0, 0, 0);
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
                let grid = |s: &ServicePlan| two(s) && s.server.kind == ServerKind::Deferrable;
                grids += usize::from(found.services.iter().any(grid));
            }
            Err(Refusal::DoesNotFit(witness)) => {
                let Cause::Supply { demand, supply, whole, .. } = witness.cause else { continue };
                refused += 1;
                assert!(demand.bandwidth() > supply || supply == whole, "{witness}");
                for advice in &witness.nearest {
                    *(if matches!(advice, NearestFit::Supply { .. }) { &mut smaller } else { &mut more }) += 1;
                    let (site, facts) = follow(&site, &facts, &witness.service, advice);
                    if let Err(Refusal::DoesNotFit(next)) = plan(&site, &facts) {
                        let same = matches!(next.cause, Cause::Supply { .. }) && next.service == witness.service;
                        assert!(!same, "{advice} does not help: {next}");
                    }
                }
            }
            Err(Refusal::Asked { .. }) => not_yet += 1,
            Err(Refusal::Machine { .. }) => lacks += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let seen = [shared, grids, refused, smaller, more, not_yet, lacks, managed, deadline, groups];
    assert!(seen.iter().all(|n| *n > 20), "the cases that the law is about must occur: {seen:?}");
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

/// One core, nothing kept free, reserved as far as whole milliseconds go.
fn full_core(rng: &mut StdRng) -> Site {
    let (mut services, mut left) = (Vec::new(), 0.99);
    let mut kinds = [(); 2].map(|()| *ServerKind::ALL[..7].choose(rng).unwrap());
    if rng.random_bool(0.3) {
        kinds[0] = ServerKind::Deferrable; // the kind whose test is not the sum
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

/// The servers of a plan on one core, under EDF: one has work from `ready` on, without end, the others at random.
fn play(plan: &Plan, victim: usize, ready: Duration, rng: &mut StdRng) -> Watch {
    let mut servers: Vec<ServerSpec> = plan
        .services
        .iter()
        .enumerate()
        .map(|(index, service)| {
            // Bursts of up to two budgets after a rest, at any phase: the worst for what keeps a budget while idle.
            let mut work = || {
                let (budget, period) = (service.server.budget.ns(), service.server.period.ns());
                let wcet = Duration::from_ns([budget / 4, budget / 2, budget, 2 * budget][rng.random_range(0..4)]);
                let gap = Duration::from_ns(wcet.ns().max(rng.random_range(budget / 2..3 * period)));
                let offset = Duration::from_ms(rng.random_range(0..50));
                if index == victim {
                    let endless = vec![Task { offset: ready, ..task("9s/9s", 1) }];
                    let (execution, sporadic) = (Execution::Worst, Sporadic::Densest);
                    return Workload { tasks: endless, guest: Guest::Fifo, execution, sporadic };
                }
                let tasks = vec![Task { wcet, period: gap, deadline: gap, offset, ..task("1ms/2ms", 1) }];
                let sporadic = if rng.random_bool(0.5) { Sporadic::Random } else { Sporadic::Densest };
                Workload { tasks, guest: Guest::Fifo, execution: Execution::Worst, sporadic }
            };
            let workload = Some(work());
            ServerSpec {
                kind: service.server.kind,
                budget: service.server.budget,
                period: service.server.period,
                first: Duration::ZERO,
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

#[test]
fn under_the_policy_core_every_supply_is_kept_and_nobody_waits_longer_than_planned() {
    let mut rng = StdRng::seed_from_u64(10);
    let (mut windows, mut shared, mut longest) = (0, 0, 0.0f64);
    let mut kinds = std::collections::HashMap::new();
    for _ in 0..8000 {
        let site = full_core(&mut rng);
        let Ok(plan) = plan(&site, &Facts { manager_cost: Bandwidth::ZERO, ..Facts::typical(vec![1]) }) else {
            continue;
        };
        shared += usize::from(plan.services.len() > 1);
        for (victim, service) in plan.services.iter().enumerate() {
            *kinds.entry(service.server.kind).or_insert(0) += 1;
            let (budget, period) = (service.server.budget.ns(), service.server.period.ns());
            let ready = Duration::from_ms(rng.random_range(0..50) * rng.random_range(0..=1));
            let watch = play(&plan, victim, ready, &mut rng);
            // Its periods: of the grid, or from its wake-up on.
            let grid = on_grid(service.server.kind);
            let first = if grid { ready.ns().next_multiple_of(period) } else { ready.ns() };
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
    assert!(windows > 20_000 && shared > 50 && longest > 0.5, "{windows} windows, {shared} shared, {longest}");
    assert!(kinds.len() == 7, "{kinds:?}");
}
