//! Random tables: places that are full in every mode, so that what is too early shows.

use giusto_model::{Bandwidth, Duration, Server, ServerKind};
use giusto_modes::{Local, Member, Mode, OnTimeout, Place, Policy, Requests, Settings, Table, Transition};
use rand::seq::SliceRandom;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Shares are counted in so many units a core.
pub(crate) const UNITS: u64 = 20;
/// All periods divide this.
pub(crate) const LONGEST_US: u64 = 20_000;

/// How a place is tested. Both are sustainable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Bandwidths add up to the cores at most.
    Sum { cores: u64 },
    /// Budgets add up to the shortest period at most: what fits by bandwidth need not.
    Budgets,
}

pub(crate) struct Scene {
    pub(crate) table: Table,
    pub(crate) tests: Vec<Test>,
    pub(crate) settings: Settings,
}

/// Whether servers pass, in whole numbers and nothing of the library: (budget, period) in us.
pub(crate) fn passes(test: Test, servers: &[(u64, u64)]) -> bool {
    match test {
        Test::Sum { cores } => servers.iter().map(|(b, p)| b * (LONGEST_US / p)).sum::<u64>() <= cores * LONGEST_US,
        Test::Budgets => servers.iter().map(|s| s.0).sum::<u64>() <= servers.iter().map(|s| s.1).min().unwrap_or(0),
    }
}

pub(crate) fn in_us(server: &Server) -> (u64, u64) {
    (server.budget.ns() / 1000, server.period.ns() / 1000)
}

pub(crate) fn one_of<T: Copy>(all: &[T], rng: &mut ChaCha8Rng) -> T {
    all[rng.random_range(0..all.len())]
}

pub(crate) fn scene(rng: &mut ChaCha8Rng) -> Scene {
    let places = rng.random_range(1..=3);
    let tests: Vec<Test> = (0..places)
        .map(|_| match rng.random_range(0..4) {
            0 => Test::Budgets,
            1 => Test::Sum { cores: 2 },
            _ => Test::Sum { cores: 1 },
        })
        .collect();
    let members = rng.random_range(2..=6usize);
    let modes = rng.random_range(2..=3usize);
    let parts: Vec<Vec<usize>> =
        (0..members).map(|_| (0..rng.random_range(1..=3)).map(|_| rng.random_range(0..places)).collect()).collect();
    let one_period = rng.random_bool(0.6);
    // In units of each mode's parts; a member may have no reservation in a mode.
    let mut rows: Vec<Member> = (0..members)
        .map(|m| Member {
            name: format!("vm{m}"),
            agent: rng.random_bool(0.85),
            parts: parts[m].clone(),
            locals: Vec::new(),
            asks: (0..modes).filter(|_| rng.random_bool(0.5)).collect(),
        })
        .collect();
    for mode in 0..modes {
        let mut units: Vec<Vec<u64>> = parts.iter().map(|parts| vec![1; parts.len()]).collect();
        let none: Vec<bool> = (0..members).map(|_| rng.random_bool(0.08)).collect();
        for (place, test) in tests.iter().enumerate() {
            let on: Vec<(usize, usize)> = (0..members)
                .filter(|&m| !none[m])
                .flat_map(|m| (0..parts[m].len()).map(move |p| (m, p)))
                .filter(|&(m, p)| parts[m][p] == place)
                .collect();
            let cores = if let Test::Sum { cores } = *test { cores } else { 1 };
            let full = cores * UNITS - if rng.random_bool(0.6) { 0 } else { rng.random_range(0..UNITS / 2) };
            for _ in on.len() as u64..full {
                if on.is_empty() {
                    break;
                }
                let (m, p) = one_of(&on, rng);
                units[m][p] = (units[m][p] + 1).min(UNITS);
            }
        }
        for m in 0..members {
            // Under Budgets all periods are the same, so that a full place is full.
            let server = |p: usize, rng: &mut ChaCha8Rng| {
                let any = !one_period && tests[parts[m][p]] != Test::Budgets;
                let period = if any { one_of(&[5_000, 10_000, 20_000], rng) } else { 10_000 };
                let budget = Duration::from_us(units[m][p] * period / UNITS);
                Server { kind: ServerKind::Deferrable, budget, period: Duration::from_us(period) }
            };
            let servers: Vec<Server> =
                if none[m] { Vec::new() } else { (0..parts[m].len()).map(|p| server(p, rng)).collect() };
            let utilization = servers
                .iter()
                .try_fold(Bandwidth::ZERO, |all, server| all.checked_add(server.bandwidth()))
                .unwrap_or(Bandwidth::ZERO);
            rows[m].locals.push(Local { name: format!("m{mode}"), utilization, servers });
        }
    }
    let urgent = rng.random_bool(0.4);
    let modes = (0..modes)
        .map(|mode| Mode { name: format!("m{mode}"), locals: vec![mode; members], urgent: mode + 1 == modes && urgent })
        .collect();
    let place = |test: &Test| Place {
        name: String::new(),
        boosts: if let Test::Sum { cores } = *test { cores as usize } else { 1 },
    };
    let table = Table::new(tests.iter().map(place).collect(), rows, modes).expect("a table");
    let mut all = [Policy::Sequential, Policy::Batch, Policy::Greedy, Policy::Boost];
    all.shuffle(rng);
    let settings = Settings {
        policy: all[0],
        requests: one_of(&[Requests::Reject, Requests::Queue, Requests::Preempt], rng),
        on_timeout: one_of(&[OnTimeout::RollBack, OnTimeout::Degrade], rng),
        transition: one_of(&[Transition::Fast, Transition::Guaranteed], rng),
        timeout: Duration::from_us(2000),
        spacing: Duration::from_us(3000),
        boost: Duration::from_us(if urgent { 200 } else { 400 }),
    };
    Scene { table, tests, settings }
}
