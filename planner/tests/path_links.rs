//! Links that were measured: stages of a path with a law of their own, or their longest time where they cannot be.

mod common;

use common::{path, plan, shorter, sites, stage};
use giusto_model::{
    Duration, Link, LinkStage, LinkTimes, Path, PathPlan, PathSource, PathStage, Plan, ServicePlan, Site, Through,
    Within,
};
use giusto_planner::{explain, Facts, PathCause, Refusal};
use giusto_simulator::{play_path, Unobserved};
use giusto_verify::{check_plan, check_site};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn points(list: &[(&str, &str)]) -> Vec<Within> {
    list.iter().map(|(p, within)| Within { percentile: p.parse().unwrap(), within: time(within) }).collect()
}

fn random(per_s: &str) -> PathSource {
    PathSource::Poisson(per_s.parse().unwrap())
}

/// Of a thousand messages one takes 45 ms, more than is promised of 99 in 100.
fn measured() -> Link {
    Link {
        from: "edge-1".into(),
        to: "edge-2".into(),
        worst: time("45ms"),
        measured: Some(LinkTimes {
            file: "links/lan.csv".into(),
            messages: 10_000,
            latency: points(&[("p50", "200us"), ("p99", "500us"), ("p99.9", "900us")]),
        }),
    }
}

/// A camera on one host, a controller on another.
fn site(source: PathSource, within: &str) -> Site {
    let mut site = sites(&[&[0], &[1]], vec![stage("camera", "1ms", "edge-1"), stage("controller", "2ms", "edge-2")]);
    site.paths.links = vec![measured()];
    let through = ["camera", "controller"].map(|name| Through::Service(name.into())).to_vec();
    site.paths.all = vec![path("braking", source, through, time(within))];
    site
}

fn told(site: &Site) -> Plan {
    plan(site, &Facts::typical(vec![0, 1])).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// In what the plan is not of this site, which is of no file.
fn differs(plan: &Plan, site: &Site) -> Option<String> {
    let why = check_site(plan, site, &[]).unwrap_err().to_string();
    (!why.contains("what the plan was made from")).then_some(why)
}

fn link(path: &mut PathPlan) -> &mut LinkStage {
    match &mut path.through[1] {
        PathStage::Link(stage) => stage,
        other => panic!("{other}"),
    }
}

#[test]
fn a_measured_link_is_a_stage_with_its_own_law() {
    let asked = site(random("50/s"), "40ms");
    let mut found = told(&asked);
    let point = found.paths[0].points[0].clone();
    assert!(point.at <= point.within && point.parts.len() == 3, "{point:?}");
    // Less than the longest time, which is more than all of the promise.
    assert!(point.parts[1].within < time("45ms") && point.parts[1].beyond_ppb > 0, "{point:?}");
    let checked = check_plan(&found).unwrap();
    assert_eq!((checked.paths[0].stages, checked.paths[0].compared), (3, 3));
    assert_eq!(differs(&found, &asked), None);
    let said = explain(&found, "braking").unwrap();
    for words in ["at link to edge-2", "p99.9 900 us, at most 45 ms, as measured", "10000 messages in 'links/lan.csv'"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    assert_eq!(link(&mut found.paths[0]).latency.len(), 3);
    // The site is about another link now.
    let mut other = asked;
    other.paths.links[0].worst = time("46ms");
    assert!(differs(&found, &other).unwrap().contains("what was measured of it"));
    other.paths.links[0] = Link { measured: None, ..measured() };
    assert!(differs(&found, &other).unwrap().contains("what was measured of it"));
    other.paths.links[0] = measured();
    other.paths.links[0].measured.as_mut().unwrap().latency.remove(1);
    assert!(differs(&found, &other).unwrap().contains("what was measured of it"));
}

/// What is reserved, and what the manager takes for the periods.
fn taken(one: &ServicePlan) -> f64 {
    one.server.bandwidth().as_f64() + Facts::PERIOD_COST.ns() as f64 / one.server.period.ns() as f64
}

#[test]
fn what_is_simulated_over_measured_links_is_within_what_is_proven() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut kept, mut laws, mut nearest) = (0, 0, 0.0f64);
    while kept < 12 || laws < 4 {
        let mut asked = site(random(&format!("{}/s", rng.random_range(10..120))), "200ms");
        let mut times: Vec<u64> = (0..3).map(|_| rng.random_range(1..60_000)).collect();
        times.sort_unstable();
        let [usual, late, worst] = times[..] else { unreachable!() };
        let within =
            |percentile: &str, us| Within { percentile: percentile.parse().unwrap(), within: Duration::from_us(us) };
        asked.paths.links[0].worst = Duration::from_us(worst + 2);
        asked.paths.links[0].measured.as_mut().unwrap().latency = vec![within("p90", usual), within("p99", late + 1)];
        let Ok(found) = plan(&asked, &Facts::typical(vec![0, 1])) else { continue };
        let played = play_path(&found, &found.paths[0], Duration::from_secs(200), kept, &mut Unobserved).unwrap();
        let (reached, proven) = (played.whole.percentile(99.0), found.paths[0].points[0].at);
        assert!(reached <= proven, "{reached} above {proven}: {asked:?}");
        nearest = nearest.max(reached.ns() as f64 / proven.ns() as f64);
        kept += 1;
        if let PathStage::Link(_) = found.paths[0].through[1] {
            // Messages are on the link for as long as its law says.
            let longest = played.stages[1].percentile(100.0);
            assert!(longest >= Duration::from_us(late), "{longest}");
            laws += 1;
        }
        let cost = |plan: &Plan| -> f64 { plan.services.iter().map(taken).sum() };
        let worst = Link { measured: None, ..asked.paths.links[0].clone() };
        asked.paths.links[0] = worst;
        if let Ok(other) = plan(&asked, &Facts::typical(vec![0, 1])) {
            assert!(cost(&found) <= cost(&other), "a law makes nothing dearer: {asked:?}");
        }
    }
    println!("{kept} paths, {laws} with the law of the link; the nearest at {nearest:.2} of what is proven");
    assert!(nearest > 0.2, "{nearest}");
}

#[test]
fn where_a_law_is_of_no_use_the_longest_time_counts() {
    let every = |site: &mut Site| {
        let Path { every, points, .. } = &mut site.paths.all[0];
        (*every, *points) = (Some(time("150ms")), Vec::new());
    };
    let mut periodic = site(PathSource::Periodic { period: time("40ms"), jitter: Duration::ZERO, burst: 1 }, "150ms");
    every(&mut periodic);
    let shared = {
        let mut site = site(random("20/s"), "200ms");
        let other = Path { name: "other".into(), ..site.paths.all[0].clone() };
        site.paths.all.push(other);
        site
    };
    let forked = {
        let mut site = site(random("20/s"), "300ms");
        let more = ["left", "right"].map(|name| stage(name, "1ms", "edge-2"));
        site.services.extend(more);
        let branch = |name: &str| vec![Through::Service(name.into())];
        site.paths.all[0].through.insert(1, Through::All(vec![branch("left"), branch("right")]));
        site
    };
    for asked in [periodic, shared, forked] {
        let found = told(&asked);
        assert_eq!(differs(&found, &asked), None);
        for path in &found.paths {
            assert!(!path.through.iter().any(|stage| matches!(stage, PathStage::Link(_))));
            let links: Vec<Duration> = path.through.iter().filter_map(PathStage::link).collect();
            assert!(!links.is_empty() && links.iter().all(|link| *link == time("45ms")), "{links:?}");
            let reason = path.reasons.iter().find(|reason| reason.what == "links").unwrap();
            assert!(reason.why.contains("assumed, not proven"), "{reason:?}");
        }
    }
}

#[test]
fn a_link_too_slow_for_the_promise_is_named() {
    let mut asked = site(random("50/s"), "40ms");
    asked.paths.links[0].measured.as_mut().unwrap().latency = points(&[("p50", "200us"), ("p90", "39ms")]);
    match plan(&asked, &Facts::typical(vec![0, 1])) {
        Err(Refusal::Path(refusal)) => {
            assert!(matches!(&refusal.cause, PathCause::TooSlow { dear, .. } if dear == "link to edge-2"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn whatever_is_changed_of_a_measured_link_is_noticed() {
    let good = told(&site(random("50/s"), "40ms"));
    let on_path = |change: &dyn Fn(&mut PathPlan)| {
        let mut plan = good.clone();
        change(&mut plan.paths[0]);
        check_plan(&plan).unwrap_err().to_string()
    };
    let part = good.paths[0].points[0].parts[1];
    assert!(part.within >= time("500us"), "{part:?}");
    for (words, said) in [
        ("late at 'link to edge-2'", on_path(&|path| shorter(path, 1, part.within))),
        ("late at 'link to edge-2'", on_path(&|path| path.points[0].parts[1].beyond_ppb /= 4)),
        ("late at 'link to edge-2'", on_path(&|path| link(path).worst = time("5s"))),
        ("late at 'link to edge-2'", on_path(&|path| drop(link(path).latency.drain(1..)))),
        ("late at", on_path(&|path| path.points[0].parts[1].growth_ppb /= 200)),
        ("that ascend up to the longest", on_path(&|path| link(path).latency.reverse())),
        ("that ascend up to the longest", on_path(&|path| link(path).worst = time("100us"))),
        ("between stages on both of its hosts", on_path(&|path| link(path).link_from = "edge-2".into())),
        ("a link to 'link to edge-1'", on_path(&|path| link(path).on = "edge-1".into())),
        ("a link to 'controller'", on_path(&|path| drop(path.through.remove(1)))),
        (
            "a link to 'controller'",
            on_path(&|path| {
                let link = path.through.remove(1);
                path.through.push(link);
            }),
        ),
        (
            "no fork beside 'link to edge-2'",
            on_path(&|path| {
                for nth in [0, 2] {
                    let PathStage::Service(stage) = &mut path.through[nth] else { panic!() };
                    stage.branch = Some(1);
                }
            }),
        ),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
