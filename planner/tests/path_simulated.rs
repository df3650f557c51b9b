//! Paths as they are planned, in virtual time: beside an oracle, and never above what is proven.

mod common;

use common::{path, plan, sites, stage};
use giusto_model::{Certificate, Duration, Link, PathSource, Plan, Promise, ServiceTime, Site, Through, Within};
use giusto_planner::{Facts, Refusal};
use giusto_simulator::{play_path, PlayedPath, Unobserved};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Two to four stages, each on a host of its own.
fn apart(rng: &mut StdRng) -> Site {
    let count = rng.random_range(2..=4);
    let cores: [&[u32]; 4] = [&[0]; 4];
    let names: Vec<String> = (0..count).map(|nth| format!("s{nth}")).collect();
    let mut site = sites(&cores[..count], vec![]);
    let host = |nth: usize| site.hosts[nth].name.clone();
    let time = |rng: &mut StdRng| Duration::from_us(rng.random_range(300..3_000));
    site.services =
        names.iter().enumerate().map(|(nth, name)| stage(name, &format!("{}ns", time(rng).ns()), &host(nth))).collect();
    let worst = |rng: &mut StdRng| Duration::from_us(rng.random_range(0..2_000));
    site.paths.links =
        (1..count).map(|nth| Link { from: host(nth - 1), to: host(nth), worst: worst(rng), measured: None }).collect();
    let source = match rng.random_bool(0.5) {
        true => PathSource::Poisson(format!("{}/s", rng.random_range(10..120)).parse().unwrap()),
        false => PathSource::Periodic {
            period: Duration::from_ms(rng.random_range(10..50)),
            jitter: Duration::from_ms(rng.random_range(0..20)),
            burst: rng.random_range(1..3),
        },
    };
    let long = Duration::from_ms(rng.random_range(60..400));
    let through = names.into_iter().map(Through::Service).collect();
    site.paths.all = vec![path("path", source, through, long)];
    site
}

/// When jobs of `time` each end that come at these times to a deferrable server alone on its core: by whole periods of what is
/// left of its budget, with no event loop.
fn ends(arrivals: &[u64], time: u64, budget: u64, period: u64) -> Vec<u64> {
    let (mut free, mut nth, mut left) = (0, 0, budget);
    arrivals
        .iter()
        .map(|&came| {
            let (mut now, mut work) = (came.max(free), time);
            while work > 0 {
                if now / period > nth {
                    (nth, left) = (now / period, budget);
                }
                let run = work.min(left).min((nth + 1) * period - now);
                (now, work, left) = (now + run, work - run, left - run);
                if work > 0 && left == 0 {
                    now = (nth + 1) * period;
                }
            }
            free = now;
            now
        })
        .collect()
}

fn by_oracle(plan: &Plan, played: &PlayedPath) -> Vec<u64> {
    let path = &plan.paths[0];
    let mut times: Vec<u64> = played.messages.iter().map(|message| message.release.ns()).collect();
    for stage in &path.through {
        let entry = plan.services.iter().find(|entry| Some(entry.name.as_str()) == stage.service()).unwrap();
        let (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) =
            (&entry.promise, &entry.certificate)
        else {
            panic!("{entry:?}")
        };
        let came: Vec<u64> = times.iter().map(|at| at + stage.link().map_or(0, |link| link.ns())).collect();
        let done = ends(&came, service.samples()[0], budget.ns(), entry.server.period.ns());
        times = done.into_iter().map(|at| at + latency.ns()).collect();
    }
    times
}

#[test]
fn a_path_is_played_as_an_oracle_says_and_is_never_above_what_is_proven() {
    let mut rng = StdRng::seed_from_u64(33);
    let (mut random, mut periodic, mut refused, mut nearest) = (0, 0, 0, 0.0f64);
    while random < 8 || periodic < 8 {
        let site = apart(&mut rng);
        let found = match plan(&site, &Facts::typical(vec![0])) {
            Ok(found) => found,
            Err(Refusal::Path(_)) => {
                refused += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        let path = &found.paths[0];
        let played = play_path(&found, path, Duration::from_secs(40), 7, &mut Unobserved).unwrap();
        assert!(played.messages.len() > 200, "{}", played.messages.len());
        let ends: Vec<u64> = played.messages.iter().map(|message| message.finish.unwrap().ns()).collect();
        assert_eq!(ends, by_oracle(&found, &played), "{site:?}");
        let mut responses: Vec<u64> = played.messages.iter().map(|message| message.response_ns().unwrap()).collect();
        responses.sort_unstable();
        let (reached, proven) = match (&path.points.first(), &path.every) {
            (Some(point), _) => (responses[responses.len() * 99 / 100], point.at),
            (None, Some(every)) => (*responses.last().unwrap(), every.at),
            _ => panic!("{path:?}"),
        };
        assert!(reached <= proven.ns(), "{reached} above {proven}: {site:?}");
        nearest = nearest.max(reached as f64 / proven.ns() as f64);
        match path.every {
            Some(_) => periodic += 1,
            None => random += 1,
        }
        assert_eq!(played.stages.len(), path.through.len());
        assert_eq!(played.whole.jobs() as usize, played.messages.len());
    }
    println!(
        "{random} at random, {periodic} periodic, {refused} refused; the nearest at {nearest:.2} of what is proven"
    );
}

#[test]
fn the_same_seed_gives_the_same_messages() {
    let mut site = apart(&mut StdRng::seed_from_u64(1));
    let times = vec![(Duration::from_us(100), 3), (Duration::from_us(900), 1)];
    for service in &mut site.services {
        let service_time = ServiceTime::Measured { from: "a test".into(), times: times.clone() };
        service.promise = Promise::Stage { service: service_time, counted: None };
    }
    site.paths.all[0].source = PathSource::Poisson("40/s".parse().unwrap());
    site.paths.all[0].every = None;
    site.paths.all[0].points = vec![Within { percentile: "p99".parse().unwrap(), within: Duration::from_ms(300) }];
    let found = plan(&site, &Facts::typical(vec![0])).unwrap();
    let once = |seed| play_path(&found, &found.paths[0], Duration::from_secs(20), seed, &mut Unobserved).unwrap();
    assert_eq!(once(3).messages, once(3).messages);
    assert_ne!(once(3).messages, once(4).messages);
}
