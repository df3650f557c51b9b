//! Where the law of the response time is hard to compute: right, or refused.

mod requests;

use giusto_analysis::response::{response, Precision, Question, Server};
use giusto_analysis::Error;
use giusto_model::Duration;
use requests::{ms, question, us};

/// The sojourn time of M/D/1 exactly, in a form without differences (Franx 2001): of the queue length's law, by the recursion
/// of Tijms, every term is positive, so that it holds at any load.
struct Md1 {
    rate: f64,
    service: f64,
    /// Pr{at most n jobs there}.
    there: Vec<f64>,
}

impl Md1 {
    /// λ in 1/ms, service time in ms, for sojourns of up to `longest` services.
    fn new(rate: f64, service: f64, longest: usize) -> Md1 {
        let load = rate * service;
        let mut term = (-load).exp();
        let mut beyond = vec![1.0 - term]; // Pr{more than n arrivals in a service}
        for n in 1..=longest {
            term *= load / n as f64;
            beyond.push((beyond[n - 1] - term).max(0.0));
        }
        let mut exactly = vec![1.0 - load];
        for n in 1..=longest {
            let waits: f64 = (1..n).map(|k| beyond[n - k] * exactly[k]).sum();
            exactly.push((beyond[n - 1] * exactly[0] + waits) / (1.0 - beyond[0]));
        }
        let mut sum = 0.0;
        let there = exactly.iter().map(|p| {
            sum += p;
            sum
        });
        let there: Vec<f64> = there.collect();
        assert!(there[longest] > 0.999);
        Md1 { rate, service, there }
    }

    /// Pr{R ≤ t}, t in ms.
    fn at(&self, t: f64) -> f64 {
        let wait = t - self.service;
        if wait < 0.0 {
            return 0.0;
        }
        let services = (wait / self.service) as usize + 1;
        if services >= self.there.len() {
            return 1.0; // but for what is beyond, which is asserted to be nothing
        }
        let left = self.rate * (services as f64 * self.service - wait);
        let mut term = (-left).exp();
        let mut sum = 0.0;
        for (j, there) in self.there[1..=services].iter().rev().enumerate() {
            sum += term * there;
            term *= left / (j + 1) as f64;
        }
        sum
    }

    fn mean(&self) -> f64 {
        let load = self.rate * self.service;
        self.service * (1.0 + load / (2.0 * (1.0 - load)))
    }
}

/// A backlogged server falls behind a queue that is served at B/P without a stop by at most P − B, and is ahead of it by at most
/// P − B: twice that if it is deferrable, whose budgets of two periods may follow each other. Path by path, so for every part of
/// all jobs. And none is faster than the whole core.
#[test]
fn no_server_is_further_from_steady_service_at_its_bandwidth_than_its_gaps() {
    use Server::{ConstantBandwidth, Deferrable, Periodic};
    let (all, kept) = (&[Deferrable, Periodic, ConstantBandwidth][..], &[Deferrable, Periodic][..]);
    let mut cases = vec![
        ("plain", "0.004/ms", ms(120), ms(200), all),
        ("load of 99 % of the bandwidth", "0.00594/ms", ms(120), ms(200), kept),
        ("the same on a whole core", "0.0099/ms", ms(200), ms(200), &[Deferrable]),
        ("service far longer than the budget", "0.004/ms", ms(3), ms(5), kept),
        ("tiny period", "0.004/ms", us(600), ms(1), kept),
        ("nearly the whole core", "0.008/ms", Duration::from_ns(199_999_999), ms(200), kept),
    ];
    if std::env::var_os("GIUSTO_SOAK").is_some() {
        cases.extend([
            ("load of 99 % of the bandwidth", "0.00594/ms", ms(120), ms(200), &[ConstantBandwidth][..]),
            ("service far longer than the budget", "0.004/ms", ms(3), ms(5), &[ConstantBandwidth]),
            ("tiniest period", "0.004/ms", us(3), us(5), all),
            ("huge period", "0.004/ms", ms(6_000), ms(10_000), all),
            ("budget shorter than a slot", "0.000005/ms", us(100), ms(100), all),
            ("and next to no common part with the period", "0.000005/ms", Duration::from_ns(100_003), ms(100), all),
        ]);
    }
    let (mut right, mut refused, mut sharp) = ([0; 3], 0, 0);
    for (name, rate, budget, period, servers) in cases {
        let per_ms: f64 = rate.strip_suffix("/ms").unwrap().parse().unwrap();
        let share = budget.ns() as f64 / period.ns() as f64;
        let gap = (period.ns() - budget.ns()) as f64 / 1e6;
        let (steady, whole) = (Md1::new(per_ms, 100.0 / share, 600), Md1::new(per_ms, 100.0, 600));
        for &server in servers {
            let question = Question { server, rate: rate.parse().unwrap(), budget, period, ..question(1, 1) };
            let ahead = if server == Server::Deferrable { 2.0 * gap } else { gap };
            let at: Vec<f64> = [1.0, 1.5, 2.5, 5.0, 20.0, 100.0, 400.0].map(|x| x * 100.0 / share).to_vec();
            let times: Vec<Duration> = at.iter().map(|at| Duration::from_ns((at * 1e6) as u64)).collect();
            let answer = match response(&question, &times, &[50.0, 99.0], Precision::default()) {
                Err(Error::Fine { .. }) => {
                    refused += 1;
                    println!("{name}, {server:?}: refused");
                    continue;
                }
                answer => answer.unwrap(),
            };
            right[server as usize] += 1;
            assert!(answer.lost < 1e-6 && answer.error.is_some_and(f64::is_finite), "{name}, {server:?}: {answer:?}");
            let mean = answer.mean.ns() as f64 / 1e6;
            let slack = 2e-3 * mean;
            let fair = steady.mean() - ahead - slack..=steady.mean() + gap + slack;
            assert!(fair.contains(&mean), "{name}, {server:?}: {mean} of {fair:?}");
            for (at, found) in at.iter().zip(&answer.cdf) {
                let (low, high) = (steady.at(at - gap), steady.at(at + ahead).min(whole.at(*at)));
                let p = found.p;
                assert!(p >= low - 2e-3 && p <= high + 2e-3, "{name}, {server:?} at {at} ms: {low} {p} {high}");
                sharp += usize::from(high - low < 0.02 && (0.02..0.98).contains(&p));
            }
            for found in &answer.percentiles {
                let at = found.at.ns() as f64 / 1e6;
                let (low, high) = (steady.at(at - gap), steady.at(at + ahead));
                let p = found.p / 100.0;
                assert!(p >= low - 5e-3 && high >= p - 5e-3, "{name}, {server:?}: p{} {at} ms: {low} {high}", found.p);
            }
        }
    }
    println!("answered {right:?}, refused {refused}; shares pinned to two points {sharp}");
    assert!(right[0] >= 6 && right[1] >= 5 && right[2] >= 1 && sharp >= 8, "{right:?} {sharp}");
}

#[test]
fn corners_are_right_or_refused() {
    let base = question(120, 200);
    let ask = |q: &Question| response(q, &[ms(100), ms(1000)], &[50.0, 99.0], Precision::default());
    // Right: always a distribution, and a better server is better.
    let mut before: Option<Vec<f64>> = None;
    for budget in [81, 90, 120, 160, 199, 200] {
        let answer = ask(&question(budget, 200)).unwrap();
        let p: Vec<f64> = answer.cdf.iter().map(|at| at.p).collect();
        assert!(p.iter().all(|p| (0.0..=1.0).contains(p)) && p[0] <= p[1] && answer.lost < 1e-9, "{answer:?}");
        assert!(before.is_none_or(|before| before.iter().zip(&p).all(|(a, b)| *b >= a - 1e-3)), "{budget}: {answer:?}");
        before = Some(p);
    }
    let heavy: Vec<(Duration, f64)> = vec![(ms(10), 0.9), (ms(100), 0.09), (ms(1000), 0.01)];
    for (name, q) in [
        ("U/W = 0.99", Question { rate: "0.00594/ms".parse().unwrap(), ..base.clone() }),
        ("tiny period", Question { budget: us(600), period: ms(1), ..base.clone() }),
        ("long period", Question { budget: ms(3000), period: ms(5000), ..base.clone() }),
        ("long jobs", Question { budget: ms(3), period: ms(5), ..base.clone() }),
        ("heavy tail", Question { service: heavy, ..base.clone() }),
        ("odd budget", Question { budget: Duration::from_ns(120_000_007), ..base.clone() }),
    ] {
        let answer = ask(&q).unwrap();
        let fine = answer.cdf.iter().all(|at| (0.0..=1.0).contains(&at.p))
            && answer.percentiles.iter().all(|p| p.at >= answer.percentiles[0].at);
        assert!(fine && answer.mean >= ms(1) && answer.lost < 1e-6, "{name}: {answer:?}");
    }
    // Refused.
    let at_most = |q: Question| matches!(ask(&q), Err(Error::Unstable { .. }));
    assert!(at_most(question(80, 200)) && at_most(question(40, 200)));
    let none = Question { service: vec![(ms(1), 0.4)], ..base.clone() };
    assert!(matches!(ask(&none), Err(Error::Distribution { .. })));
    let zero = Question { service: vec![(ms(0), 1.0)], ..base.clone() };
    assert!(matches!(ask(&zero), Err(Error::Distribution { .. })));
    assert!(matches!(ask(&question(0, 200)), Err(Error::Budget { .. })));
    assert!(matches!(ask(&question(201, 200)), Err(Error::Budget { .. })));
    for p in [0.0, 100.0, -1.0, f64::NAN] {
        assert!(matches!(response(&base, &[], &[p], Precision::default()), Err(Error::Percentile { .. })), "{p}");
    }
    let forever = Question { budget: Duration::from_secs(360_000), period: Duration::from_secs(600_000), ..base };
    assert!(matches!(ask(&forever), Err(Error::Fine { .. })));
}

/// Near the load the tail is far longer than all the rest, and its length must not be what the work depends on.
#[test]
fn near_the_load_the_tail_is_told_exactly_and_at_once() {
    let whole = |rate: &str| Question {
        budget: ms(1),
        period: ms(1),
        rate: rate.parse().unwrap(),
        service: vec![(ms(1), 1.0)],
        ..question(120, 200)
    };
    let at: Vec<Duration> = [1, 2, 5, 20, 100].map(ms).to_vec();
    for (rate, load, longest) in [("0.95/ms", 0.95, 1000), ("0.99/ms", 0.99, 3000)] {
        let truth = Md1::new(load, 1.0, longest);
        let answer = response(&whole(rate), &at, &[50.0, 99.0, 99.9], Precision::default()).unwrap();
        for told in &answer.cdf {
            let p = truth.at(told.at.ns() as f64 / 1e6);
            assert!((told.p - p).abs() < 1e-3, "{rate} {}: {} for {p}", told.at, told.p);
        }
        for told in &answer.percentiles {
            let late = 1.0 - truth.at(told.at.ns() as f64 / 1e6);
            let wanted = 1.0 - told.p / 100.0;
            assert!((late / wanted - 1.0).abs() < 0.02, "{rate} p{}: {late} for {wanted}", told.p);
        }
        assert!((answer.mean.ns() as f64 / 1e6 / truth.mean() - 1.0).abs() < 2e-3, "{rate}: {answer:?}");
    }
    // Pollaczek and Khinchine: 1/2(1 − ρ) services in the limit, and an exponential tail of that mean.
    for (rate, load) in [("0.9999/ms", 0.9999), ("0.99999/ms", 0.99999)] {
        let answer = response(&whole(rate), &[], &[99.0], Precision::default()).unwrap();
        let mean = 1.0 + load / (2.0 * (1.0 - load));
        assert!((answer.mean.ns() as f64 / 1e6 / mean - 1.0).abs() < 3e-3, "{rate}: {answer:?} {mean}");
        let p99 = answer.percentiles[0].at.ns() as f64 / 1e6;
        assert!((p99 / (mean * 100f64.ln()) - 1.0).abs() < 0.01, "{rate}: {p99}");
    }
    // On a share, and in batches; what is lost is nothing, and the server whose budget comes last is no better.
    for server in [Server::Deferrable, Server::Periodic] {
        for (rate, budget, period, batch) in [
            ("0.00599/ms", 120, 200, vec![(1, 1.0)]),
            ("0.0059999/ms", 120, 200, vec![(1, 1.0)]),
            ("0.002999/ms", 600, 1000, vec![(1, 0.5), (3, 0.5)]),
        ] {
            let q = Question { server, rate: rate.parse().unwrap(), batch, ..question(budget, period) };
            let answer = response(&q, &[ms(200), ms(2000)], &[50.0, 99.0], Precision::default()).unwrap();
            let ordered = answer.cdf[0].p <= answer.cdf[1].p && answer.percentiles[0].at < answer.percentiles[1].at;
            assert!(ordered && answer.lost < 1e-6, "{rate}: {answer:?}");
        }
    }
}
