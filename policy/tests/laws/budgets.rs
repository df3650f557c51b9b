//! What servers may use: never more than their kind allows (law 1), and the same as a periodic server (law 4).

use crate::driver::{play, pool_of, Driver, Run};
use crate::oracle::Spec;
use crate::{reservation, ALL, BOUNDED};
use giusto_policy::{Kind, Order, Params, Pool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Plays servers whose reservations stay; a `late` driver is late in a fifth of its decisions.
pub(crate) fn random_run(
    random: &mut ChaCha8Rng,
    order: Order,
    specs: &[Spec],
    late: bool,
    always_ready: usize,
    cores: usize,
) -> Run {
    let calm = random.random_range(1..40);
    let late = if late { 0.2 } else { 0.0 };
    play(order, specs, Driver { cores, late, steal: 0.0, change: 0.0, calm, always_ready, length: 250 }, random)
}

/// B at the begin of each period: what fits in the first `length` ns.
pub(crate) fn periods(s: &Spec, length: u64) -> u64 {
    length / s.period * s.budget + s.budget.min(length % s.period)
}

/// The most that a server of a grid or of an admitted set uses in a window: one budget as late as can be, then one as soon as it comes.
pub(crate) fn back_to_back(s: &Spec, length: u64) -> u64 {
    length.min(s.budget + periods(s, length.saturating_sub(s.budget)))
}

/// How near consumption came to what is allowed, in percent, for windows in which at least 2B were
/// allowed, but not all the time; by kind.
pub(crate) type Nearest = [u64; ALL.len()];

pub(crate) fn assert_no_more_than(run: &Run, i: usize, allowed: impl Fn(u64) -> u64, nearest: &mut Nearest) {
    let (s, sums) = (&run.specs[i], run.paid(i));
    for a in 0..sums.len() {
        for b in a + 1..sums.len() {
            let (used, most) = (sums[b] - sums[a], allowed((b - a) as u64));
            assert!(
                used <= most + run.lateness,
                "server {i} used {used} of {most} in [{a}, {b}), lateness {}: {:?}",
                run.lateness,
                run.specs
            );
            if run.lateness == 0 && most >= 2 * s.budget && most < (b - a) as u64 {
                let kind = &mut nearest[s.kind as usize];
                *kind = (*kind).max(used * 100 / most);
            }
        }
    }
}

fn print_nearest(of: &str, nearest: &Nearest) {
    for (kind, percent) in ALL.iter().zip(nearest).filter(|(_, percent)| **percent > 0) {
        eprintln!("{of}: {kind:?} used {percent} % of what is allowed at most");
    }
}

#[test]
fn law_1_no_budget_from_nothing() {
    let mut nearest = Nearest::default();
    for seed in 0..1500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let cores = random.random_range(1..=3);
        let specs: Vec<_> = (0..random.random_range(1..=5)).map(|_| reservation(&mut random, &ALL)).collect();
        let run = random_run(&mut random, order, &specs, seed % 4 < 2, 1, cores);
        for (i, s) in specs.iter().enumerate().filter(|(_, s)| s.kind != Kind::Unlimited) {
            if s.kind == Kind::Sporadic {
                // Passed over, it does not lose what came due meanwhile: only what it had since the begin is bounded.
                let sums = run.paid(i);
                let most = |b: usize| s.budget * (1 + (b as u64) / s.period) + run.lateness;
                assert!((0..sums.len()).all(|b| sums[b] <= most(b)), "server {i} used too much: {specs:?}");
            } else if s.kind == Kind::ConstantBandwidth {
                // What is left; the bandwidth; and twice a budget at once: one to run out past its deadline after others
                // had the core, and the next.
                let allowed = |length: u64| length.min(3 * s.budget + length * s.budget / s.period);
                assert_no_more_than(&run, i, allowed, &mut nearest);
            } else {
                assert_no_more_than(&run, i, |length| back_to_back(s, length), &mut nearest);
            }
        }
    }
    print_nearest("anywhere", &nearest);
    let reached = |kind: Kind| nearest[kind as usize];
    let on_a_grid = |k: &&Kind| !matches!(k, Kind::Sporadic | Kind::ConstantBandwidth);
    assert!(BOUNDED.iter().filter(on_a_grid).all(|&k| reached(k) == 100));
    assert!(reached(Kind::ConstantBandwidth) >= 80);
}

#[test]
fn law_1_at_the_highest_priority_only_a_deferrable_server_uses_two_budgets_at_once() {
    let mut nearest = Nearest::default();
    let kinds: Vec<Kind> = BOUNDED.iter().copied().filter(|&k| k != Kind::Deferrable).collect();
    for seed in 0..1500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut specs: Vec<_> = (0..3).map(|_| reservation(&mut random, &ALL)).collect();
        specs[0] = Spec { priority: 0, ..reservation(&mut random, &kinds) };
        let always_ready = usize::from(seed % 4 == 0);
        let run = random_run(&mut random, Order::FixedPriority, &specs, seed % 3 == 0, always_ready, 1);
        let s = &specs[0];
        if s.kind == Kind::ConstantBandwidth {
            // It wakes with what is left before its deadline, at its bandwidth, and then has a new budget.
            assert_no_more_than(&run, 0, |length| back_to_back(s, length), &mut nearest);
        } else {
            assert_no_more_than(&run, 0, |length| periods(s, length), &mut nearest);
        }
    }
    print_nearest("at the highest priority", &nearest);
    assert!(kinds.iter().all(|&k| nearest[k as usize] >= 75), "the bounds are approached");
}

/// Whenever it is stopped it runs on for a while, as real threads do: it has no more for that in the long run.
#[test]
fn law_1_what_runs_on_while_it_is_stopped_is_repaid() {
    const LENGTH: u64 = 2_000;
    for (seed, &kind) in (0..300).flat_map(|seed| BOUNDED.iter().map(move |kind| (seed, kind))) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let spec = Spec { first: 0, ..reservation(&mut random, &[kind]) };
        let (mut pool, ids) = pool_of(order, 1, &[spec]);
        let longest = random.random_range(1..=2 * spec.period);
        let (mut had, mut tail, mut until) = (0, 0, Some(0));
        pool.ready(ids[0], true, 0);
        for now in 0..LENGTH {
            if until.is_some_and(|until| until <= now) {
                let before = pool.running(0);
                until = pool.decide(now).until;
                if before.is_some() && pool.running(0).is_none() {
                    tail = random.random_range(0..=longest);
                }
            }
            let runs = pool.running(0).is_some();
            let runs_on = !runs && tail > 0;
            if runs_on {
                tail -= 1;
                pool.owe(ids[0], 1, now + 1);
                until = pool.decide(now + 1).until;
            }
            had += u64::from(runs || runs_on);
            let most = (now / spec.period + 2) * spec.budget + longest;
            assert!(had <= most, "seed {seed}: {had} of {most} by {now}, it runs on for {longest} at most: {spec:?}");
        }
        let least = (LENGTH / spec.period - 1) * spec.budget;
        assert!(had + longest >= least, "seed {seed}: it repays no more than it had: {had} of {least}: {spec:?}");
    }
}

/// One server after the other with the same reservation, each removed at any time and added again then or later; `waits`:
/// not before the bandwidth is free. Returns what they paid up to each instant, together, and the largest lateness.
fn one_after_the_other(random: &mut ChaCha8Rng, order: Order, spec: &Spec, waits: bool) -> (Vec<u64>, u64) {
    const LENGTH: u64 = 250;
    let params = |first| Params { budget: spec.budget, period: spec.period, first, priority: spec.priority };
    let mut pool = Pool::new(order);
    let mut id = Some(pool.add(spec.kind, params(0), 0).unwrap());
    let others: Vec<_> = (0..2)
        .map(|_| reservation(random, &ALL))
        .map(|s| pool.add(s.kind, Params { priority: s.priority, ..params(0) }, 0).unwrap())
        .collect();
    let (late, often) = ([0.0, 0.3][random.random_range(0..2)], random.random_range(0.02..0.2));
    let (mut freed, mut until, mut lateness, mut paid) = (0, Some(0), 0, vec![0]);
    for now in 0..LENGTH {
        let mut told = until.is_some_and(|until| until <= now) && !random.random_bool(late);
        for &other in &others {
            if random.random_bool(often) {
                pool.ready(other, random.random_bool(0.5), now);
                told = true;
            }
        }
        if let Some(gone) = id.filter(|_| random.random_bool(often)) {
            // One that has not begun yet has used nothing, but the one before it has.
            (freed, id, told) = (freed.max(pool.remove(gone, now).unwrap()), None, true);
        }
        if id.is_none() && random.random_bool(0.5) {
            let first = if waits && freed > now { freed } else { 0 };
            id = Some(pool.add(spec.kind, params(first), now).unwrap());
        }
        if let Some(id) = id.filter(|_| told) {
            pool.ready(id, random.random_bool(0.8), now);
        }
        if told {
            lateness = lateness.max(until.map_or(0, |until| now.saturating_sub(until)));
            until = pool.decide(now).until;
        }
        paid.push(paid[now as usize] + u64::from(id.is_some() && pool.payer(0) == id));
    }
    (paid, lateness)
}

#[test]
fn law_1_removed_and_added_again_it_uses_no_more_than_one_server() {
    for &kind in BOUNDED {
        let (mut reached, mut exceeded) = (0, 0);
        for (seed, waits) in (0..2000).flat_map(|seed| [(seed, true), (seed, false)]) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
            let spec = Spec { first: 0, ..reservation(&mut random, &[kind]) };
            let (paid, lateness) = one_after_the_other(&mut random, order, &spec, waits);
            for (a, b) in (0..paid.len()).flat_map(|a| (a + 1..paid.len()).map(move |b| (a, b))) {
                let length = (b - a) as u64;
                let most = match kind {
                    // Passed over, it does not lose what came due meanwhile: bounded from the begin on.
                    Kind::Sporadic if a > 0 => continue,
                    Kind::Sporadic => spec.budget * (1 + length / spec.period),
                    Kind::ConstantBandwidth => 3 * spec.budget + length * spec.budget / spec.period,
                    _ => back_to_back(&spec, length),
                };
                let used = paid[b] - paid[a];
                if !waits {
                    exceeded += u64::from(used > most + lateness);
                    continue;
                }
                assert!(
                    used <= most + lateness,
                    "seed {seed}: {used} of {most} in [{a}, {b}), {lateness} late: {spec:?}"
                );
                reached += u64::from(lateness == 0 && used == most && most < length);
            }
        }
        eprintln!("{kind:?}: the bound is reached in {reached} windows; exceeded in {exceeded} without waiting");
        assert!(exceeded > 0, "without waiting, {kind:?} makes bandwidth from nothing");
        assert!(reached > 0 || kind == Kind::ConstantBandwidth, "the bound of {kind:?} is reached");
    }
}

#[test]
fn law_4_unfinished_work_at_each_period_start_is_that_of_a_periodic_server_that_is_off_first() {
    // Theorem 5 of dissertation 000, fig. 4.4.
    let (mut depleted, mut idle) = (0, 0);
    for seed in 0..500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let deferrable = Spec { first: 0, kind: Kind::Deferrable, ..reservation(&mut random, &ALL) };
        let (budget, period) = (deferrable.budget, deferrable.period);
        let periodic = Spec { kind: Kind::PeriodicStrict, first: period - budget, ..deferrable };
        let mut pools = [deferrable, periodic].map(|s| pool_of(Order::FixedPriority, 1, &[s]));
        let mut work = [0u64; 2];
        let busy = budget as f64 / period as f64 / 8.0;
        for t in 0..period * 40 {
            if t % period == 0 {
                assert_eq!(work[0], work[1], "unfinished work at {t}, {deferrable:?}");
                idle += u64::from(work[0] == 0);
                depleted += u64::from(work[0] > 0);
            }
            let arrives = if random.random_bool(busy) { random.random_range(1..=15) } else { 0 };
            for ((pool, ids), work) in pools.iter_mut().zip(&mut work) {
                *work += arrives;
                pool.ready(ids[0], *work > 0, t);
                pool.decide(t);
                *work -= u64::from(pool.running(0).is_some());
            }
        }
    }
    assert!(depleted > 1000 && idle > 1000, "both cases occur: {depleted} {idle}");
}
