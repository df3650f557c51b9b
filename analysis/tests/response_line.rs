//! Bounds of response times by a line, against the queue itself, and against a core whose law is known in closed form.

use giusto_analysis::response::{line, response, Precision, Question, Server};
use giusto_model::{Duration, Rate};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

#[test]
fn the_queue_is_between_both_ends() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut compared, mut wide) = (0, 0);
    while compared < 120 {
        let server = [Server::Deferrable, Server::Periodic, Server::ConstantBandwidth][rng.random_range(0..3)];
        let period = 100 * rng.random_range(2..=20u64);
        let budget = 100 * rng.random_range(1..=period / 100);
        let load = rng.random_range(0.1..0.9) * budget as f64 / period as f64;
        let rate = Rate::of((load * 1e6) as u64, Duration::from_ns(1_000_000 * 1_000_000)).unwrap();
        let question = Question {
            server,
            budget: us(budget),
            period: us(period),
            rate,
            service: vec![(us(1000), 1.0)],
            batch: vec![(1, 1.0)],
        };
        let at = [us(1000), us(3000), us(8000), us(20_000)];
        let percentiles = [50.0, 90.0, 99.0];
        let Ok(found) = response(&question, &at, &percentiles, Precision::default()) else { continue };
        let bounds = line(&question, &at, &percentiles).unwrap();
        assert_eq!(bounds.delay, us(2 * (period - budget)));
        let (least, most) = (|t: Duration| t.ns() as f64 - bounds.delay.ns() as f64, |t: Duration| t.ns() as f64);
        let near = |t: Duration| 2e-2 * t.ns() as f64; // what the queue is solved to
        let means = (bounds.about.mean, bounds.most.mean);
        let all = bounds.about.percentiles.iter().zip(&bounds.most.percentiles).map(|(a, b)| (a.at, b.at));
        let told = found.percentiles.iter().map(|p| p.at);
        for ((about, end), told) in all.zip(told).chain([(means, found.mean)]) {
            assert!(told.ns() as f64 <= most(end) + near(end), "{question:?}: {told} {end}");
            assert!(told.ns() as f64 >= least(about) - near(about), "{question:?}: {told} {about}");
            wide += usize::from(told > about);
        }
        for (told, end) in found.cdf.iter().zip(&bounds.most.cdf) {
            assert!(told.p >= end.p - 1e-2, "{question:?}: {told:?} {end:?}");
            assert_eq!(told.at, end.at);
        }
        compared += 1;
    }
    println!("{compared} queues, in {wide} numbers later than on a core of the same speed");
    assert!(wide > 15);
}

#[test]
fn a_whole_core_is_met_exactly_and_near_the_load_the_ends_are_close() {
    let question = |budget, period, rate| Question {
        server: Server::Deferrable,
        budget: Duration::from_ns(budget),
        period: Duration::from_ns(period),
        rate: Rate::of(rate, Duration::from_secs(1)).unwrap(),
        service: vec![(us(1000), 1.0)],
        batch: vec![(1, 1.0)],
    };
    // Pollaczek and Khinchine: s (1 + ρ/(2(1 − ρ))) on a core of the speed of the server.
    for (budget, period, rate) in [(1_000_000, 1_000_000, 900), (505_001, 1_000_000, 500), (999_983, 1_999_993, 499)] {
        let speed = budget as f64 / period as f64;
        let load = rate as f64 * 1e-3 / speed;
        let mean = 1e6 / speed * (1.0 + load / (2.0 * (1.0 - load)));
        let bounds = line(&question(budget, period, rate), &[], &[99.0]).unwrap();
        let found = bounds.about.mean.ns() as f64;
        assert!((found / mean - 1.0).abs() < 5e-3, "{found} {mean}");
        assert_eq!(bounds.most.mean, bounds.about.mean.checked_add(bounds.delay).unwrap());
    }
}
