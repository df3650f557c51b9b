//! The upper end of the law against the law itself.

use giusto_analysis::response::{response, Class, Precision, Question, Server, Share, Tail};
use giusto_model::{Duration, Rate};
use std::time::Instant;

fn exponential(mean: u64) -> Vec<(Duration, f64)> {
    let n = 120;
    let step = mean * 8 / n;
    let beyond = |k: u64| (-((k * step) as f64) / mean as f64).exp();
    let mut all: Vec<(Duration, f64)> =
        (1..=n).map(|k| (Duration::from_ns(k * step), beyond(k - 1) - beyond(k))).collect();
    all[n as usize - 1].1 += beyond(n);
    all
}

#[test]
fn it_is_above_the_law_and_near_it() {
    let ms = 1_000_000;
    for service in [
        vec![(Duration::from_ns(ms), 1.0)],
        exponential(ms),
        vec![(Duration::from_ns(ms / 2), 0.75), (Duration::from_ns(3 * ms), 0.25)],
    ] {
        let mean: f64 = service.iter().map(|(t, p)| t.ns() as f64 * p).sum();
        for server in [Server::Deferrable, Server::Periodic] {
            for (budget, period) in [(1, 1), (2, 4), (1, 5), (5, 10), (30, 40), (1, 2)] {
                for load in [0.2, 0.5, 0.8, 0.92] {
                    let (budget, period) = (budget * ms, period * ms / 1);
                    let rate = load * budget as f64 / period as f64 / mean;
                    let rate = Rate::of((rate * 1e15) as u64, Duration::from_ns(1_000_000_000_000_000)).unwrap();
                    let (budget, period) = (Duration::from_ns(budget), Duration::from_ns(period));
                    let question =
                        Question { server, budget, period, rate, service: service.clone(), batch: vec![(1, 1.0)] };
                    let start = Instant::now();
                    let tail = Tail::new(
                        Share { server, budget, period },
                        &[Class { rate: rate.per_ns(), service: &service }],
                        &service,
                    )
                    .unwrap();
                    let took = start.elapsed();
                    let p = [50.0, 90.0, 99.0, 99.9];
                    let Ok(law) = response(&question, &[], &p, Precision::Glance) else {
                        println!("none");
                        continue;
                    };
                    let mut text = format!(
                        "{server:?} {budget}/{period} {load} atoms {} {:>5} us:",
                        service.len(),
                        took.as_micros()
                    );
                    for q in law.percentiles {
                        let most = 1.0 - q.p / 100.0;
                        let (t, _) = tail.least(1.0, 0.0, most);
                        text += &format!(" {:.3}", t / q.at.ns() as f64);
                        text += &format!("({:.2})", tail.beyond(q.at.ns() as f64) / most);
                        assert!(t >= q.at.ns() as f64 * 0.999, "{text}");
                    }
                    println!("{text}");
                }
            }
        }
    }
}
