//! What callers of mixed criticality may rely on: law 6, and refusals that say what was expected.

use giusto_policy::{Back, CoreMode, Error, Id, Kind, Mixed, Order, Params, Pool, When};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const UNLIMITED: Params = Params { budget: 0, period: 0, first: 0, priority: 0 };

fn random_mixed(random: &mut ChaCha8Rng, high: bool) -> Mixed {
    let period = random.random_range(2..=20);
    let optimistic = random.random_range(1..=period);
    let worst = high.then(|| random.random_range(optimistic..=period));
    let virtual_deadline = if high { random.random_range(optimistic..=period) } else { period };
    Mixed { optimistic, worst, period, virtual_deadline }
}

fn random_pool(random: &mut ChaCha8Rng) -> (Pool, Vec<(Id, Option<Mixed>)>) {
    let mut pool = Pool::new(Order::MixedCriticality);
    pool.cooling(random.random_range(0..3), if random.random_bool(0.3) { Back::Temperature } else { Back::Idle });
    let servers = (0..random.random_range(1..=6)).map(|n| {
        let vm = (n % 5 < 4).then(|| random_mixed(random, n % 2 == 0));
        let added = match vm {
            Some(vm) => pool.add_mixed(vm, 0, 0),
            None => pool.add(Kind::Unlimited, UNLIMITED, 0),
        };
        (added.unwrap(), vm)
    });
    let servers = servers.collect();
    (pool, servers)
}

/// All that can be seen but `until`.
fn seen(pool: &Pool, servers: &[(Id, Option<Mixed>)]) -> impl PartialEq + std::fmt::Debug {
    let of = |&(id, _): &(Id, _)| (pool.left_ns(id), pool.deadline_ns(id), pool.boost_ns(id));
    (pool.running(0), pool.payer(0), pool.core_mode(0), servers.iter().map(of).collect::<Vec<_>>())
}

#[test]
fn law_6_a_decision_before_until_changes_nothing() {
    let (mut in_hi, mut to_hi) = (0, 0);
    for seed in 0..3000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut pool, servers) = random_pool(&mut random);
        let mut now = 0;
        for _ in 0..60 {
            let i = random.random_range(0..servers.len());
            pool.ready(servers[i].0, random.random_bool(0.7), now);
            let first = pool.decide(now);
            let mode = pool.core_mode(0);
            let farthest = first.until.unwrap_or(now + 30);
            let (a, b) = (random.random_range(now..=farthest), random.random_range(now..=farthest));
            let (between, end) = (a.min(b), a.max(b));
            let mut asked = pool.clone();
            let repeated = asked.decide(between);
            if between < farthest {
                assert_eq!((repeated.changed, repeated.until), (0, first.until), "seed {seed} at {between}");
            }
            let (a, b) = (asked.decide(end), pool.decide(end));
            assert_eq!(a.until, b.until, "seed {seed}: until at {end}, asked at {now} and {between}");
            assert_eq!(
                seen(&asked, &servers),
                seen(&pool, &servers),
                "seed {seed} at {end}, asked at {now}, {between}"
            );
            in_hi += u32::from(mode == CoreMode::Hi);
            to_hi += u32::from(mode == CoreMode::Lo && pool.core_mode(0) == CoreMode::Hi);
            now = end;
        }
    }
    assert!(in_hi > 10_000 && to_hi > 500, "{in_hi} decisions in HI, {to_hi} to HI");
}

#[test]
fn law_6_present_parameters_change_nothing() {
    for seed in 0..2000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut pool, servers) = random_pool(&mut random);
        let mut other = pool.clone();
        let mut now = 0;
        for _ in 0..40 {
            let (i, is_ready) = (random.random_range(0..servers.len()), random.random_bool(0.7));
            pool.ready(servers[i].0, is_ready, now);
            other.ready(servers[i].0, is_ready, now);
            if let (id, Some(vm)) = servers[random.random_range(0..servers.len())] {
                let when = if random.random_bool(0.5) { When::Now } else { When::NextPeriod };
                other.set_mixed(id, vm, when, now).unwrap();
            }
            let (a, b) = (pool.decide(now), other.decide(now));
            assert_eq!((a.until, a.changed), (b.until, b.changed), "seed {seed} at {now}");
            assert_eq!(seen(&pool, &servers), seen(&other, &servers), "seed {seed} at {now}");
            now = random.random_range(now..=a.until.unwrap_or(now + 30));
        }
    }
}

#[test]
fn what_is_no_reservation_or_belongs_elsewhere_is_refused() {
    let high = Mixed { optimistic: 2, worst: Some(5), period: 10, virtual_deadline: 8 };
    let low = Mixed { optimistic: 4, worst: None, period: 10, virtual_deadline: 10 };
    let wrong = [
        Mixed { optimistic: 0, ..high },
        Mixed { worst: Some(0), ..high },
        Mixed { worst: Some(1), ..high },
        Mixed { worst: Some(11), ..high },
        Mixed { virtual_deadline: 1, ..high },
        Mixed { virtual_deadline: 11, ..high },
        Mixed { period: (1 << 62) + 1, ..high },
        Mixed { virtual_deadline: 9, ..low },
        Mixed { optimistic: 11, ..low },
    ];
    let mut pool = Pool::new(Order::MixedCriticality);
    let (h, l) = (pool.add_mixed(high, 0, 0).unwrap(), pool.add_mixed(low, 0, 0).unwrap());
    for vm in wrong {
        assert_eq!(pool.add_mixed(vm, 0, 0), Err(Error::Mixed(vm)));
        let id = if vm.worst.is_some() { h } else { l };
        for when in [When::Now, When::NextPeriod] {
            assert_eq!(pool.set_mixed(id, vm, when, 0), Err(Error::Mixed(vm)));
        }
    }
    assert_eq!((pool.left_ns(h), pool.deadline_ns(h), pool.left_ns(l)), (2, 10, 4), "what is refused changes nothing");
    assert_eq!(pool.set_mixed(h, low, When::Now, 0), Err(Error::Kind), "high stays high");
    assert_eq!(pool.set_mixed(l, high, When::Now, 0), Err(Error::Kind), "low stays low");
    assert_eq!(pool.set(h, 1, 10, 0, When::Now, 0), Err(Error::Kind));
    let params = Params { budget: 1, period: 10, ..UNLIMITED };
    assert_eq!(pool.add(Kind::ConstantBandwidth, params, 0), Err(Error::Kind));
    let mut edf = Pool::new(Order::Edf);
    assert_eq!(edf.add_mixed(high, 0, 0), Err(Error::Kind));
    assert_eq!(edf.core_mode(0), CoreMode::Lo);
    let text = Error::Mixed(Mixed { worst: Some(1), ..high }).to_string();
    assert!(text.contains("2 ns") && text.contains("optimistic <= worst <= period"), "{text}");
    for _ in 2..1024 {
        pool.add(Kind::Unlimited, UNLIMITED, 0).unwrap();
    }
    assert_eq!(pool.add_mixed(low, 0, 0), Err(Error::Full));
    assert_eq!(Pool::new(Order::MixedCriticality).set_mixed(l, low, When::Now, 0), Err(Error::Unknown(1)));
}

#[test]
#[should_panic(expected = "mixed criticality has one core a pool, not 2")]
fn a_pool_of_mixed_criticality_has_one_core() {
    Pool::with_cores(Order::MixedCriticality, 2);
}
