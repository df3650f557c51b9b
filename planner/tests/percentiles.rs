//! Services that are promised percentiles: laws of their plans over random sites, and their response times, played with the
//! policy core.

#[path = "common/advice.rs"]
mod advice;
mod common;

use advice::assert_helps;
use common::{golden, leftovers, percentiles, plan, site, supply};
use giusto_analysis::response::{response, Precision, Question, Server as Law};
use giusto_model::{
    Bandwidth, Certificate, Duration, JobRecord, Plan, Promise, Service, ServicePlan, ServiceTime, Site,
};
use giusto_planner::{explain, Cause, Facts, Miss, Missed, NearestFit, Refusal};
use giusto_simulator::{predict_random, Error, Observer, Under};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Range;

fn ms(text: &str) -> Duration {
    text.parse().unwrap()
}

fn constant(text: &str) -> ServiceTime {
    ServiceTime::Constant { time: ms(text) }
}

/// Whether this is the campaign; else it is a fixed sample, of latencies that are not too long for a quick answer.
fn soak() -> bool {
    std::env::var_os("GIUSTO_SOAK").is_some()
}

/// The first percentile is `latencies` mean service times, in the campaign up to 80 of them.
fn random_service(name: &str, latencies: Range<u64>, rng: &mut StdRng) -> Service {
    let mean_us = [300u64, 1000, 2000, 8000][rng.random_range(0..4)];
    let us = Duration::from_us;
    let service = match rng.random_range(0..3) {
        0 => ServiceTime::Constant { time: us(mean_us) },
        1 => ServiceTime::Bounded { mean: us(mean_us * 4 / 5), wcet: us(mean_us) },
        _ => {
            let times = vec![(us(mean_us / 2), 5), (us(mean_us), 10), (us(3 * mean_us), 2)];
            ServiceTime::Measured { from: "measured.csv".into(), times }
        }
    };
    let batch = [1, 1, 1, 2, 4][rng.random_range(0..5)];
    // 5 to 50 % of a core.
    let load = rng.random_range(5..50) as f64 / 100.0;
    let rate = (load / (mean_us as f64 / 1e6) / f64::from(batch) * 10.0).ceil() / 10.0;
    let scale = rng.random_range(if soak() { 8..80 } else { latencies }) * mean_us;
    let (p90, p99) = (format!("p90={scale}us"), format!("p99={}us", scale * rng.random_range(15..40) / 10));
    let points = if rng.random_bool(0.5) { vec![p90.as_str(), &p99] } else { vec![p99.as_str()] };
    percentiles(name, &points, &format!("{rate}/s"), batch, service)
}

fn random_site(latencies: Range<u64>, rng: &mut StdRng) -> Site {
    let mut services: Vec<Service> =
        (0..rng.random_range(1..=2)).map(|nth| random_service(&format!("r{nth}"), latencies.clone(), rng)).collect();
    for nth in 0..rng.random_range(0..=1) {
        let period = *[10u64, 20, 40].choose(rng).unwrap();
        services.push(supply(&format!("s{nth}"), &[&format!("{}ms/{period}ms", period / 5)], None));
    }
    services.push(leftovers("batch", "0%"));
    let cores: Vec<u32> = (1..=rng.random_range(1..=2)).collect();
    site(&cores, services)
}

/// What the promise of an entry rests on.
struct Rests<'a> {
    plan: &'a ServicePlan,
    question: Question,
    counted: Duration,
    later: Duration,
}

fn rests(plan: &ServicePlan) -> Option<Rests<'_>> {
    let Promise::Percentiles { arrivals, service, .. } = &plan.promise else { return None };
    let Certificate::Percentiles { budget, latency, wait, .. } = plan.certificate else { panic!() };
    let server = if wait.is_zero() { Law::Deferrable } else { Law::Periodic };
    let (service, batch) = (service.bound(), vec![(arrivals.batch, 1.0)]);
    let question = Question { server, budget, period: plan.server.period, rate: arrivals.rate, service, batch };
    Some(Rests { plan, question, counted: budget, later: latency.checked_add(wait).unwrap() })
}

impl Rests<'_> {
    /// Whether a server of which so much is counted on keeps all points.
    fn keeps(&self, counted: Duration) -> bool {
        let Promise::Percentiles { points, .. } = &self.plan.promise else { panic!() };
        let left: Vec<Duration> =
            points.iter().map(|point| point.within.checked_sub(self.later).unwrap_or(Duration::ZERO)).collect();
        let question = Question { budget: counted, ..self.question.clone() };
        match response(&question, &left, &[], Precision::Within(1e-3)) {
            Err(giusto_analysis::Error::Unstable { .. }) => false,
            found => {
                let found = found.unwrap();
                points.iter().zip(found.cdf).all(|(point, at)| 100.0 * at.p >= point.percentile.percent())
            }
        }
    }
}

#[test]
fn every_planned_server_keeps_all_points_and_one_a_quantum_cheaper_does_not() {
    let mut rng = StdRng::seed_from_u64(11);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = |what| *seen.entry(what).or_default() += 1;
    for _ in 0..if soak() { 40 } else { 20 } {
        let site = random_site(3..12, &mut rng);
        let facts = Facts::typical(site.hosts[0].cores.clone());
        match plan(&site, &facts) {
            Ok(found) => {
                for rests in found.services.iter().filter_map(rests) {
                    let server = rests.plan.server;
                    let loss = server.budget.checked_sub(rests.counted).unwrap();
                    assert_eq!((rests.plan.margin, loss), (Bandwidth::of(loss, server.period).unwrap(), Facts::LOSS));
                    assert!(rests.keeps(rests.counted), "{:?}", rests.plan);
                    let quantum = 100_000u64.max(server.period.ns() / 200);
                    let cheaper = Duration::from_ns(rests.counted.ns() - quantum);
                    // Where the load is what decides, 5 % more than it is the least.
                    let load = 1.05 * rests.question.utilization() * server.period.ns() as f64;
                    let by_load = (cheaper.ns() as f64) < load + 1.0;
                    assert!(by_load || !rests.keeps(cheaper), "{:?}", rests.plan);
                    count(if by_load { "decided by the load" } else { "decided by the points" });
                    let neighbours = found.services.iter().filter(|other| other.core == rests.plan.core).count();
                    let alone = rests.question.server == Law::Deferrable;
                    assert!(!alone || neighbours == 1);
                    count(if alone { "alone" } else { "beside" });
                    count(if neighbours > 1 { "shared" } else { "unshared" });
                    let Promise::Percentiles { points, arrivals, service } = &rests.plan.promise else { panic!() };
                    count(if points.len() > 1 { "several points" } else { "one point" });
                    count(if arrivals.batch > 1 { "batches" } else { "one by one" });
                    count(match service {
                        ServiceTime::Constant { .. } => "constant",
                        ServiceTime::Bounded { .. } => "bounded",
                        ServiceTime::Measured { .. } => "measured",
                    });
                }
            }
            Err(Refusal::DoesNotFit(witness)) => {
                let Cause::Percentiles(miss) = &witness.cause else {
                    count("another does not fit");
                    continue;
                };
                count(match miss.how {
                    Missed::Overload { .. } => "overload",
                    Missed::WholeCore { .. } => "out of reach",
                    Missed::Room { needs: None, .. } => "nearly a whole core",
                    Missed::Room { .. } => "no room",
                });
                for advice in &witness.nearest {
                    count(match advice {
                        NearestFit::Within(_) => "longer latency",
                        NearestFit::Requests(_) => "fewer requests",
                        NearestFit::Execution(_) => "shorter requests",
                        _ => "more cores",
                    });
                    assert_helps(&site, &facts, &witness, advice);
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    println!("{seen:?}");
    for what in [
        "alone",
        "beside",
        "shared",
        "several points",
        "one point",
        "batches",
        "constant",
        "bounded",
        "measured",
        "out of reach",
        "decided by the points",
        "longer latency",
        "fewer requests",
        "shorter requests",
    ] {
        assert!(
            seen.get(what).is_some_and(|n| *n >= if soak() { 3 } else { 2 }),
            "the cases that the law is about must occur: {what}: {seen:?}"
        );
    }
}

/// Response times of server 0, in groups.
struct Fractions {
    limits: Vec<u64>,
    each: u64,
    jobs: u64,
    groups: Vec<Vec<f64>>,
}

impl Observer for Fractions {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if server == 0 {
            if self.jobs.is_multiple_of(self.each) {
                self.groups.push(vec![0.0; self.limits.len()]);
            }
            self.jobs += 1;
            let group = self.groups.last_mut().unwrap();
            for (within, limit) in group.iter_mut().zip(&self.limits) {
                *within += f64::from(u8::from(job.response_ns().unwrap() <= *limit)) / self.each as f64;
            }
        }
        Ok(())
    }
}

/// For each point the part of all jobs within what was predicted, and four standard errors of it.
fn played(entry: &ServicePlan, others: &[&ServicePlan]) -> Vec<(f64, f64)> {
    let Promise::Percentiles { arrivals, .. } = &entry.promise else { panic!() };
    let Certificate::Percentiles { predicted, .. } = &entry.certificate else { panic!() };
    let limits = predicted.iter().map(|point| point.at.ns()).collect();
    let mut seen = Fractions { limits, each: 2_000, jobs: 0, groups: Vec::new() };
    let seconds = 62_000.0 / (arrivals.rate.per_second() * f64::from(arrivals.batch));
    let under = Under::Server(entry.server.kind);
    predict_random(entry, others, under, Duration::from_ms((1000.0 * seconds) as u64), 3, &mut seen).unwrap();
    let groups = &seen.groups[1..30]; // it began idle, and the last is not full
    (0..seen.limits.len())
        .map(|point| {
            let values: Vec<f64> = groups.iter().map(|group| group[point]).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
            (mean, 4.0 * (spread / values.len() as f64).sqrt() + 3e-4)
        })
        .collect()
}

#[test]
fn played_alone_the_percentiles_are_as_predicted_and_beside_others_no_worse() {
    let mut rng = StdRng::seed_from_u64(12);
    let (mut alone, mut beside, mut exact) = (0, 0, 0);
    for _ in 0..if soak() { 30 } else { 20 } {
        let site = random_site(8..20, &mut rng);
        let Ok(found) = plan(&site, &Facts::typical(site.hosts[0].cores.clone())) else { continue };
        for rests in found.services.iter().filter_map(rests) {
            // Only of a queue that forgets soon so short a play tells anything.
            let share = rests.counted.ns() as f64 / rests.plan.server.period.ns() as f64;
            if rests.question.utilization() > 0.8 * share {
                continue;
            }
            let neighbour = |other: &&ServicePlan| other.core == rests.plan.core && other.name != rests.plan.name;
            let others: Vec<&ServicePlan> = found.services.iter().filter(neighbour).collect();
            let Promise::Percentiles { points, .. } = &rests.plan.promise else { panic!() };
            let Certificate::Percentiles { predicted, .. } = &rests.plan.certificate else { panic!() };
            *(if others.is_empty() { &mut alone } else { &mut beside }) += 1;
            for ((point, told), (within, chance)) in points.iter().zip(predicted).zip(played(rests.plan, &others)) {
                let p = point.percentile.percent() / 100.0;
                assert!(within >= p - chance, "{point}: {within} ± {chance}: {:?}", rests.plan);
                // Alone the law is that of the server itself; where many have the same response time it jumps.
                if rests.question.server == Law::Deferrable && told.at < point.within {
                    let close = (told.at.ns() as f64 * 0.98) as u64;
                    let later = rests.later.ns();
                    let at = [Duration::from_ns(close.saturating_sub(later))];
                    let below = response(&rests.question, &at, &[], Precision::Within(1e-3)).unwrap().cdf[0].p;
                    if p - below < 0.02 {
                        exact += 1;
                        assert!(within <= p + chance + (p - below), "{point}: {within} ± {chance}: {:?}", rests.plan);
                    }
                }
            }
        }
    }
    println!("alone {alone}, beside {beside}, compared from above {exact}");
    let fewest = if soak() { 3 } else { 2 };
    assert!(alone >= 8 && beside >= fewest && exact >= 3, "alone {alone}, beside {beside}, exact {exact}");
}

fn told(services: Vec<Service>, cores: &[u32]) -> Result<Plan, Refusal> {
    let site = site(cores, services);
    plan(&site, &Facts::typical(cores.to_vec()))
}

#[test]
fn what_not_even_a_whole_core_keeps_is_refused_with_by_how_much_and_what_would_fit() {
    // M/D/1 at half load.
    let tight = |points: &[&str]| vec![percentiles("search", points, "50/s", 1, constant("10ms"))];
    let Err(Refusal::DoesNotFit(witness)) = told(tight(&["p99=30ms"]), &[1]) else { panic!() };
    let Cause::Percentiles(miss) = &witness.cause else { panic!("{witness}") };
    let Miss { how: Missed::WholeCore { thousandths, at, .. }, .. } = **miss else { panic!("{witness}") };
    // The exact law of M/D/1 (Erlang 1909): Pr{W ≤ t} = (1 − ρ) Σ_{k ≤ t/d} (λ(kd − t))^k / k! · e^{−λ(kd − t)}.
    let law = |t: f64| {
        let terms = (0..=(t / 10.0) as u32).map(|k| {
            let x = 0.05 * (f64::from(k) * 10.0 - t);
            x.powi(k as i32) / (1..=k).map(f64::from).product::<f64>() * (-x).exp()
        });
        0.5 * terms.sum::<f64>()
    };
    let exact = 100.0 * law(30.0 - 0.5 - 10.0);
    assert!((f64::from(thousandths) / 1000.0 - exact).abs() < 0.1, "{thousandths} {exact}");
    assert!((law(at.ns() as f64 / 1e6 - 10.0) - 0.99).abs() < 1e-3, "{at}");
    let text = witness.to_string();
    assert!(text.contains("p99 ≤ 30 ms is out of reach: even a whole core serves only"), "{text}");
    let [NearestFit::Within(longer), NearestFit::Execution(shorter), NearestFit::Requests(_)] = witness.nearest[..]
    else {
        panic!("{text}")
    };
    assert!(shorter < ms("10ms"), "{text}");
    assert!(longer.within > at && longer.within < ms("80ms"), "{text}");
    let fits = told(tight(&[&format!("p99={}", longer.within.to_string().replace(' ', ""))]), &[1]);
    assert!(fits.is_ok(), "{fits:?}");
    // Too many requests.
    let Err(Refusal::DoesNotFit(witness)) =
        told(vec![percentiles("search", &["p90=1s"], "100/s", 1, constant("10ms"))], &[1])
    else {
        panic!()
    };
    assert!(witness.to_string().contains("its requests alone need 100 % of one core"), "{witness}");
}

#[test]
fn it_is_alone_while_there_are_cores_and_shares_where_there_are_none() {
    let both = || {
        vec![
            percentiles("search", &["p90=30ms", "p99=60ms"], "100/s", 1, constant("1ms")),
            supply("other", &["4ms/20ms"], None),
        ]
    };
    let two = told(both(), &[1, 2]).unwrap();
    assert_ne!(two.services[0].core, two.services[1].core);
    let one = told(both(), &[1]).unwrap();
    assert_eq!(one.services[0].core, one.services[1].core);
    let (alone, shared) = (two.services[0].server, one.services[0].server);
    assert!(alone.bandwidth() < shared.bandwidth(), "{alone:?} {shared:?}");
    let text = explain(&two, "search").unwrap() + "\n" + &explain(&one, "search").unwrap();
    golden("percentiles.explain.txt", &text);
}

#[test]
fn a_certificate_that_claims_too_much_is_broken() {
    let services = vec![percentiles("search", &["p90=30ms", "p99=60ms"], "100/s", 1, constant("2ms"))];
    for cores in [&[1][..], &[1, 2]] {
        let mut services = services.clone();
        services.extend((cores.len() == 1).then(|| supply("other", &["2ms/20ms"], None)));
        let good = told(services, cores).unwrap();
        assert!(check_plan(&good).is_ok());
        let broken = |change: &dyn Fn(&mut ServicePlan)| {
            let mut plan = good.clone();
            change(&mut plan.services[0]);
            check_plan(&plan).unwrap_err().to_string()
        };
        let certificate =
            |change: &dyn Fn(&mut Duration, &mut Duration, &mut Vec<giusto_model::PredictedPercentile>)| {
                broken(&|entry| {
                    let Certificate::Percentiles { budget, wait, predicted, .. } = &mut entry.certificate else {
                        panic!()
                    };
                    change(budget, wait, predicted);
                })
            };
        // Sooner by a third, later than promised, a point less, a wait that is none, requests twice as often.
        let sooner = certificate(&|_, _, all| all[1].at = Duration::from_ns(all[1].at.ns() * 2 / 3));
        assert!(sooner.contains("requests within"), "{sooner}");
        let later = certificate(&|_, _, all| all[0].at = ms("31ms"));
        assert!(later.contains("a percentile that was promised"), "{later}");
        assert!(certificate(&|_, _, all| all.truncate(1)).contains("a prediction for each"));
        assert!(certificate(&|_, wait, _| *wait = ms("1ms")).contains("the wait beside others"));
        assert!(certificate(&|budget, _, _| *budget = ms("99s")).contains("to count on"));
        let often = broken(&|entry| {
            let Promise::Percentiles { arrivals, .. } = &mut entry.promise else { panic!() };
            arrivals.rate = "300/s".parse().unwrap();
        });
        assert!(often.contains("requests"), "{often}");
    }
}
