//! The pool against the oracle on random systems: every decision, budget and deadline, also with a late driver.

use crate::driver::{play, Driver};
use crate::oracle::CASES;
use crate::{reservation, ALL};
use giusto_policy::Order;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

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
