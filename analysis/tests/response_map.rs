//! The map is what single questions answer, and obeys what every share of a core does.

use giusto_analysis::response::{map, response, Precision, Question, Server};
use giusto_model::{Bandwidth, Duration};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn a_map_is_its_cells_and_more_budget_is_never_worse() {
    let question = |server| Question {
        server,
        budget: Duration::from_ns(1),
        period: Duration::from_ns(1),
        rate: "0.4/ms".parse().unwrap(),
        service: vec![(Duration::from_us(500), 0.5), (Duration::from_us(1500), 0.5)],
        batch: vec![(1, 1.0)],
    };
    let shares: Vec<Bandwidth> = [30, 45, 61, 83, 100].map(|p| Bandwidth::new(p, 100).unwrap()).to_vec();
    // Times with no common part too.
    let periods = [Duration::from_us(700), Duration::from_us(2000), Duration::from_ns(6_543_211)];
    let (mut refused, mut compared) = (0, 0);
    for server in [Server::Deferrable, Server::Periodic] {
        let question = question(server);
        let done = AtomicUsize::new(0);
        let count = || {
            done.fetch_add(1, Relaxed);
        };
        let found = map(&question, &[90.0, 99.0], &shares, &periods, &count).unwrap();
        assert_eq!((found.cells.len(), done.into_inner()), (15, 15));
        for (row, period) in found.cells.chunks(5).zip(periods) {
            for cell in row {
                assert_eq!(cell.period, period);
                let unstable = cell.bandwidth.as_f64() < 0.4;
                assert_eq!((cell.at.is_empty(), cell.refused.is_some()), (unstable, unstable), "{cell:?}");
                refused += usize::from(unstable);
                let single = Question { budget: cell.budget, period, ..question.clone() };
                for (at, p) in cell.at.iter().zip([0.9, 0.99]) {
                    let there = response(&single, &[*at], &[], Precision::default()).unwrap().cdf[0].p;
                    assert!((there - p).abs() < 0.06 * (1.0 - p), "{cell:?}: {p} is {there}");
                    compared += 1;
                }
            }
            let stable = row.iter().filter(|cell| !cell.at.is_empty());
            let tails: Vec<f64> = stable.map(|cell| cell.at[1].ns() as f64).collect();
            assert!(tails.windows(2).all(|pair| pair[1] <= pair[0] * 1.005), "{tails:?}");
            assert!(tails.iter().all(|at| *at >= 0.995 * found.whole[1].ns() as f64), "{tails:?} {:?}", found.whole);
        }
    }
    println!("{compared} percentiles compared, {refused} shares refused");
    assert!(compared == 48 && refused == 6);
    // A bandwidth of nothing is no share.
    assert!(map(&question(Server::Deferrable), &[90.0], &[Bandwidth::ZERO], &periods, &|| ()).is_err());
}
