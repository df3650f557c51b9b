//! What it saves to choose the servers of all stages together: beside two rules that divide the time and the messages that may be
//! late among the stages first, and then give each the least server that keeps its part.

mod common;

use common::{path, plan, sites, stage};
use giusto_analysis::response::{Class, Server, Share, Tail};
use giusto_model::{Certificate, Duration, PathSource, Plan, Service, Site, Through};
use giusto_planner::{Facts, Refusal};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// By how much both rules let the rate grow from stage to stage.
const GROWTH: f64 = 0.06;
/// In ms: those from which the planner chooses where the manager enforces and was not measured.
const PERIODS: [u64; 12] = [5, 10, 15, 20, 25, 30, 40, 60, 80, 100, 150, 200];
const LATE: f64 = 0.01;

struct Chain {
    /// Messages in a ns.
    rate: f64,
    /// Of each stage, in ns.
    times: Vec<u64>,
    within: u64,
}

fn random_chain(rng: &mut StdRng) -> Chain {
    let times: Vec<u64> = (0..rng.random_range(2..=5)).map(|_| rng.random_range(200..4_000) * 1_000).collect();
    let longest = *times.iter().max().unwrap() as f64;
    let rate = rng.random_range(0.05..0.3) / longest;
    let within = times.iter().sum::<u64>() * rng.random_range(8..40);
    Chain { rate, times, within }
}

fn site(chain: &Chain) -> Site {
    let cores: [&[u32]; 5] = [&[0]; 5];
    let mut site = sites(&cores[..chain.times.len()], vec![]);
    let one = |(nth, time): (usize, &u64)| stage(&format!("s{nth}"), &format!("{time}ns"), &site.hosts[nth].name);
    let services: Vec<Service> = chain.times.iter().enumerate().map(one).collect();
    let worst = Duration::ZERO;
    site.paths.links = (1..chain.times.len())
        .map(|nth| giusto_model::Link {
            from: site.hosts[nth - 1].name.clone(),
            to: site.hosts[nth].name.clone(),
            worst,
            measured: None,
        })
        .collect();
    let through = services.iter().map(|service| Through::Service(service.name.clone())).collect();
    site.services = services;
    let source = PathSource::Poisson(
        giusto_model::Rate::of((chain.rate * 1e15) as u64, Duration::from_ns(1_000_000_000_000_000)).unwrap(),
    );
    site.paths.all = vec![path("path", source, through, Duration::from_ns(chain.within))];
    site
}

/// Bandwidth of the least server of stage `nth` that has so much of the time, and lets so many be late; `None`: there is none.
fn least(chain: &Chain, plan: &Plan, nth: usize, time: f64, late: f64) -> Option<f64> {
    let entry = &plan.services[nth];
    let Certificate::Stage { budget, latency } = entry.certificate else { panic!("{entry:?}") };
    let loss = entry.server.budget.ns() - budget.ns();
    let rate = chain.rate / (1.0 - GROWTH).powi(nth as i32);
    let each = if nth + 1 < chain.times.len() { rate / GROWTH } else { 0.0 };
    let service = [(Duration::from_ns(chain.times[nth]), 1.0)];
    let mut best: Option<f64> = None;
    for period in PERIODS.map(Duration::from_ms).into_iter().filter(|period| (period.ns() as f64) < time) {
        let step = (period.ns() / 200).max(100_000);
        let kept = |steps: u64| {
            let share = Share { server: Server::Periodic, budget: Duration::from_ns(steps * step), period };
            let Ok(tail) = Tail::new(share, &[Class { rate, service: &service }], &service) else { return false };
            tail.least(1.0, each, late).0 + (period.ns() + latency.ns()) as f64 <= time
        };
        let (mut low, mut high) = (0, (period.ns() - loss) / step);
        if !kept(high) {
            continue;
        }
        while high - low > 1 {
            let middle = (low + high) / 2;
            *(if kept(middle) { &mut high } else { &mut low }) = middle;
        }
        let cost = (high * step + loss) as f64 / period.ns() as f64;
        best = Some(best.map_or(cost, |best| best.min(cost)));
    }
    best
}

/// Each stage has a part of the time and of the messages that may be late.
fn split(chain: &Chain, plan: &Plan, parts: &[f64]) -> Option<f64> {
    let all: f64 = parts.iter().sum();
    let part = |nth: usize| parts[nth] / all;
    (0..parts.len()).map(|nth| least(chain, plan, nth, chain.within as f64 * part(nth), LATE * part(nth))).sum()
}

#[test]
fn together_is_cheaper_than_either_split() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut equal, mut by_load) = (Vec::new(), Vec::new());
    let (mut none, mut refused) = ([0; 2], 0);
    println!("stages  together  equal split  split by load");
    let paths = if std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1") { 80 } else { 8 };
    while equal.len() < paths || by_load.len() < paths {
        let chain = random_chain(&mut rng);
        let found = match plan(&site(&chain), &Facts::typical(vec![0])) {
            Ok(found) => found,
            Err(Refusal::Path(_)) => {
                refused += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        let together: f64 = found.services.iter().map(|entry| entry.server.bandwidth().as_f64()).sum();
        let loads: Vec<f64> = chain.times.iter().map(|time| *time as f64).collect();
        let costs = [vec![1.0; loads.len()], loads].map(|parts| split(&chain, &found, &parts));
        let told = costs.map(|cost| cost.map_or("none fits".into(), |cost| format!("{:.1} %", 100.0 * cost)));
        println!("{:>6}  {:>6.1} %  {:>11}  {:>13}", chain.times.len(), 100.0 * together, told[0], told[1]);
        for (nth, (cost, all)) in costs.into_iter().zip([&mut equal, &mut by_load]).enumerate() {
            match cost {
                Some(cost) => all.push(cost / together),
                None => none[nth] += 1,
            }
        }
    }
    for (name, all, none) in [("equal", &mut equal, none[0]), ("by load", &mut by_load, none[1])] {
        all.sort_by(f64::total_cmp);
        let (median, least) = (all[all.len() / 2], all[0]);
        println!(
            "{name} split: {median:.2} times the bandwidth (median of {}, least {least:.2}), {none} without any",
            all.len()
        );
        // Steps of the search, and rounds that end, may leave a little.
        assert!(least > 0.97 && median > 1.0, "{name}: {all:?}");
    }
    println!("{refused} cannot be kept by any");
}
