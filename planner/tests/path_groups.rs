//! Paths that share services and fork, go over topics, or over interfaces: planned together, proven by other code, simulated
//! together.

mod common;

use common::{alarms, linked, path, plan, planned, refused_paths};
use giusto_model::{
    Duration, HostNetwork, PacketBucket, PacketClass, PacketUnit, Path, PathMeet, PathPart, PathPlan, PathPoint,
    PathSource, PathStage, Plan, Rate, Site, Through, Tokens, Topic, Vif,
};
use giusto_planner::{explain, Facts, PathCause, Refusal};
use giusto_simulator::{play_path, Unobserved};
use giusto_verify::check_plan;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn at(name: &str) -> Through {
    match name.strip_prefix("topic ") {
        Some(topic) => Through::Topic(topic.into()),
        None => Through::Service(name.into()),
    }
}

/// `left + right, far`: branches side by side.
fn step(text: &str) -> Through {
    match text.split_once(" | ") {
        None => at(text),
        Some((left, right)) => {
            let branch = |text: &str| text.split(" + ").map(at).collect();
            Through::All(vec![branch(left), branch(right)])
        }
    }
}

fn line(name: &str, rate: &str, through: &[&str], within: &str) -> Path {
    let through = through.iter().map(|text| step(text)).collect();
    path(name, PathSource::Poisson(rate.parse().unwrap()), through, time(within))
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn behind(site: &mut Site, service: &str, interface: &str, burst: u64) {
    for host in &mut site.hosts {
        host.network.get_or_insert(HostNetwork {
            cores: vec![0],
            uplinks: Vec::new(),
            capacity: "65k/s".parse().unwrap(),
            poll: 64,
            count: PacketUnit::Skb,
        });
    }
    let own = site.services.iter_mut().find(|own| own.name == service).unwrap();
    let bucket = PacketBucket { rate: "5k/s".parse().unwrap(), depth: Tokens::whole(burst), bits: None };
    own.network = vec![Vif {
        name: interface.into(),
        class: PacketClass::High,
        bucket: Some(bucket),
        received: None,
        promise: Vec::new(),
    }];
}

/// A path that forks, and one that goes through one of its branches and the place where they meet.
fn forked() -> Site {
    let services =
        [("camera", "1ms", 1), ("detect", "1ms", 1), ("track", "1ms", 2), ("brake", "1ms", 2), ("radar", "1ms", 2)];
    let braking = line("braking", "30/s", &["camera", "detect | track", "brake"], "400ms");
    linked(&services, vec![braking, line("record", "20/s", &["radar", "track"], "200ms")])
}

/// Two sources that publish to one topic, whose reader passes their messages on to two services.
fn published(each: &str) -> Site {
    let services =
        [("camera", "1ms", 1), ("radar", "1ms", 1), ("reader", "1ms", 2), ("brake", "1ms", 2), ("log", "1ms", 1)];
    let braking = line("braking", "30/s", &["camera", "topic alarms", "reader", "brake"], "700ms");
    let record = line("record", "20/s", &["radar", "topic alarms", "reader", "log"], "700ms");
    let mut site = linked(&services, vec![braking, record]);
    site.topics = vec![alarms(1, each, "60ms")];
    site
}

/// Two paths that meet at a store in a container.
fn contained(burst: u64, within: &str) -> Site {
    let services =
        [("camera", "1ms", 1), ("radar", "1ms", 1), ("store", "1ms", 2), ("brake", "1ms", 2), ("log", "1ms", 1)];
    let braking = line("braking", "30/s", &["camera", "store", "brake"], within);
    let mut site = linked(&services, vec![braking, line("record", "20/s", &["radar", "store", "log"], within)]);
    behind(&mut site, "store", "veth-s", burst);
    site
}

fn meets(point: &PathPoint) -> Vec<(&str, &str)> {
    point.meets.iter().map(|met| (met.path.as_str(), met.service.as_str())).collect()
}

fn names(path: &PathPlan) -> Vec<String> {
    path.through.iter().map(PathStage::to_string).collect()
}

/// Simulated times are no longer than proven ones, and none is lost.
fn played(plan: &Plan, seconds: u64, seed: u64) {
    for path in &plan.paths {
        let played = play_path(plan, path, Duration::from_secs(seconds), seed, &mut Unobserved).unwrap();
        let (p99, at) = (played.whole.percentile(99.0), path.points[0].at);
        assert!(p99 <= at, "seed {seed}, {}: {p99} {at}", path.name);
        assert!(played.messages.iter().all(|message| message.finish.is_some()), "seed {seed}, {}", path.name);
        let stages = played.stages.iter().zip(&path.through);
        let empty = stages.filter(|(stats, _)| stats.jobs() == 0).map(|(_, stage)| stage.to_string());
        assert_eq!(empty.collect::<Vec<_>>(), [""; 0], "seed {seed}, {}", path.name);
    }
}

#[test]
fn a_path_that_forks_shares_a_branch_with_another() {
    let site = forked();
    let found = planned(&site, &facts());
    let [braking, record] = &found.paths[..] else { panic!("{:?}", found.paths) };
    assert_eq!(names(braking), ["camera", "detect", "track", "brake"]);
    // In the branch there is the radar of the other; what the camera sends to the track is early for the other.
    assert_eq!(meets(&braking.points[0]), [("record", "radar")]);
    assert_eq!(meets(&record.points[0]), [("braking", "camera")]);
    let least = braking.points[0].meets[0].part.within;
    assert!(braking.points[0].parts[2].within > least, "{braking:?}");
    played(&found, 300, 5);
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    let said = explain(&found, "braking").unwrap();
    assert!(said.contains("record at radar, before") && said.contains("branch 2, at track"), "{said}");
    // Who was behind a message in a branch may be before it where branches meet.
    let mut tangled = forked();
    tangled.paths.all[1].through.push(at("brake"));
    let why = refused_paths(&tangled, &facts());
    assert!(matches!(why.cause, PathCause::Tangled { .. }), "{why}");
    assert!(why.to_string().contains("part behind 'track' and meet again"), "{why}");
}

#[test]
fn paths_over_one_topic_are_planned_with_what_others_send() {
    let found = planned(&published("80/s"), &facts());
    let [braking, record] = &found.paths[..] else { panic!("{:?}", found.paths) };
    assert_eq!(names(braking), ["camera", "tokens of alarms", "broker of alarms", "reader", "brake"]);
    let others = |path: &PathPlan| match &path.through[1] {
        PathStage::Tokens(stage) => stage.others.unwrap().per_second().round(),
        other => panic!("{other}"),
    };
    assert_eq!((others(braking), others(record)), (50.0, 60.0));
    // The reader serves all 80 a second, and so does what is behind it, but for the messages of the other path.
    let met = meets(&braking.points[0]);
    assert!(met.contains(&("record", "radar")) && met.contains(&("record", "tokens of alarms")), "{met:?}");
    // Those of none of the paths come with it all the way.
    assert!(!met.iter().any(|met| met.0.starts_with("others")), "{met:?}");
    let of = |name: &str| found.services.iter().find(|one| one.name == name).unwrap().server.bandwidth().as_f64();
    let all = ["reader", "brake", "log", "camera", "radar"].map(of);
    assert!(all[0] > 0.08 && all[1] > 0.06 && all[2] > 0.05, "{all:?}");
    played(&found, 300, 7);
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    // No other publisher is there.
    let alone = planned(&published("50/s"), &facts());
    assert!(!meets(&alone.paths[0].points[0]).iter().any(|met| met.0.starts_with("others")), "{:?}", alone.paths);
    played(&alone, 300, 7);
}

#[test]
fn a_topic_that_cannot_be_shared_says_why() {
    let cause = |change: &dyn Fn(&mut Site)| {
        let mut site = published("80/s");
        change(&mut site);
        refused_paths(&site, &facts())
    };
    let few = cause(&|site| site.topics[0].each = "49/s".parse().unwrap());
    assert!(matches!(few.cause, PathCause::Fewer { .. }) && few.to_string().contains("50/s of its messages"), "{few}");
    // Each would get the messages of both.
    let other = cause(&|site| {
        site.paths.all[1].through.remove(2);
    });
    assert!(matches!(other.cause, PathCause::Shared { .. }), "{other}");
    assert!(other.to_string().contains("both go on to the same service"), "{other}");
    let second = cause(&|site| {
        site.topics.push(Topic { name: "more".into(), ..alarms(1, "200/s", "60ms") });
        site.paths.all[0].through.push(at("topic more"));
    });
    assert!(matches!(second.cause, PathCause::Shared { .. }), "{second}");
}

#[test]
fn paths_that_meet_behind_an_interface_count_what_may_come_at_once() {
    let found = planned(&contained(200, "400ms"), &facts());
    let braking = &found.paths[0];
    assert_eq!(names(braking), ["camera", "veth-s (received)", "store", "veth-s (sent)", "brake"]);
    let point = &braking.points[0];
    assert!([1, 3].iter().all(|nth| point.parts[*nth].growth_ppb == 0), "{point:?}");
    // The radar is on the way of what meets it at the interface, and again at the store.
    assert_eq!(meets(point).iter().filter(|met| **met == ("record", "radar")).count(), 3);
    played(&found, 300, 3);
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    let why = refused_paths(&contained(8, "400ms"), &facts());
    let PathCause::Burst { burst, .. } = why.cause else { panic!("{why}") };
    planned(&contained(burst, "400ms"), &facts());
    // Messages of 8 packets in company of those of 2: all count as the largest, so 160 tokens are ten of them and as many for
    // others.
    let unlike = |burst| {
        let mut site = contained(burst, "900ms");
        site.paths.all[1].packets = 8;
        site
    };
    planned(&contained(160, "900ms"), &facts());
    let why = refused_paths(&unlike(160), &facts());
    let PathCause::Burst { burst, .. } = why.cause else { panic!("{why}") };
    let found = planned(&unlike(burst), &facts());
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
}

#[test]
fn random_groups_keep_their_promises_and_are_proven_by_other_code() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut rng = ChaCha8Rng::seed_from_u64(73);
    for seed in 0..60 {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let services: Vec<(&str, &str, usize)> =
            names.iter().map(|name| (*name, "1ms", rng.random_range(1..=2))).collect();
        let shapes: [&[&str]; 9] = [
            &["a", "b | c", "d"],
            &["e", "c", "f"],
            &["e", "b"],
            &["a", "topic alarms", "d", "f"],
            &["e", "topic alarms", "d", "g"],
            &["e", "f | g"],
            &["b + c | e", "d"],
            &["e", "d", "g"],
            &["a", "c"],
        ];
        let mut paths: Vec<Path> = Vec::new();
        for nth in 0..rng.random_range(2..=3) {
            let through = shapes[rng.random_range(0..shapes.len())];
            let rate = format!("{}/s", rng.random_range(4..=30));
            paths.push(line(&format!("path-{nth}"), &rate, through, &format!("{}ms", rng.random_range(600..=1500))));
        }
        let used = |name: &str| paths.iter().any(|path| path.services().any(|one| one == name));
        let used: Vec<(&str, &str, usize)> = services.into_iter().filter(|(name, ..)| used(name)).collect();
        let has = |paths: &[Path], what: &dyn Fn(&Through) -> bool| {
            paths.iter().filter(|path| path.through.iter().any(what)).count()
        };
        let (forks, topics) =
            (has(&paths, &|one| matches!(one, Through::All(_))), has(&paths, &|one| matches!(one, Through::Topic(_))));
        let mut site = linked(&used, paths);
        if site.hosts.len() < 2 {
            continue;
        }
        if topics > 0 {
            site.topics = vec![alarms(1, ["90/s", "140/s"][seed as usize % 2], "60ms")];
        }
        let interface = rng.random_bool(0.3) && site.services.iter().any(|own| own.name == "d");
        if interface {
            behind(&mut site, "d", "veth-d", 400);
        }
        let found = match plan(&site, &facts()) {
            Ok(found) => found,
            Err(Refusal::Path(why)) => {
                let tangled = matches!(why.cause, PathCause::Tangled { .. } | PathCause::Shared { .. });
                assert!(
                    tangled || matches!(why.cause, PathCause::Burst { .. } | PathCause::TooSlow { .. }),
                    "{seed}: {why}"
                );
                *seen.entry(if tangled { "tangled" } else { "does not fit" }).or_default() += 1;
                continue;
            }
            Err(other) => panic!("{seed}: {other}"),
        };
        let met = found.paths.iter().any(|path| !path.points[0].meets.is_empty());
        let mut count = |case: &'static str, is: bool| *seen.entry(case).or_default() += u32::from(is);
        count("planned", true);
        count("met", met);
        count("fork and met", forks > 0 && met);
        count("topic and met", topics > 0 && met);
        count("several over a topic", topics > 1);
        count("interface and met", interface && met);
        played(&found, 60, seed);
    }
    println!("{seen:?}");
    for (case, least) in [
        ("planned", 25),
        ("met", 15),
        ("fork and met", 8),
        ("topic and met", 4),
        ("several over a topic", 2),
        ("interface and met", 3),
        ("tangled", 3),
    ] {
        assert!(seen.get(case).is_some_and(|count| *count >= least), "{case}: {seen:?}");
    }
}

type Change = dyn Fn(&mut Plan);

#[test]
fn whatever_is_changed_in_a_group_is_noticed() {
    let broken = |good: &Plan, change: &Change| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    fn own(plan: &mut Plan) -> &mut PathPoint {
        &mut plan.paths[0].points[0]
    }
    fn met<'a>(plan: &'a mut Plan, path: &str, service: &str) -> &'a mut PathMeet {
        let found = own(plan).meets.iter_mut().find(|met| met.path == path && met.service == service);
        found.unwrap()
    }
    fn longer(part: &mut PathPart, by: u64) {
        part.within = Duration::from_ns(part.within.ns() * by);
    }
    let forks: [(&str, &Change); 5] = [
        ("a part for 'radar' of 'record'", &|plan| own(plan).meets.clear()),
        ("late at 'radar'", &|plan| met(plan, "record", "radar").part.growth_ppb /= 3),
        // It may be earlier where they meet, in the branch.
        ("late at", &|plan| longer(&mut met(plan, "record", "radar").part, 3)),
        ("late at", &|plan| plan.paths[1].source = PathSource::Poisson("40/s".parse().unwrap())),
        ("stay together behind 'track'", &|plan| {
            let brake = plan.paths[0].through[3].clone();
            plan.paths[1].through.push(brake);
            if let PathStage::Service(stage) = &mut plan.paths[1].through[2] {
                stage.link = None;
            }
            // Its way there, once more, of as many as may be late in all.
            let again = own(plan).meets[0].clone();
            (own(plan).percentile, own(plan).meets) = ("p90".parse().unwrap(), vec![again.clone(), again]);
        }),
    ];
    let good = planned(&forked(), &facts());
    for (words, change) in forks {
        let why = broken(&good, change);
        assert!(why.contains(words), "{words}: {why}");
    }
    fn others(plan: &mut Plan, path: usize) -> &mut Option<Rate> {
        match &mut plan.paths[path].through[1] {
            PathStage::Tokens(stage) => &mut stage.others,
            other => panic!("{other}"),
        }
    }
    let topics: [(&str, &Change); 7] = [
        ("all messages of 'alarms'", &|plan| *others(plan, 0) = None),
        ("all messages of 'alarms'", &|plan| *others(plan, 1) = "30/s".parse().ok()),
        ("more tokens than messages", &|plan| *others(plan, 0) = "58/s".parse().ok()),
        ("a part for 'radar' of 'record'", &|plan| met(plan, "record", "radar").path = "others of alarms".into()),
        ("a part for 'tokens of alarms'", &|plan| met(plan, "record", "tokens of alarms").service = "reader".into()),
        ("late at 'tokens of alarms'", &|plan| met(plan, "record", "tokens of alarms").part.growth_ppb /= 9),
        ("one service behind topic 'alarms'", &|plan| {
            plan.paths[1].through.remove(3);
            plan.paths[1].points[0].parts.remove(3);
        }),
    ];
    let good = planned(&published("80/s"), &facts());
    for (words, change) in topics {
        let why = broken(&good, change);
        assert!(why.contains(words), "{words}: {why}");
    }
    let bucket = |depth: u64| {
        move |plan: &mut Plan| {
            for path in &mut plan.paths {
                for stage in &mut path.through {
                    if let PathStage::Interface(stage) = stage {
                        stage.bucket.depth = Tokens::whole(depth);
                    }
                }
            }
        }
    };
    let good = planned(&contained(200, "400ms"), &facts());
    for (words, change) in [
        ("tokens of veth-s for all", &bucket(101) as &Change),
        ("late at 'veth-s (received) of edge-2'", &bucket(4)),
        ("growths between 0 and 1", &|plan| own(plan).parts[1].growth_ppb = 1000),
        ("the time of all its stages", &|plan| longer(&mut own(plan).parts[1], 2)),
    ] {
        let why = broken(&good, change);
        assert!(why.contains(words), "{words}: {why}");
    }
}
