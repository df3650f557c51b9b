//! Paths over interfaces: packets whose host processes them within a bound, and buckets that hold all messages.

mod common;

use common::{path, plan, sites, stage};
use giusto_model::{
    Duration, HostNetwork, InterfaceStage, Link, PacketBucket, PacketClass, PacketUnit, PacketWay, PathPlan,
    PathSource, PathStage, Plan, Rate, Service, Site, Through, Tokens, Vif,
};
use giusto_planner::{explain, Facts, PathCause, PathRefusal, Refusal};
use giusto_simulator::{play_path, Unobserved};
use giusto_verify::check_plan;

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn bucket(rate: &str, depth: u64) -> PacketBucket {
    PacketBucket { rate: rate.parse().unwrap(), depth: Tokens::whole(depth), bits: None }
}

fn behind(interface: &str, service: Service) -> Service {
    let vif = Vif {
        name: interface.into(),
        class: PacketClass::High,
        bucket: Some(bucket("5k/s", 64)),
        received: None,
        promise: Vec::new(),
    };
    Service { network: vec![vif], ..service }
}

fn poisson(rate: &str) -> PathSource {
    PathSource::Poisson(rate.parse().unwrap())
}

fn periodic() -> PathSource {
    PathSource::Periodic { period: time("20ms"), jitter: time("2ms"), burst: 1 }
}

/// A camera in a container sends to a controller in one on another host, which sends to an actuator beside it.
fn site(source: PathSource, promise: &str) -> Site {
    let services = vec![
        behind("veth-a", stage("camera", "1ms", "edge-1")),
        behind("veth-b", stage("controller", "1ms", "edge-2")),
        stage("actuator", "1ms", "edge-2"),
    ];
    let mut site = sites(&[&[1], &[1]], services);
    for host in &mut site.hosts {
        host.network = Some(HostNetwork {
            cores: vec![0],
            uplinks: Vec::new(),
            capacity: "65k/s".parse().unwrap(),
            poll: 64,
            count: PacketUnit::Skb,
        });
    }
    let through = ["camera", "controller", "actuator"].map(|name| Through::Service(name.into())).to_vec();
    site.paths.links = vec![Link { from: "edge-1".into(), to: "edge-2".into(), worst: time("300us"), measured: None }];
    site.paths.all = vec![path("braking", source, through, time(promise))];
    site
}

fn told(site: &Site) -> Plan {
    plan(site, &Facts::typical(vec![0, 1])).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refused(site: &Site) -> PathRefusal {
    match plan(site, &Facts::typical(vec![0, 1])) {
        Err(Refusal::Path(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

fn interface(path: &mut PathPlan, nth: usize) -> &mut InterfaceStage {
    match &mut path.through[nth] {
        PathStage::Interface(stage) => stage,
        other => panic!("{other}"),
    }
}

#[test]
fn messages_pass_the_interfaces_of_their_services() {
    let mut found = told(&site(poisson("50/s"), "120ms"));
    let names: Vec<String> = found.paths[0].through.iter().map(PathStage::to_string).collect();
    let all = ["camera", "veth-a (sent)", "veth-b (received)", "controller", "veth-b (sent)", "actuator"];
    assert_eq!(names, all);
    // Over the link comes what the other host receives.
    let links: Vec<Option<Duration>> = found.paths[0].through.iter().map(PathStage::link).collect();
    assert_eq!(links, [None, None, Some(time("300us")), None, None, None]);
    let bounds: Vec<Duration> =
        found.network.iter().flat_map(|network| &network.vifs).map(|vif| vif.bound.unwrap()).collect();
    assert_eq!(bounds.len(), 2);
    let own = interface(&mut found.paths[0], 1).clone();
    assert_eq!((own.way, own.packets, own.bound), (PacketWay::Sent, 2, bounds[0]));
    assert_eq!((own.bucket.rate, own.bucket.depth), ("2500/s".parse().unwrap(), Tokens::whole(16)));
    let point = &found.paths[0].points[0];
    assert_eq!([1, 2, 4].map(|nth| point.parts[nth].within), [bounds[0], bounds[1], bounds[1]]);
    assert!([1, 2, 4].iter().all(|nth| point.parts[*nth].beyond_ppb <= 100_000), "{point:?}");
    assert!([1, 2, 4].iter().all(|nth| point.parts[*nth].growth_ppb == 0), "{point:?}");
    let checked = check_plan(&found).unwrap();
    assert_eq!(checked.paths[0].stages, 6);
    let said = explain(&found, "braking").unwrap();
    for words in
        ["at veth-a (sent)", "2 packets a message, tokens for {rate: 2500/s, depth: 16}", "assumed that its service"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
}

#[test]
fn of_a_periodic_source_no_message_waits_for_tokens() {
    let found = told(&site(periodic(), "100ms"));
    let every = found.paths[0].every.as_ref().unwrap();
    assert_eq!(every.parts.len(), 6);
    assert!(every.parts[1] > Duration::ZERO && every.at <= every.within, "{every:?}");
    check_plan(&found).unwrap();
}

#[test]
fn what_is_simulated_is_within_what_is_proven() {
    for (source, promise) in [(poisson("50/s"), "120ms"), (poisson("80/s"), "120ms"), (periodic(), "100ms")] {
        let found = told(&site(source, promise));
        let path = &found.paths[0];
        let proven = path.points.first().map(|point| point.at).or(path.every.as_ref().map(|every| every.at)).unwrap();
        let played = play_path(&found, path, Duration::from_secs(300), 5, &mut Unobserved).unwrap();
        let last = if path.points.is_empty() { 100.0 } else { 99.0 };
        assert!(played.whole.percentile(last) <= proven, "{source}: {} {proven}", played.whole.percentile(last));
        assert_eq!(played.stages.len(), 6);
        let bounds: u64 = [1, 2, 4].iter().map(|nth| played.stages[*nth].percentile(50.0).ns()).sum();
        let least = Duration::from_ns(3_000_000 + 300_000 + bounds);
        assert!(played.messages.iter().all(|message| message.response_ns().unwrap() >= least.ns()));
    }
}

#[test]
fn what_cannot_be_planned_says_what_to_write() {
    let with = |source: PathSource, change: &dyn Fn(&mut Site)| {
        let mut site = site(source, "120ms");
        change(&mut site);
        site
    };
    let low = refused(&with(poisson("50/s"), &|site| {
        let own = Vif { class: PacketClass::Low, bucket: None, ..site.services[0].network[0].clone() };
        site.services[0].network = vec![own];
    }));
    assert_eq!(low.cause, PathCause::LowClass { interface: "veth-a".into() });
    assert!(low.is_input() && low.to_string().contains("{vif: veth-a, class: high"), "{low}");
    let several = refused(&with(poisson("50/s"), &|site| {
        let own = Vif { name: "veth-c".into(), ..site.services[0].network[0].clone() };
        site.services[0].network.push(own);
    }));
    assert_eq!(several.cause, PathCause::Interfaces { service: "camera".into() });
    // What it asks for is enough, and a packet less of a periodic source is not.
    for (source, exact) in [(poisson("50/s"), false), (periodic(), true)] {
        let with_depth = |depth: u64| {
            with(source, &|site: &mut Site| site.services[1].network[0].received = Some(bucket("5k/s", depth)))
        };
        let shallow = refused(&with_depth(3));
        let PathCause::Burst { interface, way, burst, .. } = &shallow.cause else { panic!("{shallow}") };
        assert_eq!((interface.as_str(), *way), ("veth-b", PacketWay::Received));
        assert!(*burst >= 4 && shallow.to_string().contains(&format!("burst: {burst} or more")), "{shallow}");
        check_plan(&told(&with_depth(*burst))).unwrap();
        assert!(!exact || plan(&with_depth(burst - 1), &Facts::typical(vec![0, 1])).is_err());
    }
    let with_bucket = |own: PacketBucket| with(poisson("50/s"), &|site| site.services[0].network[0].bucket = Some(own));
    let slow = refused(&with_bucket(bucket("100/s", 500)));
    let PathCause::Burst { rate: 112, burst, .. } = &slow.cause else { panic!("{slow}") };
    check_plan(&told(&with_bucket(bucket("112/s", *burst)))).unwrap();
    // As many as come in the promised time are counted on, however many those are.
    let many = with(PathSource::Periodic { period: time("10s"), jitter: Duration::ZERO, burst: 600 }, &|site| {
        site.paths.all[0].every = Some(time("6s"));
        site.services.iter_mut().for_each(|service| {
            let own = |vif: &Vif| Vif { bucket: Some(bucket("5k/s", 20_000)), ..vif.clone() };
            service.network = service.network.iter().map(own).collect();
        });
    });
    check_plan(&told(&many)).unwrap();
    let bits = refused(&with(poisson("50/s"), &|site| {
        let bits = Some("1Mbit/s".parse().unwrap());
        site.services[0].network[0].bucket = Some(PacketBucket { bits, ..bucket("5k/s", 32) });
    }));
    assert!(matches!(bits.cause, PathCause::Burst { .. }), "{bits}");
}

/// What the site does not say of an interface of a stage follows from the paths through it.
#[test]
fn an_interface_has_the_tokens_that_its_paths_need() {
    let left = |mut site: Site| {
        for vif in site.services.iter_mut().flat_map(|service| &mut service.network) {
            vif.bucket = None;
        }
        site
    };
    let own = |plan: &Plan, nth: usize| plan.network[nth].vifs[0].clone();
    for (source, promise) in [(poisson("50/s"), "120ms"), (periodic(), "100ms")] {
        let asked = left(site(source, promise));
        let found = told(&asked);
        let (camera, controller) = (own(&found, 0), own(&found, 1));
        assert_eq!((camera.class, camera.bucket), (PacketClass::High, controller.bucket));
        // 50 messages of two packets each a second, which take 90 %; what comes in the promised time at once, twice.
        let bucket = camera.bucket.unwrap();
        assert_eq!(bucket.rate, "112/s".parse().unwrap());
        assert!((12..400).contains(&bucket.depth.at_once()), "{bucket}");
        let why = camera.reasons.iter().find(|one| one.what == "bucket").unwrap();
        assert!(why.why.contains("messages of its paths"), "{why:?}");
        check_plan(&found).unwrap();
        // As many as it says are enough where the site says so, too.
        let mut written = site(source, promise);
        for vif in written.services.iter_mut().flat_map(|service| &mut service.network) {
            vif.bucket = Some(bucket);
        }
        assert_eq!(told(&written).paths, found.paths);
    }
    // It follows the source: twice as many messages, nearly twice the tokens.
    let more = own(&told(&left(site(poisson("100/s"), "160ms"))), 0).bucket.unwrap();
    assert_eq!(more.rate, "223/s".parse().unwrap());
}

/// In the plan of one host its interface is said to be on the other, where that plan does not look.
fn broken_on_one_host(plan: &Plan) -> String {
    let mut plan = plan.on("edge-1").unwrap();
    let path = &mut plan.paths[0];
    interface(path, 1).link = interface(path, 2).link.take();
    interface(path, 1).on = "edge-2".into();
    check_plan(&plan).unwrap_err().to_string()
}

#[test]
fn whatever_is_changed_in_a_path_over_interfaces_is_noticed() {
    let good = [told(&site(poisson("50/s"), "120ms")), told(&site(periodic(), "100ms"))];
    let broken = |nth: usize, change: &dyn Fn(&mut Plan)| {
        let mut plan = good[nth].clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let on_path = |nth: usize, change: &dyn Fn(&mut PathPlan)| broken(nth, &|plan| change(&mut plan.paths[0]));
    let shorter = |path: &mut PathPlan, by: &str| {
        let less = |time: Duration, by: Duration| Duration::from_ns(time.ns() - by.ns());
        let point = &mut path.points[0];
        (point.parts[1].within, point.at) = (less(point.parts[1].within, time(by)), less(point.at, time(by)));
    };
    let later = |path: &mut PathPlan, by: &str| {
        let every = path.every.as_mut().unwrap();
        (every.parts[1], every.at) = (time(by), every.at.checked_add(time("1us")).unwrap().max(every.at));
    };
    let many: Rate = "2501/s".parse().unwrap();
    for (words, said) in [
        ("tokens of veth-a for all", on_path(0, &|path| interface(path, 1).bucket.depth = Tokens::whole(17))),
        ("tokens of veth-a for all", on_path(0, &|path| interface(path, 1).bucket.rate = many)),
        ("tokens of veth-a for all", on_path(0, &|path| interface(path, 1).packets = 3)),
        ("tokens of veth-a for all", on_path(0, &|path| interface(path, 1).packets = 0)),
        ("the longest wait for processing", on_path(0, &|path| interface(path, 1).bound = time("1us"))),
        ("an interface veth-b of the stage", on_path(0, &|path| interface(path, 1).interface = "veth-b".into())),
        ("an interface veth-b of the stage", on_path(0, &|path| interface(path, 2).way = PacketWay::Sent)),
        ("its way over veth-a", on_path(0, &|path| drop(path.through.remove(1)))),
        ("a link to 'veth-b (received)'", on_path(0, &|path| interface(path, 2).link = None)),
        ("the time of processing alone", on_path(0, &|path| shorter(path, "1us"))),
        ("its way over veth-a", broken_on_one_host(&good[0])),
        ("late at 'veth-a (sent)'", on_path(0, &|path| interface(path, 1).bucket.depth = Tokens::whole(1))),
        ("more tokens than messages", on_path(0, &|path| interface(path, 1).bucket.rate = "40/s".parse().unwrap())),
        ("the longest wait for processing", broken(0, &|plan| plan.network[0].vifs[0].bound = None)),
        ("an interface veth-a of the stage", broken(0, &|plan| plan.network[0].vifs[0].service = "other".into())),
        ("tokens of veth-a that no message", on_path(1, &|path| interface(path, 1).bucket.depth = Tokens::whole(3))),
        ("the longest wait at veth-a", on_path(1, &|path| later(path, "1us"))),
        ("the longest time of a message", on_path(1, &|path| path.every.as_mut().unwrap().at = time("1ms"))),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
