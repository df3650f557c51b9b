//! Admission against what servers do: every behaviour of small systems, and many of larger ones under the policy core.

mod core;
mod model;
mod plays;
mod search;
mod several;

use core::Core;
use giusto_analysis::admission::{admit, Admitted, Grids, Order, Refused, Window};
use giusto_model::ServerKind::{self, ConstantBandwidth, Deferrable, PeriodicStrict, Sporadic};
use giusto_model::{Bandwidth, Duration, Server};
use model::{on_grid, Spec, Work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use search::{miss, phases_of, starved, Miss};
use std::collections::HashMap;

pub(crate) const KINDS: [ServerKind; 7] = [
    ServerKind::PeriodicStrict,
    ServerKind::PeriodicConserving,
    ServerKind::PeriodicReclaiming,
    ServerKind::Polling,
    ServerKind::Deferrable,
    ServerKind::Sporadic,
    ServerKind::ConstantBandwidth,
];

fn spec(kind: ServerKind, budget: i16, period: i16) -> Spec {
    Spec { kind, budget, period }
}

fn servers(specs: &[Spec]) -> Vec<Server> {
    let ns = |time: i16| Duration::from_ns(time as u64);
    specs.iter().map(|s| Server { kind: s.kind, budget: ns(s.budget), period: ns(s.period) }).collect()
}

pub(crate) fn fits(order: Order, grids: Grids, servers: &[Server]) -> Result<Admitted, Refused> {
    admit(servers, order, grids, Bandwidth::ONE).unwrap()
}

/// The same behaviour under the policy core: whether the same one runs each ns, and so misses too.
fn happens(order: Order, specs: &[Spec], miss: &Miss) -> bool {
    let (mut core, mut state) = (Core::new(order, specs, &miss.phases), model::begin(specs, &miss.phases));
    let last = miss.works.len() - 1;
    miss.works.iter().enumerate().all(|(at, works)| {
        let (next, ran) = model::step(order, specs, &state, works);
        state = next;
        core.step(works) == ran.who && (ran.short == Some(miss.victim)) == (at == last)
    })
}

#[test]
fn the_oracle_runs_as_the_policy_core_does() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut ran, mut idle, mut kinds) = (0, 0, HashMap::new());
    for _ in 0..600 {
        let order = if rng.random_bool(0.5) { Order::Edf } else { Order::FixedPriority };
        let specs: Vec<Spec> = (0..rng.random_range(1..=3)).map(|_| random_spec(&mut rng, 12)).collect();
        let phases: Vec<i16> = specs.iter().map(|s| rng.random_range(0..s.period)).collect();
        let (mut core, mut state) = (Core::new(order, &specs, &phases), model::begin(&specs, &phases));
        let calm = rng.random_range(0.1..0.9);
        let mut works = vec![Work::Idle; specs.len()];
        for now in 0..300 {
            for (i, work) in works.iter_mut().enumerate() {
                if rng.random_bool(calm) {
                    continue;
                }
                let anew = state[i].ready && !on_grid(specs[i].kind) && rng.random_bool(0.2);
                *work = [Work::Idle, Work::Ready][usize::from(rng.random_bool(0.6))];
                *work = if anew { Work::Anew } else { *work };
            }
            let (next, expected) = model::step(order, &specs, &state, &works);
            let found = core.step(&works);
            assert_eq!(found, expected.who, "{order:?} {specs:?} {phases:?} at {now}: {state:?} {works:?}");
            state = next;
            *(if found.is_some() { &mut ran } else { &mut idle }) += 1;
            if let Some(i) = found {
                *kinds.entry(specs[i].kind).or_insert(0) += 1;
            }
        }
    }
    println!("{ran} ns run, {idle} idle, {kinds:?}");
    assert!(ran > 50_000 && idle > 20_000 && kinds.len() == 7 && kinds.values().all(|n| *n > 1000));
}

fn random_spec(rng: &mut ChaCha8Rng, longest: i16) -> Spec {
    let kind = match rng.random_range(0..20) {
        0..5 => Deferrable,
        5..8 => ConstantBandwidth,
        _ => KINDS[rng.random_range(0..7)],
    };
    let period =
        if rng.random_bool(0.4) { [2, 3, 4, 6][rng.random_range(0..4)] } else { rng.random_range(2..=longest) };
    let most = if kind == Sporadic { 3.min(period - 1) } else { period - 1 };
    spec(kind, rng.random_range(1..=most), period)
}

/// What admission promises of deadlines: a constant_bandwidth server under fixed priorities has its supply, not each of them.
fn must(order: Order, specs: &[Spec], victim: usize) -> bool {
    order == Order::Edf || specs[victim].kind != ConstantBandwidth
}

/// A behaviour with which a server misses, for any order of the list under EDF: ties go to the first, which no test knows.
fn any_miss(order: Order, grids: Grids, specs: &[Spec]) -> Option<(Vec<Spec>, Miss)> {
    let turned: Vec<Spec> = specs.iter().rev().copied().collect();
    let lists = if order == Order::Edf { vec![specs.to_vec(), turned] } else { vec![specs.to_vec()] };
    lists.into_iter().find_map(|specs| {
        let found = miss(order, &specs, &phases_of(&specs, grids), &|victim| must(order, &specs, victim))?;
        Some((specs, found))
    })
}

fn bandwidth(specs: &[Spec]) -> f64 {
    specs.iter().map(|s| f64::from(s.budget) / f64::from(s.period)).sum()
}

fn random_case(rng: &mut ChaCha8Rng) -> (Order, Grids) {
    let order = if rng.random_bool(0.5) { Order::Edf } else { Order::FixedPriority };
    (order, if rng.random_bool(0.3) { Grids::Aligned } else { Grids::Apart })
}

#[derive(Default, Debug)]
struct Counts {
    admitted: usize,
    /// At more than nine tenths of the core, or with a response time that is the whole period.
    near: usize,
    /// Refused, and there is a behaviour with which a server misses.
    rightly: usize,
    /// Refused, and there is none.
    in_vain: usize,
}

#[test]
fn no_behaviour_makes_an_admitted_server_miss_and_nearly_all_refused_sets_can_miss() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut counts, mut kinds): (HashMap<_, Counts>, HashMap<_, usize>) = Default::default();
    for _ in 0..900 {
        let (order, grids) = random_case(&mut rng);
        let (number, longest) = if rng.random_bool(0.3) { (3, 6) } else { (2, 11) };
        let specs: Vec<Spec> = (0..number).map(|_| random_spec(&mut rng, longest)).collect();
        if !(0.6..=1.0).contains(&bandwidth(&specs)) {
            continue;
        }
        let (found, missed) = (fits(order, grids, &servers(&specs)), any_miss(order, grids, &specs));
        if let Some((specs, miss)) = &missed {
            assert!(found.is_err(), "{order:?} {grids:?} {specs:?}: {found:?} but {miss:?}");
            assert!(happens(order, specs, miss), "{order:?} {specs:?} {miss:?}");
        }
        let renews = specs.iter().any(|s| s.kind == ConstantBandwidth);
        let keeps = specs.iter().any(|s| s.kind == Deferrable);
        let count = counts.entry((order == Order::Edf, renews, keeps)).or_default();
        match (&found, &missed) {
            (Ok(admitted), _) => {
                let whole = |(server, response): (&Spec, &Duration)| response.ns() as i16 == server.period;
                let responses = admitted.responses.iter().flatten();
                count.admitted += 1;
                count.near += usize::from(bandwidth(&specs) > 0.9 || specs.iter().zip(responses).any(whole));
                specs.iter().for_each(|s| *kinds.entry(s.kind).or_default() += 1);
            }
            (Err(_), Some(_)) => count.rightly += 1,
            (Err(_), None) => count.in_vain += 1,
        }
    }
    counts.iter().for_each(|((edf, renews, keeps), count)| {
        println!("EDF {edf}, constant_bandwidth {renews}, deferrable {keeps}: {count:?}");
    });
    println!("admitted: {kinds:?}");
    assert!(kinds.len() == 7 && kinds.values().all(|n| *n > 25), "{kinds:?}");
    assert!(
        counts.values().map(|c| c.near).sum::<usize>() > 80 && counts.values().map(|c| c.rightly).sum::<usize>() > 60
    );
    // Ticks of 1 ns in so small systems count much: where budgets are renewed under fixed priorities, and rounded up.
    let exact = counts.iter().filter(|((edf, renews, _), _)| *edf || !renews).map(|(_, count)| count);
    let (rightly, in_vain) = exact.fold((0, 0), |all, count| (all.0 + count.rightly, all.1 + count.in_vain));
    assert!(in_vain * 20 <= rightly, "{in_vain} refused in vain, {rightly} rightly");
}

#[test]
fn no_behaviour_starves_an_admitted_server_in_any_window() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut admitted, mut starving, mut renewing, mut sets) = (0, 0, 0, 0);
    while sets < 60 {
        let (order, grids) = random_case(&mut rng);
        let specs: Vec<Spec> = (0..2).map(|_| random_spec(&mut rng, 7)).collect();
        let moving = specs.iter().any(|s| [ConstantBandwidth, Sporadic, Deferrable].contains(&s.kind));
        if !moving || !(0.7..=1.0).contains(&bandwidth(&specs)) {
            continue;
        }
        sets += 1;
        let phases = phases_of(&specs, grids);
        let found = fits(order, grids, &servers(&specs));
        let starved = (0..specs.len()).find(|&victim| starved(order, &specs, &phases, victim));
        assert!(found.is_err() || starved.is_none(), "{order:?} {grids:?} {specs:?} starves {starved:?}");
        let renews = order == Order::FixedPriority && specs[1].kind == ConstantBandwidth;
        admitted += usize::from(found.is_ok());
        renewing += usize::from(found.is_ok() && renews);
        starving += usize::from(starved.is_some());
    }
    println!("{sets} sets: {admitted} admitted, {renewing} with a constant_bandwidth server below another; {starving} starve");
    assert!(admitted > 30 && renewing > 1 && starving > 5);
}

/// That a set is refused, and rightly.
fn must_not(order: Order, grids: Grids, specs: &[Spec]) -> Refused {
    let refused = fits(order, grids, &servers(specs)).unwrap_err();
    let (specs, miss) = any_miss(order, grids, specs).expect("a behaviour with which it misses");
    assert!(happens(order, &specs, &miss));
    refused
}

#[test]
fn sets_on_which_simpler_tests_are_wrong() {
    use Grids::{Aligned, Apart};
    use Order::{Edf, FixedPriority};
    let window = |server, at, demand| {
        let (at, demand) = (Duration::from_ns(at), Duration::from_ns(demand));
        Refused::Window(Window { server, at, demand, supply: at })
    };
    // As periodic tasks: response 7 of 7. In [14, 21) the first leaves 2 of 3.
    let two = [spec(Deferrable, 2, 4), spec(Deferrable, 3, 7)];
    assert_eq!(must_not(FixedPriority, Aligned, &two), window(1, 7, 9));
    // U = 11/15.
    let two = [spec(Deferrable, 4, 12), spec(Deferrable, 2, 5)];
    assert_eq!(must_not(Edf, Apart, &two), window(1, 7, 8));
    // As a sporadic task: ⌈7/8⌉·2 + 5 = 7 of 7. It uses 1, waits, and has 2 anew within 7.
    let two = [spec(ConstantBandwidth, 2, 8), spec(PeriodicStrict, 5, 7)];
    assert_eq!(must_not(FixedPriority, Apart, &two), window(1, 7, 8));
    assert!(fits(FixedPriority, Apart, &servers(&[spec(Sporadic, 2, 8), two[1]])).is_ok());
    // As a sporadic task: ⌊t/6⌋·4 + ⌊t/7⌋·2 + min(2, t mod 7) ≤ t for all t.
    let two = [spec(Deferrable, 2, 7), spec(ConstantBandwidth, 4, 6)];
    assert!(matches!(must_not(Edf, Apart, &two), Refused::Window(_)));
    assert!(fits(Edf, Apart, &servers(&[two[0], spec(Sporadic, 4, 6)])).is_ok());
    // 5 divides 10, but what the second brings over from a double budget of the first counts too.
    let three = [spec(Deferrable, 2, 5), spec(Sporadic, 2, 10), spec(PeriodicStrict, 4, 10)];
    assert_eq!(must_not(FixedPriority, Aligned, &three), window(2, 10, 12));
    // Where all divide, no budget outlives the beginning of the window.
    let three = [spec(Deferrable, 2, 5), spec(Deferrable, 2, 10), spec(PeriodicStrict, 4, 10)];
    assert!(fits(FixedPriority, Aligned, &servers(&three)).is_ok());
    assert!(any_miss(FixedPriority, Aligned, &three).is_none());
    assert!(fits(FixedPriority, Apart, &servers(&three)).is_err());
    // Σ ⌊t/P⌋·B + min(B, t mod P) = 8 in 6; but no two budgets can be used in the same time.
    let two = [spec(Deferrable, 2, 4), spec(Deferrable, 2, 4)];
    assert!(fits(Edf, Apart, &servers(&two)).is_ok() && any_miss(Edf, Apart, &two).is_none());
}
