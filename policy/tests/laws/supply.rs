//! What servers get at least, in windows throughout which they have work (law 2).

use crate::budgets::{assert_no_more_than, back_to_back, periods, random_run, Nearest};
use crate::driver::Run;
use crate::oracle::Spec;
use crate::{reservation, ALL, BOUNDED};
use giusto_policy::{Kind, Order};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Windows in which a server got just what it must, by kind.
type Tight = [u64; ALL.len()];

/// Windows throughout which server i is ready and that begin after its first replenishment; of a polling server those that
/// begin at a replenishment. At worst there is no supply for `blackout` at first.
fn assert_supply(run: &Run, i: usize, blackout: u64, tight: &mut Tight) {
    let (s, sums) = (&run.specs[i], run.supplied(i));
    let mut works: Vec<bool> = run.ready.iter().map(|ready| ready[i]).collect();
    for &(who, t) in &run.slept {
        if who == i && t < works.len() {
            works[t] = false; // a window that begins later is another one
        }
    }
    let polls = s.kind == Kind::Polling;
    for a in (s.first as usize..run.ready.len()).filter(|&a| !polls || (a as u64 - s.first).is_multiple_of(s.period)) {
        for b in (a + 1..=run.ready.len()).take_while(|&b| works[b - 1]) {
            let got = sums[b] - sums[a];
            let least = periods(s, ((b - a) as u64).saturating_sub(blackout));
            assert!(got >= least, "server {i} got {got} of {least} in [{a}, {b}): {:?}", run.specs);
            tight[s.kind as usize] += u64::from(least > 0 && got == least);
        }
    }
}

fn assert_tight(of: &str, tight: &Tight) {
    for &kind in BOUNDED {
        eprintln!("{of}: {kind:?} got just its bound in {} windows", tight[kind as usize]);
        assert!(tight[kind as usize] > 1000, "the bound of {kind:?} is tight in some windows");
    }
}

/// Supply of a server that ends its budget in its period at worst. A polling server's windows begin where a period does.
fn blackout(s: &Spec) -> u64 {
    (s.period - s.budget) * if s.kind == Kind::Polling { 1 } else { 2 }
}

#[test]
fn law_2_the_highest_priority_is_supplied_its_budget_in_every_period() {
    let mut tight = Tight::default();
    for seed in 0..2500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut specs: Vec<_> = (0..3).map(|_| reservation(&mut random, &ALL)).collect();
        specs[0] = Spec { priority: 0, ..reservation(&mut random, BOUNDED) };
        let run = random_run(&mut random, Order::FixedPriority, &specs, false, usize::from(seed % 3 == 0), 1);
        let s = &specs[0];
        // At a replenishment a polling server is supplied at once.
        let blackout = if s.kind == Kind::Polling { 0 } else { s.period - s.budget };
        assert_supply(&run, 0, blackout, &mut tight);
    }
    assert_tight("highest priority", &tight);
}

/// The response-time test of compositional.md: only a deferrable server can use two budgets at once.
fn fits_fixed_priority(specs: &[Spec]) -> bool {
    specs.iter().enumerate().all(|(i, s)| {
        let first = |j: &usize| (specs[*j].priority, *j) < (s.priority, i);
        let mut response = s.budget;
        loop {
            let interference = |j: usize| {
                let (other, jitter) =
                    (&specs[j], |o: &Spec| (o.period - o.budget) * u64::from(o.kind == Kind::Deferrable));
                (response + jitter(other)).div_ceil(other.period) * other.budget
            };
            let next = s.budget + (0..specs.len()).filter(first).map(interference).sum::<u64>();
            if next > s.period {
                return false;
            }
            if next == response {
                return true;
            }
            response = next;
        }
    })
}

/// Utilisation; with deferrable servers also that two budgets at once leave the others theirs.
fn fits_edf(specs: &[Spec]) -> bool {
    let utilisation: f64 = specs.iter().map(|s| s.budget as f64 / s.period as f64).sum();
    if !specs.iter().any(|s| s.kind == Kind::Deferrable) {
        return utilisation <= 1.0;
    }
    let demand = |t: u64| specs.iter().map(|s| periods(s, t)).sum::<u64>();
    let least = specs.iter().map(|s| s.period).min().unwrap_or(1);
    utilisation < 0.999 && (least..20_000).all(|t| demand(t) <= t)
}

fn law_2_of_admitted_sets(order: Order, fits: impl Fn(&[Spec]) -> bool) -> (u64, Tight) {
    let (mut tight, mut nearest, mut sets) = (Tight::default(), Nearest::default(), 0);
    for seed in 0..6000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut specs: Vec<_> = (0..3).map(|_| reservation(&mut random, BOUNDED)).collect();
        while !fits(&specs) {
            specs.pop();
        }
        if specs.len() < 2 {
            continue;
        }
        sets += 1;
        specs.push(Spec { kind: Kind::Unlimited, priority: 9, ..specs[0] });
        let run = random_run(&mut random, order, &specs, false, (seed % 4) as usize % specs.len(), 1);
        for (i, s) in specs.iter().enumerate().filter(|(_, s)| s.kind != Kind::Unlimited) {
            assert_supply(&run, i, blackout(s), &mut tight);
            assert_no_more_than(&run, i, |length| back_to_back(s, length), &mut nearest);
        }
    }
    assert!(BOUNDED.iter().all(|&k| nearest[k as usize] == 100), "law 1: the bounds are reached: {nearest:?}");
    (sets, tight)
}

#[test]
fn law_2_admitted_sets_are_supplied_under_fixed_priority() {
    let (sets, tight) = law_2_of_admitted_sets(Order::FixedPriority, fits_fixed_priority);
    eprintln!("fixed priority: {sets} admitted sets of 2 or 3 servers");
    assert_tight("fixed priority", &tight);
}

#[test]
fn law_2_admitted_sets_are_supplied_under_edf() {
    let (sets, tight) = law_2_of_admitted_sets(Order::Edf, fits_edf);
    eprintln!("EDF: {sets} admitted sets of 2 or 3 servers");
    assert_tight("EDF", &tight);
}
