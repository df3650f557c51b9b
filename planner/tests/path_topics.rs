//! Paths through topics: messages that wait for tokens beside others, and go over a broker that was measured.

mod common;

use common::{alarms, path, plan, shorter, sites, stage};
use giusto_model::{
    BrokerStage, Duration, JobRecord, Link, Path, PathPlan, PathSource, PathStage, Plan, Site, Through, TokensStage,
    Within,
};
use giusto_planner::{explain, Facts, PathCause, PathRefusal, Refusal};
use giusto_simulator::{on_its_cores, play_path, Error, Observer, Unobserved};
use giusto_verify::check_plan;

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
