//! The guarantees of mixed criticality, as laws.

use super::play::{Play, Seen, Trouble};
use super::system::{random_system, System};
use giusto_policy::{Back, CoreMode, Mixed, Order, Pool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const LENGTH: u64 = 600;

fn runs(most: u64) -> u64 {
    if std::env::var_os("GIUSTO_SOAK").is_some() {
        20 * most
    } else {
        most
    }
}

/// Plays random systems; what was seen in all of them, and in how many x was 1 or a condition held with equality.
fn play(most: u64, trouble: impl Fn(u64) -> Trouble, back: Back) -> (Seen, u64, u64) {
    let (mut sum, mut plain, mut at_the_bound) = (Seen::default(), 0, 0);
    for seed in 0..runs(most) {
        println!("seed {seed}"); // shown when it fails
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let want_plain = random.random_bool(0.25);
        let system = random_system(&mut random, want_plain);
        plain += u64::from(system.x == 12);
        at_the_bound += u64::from(system.at_the_bound);
        sum.add(&Play::run(&mut random, &system, trouble(seed), back, LENGTH));
    }
    eprintln!("{most} systems, x = 1 in {plain}, equality in {at_the_bound}: {sum:?}");
    (sum, plain, at_the_bound)
}

#[test]
fn the_high_get_their_worst_budget_and_in_lo_the_low_their_own() {
    let (seen, plain, at_the_bound) = play(6000, |_| Trouble::default(), Back::Idle);
    for (what, count) in [
        ("x = 1", plain),
        ("equality at the bound", at_the_bound),
        ("LO -> HI", seen.to_hi),
        ("HI -> LO", seen.to_lo),
        ("woken, kept", seen.kept),
        ("woken, renewed", seen.renewed),
        ("woken, deferred", seen.deferred),
        ("high jobs in LO", seen.high_in_lo),
        ("high jobs through HI", seen.high_through_hi),
        ("low jobs", seen.low),
        ("kept at the deadline itself", seen.just_in_time),
        ("a high one ran beyond its worst budget", seen.beyond_worst),
        ("windows of several periods", seen.long_windows),
    ] {
        assert!(count >= 100, "{what} occurred only {count} times");
    }
}

#[test]
fn late_drivers_stolen_time_and_boosts_cost_no_more_than_they_take() {
    let trouble = |seed| match seed % 4 {
        0 => Trouble { lateness: 3, ..Trouble::default() },
        1 => Trouble { steal: 0.01, ..Trouble::default() },
        2 => Trouble { boost: 0.01, ..Trouble::default() },
        _ => Trouble { lateness: 2, steal: 0.01, boost: 0.005, change: 0.0 },
    };
    let (seen, ..) = play(2000, trouble, Back::Idle);
    assert!(seen.disturbed > 1500 && seen.boosts > 1000, "{seen:?}");
    assert!(seen.high_through_hi > 1000 && seen.high_in_lo > 1000 && seen.low > 1000, "{seen:?}");
}

#[test]
fn changes_to_budgets_that_pass_keep_the_promises() {
    let (seen, ..) = play(2000, |_| Trouble { change: 0.02, ..Trouble::default() }, Back::Idle);
    assert!(seen.changes > 10_000, "{seen:?}");
    assert!(seen.high_through_hi > 1000 && seen.high_in_lo > 1000 && seen.low > 1000, "{seen:?}");
}

/// The paper's rule: HI ends by temperature alone, also while high ones have work. A set that passes with equality, x = 1/2:
/// 1/6 + (5/12) / x = 1 and x / 6 + 11/12 = 1. The same behaviour under the other rule is the control.
#[test]
fn back_by_temperature_alone_misses() {
    let high =
        |optimistic, worst, period| Mixed { optimistic, worst: Some(worst), period, virtual_deadline: period / 2 };
    let low = Mixed { optimistic: 4, worst: None, period: 24, virtual_deadline: 24 };
    let system = System { vms: vec![high(1, 7, 12), high(12, 12, 36), low], x: 6, at_the_bound: true, tightness: 0 };
    let mut sums = [Seen::default(); 2];
    for seed in 0..runs(1500) {
        for (sum, back) in sums.iter_mut().zip([Back::Temperature, Back::Idle]) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            sum.add(&Play::run(&mut random, &system, Trouble::default(), back, LENGTH));
        }
    }
    let kept = sums.map(|seen| seen.high_in_lo + seen.high_through_hi + seen.low);
    eprintln!("back by temperature: {} promises missed, {} kept; idle: 0, {}", sums[0].misses, kept[0], kept[1]);
    assert!(sums[0].misses >= 100 && kept[0] > 10_000 && kept[1] > 10_000, "{sums:?}");
}

/// p passes with 0.2, high and low; ranked by 80 it would get 0.25 in LO if a wake-up after 77 could begin a new job. By the time
/// h asks, at its virtual deadline 400, h would be short by what p had too much.
#[test]
fn who_wakes_early_gets_no_more_than_its_worst_bandwidth() {
    let mut pool = Pool::new(Order::MixedCriticality);
    let mut add = |optimistic, worst, period, virtual_deadline| {
        pool.add_mixed(Mixed { optimistic, worst, period, virtual_deadline }, 0, 0).unwrap()
    };
    let p = add(20, Some(20), 100, 80);
    let low = add(50, None, 100, 100);
    let h = add(100, Some(200), 500, 400);
    let [mut had_p, mut had_h, mut woke] = [0; 3];
    let mut p_is_ready = true;
    for id in [p, low, h] {
        pool.ready(id, true, 0);
    }
    for t in 0..500 {
        if p_is_ready && had_p == 19 && t < 380 {
            (p_is_ready, had_p) = (false, 0);
            pool.ready(p, false, t);
        }
        if !p_is_ready && t >= woke + 77 {
            (p_is_ready, woke) = (true, t);
            pool.ready(p, true, t);
        }
        pool.decide(t);
        had_p += u64::from(pool.running(0) == Some(p));
        had_h += u64::from(pool.running(0) == Some(h));
    }
    assert_eq!((had_h, pool.core_mode(0)), (200, CoreMode::Hi));
}
