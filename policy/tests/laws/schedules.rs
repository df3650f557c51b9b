//! The pool against the oracle on random systems: every decision, budget and deadline, also with a late driver.

use crate::driver::{play, Driver};
use crate::oracle::Counts;
use crate::{reservation, ALL};
use giusto_policy::Order;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: u64 = 20_000;

#[test]
fn every_schedule_is_that_of_the_oracle_and_no_core_idles_while_a_server_is_eligible() {
    let mut covered = [0u64; 5];
    for seed in 0..RUNS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let specs: Vec<_> = (0..random.random_range(1..=6)).map(|_| reservation(&mut random, &ALL)).collect();
        let driver = Driver {
            late: if seed % 3 == 0 { 0.0 } else { 0.2 },
            steal: if seed % 5 == 0 { 0.2 } else { 0.0 },
            calm: random.random_range(1..30),
            always_ready: usize::from(seed % 4 == 0),
            length: 400,
        };
        println!("seed {seed}"); // shown when it fails
        let Counts { depletions, debts, reanchors, late_two_periods, replenished_past_deadline } =
            play(order, &specs, driver, &mut random).counts;
        let counts = [depletions, debts, reanchors, late_two_periods, replenished_past_deadline];
        for (covered, count) in covered.iter_mut().zip(counts) {
            *covered += u64::from(count > 0);
        }
    }
    let names = ["depletion", "debt", "re-anchored CBS", "lateness of 2 periods", "late past a CBS deadline"];
    for (name, covered) in names.iter().zip(covered) {
        eprintln!("{name}: in {covered} of {RUNS} runs");
        assert!(covered * 100 >= RUNS, "{name} in fewer than 1 % of the runs: {covered} of {RUNS}");
    }
}
