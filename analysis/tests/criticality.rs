//! EDF-VD against an oracle that knows no fractions: it tries every x that makes virtual deadlines whole, in integers over the
//! hyperperiod, by the two conditions of LO and HI mode as they are.

use giusto_analysis::admission::Fit;
use giusto_analysis::criticality::{
    judge, judge_soonest, judge_within, nearest, place, rooms, Budget, Level, Refused, Test, Vm, VmError, Why,
};
use giusto_model::{Bandwidth, Duration};
use num_rational::Ratio;
use rand::{rngs::StdRng, RngExt, SeedableRng};

type Exact = Ratio<i128>;

fn ns(time: u64) -> Duration {
    Duration::from_ns(time)
}

/// In ms: `high(5, 25, 100)`, `low(25, 100)`.
fn high(optimistic: u64, worst: u64, period: u64) -> Vm {
    Vm::high(Duration::from_ms(optimistic), Duration::from_ms(worst), Duration::from_ms(period))
}
fn low(budget: u64, period: u64) -> Vm {
    Vm::low(Duration::from_ms(budget), Duration::from_ms(period))
}

fn share(top: u64, bottom: u64) -> Bandwidth {
    Bandwidth::new(top, bottom).unwrap()
}

/// What the oracle says of a set.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// With every whole-deadline x that is enough, as k of k/g.
    Fits { least: i128, one: bool },
    /// There is an x, but not with whole deadlines.
    Rounding,
    /// There is none.
    No,
}

/// Work in a hyperperiod: of low ones, of high ones, of high ones at their worst; the hyperperiod; g.
struct Work {
    low: i128,
    usual: i128,
    worst: i128,
    hyper: i128,
    grid: i128,
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

fn work(vms: &[Vm]) -> Work {
    let hyper = vms.iter().fold(1, |all, vm| all / gcd(all, vm.period.ns().into()) * i128::from(vm.period.ns()));
    let mut found = Work { low: 0, usual: 0, worst: 0, hyper, grid: 0 };
    for vm in vms {
        let jobs = hyper / i128::from(vm.period.ns());
        if vm.level == Level::Low {
            found.low += jobs * i128::from(vm.optimistic.ns());
        } else {
            found.usual += jobs * i128::from(vm.optimistic.ns());
            found.worst += jobs * i128::from(vm.worst.ns());
            found.grid = gcd(found.grid, vm.period.ns().into());
        }
    }
    found.grid = found.grid.max(1);
    found
}

fn oracle(vms: &[Vm], capacity: Bandwidth) -> Said {
    let Work { low, usual, worst, hyper, grid } = work(vms);
    let (p, q) = (i128::from(capacity.numer()), i128::from(capacity.denom()));
    let lo = |k: i128| q * (low * k + usual * grid) <= p * hyper * k;
    let hi = |k: i128| q * (low * k + worst * grid) <= p * hyper * grid;
    let good: Vec<i128> = (1..=grid).filter(|&k| lo(k) && hi(k)).collect();
    if let Some(&least) = good.first() {
        return Said::Fits { least, one: good.last() == Some(&grid) };
    }
    // A real x in (0, 1) with usual ≤ x (c − low) and x · low ≤ c − worst.
    let (free, rest) = (p * hyper - q * low, p * hyper - q * worst);
    let real = free > 0 && rest > 0 && q * usual <= free && q * usual * q * low <= free * rest;
    if real {
        Said::Rounding
    } else {
        Said::No
    }
}

fn random_set(rng: &mut StdRng, longest: u64) -> Vec<Vm> {
    let count = rng.random_range(1..=5);
    let step = if rng.random_bool(0.7) { rng.random_range(1..=longest / 2) } else { 1 };
    let only = rng.random_range(0..12);
    let vm = |rng: &mut StdRng| {
        let period = rng.random_range(1..=longest / step) * step;
        let most = if count > 2 { period.div_ceil(2) } else { period };
        let worst = rng.random_range(1..=most);
        let is_high = match only {
            0 => true,
            1 => false,
            _ => rng.random_bool(0.5),
        };
        match is_high {
            true => Vm::high(ns(rng.random_range(1..=worst)), ns(worst), ns(period)),
            false => Vm::low(ns(worst), ns(period)),
        }
    };
    (0..count).map(|_| vm(rng)).collect()
}

fn random_capacity(rng: &mut StdRng) -> Bandwidth {
    [share(1, 1), share(1, 1), share(19, 20), share(93, 100), share(1, 2)][rng.random_range(0..5)]
}

fn fraction(text: impl ToString) -> Exact {
    let text = text.to_string();
    let (top, bottom) = text.split_once('/').unwrap_or((&text, "1"));
    Exact::new(top.parse().unwrap(), bottom.parse().unwrap())
}

#[derive(Debug, Default)]
struct Seen {
    edf: u32,
    edf_vd: u32,
    too_many_low: u32,
    usual: u32,
    worst: u32,
    no_x: u32,
    rounding: u32,
    no_low: u32,
    no_high: u32,
    full_by_edf: u32,
    left_end: u32,
    right_end: u32,
    one_point: u32,
    slower: u32,
    less_strict: u32,
    sooner: u32,
}

#[test]
fn verdicts_are_those_of_an_oracle_on_a_hundred_thousand_sets() {
    let mut seen = Seen::default();
    let soak = std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1");
    for seed in 0..if soak { 2_000_000 } else { 100_000 } {
        let rng = &mut StdRng::seed_from_u64(seed);
        let (vms, capacity) = (random_set(rng, 24), random_capacity(rng));
        let told = judge_within(&vms, capacity);
        let context = || format!("seed {seed}: {vms:?} on {capacity}: {told:?}");
        let Work { low, usual, worst, hyper, grid } = work(&vms);
        let c = fraction(capacity);
        let [low, usual, worst] = [low, usual, worst].map(|work| Exact::new(work, hyper));
        seen.no_low += u32::from(vms.iter().all(|vm| vm.level == Level::High));
        seen.no_high += u32::from(vms.iter().all(|vm| vm.level == Level::Low));
        match (oracle(&vms, capacity), &told) {
            (Said::Fits { one: true, .. }, Ok(verdict)) => {
                assert_eq!((verdict.test, verdict.x), (Test::Edf, Bandwidth::ONE), "{}", context());
                assert!(verdict.interval.is_none(), "{}", context());
                seen.edf += 1;
                seen.full_by_edf += u32::from(low + worst == c);
            }
            (Said::Fits { least, one: false }, Ok(verdict)) => {
                assert_eq!(verdict.test, Test::EdfVd, "{}", context());
                assert_eq!(fraction(verdict.x), Exact::new(least, grid), "{}", context());
                let ends = verdict.interval.as_ref().map(|ends| (fraction(&ends.from), fraction(&ends.to))).unwrap();
                seen.edf_vd += 1;
                seen.left_end += u32::from(ends.0 == fraction(verdict.x));
                seen.right_end += u32::from(ends.1 == fraction(verdict.x));
                seen.one_point += u32::from(ends.0 == ends.1);
            }
            (Said::Rounding, Err(Refused::Unfit(unfit))) => {
                let Why::Rounding { below, above, interval, .. } = &unfit.why else { panic!("{}", context()) };
                assert!(fraction(below) < fraction(&interval.from), "{}", context());
                assert!(fraction(above) > fraction(&interval.to), "{}", context());
                assert_eq!(fraction(above) - fraction(below), Exact::new(1, grid), "{}", context());
                seen.rounding += 1;
            }
            (Said::No, Err(Refused::Unfit(unfit))) => match &unfit.why {
                Why::Low => {
                    assert!(low >= c, "{}", context());
                    seen.too_many_low += u32::from(seen_high(&vms));
                }
                Why::Usual => {
                    assert!(low < c && low + usual > c, "{}", context());
                    seen.usual += 1;
                }
                Why::Worst => {
                    assert!(worst >= c, "{}", context());
                    seen.worst += 1;
                }
                Why::NoX(ends) => {
                    assert!(
                        fraction(&ends.from) > fraction(&ends.to) && fraction(&ends.from) <= 1.into(),
                        "{}",
                        context()
                    );
                    seen.no_x += 1;
                }
                Why::Rounding { .. } => panic!("{}", context()),
            },
            (said, _) => panic!("{}: the oracle says {said:?}", context()),
        }
        let soonest = judge_soonest(&vms, capacity);
        assert_eq!(soonest.as_ref().err(), told.as_ref().err(), "seed {seed}");
        if let (Said::Fits { least, .. }, Ok(verdict)) = (oracle(&vms, capacity), &soonest) {
            let both = seen_high(&vms) && vms.iter().any(|vm| vm.level == Level::Low);
            let x = if both { Exact::new(least, grid) } else { 1.into() };
            assert_eq!(fraction(verdict.x), x, "seed {seed}");
            seen.sooner += u32::from(verdict.test == Test::Edf && x < 1.into());
        }
        for verdict in [told.clone(), soonest].into_iter().flatten() {
            let x = fraction(verdict.x);
            // Both modes as they are, and what is left of each.
            assert_eq!(c - low - usual / x, fraction(&verdict.slack.usual), "seed {seed}");
            assert_eq!(c - x * low - worst, fraction(&verdict.slack.worst), "seed {seed}");
            let grown = &verdict.robustness;
            let both = |low: Exact, usual: Exact, worst: Exact| (low + usual / x - c, x * low + worst - c);
            let (a, b) = both(low + fraction(&grown.u1_1), usual, worst);
            assert_eq!(a.max(b), 0.into(), "seed {seed}: U1(1)");
            assert_eq!(both(low, usual + fraction(&grown.u2_1), worst).0, 0.into(), "seed {seed}: U2(1)");
            assert_eq!(both(low, usual, worst + fraction(&grown.u2_2)).1, 0.into(), "seed {seed}: U2(2)");
            for (place, vm) in vms.iter().enumerate() {
                let deadline = verdict.virtual_deadline(place);
                let expected = if vm.level == Level::High { x } else { 1.into() } * i128::from(vm.period.ns());
                assert_eq!(Exact::from_integer(deadline.ns().into()), expected, "seed {seed}");
                assert!(vm.optimistic <= deadline && deadline <= vm.period, "seed {seed}");
            }
        }
        match told {
            Ok(_) => {}
            Err(Refused::Unfit(unfit)) => {
                assert_eq!(unfit.less_strict, low + usual <= c, "seed {seed}");
                seen.less_strict += u32::from(unfit.less_strict);
                assert!(!unfit.to_string().is_empty());
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
        seen.slower += u32::from(capacity < Bandwidth::ONE);
    }
    println!("{seen:?}");
    let Seen { edf, edf_vd, too_many_low, usual, worst, no_x, rounding, no_low, no_high, .. } = seen;
    let Seen { full_by_edf, left_end, right_end, one_point, slower, less_strict, sooner, .. } = seen;
    let often = [sooner, edf, edf_vd, too_many_low, usual, worst, no_x, rounding, no_low, no_high, slower, less_strict];
    assert!(often.iter().all(|&count| count >= 500), "{seen:?}");
    assert!([full_by_edf, left_end, right_end, one_point].iter().all(|&count| count >= 50), "{seen:?}");
}

fn seen_high(vms: &[Vm]) -> bool {
    vms.iter().any(|vm| vm.level == Level::High)
}

#[test]
fn what_the_paper_and_the_spec_give_as_examples() {
    // Table 1, Type 1 beside three of Type 2 (Fig. 5): all at their worst make just a whole core.
    let fig5 = [high(5, 25, 100), low(25, 100), low(25, 100), low(25, 100)];
    let verdict = judge(&fig5).unwrap();
    assert_eq!((verdict.test, verdict.x), (Test::Edf, Bandwidth::ONE));
    assert_eq!(verdict.slack.worst.to_string(), "0");
    // Fig. 7: the critical one takes 50 % (Type 6).
    let fig7 = judge(&[high(10, 50, 100), low(25, 100), low(25, 100), low(25, 100)]).unwrap();
    // U1(1) = 3/4, U2(1) = 1/10, U2(2) = 1/2: x from (1/10)/(1/4) = 2/5 to (1/2)/(3/4) = 2/3.
    assert_eq!((fig7.test, fig7.x), (Test::EdfVd, share(2, 5)));
    let ends = fig7.interval.as_ref().unwrap();
    assert_eq!((ends.from.to_string().as_str(), ends.to.to_string().as_str()), ("2/5", "2/3"));
    assert_eq!((fig7.virtual_deadline(0), fig7.virtual_deadline(1)), (Duration::from_ms(40), Duration::from_ms(100)));
    assert_eq!((fig7.slack.usual.to_string().as_str(), fig7.slack.worst.to_string().as_str()), ("0", "1/5"));
    // Eq. 6 alone: U1(1) = 3/2 makes x = -1/2 and x · U1(1) + U2(2) = -1/2 ≤ 1.
    let nonsense = judge(&[low(75, 100), low(75, 100), high(25, 25, 100)]);
    assert!(matches!(nonsense, Err(Refused::Unfit(unfit)) if unfit.why == Why::Low));
    // The set of the spec's counterexample of fixed grids passes: it is the policy's matter there.
    let spec = judge(&[low(2, 4), high(1, 3, 6)]).unwrap();
    assert_eq!((spec.test, spec.x), (Test::Edf, Bandwidth::ONE));
    // No server at all.
    assert_eq!(judge(&[]).unwrap().x, Bandwidth::ONE);
}

#[test]
fn a_server_that_makes_no_sense_is_named() {
    let wrong = |vm: Vm| match judge(&[low(1, 2), vm]) {
        Err(Refused::Vm { number: 2, why }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong(high(0, 1, 2)), VmError::NoBudget);
    assert!(matches!(wrong(high(2, 1, 4)), VmError::Less { .. }));
    assert!(matches!(wrong(high(1, 5, 4)), VmError::TooMuch { .. }));
    assert!(matches!(wrong(low(5, 4)), VmError::TooMuch { .. }));
    assert!(matches!(wrong(low(0, 0)), VmError::NoBudget));
    assert_eq!(wrong(Vm { level: Level::Low, ..high(1, 2, 4) }), VmError::Low);
}

#[test]
fn large_periods_without_a_common_step_are_exact() {
    // Five periods near 2^63 that share nothing: no product of two of them has 64 bits.
    let primes = [9_223_372_036_854_775_783u64, 9_223_372_036_854_775_643, 9_223_372_036_854_775_549];
    let [a, b, c] = primes.map(|period| Vm::low(ns(period / 3), ns(period)));
    assert_eq!(judge(&[a, b, c]).unwrap().test, Test::Edf);
    let more = Vm::low(ns(primes[0] / 3 + 2), ns(primes[0]));
    assert!(judge(&[more, b, c]).is_err());
}

#[test]
fn a_finer_clock_finds_what_whole_steps_round_away() {
    let mut found = 0;
    for seed in 0..20_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let vms = random_set(rng, 24);
        if oracle(&vms, Bandwidth::ONE) != Said::Rounding {
            continue;
        }
        // With steps a million times as fine there is one, unless the interval is a point.
        let fine = |time: Duration| ns(time.ns() * 1_000_000);
        let fine = |vm: &Vm| Vm {
            level: vm.level,
            optimistic: fine(vm.optimistic),
            worst: fine(vm.worst),
            period: fine(vm.period),
        };
        let finer: Vec<Vm> = vms.iter().map(fine).collect();
        let Work { low, usual, worst, hyper, .. } = work(&vms);
        let point = usual * low == (hyper - low) * (hyper - worst);
        assert!(judge(&finer).is_ok() || point, "seed {seed}: {vms:?}");
        found += u32::from(judge(&finer).is_ok());
    }
    assert!(found > 100, "{found}");
}

#[test]
fn rooms_are_exact_to_the_nanosecond_and_the_nearest_fit_fits() {
    let (mut spare, mut shrunk, mut none, mut nearer) = (0, 0, 0, [0; 2]);
    for seed in 0..10_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let (vms, capacity) = (random_set(rng, 24), random_capacity(rng));
        let fits = |vms: &[Vm]| matches!(oracle(vms, capacity), Said::Fits { .. });
        let all = rooms(&vms, capacity).unwrap();
        let with = |place: usize, vm: Vm| {
            let mut changed = vms.clone();
            changed[place] = vm;
            fits(&changed)
        };
        for (place, (vm, room)) in vms.iter().zip(&all).enumerate() {
            let is_low = vm.level == Level::Low;
            let optimistic = |budget: u64| match is_low {
                true => Vm::low(ns(budget), vm.period),
                false => Vm { optimistic: ns(budget), ..*vm },
            };
            let most = if is_low { vm.period } else { vm.worst };
            // Every value is tried: the limit is where it changes, and it changes once.
            let expected = (1..=most.ns()).filter(|&budget| with(place, optimistic(budget))).max();
            assert_eq!(room.most_optimistic.map(Duration::ns), expected, "seed {seed}: {vms:?}");
            let range = vm.optimistic.ns()..=vm.period.ns();
            let expected = range.filter(|&worst| !is_low && with(place, Vm { worst: ns(worst), ..*vm })).max();
            assert_eq!(room.most_worst.map(Duration::ns), expected, "seed {seed}: {vms:?}");
        }
        let one = nearest(&vms, &all);
        if fits(&vms) {
            assert_eq!(one, None, "seed {seed}");
            spare += 1;
            continue;
        }
        let Some(one) = one else {
            none += 1;
            continue;
        };
        let vm = vms[one.vm];
        let changed = match (one.budget, vm.level) {
            (Budget::Optimistic, Level::Low) => Vm::low(one.at_most, vm.period),
            (Budget::Optimistic, Level::High) => Vm { optimistic: one.at_most, ..vm },
            (Budget::Worst, _) => Vm { worst: one.at_most, ..vm },
        };
        assert!(with(one.vm, changed), "seed {seed}: {vms:?} {one:?}");
        nearer[usize::from(one.budget == Budget::Worst)] += 1;
        shrunk += 1;
    }
    assert!(
        spare > 1000 && shrunk > 1000 && none > 100 && nearer.iter().all(|&count| count > 100),
        "{spare} {shrunk} {none} {nearer:?}"
    );
}

#[test]
fn every_core_of_a_placement_passes_and_first_fit_passes_no_core_by_that_would_do() {
    let (mut placed, mut idle, mut unplaced, mut differ, mut fewer) = (0, 0, 0, 0, 0);
    for seed in 0..5_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let capacity = random_capacity(rng);
        let vms: Vec<Vm> = (0..3).flat_map(|_| random_set(rng, 12)).collect();
        let cores = rng.random_range(1..=6);
        let fits = |vms: &[Vm]| matches!(oracle(vms, capacity), Said::Fits { .. });
        let each = [Fit::First, Fit::Best, Fit::Worst].map(|fit| place(&vms, capacity, cores, fit).unwrap());
        for found in &each {
            let Ok(found) = found else {
                unplaced += 1;
                continue;
            };
            let mut all: Vec<usize> = found.cores.concat();
            all.sort_unstable();
            assert_eq!(all, (0..vms.len()).collect::<Vec<_>>(), "seed {seed}");
            for core in &found.cores {
                let here: Vec<Vm> = core.iter().map(|&vm| vms[vm]).collect();
                assert!(fits(&here), "seed {seed}: {here:?}");
            }
            placed += 1;
            idle += u32::from(found.idle() > 0);
        }
        // First-fit once more, by the oracle.
        let mut on = vec![Vec::new(); cores];
        let stuck = (0..vms.len()).find(|&vm| {
            let taken = (0..cores).find(|&core| {
                let here: Vec<Vm> = on[core].iter().chain([&vm]).map(|&vm: &usize| vms[vm]).collect();
                fits(&here)
            });
            if let Some(core) = taken {
                on[core].push(vm);
            }
            taken.is_none()
        });
        match &each[0] {
            Ok(found) => assert_eq!((&found.cores, stuck), (&on, None), "seed {seed}"),
            Err(none) => assert_eq!(Some(none.vm), stuck, "seed {seed}"),
        }
        if let [Ok(first), Ok(best), Ok(worst)] = &each {
            differ += u32::from(best != worst);
            fewer += u32::from(first.idle() > worst.idle());
        }
    }
    assert!(
        placed > 1000 && idle > 500 && unplaced > 500 && differ > 200 && fewer > 200,
        "{placed} {idle} {unplaced} {differ} {fewer}"
    );
}
