//! Engines with several workers: a share for each copy, on a core of its own.

mod common;

use common::{as_if_alone, leftovers, of, plan, site, sites, task};
use giusto_model::{Adopt, Backend, Copies, Duration, Origin, Plan, Service, ServicePlan, Site};
use giusto_planner::{Cause, Facts, NearestFit, Placements, Refusal, TooMany};
use giusto_verify::check_plan;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

fn engine(name: &str, notation: &str, count: u32) -> Service {
    let copies = (count > 1).then(|| Copies { count, threads: Some("worker-*".into()) });
    Service { copies, ..as_if_alone(name, vec![task(notation, 1)], "5%") }
}

fn facts(cores: u32) -> Facts {
    Facts::typical((0..cores).collect())
}

fn planned(site: &Site, cores: u32) -> Plan {
    plan(site, &facts(cores)).unwrap()
}

#[test]
fn each_copy_has_the_share_that_one_worker_alone_would_have_on_a_core_of_its_own() {
    let mut rng = ChaCha8Rng::seed_from_u64(28);
    let (mut fits, mut refused) = (0, 0);
    for _ in 0..400 {
        let cores: Vec<u32> = (0..rng.random_range(1..7)).collect();
        let count = rng.random_range(1..4);
        let engines: Vec<Service> = (0..count)
            .map(|nth| {
                let wcet = rng.random_range(1..17) * 50;
                engine(&format!("engine-{nth}"), &format!("{wcet}ms/1s"), rng.random_range(1..5))
            })
            .collect();
        let needed: u32 = engines.iter().map(|one| one.copies.as_ref().map_or(1, |copies| copies.count)).sum();
        let all = site(&cores, engines.iter().cloned().chain([leftovers("rest", "0%")]).collect());
        match plan(&all, &facts(cores.len() as u32)) {
            Ok(found) => {
                fits += 1;
                assert!(needed as usize <= cores.len());
                check_plan(&found).unwrap();
                let used: BTreeSet<u32> = found.services.iter().map(|entry| entry.core).collect();
                assert_eq!((used.len(), found.services.len()), (needed as usize, needed as usize));
                for service in &engines {
                    // The oracle: a site with one such worker and nothing else, on the same kind of backend.
                    let one = Service { copies: None, ..service.clone() };
                    let insist = Facts { insist: Some(Backend::Manager), ..facts(1) };
                    let alone = plan(&site(&[0], vec![one]), &insist).unwrap().services.remove(0);
                    let own: Vec<_> = found.services.iter().filter(|entry| entry.name == service.name).collect();
                    for (nth, entry) in own.iter().enumerate() {
                        assert_eq!(entry.copies, service.copies);
                        assert_eq!(entry.vcpu, service.copies.as_ref().map(|_| nth as u32));
                        if service.copies.is_some() {
                            assert_eq!((entry.server, &entry.tasks), (alone.server, &alone.tasks));
                            assert_eq!((entry.backend, &entry.certificate), (Backend::Manager, &alone.certificate));
                        }
                    }
                }
            }
            Err(Refusal::DoesNotFit(witness)) => {
                refused += 1;
                assert!(needed as usize > cores.len(), "{witness}");
                let many = TooMany { services: engines.len(), demand: needed as usize, supply: cores.len() };
                assert_eq!(witness.cause, Cause::Cores(many));
                let more = needed as usize - cores.len();
                assert!(witness.nearest.contains(&NearestFit::MoreCores(more)), "{witness}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    println!("{fits} sites fit, {refused} are refused");
    assert!(fits > 100 && refused > 100);
}

#[test]
fn a_refusal_counts_copies_as_cores() {
    let told = |services| match plan(&site(&[0, 1], services), &facts(2)) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("it fits"),
    };
    let one = told(vec![engine("engine", "700ms/5s", 4)]);
    assert_eq!(
        one,
        "service 'engine' does not fit: 1 service that is promised as-if-alone, 4 with all copies, each needs a core to \
         itself, and the host has 2; it fits with 2 cores more"
    );
    let two = told(vec![engine("engine", "700ms/5s", 2), engine("other", "1ms/1s", 1)]);
    assert!(two.contains("2 services that are promised as-if-alone, 3 with all copies, each needs a core"), "{two}");
}

#[test]
fn all_copies_are_on_one_host_and_stay_on_their_cores() {
    let services = vec![engine("a", "300ms/1s", 2), engine("b", "200ms/1s", 3)];
    let two = sites(&[&[0, 1], &[0, 1, 2, 3]], services);
    let found = plan(&two, &facts(4)).unwrap();
    for name in ["a", "b"] {
        let hosts: BTreeSet<_> = found.services.iter().filter(|one| one.name == name).map(|one| &one.on).collect();
        assert_eq!(hosts.len(), 1, "{name}");
    }
    check_plan(&found).unwrap();
    // The larger one now comes second, and would go to other cores.
    let before = planned(&site(&[0, 1, 2, 3], vec![engine("a", "300ms/1s", 2), engine("b", "200ms/1s", 2)]), 4);
    let changed = site(&[0, 1, 2, 3], vec![engine("a", "100ms/1s", 2), engine("b", "200ms/1s", 2)]);
    let now = Facts { placed: Placements::of(&before), ..facts(4) };
    let cores =
        |plan: &Plan| plan.services.iter().map(|one| (one.name.clone(), one.vcpu, one.core)).collect::<Vec<_>>();
    let after = plan(&changed, &now).unwrap();
    assert_eq!(cores(&after), cores(&before));
    assert_ne!(cores(&planned(&changed, 4)), cores(&before), "without the plan in force they would move");
}

#[test]
fn virtual_cpus_are_copies_without_names_and_only_what_serves_single_threads_serves_them() {
    let machine = Origin::Adopt(Adopt::Libvirt("spark".into()));
    let vm = Service { origin: machine, ..engine("spark", "3522ms/5s", 2) };
    let vm = Service { copies: Some(Copies { count: 2, threads: None }), ..vm };
    let found = planned(&site(&[0, 1], vec![vm.clone()]), 2);
    let parts: Vec<_> = found.services.iter().map(|one| one.part().unwrap()).collect();
    assert_eq!(parts, ["virtual CPU 0", "virtual CPU 1"]);
    // [LiH21, § 3.4.3]: 70.44 % and a margin of 4.56 make (3750 ms, 5000 ms); here the margin is 5.
    let server = |one: &ServicePlan| (one.server.budget, one.server.period);
    let wanted = (Duration::from_ms(3772), Duration::from_ms(5000));
    assert!(found.services.iter().all(|one| one.utilization == of("70.44%") && server(one) == wanted));
    check_plan(&found).unwrap();
    let insist = Facts { insist: Some(Backend::Deadline), ..facts(2) };
    let refusal = plan(&site(&[0, 1], vec![vm]), &insist).unwrap_err().to_string();
    assert!(refusal.contains("it cannot serve single threads"), "{refusal}");
}

#[test]
fn a_plan_with_a_copy_less_or_another_share_is_rejected() {
    let honest = planned(&site(&[0, 1, 2], vec![engine("engine", "300ms/1s", 3)]), 3);
    check_plan(&honest).unwrap();
    let forged = |forge: &dyn Fn(&mut Plan)| {
        let mut plan = honest.clone();
        forge(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let lost = forged(&|plan| drop(plan.services.pop()));
    assert!(lost.contains("entries of this service"), "{lost}");
    let counted = forged(&|plan| plan.services.iter_mut().for_each(|one| one.copies.as_mut().unwrap().count = 2));
    assert!(counted.contains("entries of this service"), "{counted}");
    let unlike = forged(&|plan| plan.services[1].copies.as_mut().unwrap().threads = None);
    assert!(unlike.contains("the same copies in all entries"), "{unlike}");
    let twice = forged(&|plan| plan.services[2].vcpu = Some(1));
    assert!(twice.contains("one by one from 0"), "{twice}");
    forged(&|plan| plan.services[2].core = 1);
    forged(&|plan| plan.services[1].server.budget = "299ms".parse().unwrap());
    forged(&|plan| plan.services[2].server.period = "1.1s".parse().unwrap());
}
