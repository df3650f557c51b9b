//! Services that several paths go through: planned together, proven, simulated together.

mod common;

use common::{linked, path, plan, planned, refused_paths, sites};
use giusto_model::{Duration, Path, PathMeet, PathPoint, PathSource, PathStage, Plan, Site, Through};
use giusto_planner::{explain, Facts, PathCause, PathRefusal, Refusal, Unlike};
use giusto_simulator::{play_path, Unobserved};
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

/// Services of a millisecond, each on the host of its number.
fn site(services: &[(&str, usize)], paths: Vec<Path>) -> Site {
    let services: Vec<_> = services.iter().map(|(name, host)| (*name, "1ms", *host)).collect();
    linked(&services, paths)
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn told(site: &Site) -> Plan {
    planned(site, &facts())
}

fn refused(site: &Site) -> PathRefusal {
    refused_paths(site, &facts())
}

/// Two paths that meet at a store.
fn crossing() -> Site {
    let services = [("camera", 1), ("radar", 1), ("store", 2), ("brake", 2), ("log", 1)];
    let braking = line("braking", "40/s", &["camera", "store", "brake"], "150ms");
    let record = line("record", "30/s", &["radar", "store", "log"], "250ms");
    site(&services, vec![braking, record])
}

fn meets(point: &PathPoint) -> Vec<(&str, &str)> {
    point.meets.iter().map(|met| (met.path.as_str(), met.service.as_str())).collect()
}

#[test]
fn paths_that_meet_at_a_service_are_planned_together() {
    let found = told(&crossing());
    let [braking, record] = &found.paths[..] else { panic!("{:?}", found.paths) };
    assert_eq!((braking.name.as_str(), record.name.as_str()), ("braking", "record"));
    let (own, other) = (&braking.points[0], &record.points[0]);
    assert_eq!((meets(own), meets(other)), (vec![("record", "radar")], vec![("braking", "camera")]));
    // At the store there is what the other may be early by: its time at the stage before, and the link.
    let least = own.meets[0].part.within.checked_add(time("300us")).unwrap();
    assert!(own.parts[1].within > least, "{own:?}");
    let late = |point: &PathPoint| {
        let all = point.parts.iter().chain(point.meets.iter().map(|met| &met.part));
        all.map(|part| part.beyond_ppb).sum::<u32>()
    };
    assert!(late(own) <= 10_000_000 && late(other) <= 10_000_000);
    // It serves both.
    let store = found.services.iter().find(|one| one.name == "store").unwrap();
    assert!(store.server.bandwidth().as_f64() > 0.07, "{:?}", store.server);
    let said = explain(&found, "braking").unwrap();
    for words in ["'record'", "record at radar, before"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A host's plan is proven with what it rests on.
    for host in ["edge-1", "edge-2"] {
        let own = found.on(host).unwrap();
        assert_eq!((own.paths.len(), own.paths_here().count()), (2, 2));
        check_plan(&own).unwrap();
    }
    let services = [("camera", 1), ("store", 1), ("radar", 2), ("far", 2)];
    let paths =
        vec![line("near", "20/s", &["camera", "store"], "150ms"), line("all", "20/s", &["radar", "far"], "150ms")];
    let mut apart = site(&services, paths);
    assert_eq!(told(&apart).on("edge-1").unwrap().paths.len(), 1);
    apart.paths.all[1].through.push(Through::Service("store".into()));
    apart.paths.all.push(line("third", "1/s", &["far"], "200ms"));
    let own = told(&apart).on("edge-1").unwrap();
    assert_eq!((own.paths.len(), own.paths_here().count()), (3, 2));
    check_plan(&own).unwrap();
}

#[test]
fn messages_that_come_together_and_stay_cost_nothing_but_their_rate() {
    let services = [("gate", 1), ("left", 1), ("right", 1)];
    let two = |rate: &str| {
        let left = line("left", "30/s", &["gate", "left"], "150ms");
        site(&services, vec![left, line("right", rate, &["gate", "right"], "150ms")])
    };
    let found = told(&two("30/s"));
    assert!(found.paths.iter().all(|path| path.points[0].meets.is_empty()), "{:?}", found.paths);
    let gate = |plan: &Plan| plan.services[0].server.bandwidth();
    assert!(gate(&told(&two("90/s"))) > gate(&found));
    // One that begins at a service which another comes to later.
    let late = site(
        &services[..2],
        vec![line("all", "30/s", &["gate", "left"], "150ms"), line("last", "10/s", &["left"], "150ms")],
    );
    let found = told(&late);
    assert_eq!(meets(&found.paths[1].points[0]), [("all", "gate")]);
    assert!(meets(&found.paths[0].points[0]).is_empty());
}

#[test]
fn what_is_simulated_is_within_what_is_proven() {
    let mut site = crossing();
    // Without the other the store has less to do.
    let alone = {
        let mut site = site.clone();
        site.paths.all.truncate(1);
        site.services.retain(|service| !["radar", "log"].contains(&service.name.as_str()));
        site
    };
    for (rate, within) in [("30/s", "250ms"), ("120/s", "250ms")] {
        site.paths.all[1] = line("record", rate, &["radar", "store", "log"], within);
        let found = told(&site);
        for path in &found.paths {
            let played = play_path(&found, path, Duration::from_secs(300), 5, &mut Unobserved).unwrap();
            let p99 = played.whole.percentile(99.0);
            assert!(p99 <= path.points[0].at, "{}: {p99} {}", path.name, path.points[0].at);
            // Links are on the way, and nothing is lost.
            assert!(played.messages.iter().all(|message| message.response_ns().unwrap() >= 3_300_000));
        }
        // With the same servers, messages of the other path delay it.
        let both = play_path(&found, &found.paths[0], Duration::from_secs(300), 5, &mut Unobserved).unwrap();
        let mut one = told(&alone);
        for own in &mut one.services {
            *own = found.services.iter().find(|other| other.name == own.name).unwrap().clone();
        }
        let without = play_path(&one, &one.paths[0], Duration::from_secs(300), 5, &mut Unobserved).unwrap();
        assert_eq!(both.messages.len(), without.messages.len());
        assert!(both.stages[1].percentile(99.0) > without.stages[1].percentile(99.0));
    }
}

#[test]
fn random_groups_keep_their_promises_and_are_proven_by_other_code() {
    let (mut planned, mut met, mut nested, mut tangled) = (0, 0, 0, 0);
    let mut rng = ChaCha8Rng::seed_from_u64(62);
    for seed in 0..60 {
        let names = ["a", "b", "c", "d", "e"];
        let services: Vec<(&str, usize)> = names.iter().map(|name| (*name, rng.random_range(1..=2))).collect();
        let count = rng.random_range(2..=4);
        let mut paths: Vec<Path> = Vec::new();
        for nth in 0..count {
            // In one order, or now and then in another.
            let mut through: Vec<&str> = names.iter().copied().filter(|_| rng.random_bool(0.55)).collect();
            if through.is_empty() {
                through.push("c");
            }
            if rng.random_bool(0.05) {
                through.reverse();
            }
            let rate = format!("{}/s", rng.random_range(2..=40));
            let within = format!("{}ms", rng.random_range(150..=600) * through.len());
            paths.push(line(&format!("path-{nth}"), &rate, &through, &within));
        }
        let used: Vec<(&str, usize)> = services
            .into_iter()
            .filter(|(name, _)| paths.iter().any(|path| path.services().any(|one| one == *name)))
            .collect();
        let mut site = site(&used, paths);
        let fork = sites(&[&[1, 2, 3], &[1, 2, 3]], Vec::new());
        if site.hosts.len() == 1 {
            site.hosts = fork.hosts;
            site.paths.links.clear();
        }
        let found = match plan(&site, &facts()) {
            Ok(found) => found,
            Err(Refusal::Path(why)) => {
                assert!(matches!(why.cause, PathCause::Tangled { .. }), "{seed}: {why}");
                tangled += 1;
                continue;
            }
            Err(other) => panic!("{seed}: {other}"),
        };
        planned += 1;
        for path in &found.paths {
            let point = &path.points[0];
            met += usize::from(!point.meets.is_empty());
            nested += usize::from(point.meets.iter().any(|one| one.path == path.name));
            let played = play_path(&found, path, Duration::from_secs(60), seed, &mut Unobserved).unwrap();
            let p99 = played.whole.percentile(99.0);
            assert!(p99 <= point.at, "{seed}, {}: {p99} {}", path.name, point.at);
        }
    }
    assert!(planned > 25 && met > 25 && nested > 3 && tangled > 3, "{planned} {met} {nested} {tangled}");
}

#[test]
fn what_cannot_be_planned_together_says_why() {
    let cause = |site: &Site| refused(site).cause;
    let mut periodic = crossing();
    let source = PathSource::Periodic { period: time("50ms"), jitter: Duration::ZERO, burst: 1 };
    periodic.paths.all[1] = path("record", source, periodic.paths.all[1].through.clone(), time("300ms"));
    assert_eq!(cause(&periodic), PathCause::Unlike { unlike: Unlike::Mixed, other: "record".into() });
    let mut fork = crossing();
    let branch = |name: &str| vec![Through::Service(name.into())];
    fork.paths.all[1].through =
        vec![Through::Service("store".into()), Through::All(vec![branch("radar"), branch("log")])];
    told(&fork);
    fork.paths.all.iter_mut().for_each(|one| *one = path(&one.name, source, one.through.clone(), time("300ms")));
    assert_eq!(cause(&fork), PathCause::Unlike { unlike: Unlike::Fork, other: "braking".into() });
    // In the other order, and where they part and meet again.
    let services = [("a", 1), ("b", 1), ("c", 1), ("d", 1)];
    let two = |one: &[&str], other: &[&str]| {
        let used: Vec<(&str, usize)> =
            services.into_iter().filter(|(name, _)| one.contains(name) || other.contains(name)).collect();
        refused(&site(&used, vec![line("one", "10/s", one, "200ms"), line("two", "10/s", other, "200ms")])).to_string()
    };
    assert!(two(&["a", "b"], &["b", "a"]).contains("in another order"));
    assert!(two(&["a", "b", "d"], &["a", "c", "d"]).contains("part behind 'a' and meet again"));
    // Which of them is too slow, and what would fit.
    let mut slow = crossing();
    slow.paths.all[1].points[0].within = time("9ms");
    let why = refused(&slow);
    assert!(why.path == "record" && matches!(why.cause, PathCause::TooSlow { .. }) && !why.nearest.is_empty(), "{why}");
    // Where several are too slow, what is enough for all of them.
    let mut both = crossing();
    both.paths.all.iter_mut().for_each(|path| path.points[0].within = time("9ms"));
    let why = refused(&both);
    let [nearest] = &why.nearest[..] else { panic!("{why}") };
    let longer: Vec<&str> = nearest.split(" and ").collect();
    assert!(longer.len() == 2 && longer[1].ends_with("of 'record'"), "{why}");
    for (path, longer) in both.paths.all.iter_mut().zip(longer) {
        let (_, rest) = longer.split_once("p99: ").unwrap();
        path.points[0].within = time(rest.split_once('}').unwrap().0);
    }
    told(&both);
    let mut busy = crossing();
    busy.paths.all[0].source = PathSource::Poisson("900/s".parse().unwrap());
    busy.paths.all[1].source = PathSource::Poisson("900/s".parse().unwrap());
    assert!(matches!(cause(&busy), PathCause::Overload { .. }), "{:?}", cause(&busy));
}

type Change = dyn Fn(&mut Plan);

#[test]
fn whatever_is_changed_in_a_path_that_shares_services_is_noticed() {
    let good = told(&crossing());
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    fn own(plan: &mut Plan) -> &mut PathPoint {
        &mut plan.paths[0].points[0]
    }
    fn met(plan: &mut Plan) -> &mut PathMeet {
        &mut plan.paths[0].points[0].meets[0]
    }
    let changes: [(&str, &Change); 13] = [
        ("a part for 'radar' of 'record'", &|plan| own(plan).meets.clear()),
        ("a part for 'radar' of 'record'", &|plan| met(plan).path = "braking".into()),
        ("a part for 'radar' of 'record'", &|plan| met(plan).service = "store".into()),
        ("no more", &|plan| {
            let mut again = met(plan).clone();
            again.part.beyond_ppb = 0;
            own(plan).meets.push(again);
        }),
        // Less time, so more are late there; more, so they may be earlier at the store.
        ("late at 'radar'", &|plan| met(plan).part.within = Duration::from_ns(met(plan).part.within.ns() * 9 / 10)),
        ("late at 'store'", &|plan| met(plan).part.within = Duration::from_ns(met(plan).part.within.ns() * 3 / 2)),
        ("billionths beyond p99", &|plan| met(plan).part.beyond_ppb += 10_000_000),
        ("some messages that may be late", &|plan| met(plan).part.beyond_ppb = 0),
        ("growths between 0 and 1", &|plan| met(plan).part.growth_ppb = 0),
        // Fewer are late at the radar, and more come to the store.
        ("late at 'store'", &|plan| met(plan).part.growth_ppb *= 8),
        ("late at 'radar'", &|plan| met(plan).part.growth_ppb /= 3),
        ("late at", &|plan| plan.paths[1].source = PathSource::Poisson("36/s".parse().unwrap())),
        ("messages at random of path", &|plan| {
            let source = PathSource::Periodic { period: time("50ms"), jitter: Duration::ZERO, burst: 1 };
            plan.paths[1].source = source;
        }),
    ];
    for (expected, change) in changes {
        let why = broken(change);
        assert!(why.contains(expected), "{expected}: {why}");
    }
    // The other path is left out, with all that is said of it: its services are of none.
    let why = broken(&|plan| {
        plan.paths.truncate(1);
        own(plan).meets.clear();
    });
    assert!(why.contains("late at 'store'") || why.contains("a path through it"), "{why}");
    assert!(broken(&|plan| plan.paths[1].name = "braking".into()).contains("different names"));
    // The link that it comes by: it may be earlier at the store.
    let far = |plan: &mut Plan, path: usize, link: &str| {
        let PathStage::Service(stage) = &mut plan.paths[path].through[1] else { panic!() };
        let more = time(link).checked_sub(stage.link.unwrap()).unwrap();
        stage.link = Some(time(link));
        plan.paths[path].points[0].at = plan.paths[path].points[0].at.checked_add(more).unwrap();
    };
    let mut roomy = crossing();
    roomy.paths.all[1].points[0].within = time("400ms");
    let mut found = told(&roomy);
    found.paths[1].points[0].within = time("900ms");
    far(&mut found, 1, "40ms");
    let why = check_plan(&found).unwrap_err().to_string();
    assert!(why.contains("path 'braking': messages that are late at 'store'"), "{why}");
    // With more time at the radar, which the store gets, too, as its messages may be earlier, all is proven as before ...
    let mut longer = good.clone();
    let more = |time: &mut Duration| *time = time.checked_add(Duration::from_ms(200)).unwrap();
    more(&mut met(&mut longer).part.within);
    let point = own(&mut longer);
    more(&mut point.parts[1].within);
    more(&mut point.at);
    more(&mut point.within);
    check_plan(&longer).unwrap();
    // ... and enough for more messages there, but not where they meet.
    longer.paths[1].source = PathSource::Poisson("60/s".parse().unwrap());
    let why = check_plan(&longer).unwrap_err().to_string();
    assert!(why.contains("path 'braking': messages that are late at 'store'"), "{why}");
    // Paths that go the same way have the same link there.
    let services = [("gate", 1), ("left", 2), ("right", 2)];
    let one = line("one", "20/s", &["gate", "left"], "200ms");
    let two = line("two", "20/s", &["gate", "left", "right"], "300ms");
    let mut together = told(&site(&services, vec![one, two]));
    for path in &mut together.paths {
        path.points[0].within = time("900ms");
    }
    check_plan(&together).unwrap();
    far(&mut together, 1, "30ms");
    let why = check_plan(&together).unwrap_err().to_string();
    assert!(why.contains("the same link for all paths from 'gate' to 'left'"), "{why}");
    let said = explain(&together, "one").unwrap();
    assert!(said.contains("keep their order over a link"), "{said}");
}

#[test]
fn what_a_host_enforces_is_proven_with_what_it_rests_on() {
    let services = [("camera", 1), ("store", 1), ("radar", 2), ("far", 2), ("x", 2)];
    let near = line("near", "20/s", &["camera", "store"], "150ms");
    let all = line("all", "20/s", &["radar", "far", "store"], "400ms");
    let third = line("third", "1/s", &["x", "far"], "300ms");
    let site = site(&services, vec![near, all, third]);
    for host in ["edge-1", "edge-2"] {
        let own = giusto_planner::plan_on(&site, &facts(), host).unwrap();
        assert_eq!(own.paths.len(), 3, "{host}");
        let (own_claims, all_claims) = (check_plan(&own).unwrap().paths, check_plan(&told(&site)).unwrap().paths);
        for (own, all) in own_claims.iter().zip(&all_claims) {
            assert_eq!((own.compared + own.believed, 0), (all.compared, all.believed), "{host}");
        }
        assert!(own_claims.iter().any(|path| path.believed > 0 && path.compared > 0), "{own_claims:?}");
        assert_eq!(own.paths, told(&site).on(host).unwrap().paths);
    }
}

#[test]
fn so_many_paths_are_planned_together_and_no_more() {
    let star = |count: usize| {
        let names: Vec<[String; 2]> = (0..count).map(|nth| [format!("in-{nth}"), format!("out-{nth}")]).collect();
        let mut services: Vec<(&str, usize)> =
            names.iter().flatten().zip(0..).map(|(name, nth)| (name.as_str(), 1 + nth % 4)).collect();
        services.push(("store", 1));
        let through = |nth: usize| [names[nth][0].as_str(), "store", names[nth][1].as_str()];
        site(&services, (0..count).map(|nth| line(&format!("path-{nth}"), "4/s", &through(nth), "600ms")).collect())
    };
    told(&star(12));
    let why = refused(&star(13));
    assert!(why.to_string().contains("13 together, and at most 12"), "{why}");
}
