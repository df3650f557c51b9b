//! `unused: park`: which cores a plan leaves for power to be saved on, over random sites.

mod common;

use common::{as_if_alone, leftovers, of, plan, site, supply, task};
use giusto_model::{Backend, Bandwidth, Plan, Promise, Site, Unused};
use giusto_planner::{explain, Facts, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

fn parked(mut site: Site) -> Site {
    site.hosts[0].unused = Unused::Park;
    site
}

fn random_site(rng: &mut StdRng) -> (Site, Facts) {
    let cores: Vec<u32> = (0..6).filter(|_| rng.random_bool(0.6)).collect();
    let cores = if cores.is_empty() { vec![3] } else { cores };
    let mut services = Vec::new();
    for number in 0..rng.random_range(0..=4) {
        let budget = *["1ms/10ms", "3ms/10ms", "7ms/10ms"].choose(rng).unwrap();
        services.push(supply(&format!("s{number}"), &[budget], None));
    }
    if rng.random_bool(0.2) {
        services.push(as_if_alone("alone", vec![task("2ms/10ms", 1)], "5%"));
    }
    for number in 0..rng.random_range(0..=2) {
        services.push(leftovers(&format!("l{number}"), ["0%", "20%", "90%", "150%"][rng.random_range(0..4)]));
    }
    services.push(leftovers("rest", "0%"));
    let mut facts = Facts::typical(cores.clone());
    facts.insist = [None, Some(Backend::Manager)][rng.random_range(0..2)];
    if rng.random_bool(0.3) {
        facts.cores.push(7);
    }
    (site(&cores, services), facts)
}

/// Cores with a server.
fn reserved(plan: &Plan) -> BTreeSet<u32> {
    plan.services.iter().map(|service| service.core).collect()
}

#[derive(Debug, Default)]
struct Seen {
    parked: u32,
    all_in_use: u32,
    zero_idles: u32,
    only_the_first: u32,
    floors_take_one: u32,
    room_beside_deadline: u32,
    refused: u32,
}

#[test]
fn what_is_parked_is_all_that_nothing_needs_and_no_promise_pays_for_it() {
    let mut seen = Seen::default();
    let rounds = if std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1") { 5_000 } else { 400 };
    for seed in 0..rounds {
        let rng = &mut StdRng::seed_from_u64(seed);
        let (site, facts) = random_site(rng);
        let left = plan(&site, &facts);
        // `plan` has every plan proven by `verify`, which sums what is left without the parked cores.
        let found = plan(&parked(site.clone()), &facts);
        let (left, found) = match (left, found) {
            (Ok(left), Ok(found)) => (left, found),
            (Err(Refusal::DoesNotFit(_)), Err(Refusal::DoesNotFit(_))) => {
                seen.refused += 1;
                continue;
            }
            (left, found) => panic!("seed {seed}: {left:?}, but parked {found:?}"),
        };
        let host = &found.hosts[0];
        let parked: BTreeSet<u32> = host.parked.iter().copied().collect();
        let all: BTreeSet<u32> = host.cores.iter().copied().collect();
        let open = &all - &parked;
        let used = reserved(&found);
        assert_eq!(left.hosts[0].parked, [0; 0], "seed {seed}: not asked for");
        assert_eq!(found.services, left.services, "seed {seed}: each service has the same server");
        assert!(!parked.contains(&0) && parked.is_subset(&all) && parked.is_disjoint(&used), "seed {seed}: {found:?}");
        for leftover in &found.leftovers {
            assert_eq!(leftover.cores.iter().copied().collect::<BTreeSet<_>>(), open, "seed {seed}");
            let told = leftover.reasons.iter().any(|reason| reason.what == "parked");
            assert_eq!(told, !parked.is_empty(), "seed {seed}");
        }
        // What stays although it has no server: each has to have a reason, which is looked for in the plan alone.
        let idle: Vec<u32> = open.iter().copied().filter(|core| *core != 0 && !used.contains(core)).collect();
        let deadline = found.services.iter().any(|service| service.backend == Backend::Deadline);
        let others_have = facts.cores.iter().any(|core| {
            let isolated = found.services.iter().any(|one| one.core == *core && one.backend == Backend::Deadline);
            !isolated && !parked.contains(core) && !idle.contains(core)
        });
        let floors =
            found.leftovers.iter().map(|one| one.at_least).fold(Bandwidth::ZERO, |a, b| a.checked_add(b).unwrap());
        let least = idle.len().saturating_sub(1);
        let whole = Bandwidth::ONE.checked_sub(host.keep_free).unwrap();
        let without_one = found.leftovers[0].available.checked_sub(whole);
        let floors_need_it = !idle.is_empty() && without_one.is_none_or(|rest| rest < floors);
        match idle.len() {
            0 => {}
            _ if floors_need_it => seen.floors_take_one += 1,
            1 if used.is_empty() && !all.contains(&0) => {
                assert_eq!(idle[0], host.cores[0], "seed {seed}");
                seen.only_the_first += 1;
            }
            1 if deadline && !others_have => seen.room_beside_deadline += 1,
            _ => panic!("seed {seed}: {idle:?} idle, {least} of them for nothing: {found:?}"),
        }
        seen.parked += u32::from(!parked.is_empty());
        seen.all_in_use += u32::from(parked.is_empty());
        seen.zero_idles += u32::from(open.contains(&0) && !used.contains(&0));
        if let Some(core) = parked.first() {
            let told = explain(&found, "parked").unwrap();
            assert!(told.contains(&core.to_string()) && told.contains("'unused: park'"), "{told}");
        }
    }
    let Seen { parked, all_in_use, zero_idles, only_the_first, floors_take_one, room_beside_deadline, refused } = seen;
    for count in [parked, all_in_use, zero_idles, only_the_first, floors_take_one, room_beside_deadline, refused] {
        assert!(count >= 3, "{seen:?}");
    }
    println!("{seen:?}");
}

#[test]
fn a_plan_with_something_on_a_parked_core_is_no_plan() {
    let services = vec![supply("a", &["3ms/10ms"], None), leftovers("rest", "10%")];
    let facts = Facts { insist: Some(Backend::Manager), ..Facts::typical(vec![0, 1, 2]) };
    let found = plan(&parked(site(&[0, 1, 2], services)), &facts).unwrap();
    assert_eq!((&found.hosts[0].parked[..], &found.leftovers[0].cores[..]), (&[1, 2][..], &[0][..]));
    assert!(matches!(found.services[0].promise, Promise::Supply(_)));
    type Spoil = fn(&mut Plan);
    let spoils: [Spoil; 4] = [
        |plan| plan.services[0].core = 1,
        |plan| plan.leftovers[0].cores.push(2),
        |plan| plan.hosts[0].parked.insert(0, 0),
        |plan| plan.hosts[0].parked.push(9),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    for (nth, spoil) in spoils.into_iter().enumerate() {
        let mut bad = found.clone();
        spoil(&mut bad);
        assert!(check_plan(&bad).is_err(), "{nth}: proven");
        giusto_planner::write(&bad, &file).unwrap();
        let told = giusto_planner::read(&file).unwrap_err().to_string();
        assert!(told.contains("parked"), "{nth}: {told}");
    }
    // What is left is that of the open cores alone.
    let mut bad = found.clone();
    bad.leftovers[0].available = of("200%");
    assert!(check_plan(&bad).is_err());
}
