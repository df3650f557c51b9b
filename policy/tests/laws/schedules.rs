//! The pool against the oracle on random systems: every decision, budget and deadline, also with a late driver.

use crate::driver::{play, Driver};
use crate::oracle::{Spec, CASES};
use crate::{reservation, ALL, PERIODIC};
use giusto_policy::{Kind, Order};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Systems as large as a pool may be: heaps of any height, any of the 64 cores, more due at an instant than one call books.
#[test]
fn schedules_of_7_to_1024_servers_on_5_to_64_cores_are_those_of_the_oracle() {
    let runs: u64 = if std::env::var_os("GIUSTO_SOAK").is_some() { 2_000 } else { 60 };
    let (mut many_cores, mut many_servers) = (0, 0);
    for seed in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let cores = if seed % 3 == 0 { random.random_range(33..=64) } else { random.random_range(5..=32) };
        // Few are large: a run costs the square of their number.
        let servers = match seed % 30 {
            0 | 1 => random.random_range(600..=1024),
            2..8 => random.random_range(130..=300),
            _ => random.random_range(7..=100),
        };
        let kinds = match seed % 5 {
            0 => &PERIODIC[..],
            1 => &[Kind::PeriodicReclaiming, Kind::Sporadic],
            2 => &[Kind::Deferrable, Kind::ConstantBandwidth],
            _ => &ALL[..],
        };
        let specs: Vec<_> = (0..servers)
            .map(|_| {
                let spec = reservation(&mut random, kinds);
                Spec { priority: random.random_range(0..40), ..spec }
            })
            .collect();
        let driver = Driver {
            cores,
            late: if seed % 4 == 0 { 0.2 } else { 0.0 },
            steal: 0.0,
            change: if seed % 2 == 0 { 0.3 } else { 0.0 },
            calm: random.random_range(1..10),
            always_ready: servers / [2, 4, 8][random.random_range(0..3)],
            length: 60,
        };
        println!("seed {seed}"); // shown when it fails
        play(order, &specs, driver, &mut random);
        many_cores += u64::from(cores > 32);
        many_servers += u64::from(servers > 128);
    }
    assert!(many_cores * 5 >= runs && many_servers * 5 >= runs, "{many_cores}, {many_servers} of {runs}");
}

#[test]
fn every_schedule_is_that_of_the_oracle_and_no_core_idles_while_a_server_is_eligible() {
    let runs: u64 = if std::env::var_os("GIUSTO_SOAK").is_some() { 100_000 } else { 15_000 };
    let mut covered = [0u64; CASES.len()];
    for seed in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let cores = [1, 1, 2, 3, 4][random.random_range(0..5)];
        let specs: Vec<_> = (0..random.random_range(1..=6)).map(|_| reservation(&mut random, &ALL)).collect();
        let driver = Driver {
            cores,
            late: if seed % 3 == 0 { 0.0 } else { 0.2 },
            steal: if seed % 5 == 0 { 0.2 } else { 0.0 },
            change: if seed % 7 == 0 { 0.0 } else { 0.3 },
            calm: random.random_range(1..30),
            always_ready: usize::from(seed % 4 == 0),
            length: 400,
        };
        println!("seed {seed}"); // shown when it fails
        let counts = play(order, &specs, driver, &mut random).counts;
        for (covered, count) in covered.iter_mut().zip(counts.0) {
            *covered += u64::from(count > 0);
        }
    }
    for (name, covered) in CASES.iter().zip(covered) {
        eprintln!("{name}: in {covered} of {runs} runs");
        assert!(covered * 100 >= runs, "{name} in fewer than 1 % of the runs: {covered} of {runs}");
    }
}
