//! Paths in periods that share services: planned together, and no message takes longer (docs/decisions/0062).

mod common;

use common::{linked, path, plan, planned};
use giusto_model::{Certificate, Duration, Path, PathSource, Plan, Site, Through};
use giusto_planner::{explain, Facts, PathCause, Refusal};
use giusto_simulator::{play_path, Unobserved};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn periodic(period: u64, jitter: u64, burst: u32) -> PathSource {
    PathSource::Periodic { period: Duration::from_ms(period), jitter: Duration::from_ms(jitter), burst }
}

fn line(name: &str, source: PathSource, through: &[&str], within: &str) -> Path {
    let through = through.iter().map(|name| Through::Service(name.to_string())).collect();
    path(name, source, through, time(within))
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn told(site: &Site) -> Plan {
    planned(site, &facts())
}

/// Two paths that meet at a store.
fn crossing() -> Site {
    let services =
        [("camera", "1ms", 1), ("radar", "2ms", 1), ("store", "1ms", 2), ("brake", "1ms", 2), ("log", "1ms", 1)];
    let braking = line("braking", periodic(20, 2, 1), &["camera", "store", "brake"], "120ms");
    let record = line("record", periodic(50, 5, 2), &["radar", "store", "log"], "250ms");
    linked(&services, vec![braking, record])
}

#[test]
fn paths_in_periods_that_meet_at_a_service_are_planned_together() {
    let found = told(&crossing());
    for path in &found.paths {
        let every = path.every.as_ref().unwrap();
        assert_eq!(every.parts.len(), 3);
        assert!(every.at <= every.within && path.points.is_empty(), "{every:?}");
        // At the store messages of the other are waited for.
        assert!(every.parts[1] > Duration::ZERO);
    }
    let checked = check_plan(&found).unwrap();
    assert!(checked.paths.iter().all(|path| path.compared > 0 && path.believed == 0), "{checked:?}");
    assert!(explain(&found, "braking").unwrap().contains("'record'"));
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    // More messages of the other cost the one something.
    let mut more = crossing();
    more.paths.all[1].source = periodic(50, 5, 8);
    more.paths.all[1].every = Some(time("500ms"));
    let store = |plan: &Plan| plan.services.iter().find(|one| one.name == "store").unwrap().server.bandwidth();
    assert!(store(&told(&more)) > store(&found));
    // Without it, less is needed.
    let mut alone = crossing();
    alone.paths.all.truncate(1);
    alone.services.retain(|one| !["radar", "log"].contains(&one.name.as_str()));
    assert!(store(&told(&alone)) < store(&found));
    let mut short = crossing();
    short.paths.all[0].every = Some(time("8ms"));
    match plan(&short, &facts()) {
        Err(Refusal::Path(why)) => assert!(matches!(why.cause, PathCause::TooSlow { .. }), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_message_of_random_groups_takes_longer_than_is_proven() {
    let mut rng = StdRng::seed_from_u64(62);
    let (mut planned, mut refused, mut nearest) = (0, 0, 0.0f64);
    for _ in 0..40 {
        let names = ["a", "b", "c", "d", "e"];
        let times: Vec<String> = names.iter().map(|_| format!("{}us", rng.random_range(300..3000))).collect();
        let services: Vec<(&str, &str, usize)> =
            names.iter().zip(&times).map(|(name, time)| (*name, time.as_str(), rng.random_range(1..=2))).collect();
        let mut paths = Vec::new();
        for nth in 0..rng.random_range(2..=3) {
            // In one order, so that no circle comes of it.
            let through: Vec<&str> = names.iter().copied().filter(|_| rng.random_bool(0.6)).collect();
            if through.is_empty() {
                continue;
            }
            let source = periodic(rng.random_range(15..80), rng.random_range(0..20), rng.random_range(1..=2));
            paths.push(line(&format!("path{nth}"), source, &through, "400ms"));
        }
        let mut site = linked(&services, paths);
        let used = |name: &str| site.paths.through(name).next().is_some();
        let unused: Vec<String> = site.services.iter().map(|one| one.name.clone()).filter(|name| !used(name)).collect();
        site.services.retain(|one| !unused.contains(&one.name));
        if site.paths.all.is_empty() {
            continue;
        }
        let Ok(found) = plan(&site, &facts()) else {
            refused += 1;
            continue;
        };
        planned += 1;
        for path in &found.paths {
            let proven = path.every.as_ref().unwrap().at;
            for seed in 0..6 {
                let played = play_path(&found, path, Duration::from_secs(20), seed, &mut Unobserved).unwrap();
                let longest = played.messages.iter().map(|job| job.response_ns().unwrap()).max().unwrap();
                assert!(longest <= proven.ns(), "{}: {longest} beyond {proven}: {site:?}", path.name);
                nearest = nearest.max(longest as f64 / proven.ns() as f64);
            }
        }
    }
    println!("{planned} groups planned, {refused} refused; the nearest at {nearest:.2} of what is proven");
    assert!(planned > 25 && nearest > 0.3, "{planned} {nearest}");
}

#[test]
fn whatever_is_changed_of_them_is_noticed() {
    let good = told(&crossing());
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let shorter = |nth: usize, percent: u64| {
        broken(&|plan| {
            let every = plan.paths[nth].every.as_mut().unwrap();
            every.at = Duration::from_ns(every.at.ns() * percent / 100);
        })
    };
    let weaker = |name: &str| {
        broken(&|plan| {
            let own = plan.services.iter_mut().find(|one| one.name == name).unwrap();
            let Certificate::Stage { latency, .. } = &mut own.certificate else { panic!() };
            *latency = time("100ms");
        })
    };
    let longest = "the longest time of a message";
    for (words, said) in [
        (longest, shorter(0, 70)),
        // Were it not for messages of the other.
        (longest, shorter(0, 92)),
        (longest, shorter(1, 70)),
        (longest, weaker("store")),
        (longest, weaker("radar")),
        (longest, broken(&|plan| plan.paths[1].source = periodic(50, 60, 2))),
        (longest, broken(&|plan| plan.paths[0].source = periodic(20, 90, 1))),
        ("the time that was promised", broken(&|plan| plan.paths[0].every.as_mut().unwrap().within = time("10ms"))),
        ("a part for each stage", broken(&|plan| plan.paths[0].every.as_mut().unwrap().parts.truncate(2))),
        (
            "and messages in periods, of path 'record'",
            broken(&|plan| plan.paths[1].source = PathSource::Poisson("9/s".parse().unwrap())),
        ),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
