//! Larger systems under the policy core, with workloads that wait for the worst moment.

use crate::core::{kind_of, order_of};
use crate::model::on_grid;
use crate::{fits, KINDS};
use giusto_analysis::admission::{Grids, Order};
use giusto_model::ServerKind::{self, Polling, Sporadic};
use giusto_model::{Duration, Server};
use giusto_policy::{Id, Params, Pool};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

/// A system and what its workloads do.
pub(crate) struct Scene {
    pub(crate) order: Order,
    pub(crate) cores: u32,
    pub(crate) servers: Vec<Server>,
    /// First replenishments; 0 for kinds without a grid.
    pub(crate) first: Vec<u64>,
    /// When each has work: ascending, apart.
    pub(crate) ready: Vec<Vec<(u64, u64)>>,
    pub(crate) until: u64,
}

/// What each server had, as sums up to each ns.
pub(crate) fn play(scene: &Scene) -> Vec<Vec<u64>> {
    let mut pool = Pool::with_cores(order_of(scene.order), scene.cores);
    let specs = scene.servers.iter().zip(&scene.first).zip(0..);
    let ids: Vec<Id> = specs
        .map(|((server, &first), priority)| {
            let params = Params { budget: server.budget.ns(), period: server.period.ns(), first, priority };
            pool.add(kind_of(server.kind), params, 0).unwrap()
        })
        .collect();
    let mut sums = vec![vec![0]; ids.len()];
    for now in 0..scene.until {
        for (&id, ready) in ids.iter().zip(&scene.ready) {
            // Work that ends where other work comes: it went idle and came back.
            if ready.iter().any(|span| span.1 == now) {
                pool.ready(id, false, now);
            }
            if ready.iter().any(|span| span.0 == now) {
                pool.ready(id, true, now);
            }
        }
        pool.decide(now);
        let running: Vec<Id> = (0..scene.cores).filter_map(|core| pool.running(core)).collect();
        for (&id, sums) in ids.iter().zip(&mut sums) {
            sums.push(sums[now as usize] + u64::from(running.contains(&id)));
        }
    }
    sums
}

/// Windows in which a server got just what it must, by kind.
pub(crate) type Tight = HashMap<ServerKind, u64>;

/// What admission promises: of every window throughout which a server has work, as much as the periodic resource supplies;
/// polling: if it begins with a period; sporadic under EDF: up to B later. And B in every whole period of a grid.
pub(crate) fn assert_supplied(scene: &Scene, tight: &mut Tight) {
    let sums = play(scene);
    for (i, server) in scene.servers.iter().enumerate() {
        let (budget, period) = (server.budget.ns(), server.period.ns());
        let blackout = match server.kind {
            Polling => period - budget,
            Sporadic if scene.order == Order::Edf => 2 * period - budget,
            _ => 2 * (period - budget),
        };
        let least = |t: u64| {
            let rest = t.saturating_sub(blackout);
            rest / period * budget + budget.min(rest % period)
        };
        for &(begin, end) in &scene.ready[i] {
            let end = end.min(scene.until);
            let starts = |from: &u64| on_grid(server.kind) && (from - scene.first[i]).is_multiple_of(period);
            for from in begin.max(scene.first[i])..end {
                let got = |to: u64| sums[i][to as usize] - sums[i][from as usize];
                let told = || {
                    format!(
                        "server {i} from {from}: {:?} {:?} {:?} {:?}",
                        scene.order, scene.servers, scene.first, scene.ready
                    )
                };
                if starts(&from) && from + period <= end {
                    assert!(got(from + period) >= budget, "{}", told());
                }
                if server.kind == Polling && !starts(&from) {
                    continue;
                }
                for to in (from + 1..=end).take(4 * period as usize) {
                    let must = least(to - from);
                    assert!(got(to) >= must, "{} of {must} until {to}: {}", got(to), told());
                    *tight.entry(server.kind).or_default() += u64::from(must > 0 && got(to) == must);
                }
            }
        }
    }
}

/// Budgets as large as `fits` allows, grown one by one from 1; of a sporadic server at most the 8 parts that the core keeps.
pub(crate) fn grown(
    rng: &mut ChaCha8Rng,
    mut servers: Vec<Server>,
    fits: impl Fn(&[Server]) -> bool,
) -> Option<Vec<Server>> {
    if !fits(&servers) {
        return None;
    }
    let mut failed = 0;
    while failed < 3 * servers.len() {
        let i = rng.random_range(0..servers.len());
        let budget = servers[i].budget.ns() + 1;
        let most = if servers[i].kind == Sporadic { 8.min(servers[i].period.ns()) } else { servers[i].period.ns() };
        let old = std::mem::replace(&mut servers[i].budget, Duration::from_ns(budget));
        if budget > most || !fits(&servers) {
            servers[i].budget = old;
            failed += 1;
        }
    }
    Some(servers)
}

pub(crate) fn of_kinds(rng: &mut ChaCha8Rng, number: usize, kinds: &[ServerKind]) -> Vec<Server> {
    let period = |rng: &mut ChaCha8Rng| {
        Duration::from_ns(if rng.random_bool(0.5) {
            [4, 6, 8, 12, 24][rng.random_range(0..5)]
        } else {
            rng.random_range(4..=30)
        })
    };
    let budget = Duration::from_ns(1);
    (0..number).map(|_| Server { kind: *kinds.choose(rng).unwrap(), budget, period: period(rng) }).collect()
}

/// Every server waits with a full budget until `from`, and then has work to the end; a constant_bandwidth server has used a
/// little before. The periods of grids that are apart end at `due`, or one budget after the other's.
fn worst(rng: &mut ChaCha8Rng, order: Order, grids: Grids, servers: Vec<Server>) -> Scene {
    let longest = servers.iter().map(|s| s.period.ns()).max().unwrap();
    let from = rng.random_range(2 * longest..4 * longest);
    let due = from + rng.random_range(longest / 2..3 * longest);
    let mut used = from;
    let mut first = Vec::new();
    let mut ready = Vec::new();
    for server in &servers {
        let (budget, period) = (server.budget.ns(), server.period.ns());
        used += budget;
        let ends = if order == Order::Edf { due } else { used };
        first.push(match grids {
            Grids::Apart if on_grid(server.kind) && rng.random_bool(0.8) => ends % period,
            Grids::Apart if on_grid(server.kind) => rng.random_range(0..period),
            _ => 0,
        });
        let wakes = (from + rng.random_range(0..=2) * rng.random_range(0..=1))
            .saturating_sub(rng.random_range(0..=budget) * rng.random_range(0..=1));
        let before = wakes - rng.random_range(1..=period);
        let little = rng.random_range(1..=budget).min(wakes - before);
        let mut spans = vec![(wakes, u64::MAX)];
        if !on_grid(server.kind) && rng.random_bool(0.7) {
            spans.insert(0, (before, before + little));
        }
        ready.push(spans);
    }
    Scene { order, cores: 1, servers, first, ready, until: due + 3 * longest }
}

/// Every server becomes ready and idle at random times.
pub(crate) fn restless(rng: &mut ChaCha8Rng, order: Order, cores: u32, grids: Grids, servers: Vec<Server>) -> Scene {
    let until = 240;
    let apart = |server: &Server| grids == Grids::Apart && on_grid(server.kind);
    let first = servers.iter().map(|s| if apart(s) { rng.random_range(0..s.period.ns()) } else { 0 }).collect();
    let ready = servers.iter().map(|server| {
        let (mut spans, mut now) = (Vec::new(), rng.random_range(0..40));
        let (work, rest) = (rng.random_range(1..=4 * server.period.ns()), rng.random_range(0..=server.period.ns()));
        while now < until {
            let end = now + rng.random_range(1..=work);
            spans.push((now, end));
            now = end + rng.random_range(0..=rest);
        }
        spans
    });
    let ready = ready.collect();
    Scene { order, cores, servers, first, ready, until }
}

#[test]
fn servers_admitted_with_the_largest_budgets_have_their_supply_at_the_worst_moments() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut tight, mut full, mut sets, mut double) = (Tight::new(), 0, 0, 0);
    while sets < 500 {
        let order = if rng.random_bool(0.5) { Order::Edf } else { Order::FixedPriority };
        let grids = if rng.random_bool(0.3) { Grids::Aligned } else { Grids::Apart };
        let number = rng.random_range(2..=5);
        let servers = of_kinds(&mut rng, number, &KINDS);
        let Some(servers) = grown(&mut rng, servers, |servers| fits(order, grids, servers).is_ok()) else { continue };
        sets += 1;
        let bandwidth: f64 = servers.iter().map(|s| s.bandwidth().as_f64()).sum();
        full += usize::from(bandwidth > 0.95);
        double += usize::from(servers.iter().any(|s| s.kind == ServerKind::Deferrable));
        for _ in 0..2 {
            assert_supplied(&worst(&mut rng, order, grids, servers.clone()), &mut tight);
        }
        assert_supplied(&restless(&mut rng, order, 1, grids, servers), &mut tight);
    }
    println!("{sets} sets, {double} with a deferrable server, {full} with more than 95 % of the core; just enough in {tight:?} windows");
    assert!(double > 150 && full > 100 && KINDS.iter().all(|kind| tight.get(kind) > Some(&1000)), "{tight:?}");
}
