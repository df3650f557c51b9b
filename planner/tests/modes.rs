//! Modes of random sites: every mode of every plan fits by an independent test of each core, every local mode keeps
//! its deadlines by an independent test of each virtual CPU, and what is refused is refused for a reason.

mod common;

use common::{every_deadline, leftovers, of, plan, site, supply};
use giusto_model::{
    Adopt, AgentKey, Bandwidth, Certificate, ChangePolicy, Duration, GuestScheduler, Interface, Listen, LocalNeed,
    LocalPlan, MemberMode, ModeChanges, ModesPlan, OnTimeout, Origin, Plan, Promise, Requests, Scheduler, ServerKind,
    Service, ServiceMode, Site, SiteMode, SiteModes, Task, Transition, AGENT_TASK, STOPPED,
};
use giusto_planner::{admit_modes, Cause, Facts, ModeCause, ModeFit, ModesRefusal, NearestFit, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

fn task(name: &str, notation: &str) -> Task {
    Task { name: name.into(), ..notation.parse().unwrap() }
}

fn agent(cost: &str) -> Option<AgentKey> {
    Some(AgentKey { key: "/etc/giusto/keys/a".into(), cost: cost.parse().unwrap(), asks: vec![] })
}

/// A service with these local modes: `cruise: 2ms/20ms; land: 3ms/20ms 8ms/100ms`.
fn modal(name: &str, modes: &str, scheduler: GuestScheduler) -> Service {
    let mode = |text: &str| {
        let (name, tasks) = text.split_once(':').unwrap();
        let tasks = tasks.split_whitespace().enumerate().map(|(nth, one)| task(&format!("t{nth}"), one)).collect();
        ServiceMode { name: name.trim().into(), need: LocalNeed::Tasks { tasks, placed: Vec::new() } }
    };
    let modes: Vec<ServiceMode> = modes.split(';').map(mode).collect();
    let LocalNeed::Tasks { tasks, .. } = &modes[0].need else { panic!() };
    Service {
        agent: agent("100us"),
        ..Service { modes: modes.clone(), ..every_deadline(name, tasks.clone(), scheduler) }
    }
}

fn changes(policy: Option<ChangePolicy>) -> ModeChanges<Option<ChangePolicy>> {
    ModeChanges {
        policy,
        transition: Transition::Fast,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        timeout: Duration::from_ms(50),
        spacing: Duration::from_secs(1),
        listen: vec![Listen::usual()],
    }
}

/// Modes such as `normal: a=cruise b=full`, `emergency within 5ms: a=land b=low batch=stopped`.
fn modes(site: &mut Site, policy: Option<ChangePolicy>, all: &[&str]) {
    let mode = |text: &&str| {
        let (head, locals) = text.split_once(':').unwrap();
        let (name, within) = head.split_once(" within ").map_or((head, None), |(n, w)| (n, Some(w.parse().unwrap())));
        let local = |one: &str| {
            let (service, local) = one.split_once('=').unwrap();
            MemberMode { service: service.into(), local: local.into() }
        };
        SiteMode { name: name.into(), within, urgent: false, locals: locals.split_whitespace().map(local).collect() }
    };
    site.modes = Some(SiteModes { changes: changes(policy), modes: all.iter().map(mode).collect() });
}

fn example(policy: Option<ChangePolicy>, within: &str) -> Site {
    let flight = modal("flight", "cruise: 2ms/20ms; land: 3ms/20ms 8ms/100ms", GuestScheduler::Any);
    let survey = modal("survey", "full: 15ms/50ms; low: 5ms/100ms", GuestScheduler::Any);
    let mut site = site(&[1], vec![flight, survey, leftovers("batch", "0%")]);
    let emergency = format!("emergency within {within}: flight=land survey=low batch=stopped");
    modes(&mut site, policy, &["normal: flight=cruise survey=full batch=running", &emergency]);
    site
}

fn facts() -> Facts {
    Facts::typical((0..16).collect())
}

/// The local modes of a mode.
fn locals<'a>(modes: &'a ModesPlan, names: &[String]) -> Vec<&'a LocalPlan> {
    let one = |(place, name): (usize, &String)| modes.local(place, name).unwrap();
    names.iter().enumerate().map(one).collect()
}

/// Σ B/P of each core in a mode, boosts included, by floating point: an independent test of each core.
fn sums(plan: &Plan, names: &[String]) -> Vec<(u32, f64)> {
    let modes = plan.only_modes().unwrap();
    let chosen = locals(modes, names);
    let cores = &plan.only_host().unwrap().cores;
    let share = |budget: Duration, period: Duration| budget.ns() as f64 / period.ns() as f64;
    let sum = |core: &u32| {
        let mut sum = 0.0;
        for entry in plan.services.iter().filter(|entry| entry.core == *core) {
            let member = modes.members.iter().position(|member| member.service == entry.name);
            let nth = plan.services.iter().filter(|e| e.name == entry.name).position(|e| e.vcpu == entry.vcpu).unwrap();
            let server = member.map_or(entry.server, |place| chosen[place].servers[nth]);
            sum += share(server.budget, server.period);
            let first = entry.vcpu.unwrap_or(0) == 0;
            if let (Some(place), true, true) = (member, first, modes.boosts()) {
                let cost = modes.members[place].agent.as_ref().unwrap().cost;
                sum += share(cost, modes.changes.spacing);
            }
        }
        (*core, sum)
    };
    cores.iter().map(sum).collect()
}

/// Σ of work that may be asked for in a window of length t against the periodic resource's supply, instant by instant
/// in 10 us: an independent test of one virtual CPU. Jobs wait for all others, or by earliest deadline.
fn keeps_deadlines(tasks: &[Task], scheduler: GuestScheduler, budget: u64, period: u64, latency: u64) -> bool {
    let supply = |t: u64| {
        let gap = period - budget;
        let after = t.saturating_sub(latency).saturating_sub(2 * gap);
        if t < latency + 2 * gap {
            0
        } else {
            after / period * budget + (after % period).min(budget)
        }
    };
    let ask = |t: u64, of: &mut dyn Iterator<Item = &Task>| -> u64 {
        of.map(|one| t.div_ceil(one.period.ns()) * one.wcet.ns() * u64::from(one.copies)).sum()
    };
    let step = 10_000;
    match scheduler {
        GuestScheduler::Own(Scheduler::Edf) => {
            let due = |t: u64| -> u64 {
                let jobs =
                    |one: &Task| if t < one.deadline.ns() { 0 } else { (t - one.deadline.ns()) / one.period.ns() + 1 };
                tasks.iter().map(|one| jobs(one) * one.wcet.ns() * u64::from(one.copies)).sum()
            };
            (1..=60_000).all(|k| due(k * step) <= supply(k * step))
        }
        GuestScheduler::Any => {
            let shortest = tasks.iter().map(|one| one.deadline.ns()).min().unwrap();
            (1..=shortest / step).any(|k| ask(k * step, &mut tasks.iter()) <= supply(k * step))
                || ask(shortest, &mut tasks.iter()) <= supply(shortest)
        }
        GuestScheduler::Own(order) => (0..tasks.len()).all(|place| {
            let key = |nth: usize| (if order == Scheduler::Rm { tasks[nth].period } else { tasks[nth].deadline }, nth);
            let ahead: Vec<&Task> =
                (0..tasks.len()).filter(|nth| key(*nth) <= key(place)).map(|nth| &tasks[nth]).collect();
            let until = tasks[place].deadline.ns();
            let done = |t: u64| ask(t, &mut ahead.iter().copied()) <= supply(t);
            (1..=until / step).any(|k| done(k * step)) || done(until)
        }),
    }
}

#[test]
fn the_example_has_two_modes_on_one_core_that_reserving_for_the_worst_would_not_fit() {
    let site = example(None, "10ms");
    let plan = plan(&site, &facts()).unwrap();
    let modes = plan.only_modes().unwrap();
    assert_eq!(modes.changes.policy, ChangePolicy::Boost);
    let names: Vec<&str> = modes.members[0].locals.iter().map(|local| local.name.as_str()).collect();
    assert_eq!(names, ["cruise", "land", STOPPED]);
    // The least that theory asks for: cruise and full, and never both of the larger ones.
    assert!(modes.static_cost.fixed > modes.static_cost.modal, "{:?}", modes.static_cost);
    for (place, member) in modes.members[..2].iter().enumerate() {
        let server = plan.services[place].server;
        assert!(member.locals.iter().all(|local| local.servers[0].period == server.period), "one period in all modes");
        assert_eq!(member.locals[0].servers[0], server, "the plan is that of the first mode");
        let [cheap, worst] = [&member.locals[2], &member.locals[place ^ 1]];
        assert!(cheap.servers[0].budget < worst.servers[0].budget);
        assert_eq!(member.locals[2].proofs[0].tasks[0].name, AGENT_TASK);
    }
    // Three change, two of them with agents of 100 us: 3 · 300 us + 2 · (100 us + 500 us).
    assert_eq!(modes.modes[1].bound, Duration::from_us(2_100));
    assert_eq!(modes.modes[0].bound, modes.modes[1].bound);
    let boost = Interface { budget: Duration::from_us(200), period: Duration::from_secs(1) };
    assert_eq!(modes.modes[1].admission[0].boost, Some(boost));
}

#[test]
fn the_plan_in_its_first_mode_is_the_plan_and_in_another_it_is_proven_too() {
    let plan = plan(&example(None, "10ms"), &facts()).unwrap();
    let modes = plan.only_modes().unwrap();
    let first = plan.in_mode(&modes.modes[0].locals).unwrap();
    for (entry, own) in plan.services.iter().zip(&first.services) {
        assert_eq!((entry.server, &entry.tasks, &entry.certificate), (own.server, &own.tasks, &own.certificate));
        assert_eq!((entry.left_for_others, entry.hold), (own.left_for_others, own.hold));
    }
    assert_eq!((&plan.hosts, &plan.leftovers), (&first.hosts, &first.leftovers));
    let other = plan.in_mode(&modes.modes[1].locals).unwrap();
    check_plan(&Plan { modes: Vec::new(), ..other.clone() }).unwrap();
    assert!(other.services[0].server.budget > plan.services[0].server.budget);
    assert!(other.services[1].server.budget < plan.services[1].server.budget);
    for bad in [&["land"][..], &["land", "low", "cruise"], &["x", "low", "stopped"]] {
        let bad: Vec<String> = bad.iter().map(|local| local.to_string()).collect();
        assert!(plan.in_mode(&bad).is_none());
        assert!(matches!(admit_modes(&plan, &bad), Err(ModesRefusal::Unknown(_))));
    }
}

#[test]
fn an_urgent_mode_costs_agents_and_boosts_twice_and_the_change_that_it_meets() {
    let planned = |urgent: bool| {
        let mut site = example(Some(ChangePolicy::Boost), "10ms");
        site.modes.as_mut().unwrap().modes[1].urgent = urgent;
        plan(&site, &facts()).unwrap()
    };
    let [plain, urgent] = [false, true].map(planned);
    check_plan(&urgent).unwrap();
    let (us, of) = (Duration::from_us, |plan: &Plan| plan.only_modes().unwrap().clone());
    for mode in of(&urgent).modes {
        assert_eq!(mode.admission[0].boost.unwrap().budget, us(2 * 200), "two agents, two changes in a spacing");
    }
    for member in of(&urgent).members.iter().filter(|member| member.agent.is_some()) {
        assert!(member.locals.iter().all(|local| local.proofs[0].tasks[0].wcet == us(200)), "work for both");
    }
    // Three services of 300 us, two agents with C, each 500 us late: 900 + 2 (500 + C); the urgent one after the other
    // to normal.
    assert_eq!(of(&plain).modes[1].bound, us(2100));
    assert_eq!((of(&urgent).modes[0].bound, of(&urgent).modes[1].bound), (us(2300), us(4600)));
    let mut site = example(Some(ChangePolicy::Boost), "4599us");
    site.modes.as_mut().unwrap().modes[1].urgent = true;
    assert!(matches!(plan(&site, &facts()), Err(Refusal::Modes(_))));
    // Plans that pretend otherwise.
    let broken = |forge: &dyn Fn(&mut ModesPlan)| {
        let mut plan = plain.clone();
        forge(&mut plan.modes[0]);
        check_plan(&plan).unwrap_err()
    };
    broken(&|modes| modes.modes[1].urgent = true);
}

#[test]
fn a_change_that_takes_too_long_is_refused_with_what_would_do() {
    let Err(Refusal::Modes(refusal)) = plan(&example(Some(ChangePolicy::Greedy), "10ms"), &facts()) else { panic!() };
    assert_eq!((refusal.from.as_str(), refusal.to.as_str()), ("normal", "emergency"));
    let ModeCause::Late { bound, within, ref slowest, .. } = refusal.cause else { panic!("{refusal}") };
    assert!(bound > within && ["flight", "survey"].contains(&slowest.as_str()), "{refusal}");
    assert_eq!(refusal.nearest, [ModeFit::Policy(ChangePolicy::Boost), ModeFit::Within(bound)]);
    plan(&example(Some(ChangePolicy::Boost), "10ms"), &facts()).unwrap();
    let told = format!("{}ns", bound.ns());
    plan(&example(Some(ChangePolicy::Greedy), &told), &facts()).unwrap();
    let Err(Refusal::Modes(_)) = plan(&example(Some(ChangePolicy::Greedy), &format!("{}ns", bound.ns() - 1)), &facts())
    else {
        panic!("the bound is the nearest fit")
    };
}

#[test]
fn a_mode_without_room_is_refused_with_the_mode_and_the_longest_wcet() {
    let mut site = example(None, "10ms");
    let LocalNeed::Tasks { tasks, .. } = &mut site.services[0].modes[1].need else { panic!() };
    tasks[1].wcet = Duration::from_ms(60);
    let Err(Refusal::DoesNotFit(witness)) = plan(&site, &facts()) else { panic!() };
    let told = witness.to_string();
    let Cause::Mode { local, .. } = &witness.cause else { panic!("{told}") };
    assert!(local.as_deref() == Some("land") && told.contains("'land'"), "{told}");
    let wcet = witness.nearest.iter().find_map(|fit| match fit {
        NearestFit::Wcet { task, at_most } => Some((task.clone(), *at_most)),
        _ => None,
    });
    let (name, at_most) = wcet.unwrap_or_else(|| panic!("{told}"));
    let with = |wcet: Duration| {
        let mut site = site.clone();
        let LocalNeed::Tasks { tasks, .. } = &mut site.services[0].modes[1].need else { panic!() };
        tasks.iter_mut().find(|task| task.name == name).unwrap().wcet = wcet;
        plan(&site, &facts()).is_ok()
    };
    assert!(with(at_most) && !with(Duration::from_ns(at_most.ns() + 2_000)), "{told}");
}

#[test]
fn two_vms_that_swap_their_virtual_cpus_on_full_cores_have_no_order() {
    // Each has virtual CPUs on both cores; in the other mode the large and the small one change places.
    let vm = |name: &str, modes: [[&str; 2]; 2]| {
        let interfaces = |mode: [&str; 2]| mode.iter().map(|one| one.parse().unwrap()).collect::<Vec<Interface>>();
        let mode = |(name, mode): (&str, [&str; 2])| ServiceMode {
            name: name.into(),
            need: LocalNeed::Supply(interfaces(mode)),
        };
        let origin = Origin::Adopt(Adopt::Libvirt(name.into()));
        let modes = [("x", modes[0]), ("y", modes[1])].into_iter().map(mode).collect();
        Service { origin, agent: agent("100us"), modes, ..supply(name, &["4ms/10ms", "1ms/10ms"], None) }
    };
    let (large, small) = (["6ms/10ms", "2ms/10ms"], ["2ms/10ms", "6ms/10ms"]);
    let of = |cores: &[u32]| {
        let mut site = site(cores, vec![vm("a", [large, small]), vm("b", [small, large])]);
        modes(&mut site, Some(ChangePolicy::Sequential), &["one: a=x b=x", "two: a=y b=y"]);
        site
    };
    let Err(Refusal::Modes(refusal)) = plan(&of(&[1, 2]), &facts()) else { panic!() };
    let ModeCause::NoOrder { cores, services } = &refusal.cause else { panic!("{refusal}") };
    assert!(!cores.is_empty() && services == &["a", "b"], "{refusal}");
    // More cores do not help: each virtual CPU goes to the first core with room, and these have it in both modes.
    assert!(refusal.nearest.is_empty() && plan(&of(&[1, 2, 3, 4]), &facts()).is_err(), "{refusal}");
    // With room for one of them to go first there is an order.
    let mut roomy = of(&[1, 2]);
    for service in &mut roomy.services {
        for mode in &mut service.modes {
            let LocalNeed::Supply(all) = &mut mode.need else { panic!() };
            all.iter_mut()
                .filter(|one| one.budget == Duration::from_ms(6))
                .for_each(|one| one.budget = Duration::from_ms(4));
        }
    }
    plan(&roomy, &facts()).unwrap();
}

#[test]
fn boosts_need_the_manager_and_the_planner_knows() {
    let facts = Facts { insist: Some(giusto_model::Backend::Deadline), tick: Duration::from_ms(1), ..facts() };
    let mut site = example(Some(ChangePolicy::Boost), "10ms");
    site.hosts[0].cores = vec![1, 2];
    let Err(Refusal::Asked { why, .. }) = plan(&site, &facts) else { panic!() };
    assert!(why.contains("deadline"), "{why}");
    let mut site = example(None, "1s");
    site.hosts[0].cores = vec![1, 2];
    let plan = plan(&site, &facts).unwrap();
    assert_eq!(plan.only_modes().unwrap().changes.policy, ChangePolicy::Greedy);
}

/// Some services with modes on one to three cores, beside others without.
fn random_site(rng: &mut StdRng) -> Site {
    let count = rng.random_range(1..=4);
    let mut services: Vec<Service> = Vec::new();
    for number in 0..count {
        let scheduler = *GuestScheduler::ALL.choose(rng).unwrap();
        let mut one = || {
            let tasks: Vec<String> = (0..rng.random_range(1..=3))
                .map(|_| {
                    let period = *[20_000u64, 25_000, 40_000, 50_000, 100_000].choose(rng).unwrap();
                    let wcet = (period * rng.random_range(2..=100) / 100 / count / 2).max(100);
                    format!("{wcet}us/{period}us")
                })
                .collect();
            tasks.join(" ")
        };
        let mut service = modal(&format!("s{number}"), &format!("x: {}; y: {}", one(), one()), scheduler);
        if rng.random_bool(0.3) {
            service.server = Some(ServerKind::Deferrable);
        }
        if rng.random_bool(0.3)
            && service.modes.iter().all(|mode| matches!(&mode.need, LocalNeed::Tasks { tasks, .. } if tasks.len() > 1))
        {
            service.origin = Origin::Adopt(Adopt::Qmp("/run/vm".into()));
            service.promise = Promise::EveryDeadline { scheduler, vcpus: 2, placed: Vec::new() };
        }
        services.push(service);
    }
    if rng.random_bool(0.5) {
        services.push(supply("fixed", &["1ms/10ms"], None));
    }
    services.push(leftovers("batch", if rng.random_bool(0.4) { "50%" } else { "0%" }));
    let cores: Vec<u32> = (1..=rng.random_range(1..=2)).collect();
    let mut site = site(&cores, services);
    let all: Vec<String> = (0..rng.random_range(1..=3))
        .map(|number| {
            let each: Vec<String> =
                (0..count).map(|s| format!("s{s}={}", ["x", "y", STOPPED].choose(rng).unwrap())).collect();
            let batch = ["running", "stopped"].choose(rng).unwrap();
            let within =
                if rng.random_bool(0.3) { format!(" within {}ms", rng.random_range(2..60)) } else { String::new() };
            format!("m{number}{within}: {} batch={batch}", each.join(" "))
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let policy = [None, Some(*ChangePolicy::ALL.choose(rng).unwrap())][rng.random_range(0..2)];
    modes(&mut site, policy, &all);
    if rng.random_bool(0.3) {
        site.modes.as_mut().unwrap().changes.transition = Transition::Guaranteed;
    }
    site
}

#[test]
fn every_mode_of_every_plan_fits_by_independent_tests_and_every_refusal_has_its_reason() {
    let mut rng = StdRng::seed_from_u64(22);
    let [mut planned, mut several, mut vms, mut deferrable, mut late, mut room, mut windows, mut floors, mut unnamed, mut denied] =
        [0; 10];
    let mut asked = std::time::Duration::ZERO;
    let rounds = if std::env::var_os("GIUSTO_SOAK").is_some() { 400 } else { 35 };
    for _ in 0..rounds {
        let site = random_site(&mut rng);
        let plan = match plan(&site, &facts()) {
            Ok(plan) => plan,
            Err(Refusal::Modes(refusal)) => {
                match refusal.cause {
                    ModeCause::Late { bound, within, .. } => assert!(bound > within && !refusal.nearest.is_empty()),
                    ModeCause::Silent { takes, timeout, .. } => assert!(takes > timeout),
                    _ => panic!("{refusal}"),
                }
                late += 1;
                continue;
            }
            Err(Refusal::DoesNotFit(witness)) => {
                assert!(matches!(witness.cause, Cause::Mode { .. }), "{witness}");
                match inner(&witness.cause) {
                    Cause::Window { .. } => windows += 1,
                    Cause::Floors { .. } => floors += 1,
                    _ => room += 1,
                }
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        planned += 1;
        let modes = plan.only_modes().unwrap();
        several += usize::from(modes.modes.len() > 1);
        vms += usize::from(plan.services.iter().any(|entry| entry.vcpu == Some(1)));
        deferrable += usize::from(plan.services.iter().any(|entry| entry.server.kind == ServerKind::Deferrable));
        let most = 1.0 - 0.05 - 0.02;
        for mode in &modes.modes {
            for (core, sum) in sums(&plan, &mode.locals) {
                assert!(sum <= most + 1e-9, "core {core} gives {sum} in {}", mode.name);
            }
            assert!(mode.within.is_none_or(|within| mode.bound <= within));
            assert_eq!(admit_modes(&plan, &mode.locals), Ok(()));
        }
        for member in modes.members.iter().filter(|member| member.agent.is_some()) {
            let service = site.services.iter().find(|service| service.name == member.service).unwrap();
            let Promise::EveryDeadline { scheduler, .. } = service.promise else { continue };
            for local in &member.locals {
                for (server, proof) in
                    local.servers.iter().zip(&local.proofs).filter(|(_, proof)| !proof.tasks.is_empty())
                {
                    let Certificate::EveryDeadline { budget, latency, .. } = proof.certificate else { panic!() };
                    let kept = |budget: u64| {
                        keeps_deadlines(&proof.tasks, scheduler, budget, server.period.ns(), latency.ns())
                    };
                    assert!(kept(budget.ns()), "{}: {} in {}", member.service, server.budget, local.name);
                    assert_eq!((server.budget.ns() - budget.ns(), latency), (100_000, Duration::from_us(500)));
                }
            }
        }
        // Combinations that no mode names: what is admitted fits, and what does not fit is not.
        for _ in 0..5 {
            let names: Vec<String> =
                modes.members.iter().map(|member| member.locals.choose(&mut rng).unwrap().name.clone()).collect();
            let before = std::time::Instant::now();
            let verdict = admit_modes(&plan, &names);
            asked += before.elapsed();
            let worst = sums(&plan, &names).into_iter().map(|(_, sum)| sum).fold(0.0, f64::max);
            match verdict {
                Ok(()) => {
                    assert!(worst <= most + 1e-9, "{worst}");
                    unnamed += 1;
                }
                Err(ModesRefusal::Room { .. }) => {
                    assert!(worst > most - 1e-9, "{worst}");
                    denied += 1;
                }
                Err(ModesRefusal::Window { .. }) => denied += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    let seen = [planned, several, vms, deferrable, late, room, windows + floors, unnamed, denied];
    println!("planned, several modes, VMs, deferrable, late, no room, windows or floors, admitted, denied: {seen:?}");
    println!("{:?} for an admission", asked / (unnamed + denied) as u32);
    assert!(seen.iter().all(|count| *count >= 1), "{seen:?}");
}

#[test]
fn no_number_of_a_mode_can_be_made_smaller_or_larger_without_being_noticed() {
    let whole = plan(&example(None, "10ms"), &facts()).unwrap();
    check_plan(&whole).unwrap();
    let broken = |what: &str, change: &dyn Fn(&mut ModesPlan)| {
        let mut plan = whole.clone();
        change(&mut plan.modes[0]);
        let found = check_plan(&plan);
        let Err(broken) = found else { panic!("{what}: not noticed") };
        println!("{what}: {broken}");
    };
    let less = |time: Duration| Duration::from_ns(time.ns() - 1_000);
    broken("a smaller budget in a mode", &|modes| {
        let local = &mut modes.members[0].locals[1];
        local.servers[0].budget = less(local.servers[0].budget);
    });
    broken("more work in a mode", &|modes| modes.members[0].locals[1].proofs[0].tasks[1].wcet = Duration::from_ms(4));
    broken("a task that is nowhere", &|modes| drop(modes.members[0].locals[1].proofs[0].tasks.remove(2)));
    broken("an agent that is not counted", &|modes| drop(modes.members[0].locals[1].proofs[0].tasks.remove(0)));
    broken("an agent that works longer", &|modes| modes.members[0].agent = agent("101us"));
    broken("changes that come more often", &|modes| modes.changes.spacing = Duration::from_ms(999));
    broken("a boost that is not counted", &|modes| modes.modes[1].admission[0].boost = None);
    broken("less reserved than there is", &|modes| modes.modes[1].admission[0].reserved = of("1/10"));
    broken("a mode that no service has", &|modes| modes.modes[1].locals[0] = "fly".into());
    broken("a mode with too much", &|modes| modes.modes[1].locals[1] = "full".into());
    broken("another first mode", &|modes| modes.modes.swap(0, 1));
    broken("a change that takes too long", &|modes| modes.modes[1].bound = Duration::from_ms(11));
    broken("a period of its own", &|modes| modes.members[0].locals[1].servers[0].period = Duration::from_secs(3));
}

#[test]
fn an_agent_that_may_answer_after_its_timeout_is_refused() {
    let mut site = example(Some(ChangePolicy::Greedy), "1s");
    site.modes.as_mut().unwrap().changes.timeout = Duration::from_ms(10);
    let Err(Refusal::Modes(refusal)) = plan(&site, &facts()) else { panic!() };
    let ModeCause::Silent { service, takes, timeout } = &refusal.cause else { panic!("{refusal}") };
    assert!(["flight", "survey"].contains(&service.as_str()) && takes > timeout, "{refusal}");
    assert_eq!(refusal.nearest, [ModeFit::Policy(ChangePolicy::Boost)]);
    site.modes.as_mut().unwrap().changes.timeout = Duration::from_ms(50);
    plan(&site, &facts()).unwrap();
    // Stopped, with the least of all budgets, it answers in time, too.
    modes(
        &mut site,
        Some(ChangePolicy::Greedy),
        &["one: flight=stopped survey=stopped", "two: flight=land survey=low"],
    );
    plan(&site, &facts()).unwrap();
}

#[test]
fn a_leftover_that_is_stopped_needs_no_floor() {
    let floor = |local: &str| {
        let busy = modal("busy", "x: 9ms/50ms; y: 30ms/50ms", GuestScheduler::Any);
        let mut site = site(&[1], vec![busy, leftovers("batch", "30%")]);
        modes(&mut site, None, &["one: busy=x batch=running", &format!("two: busy=y batch={local}")]);
        plan(&site, &facts())
    };
    floor(STOPPED).unwrap();
    let Err(Refusal::DoesNotFit(witness)) = floor("running") else { panic!() };
    assert!(
        matches!(&witness.cause, Cause::Mode { cause, .. } if matches!(**cause, Cause::Floors { .. })),
        "{witness}"
    );
    assert!(Bandwidth::ZERO < witness_floor(&witness.cause));
}

/// What does not fit, in whatever mode.
fn inner(cause: &Cause) -> &Cause {
    match cause {
        Cause::Mode { cause, .. } => inner(cause),
        cause => cause,
    }
}

fn witness_floor(cause: &Cause) -> Bandwidth {
    match inner(cause) {
        Cause::Floors(floors) => floors.demand,
        _ => Bandwidth::ZERO,
    }
}
