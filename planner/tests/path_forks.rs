//! Paths with forks: a copy of each message goes through every branch, and it goes on when all are done.

mod common;

use common::{path, plan, sites, stage};
use giusto_model::{
    Duration, Instant, JobRecord, Link, PathPlan, PathSource, PathStage, Plan, ServiceStage, Site, Through, Within,
};
use giusto_planner::{explain, Facts, PathCause, Refusal};
use giusto_simulator::{play_path, Unobserved};
use giusto_verify::check_plan;

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn service(name: &str) -> Through {
    Through::Service(name.into())
}

fn poisson(rate: &str) -> PathSource {
    PathSource::Poisson(rate.parse().unwrap())
}

fn periodic() -> PathSource {
    PathSource::Periodic { period: time("40ms"), jitter: time("2ms"), burst: 2 }
}

/// A camera whose frames go to a detector, and to a tracker and what follows it on another host; both to a controller.
fn site(source: PathSource, promise: &str) -> Site {
    let services = vec![
        stage("camera", "1ms", "edge-1"),
        stage("detector", "2ms", "edge-1"),
        stage("tracker", "1ms", "edge-2"),
        stage("filter", "1ms", "edge-2"),
        stage("controller", "1ms", "edge-1"),
    ];
    let mut site = sites(&[&[0, 1], &[0, 1]], services);
    let fork = Through::All(vec![vec![service("detector")], vec![service("tracker"), service("filter")]]);
    let link = |from: &str, to: &str, worst: &str| Link {
        from: from.into(),
        to: to.into(),
        worst: time(worst),
        measured: None,
    };
    site.paths.links = vec![link("edge-1", "edge-2", "300us"), link("edge-2", "edge-1", "500us")];
    let through = vec![service("camera"), fork, service("controller")];
    site.paths.all = vec![path("braking", source, through, time(promise))];
    site
}

fn told(site: &Site) -> Plan {
    plan(site, &Facts::typical(vec![0, 1])).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn served(path: &mut PathPlan, nth: usize) -> &mut ServiceStage {
    match &mut path.through[nth] {
        PathStage::Service(stage) => stage,
        other => panic!("{other}"),
    }
}

/// The path's ways to fork: in the middle, at its beginning, at its end.
fn forms(source: PathSource) -> [Site; 3] {
    let middle = site(source, "120ms");
    let (mut first, mut last) = (middle.clone(), middle.clone());
    first.paths.all[0].through.remove(0);
    last.paths.all[0].through.pop();
    first.services.retain(|service| service.name != "camera");
    last.services.retain(|service| service.name != "controller");
    [middle, first, last]
}

#[test]
fn a_fork_takes_as_long_as_its_longest_branch() {
    for source in [poisson("40/s"), periodic()] {
        let found = told(&site(source, "120ms"));
        let path = &found.paths[0];
        let branches: Vec<Option<u32>> = path.through.iter().map(PathStage::branch).collect();
        assert_eq!(branches, [None, Some(1), Some(2), Some(2), None]);
        let links: Vec<Option<Duration>> = path.through.iter().map(PathStage::link).collect();
        assert_eq!(links, [None, None, Some(time("300us")), None, Some(time("500us"))]);
        if let Some(point) = path.points.first() {
            let part = |nth: usize| point.parts[nth].within.ns();
            let branch = part(1).max(300_000 + part(2) + part(3));
            assert_eq!(point.at.ns(), part(0) + branch + 500_000 + part(4));
            let late: u32 = point.parts.iter().map(|part| part.beyond_ppb).sum();
            assert!(point.at <= point.within && late <= 10_000_000, "{point:?}");
        }
        let checked = check_plan(&found).unwrap();
        assert_eq!(checked.paths[0].stages, 5);
        let said = explain(&found, "braking").unwrap();
        assert!(said.contains("branch 2, at tracker") && said.contains("to edge-2"), "{said}");
        for host in ["edge-1", "edge-2"] {
            check_plan(&found.on(host).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_path_may_begin_and_end_with_a_fork() {
    for source in [poisson("40/s"), periodic()] {
        for site in forms(source) {
            let found = told(&site);
            check_plan(&found).unwrap();
            let path = &found.paths[0];
            let played = play_path(&found, path, Duration::from_secs(60), 3, &mut Unobserved).unwrap();
            let messages = played.messages.len() as u64;
            assert!(played.stages.iter().all(|stage| stage.jobs() == messages), "{messages}");
        }
    }
}

#[test]
fn what_is_simulated_is_within_what_is_proven() {
    for source in [poisson("20/s"), poisson("60/s"), periodic()] {
        for (nth, site) in forms(source).iter().enumerate() {
            let found = told(site);
            let path = &found.paths[0];
            let proven = path.points.first().map(|one| one.at).or(path.every.as_ref().map(|every| every.at)).unwrap();
            let played = play_path(&found, path, Duration::from_secs(300), 5, &mut Unobserved).unwrap();
            let last = if path.points.is_empty() { 100.0 } else { 99.0 };
            let most = played.whole.percentile(last);
            assert!(most <= proven, "{source}, {nth}: {most} {proven}");
            assert!(most.ns() * 8 > proven.ns(), "{source}, {nth}: {most} {proven}");
        }
    }
}

/// Jobs of a stage, in the order of their arrival there.
struct Ends(Vec<Vec<(Instant, Instant)>>);

impl giusto_simulator::Observer for Ends {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), giusto_simulator::Error> {
        self.0.resize(self.0.len().max(server + 1), Vec::new());
        self.0[server].extend(job.finish.map(|finish| (job.release, finish)));
        Ok(())
    }
}

#[test]
fn a_message_goes_on_when_the_last_of_its_copies_has_come() {
    let found = told(&site(poisson("60/s"), "120ms"));
    let path = &found.paths[0];
    let mut ends = Ends(Vec::new());
    play_path(&found, path, Duration::from_secs(100), 9, &mut ends).unwrap();
    let servers = giusto_simulator::on_its_cores(&found, path);
    let of = |name: &str| {
        let at = servers.iter().position(|one| one.name == name).unwrap();
        let late = match servers[at].certificate {
            giusto_model::Certificate::Stage { latency, .. } => latency.ns(),
            _ => panic!("{name}"),
        };
        (&ends.0[at], late)
    };
    let ((detector, here), (filter, there), (controller, _)) = (of("detector"), of("filter"), of("controller"));
    assert!(controller.len() > 5_000);
    let mut later = [0, 0];
    for (nth, (come, _)) in controller.iter().enumerate() {
        let (one, other) = (detector[nth].1.ns() + here, filter[nth].1.ns() + there);
        assert_eq!(come.ns(), one.max(other) + 500_000, "{nth}");
        later[usize::from(other > one)] += 1;
    }
    assert!(later.iter().all(|count| *count > 100), "{later:?}");
}

#[test]
fn a_fork_behind_a_topic_with_messages_of_others_is_refused() {
    let mut site = site(poisson("40/s"), "400ms");
    site.topics = vec![giusto_model::Topic {
        name: "frames".into(),
        publishers: 100,
        each: "1/s".parse().unwrap(),
        batch: 1,
        brokers: vec!["edge-1".into()],
        service: None,
        promise: vec![Within { percentile: "p99".parse().unwrap(), within: time("60ms") }],
        limit: giusto_model::TopicLimit::Delivery,
        bucket: None,
        measured: Some(giusto_model::BrokerTimes {
            capacity: "12k/s".parse().unwrap(),
            latency: ["p99", "p99.9"].map(|p| Within { percentile: p.parse().unwrap(), within: time("2ms") }).to_vec(),
            worst: Some(time("8ms")),
        }),
    }];
    site.paths.all[0].through.insert(1, Through::Topic("frames".into()));
    match plan(&site, &Facts::typical(vec![0, 1])) {
        Err(Refusal::Path(refusal)) => {
            assert_eq!(refusal.cause, PathCause::Fork { first: "detector".into() });
            assert!(refusal.is_input());
        }
        other => panic!("{other:?}"),
    }
    // Behind the fork it may be.
    let topic = site.paths.all[0].through.remove(1);
    site.paths.all[0].through.insert(2, topic.clone());
    let found = told(&site);
    assert_eq!(found.paths[0].through.len(), 7);
    check_plan(&found).unwrap();
    play_path(&found, &found.paths[0], Duration::from_secs(20), 1, &mut Unobserved).unwrap();
    // And before it, where all messages are of the path.
    site.paths.all[0].through.remove(2);
    site.paths.all[0].through.insert(1, topic);
    site.topics[0].publishers = 40;
    let found = told(&site);
    check_plan(&found).unwrap();
    play_path(&found, &found.paths[0], Duration::from_secs(20), 1, &mut Unobserved).unwrap();
}

#[test]
fn whatever_is_changed_in_a_fork_is_noticed() {
    let good = [told(&site(poisson("40/s"), "120ms")), told(&site(periodic(), "120ms"))];
    let broken = |nth: usize, change: &dyn Fn(&mut PathPlan)| {
        let mut plan = good[nth].clone();
        change(&mut plan.paths[0]);
        check_plan(&plan).map_or_else(|broken| broken.to_string(), |_| "it is not noticed".into())
    };
    let sooner = |path: &mut PathPlan| path.points[0].at = Duration::from_ns(path.points[0].at.ns() - 1);
    for (words, said) in [
        ("two branches or more from 'detector'", broken(0, &|path| served(path, 1).branch = Some(2))),
        ("two branches or more from 'tracker'", broken(0, &|path| served(path, 1).branch = None)),
        ("the time of all its stages", broken(0, &sooner)),
        ("a link to 'tracker'", broken(0, &|path| served(path, 2).link = None)),
        ("a link to 'controller'", broken(0, &|path| served(path, 4).link = None)),
        (
            "two branches or more from 'detector'",
            broken(0, &|path| (2..4).for_each(|nth| served(path, nth).branch = Some(1))),
        ),
        ("growths between 0 and 1", broken(0, &|path| path.points[0].parts[1].growth_ppb = 0)),
        ("late at", broken(0, &|path| path.points[0].parts[2].growth_ppb = 1)),
        ("late at", broken(0, &|path| path.points[0].parts[1].beyond_ppb /= 100)),
        ("the longest time of a message", broken(1, &|path| path.every.as_mut().unwrap().at = time("30ms"))),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(good.iter().all(|plan| check_plan(plan).is_ok()));
}
