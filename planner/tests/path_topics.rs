//! Paths through topics: messages that wait for tokens beside others, and go over a broker that was measured.

mod common;

use common::{alarms, path, plan, shorter, sites, stage};
use giusto_model::{
    BrokerStage, Duration, HostNetwork, JobRecord, Link, PacketClass, PacketUnit, Path, PathPlan, PathSource,
    PathStage, Plan, Site, Through, TokensStage, Vif, Within,
};
use giusto_planner::{explain, Facts, PathCause, PathRefusal, Refusal};
use giusto_simulator::{on_its_cores, play_path, Error, Observer, Unobserved};
use giusto_verify::{check_plan, check_site};

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn points(list: &[(&str, &str)]) -> Vec<Within> {
    list.iter().map(|(p, within)| Within { percentile: p.parse().unwrap(), within: time(within) }).collect()
}

/// A camera on one host, a topic whose broker is on another, a controller there.
fn site(promise: &[(&str, &str)]) -> Site {
    let mut site = sites(&[&[0], &[1]], vec![stage("camera", "1ms", "edge-1"), stage("controller", "2ms", "edge-2")]);
    site.topics = vec![alarms(100, "1/s", "9ms")];
    let service = |name: &str| Through::Service(name.into());
    site.paths.links = vec![Link { from: "edge-1".into(), to: "edge-2".into(), worst: time("300us"), measured: None }];
    let (through, source) =
        (["camera", "controller"].map(service).to_vec(), PathSource::Poisson("50/s".parse().unwrap()));
    let mut path = Path { points: points(promise), ..path("braking", source, through, Duration::ZERO) };
    path.through.insert(1, Through::Topic("alarms".into()));
    site.paths.all = vec![path];
    site
}

fn told(site: &Site) -> Plan {
    plan(site, &Facts::typical(vec![0, 1])).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn tokens(path: &mut PathPlan) -> &mut TokensStage {
    match &mut path.through[1] {
        PathStage::Tokens(stage) => stage,
        other => panic!("{other}"),
    }
}

fn broker(path: &mut PathPlan) -> &mut BrokerStage {
    match &mut path.through[2] {
        PathStage::Broker(stage) => stage,
        other => panic!("{other}"),
    }
}

#[test]
fn a_topic_is_its_bucket_and_its_broker_and_all_of_it_is_checked() {
    let site = site(&[("p99", "150ms"), ("p99.9", "250ms")]);
    let mut found = told(&site);
    let path = &mut found.paths[0];
    assert_eq!(path.through.len(), 4);
    assert_eq!(path.through.iter().map(PathStage::on).collect::<Vec<_>>(), ["edge-1", "edge-2", "edge-2", "edge-2"]);
    assert_eq!(path.through[1].link(), Some(time("300us")));
    assert_eq!(tokens(path).others, Some("50/s".parse().unwrap()));
    let planned = &found.topics[0];
    // One token of the bucket may be on its way with a message.
    let free = planned.bucket.depth.as_f64() - 1.0;
    assert_eq!(tokens(&mut found.paths[0]).bucket.depth.as_f64(), free);
    for point in &found.paths[0].points {
        assert!(point.at <= point.within && point.parts.len() == 4, "{point:?}");
    }
    let checked = check_plan(&found).unwrap();
    assert_eq!(checked.paths[0].stages, 4);
    assert_eq!(checked.paths[0].compared, 8);
    let said = explain(&found, "braking").unwrap();
    for words in
        ["at tokens of alarms", "beside 50/s of others", "at broker of alarms", "at most 8 ms", "assumed, not proven"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
}

/// The broker is a service of the site, of which a message takes 500 us.
fn with_broker(promise: &[(&str, &str)]) -> Site {
    let mut site = site(promise);
    site.services.push(stage("broker", "500us", "edge-2"));
    site.topics[0].measured = None;
    site.topics[0].service = Some("broker".into());
    site.paths.all[0].through.insert(2, Through::Service("broker".into()));
    site
}

/// Whether nothing differs from the site but the machine and the file, of which there are none.
fn of_site(plan: &Plan, site: &Site) -> Result<(), String> {
    let why = check_site(plan, site, b"").unwrap_err().to_string();
    if why.contains("what the plan was made from") {
        return Ok(());
    }
    Err(why)
}

#[test]
fn a_broker_that_is_a_service_gets_a_share_for_all_messages_of_its_topic() {
    let site = with_broker(&[("p99", "150ms")]);
    let found = told(&site);
    check_plan(&found).unwrap();
    of_site(&found, &site).unwrap();
    let path = &found.paths[0];
    let names: Vec<String> = path.through.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["camera", "tokens of alarms", "broker", "controller"]);
    let said = explain(&found, "braking").unwrap();
    assert!(said.contains("at broker") && said.contains("assumed to take its messages one after the other"), "{said}");
    let share = |plan: &Plan, name: &str| {
        let own = plan.services.iter().find(|one| one.name == name).unwrap();
        own.server.budget.ns() as f64 / own.server.period.ns() as f64
    };
    // 500 us for each of 100 messages a second are 5 %; of ten times as many a half, and those behind it get more, too.
    assert!((0.05..0.3).contains(&share(&found, "broker")), "{}", share(&found, "broker"));
    let mut more = with_broker(&[("p99", "150ms")]);
    more.services[1] = stage("controller", "100us", "edge-2");
    more.topics[0].publishers = 1000;
    let more = told(&more);
    assert!(share(&more, "broker") > 0.5, "{}", share(&more, "broker"));
    for host in ["edge-1", "edge-2"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    let servers = on_its_cores(&found, path);
    let own = servers.iter().position(|one| one.name == "broker").unwrap();
    let mut served = Served { server: own, jobs: 0 };
    let played = play_path(&found, path, Duration::from_secs(200), 1, &mut served).unwrap();
    assert!(played.whole.percentile(99.0) <= path.points[0].at, "{:?}", path.points[0]);
    let all = served.jobs as f64 / played.messages.len() as f64;
    assert!((all / 2.0 - 1.0).abs() < 0.1, "others come to the broker as well: {all}");
}

/// What the broker receives over an interface of its own, and sends, are all messages of the topic, and no number is written.
#[test]
fn an_interface_of_the_broker_follows_from_its_topic() {
    let with = |publishers: u32| {
        let mut site = with_broker(&[("p99", "300ms")]);
        site.topics[0].publishers = publishers;
        let (cores, capacity) = (vec![0], "65k/s".parse().unwrap());
        let network = HostNetwork { cores, uplinks: Vec::new(), capacity, poll: 64, count: PacketUnit::Skb };
        site.hosts[1].network = Some(network);
        let vif =
            Vif { name: "veth-b".into(), class: PacketClass::High, bucket: None, received: None, promise: Vec::new() };
        site.services[2].network = vec![vif];
        let found = told(&site);
        check_plan(&found).unwrap();
        check_plan(&found.on("edge-2").unwrap()).unwrap();
        of_site(&found, &site).unwrap();
        let names: Vec<String> = found.paths[0].through.iter().map(ToString::to_string).collect();
        let own = ["camera", "tokens of alarms", "veth-b (received)", "broker", "veth-b (sent)", "controller"];
        assert_eq!(names, own);
        match &found.paths[0].through[4] {
            PathStage::Interface(stage) => stage.bucket.rate.per_ns() * 1e9,
            other => panic!("{other}"),
        }
    };
    // A tenth more than all of its messages.
    let (few, more) = (with(100), with(200));
    assert!(few > 110.0 && few < 115.0 && more > 220.0 && more < 230.0, "{few} {more}");
}

#[test]
fn paths_over_one_broker_go_on_from_it_to_one_service() {
    let mut site = with_broker(&[("p99", "400ms")]);
    site.services.extend([stage("radar", "1ms", "edge-1"), stage("log", "1ms", "edge-2")]);
    let mut other = site.paths.all[0].clone();
    other.name = "record".into();
    other.source = PathSource::Poisson("20/s".parse().unwrap());
    let to = |other: &mut Path, names: &[&str]| {
        other.through.truncate(3);
        other.through[0] = Through::Service("radar".into());
        other.through.extend(names.iter().map(|name| Through::Service((*name).into())));
    };
    to(&mut other, &["controller", "log"]);
    site.paths.all.push(other);
    let found = told(&site);
    check_plan(&found).unwrap();
    of_site(&found, &site).unwrap();
    // A channel of the topic gets all messages: those of 'braking' would come to the log, of which its plan knows nothing.
    to(&mut site.paths.all[1], &["log"]);
    let refused = plan(&site, &Facts::typical(vec![0, 1])).unwrap_err().to_string();
    assert!(refused.contains("its topic alarms is one of path"), "{refused}");
}

#[test]
fn whatever_is_changed_of_a_broker_that_is_a_service_is_noticed() {
    let site = with_broker(&[("p99", "150ms")]);
    let good = told(&site);
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).map_err(|why| why.to_string()).and_then(|_| of_site(&plan, &site)).unwrap_err()
    };
    let late = |name: &str| format!("late at '{name}'");
    let server = |plan: &mut Plan| plan.services.iter_mut().find(|one| one.name == "broker").unwrap().server.budget;
    for (words, said) in [
        ("the broker of 'alarms' after", broken(&|plan| plan.topics[0].service = None)),
        ("the broker of 'alarms' after", broken(&|plan| plan.topics[0].service = Some("controller".into()))),
        ("the broker of 'alarms' after", broken(&|plan| drop(plan.paths[0].through.remove(2)))),
        ("the broker of 'alarms' after", broken(&|plan| plan.paths[0].through.swap(2, 3))),
        (
            "one topic of the broker on 'edge-2'",
            broken(&|plan| {
                let more = giusto_model::TopicPlan { name: "more".into(), ..plan.topics[0].clone() };
                plan.topics.push(giusto_model::TopicPlan { service: None, ..more });
            }),
        ),
        (&late("broker"), broken(&|plan| shorter(&mut plan.paths[0], 2, time("15ms")))),
        ("all messages of 'alarms'", broken(&|plan| tokens(&mut plan.paths[0]).others = None)),
        (
            "broker",
            broken(&|plan| {
                let less = server(plan).ns() / 2;
                let own = plan.services.iter_mut().find(|one| one.name == "broker").unwrap();
                own.server.budget = Duration::from_ns(less);
            }),
        ),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut other = site.clone();
    other.topics[0].service = None;
    let said = of_site(&good, &other).unwrap_err();
    assert!(said.contains("the service that is its broker"), "{said}");
}

#[test]
fn a_path_may_begin_and_end_with_a_topic() {
    for at in [0, 2] {
        let mut site = site(&[("p99", "150ms")]);
        site.services.iter_mut().for_each(|service| service.on = Some("edge-2".into()));
        let topic = site.paths.all[0].through.remove(1);
        site.paths.all[0].through.insert(at, topic);
        let found = told(&site);
        check_plan(&found).unwrap();
        let played = play_path(&found, &found.paths[0], Duration::from_secs(60), 1, &mut Unobserved).unwrap();
        let own = found.paths[0].through.iter().position(|stage| matches!(stage, PathStage::Broker(_))).unwrap();
        assert_eq!(played.stages[own].jobs() as usize, played.messages.len());
        // The broker alone takes 2 ms of nearly all.
        assert!(played.messages.iter().all(|message| message.response_ns().unwrap() >= 5_000_000));
    }
}

/// Counts what a server did.
struct Served {
    server: usize,
    jobs: u64,
}

impl Observer for Served {
    fn job(&mut self, server: usize, _: &JobRecord) -> Result<(), Error> {
        self.jobs += u64::from(server == self.server);
        Ok(())
    }
}

#[test]
fn what_is_simulated_is_within_what_is_proven() {
    for (seed, others, execution) in [(1, "1/s", "1ms"), (2, "2/s", "3ms"), (3, "0.6/s", "100us")] {
        let mut site = site(&[("p99", "200ms")]);
        site.topics[0].each = others.parse().unwrap();
        site.services[0] = stage("camera", execution, "edge-1");
        let found = told(&site);
        let point = &found.paths[0].points[0];
        let servers = on_its_cores(&found, &found.paths[0]);
        let controller = servers.iter().position(|one| one.name == "controller").unwrap();
        let mut served = Served { server: controller, jobs: 0 };
        let played = play_path(&found, &found.paths[0], Duration::from_secs(400), seed, &mut served).unwrap();
        let p99 = played.whole.percentile(99.0);
        assert!(p99 <= point.at, "{p99} {point:?}");
        // Behind the topic all its messages are served.
        let (own, all) = (played.messages.len() as f64, served.jobs as f64);
        let wanted = found.topics[0].arrivals.rate.per_ns() * found.paths[0].source.per_ns().recip();
        assert!((all / own / wanted - 1.0).abs() < 0.1, "{all} {own}");
        let least = time(execution).ns() + 2_000_000 + 2_000_000 + 300_000;
        assert!(played.messages.iter().all(|message| message.response_ns().unwrap() >= least));
    }
}

#[test]
fn what_cannot_be_planned_says_what_to_write() {
    let refused = |change: &dyn Fn(&mut Site)| -> PathRefusal {
        let mut site = site(&[("p99", "150ms")]);
        change(&mut site);
        match plan(&site, &Facts::typical(vec![0, 1])) {
            Err(Refusal::Path(refusal)) => *refusal,
            other => panic!("{other:?}"),
        }
    };
    let unmeasured = refused(&|site| site.topics[0].measured.as_mut().unwrap().worst = None);
    assert_eq!(unmeasured.cause, PathCause::Unmeasured { topic: "alarms".into() });
    assert!(unmeasured.is_input() && unmeasured.to_string().contains("worst: 20ms"), "{unmeasured}");
    let unknown = refused(&|site| site.topics[0].measured = None);
    assert_eq!(unknown.cause, unmeasured.cause);
    let several = refused(&|site| {
        site.topics[0].brokers.push("edge-1".into());
        site.topics[0].measured.as_mut().unwrap().capacity = "60/s".parse().unwrap();
    });
    assert_eq!(several.cause, PathCause::Brokers { topic: "alarms".into(), brokers: 2 });
    let batches = refused(&|site| site.topics[0].batch = 2);
    assert_eq!(batches.cause, PathCause::Batches { topic: "alarms".into() });
    let fewer = refused(&|site| site.topics[0].publishers = 4);
    assert!(matches!(fewer.cause, PathCause::Fewer { .. }) && fewer.to_string().contains("send 4/s"), "{fewer}");
    let shared = refused(&|site| {
        let mut other = site.paths.all[0].clone();
        other.name = "other".into();
        other.through.truncate(2);
        site.paths.all.push(other);
    });
    assert!(shared.to_string().contains("its topic alarms is one of path 'other'"), "{shared}");
    let short = refused(&|site| site.paths.all[0].points = points(&[("p99.99", "9ms")]));
    assert!(matches!(short.cause, PathCause::TooSlow { .. }) && !short.nearest.is_empty(), "{short}");
    let shallow = refused(&|site| {
        let bucket = giusto_model::Bucket { rate: "110/s".parse().unwrap(), depth: giusto_model::Tokens::whole(8) };
        site.topics[0].bucket = Some(bucket);
        site.topics[0].promise = points(&[("p99", "400ms")]);
    });
    let told = shallow.to_string();
    assert!(matches!(&shallow.cause, PathCause::TooSlow { dear, .. } if dear == "tokens of alarms"), "{told}");
    assert!(told.contains("no bucket of its own for topic 'alarms', or with promise: "), "{told}");
}

#[test]
fn whatever_is_changed_in_a_path_through_a_topic_is_noticed() {
    let good = told(&site(&[("p99", "150ms")]));
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let on_path = |change: &dyn Fn(&mut PathPlan)| broken(&|plan| change(&mut plan.paths[0]));
    for (words, said) in [
        ("tokens of 'alarms' that its", on_path(&|path| tokens(path).bucket.depth = giusto_model::Tokens::whole(500))),
        ("all messages of 'alarms'", on_path(&|path| tokens(path).others = None)),
        ("the topic of its stage", broken(&|plan| plan.topics.clear())),
        ("what was measured of the broker", on_path(&|path| broker(path).worst = time("5ms"))),
        ("what was measured of the broker", on_path(&|path| broker(path).latency[0].within = time("1ms"))),
        ("the broker of 'alarms' after", on_path(&|path| drop(path.through.remove(2)))),
        ("a link to 'broker of alarms'", on_path(&|path| drop(path.through.remove(1)))),
        ("late at 'tokens of alarms'", on_path(&|path| tokens(path).bucket.depth = giusto_model::Tokens::whole(1))),
        ("late at 'broker of alarms'", on_path(&|path| shorter(path, 2, time("7ms")))),
        ("late at 'controller'", on_path(&|path| shorter(path, 3, time("15ms")))),
        ("late at", on_path(&|path| path.points[0].parts[1].growth_ppb /= 200)),
        (
            "each service and topic once",
            on_path(&|path| {
                let again = TokensStage { link: None, ..tokens(path).clone() };
                path.through.push(PathStage::Tokens(again));
            }),
        ),
        ("a link to 'tokens of alarms'", on_path(&|path| tokens(path).link = None)),
        ("late at", on_path(&|path| path.source = PathSource::Poisson("70/s".parse().unwrap()))),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
