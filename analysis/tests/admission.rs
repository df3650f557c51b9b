//! Admission against sums and scans that say what the tests mean, number by number. What servers really do is in the
//! simulator's tests.

use giusto_analysis::admission::{admit, admit_global, place, Demand, Fit, Grids, Known, Order, Refused, ServerError};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Server, ServerKind};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ServerKind::{ConstantBandwidth, Deferrable, PeriodicConserving, Polling, Sporadic, Unlimited};

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

fn server(kind: ServerKind, budget: u64, period: u64) -> Server {
    Server { kind, budget: ns(budget), period: ns(period) }
}

/// With periods up to `longest`, that take about a core together.
fn random(rng: &mut StdRng, number: u64, longest: u64) -> Vec<Server> {
    let kinds = [Deferrable, Deferrable, ConstantBandwidth, Sporadic, PeriodicConserving, Polling];
    let one = |_| {
        let period = rng.random_range(2..=longest);
        let budget = rng.random_range(1..=(2 * period).div_ceil(number).min(period));
        server(kinds[rng.random_range(0..kinds.len())], budget, period)
    };
    (0..number).map(one).collect()
}

/// The most that deferrable servers whose budgets are replaced at `ends`, and then every period, can use in [0, t) of those
/// that end in it: ns by ns, that of which least time is left.
fn kept_and_whole(servers: &[Server], ends: &[u64], t: u64) -> u64 {
    let mut left: Vec<(u64, u64)> = servers.iter().zip(ends).map(|(s, &end)| (end, s.budget.ns())).collect();
    let mut used = 0;
    for now in 0..t {
        if let Some(first) = left.iter_mut().filter(|(end, left)| *end > now && *end <= t && *left > 0).min() {
            first.1 -= 1;
            used += 1;
        }
    }
    let whole = |(s, &end): (&Server, &u64)| t.checked_sub(end).map_or(0, |rest| rest / s.period.ns() * s.budget.ns());
    used + servers.iter().zip(ends).map(whole).sum::<u64>()
}

/// What can be asked for in a window of length t that ends with a deadline: the most over all phases of the grids.
fn most_asked(servers: &[Server], t: u64) -> u64 {
    let (deferrable, others): (Vec<Server>, Vec<Server>) = servers.iter().partition(|s| s.kind == Deferrable);
    let mut phases = vec![Vec::new()];
    for s in &deferrable {
        let with = |some: &Vec<u64>| (0..s.period.ns()).map(|x| [some.clone(), vec![x]].concat()).collect::<Vec<_>>();
        phases = phases.iter().flat_map(with).collect();
    }
    let kept = phases.iter().map(|ends| kept_and_whole(&deferrable, ends, t)).max().unwrap();
    let steady: f64 = others.iter().filter(|s| s.kind == ConstantBandwidth).map(|s| s.bandwidth().as_f64()).sum();
    let stepping = others.iter().filter(|s| s.kind != ConstantBandwidth).map(|s| t / s.period.ns() * s.budget.ns());
    kept + stepping.sum::<u64>() + (steady * t as f64 + 1e-9) as u64
}

#[test]
fn demand_is_the_most_over_all_phases_of_what_can_be_used_ns_by_ns() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut shared, mut points) = (0, 0);
    for _ in 0..150 {
        let number = rng.random_range(1..=4);
        let servers = random(&mut rng, number, 6);
        let demand = Demand::new(&servers).unwrap();
        for t in 0..25 {
            let found = demand.at(ns(t));
            assert_eq!(found, u128::from(most_asked(&servers, t)), "{servers:?} in {t}");
            let each = servers.iter().filter(|s| s.kind == Deferrable).map(|s| s.budget.ns().min(t % s.period.ns()));
            let alone: Vec<u64> = each.filter(|kept| *kept > 0).collect();
            points += 1;
            let only = servers.iter().all(|s| s.kind == Deferrable);
            let sum =
                alone.iter().sum::<u64>() + servers.iter().map(|s| t / s.period.ns() * s.budget.ns()).sum::<u64>();
            shared += usize::from(only && alone.len() > 1 && found < u128::from(sum));
        }
    }
    println!("{points} windows, in {shared} several budgets compete for the time before they are replaced");
    assert!(shared > 50);
}

#[test]
fn under_edf_a_set_is_refused_where_a_scan_of_all_windows_finds_one() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut admitted, mut early, mut late, mut full) = (0, 0, 0, 0);
    for _ in 0..12000 {
        let number = rng.random_range(2..=4);
        let servers = random(&mut rng, number, 12);
        if !servers.iter().any(|s| s.kind == Deferrable) {
            continue;
        }
        let found = admit(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE).unwrap();
        if matches!(found, Err(Refused::Bandwidth { .. })) {
            continue;
        }
        let demand = Demand::new(&servers).unwrap();
        let least = servers.iter().map(|s| s.period.ns()).min().unwrap();
        // Two hyperperiods of periods up to 12 at most; mostly much less.
        let repeats = servers.iter().fold(1, |all, s| num_integer::lcm(all, s.period.ns()));
        let scanned = (least..=least + repeats).find(|&t| demand.at(ns(t)) > u128::from(t));
        match (&found, scanned) {
            (Ok(found), None) => {
                admitted += 1;
                full += usize::from(found.bandwidth == Bandwidth::ONE);
                assert!(found.until.unwrap() <= ns(least + repeats));
            }
            (Err(Refused::Window(window)), Some(first)) => {
                let at = window.at.ns();
                assert!(at >= first && window.supply == window.at, "{servers:?}: {window:?}, first {first}");
                assert_eq!(u128::from(window.demand.ns()), demand.at(window.at));
                assert!(window.demand > window.supply && servers[window.server].period <= window.at);
                // Between the first and the one that is told all fail: they are of one stretch.
                assert!(
                    (first..=at).all(|t| demand.at(ns(t)) > u128::from(t)),
                    "{servers:?}: {window:?}, first {first}"
                );
                *(if at < 2 * least { &mut early } else { &mut late }) += 1;
            }
            other => panic!("{servers:?}: {other:?}"),
        }
    }
    println!("{admitted} admitted, {full} of them with the whole core; refused: {early} early, {late} late");
    assert!(admitted > 500 && full > 50 && early > 150 && late > 25);
}

/// The response-time test as a scan of all t.
fn response(servers: &[Server], index: usize, aligned: bool) -> Option<u64> {
    let own = servers[index];
    let grid = |s: &Server| ![ConstantBandwidth, Sporadic].contains(&s.kind);
    let above = &servers[..index];
    let together =
        aligned && grid(&own) && above.iter().all(|s| grid(s) && own.period.ns().is_multiple_of(s.period.ns()));
    let slope: f64 = above.iter().filter(|s| s.kind == ConstantBandwidth).map(|s| s.bandwidth().as_f64()).sum();
    (1..=own.period.ns()).find(|&t| {
        let used = above.iter().map(|s| {
            let (budget, period) = (s.budget.ns(), s.period.ns());
            match s.kind {
                Deferrable if !together => (t + period - budget).div_ceil(period) * budget,
                ConstantBandwidth => (budget * (period - budget)).div_ceil(period),
                _ => t.div_ceil(period) * budget,
            }
        });
        own.budget.ns() + used.sum::<u64>() + (slope * t as f64 + 1e-9) as u64 <= t
    })
}

#[test]
fn under_fixed_priorities_responses_are_those_of_a_scan() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut admitted, mut refused, mut together, mut renewing) = (0, 0, 0, 0);
    for _ in 0..6000 {
        let number = rng.random_range(1..=5);
        let mut servers = random(&mut rng, number, 40);
        if rng.random_bool(0.3) {
            servers.iter_mut().for_each(|s| s.period = ns(s.period.ns().next_power_of_two()));
        }
        servers.sort_by_key(|s| s.period);
        let grids = if rng.random_bool(0.5) { Grids::Aligned } else { Grids::Apart };
        let aligned = grids == Grids::Aligned;
        let expected: Vec<Option<u64>> = (0..servers.len()).map(|i| response(&servers, i, aligned)).collect();
        match admit(&servers, Order::FixedPriority, grids, Bandwidth::ONE).unwrap() {
            Ok(found) => {
                let found: Vec<Option<u64>> = found.responses.unwrap().iter().map(|r| Some(r.ns())).collect();
                assert_eq!(found, expected, "{grids:?} {servers:?}");
                admitted += 1;
                together += usize::from(aligned && servers.len() > 1 && servers[0].kind == Deferrable);
                renewing += usize::from(servers.len() > 1 && servers[0].kind == ConstantBandwidth);
            }
            Err(Refused::Window(window)) => {
                let first = expected.iter().position(Option::is_none).unwrap();
                assert_eq!((window.server, window.at), (first, servers[first].period), "{grids:?} {servers:?}");
                assert!(window.demand > window.supply && window.supply == window.at);
                refused += 1;
            }
            Err(_) => assert!(servers.iter().map(|s| s.bandwidth().as_f64()).sum::<f64>() > 1.0),
        }
    }
    println!("{admitted} admitted, {refused} refused; {together} aligned, {renewing} renewing");
    assert!(admitted > 1000 && refused > 500 && together > 50 && renewing > 50);
}

#[test]
fn the_sum_is_kept_below_what_all_may_take() {
    let half = Bandwidth::new(1, 2).unwrap();
    let two = [server(ConstantBandwidth, 1, 4), server(PeriodicConserving, 1, 4)];
    for order in [Order::Edf, Order::FixedPriority] {
        assert!(admit(&two, order, Grids::Apart, half).unwrap().is_ok());
        let less = Bandwidth::new(499, 1000).unwrap();
        let refused = admit(&two, order, Grids::Apart, less).unwrap();
        assert_eq!(refused, Err(Refused::Bandwidth { demand: half, supply: less }));
    }
    assert!(admit(&[], Order::Edf, Grids::Apart, half).unwrap().is_ok(), "no server asks for nothing");
    let wrong = |server| match admit(&[two[0], server], Order::Edf, Grids::Apart, Bandwidth::ONE) {
        Err(Error::Server { number: 2, why }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong(server(Unlimited, 1, 2)), ServerError::Unlimited);
    assert_eq!(wrong(server(Deferrable, 0, 2)), ServerError::NoBudget);
    assert_eq!(wrong(server(Deferrable, 0, 0)), ServerError::NoBudget);
    assert_eq!(wrong(server(Deferrable, 3, 2)), ServerError::TooMuch { budget: ns(3), period: ns(2) });
}

#[test]
fn numbers_as_large_as_can_be_give_an_answer_or_say_why_not() {
    let long = u64::MAX;
    let (half, whole) = (server(Deferrable, long / 2, long), server(Deferrable, long, long));
    for order in [Order::Edf, Order::FixedPriority] {
        for servers in [vec![whole], vec![half, half], vec![half, server(Deferrable, 1, 3)], vec![whole, whole]] {
            let _ = admit(&servers, order, Grids::Apart, Bandwidth::ONE);
        }
        let close = [
            server(Deferrable, 1, 2),
            server(ConstantBandwidth, 499_999_999, 1_000_000_000),
            server(PeriodicConserving, 1, 1_000_000_007),
        ];
        let _ = admit(&close, order, Grids::Apart, Bandwidth::ONE);
    }
    assert!(admit_global(&[half, half], Order::Edf, u32::MAX, Bandwidth::ONE).is_ok());
}

#[test]
fn every_placement_is_admitted_core_by_core_and_the_heuristics_differ() {
    let mut rng = StdRng::seed_from_u64(4);
    let (mut placed, mut unplaced, mut only, mut differ) = (0, 0, [0; 3], 0);
    for _ in 0..600 {
        let order = if rng.random_bool(0.5) { Order::Edf } else { Order::FixedPriority };
        let cores = rng.random_range(1..=5u32);
        let capacity = Bandwidth::new(rng.random_range(7..=10), 10).unwrap();
        let number = rng.random_range(2..=4);
        let mut servers: Vec<Server> = (0..cores).flat_map(|_| random(&mut rng, number, 60)).collect();
        servers.iter_mut().for_each(|s| s.budget = ns((s.budget.ns() * 6).div_ceil(10)));
        let found = [Fit::First, Fit::Best, Fit::Worst]
            .map(|fit| place(&servers, order, Grids::Apart, capacity, cores, fit).unwrap());
        for found in &found {
            let on = |core: usize| match found {
                Ok(places) => {
                    servers.iter().zip(places).filter(|(_, place)| **place == core).map(|(s, _)| *s).collect::<Vec<_>>()
                }
                Err(_) => Vec::new(),
            };
            assert!((0..cores as usize).all(|core| admit(&on(core), order, Grids::Apart, capacity).unwrap().is_ok()));
            match found {
                Ok(places) => {
                    assert!(places.len() == servers.len() && places.iter().all(|place| *place < cores as usize));
                    placed += 1;
                }
                Err(none) => {
                    assert!(none.refused.len() == cores as usize && none.server < servers.len());
                    unplaced += 1;
                }
            }
        }
        let works = found.each_ref().map(Result::is_ok);
        differ += usize::from(works == [true; 3] && (found[0] != found[2]) && (found[0] != found[1]));
        if works.iter().filter(|works| **works).count() == 1 {
            only[works.iter().position(|works| *works).unwrap()] += 1;
        }
    }
    println!(
        "{placed} placed, {unplaced} not; only first, best, worst fit finds a place: {only:?}; all differ: {differ}"
    );
    assert!(placed > 300 && unplaced > 200 && differ > 10 && only.iter().sum::<usize>() > 5);
}

#[test]
fn heuristics_are_what_they_are_called() {
    let servers = [server(Sporadic, 5, 10), server(Sporadic, 4, 10), server(Sporadic, 2, 10), server(Sporadic, 1, 10)];
    let with =
        |fit, cores| place(&servers, Order::Edf, Grids::Apart, Bandwidth::new(7, 10).unwrap(), cores, fit).unwrap();
    assert_eq!(with(Fit::First, 3), Ok(vec![0, 1, 0, 1]));
    assert_eq!(with(Fit::Best, 3), Ok(vec![0, 1, 0, 1]));
    assert_eq!(with(Fit::Worst, 3), Ok(vec![0, 1, 2, 2]));
    let none = with(Fit::First, 1).unwrap_err();
    let [Refused::Bandwidth { demand, .. }] = none.refused[..] else { panic!("{none:?}") };
    assert_eq!((none.server, demand), (1, Bandwidth::new(9, 10).unwrap()));
    // 6 + 3 and 5 + 4: with 3 beside 5 there is no room for 4.
    let servers = [server(Sporadic, 5, 10), server(Sporadic, 6, 10), server(Sporadic, 4, 10)];
    let best = place(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE, 3, Fit::Best).unwrap();
    assert_eq!(best, Ok(vec![1, 0, 0]), "the fullest that has room");
    // Names are those of the list.
    let servers = [server(Deferrable, 3, 7), server(Deferrable, 2, 4)];
    let none = place(&servers, Order::FixedPriority, Grids::Apart, Bandwidth::ONE, 1, Fit::First).unwrap().unwrap_err();
    let [Refused::Window(window)] = none.refused[..] else { panic!("{none:?}") };
    assert_eq!((none.server, window.server), (0, 1), "the smaller comes last; the one below it misses");
}

#[test]
fn on_one_core_the_density_is_the_whole_test_and_more_cores_are_never_worse() {
    let mut rng = StdRng::seed_from_u64(5);
    let (mut more, mut slack) = (0, 0);
    for _ in 0..2000 {
        let number = rng.random_range(1..=7);
        let mut servers = random(&mut rng, number, 30);
        servers.append(&mut random(&mut rng, number, 30));
        let other = |s: &mut Server| s.kind = if s.kind == Deferrable { Polling } else { s.kind };
        servers.iter_mut().for_each(other);
        let fits = |cores| admit_global(&servers, Order::Edf, cores, Bandwidth::ONE).unwrap();
        assert_eq!(fits(1).is_ok(), admit(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE).unwrap().is_ok());
        let least = (1..=14).find(|&cores| fits(cores).is_ok()).expect("as many cores as servers are enough");
        assert!((least..=14).all(|cores| fits(cores).is_ok()), "{servers:?} from {least}");
        assert!(least as usize <= servers.len());
        more += usize::from(least > 1);
        slack += usize::from(matches!(fits(least).unwrap().by, Known::Slacks(_)));
    }
    assert!(more > 800 && slack > 15, "{more} {slack}");
}
