//! Sites built by hand.

use giusto_model::{
    Adopt, Arrivals, Bandwidth, BrokerTimes, Duration, GuestScheduler, Host, Link, Load, Origin, PathSource, Plan,
    Promise, Release, ServerKind, Service, ServiceTime, Site, Task, Through, Topic, TopicLimit, Unused, Within,
};
use giusto_planner::{Facts, PathRefusal, Refusal};
use giusto_verify::{check_plan, read_plan};
use std::path::Path;

/// Plans, and has whatever is planned proven once more from its file.
pub(crate) fn plan(site: &Site, facts: &Facts) -> Result<Plan, Refusal> {
    let plan = giusto_planner::plan(site, facts)?;
    let read = read_plan(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(read, plan);
    check_plan(&read).unwrap_or_else(|broken| panic!("{broken}: {read:#?}"));
    Ok(plan)
}

pub(crate) fn of(text: &str) -> Bandwidth {
    text.parse().unwrap()
}

pub(crate) fn task(notation: &str, copies: u32) -> Task {
    Task { name: "work".into(), copies, ..notation.parse().unwrap() }
}

pub(crate) fn as_if_alone(name: &str, tasks: Vec<Task>, margin: &str) -> Service {
    let origin = Origin::Start(vec!["work".into()]);
    Service { tasks, margin: of(margin), ..Service::plain(name.into(), origin, Promise::AsIfAlone) }
}

/// A service with a supply for each virtual CPU; one interface: for all its threads.
#[allow(dead_code)]
pub(crate) fn supply(name: &str, interfaces: &[&str], server: Option<ServerKind>) -> Service {
    let interfaces = interfaces.iter().map(|interface| interface.parse().unwrap()).collect();
    Service { promise: Promise::Supply(interfaces), margin: Bandwidth::ZERO, server, ..as_if_alone(name, vec![], "0%") }
}

/// A service that is promised every deadline; started, on one virtual CPU.
#[allow(dead_code)]
pub(crate) fn every_deadline(name: &str, tasks: Vec<Task>, scheduler: GuestScheduler) -> Service {
    let promise = Promise::EveryDeadline { scheduler, vcpus: 1, placed: Vec::new() };
    Service { promise, ..as_if_alone(name, tasks, "0%") }
}

/// A service that is promised percentiles such as `p90=30ms`.
#[allow(dead_code)]
pub(crate) fn percentiles(name: &str, points: &[&str], rate: &str, batch: u32, service: ServiceTime) -> Service {
    let point = |text: &&str| {
        let (percentile, within) = text.split_once('=').unwrap();
        Within { percentile: percentile.parse().unwrap(), within: within.parse().unwrap() }
    };
    let points = points.iter().map(point).collect();
    let promise = Promise::Percentiles { points, arrivals: Arrivals { rate: rate.parse().unwrap(), batch }, service };
    Service { promise, ..as_if_alone(name, vec![], "0%") }
}

/// A service of paths on `edge-N`, which takes so long for each message.
#[allow(dead_code)]
pub(crate) fn stage(name: &str, execution: &str, on: &str) -> Service {
    let promise = Promise::Stage { service: ServiceTime::Constant { time: execution.parse().unwrap() }, counted: None };
    Service { promise, on: Some(on.into()), ..as_if_alone(name, vec![], "0%") }
}

/// A path that was promised a time of 99 in 100 messages that come at random, or of every one that comes in periods.
#[allow(dead_code)]
pub(crate) fn path(name: &str, source: PathSource, through: Vec<Through>, within: Duration) -> giusto_model::Path {
    let p99 = Within { percentile: "p99".parse().unwrap(), within };
    let (points, every) = match source {
        PathSource::Poisson(_) => (vec![p99], None),
        PathSource::Periodic { .. } => (Vec::new(), Some(within)),
    };
    giusto_model::Path { points, every, ..giusto_model::Path::plain(name.into(), source, through) }
}

pub(crate) fn leftovers(name: &str, at_least: &str) -> Service {
    let promise = Promise::Leftovers { at_least: of(at_least), at_most: None };
    Service::plain(name.into(), Origin::Adopt(Adopt::Cgroup(format!("{name}.slice"))), promise)
}

pub(crate) fn site(cores: &[u32], services: Vec<Service>) -> Site {
    sites(&[cores], services)
}

/// A site with hosts `edge-1`, `edge-2`, … of these cores.
pub(crate) fn sites(cores: &[&[u32]], services: Vec<Service>) -> Site {
    let host = |(cores, number): (&&[u32], u32)| Host {
        name: format!("edge-{number}"),
        cores: cores.to_vec(),
        keep_free: of("5%"),
        network: None,
        unused: Unused::Leave,
        xen: None,
    };
    Site {
        hosts: cores.iter().zip(1..).map(host).collect(),
        services,
        topics: Vec::new(),
        coordination: None,
        paths: Default::default(),
        modes: None,
    }
}

/// Services by their times, each on the host of its number, between whose cores links are; two cores a host.
#[allow(dead_code)]
pub(crate) fn linked(services: &[(&str, &str, usize)], paths: Vec<giusto_model::Path>) -> Site {
    let stages = services.iter().map(|(name, time, host)| stage(name, time, &format!("edge-{host}"))).collect();
    let hosts = services.iter().map(|(.., host)| *host).max().unwrap();
    let cores: Vec<&[u32]> = (0..hosts).map(|_| &[1, 2, 3][..]).collect();
    let mut site = sites(&cores, stages);
    let pairs = (1..=hosts).flat_map(|from| (1..=hosts).map(move |to| (from, to))).filter(|(from, to)| from != to);
    site.paths.links.extend(pairs.map(|(from, to)| Link {
        from: format!("edge-{from}"),
        to: format!("edge-{to}"),
        worst: Duration::from_us(300),
        measured: None,
    }));
    site.paths.all = paths;
    site
}

/// The plan of a site that fits.
#[allow(dead_code)]
pub(crate) fn planned(site: &Site, facts: &Facts) -> Plan {
    plan(site, facts).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Why paths of a site do not fit.
#[allow(dead_code)]
pub(crate) fn refused_paths(site: &Site, facts: &Facts) -> PathRefusal {
    match plan(site, facts) {
        Err(Refusal::Path(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

/// A Redis with six clients, and a batch.
#[allow(dead_code)] // each test file is a crate of its own
pub(crate) fn walk() -> Site {
    let hset = Task { name: "hset".into(), ..task("50us/1ms", 6) };
    assert_eq!((hset.release, hset.deadline), (Release::Sporadic, Duration::from_ms(1)));
    let mut cache = as_if_alone("cache", vec![hset], "5%");
    cache.origin = Origin::Start(["redis-server", "--port", "7001", "--save", ""].map(String::from).to_vec());
    cache.load = Some(Load::Redis { address: "127.0.0.1:7001".parse().unwrap(), fields: 10, value: 64 });
    site(&[1], vec![cache, leftovers("batch", "10%")])
}

/// Compares with a file, or rewrites it when GIUSTO_REWRITE is set (then look at the difference).
#[allow(dead_code)]
pub(crate) fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GIUSTO_REWRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "{name}: set GIUSTO_REWRITE=1 if the change is meant");
}

/// Less time for a part of a path, and with it for the whole.
#[allow(dead_code)]
pub(crate) fn shorter(path: &mut giusto_model::PathPlan, nth: usize, by: Duration) {
    let point = &mut path.points[0];
    let less = |time: Duration| Duration::from_ns(time.ns().saturating_sub(by.ns()));
    let before = point.parts[nth].within;
    point.parts[nth].within = less(before);
    point.at = Duration::from_ns(point.at.ns() - (before.ns() - point.parts[nth].within.ns()));
}

/// A topic on the second host: so many publishers, and a p99 that it is promised.
#[allow(dead_code)]
pub(crate) fn alarms(publishers: u32, each: &str, within: &str) -> Topic {
    let time = |text: &str| text.parse::<Duration>().unwrap();
    let points = |list: &[(&str, &str)]| -> Vec<Within> {
        list.iter().map(|(p, within)| Within { percentile: p.parse().unwrap(), within: time(within) }).collect()
    };
    Topic {
        name: "alarms".into(),
        publishers,
        each: each.parse().unwrap(),
        batch: 1,
        brokers: vec!["edge-2".into()],
        service: None,
        promise: points(&[("p99", within)]),
        limit: TopicLimit::Delivery,
        bucket: None,
        measured: Some(BrokerTimes {
            capacity: "12k/s".parse().unwrap(),
            latency: points(&[("p99", "2ms"), ("p99.9", "3ms")]),
            worst: Some(time("8ms")),
        }),
    }
}
