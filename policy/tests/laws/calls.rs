//! What callers may rely on: asking again changes nothing (law 6), and bad input does no harm.

use crate::driver::pool_of;
use crate::oracle::Spec;
use crate::{reservation, ALL};
use giusto_policy::{Error, Kind, Order, Params, Pool};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[test]
fn law_6_a_decision_before_until_changes_nothing() {
    for seed in 0..2000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let specs: Vec<_> = (0..random.random_range(1..=5)).map(|_| reservation(&mut random, &ALL)).collect();
        let (mut pool, ids) = pool_of(order, &specs);
        let mut now = 0;
        for _ in 0..60 {
            pool.ready(ids[random.random_range(0..ids.len())], random.random_bool(0.6), now);
            let first = pool.decide(now);
            let farthest = first.until.unwrap_or(now + 30);
            let (between, end) = (random.random_range(now..=farthest), random.random_range(now..=farthest));
            let mut asked = pool.clone();
            let repeated = asked.decide(between.min(end));
            if between.min(end) < farthest {
                assert_eq!((repeated.until, repeated.changed), (first.until, false), "seed {seed} at {between}");
            }
            let (a, b) = (asked.decide(end), pool.decide(end));
            assert_eq!((a.until, asked.running()), (b.until, pool.running()), "seed {seed} at {end}");
            for &id in &ids {
                assert_eq!(
                    (asked.left_ns(id), asked.deadline_ns(id)),
                    (pool.left_ns(id), pool.deadline_ns(id)),
                    "seed {seed}: {id:?} at {end} of {specs:?}"
                );
            }
            now = end;
        }
    }
}

#[test]
fn the_wake_up_rule_is_exact_in_128_bits() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut kept, mut renewed) = (0, 0);
    for _ in 0..20_000 {
        let period = (random.random_range(0..=1u64 << 62) >> random.random_range(0..40)).max(2);
        let budget = random.random_range(1..=period);
        let spec = Spec { kind: Kind::ConstantBandwidth, budget, period, priority: 0, first: 0 };
        let (mut pool, ids) = pool_of(Order::Edf, &[spec]);
        pool.ready(ids[0], true, 0);
        pool.decide(0);
        // After `used`, the rule turns exactly where time / period = used / budget; wake around there.
        let used = random.random_range(0..budget);
        pool.ready(ids[0], false, used);
        let fluid = (u128::from(used) * u128::from(period) / u128::from(budget)) as u64;
        let at = (fluid + random.random_range(0..3)).saturating_sub(1).max(used);
        pool.decide(used);
        pool.ready(ids[0], true, at);
        let renews = at >= period
            || u128::from(budget - used) * u128::from(period) > u128::from(period - at) * u128::from(budget);
        let expected = if renews { at + period } else { period };
        assert_eq!(pool.deadline_ns(ids[0]), expected, "B={budget} P={period} used {used}, woken at {at}");
        *if renews { &mut renewed } else { &mut kept } += 1;
    }
    assert!(kept > 1000 && renewed > 1000, "both outcomes occur: {kept} {renewed}");
}

#[test]
fn what_is_no_reservation_is_refused_with_what_was_expected() {
    let mut pool = Pool::new(Order::Edf);
    let params = Params { budget: 2, period: 5, first: 0, priority: 0 };
    for (budget, period) in [(0, 5), (6, 5), (0, 0), (1, (1 << 62) + 1), (u64::MAX, u64::MAX)] {
        let refused = pool.add(Kind::Deferrable, Params { budget, period, ..params }, 0);
        assert_eq!(refused, Err(Error::Reservation { budget, period }));
    }
    let first = (1 << 62) + 1;
    assert_eq!(pool.add(Kind::Deferrable, Params { first, ..params }, 0), Err(Error::First { first }));
    for _ in 0..64 {
        pool.add(Kind::ConstantBandwidth, params, 0).unwrap();
    }
    assert_eq!(pool.add(Kind::ConstantBandwidth, params, 0), Err(Error::Full));
    let text = Error::Reservation { budget: 6, period: 5 }.to_string();
    assert!(text.contains("6 ns in 5 ns") && text.contains("0 < budget <= period"), "{text}");
}

#[test]
fn ids_of_another_pool_and_the_end_of_time_do_no_harm() {
    let (mut large, ids) = pool_of(
        Order::FixedPriority,
        &[Spec { kind: Kind::ConstantBandwidth, budget: 1 << 62, period: 1 << 62, priority: 0, first: 0 }; 3],
    );
    let mut empty = Pool::new(Order::FixedPriority);
    empty.ready(ids[2], true, 5);
    assert_eq!((empty.decide(5).until, empty.running(), empty.left_ns(ids[2])), (None, None, 0));
    for now in [0, 1 << 61, u64::MAX, 0] {
        for &id in &ids {
            large.ready(id, true, now);
            large.charge(u64::MAX, now);
            large.decide(now);
            assert!(large.left_ns(id) <= 1 << 62);
        }
    }
}
