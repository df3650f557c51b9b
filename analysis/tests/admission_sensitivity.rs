//! The room of each server against scans of all integers.

use giusto_analysis::admission::{admit, sensitivity, Grids, Order, Refused, Room};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Server, ServerKind};
use num_rational::Ratio;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ServerKind::{ConstantBandwidth, Deferrable, PeriodicStrict, Polling, Sporadic};

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

fn server(kind: ServerKind, budget: u64, period: u64) -> Server {
    Server { kind, budget: ns(budget), period: ns(period) }
}

fn random(rng: &mut StdRng, kinds: &[ServerKind]) -> Vec<Server> {
    let number = rng.random_range(1..=4);
    let one = |_| {
        let period =
            if rng.random_bool(0.5) { [2, 4, 8, 16][rng.random_range(0..4)] } else { rng.random_range(2..=20) };
        let budget = rng.random_range(1..=(3 * period / (2 * number)).clamp(1, period));
        server(kinds[rng.random_range(0..kinds.len())], budget, period)
    };
    (0..number).map(one).collect()
}

/// Periodic tasks on one core, by the definitions: an instant by which all work is done (fixed priority), Σ B/P (EDF).
fn fits(servers: &[Server], order: Order, capacity: Bandwidth) -> bool {
    let part = |s: &Server| Ratio::new(s.budget.ns(), s.period.ns());
    let all: Ratio<u64> = servers.iter().map(part).sum();
    let asked =
        |t: u64, upto: usize| servers[..upto].iter().map(|s| t.div_ceil(s.period.ns()) * s.budget.ns()).sum::<u64>();
    let done = |i: usize| (1..=servers[i].period.ns()).any(|t| asked(t, i) + servers[i].budget.ns() <= t);
    all <= Ratio::new(capacity.numer(), capacity.denom()) && (order == Order::Edf || (0..servers.len()).all(done))
}

/// All values from now to the limit pass, and the next does not, unless there is none.
fn is_the_limit(now: u64, limit: u64, end: u64, passes: &dyn Fn(u64) -> bool) {
    assert!((now.min(limit)..=now.max(limit)).all(passes), "{now} to {limit}");
    let next = if now < end { limit + 1 } else { limit - 1 };
    assert!(limit == end || !passes(next), "{now} to {limit}, {end}");
}

#[test]
fn periodic_and_sporadic_servers_have_the_room_that_the_definitions_leave() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut refused, mut rooms, mut none, mut whole) = (0, 0, 0, 0);
    for round in 0..3_000 {
        let order = [Order::FixedPriority, Order::Edf][round % 2];
        let capacity = [Bandwidth::ONE, Bandwidth::new(9, 10).unwrap()][round / 2 % 2];
        let mut kinds = vec![PeriodicStrict, Polling, Sporadic];
        kinds.extend((order == Order::Edf).then_some(ConstantBandwidth));
        let servers = random(&mut rng, &kinds);
        let found = sensitivity(&servers, order, Grids::Apart, capacity).unwrap();
        assert_eq!(found.is_ok(), fits(&servers, order, capacity), "{servers:?}");
        let Ok(found) = found else {
            refused += 1;
            continue;
        };
        assert!(found.windows(2).all(|two| two[0].slack <= two[1].slack) && found.len() == servers.len());
        for Room { server, most_budget, least_period, slack, exact } in found {
            let (budget, period) = (servers[server].budget.ns(), servers[server].period.ns());
            let with = |budget, period| {
                let mut servers = servers.clone();
                (servers[server].budget, servers[server].period) = (ns(budget), ns(period));
                fits(&servers, order, capacity)
            };
            is_the_limit(budget, most_budget.ns(), period, &|budget| with(budget, period));
            is_the_limit(period, least_period.ns(), budget, &|period| with(budget, period));
            let parts = [(most_budget.ns() - budget, budget), (period - least_period.ns(), period)];
            assert_eq!(Some(slack), parts.into_iter().filter_map(|(more, whole)| Bandwidth::new(more, whole)).min());
            assert!(exact);
            rooms += 1;
            none += usize::from(slack == Bandwidth::ZERO);
            whole += usize::from(most_budget.ns() == period);
        }
    }
    println!("refused {refused}, rooms {rooms}, none {none}, whole {whole}");
    assert!(refused > 500 && rooms > 1500 && none > 200 && whole > 50, "{refused} {rooms} {none} {whole}");
}

#[test]
fn other_kinds_and_grids_are_admitted_at_their_limits_and_refused_one_step_further() {
    let mut rng = StdRng::seed_from_u64(2);
    let kinds = [Deferrable, Deferrable, ConstantBandwidth, Sporadic, PeriodicStrict];
    let (mut rooms, mut in_pieces) = (0, 0);
    for round in 0..3_000 {
        let order = [Order::FixedPriority, Order::Edf][round % 2];
        let grids = [Grids::Apart, Grids::Aligned][round / 2 % 2];
        let servers = random(&mut rng, &kinds);
        let Ok(found) = sensitivity(&servers, order, grids, Bandwidth::ONE).unwrap() else { continue };
        for Room { server, most_budget, least_period, exact, .. } in found {
            let (budget, period) = (servers[server].budget.ns(), servers[server].period.ns());
            let with = |budget: u64, period: u64| {
                let mut servers = servers.clone();
                (servers[server].budget, servers[server].period) = (ns(budget), ns(period));
                admit(&servers, order, grids, Bandwidth::ONE).unwrap().is_ok()
            };
            let (most, least) = (most_budget.ns(), least_period.ns());
            assert!(exact && with(most, period) && with(budget, least), "{servers:?}");
            assert!(most == period || !with(most + 1, period), "{servers:?}");
            assert!(least == budget || !with(budget, least - 1), "{servers:?}");
            // The step next to what is now is always looked at.
            assert!(most == budget || with(budget + 1, period), "{servers:?}");
            let pieces = !(budget..=most).all(|budget| with(budget, period))
                || (most..=period).any(|b| b > most && with(b, period));
            let pieces = pieces
                || !(least..=period).all(|period| with(budget, period))
                || (budget..least).any(|p| with(budget, p));
            assert!(!pieces || order == Order::FixedPriority, "under EDF it is of one piece: {server} {servers:?}");
            rooms += 1;
            in_pieces += usize::from(pieces);
        }
    }
    println!("rooms {rooms}, of these in pieces {in_pieces}");
    assert!(rooms > 1500 && in_pieces > 5, "{rooms} {in_pieces}");
}

#[test]
fn what_is_refused_or_makes_no_sense_is_said() {
    let two = [server(PeriodicStrict, 3, 5), server(PeriodicStrict, 3, 6)];
    let refused = sensitivity(&two, Order::Edf, Grids::Apart, Bandwidth::ONE).unwrap().unwrap_err();
    assert!(matches!(refused, Refused::Bandwidth { .. }), "{refused}");
    let wrong = [server(PeriodicStrict, 7, 6)];
    assert!(matches!(sensitivity(&wrong, Order::Edf, Grids::Apart, Bandwidth::ONE), Err(Error::Server { .. })));
    assert_eq!(sensitivity(&[], Order::Edf, Grids::Apart, Bandwidth::ONE), Ok(Ok(vec![])));
    let one = sensitivity(&two[..1], Order::FixedPriority, Grids::Apart, Bandwidth::ONE).unwrap().unwrap();
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(text, r#"[{"server":0,"most_budget_ns":5,"least_period_ns":3,"slack":"2/5","exact":true}]"#);
}
