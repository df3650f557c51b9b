//! Servers that share several cores, against all that small systems can do and much of what larger ones do, ns by ns.
//!
//! The oracle knows the rule alone: each ns the first m of those with work and budget run, in the order of the list or of their
//! deadlines. Servers with the behaviour of a task release jobs of any length up to their budget, a period apart or more.

use giusto_analysis::admission::{admit, admit_global, Grids, Known, Order, Refused};
use giusto_model::ServerKind::{self, ConstantBandwidth, Deferrable, PeriodicStrict, Polling, Sporadic};
use giusto_model::{Bandwidth, Duration, Server};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashSet;

fn server(kind: ServerKind, budget: u64, period: u64) -> Server {
    Server { kind, budget: Duration::from_ns(budget), period: Duration::from_ns(period) }
}

fn times(server: &Server) -> (u8, u8) {
    (server.budget.ns() as u8, server.period.ns() as u8)
}

/// With periods up to `longest`, that take so many cores together.
fn random(rng: &mut StdRng, number: usize, longest: u64, share: f64, kinds: &[ServerKind]) -> Vec<Server> {
    let one = |_| {
        let period = rng.random_range(2..=longest);
        let most = ((2.0 * share * period as f64 / number as f64).ceil() as u64).clamp(1, period);
        server(kinds[rng.random_range(0..kinds.len())], rng.random_range(1..=most), period)
    };
    (0..number).map(one).collect()
}

/// What a server is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Of its job, or of its budget.
    left: u8,
    /// Since its release, at most the period; since its period began.
    age: u8,
    /// Deferrable: it had work in all of the period so far.
    eager: bool,
}

/// Whom the rule lets run.
fn chosen(order: Order, servers: &[Server], states: &[State], ready: u32, cores: u32) -> u32 {
    let mut waiting: Vec<usize> = (0..servers.len()).filter(|i| ready >> i & 1 == 1 && states[*i].left > 0).collect();
    if order == Order::Edf {
        waiting.sort_by_key(|&i| times(&servers[i]).1 - states[i].age);
    }
    waiting.iter().take(cores as usize).fold(0, |all, i| all | 1 << i)
}

/// A ns later; `None`: one missed. `begins`: the length of the job that each task releases now, or 0; `ready`: who has work.
fn step(
    order: Order,
    servers: &[Server],
    cores: u32,
    states: &[State],
    begins: &[u8],
    ready: u32,
) -> Option<Vec<State>> {
    let mut states = states.to_vec();
    for ((state, server), &job) in states.iter_mut().zip(servers).zip(begins) {
        if job > 0 {
            *state = State { left: job, age: 0, eager: true };
        }
        if server.kind == Deferrable && state.age == times(server).1 {
            *state = State { left: times(server).0, age: 0, eager: true };
        }
    }
    let running = chosen(order, servers, &states, ready, cores);
    for (i, (state, server)) in states.iter_mut().zip(servers).enumerate() {
        let (_, period) = times(server);
        state.eager &= ready >> i & 1 == 1 || state.left == 0;
        state.left -= u8::from(running >> i & 1 == 1);
        state.age = (state.age + 1).min(period);
        if state.age == period && state.left > 0 && state.eager {
            return None;
        }
        if server.kind == Deferrable && state.age == period {
            state.left = 0;
        }
    }
    Some(states)
}

/// All that may happen next: who begins a job of which length, and which deferrable ones have work.
fn choices(servers: &[Server], states: &[State]) -> Vec<(Vec<u8>, u32)> {
    let mut all = vec![(Vec::new(), 0)];
    for (i, (server, state)) in servers.iter().zip(states).enumerate() {
        let (budget, period) = times(server);
        let own: Vec<(u8, u32)> = match server.kind {
            Deferrable => vec![(0, 0), (0, 1 << i)],
            _ if state.age == period => (0..=budget).map(|job| (job, 1 << i)).collect(),
            _ => vec![(0, 1 << i)],
        };
        let with = |(jobs, ready): &(Vec<u8>, u32)| {
            own.iter().map(|(job, bit)| ([&jobs[..], &[*job]].concat(), ready | bit)).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Whether any behaviour makes one miss; `None`: there are too many.
fn can_miss(order: Order, servers: &[Server], cores: u32) -> Option<bool> {
    const MOST: usize = 200_000;
    let mut begins = vec![Vec::new()];
    for server in servers {
        let (budget, period) = times(server);
        let phases: Vec<State> = match server.kind {
            Deferrable => (1..=period)
                .map(|age| State { left: if age == period { 0 } else { budget }, age, eager: false })
                .collect(),
            _ => vec![State { left: 0, age: period, eager: true }],
        };
        let with = |some: &Vec<State>| phases.iter().map(|own| [&some[..], &[*own]].concat()).collect::<Vec<_>>();
        begins = begins.iter().flat_map(with).collect();
    }
    let mut seen: HashSet<Vec<State>> = begins.iter().cloned().collect();
    let mut open = begins;
    while let Some(states) = open.pop() {
        for (jobs, ready) in choices(servers, &states) {
            match step(order, servers, cores, &states, &jobs, ready) {
                None => return Some(true),
                Some(next) => {
                    if seen.insert(next.clone()) {
                        open.push(next);
                    }
                }
            }
        }
        if seen.len() > MOST {
            return None;
        }
    }
    Some(false)
}

#[test]
fn what_is_admitted_never_misses_whatever_small_systems_do() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut safe, mut missing, mut cautious) = ([0; 3], 0, 0);
    let mut tried = 0;
    while tried < 400 {
        let order = if rng.random_bool(0.7) { Order::FixedPriority } else { Order::Edf };
        let number = rng.random_range(3..=4);
        let kinds: &[ServerKind] = match order {
            Order::FixedPriority if rng.random_bool(0.5) => &[PeriodicStrict, Deferrable],
            _ => &[PeriodicStrict],
        };
        let share = rng.random_range(0.8..2.0);
        let mut servers = random(&mut rng, number, if number == 3 { 6 } else { 4 }, share, kinds);
        if rng.random_bool(0.7) {
            servers.sort_by_key(|server| server.period);
        }
        let found = admit_global(&servers, order, 2, Bandwidth::ONE).unwrap();
        if matches!(found, Err(Refused::Bandwidth { .. })) {
            continue;
        }
        let Some(misses) = can_miss(order, &servers, 2) else { continue };
        tried += 1;
        match &found {
            Ok(found) => {
                assert!(!misses, "{order:?} {servers:?}: {found:?}");
                let deferrable = servers.iter().any(|server| server.kind == Deferrable);
                safe[if order == Order::Edf { 0 } else { 1 + usize::from(deferrable) }] += 1;
            }
            Err(_) if misses => missing += 1,
            Err(_) => cautious += 1,
        }
    }
    println!(
        "admitted {safe:?} (EDF, fixed priority, with a deferrable one); refused: {missing} miss, {cautious} never do"
    );
    assert!(safe.iter().all(|sets| *sets > 20) && missing > 40, "{safe:?} {missing} {cautious}");
}

/// How long each needed at most, or a miss: all released at once, a period apart; then at random, some jobs shorter.
fn played(rng: &mut StdRng, order: Order, servers: &[Server], cores: u32, together: bool) -> Option<Vec<u64>> {
    let idle = |server: &Server| State { left: 0, age: times(server).1, eager: true };
    let mut states: Vec<State> = servers.iter().map(idle).collect();
    let mut responses = vec![0; servers.len()];
    let (calm, short) = (rng.random_range(0.05..0.9), rng.random_range(0.0..0.3));
    for _ in 0..600 {
        let begins: Vec<u8> = servers
            .iter()
            .zip(&states)
            .map(|(server, state)| {
                let (budget, period) = times(server);
                match state.age == period && (together || !rng.random_bool(calm)) {
                    true if !together && rng.random_bool(short) => rng.random_range(1..=budget),
                    begins => budget * u8::from(begins),
                }
            })
            .collect();
        let before = states;
        states = step(order, servers, cores, &before, &begins, u32::MAX)?;
        for (i, state) in states.iter().enumerate() {
            if state.left == 0 && (before[i].left > 0 || begins[i] > 0) {
                responses[i] = responses[i].max(u64::from(state.age));
            }
        }
    }
    Some(responses)
}

#[test]
fn what_is_admitted_on_more_cores_is_never_later_than_told() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut admitted, mut refused, mut missed, mut reached, mut all) = (0, 0, 0, 0, 0);
    for _ in 0..3000 {
        let order = if rng.random_bool(0.8) { Order::FixedPriority } else { Order::Edf };
        let cores = rng.random_range(2..=4);
        let number = rng.random_range(cores as usize + 1..=3 * cores as usize);
        let share = rng.random_range(0.3..0.9) * f64::from(cores);
        let mut servers = random(&mut rng, number, 40, share, &[PeriodicStrict]);
        servers.sort_by_key(|server| server.period);
        let plays: Vec<_> = (0..4).map(|n| played(&mut rng, order, &servers, cores, n == 0)).collect();
        match admit_global(&servers, order, cores, Bandwidth::ONE).unwrap() {
            Ok(found) => {
                admitted += 1;
                for play in plays {
                    let play = play.unwrap_or_else(|| panic!("{order:?} {cores} {servers:?} misses: {found:?}"));
                    let Known::Responses(told) = &found.by else { continue };
                    for (played, told) in play.iter().zip(told) {
                        assert!(*played <= told.ns(), "{cores} {servers:?}: {play:?} {told:?}");
                        reached += usize::from(*played == told.ns());
                        all += 1;
                    }
                }
            }
            Err(_) => {
                refused += 1;
                missed += usize::from(plays.iter().any(Option::is_none));
            }
        }
    }
    println!("{admitted} admitted; {refused} refused, of which {missed} missed; {reached} of {all} responses as long as told");
    assert!(admitted > 500 && missed > 300 && reached * 10 > all, "{admitted} {refused} {missed} {reached} {all}");
}

#[test]
fn on_one_core_responses_are_those_of_that_core_and_more_cores_are_never_worse() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut same, mut refused, mut more) = (0, 0, 0);
    for _ in 0..3000 {
        let number = rng.random_range(2..=7);
        let share = rng.random_range(0.3..2.0);
        let servers = random(&mut rng, number, 40, share, &[PeriodicStrict, Polling, Deferrable]);
        let fits = |cores| admit_global(&servers, Order::FixedPriority, cores, Bandwidth::ONE).unwrap();
        match (fits(1), admit(&servers, Order::FixedPriority, Grids::Apart, Bandwidth::ONE).unwrap()) {
            (Ok(found), Ok(alone)) => {
                assert_eq!(found.by, Known::Responses(alone.responses.unwrap()), "{servers:?}");
                same += 1;
            }
            (Err(Refused::Interference(found)), Err(Refused::Window(window))) => {
                assert_eq!((found.server, found.at), (window.server, window.at), "{servers:?}");
                assert!(found.demand >= found.supply, "{found:?}");
                refused += 1;
            }
            (Err(Refused::Bandwidth { .. }), Err(Refused::Bandwidth { .. })) => {}
            other => panic!("{servers:?}: {other:?}"),
        }
        let least = (1..=number as u32).find(|&cores| fits(cores).is_ok()).expect("a core for each");
        assert!((least..=number as u32).all(|cores| fits(cores).is_ok()), "{servers:?} from {least}");
        more += usize::from(least > 1 && least < number as u32);
    }
    println!("{same} admitted alike, {refused} refused alike, {more} on some cores");
    assert!(same > 300 && refused > 300 && more > 500, "{same} {refused} {more}");
}

#[test]
fn kinds_without_a_test_are_told_and_long_periods_are_no_obstacle() {
    let servers = [server(PeriodicStrict, 1, 4), server(Sporadic, 1, 4), server(ConstantBandwidth, 1, 4)];
    let none = admit_global(&servers, Order::FixedPriority, 2, Bandwidth::ONE).unwrap();
    assert_eq!(none, Err(Refused::NoTest { server: 1, kind: Sporadic }));
    let second = 1_000_000_000;
    let mut servers: Vec<Server> = (0..9).map(|n| server(PeriodicStrict, 100 + n, 1000 + 7 * n)).collect();
    servers.push(server(Deferrable, 400 * second, 1000 * second));
    let found = admit_global(&servers, Order::FixedPriority, 2, Bandwidth::ONE).unwrap().unwrap();
    let Known::Responses(responses) = found.by else { panic!("{:?}", found.by) };
    assert!(responses[9] > Duration::from_secs(600) && responses[9] < Duration::from_secs(1000), "{responses:?}");
    let whole = server(Deferrable, u64::MAX, u64::MAX);
    let one = server(PeriodicStrict, 1, u64::MAX);
    assert!(admit_global(&[whole, whole, one], Order::FixedPriority, 2, Bandwidth::ONE).unwrap().is_err());
    assert!(admit_global(&[one, whole, whole], Order::FixedPriority, 2, Bandwidth::ONE).unwrap().is_err());
    assert!(admit_global(&[one, one, one], Order::FixedPriority, 2, Bandwidth::ONE).unwrap().is_ok());
}
