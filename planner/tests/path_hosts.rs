//! Paths over several hosts, each of which plans its part by itself, with what was measured of it: put together, the parts keep
//! what was promised.

mod common;

use common::{linked, path};
use giusto_analysis::path::{within, Flow, Net, Source, Stage, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_model::{Certificate, Duration, ManagerLatency, PathSource, Plan, Site, Through};
use giusto_planner::{plan_on, Facts};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const RATE: &str = "40/s";

/// Two to four services, on one host and the other in turn.
fn random_site(rng: &mut StdRng) -> (Site, Vec<Duration>) {
    let times: Vec<u64> = (0..rng.random_range(2..=4)).map(|_| rng.random_range(300..3_000)).collect();
    let named: Vec<(String, String)> =
        times.iter().enumerate().map(|(nth, us)| (format!("s{nth}"), format!("{us}us"))).collect();
    let services: Vec<(&str, &str, usize)> =
        named.iter().enumerate().map(|(nth, (name, time))| (name.as_str(), time.as_str(), 1 + nth % 2)).collect();
    let through = named.iter().map(|(name, _)| Through::Service(name.clone())).collect();
    let promised = Duration::from_ms(times.len() as u64 * rng.random_range(14..60));
    let site = linked(&services, vec![path("path", PathSource::Poisson(RATE.parse().unwrap()), through, promised)]);
    (site, times.into_iter().map(Duration::from_us).collect())
}

/// Of a host of that name: what was measured of its manager.
fn measured(host: &str, rng: &mut StdRng) -> Facts {
    let typical = Facts::typical(vec![1, 2, 3]);
    let times = |of: Duration, least: f64, most: f64, rng: &mut StdRng| {
        Duration::from_ns((of.ns() as f64 * rng.random_range(least..most)) as u64)
    };
    let manager = ManagerLatency {
        loss: times(typical.loss, 0.2, 2.0, rng),
        late: times(typical.lateness, 0.1, 6.0, rng),
        periods: 1000,
        cost: Some(times(Facts::PERIOD_COST, 0.2, 3.0, rng)),
    };
    Facts { host: Some(host.into()), manager: Some(manager), ..typical }
}

#[test]
fn parts_that_hosts_plan_by_themselves_keep_the_promise_together() {
    let mut rng = StdRng::seed_from_u64(76);
    let (mut kept, mut later, mut shorter, mut refused) = (0, 0, 0, 0);
    for _ in 0..60 {
        let (site, times) = random_site(&mut rng);
        let facts = ["edge-1", "edge-2"].map(|host| measured(host, &mut rng));
        let plans = [0, 1].map(|nth| plan_on(&site, &facts[nth], facts[nth].host.as_deref().unwrap()));
        let [Ok(one), Ok(other)] = &plans else {
            refused += 1;
            continue;
        };
        let stock = Facts::typical(vec![1]).lateness;
        let entry =
            |plan: &Plan, nth: usize| plan.services.iter().find(|entry| entry.name == format!("s{nth}")).cloned();
        let entries: Vec<_> = (0..times.len()).map(|nth| entry([one, other][nth % 2], nth).unwrap()).collect();
        let counted = |entry: &giusto_model::ServicePlan| match entry.certificate {
            Certificate::Stage { budget, latency } => (budget, latency),
            _ => panic!("{entry:?}"),
        };
        // Each counts on the other to be no later than a stock machine.
        let late: Vec<bool> = entries.iter().map(|entry| counted(entry).1 > stock).collect();
        let hosts_late = (0..2).filter(|host| late.iter().skip(*host).step_by(2).any(|late| *late)).count();
        if hosts_late == 2 {
            continue;
        }
        let stage = |entry: &giusto_model::ServicePlan| Stage::Share {
            share: Share { server: Server::Deferrable, budget: counted(entry).0, period: entry.server.period },
            company: true,
        };
        let visits = times.iter().enumerate();
        let visits = visits.map(|(nth, time)| Visit { stage: nth, service: vec![(*time, 1.0)], hold: Duration::ZERO });
        let flow = Flow::line(Source::Poisson(RATE.parse().unwrap()), visits.collect());
        let net = Net { stages: entries.iter().map(stage).collect(), flows: vec![flow] };
        let found = within(&net, 0, 0.01).unwrap().within.ns();
        let more: u64 = entries.iter().map(|entry| counted(entry).1.ns()).sum();
        let links = (times.len() as u64 - 1) * 300_000;
        let promised = site.paths.all[0].points[0].within;
        assert!(found + more + links <= promised.ns(), "{found} + {more} + {links} > {promised}: {entries:#?}");
        kept += 1;
        later += hosts_late;
        shorter += usize::from(entries.iter().any(|entry| entry.server.period < Duration::from_ms(10)));
    }
    println!("{kept} kept, {later} with a host that is later than a stock one, {shorter} with short periods, {refused} refused");
    assert!(kept >= 15 && later >= 5 && shorter >= 3, "{kept} {later} {shorter} {refused}");
}
