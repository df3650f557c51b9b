//! What servers get: never more than their kind allows (law 1), never less than was promised (laws 2 and 4).

use crate::driver::{play, pool_of, Driver, Run};
use crate::oracle::Spec;
use crate::{reservation, ALL, BOUNDED};
use giusto_policy::{Kind, Order};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Plays `count` servers; a `late` driver is late in a fifth of its decisions.
fn random_run(random: &mut ChaCha8Rng, order: Order, specs: &[Spec], late: bool, always_ready: usize) -> Run {
    let calm = random.random_range(1..40);
    let driver = Driver { late: if late { 0.2 } else { 0.0 }, steal: 0.0, calm, always_ready, length: 300 };
    play(order, specs, driver, random)
}

/// Every window [a, b) with a < b.
fn windows(length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length).flat_map(move |a| (a + 1..=length).map(move |b| (a, b)))
}

#[test]
fn law_1_no_budget_from_nothing() {
    let mut most = [0u64; 2]; // how close runs come to the bounds, in percent
    for seed in 0..400 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let specs: Vec<_> = (0..random.random_range(1..=4)).map(|_| reservation(&mut random, &ALL)).collect();
        let run = random_run(&mut random, order, &specs, seed % 4 < 2, 1);
        for (i, s) in specs.iter().enumerate().filter(|(_, s)| s.kind != Kind::Unlimited) {
            let sums = run.consumed(i);
            for (a, b) in windows(sums.len() - 1) {
                let length = (b - a) as u64;
                let allowed = match s.kind {
                    // What is left at a, and a budget at each replenishment in (a, b): 2B around one.
                    Kind::Deferrable => s.budget * (1 + length.div_ceil(s.period)),
                    // What is left at a; the bandwidth; and twice a budget at once: one to run out past its deadline
                    // after others had the core, and the next.
                    _ => 3 * s.budget + length * s.budget / s.period,
                };
                let used = sums[b] - sums[a];
                assert!(
                    used <= allowed + run.lateness,
                    "seed {seed}: server {i} used {used} of {allowed} in [{a}, {b}), lateness {}: {s:?}",
                    run.lateness
                );
                if run.lateness == 0 {
                    let kind = usize::from(s.kind == Kind::ConstantBandwidth);
                    most[kind] = most[kind].max(used * 100 / allowed);
                }
            }
        }
    }
    eprintln!("nearest to the bound without lateness: deferrable {} %, constant bandwidth {} %", most[0], most[1]);
    assert!(most[0] == 100, "the deferrable bound is reached: a budget, a replenishment, a budget");
}

/// The least that a server gets in a window throughout which it is ready, after `blackout` without supply at worst.
fn supply_bound(s: &Spec, length: u64, blackout: u64) -> u64 {
    let supplied = length.saturating_sub(blackout);
    supplied / s.period * s.budget + s.budget.min(supplied % s.period)
}

/// Windows throughout which server i is ready and that begin after its first replenishment.
fn assert_supply(run: &Run, i: usize, blackout: u64) -> u64 {
    let (s, sums, mut tight) = (&run.specs[i], run.consumed(i), 0);
    for a in s.first as usize..run.ran.len() {
        for b in (a + 1..=run.ran.len()).take_while(|&b| run.ready[b - 1][i]) {
            let (got, least) = (sums[b] - sums[a], supply_bound(s, (b - a) as u64, blackout));
            assert!(got >= least, "server {i} got {got} of {least} in [{a}, {b}): {:?}", run.specs);
            tight += u64::from(least > 0 && got == least);
        }
    }
    tight
}

#[test]
fn law_2_the_highest_priority_is_supplied_its_budget_in_every_period() {
    let mut tight = 0;
    for seed in 0..600 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut specs: Vec<_> = (0..3).map(|_| reservation(&mut random, &ALL)).collect();
        specs[0] = Spec { priority: 0, ..reservation(&mut random, &BOUNDED) };
        let run = random_run(&mut random, Order::FixedPriority, &specs, false, usize::from(seed % 3 == 0));
        tight += assert_supply(&run, 0, specs[0].period - specs[0].budget);
    }
    assert!(tight > 1000, "the bound is tight in some windows: {tight}");
}

#[test]
fn law_2_constant_bandwidth_servers_that_fit_are_all_supplied_under_edf() {
    let mut tight = 0;
    for seed in 0..600 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut specs: Vec<_> = (0..3).map(|_| Spec { first: 0, ..reservation(&mut random, &BOUNDED[1..]) }).collect();
        while specs.iter().map(|s| s.budget as f64 / s.period as f64).sum::<f64>() > 1.0 {
            specs.pop();
        }
        specs.push(Spec { kind: Kind::Unlimited, ..specs[0] });
        let run = random_run(&mut random, Order::Edf, &specs, false, usize::from(seed % 3 == 0));
        for (i, s) in specs.iter().enumerate().filter(|(_, s)| s.kind != Kind::Unlimited) {
            tight += assert_supply(&run, i, 2 * (s.period - s.budget));
        }
    }
    assert!(tight > 1000, "the bound is tight in some windows: {tight}");
}

#[test]
fn law_4_unfinished_work_at_each_period_start_is_that_of_a_periodic_server_that_is_off_first() {
    // Theorem 5 of dissertation 000, fig. 4.4.
    let (mut depleted, mut idle) = (0, 0);
    for seed in 0..500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let s = Spec { first: 0, ..reservation(&mut random, &BOUNDED[..1]) };
        let (mut pool, ids) = pool_of(Order::FixedPriority, &[s]);
        let (mut deferrable, mut periodic) = (0u64, 0u64);
        let busy = s.budget as f64 / s.period as f64 / 8.0;
        for t in 0..s.period * 40 {
            if t % s.period == 0 {
                assert_eq!(deferrable, periodic, "unfinished work at {t}, {s:?}");
                idle += u64::from(deferrable == 0);
                depleted += u64::from(deferrable > 0);
            }
            if random.random_bool(busy) {
                let work = random.random_range(1..=15);
                deferrable += work;
                periodic += work;
            }
            pool.ready(ids[0], deferrable > 0, t);
            pool.decide(t);
            deferrable -= u64::from(pool.running().is_some());
            periodic -= u64::from(periodic > 0 && t % s.period >= s.period - s.budget);
        }
    }
    assert!(depleted > 1000 && idle > 1000, "both cases occur: {depleted} {idle}");
}
