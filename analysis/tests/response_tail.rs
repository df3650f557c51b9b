//! The upper end of the law of response times against the law itself, and against what must hold of it.

use giusto_analysis::response::{response, Class, Precision, Question, Server, Share, Tail};
use giusto_analysis::Error;
use giusto_model::{Duration, Rate};

const MS: u64 = 1_000_000;

type Service = Vec<(Duration, f64)>;

fn constant() -> Service {
    vec![(Duration::from_ns(MS), 1.0)]
}

/// Each time rounded up, so that its mean is a little more than 1 ms.
fn exponential() -> Service {
    let beyond = |k: u64| (-(k as f64) / 15.0).exp();
    let mut all: Service = (1..=120).map(|k| (Duration::from_ns(k * MS / 15), beyond(k - 1) - beyond(k))).collect();
    all[119].1 += beyond(120);
    all
}

fn two() -> Service {
    vec![(Duration::from_ns(MS / 2), 0.75), (Duration::from_ns(3 * MS), 0.25)]
}

fn mean(service: &Service) -> f64 {
    service.iter().map(|(time, p)| time.ns() as f64 * p).sum()
}

/// At a load of its share.
fn tail(share: Share, load: f64, service: &Service) -> (Tail, Question) {
    let speed = share.budget.ns() as f64 / share.period.ns() as f64;
    let rate =
        Rate::of((load * speed / mean(service) * 1e15) as u64, Duration::from_ns(1_000_000_000_000_000)).unwrap();
    let found = Tail::new(share, &[Class { rate: rate.per_ns(), service }], service).unwrap();
    let Share { server, budget, period } = share;
    (found, Question { server, budget, period, rate, service: service.clone(), batch: vec![(1, 1.0)] })
}

fn share(server: Server, (budget, period): (u64, u64)) -> Share {
    Share { server, budget: Duration::from_ns(budget * MS), period: Duration::from_ns(period * MS) }
}

#[test]
fn it_is_above_the_law_and_near_it() {
    let mut looked = 0;
    for service in [constant(), exponential(), two()] {
        for server in [Server::Deferrable, Server::Periodic] {
            for of in [(1, 1), (1, 2), (2, 4), (1, 5), (5, 10), (30, 40)] {
                for load in [0.2, 0.5, 0.8, 0.92] {
                    let (tail, question) = tail(share(server, of), load, &service);
                    let Ok(law) = response(&question, &[], &[90.0, 99.0, 99.9], Precision::Glance) else { continue };
                    for found in law.percentiles {
                        let most = 1.0 - found.p / 100.0;
                        let above = tail.beyond(found.at.ns() as f64) / most;
                        // The glance is some thousandths off itself.
                        assert!(above > 0.97, "{server:?} {of:?} {load} p{}: {above}", found.p);
                        let longer = tail.least(1.0, 0.0, most).0 / found.at.ns() as f64;
                        let near = [1.6, 1.6, 1.6, 1.6, 2.6, 5.0][usize::from(of.1 > 5) * 4 + usize::from(of.1 > 10)];
                        assert!((0.999..near).contains(&longer), "{server:?} {of:?} {load} p{}: {longer}", found.p);
                        looked += 1;
                    }
                }
            }
        }
    }
    assert!(looked > 300, "{looked}");
}

#[test]
fn it_never_rises_and_its_integral_is_above_what_it_says() {
    for of in [(1, 1), (2, 4), (1, 5)] {
        let (tail, _) = tail(share(Server::Deferrable, of), 0.7, &two());
        let step = 20_000.0;
        let (mut before, mut sum) = (1.0, 0.0);
        let times: Vec<f64> = (0..12_000).map(|n| f64::from(n) * step).collect();
        for time in times.iter().rev() {
            let beyond = tail.beyond(*time);
            assert!(beyond >= tail.beyond(time + step));
            sum += step * tail.beyond(time + step);
            assert!(tail.excess(*time) >= sum * 0.999, "{time}: {} {sum}", tail.excess(*time));
        }
        for n in 1..30 {
            let most = 0.7f64.powi(n);
            let (time, term) = tail.least(1.0, 1e-7, most);
            assert!(term <= most && time > 0.0, "{most} {time} {term}");
            assert!(tail.beyond(time) + 1e-7 * tail.excess(time) <= most * 1.000_001, "{most} {time}");
            before = f64::min(before, most);
        }
        assert!(before < 1e-4);
    }
}

#[test]
fn more_requests_and_less_budget_take_longer() {
    let p99 = |of, load| tail(share(Server::Deferrable, of), load, &constant()).0.least(1.0, 0.0, 0.01).0;
    assert!(p99((2, 4), 0.5) < p99((2, 4), 0.6));
    assert!(p99((4, 8), 0.6) < p99((4, 8), 0.8));
    let of = |budget| {
        let service = constant();
        Tail::new(share(Server::Deferrable, (budget, 10)), &[Class { rate: 250e-9, service: &service }], &service)
            .unwrap()
            .least(1.0, 0.0, 0.01)
            .0
    };
    assert!(of(3) > of(5) && of(5) > of(8), "{} {} {}", of(3), of(5), of(8));
}

#[test]
fn classes_with_one_service_time_are_one_class() {
    let service = constant();
    let half = Class { rate: 150e-9, service: &service };
    let of = share(Server::Deferrable, (2, 4));
    let two = Tail::new(of, &[half, half], &service).unwrap();
    let one = Tail::new(of, &[Class { rate: 300e-9, service: &service }], &service).unwrap();
    for time in [1e6, 5e6, 2e7] {
        assert!((two.beyond(time) / one.beyond(time) - 1.0).abs() < 1e-9);
    }
    // A longer request of its own among the same others takes longer.
    let long = vec![(Duration::from_ns(4 * MS), 1.0)];
    assert!(Tail::new(of, &[half, half], &long).unwrap().beyond(2e7) > one.beyond(2e7));
}

#[test]
fn what_has_no_law_is_refused() {
    let service = constant();
    let of = |of, rate| Tail::new(of, &[Class { rate, service: &service }], &service).map(|_| ());
    let half = share(Server::Deferrable, (2, 4));
    assert!(matches!(of(half, 500e-9), Err(Error::Unstable { .. })));
    assert!(matches!(of(share(Server::ConstantBandwidth, (2, 4)), 100e-9), Err(Error::Budget { .. })));
    assert!(matches!(of(share(Server::Deferrable, (5, 4)), 100e-9), Err(Error::Budget { .. })));
    assert!(matches!(Tail::new(half, &[], &service).map(|_| ()), Err(Error::Distribution { .. })));
    assert!(of(half, 499e-9).is_ok());
}
