//! Sites built by hand.

use giusto_model::{Adopt, Bandwidth, Cap, Duration, Host, Load, Origin, Promise, Release, Service, Site, Task};

pub(crate) fn of(text: &str) -> Bandwidth {
    text.parse().unwrap()
}

pub(crate) fn task(notation: &str, copies: u32) -> Task {
    Task { name: "work".into(), copies, ..notation.parse().unwrap() }
}

pub(crate) fn as_if_alone(name: &str, tasks: Vec<Task>, margin: &str) -> Service {
    let origin = Origin::Start(vec!["work".into()]);
    Service {
        name: name.into(),
        origin,
        tasks,
        promise: Promise::AsIfAlone,
        margin: of(margin),
        server: None,
        cap: Cap::Hard,
        load: None,
    }
}

pub(crate) fn leftovers(name: &str, at_least: &str) -> Service {
    Service {
        name: name.into(),
        origin: Origin::Adopt(Adopt::Cgroup(format!("{name}.slice"))),
        tasks: Vec::new(),
        promise: Promise::Leftovers { at_least: of(at_least), at_most: None },
        margin: Bandwidth::ZERO,
        server: None,
        cap: Cap::Hard,
        load: None,
    }
}

pub(crate) fn site(cores: &[u32], services: Vec<Service>) -> Site {
    Site { host: Host { name: "edge-1".into(), cores: cores.to_vec(), keep_free: of("5%") }, services }
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
