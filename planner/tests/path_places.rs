//! Stages that the site leaves to the planner are on the hosts with which their paths take the least bandwidth.

mod common;

use common::{linked, path, plan, planned, refused_paths, supply};
use giusto_model::{Duration, Path, PathSource, Plan, Promise, Site, Through};
use giusto_planner::{plan_on, Facts, PathCause, Refusal};
use giusto_verify::check_plan;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn line(name: &str, rate: &str, through: &[&str], within: &str) -> Path {
    let through = through.iter().map(|name| Through::Service(name.to_string())).collect();
    path(name, PathSource::Poisson(rate.parse().unwrap()), through, time(within))
}

/// A camera on the first of three hosts and a controller on the second; two stages between them are left to the planner.
fn site(worst: &str) -> Site {
    let services =
        [("camera", "1ms", 1), ("detect", "1ms", 1), ("track", "2ms", 1), ("controller", "1ms", 2), ("far", "1ms", 3)];
    let paths = vec![
        line("braking", "40/s", &["camera", "detect", "track", "controller"], "150ms"),
        line("other", "10/s", &["far"], "100ms"),
    ];
    let mut site = linked(&services, paths);
    site.paths.links.iter_mut().for_each(|link| link.worst = time(worst));
    site.services[1].on = None;
    site.services[2].on = None;
    site
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn cost(plan: &Plan) -> f64 {
    let counted = |promise: &Promise| match promise {
        Promise::Stage { counted: Some(counted), .. } => counted.bandwidth().as_f64(),
        _ => 0.0,
    };
    plan.services.iter().map(|one| counted(&one.promise)).sum()
}

/// The least that any place of the stages takes that has room, planned one by one.
fn least(site: &Site, open: &[usize], hosts: usize) -> Option<f64> {
    let count = hosts.pow(open.len() as u32);
    let one = |number: usize| {
        let mut site = site.clone();
        for (place, nth) in open.iter().enumerate() {
            site.services[*nth].on = Some(format!("edge-{}", 1 + number / hosts.pow(place as u32) % hosts));
        }
        plan(&site, &facts()).ok().map(|plan| cost(&plan))
    };
    (0..count).filter_map(one).reduce(f64::min)
}

fn on<'a>(plan: &'a Plan, name: &str) -> &'a str {
    &plan.services.iter().find(|one| one.name == name).unwrap().on
}

#[test]
fn stages_are_where_their_path_takes_the_least() {
    // One long link has to be crossed, and no more than that.
    let far = planned(&site("20ms"), &facts());
    let places = ["detect", "track"].map(|name| on(&far, name));
    assert!(matches!(places, ["edge-1" | "edge-2", "edge-2"] | ["edge-1", "edge-1"]), "{places:?}");
    assert_eq!(Some(cost(&far)), least(&site("20ms"), &[1, 2], 3));
    let track = far.services.iter().find(|one| one.name == "track").unwrap();
    let why = track.reasons.iter().find(|one| one.what == "host").unwrap();
    assert!(why.why.contains("least bandwidth, of 9 places"), "{why:?}");
    // Machines that plan for themselves choose alike.
    for host in ["edge-1", "edge-2", "edge-3"] {
        let own = plan_on(&site("20ms"), &facts(), host).unwrap();
        check_plan(&own).unwrap();
        assert!(own.services.iter().all(|one| one.on == on(&far, &one.name) && one.on == host), "{host}");
    }
}

#[test]
fn where_a_host_has_no_room_another_is_chosen() {
    let mut full = site("20ms");
    let supplies = (1..=3).flat_map(|core| [1, 2].map(|host| (core, host)));
    full.services.extend(supplies.map(|(core, host)| giusto_model::Service {
        on: Some(format!("edge-{host}")),
        ..supply(&format!("full-{host}-{core}"), &["5ms/10ms"], None)
    }));
    let found = planned(&full, &facts());
    assert_eq!(Some(cost(&found)), least(&full, &[1, 2], 3));
    // With room nowhere, and without links, it says why not.
    let mut nowhere = site("20ms");
    nowhere.services.extend((0..9).map(|nth| supply(&format!("full-{nth}"), &["8500us/10ms"], None)));
    assert!(plan(&nowhere, &facts()).is_err());
    let mut apart = site("20ms");
    apart.paths.links.clear();
    let why = refused_paths(&apart, &facts());
    assert!(matches!(why.cause, PathCause::NoLink { .. }), "{why}");
    let mut slow = site("200ms");
    slow.paths.all[0].points[0].within = time("180ms");
    let why = refused_paths(&slow, &facts());
    assert!(matches!(why.cause, PathCause::TooSlow { .. }) && !why.nearest.is_empty(), "{why}");
}

#[test]
fn of_few_places_none_is_better_and_of_many_hardly_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(74);
    let (mut told, mut refused) = (0, 0);
    for seed in 0..8 {
        let names = ["a", "b", "c", "d", "e"];
        let services = names.map(|name| (name, ["1ms", "2ms"][rng.random_range(0..2)], rng.random_range(1..=2)));
        let mut site = linked(&services, Vec::new());
        if site.hosts.len() < 2 {
            continue;
        }
        site.paths.all = vec![
            line("one", "20/s", &["a", "b", "c"], &format!("{}ms", rng.random_range(60..200))),
            line("two", "10/s", &["d", "b", "e"], "300ms"),
        ];
        site.paths.links.iter_mut().for_each(|link| link.worst = Duration::from_ms(rng.random_range(1..30)));
        let open: Vec<usize> = (0..5).filter(|_| rng.random_bool(0.5)).collect();
        open.iter().for_each(|nth| site.services[*nth].on = None);
        match (plan(&site, &facts()), least(&site, &open, 2)) {
            (Ok(found), Some(least)) => {
                assert!(cost(&found) <= least * (1.0 + 1e-9), "{seed}: {} {least}", cost(&found));
                told += 1;
            }
            (Err(Refusal::Path(_)), None) => refused += 1,
            (found, least) => panic!("{seed}: {found:?} {least:?}"),
        }
    }
    println!("{told} planned, {refused} refused");
    assert!(told >= 4);
}
