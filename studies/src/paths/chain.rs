//! Random paths: services one after the other, each on the only core of a host of its own, so that nothing but what they need
//! says what they get.

use giusto_model::{
    Bandwidth, Duration, Host, Link, Origin, Path, PathSource, Promise, Rate, Service, ServiceTime, Site, Through,
    Unused, Within,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Services, and how messages come.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Of the first service.
    pub(crate) source: PathSource,
    /// By service.
    pub(crate) times: Vec<ServiceTime>,
}

/// Of a thousand messages, those of a service with two times that take the longer one, and how many times as long it is.
const LONGER: (u32, u32) = (200, 3);

/// What a message takes on average, in ns.
pub(crate) fn mean(time: &ServiceTime) -> f64 {
    time.bound().iter().map(|(time, p)| time.ns() as f64 * p).sum()
}

impl Chain {
    /// So many services, each with one time or two, of which the busiest needs `percent` of a core. Messages come at random.
    pub(crate) fn random(services: usize, percent: u64, rng: &mut ChaCha8Rng) -> Chain {
        let longest = rng.random_range(500..4_000u64);
        let busiest = rng.random_range(0..services);
        let time = |nth: usize| {
            let us = if nth == busiest { longest } else { rng.random_range(longest * 3 / 10..=longest) };
            if rng.random_bool(0.5) {
                return ServiceTime::Constant { time: Duration::from_us(us) };
            }
            let (few, more) = LONGER;
            let shorter = us * 1_000 / u64::from(1_000 + few * (more - 1));
            let times = [(shorter, 1_000 - few), (shorter * u64::from(more), few)];
            let times = times.map(|(us, count)| (Duration::from_us(us), count)).to_vec();
            ServiceTime::Measured { from: "drawn".into(), times }
        };
        let times: Vec<ServiceTime> = (0..services).map(time).collect();
        let busiest = times.iter().map(mean).fold(0.0, f64::max);
        let per_second = percent as f64 / 100.0 / busiest * 1e9;
        let rate = Rate::of((per_second * 1_000.0) as u64, Duration::from_secs(1_000));
        Chain { source: PathSource::Poisson(rate.expect("more than one in a thousand seconds")), times }
    }

    /// Messages a ns; 0 where they come in periods.
    pub(crate) fn rate(&self) -> f64 {
        match self.source {
            PathSource::Poisson(rate) => rate.per_ns(),
            PathSource::Periodic { .. } => 0.0,
        }
    }

    /// What a message takes on average of all services together.
    pub(crate) fn work(&self) -> Duration {
        Duration::from_ns(self.times.iter().map(mean).sum::<f64>() as u64)
    }

    /// The site in which it is promised these percentiles.
    pub(crate) fn site(&self, points: Vec<Within>) -> Site {
        let name = |nth: usize| format!("s{nth}");
        let host = |nth: usize| Host {
            name: format!("h{nth}"),
            cores: vec![0],
            keep_free: Bandwidth::new(1, 20).unwrap_or(Bandwidth::ZERO),
            network: None,
            unused: Unused::Leave,
            xen: None,
        };
        let service = |(nth, time): (usize, &ServiceTime)| {
            let promise = Promise::Stage { service: time.clone(), counted: None };
            let plain = Service::plain(name(nth), Origin::Start(vec!["work".into()]), promise);
            Service { margin: Bandwidth::ZERO, on: Some(host(nth).name), ..plain }
        };
        let link =
            |nth: usize| Link { from: host(nth - 1).name, to: host(nth).name, worst: Duration::ZERO, measured: None };
        let through = (0..self.times.len()).map(|nth| Through::Service(name(nth))).collect();
        let path = Path { points, ..Path::plain("path".into(), self.source, through) };
        let mut site = Site {
            hosts: (0..self.times.len()).map(host).collect(),
            services: self.times.iter().enumerate().map(service).collect(),
            topics: Vec::new(),
            coordination: None,
            paths: Default::default(),
            modes: None,
        };
        site.paths.links = (1..self.times.len()).map(link).collect();
        site.paths.all = vec![path];
        site
    }
}
