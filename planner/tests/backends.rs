//! Which backend and which server a service gets, where supplies go, and what people are told.

mod common;

use common::{as_if_alone, golden, leftovers, of, plan, site, supply, task};
use giusto_model::{Backend, Cap, Duration, LeftoverPlan, Plan, Promise, ServerKind, Service, Site};
use giusto_planner::{explain, Facts, Held, NearestFit, Refusal};

/// A machine with these backends and no others.
fn with(backends: &[Backend], cores: &[u32]) -> Facts {
    let mut facts = Facts::typical(cores.to_vec());
    for fact in &mut facts.backends {
        fact.available = backends.contains(&fact.backend);
        fact.why_not = if fact.available { String::new() } else { format!("{} is missing: get it", fact.backend) };
    }
    facts
}

fn cache() -> Service {
    as_if_alone("cache", vec![task("50us/1ms", 6)], "5%")
}

/// Backend, kind and period of the only service.
fn chosen(service: Service, facts: &Facts) -> Result<(Backend, ServerKind, Duration), String> {
    let plan = plan(&site(&[1], vec![service]), facts).map_err(|refusal| refusal.to_string())?;
    let [service] = plan.services.as_slice() else { panic!("{plan:?}") };
    Ok((service.backend, service.server.kind, service.server.period))
}

use Backend::{Deadline, Manager, Quota, RtGroup};
use ServerKind::{ConstantBandwidth, Deferrable, PeriodicConserving, Polling, Sporadic};

#[test]
fn as_if_alone_gets_the_first_backend_that_the_machine_has_and_never_quota() {
    let ms = Duration::from_ms;
    for (there, expected) in [
        (&[Deadline, Manager, RtGroup, Quota][..], (Deadline, ConstantBandwidth, ms(40))),
        (&[Manager, RtGroup, Quota], (Manager, Deferrable, ms(10))),
        (&[RtGroup, Quota], (RtGroup, ConstantBandwidth, ms(40))),
        (&[Quota], (Deadline, ConstantBandwidth, ms(40))), // a plan for another machine, which says so
    ] {
        assert_eq!(chosen(cache(), &with(there, &[1])), Ok(expected), "{there:?}");
    }
    let elsewhere = plan(&site(&[1], vec![cache()]), &with(&[Quota], &[1])).unwrap();
    let why = &elsewhere.services[0].reasons.iter().find(|r| r.what == "backend").unwrap().why;
    assert!(why.ends_with("'giusto run' would refuse: deadline is missing: get it"), "{why}");
}

#[test]
fn cores_that_others_keep_are_left_to_the_next_backend_with_the_reason() {
    let held = |cores: &[u32]| Facts {
        held: vec![Held { cores: cores.to_vec(), why: "core 1 is held by cpuset /vm".into() }],
        ..with(&Backend::ALL, &[0, 1, 2])
    };
    let on = |cores: &[u32], facts: &Facts| plan(&site(cores, vec![cache()]), facts);
    let backends = |plan: &Plan| plan.services.iter().map(|one| one.backend).collect::<Vec<_>>();
    let fallen = on(&[1], &held(&[1])).unwrap();
    assert_eq!(backends(&fallen), [Manager]);
    let why = &fallen.services[0].reasons.iter().find(|r| r.what == "backend").unwrap().why;
    assert!(why.ends_with("; not deadline: core 1 is held by cpuset /vm"), "{why}");
    assert_eq!(backends(&on(&[2], &held(&[1])).unwrap()), [Deadline], "another core");
    assert_eq!(backends(&on(&[1], &held(&[1, 2])).unwrap()), [Deadline], "one of two is left to those who are there");
    let insist = Facts { insist: Some(Deadline), ..held(&[1]) };
    let told = on(&[1], &insist).unwrap_err();
    assert!(matches!(told, Refusal::Machine { .. }) && told.to_string().contains("held by cpuset /vm"), "{told}");
    let dear = Facts { manager_cost: giusto_model::Bandwidth::new(9, 10).unwrap(), ..held(&[1]) };
    let dear = Facts { backends: dear.backends.into_iter().filter(|one| one.backend != RtGroup).collect(), ..dear };
    assert_eq!(backends(&on(&[1], &dear).unwrap()), [Deadline], "the manager has no room, and a run says who is there");
    let nothing_else = Facts { held: held(&[1]).held, ..with(&[Deadline], &[1]) };
    let elsewhere = on(&[1], &nothing_else).unwrap();
    let why = &elsewhere.services[0].reasons.iter().find(|r| r.what == "backend").unwrap().why;
    assert!(why.ends_with("'giusto run' would refuse: core 1 is held by cpuset /vm"), "{why}");
}

#[test]
fn a_server_or_a_cap_of_choice_decides_which_backend_can_do_it() {
    let all = with(&Backend::ALL, &[1]);
    let ask = |server, cap| Service { server, cap, ..cache() };
    assert_eq!(chosen(ask(Some(Deferrable), Cap::Hard), &all).unwrap().0, Manager);
    assert_eq!(chosen(ask(Some(ConstantBandwidth), Cap::Hard), &all).unwrap().0, Deadline);
    assert_eq!(chosen(ask(None, Cap::Soft), &all).unwrap().0, Manager);
    let told = chosen(ask(Some(Polling), Cap::Hard), &all).unwrap_err();
    assert_eq!(
        told,
        "service 'cache': as-if-alone on a polling server is not built yet: W(P) is not proven for it; expected server: \
         constant_bandwidth or deferrable, or leave it out"
    );
    let told = chosen(ask(Some(Deferrable), Cap::Hard), &with(&[Deadline], &[1])).unwrap_err();
    assert_eq!(
        told,
        "service 'cache': nothing here can enforce it: not deadline: it is a constant_bandwidth server and cannot be \
         deferrable; not manager: manager is missing: get it; not rt-group: it is a constant_bandwidth server and cannot be \
         deferrable; change what it is promised, or get what is missing"
    );
}

#[test]
fn a_supply_is_kept_by_the_manager_else_at_the_tick_where_its_period_is_long_enough() {
    let short = || supply("guest", &["3ms/10ms"], None);
    let long = || supply("guest", &["12ms/40ms"], None);
    let all = with(&Backend::ALL, &[1]);
    assert_eq!(chosen(short(), &all), Ok((Manager, ConstantBandwidth, Duration::from_ms(10))));
    assert_eq!(chosen(long(), &with(&[Deadline, RtGroup], &[1])).unwrap().0, Deadline);
    assert_eq!(chosen(long(), &with(&[RtGroup], &[1])).unwrap().0, RtGroup);
    let polling = Service { server: Some(Polling), ..long() };
    assert_eq!(chosen(polling.clone(), &all).unwrap(), (Manager, Polling, Duration::from_ms(40)));
    assert!(chosen(polling, &with(&[Deadline], &[1])).unwrap_err().contains("cannot be polling"));
    let told = plan(&site(&[1], vec![short()]), &with(&[Deadline], &[1])).unwrap_err();
    assert!(matches!(told, Refusal::Machine { .. }));
    assert_eq!(
        told.to_string(),
        "service 'guest': nothing here can enforce it: not manager: manager is missing: get it; not deadline: it is enforced \
         at the kernel's tick and keeps periods from 40 ms to 4194.304 ms, and 10 ms was promised; not rt-group: it is \
         enforced at the kernel's tick and keeps periods from 40 ms to 4 s, and 10 ms was promised; change what it is \
         promised, or get what is missing"
    );
    let tiny = chosen(supply("guest", &["10us/10ms"], None), &all).unwrap_err();
    assert!(tiny.contains("100 us is the least budget that the manager keeps, and 10 us was promised"), "{tiny}");
}

#[test]
fn who_insists_on_a_backend_gets_it_or_the_reason() {
    let insist = |backend, facts: Facts| Facts { insist: Some(backend), ..facts };
    let all = || with(&Backend::ALL, &[1]);
    for backend in [Deadline, Manager, RtGroup] {
        assert_eq!(chosen(cache(), &insist(backend, all())).unwrap().0, backend);
    }
    let refused = |service, facts| plan(&site(&[1], vec![service]), &facts).unwrap_err();
    let told = refused(cache(), insist(Quota, all()));
    assert!(matches!(told, Refusal::Asked { .. }));
    assert_eq!(
        told.to_string(),
        "service 'cache': backend quota cannot serve it: it is a cap, never a guarantee; leave --backend out to let Giusto \
         choose"
    );
    let told = refused(Service { server: Some(Deferrable), ..cache() }, insist(Deadline, all()));
    assert!(told.to_string().contains("backend deadline cannot serve it: it is a constant_bandwidth server"), "{told}");
    let told = refused(cache(), insist(Manager, with(&[Deadline], &[1])));
    assert!(matches!(told, Refusal::Machine { .. }));
    assert_eq!(
        told.to_string(),
        "service 'cache': this machine has no backend manager: manager is missing: get it; or leave --backend out"
    );
}

fn supplies(cores: &[u32], services: Vec<Service>) -> (Site, Facts) {
    (site(cores, services), Facts::typical(cores.to_vec()))
}

fn places(plan: &Plan) -> Vec<(&str, Option<u32>, u32)> {
    plan.services.iter().map(|s| (s.name.as_str(), s.vcpu, s.core)).collect()
}

#[test]
fn supplies_share_cores_largest_first_and_virtual_cpus_of_one_vm_go_apart_where_they_fit() {
    let services = vec![
        supply("small", &["1ms/10ms"], None),
        cache(),
        supply("guest", &["2ms/10ms", "3ms/10ms"], None),
        supply("large", &["6ms/10ms"], None),
    ];
    let (site, facts) = supplies(&[1, 2, 3], services);
    let found = plan(&site, &facts).unwrap();
    // 60 and 30 % on core 2; its sibling goes apart to core 3, where the last 10 % still fit.
    let expected =
        [("small", None, 3), ("cache", None, 1), ("guest", Some(0), 3), ("guest", Some(1), 2), ("large", None, 2)];
    assert_eq!(places(&found), expected, "in the order of the site");
    let (site, facts) = supplies(&[5], vec![supply("guest", &["2ms/10ms", "3ms/10ms"], None)]);
    assert_eq!(places(&plan(&site, &facts).unwrap()), [("guest", Some(0), 5), ("guest", Some(1), 5)]);
}

#[test]
fn a_supply_that_does_not_fit_is_told_with_demand_supply_and_the_nearest_fit() {
    let three = ["5ms/10ms", "3ms/10ms", "2ms/10ms"];
    let services =
        three.iter().zip(["a", "b", "c"]).map(|(interface, name)| supply(name, &[interface], None)).collect();
    let (site, facts) = supplies(&[1], services);
    assert_eq!(
        plan(&site, &facts).unwrap_err().to_string(),
        "service 'c' does not fit: it is promised 2 ms every 10 ms (20 % of a core), and the one core for it can give 93 % \
         and has 13 % left: 7 % too much; it fits with a supply of 1.3 ms every 10 ms, or with one core more"
    );
    let (site, facts) = supplies(&[1], vec![supply("guest", &["2ms/10ms", "8ms/10ms"], None)]);
    let Refusal::DoesNotFit(witness) = plan(&site, &facts).unwrap_err() else { panic!() };
    let less = NearestFit::Supply { vcpu: Some(0), at_most: "1.3ms/10ms".parse().unwrap() };
    assert_eq!(witness.nearest, [less, NearestFit::MoreCores(1)]);
    assert!(witness.to_string().contains("its virtual CPU 0 is promised 2 ms every 10 ms"), "{witness}");
    let four = (0..4).map(|n| supply(&format!("s{n}"), &["6ms/10ms"], None)).collect();
    let (site, facts) = supplies(&[1, 2, 3], four);
    let told = plan(&site, &facts).unwrap_err().to_string();
    assert!(told.contains("of 3 cores that can give 93 % each none has more than 33 % left: 27 % too much"), "{told}");
    let (site, facts) = supplies(&[1], vec![cache(), supply("guest", &["1ms/10ms"], None)]);
    assert_eq!(
        plan(&site, &facts).unwrap_err().to_string(),
        "service 'guest' does not fit: it is promised 1 ms every 10 ms, and as-if-alone services have every core to \
         themselves; it fits with one core more"
    );
}

#[test]
fn deferrable_servers_share_a_core_where_no_window_asks_for_more_than_its_length() {
    let of = |interface: &str, kind| supply(&interface.replace('/', "-"), &[interface], Some(kind));
    let fits = |services| {
        let (site, facts) = supplies(&[1], services);
        plan(&site, &facts).map(|_| ()).map_err(|refusal| refusal.to_string())
    };
    // specs: under EDF (4, 12) with (2, 5) fails although U = 11/15.
    let two = || vec![of("4ms/12ms", Deferrable), of("2ms/5ms", Deferrable)];
    let (site, facts) = supplies(&[1], two());
    let Refusal::DoesNotFit(witness) = plan(&site, &facts).unwrap_err() else { panic!() };
    assert_eq!(
        witness.to_string(),
        "service '4ms-12ms' does not fit: it has a server of 4 ms every 12 ms, and the one core for it has room, but 8 ms can be \
         asked for within 7 ms, as a deferrable server can use its budget up just before it gets the next: 1 ms too much; it \
         fits with a supply of 3 ms every 12 ms, or with server: constant_bandwidth, or with one core more"
    );
    assert_eq!(fits(vec![of("3ms/12ms", Deferrable), of("2ms/5ms", Deferrable)]), Ok(()));
    assert_eq!(fits(vec![of("4ms/12ms", ConstantBandwidth), of("2ms/5ms", Deferrable)]), Ok(()));
    let told = fits(vec![of("4ms/12ms", Deferrable), of("2ms/5ms", ConstantBandwidth)]).unwrap_err();
    assert!(told.contains("6 ms can be asked for within 5 ms"), "{told}");
    // A budget that is renewed early comes more often than once a period: 4 + 4 + ⌊14 · 5/10⌋ in 14.
    let beside = |kind| fits(vec![of("4ms/10ms", Deferrable), of("5ms/10ms", kind)]);
    let told = beside(ConstantBandwidth).unwrap_err();
    assert!(told.contains("15 ms can be asked for within 14 ms"), "{told}");
    assert_eq!((beside(PeriodicConserving), beside(Sporadic), beside(Deferrable)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(fits(vec![of("4ms/12ms", Deferrable), of("5ms/12ms", Deferrable)]), Ok(()));
    assert_eq!(fits(vec![of("4ms/12ms", Deferrable), of("5ms/12ms", ConstantBandwidth)]), Ok(()));
    assert_eq!(fits(vec![of("4ms/12ms", PeriodicConserving), of("2ms/5ms", ConstantBandwidth)]), Ok(()));
    let (site, facts) = supplies(&[1, 2], two());
    assert_eq!(plan(&site, &facts).unwrap().services[1].core, 1, "the larger; the other has core 2");
    let three = [two(), vec![of("4ms/6ms", Deferrable)]].concat();
    let (site, facts) = supplies(&[1, 2], three);
    let told = plan(&site, &facts).unwrap_err().to_string();
    assert!(
        told.contains("there are cores with room, but with it on any of them 8 ms can be asked for within 7 ms"),
        "{told}"
    );
}

#[test]
fn leftovers_count_every_server_and_the_manager_and_a_cap_needs_quota() {
    let capped = |floor, cap: &str| {
        let at_most = Some(of(cap));
        Service { promise: Promise::Leftovers { at_least: of(floor), at_most }, ..leftovers("batch", floor) }
    };
    let two = |batch| vec![supply("a", &["3ms/10ms"], None), supply("b", &["2ms/10ms"], None), batch];
    let (site, facts) = supplies(&[1], two(capped("43%", "50%")));
    let found = plan(&site, &facts).unwrap();
    let LeftoverPlan { available, at_most, longest_wait, .. } = &found.leftovers[0];
    assert_eq!((*available, *at_most), (of("43%"), Some(of("50%"))), "100 − 50 − 5 − 2 %");
    assert_eq!(longest_wait.ns(), 5_000_000 * 100 / 48 + 1, "Σ B / (1 − Σ B/P − the manager's), rounded up");
    let (tight, facts) = supplies(&[1], two(leftovers("batch", "43.1%")));
    assert!(plan(&tight, &facts)
        .unwrap_err()
        .to_string()
        .contains("ask for 43.1 % of a core, and the reservations leave 43 %"));
    let told = plan(&site, &with(&[Manager], &[1])).unwrap_err();
    assert_eq!(
        told.to_string(),
        "service 'batch': at-most needs the backend quota: quota is missing: get it; or leave at-most out"
    );
}

#[test]
fn the_explanations_of_supplies_are_as_reviewed() {
    let services = vec![
        supply("first", &["3ms/10ms"], None),
        supply("guest", &["1ms/10ms", "20ms/100ms"], None),
        Service { cap: Cap::Soft, ..supply("lone", &["20ms/40ms"], Some(Deferrable)) },
        leftovers("batch", "20%"),
    ];
    let (site, facts) = supplies(&[1, 2], services);
    let found = plan(&site, &facts).unwrap();
    let names = ["first", "guest", "lone", "batch"];
    let text: Vec<String> = names.iter().map(|name| explain(&found, name).unwrap()).collect();
    golden("supply.explain.txt", &text.join("\n"));
    let told = explain(&found, "none").unwrap_err().to_string();
    assert_eq!(told, "the plan has no 'none'; it has first, guest, lone, batch");
}
