//! How long the plan for another load takes, as the page of a running giusto asks for it ([`Replanner`]).
//!
//! Each site is planned once, then with a service that takes 0.5 to 4 times as long, for services in turn. Exit: 1 where a plan
//! is not the one that is made without anything known ([`plan_on`]).

use giusto_model::{Promise, ServiceTime};
use giusto_planner::{adapted, plan_on, Facts, Replanner};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rustix::time::{clock_gettime, ClockId};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

const TIMES: [f64; 6] = [0.5, 0.71, 1.13, 1.3, 1.52, 4.0];
/// Services, hosts, cores of each, and what is promised.
const SITES: [(usize, usize, u32, &[&str]); 4] = [
    (50, 1, 48, &["percentiles"]),
    (50, 1, 16, &["supply", "deadline", "percentiles", "supply"]),
    (100, 1, 32, &["deadline"]),
    (1000, 1, 300, &["supply"]),
];

fn main() -> ExitCode {
    let kept = SITES.iter().map(|&(services, hosts, cores, kinds)| measured(services, hosts, cores, kinds));
    match kept.fold(true, |all, kept| all & kept) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Whether plans are those that are made with nothing known.
fn measured(services: usize, hosts: usize, cores: u32, kinds: &[&str]) -> bool {
    let site =
        giusto_site::parse("site.yaml", &site(services, hosts, cores, kinds)).unwrap_or_else(|why| panic!("{why}"));
    let host = site.hosts[0].name.clone();
    let facts = Facts { host: Some(host.clone()), ..Facts::typical(site.hosts[0].cores.clone()) };
    let replanner = Replanner::new(facts.clone(), host.clone());
    let (mut times, mut alike) = (Vec::new(), true);
    let ask = |name: &str, factor: f64| {
        let factors = BTreeMap::from([(name.to_string(), factor)]);
        let begin = processor_time();
        let found = adapted(&site, &factors, &factors, &|site| replanner.plan(site)).ok();
        let took = processor_time() - begin;
        (found, factors, took)
    };
    let (_, _, whole) = ask("s0", 1.0);
    let step = (services / 8).max(1);
    for (nth, service) in site.services.iter().step_by(step).enumerate() {
        for factor in TIMES {
            let (found, factors, took) = ask(&service.name, factor);
            times.push((took, factor, service.name.clone(), words(&service.promise)));
            // Without anything known it takes long.
            if nth == 1 && factor < 1.0 {
                let anew = adapted(&site, &factors, &factors, &|site| plan_on(site, &facts, &host)).ok();
                alike &= found == anew;
            }
        }
    }
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (median, (worst, factor, name, promise)) = (times[times.len() / 2].0, &times[times.len() - 1]);
    println!(
        "{services} services on {hosts} hosts ({}): at first {whole:.0} ms; {} questions: median {median:.1} ms, worst \
         {worst:.1} ms of processor time ({name}, {factor} times {promise}){}",
        kinds.join(", "),
        times.len(),
        if alike { "" } else { "; another plan than without anything known" }
    );
    alike
}

fn words(promise: &Promise) -> String {
    match promise {
        Promise::Percentiles { service: ServiceTime::Bounded { mean, .. }, arrivals, .. } => {
            format!("{mean} at {arrivals}")
        }
        _ => "its tasks".into(),
    }
}

fn site(services: usize, hosts: usize, cores: u32, kinds: &[&str]) -> String {
    let rng = &mut StdRng::seed_from_u64(7);
    let mut text = "giusto: 1\nhosts:\n".to_string();
    (0..hosts).for_each(|host| writeln!(text, "  h{host}: {{cores: 0-{}, keep-free: 5%}}", cores - 1).unwrap_or(()));
    text += "services:\n";
    for number in 0..services {
        let promise = match kinds.choose(rng) {
            Some(&"supply") => {
                let period = *[10, 20, 40, 50].choose(rng).unwrap_or(&10);
                format!("promise: {{supply: {}us/{period}ms}}", rng.random_range(50..300) * period)
            }
            Some(&"deadline") => {
                let period = *[10, 20, 50, 100, 200].choose(rng).unwrap_or(&10);
                let tasks = (1..=rng.random_range(1..=3)).map(|nth| {
                    let wcet = rng.random_range(10..60) * period;
                    format!("{{name: t{nth}, wcet: {wcet}us, period: {}ms}}", period * nth)
                });
                format!("promise: every-deadline, scheduler: edf, tasks: [{}]", tasks.collect::<Vec<_>>().join(", "))
            }
            _ => {
                let mean: u32 = *[100, 200, 500, 1000].choose(rng).unwrap_or(&100);
                let rate = rng.random_range(20_000..100_000) / mean;
                format!(
                    "arrivals: {{poisson: {rate}/s}}, execution: {{mean: {mean}us, wcet: {}us}}, \
                     promise: {{p90: {}us, p99: {}us}}",
                    3 * mean,
                    40 * mean,
                    80 * mean
                )
            }
        };
        writeln!(text, "  s{number}: {{start: [sleep, '1'], {promise}}}").unwrap_or(());
    }
    text
}

/// Of this thread, in ms.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
