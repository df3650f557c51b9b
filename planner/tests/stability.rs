//! Plans that keep services where they are: of random sites, after one change of each kind.

mod common;

use common::{as_if_alone, leftovers, of, plan, sites, supply, task};
use giusto_model::{Adopt, Origin, Plan, Service, Site};
use giusto_planner::{Facts, Placements};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

fn random_service(number: usize, rng: &mut StdRng) -> Service {
    let name = format!("s{number}");
    let mut supplied = || {
        let period = [10, 20, 40][rng.random_range(0..3)];
        format!("{}ms/{period}ms", rng.random_range(1..=period / 3))
    };
    let (one, two) = (supplied(), supplied());
    match rng.random_range(0..20) {
        0..=1 => as_if_alone(&name, vec![task("2ms/10ms", 1)], "0%"),
        2..=3 => leftovers(&name, ["0%", "10%", "40%"][rng.random_range(0..3)]),
        4..=6 => Service { origin: Origin::Adopt(Adopt::Libvirt(name.clone())), ..supply(&name, &[&one, &two], None) },
        _ => supply(&name, &[&one], None),
    }
}

fn random_site(rng: &mut StdRng) -> Site {
    let cores: Vec<Vec<u32>> = (0..rng.random_range(1..=4)).map(|_| (0..rng.random_range(1..=3)).collect()).collect();
    let cores: Vec<&[u32]> = cores.iter().map(Vec::as_slice).collect();
    let services = (0..rng.random_range(2..=12)).map(|number| random_service(number, rng)).collect();
    let mut site = sites(&cores, services);
    for host in &mut site.hosts {
        host.keep_free = of(["0%", "5%"][rng.random_range(0..2)]);
    }
    site
}

type Places = HashMap<(String, Option<u32>), (String, u32)>;

fn places(plan: &Plan) -> Places {
    let place = |s: &giusto_model::ServicePlan| ((s.name.clone(), s.vcpu), (s.on.clone(), s.core));
    plan.services.iter().map(place).collect()
}

/// Of the servers that are in both plans, those with another place.
fn moved(before: &Places, after: &Places) -> Vec<(String, Option<u32>)> {
    let there = |of: &(String, Option<u32>)| before.get(of).is_some_and(|place| *place != after[of]);
    after.keys().filter(|of| there(of)).cloned().collect()
}

/// What the oracle finds by itself: a core whose reservations leave room for the servers of `service`, one on each, when all
/// others stay; it knows bandwidths alone, so it is asked about supplies without floors or whole cores beside them.
fn has_room(after: &Site, before: &Plan, service: &Service) -> bool {
    let giusto_model::Promise::Supply(asked) = &service.promise else { return false };
    let plain = after.services.iter().all(|s| matches!(s.promise, giusto_model::Promise::Supply(_)));
    let [one] = asked.as_slice() else { return false };
    plain
        && after.hosts.iter().any(|host| {
            host.cores.iter().any(|core| {
                let here =
                    before.services.iter().filter(|s| s.on == host.name && s.core == *core && s.name != service.name);
                let still = here.filter(|s| after.services.iter().any(|now| now.name == s.name));
                let used: f64 = still.map(|s| s.server.bandwidth().as_f64()).sum();
                used + one.bandwidth().as_f64() + host.keep_free.as_f64() + 0.02 < 0.999_999
            })
        })
}

#[test]
fn services_that_need_not_move_stay() {
    let (mut plans, mut kept, mut anew, mut fresh_moves, mut moves) = ([0; 4], 0, 0, 0, 0);
    for seed in 0..3_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let site = random_site(rng);
        let facts = Facts::typical(vec![0, 1, 2]);
        let facts = Facts { host: Some(site.hosts[0].name.clone()), cores: site.hosts[0].cores.clone(), ..facts };
        let Ok(before) = plan(&site, &facts) else { continue };
        let now = Facts { placed: Placements::of(&before), ..facts.clone() };
        let change = rng.random_range(0..4);
        let mut after = site.clone();
        let at = rng.random_range(0..after.services.len());
        match change {
            0 => {}
            1 => drop(after.services.remove(at)),
            2 => {
                let place = rng.random_range(0..=after.services.len());
                after.services.insert(place, random_service(100, rng));
            }
            _ => after.services[at] = Service { name: after.services[at].name.clone(), ..random_service(100, rng) },
        }
        let changed = match change {
            0 | 1 => None,
            2 => after.services.iter().find(|s| s.name == "s100").cloned(),
            _ => Some(after.services[at].clone()),
        };
        let fresh = plan(&after, &facts);
        let Ok(found) = plan(&after, &now) else {
            assert!(fresh.is_err(), "seed {seed}: refused only where services stay");
            continue;
        };
        plans[change] += 1;
        let name = changed.as_ref().map(|service| service.name.clone());
        let other = |of: &(String, Option<u32>)| Some(&of.0) != name.as_ref();
        let moved: Vec<_> = moved(&places(&before), &places(&found)).into_iter().filter(other).collect();
        moves += moved.len();
        if let Ok(fresh) = &fresh {
            fresh_moves += self::moved(&places(&before), &places(fresh)).into_iter().filter(other).count();
        }
        match &changed {
            None => assert_eq!(moved, [], "seed {seed}, change {change}"),
            Some(service) if has_room(&after, &before, service) => {
                assert_eq!(moved, [], "seed {seed}, change {change}");
                kept += 1;
            }
            Some(_) => anew += usize::from(!moved.is_empty()),
        }
        let said = Placements::of(&before).moved(&found);
        let moved = self::moved(&places(&before), &places(&found));
        assert!(
            moved.iter().all(|(name, _)| said.iter().any(|one| one.starts_with(&format!("'{name}' ")))),
            "{said:?}"
        );
    }
    println!("{plans:?} plans by change; {kept} had room and kept all; {anew} moved others");
    println!("{moves} moves, {fresh_moves} in plans by change from the site alone");
    assert!(plans.iter().all(|&plans| plans > 200) && kept > 100 && anew > 20 && moves * 3 < fresh_moves);
}
