//! Servers that share several cores, in the policy core.

use crate::model::on_grid;
use crate::plays::{assert_supplied, grown, of_kinds, play, restless, Scene, Tight};
use crate::KINDS;
use giusto_analysis::admission::{admit_global, Grids, Known, Order, Refused};
use giusto_model::ServerKind::{self, ConstantBandwidth, Deferrable, PeriodicStrict, Sporadic};
use giusto_model::{Bandwidth, Duration, Server};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn fits(servers: &[Server], order: Order, cores: u32) -> bool {
    admit_global(servers, order, cores, Bandwidth::ONE).unwrap().is_ok()
}

fn server(kind: ServerKind, budget: u64, period: u64) -> Server {
    Server { kind, budget: Duration::from_ns(budget), period: Duration::from_ns(period) }
}

/// Every server has work from an instant on, each from a beginning of its period; or after it used a little of its budget.
fn together(rng: &mut ChaCha8Rng, order: Order, cores: u32, servers: &[Server]) -> Scene {
    let from = rng.random_range(60..90);
    let wakes = |_| from + rng.random_range(0..=3) * rng.random_range(0..=1);
    let wakes: Vec<u64> = servers.iter().map(wakes).collect();
    let first = servers.iter().zip(&wakes).map(|(server, wakes)| match server.kind {
        ConstantBandwidth | Sporadic => 0,
        _ => wakes % server.period.ns(),
    });
    let first = first.collect();
    let ready = servers.iter().zip(&wakes).map(|(server, &wakes)| {
        let before = wakes - rng.random_range(1..=server.period.ns());
        let little = (before, before + rng.random_range(1..=server.budget.ns()).min(wakes - before));
        let moves = matches!(server.kind, ConstantBandwidth | Sporadic) && rng.random_bool(0.7);
        if moves {
            vec![little, (wakes, u64::MAX)]
        } else {
            vec![(wakes, u64::MAX)]
        }
    });
    let ready = ready.collect();
    Scene { order, cores, servers: servers.to_vec(), first, ready, until: from + 150 }
}

#[test]
fn servers_admitted_on_several_cores_have_their_supply() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let kinds: Vec<ServerKind> = KINDS.iter().copied().filter(|&kind| kind != Deferrable).collect();
    let (mut tight, mut by_density, mut by_interference, mut sets) = (Tight::new(), 0, 0, 0);
    while sets < 250 {
        let cores = rng.random_range(2..=4);
        let number = rng.random_range(cores as usize + 1..=2 * cores as usize + 2);
        // The second test is for kinds on a grid only.
        let kinds = if rng.random_bool(0.5) { &kinds[..4] } else { &kinds };
        let servers = of_kinds(&mut rng, number, kinds);
        let Some(servers) = grown(&mut rng, servers, |servers| fits(servers, Order::Edf, cores)) else { continue };
        sets += 1;
        match admit_global(&servers, Order::Edf, cores, Bandwidth::ONE).unwrap().unwrap().by {
            Known::OneEach | Known::Responses(_) => unreachable!("more servers than cores, under EDF"),
            Known::Density(_) => by_density += 1,
            Known::Slacks(_) => by_interference += 1,
        }
        assert_supplied(&together(&mut rng, Order::Edf, cores, &servers), &mut tight);
        assert_supplied(&restless(&mut rng, Order::Edf, cores, Grids::Apart, servers), &mut tight);
    }
    println!(
        "{sets} sets, {by_density} by density, {by_interference} by interference; just enough in {tight:?} windows"
    );
    assert!(by_density > 60 && by_interference > 60 && tight.len() == 6, "{by_density} {by_interference} {tight:?}");
}

#[test]
fn servers_admitted_on_several_cores_by_priority_have_their_supply() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let kinds: Vec<ServerKind> = KINDS.iter().copied().filter(|&kind| on_grid(kind)).collect();
    let (mut tight, mut double, mut sets) = (Tight::new(), 0, 0);
    while sets < 300 {
        let cores = rng.random_range(2..=4);
        let number = rng.random_range(cores as usize + 1..=2 * cores as usize + 2);
        let servers = of_kinds(&mut rng, number, &kinds);
        let Some(servers) = grown(&mut rng, servers, |servers| fits(servers, Order::FixedPriority, cores)) else {
            continue;
        };
        sets += 1;
        double += usize::from(servers.iter().any(|server| server.kind == Deferrable));
        assert_supplied(&together(&mut rng, Order::FixedPriority, cores, &servers), &mut tight);
        for _ in 0..2 {
            let scene = restless(&mut rng, Order::FixedPriority, cores, Grids::Apart, servers.clone());
            assert_supplied(&scene, &mut tight);
        }
    }
    println!("{sets} sets, {double} with a deferrable server; just enough in {tight:?} windows");
    assert!(double > 100 && kinds.iter().all(|kind| tight.get(kind) > Some(&300)), "{double} {tight:?}");
}

#[test]
fn a_set_that_misses_on_several_cores_is_refused_though_they_have_room() {
    // Dhall and Liu 1978: m light servers and one that needs nearly a whole core.
    for cores in 2..=4 {
        let mut servers = vec![server(PeriodicStrict, 2, 10); cores as usize];
        servers.push(server(PeriodicStrict, 10, 11));
        let Err(Refused::Global { interference: Some(found), .. }) =
            admit_global(&servers, Order::Edf, cores, Bandwidth::ONE).unwrap()
        else {
            panic!()
        };
        assert_eq!(found.server, cores as usize);
        let all = servers.iter().map(|_| vec![(0, u64::MAX)]).collect();
        let first = vec![0; servers.len()];
        let sums = play(&Scene { order: Order::Edf, cores, servers, first, ready: all, until: 11 });
        assert_eq!(sums[cores as usize][11], 9, "of 10");
    }
    let mixed = [server(ConstantBandwidth, 1, 4), server(Deferrable, 1, 4), server(Sporadic, 1, 4)];
    assert_eq!(
        admit_global(&mixed, Order::Edf, 2, Bandwidth::ONE).unwrap(),
        Err(Refused::NoTest { server: 1, kind: Deferrable })
    );
}
