//! What callers may rely on: asking again changes nothing (law 6), and bad input does no harm.

use crate::driver::pool_of;
use crate::oracle::Spec;
use crate::{reservation, ALL, BOUNDED};
use giusto_policy::{Error, Id, Kind, Order, Params, Pool, When};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CORES: u32 = 4;

/// A pool of some servers and cores.
fn random_pool(random: &mut ChaCha8Rng) -> (Pool, Vec<Id>, Vec<Spec>) {
    let order = if random.random_bool(0.5) { Order::FixedPriority } else { Order::Edf };
    let specs: Vec<_> = (0..random.random_range(1..=6)).map(|_| reservation(random, &ALL)).collect();
    let cores = random.random_range(1..=CORES);
    let (pool, ids) = pool_of(order, cores, &specs);
    (pool, ids, specs)
}

/// A server becomes ready or idle, is changed or boosted; `specs` says what is in force if no change waits. Returns until
/// when it is boosted.
fn random_call(random: &mut ChaCha8Rng, pool: &mut Pool, ids: &[Id], specs: &mut [Spec], waits: bool, now: u64) -> u64 {
    let i = random.random_range(0..ids.len());
    let new = reservation(random, &ALL);
    match random.random_range(0..12) {
        0 => {
            let (budget, period, priority) = (new.budget, new.period, new.priority);
            specs[i] = Spec { budget, period, priority, ..specs[i] };
            pool.set(ids[i], budget, period, priority, When::Now, now).unwrap();
        }
        1 if waits => pool.set(ids[i], new.budget, new.period, 0, When::NextPeriod, now).unwrap(),
        2 => {
            let until = now + random.random_range(0..30);
            // Refused if all cores are taken.
            return pool.boost(ids[i], until, now).map_or(0, |()| until);
        }
        _ => pool.ready(ids[i], random.random_bool(0.6), now),
    }
    0
}

/// All that can be seen of a pool but `until`.
fn seen(pool: &Pool, ids: &[Id]) -> impl PartialEq + std::fmt::Debug {
    let cores: Vec<_> = (0..CORES).map(|core| (pool.running(core), pool.payer(core))).collect();
    let servers: Vec<_> = ids.iter().map(|&i| (pool.left_ns(i), pool.deadline_ns(i), pool.boost_ns(i))).collect();
    (cores, servers)
}

#[test]
fn law_6_a_decision_before_until_changes_nothing() {
    for seed in 0..6000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut pool, ids, mut specs) = random_pool(&mut random);
        let (mut now, mut boosts_end) = (0, 0);
        for _ in 0..60 {
            boosts_end = random_call(&mut random, &mut pool, &ids, &mut specs, true, now).max(boosts_end);
            let first = pool.decide(now);
            let farthest = first.until.unwrap_or(now + 30);
            let (between, end) = (random.random_range(now..=farthest), random.random_range(now..=farthest));
            let between = between.min(end);
            let mut asked = pool.clone();
            let repeated = asked.decide(between);
            if between < farthest {
                assert_eq!(repeated.changed, 0, "seed {seed} at {between}, asked at {now}");
                // A boosted server may be out of budget by then, which makes its next budget an event; a chunk of a sporadic
                // one may be due, so that its budget ends later.
                if boosts_end <= now && specs.iter().all(|s| s.kind != Kind::Sporadic) {
                    assert_eq!(repeated.until, first.until, "seed {seed} at {between}, asked at {now}");
                }
            }
            let (a, b) = (asked.decide(end), pool.decide(end));
            assert_eq!(a.until, b.until, "seed {seed}: until at {end}, asked at {now} and {between}");
            assert_eq!(seen(&asked, &ids), seen(&pool, &ids), "seed {seed} at {end}, asked at {now} and {between}");
            now = end;
        }
    }
}

#[test]
fn law_6_present_parameters_change_nothing() {
    for seed in 0..6000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut pool, ids, mut specs) = random_pool(&mut random);
        let mut other = pool.clone();
        let mut now = 0;
        for _ in 0..60 {
            let calls = ChaCha8Rng::seed_from_u64(random.random());
            let mut specs_again = specs.clone();
            random_call(&mut calls.clone(), &mut pool, &ids, &mut specs, false, now);
            random_call(&mut calls.clone(), &mut other, &ids, &mut specs_again, false, now);
            let i = random.random_range(0..ids.len());
            let when = if random.random_bool(0.5) { When::Now } else { When::NextPeriod };
            other.set(ids[i], specs[i].budget, specs[i].period, specs[i].priority, when, now).unwrap();
            let (a, b) = (pool.decide(now), other.decide(now));
            assert_eq!((a.until, a.changed), (b.until, b.changed), "seed {seed} at {now} of {specs:?}");
            assert_eq!(seen(&pool, &ids), seen(&other, &ids), "seed {seed} at {now}, {i} of {specs:?}");
            let late = if random.random_bool(0.2) { random.random_range(0..40) } else { 0 };
            now = random.random_range(now..=a.until.unwrap_or(now + 30)) + late;
        }
    }
}

#[test]
fn an_earlier_time_counts_as_the_last_and_more_than_passed_as_what_passed() {
    for seed in 0..1000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut pool, ids, mut specs) = random_pool(&mut random);
        let (mut other, mut specs_again) = (pool.clone(), specs.clone());
        let mut now = 0;
        for _ in 0..40 {
            let calls = ChaCha8Rng::seed_from_u64(random.random());
            random_call(&mut calls.clone(), &mut pool, &ids, &mut specs, true, now);
            random_call(&mut calls.clone(), &mut other, &ids, &mut specs_again, true, now);
            for core in 0..CORES + 2 {
                other.charge(core, u64::MAX, now);
            }
            pool.decide(now);
            other.decide(random.random_range(0..=now));
            assert_eq!(seen(&pool, &ids), seen(&other, &ids), "seed {seed} at {now}");
            now += random.random_range(0..30);
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
        let (mut pool, ids) = pool_of(Order::Edf, 1, &[spec]);
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
    let params = Params { budget: 2, period: 5, first: 0, priority: 0 };
    let wrong = [(0, 5), (6, 5), (0, 0), (1, (1 << 62) + 1), (u64::MAX, u64::MAX)];
    for &kind in BOUNDED {
        let mut pool = Pool::new(Order::Edf);
        for (budget, period) in wrong {
            let refused = pool.add(kind, Params { budget, period, ..params }, 0);
            assert_eq!(refused, Err(Error::Reservation { budget, period }));
        }
        let first = (1 << 62) + 1;
        assert_eq!(pool.add(kind, Params { first, ..params }, 0), Err(Error::First { first }));
        let id = pool.add(kind, params, 0).unwrap();
        pool.ready(id, true, 0);
        pool.decide(0);
        let before = seen(&pool, &[id]);
        for (budget, period) in wrong {
            for when in [When::Now, When::NextPeriod] {
                let refused = pool.set(id, budget, period, 7, when, 0);
                assert_eq!(refused, Err(Error::Reservation { budget, period }));
            }
        }
        assert_eq!(pool.decide(0).changed, 0);
        assert!(seen(&pool, &[id]) == before, "{kind:?}: what is refused changes nothing");
        assert!(pool.decide(5).until.is_some_and(|until| until <= 10), "{kind:?} keeps its period");
    }
    let text = Error::Reservation { budget: 6, period: 5 }.to_string();
    assert!(text.contains("6 ns in 5 ns") && text.contains("0 < budget <= period"), "{text}");
    let mut pool = Pool::new(Order::Edf);
    assert!(pool.add(Kind::Unlimited, Params { budget: 0, period: 0, ..params }, 0).is_ok(), "it has no budget");
}

#[test]
fn a_polling_server_grown_twice_at_one_instant_has_no_budget() {
    let spec = Spec { kind: Kind::Polling, budget: 1, period: 9, priority: 0, first: 0 };
    let (mut pool, ids) = pool_of(Order::FixedPriority, 1, &[spec]);
    pool.set(ids[0], 3, 11, 0, When::Now, 67).unwrap();
    pool.set(ids[0], 6, 11, 0, When::Now, 67).unwrap();
    pool.ready(ids[0], true, 67); // its replenishments were at 63 and will be at 78
    pool.decide(67);
    assert_eq!((pool.running(0), pool.left_ns(ids[0])), (None, 0));
}

#[test]
fn a_full_pool_refuses() {
    let params = Params { budget: 2, period: 5, first: 0, priority: 0 };
    let mut pool = Pool::with_cores(Order::Edf, 2);
    let ids: Vec<Id> = (0..1024).map(|n| pool.add(ALL[n % ALL.len()], params, 0).unwrap()).collect();
    assert_eq!(pool.add(Kind::ConstantBandwidth, params, 0), Err(Error::Full));
    pool.boost(ids[5], 9, 0).unwrap();
    pool.boost(ids[1023], 9, 0).unwrap();
    assert_eq!(pool.boost(ids[7], 9, 0), Err(Error::Boosts(2)));
    assert_eq!(pool.boost(ids[7], 0, 0), Ok(()), "ending what is not boosted is no error");
    assert_eq!(pool.boost(ids[5], 20, 0), Ok(()), "boosting again moves the end");
    assert_eq!(pool.boost(ids[1023], 0, 0), Ok(()));
    assert_eq!(pool.boost(ids[7], 9, 0), Ok(()), "there is room again");
    for &id in &ids {
        pool.ready(id, true, 0);
    }
    pool.decide(0);
    assert_eq!([0, 1].map(|core| pool.running(core)), [Some(ids[5]), Some(ids[7])], "first boosted, first served");
    let mut small = Pool::new(Order::Edf);
    assert_eq!(small.set(ids[3], 1, 5, 0, When::Now, 0), Err(Error::Unknown(3)));
    assert_eq!(small.boost(ids[3], 9, 0), Err(Error::Unknown(3)));
}

#[test]
fn slots_are_given_away_again_for_ever() {
    let params = Params { budget: 2, period: 5, first: 0, priority: 0 };
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut pool = Pool::with_cores(Order::Edf, 2);
    let mut ids: Vec<Id> = (0..1024).map(|n| pool.add(ALL[n % ALL.len()], params, 0).unwrap()).collect();
    for now in 0..100_000 {
        let n = random.random_range(0..ids.len());
        assert!(pool.remove(ids[n], now).is_ok_and(|freed| freed <= now + 5));
        assert_eq!(pool.remove(ids[n], now), Err(Error::Unknown(ids[n].index() as u32)), "it is gone");
        assert_eq!(pool.set(ids[n], 1, 5, 0, When::Now, now), Err(Error::Unknown(ids[n].index() as u32)));
        assert_eq!((pool.left_ns(ids[n]), pool.boost_ns(ids[n])), (0, 0));
        let added = pool.add(ALL[random.random_range(0..ALL.len())], params, now).unwrap();
        assert_eq!(added, ids[n], "the slot that was freed last");
        assert_eq!(pool.add(Kind::Unlimited, params, now), Err(Error::Full));
        ids[n] = added;
        pool.ready(added, random.random_bool(0.5), now);
        while pool.decide(now).until == Some(now) {} // more is due than one call books
    }
}

#[test]
fn who_takes_a_slot_pays_for_nothing_before_it_is_chosen() {
    let params = Params { budget: 4, period: 9, first: 0, priority: 0 };
    for runs in [true, false] {
        let mut pool = Pool::new(Order::FixedPriority);
        let id = pool.add(Kind::PeriodicStrict, params, 0).unwrap();
        pool.ready(id, runs, 0); // or it burns
        pool.decide(0);
        assert_eq!(pool.running(0), Some(id).filter(|_| runs));
        assert_eq!(pool.remove(id, 1), Ok(9));
        assert_eq!((pool.running(0), pool.payer(0)), (None, None), "gone at once");
        assert_eq!(pool.add(Kind::PeriodicStrict, params, 1), Ok(id));
        pool.charge(0, 2, 3);
        pool.ready(id, false, 4);
        assert_eq!(pool.left_ns(id), 4, "it was not decided that it runs, or burns");
    }
}

#[test]
fn ids_of_another_pool_and_the_end_of_time_do_no_harm() {
    let end = 1 << 62;
    let specs = ALL.map(|kind| Spec { kind, budget: end, period: end, priority: 0, first: 0 });
    let (mut large, ids) = pool_of(Order::FixedPriority, 2, &specs);
    let mut empty = Pool::new(Order::FixedPriority);
    empty.ready(ids[2], true, 5);
    assert_eq!((empty.decide(5).until, empty.running(0), empty.left_ns(ids[2])), (None, None, 0));
    assert_eq!((empty.running(64), empty.payer(u32::MAX)), (None, None));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for now in [0, 1, end / 2, end - 1, end, u64::MAX, 0] {
        for _ in 0..100 {
            let id = ids[random.random_range(0..ids.len())];
            let magnitude = random.random_range(0..62);
            let period = random.random_range(1..=end >> magnitude);
            match random.random_range(0..5) {
                0 => large.charge(random.random_range(0..4), random.random(), now),
                1 => drop(large.boost(id, random.random(), now)),
                2 => large.set(id, random.random_range(1..=period), period, 0, When::Now, now).unwrap(),
                3 => large.set(id, random.random_range(1..=period), period, 0, When::NextPeriod, now).unwrap(),
                _ => large.ready(id, random.random(), now),
            }
            large.decide(now);
            assert!(ids.iter().all(|&id| large.left_ns(id) <= end as i64));
        }
    }
}

#[test]
fn who_looks_between_two_calls_sees_what_was_consumed() {
    let mut pool = Pool::with_cores(Order::Edf, 2);
    let mut add =
        |priority| pool.add(Kind::Deferrable, Params { budget: 8, period: 100, first: 0, priority }, 0).unwrap();
    let (a, b) = (add(0), add(1));
    pool.ready(a, true, 0);
    pool.ready(b, true, 0);
    pool.decide(0);
    pool.charge(0, 2, 3); // and slept for one
    assert_eq!((pool.left_ns(a), pool.left_ns(b)), (6, 8), "of the other core nothing is known yet");
    pool.charge(1, 3, 3);
    pool.ready(b, true, 5); // no news, but time has passed
    assert_eq!((pool.left_ns(a), pool.left_ns(b)), (4, 3));
    pool.decide(5);
    assert_eq!((pool.left_ns(a), pool.left_ns(b)), (4, 3));
}
