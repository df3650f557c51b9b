//! Paths: one promise from the first arrival to the last answer, over several services and hosts.

use crate::{
    times_of, together, Assurance, Bucket, Despite, DespitePlan, Duration, Link, LinkStage, Percentile, Rate, Reason,
    SimulatedPath, Within,
};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;

/// The paths of a site, and the links between its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// At most one from each host to each other, in the order of the file.
    pub links: Vec<Link>,
    /// In the order of the file, names unique.
    pub all: Vec<Path>,
}

impl Paths {
    /// Those that go through this service.
    pub fn through<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Path> + 'a {
        self.all.iter().filter(move |path| path.services().any(|stage| stage == service))
    }
}

/// A chain of services and topics with a promise on the time from a message's arrival at the first to its end at the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// How messages come to its first stage.
    pub source: PathSource,
    /// What they go through, one after the other; at least one service, each once; between two forks there is a service.
    pub through: Vec<Through>,
    /// Percentiles that were promised, ascending in both; empty: only `every`. Not with a periodic source.
    pub points: Vec<Within>,
    /// No message may take longer. Not with a Poisson source.
    pub every: Option<Duration>,
    /// Where a measurement sends and receives its messages.
    pub load: Option<PathLoad>,
    /// Where its response times come from while it runs; `None`: they are not known.
    pub observe: Option<PathObserve>,
    /// Packets of a message, each way over each interface, at most: acknowledgements among them. 1 or more.
    pub packets: u32,
    /// What its percentiles rest on.
    pub assurance: Assurance,
    /// What is promised holds although one of these fails, each once.
    pub despite: Vec<Despite>,
}

/// Where response times of a path come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathObserve {
    /// Spans that its services send: OTLP over HTTP to this address, loopback only.
    Otlp(SocketAddr),
}

impl Path {
    /// A message, and an acknowledgement of TCP.
    pub const PACKETS: u32 = 2;

    /// With nothing promised, and what a site leaves out.
    pub fn plain(name: String, source: PathSource, through: Vec<Through>) -> Path {
        Path {
            name,
            source,
            through,
            points: Vec::new(),
            every: None,
            load: None,
            observe: None,
            packets: Path::PACKETS,
            assurance: Assurance::default(),
            despite: Vec::new(),
        }
    }

    /// The services that it goes through, in order.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.through.iter().flat_map(Through::services)
    }

    /// The topics that it goes through, in order.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.through.iter().filter_map(|through| match through {
            Through::Topic(name) => Some(name.as_str()),
            Through::Service(_) | Through::All(_) => None,
        })
    }
}

/// What messages of a path go through. In JSON as in a site: `{"service": "camera"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// A service without a promise of its own.
    Service(String),
    /// A topic: the bucket of its broker, and the broker.
    Topic(String),
    /// Branches, each of services one after the other, to which a copy of each message goes: it goes on when all are done.
    All(Vec<Vec<Through>>),
}

impl Through {
    /// The services of it, branch by branch.
    fn services(&self) -> Vec<&str> {
        match self {
            Through::Service(name) => vec![name],
            Through::Topic(_) => Vec::new(),
            Through::All(branches) => branches.iter().flatten().flat_map(Through::services).collect(),
        }
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Through::Service(name) => f.pad(name),
            Through::Topic(name) => write!(f, "topic {name}"),
            Through::All(branches) => {
                let words =
                    |branch: &Vec<Through>| branch.iter().map(Through::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "[{}]", branches.iter().map(words).collect::<Vec<_>>().join(" | "))
            }
        }
    }
}

/// Where messages of a measurement go to and come from. In JSON without the name of the form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PathLoad {
    /// Each message is a line over TCP.
    Lines {
        /// Where the first stage listens.
        send: SocketAddr,
        /// Where the last stage connects to.
        receive: SocketAddr,
    },
    /// Each message is a request over HTTP/1.1, which the first stage answers when the last one is done.
    Http {
        /// Where the first stage listens.
        #[serde(rename = "http")]
        address: SocketAddr,
        /// What is asked for, from its `/` on.
        path: String,
    },
}

impl PathLoad {
    /// Where the first stage listens.
    pub fn address(&self) -> SocketAddr {
        match self {
            PathLoad::Lines { send, .. } => *send,
            PathLoad::Http { address, .. } => *address,
        }
    }
}

/// How messages come to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PathSource {
    /// A Poisson process of this rate.
    Poisson(Rate),
    /// One every period, each late by up to the jitter; up to `burst` of them at once.
    Periodic {
        /// The time between two of them, or between two bursts.
        #[serde(rename = "period_ns")]
        period: Duration,
        /// How late each may be.
        #[serde(rename = "jitter_ns")]
        jitter: Duration,
        /// So many come at once, 1 or more.
        burst: u32,
    },
}

impl PathSource {
    /// Messages in a ns, in the long run.
    pub fn per_ns(self) -> f64 {
        match self {
            PathSource::Poisson(rate) => rate.per_ns(),
            PathSource::Periodic { period, burst, .. } => f64::from(burst) / period.ns().max(1) as f64,
        }
    }
}

impl fmt::Display for PathSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathSource::Poisson(rate) => write!(f, "{rate} at random"),
            PathSource::Periodic { period, jitter, burst } => {
                match burst {
                    1 => write!(f, "one every {period}")?,
                    burst => write!(f, "{burst} every {period}")?,
                }
                match jitter.is_zero() {
                    true => Ok(()),
                    false => write!(f, ", up to {jitter} late"),
                }
            }
        }
    }
}

/// How a path keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlan {
    /// Its name.
    pub name: String,
    /// How messages come to its first stage.
    pub source: PathSource,
    /// Its stages, in order.
    pub through: Vec<PathStage>,
    /// Each percentile that was promised, and what proves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PathPoint>,
    /// The time that no message may exceed, and what proves it; not written where none was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<PathEvery>,
    /// Where its response times come from while it runs; not written where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<PathObserve>,
    /// What decided its percentiles, whose `parts` are empty then; not written where they are proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedPath>,
    /// Failures despite which it is promised, and what one of them costs; not written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub despite: Vec<DespitePlan>,
    /// Where its numbers come from.
    pub reasons: Vec<Reason>,
}

impl PathPlan {
    /// Those of `paths` with a stage on this host, and those that share services with them, on which their proofs rest.
    pub fn of_host(paths: &[PathPlan], host: &str) -> Vec<PathPlan> {
        let together = together(paths.iter().map(PathPlan::services));
        let there = |path: &PathPlan| path.through.iter().any(|stage| stage.on() == host);
        let asked: HashSet<usize> =
            paths.iter().zip(&together).filter(|(path, _)| there(path)).map(|(_, first)| *first).collect();
        paths.iter().zip(&together).filter(|(_, first)| asked.contains(first)).map(|(path, _)| path.clone()).collect()
    }

    /// The services that it goes through, in order.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.through.iter().filter_map(PathStage::service)
    }

    /// Whether a stage is a service that is the broker of the topic before it: it comes right behind its bucket, or an interface.
    pub fn is_broker(&self, nth: usize) -> bool {
        let before = self.through[..nth].iter().rev().find(|stage| !matches!(stage, PathStage::Interface(_)));
        self.through[nth].service().is_some() && matches!(before, Some(PathStage::Tokens(_)))
    }

    /// By how much a message is later at most for one of the failures that are borne.
    pub fn later(&self) -> Duration {
        self.despite.iter().map(|one| one.later).max().unwrap_or_default()
    }
}

/// A stage of a path. A topic is two: its bucket, and its broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathStage {
    /// A service on the share that was chosen for it.
    Service(ServiceStage),
    /// The bucket of a topic.
    Tokens(TokensStage),
    /// A topic's broker.
    Broker(BrokerStage),
    /// An interface of a service before it or after it.
    Interface(InterfaceStage),
    /// A link to another host, as it was measured.
    Link(LinkStage),
}

/// A service of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceStage {
    /// The service.
    pub service: String,
    /// Its host.
    pub on: String,
    /// The longest time over the link from the host of the stage before; not written where that is the same.
    #[serde(rename = "link_ns", default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Duration>,
    /// The branch of a fork that it is on, from 1; not written where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<u32>,
}

/// Where messages of a path wait for tokens, with all others of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensStage {
    /// The topic.
    pub tokens_of: String,
    /// The host of its broker.
    pub on: String,
    /// As of a service.
    #[serde(rename = "link_ns", default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Duration>,
    /// The tokens that messages can count on.
    pub bucket: Bucket,
    /// Messages that come to the topic from elsewhere, at random; not written where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Rate>,
}

/// What a broker takes of a message, as it was measured: not computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerStage {
    /// The topic.
    pub broker_of: String,
    /// The host.
    pub on: String,
    /// Percentiles; ascending.
    pub latency: Vec<Within>,
    /// No message took longer.
    #[serde(rename = "worst_ns")]
    pub worst: Duration,
}

/// An interface between a service of a path and its next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceStage {
    /// Its name on the host.
    pub interface: String,
    /// The host.
    pub on: String,
    /// As of a service.
    #[serde(rename = "link_ns", default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Duration>,
    /// As of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<u32>,
    /// Whether messages leave the service by it, or come to it.
    pub way: PacketWay,
    /// Packets of a message at most.
    pub packets: u32,
    /// Its bucket that way, in messages: so many find the tokens of all their packets.
    pub bucket: Bucket,
    /// No packet within its bucket waits longer for the host's processing.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
}

/// Which way packets pass an interface, as its service sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketWay {
    /// From its service.
    Sent,
    /// To its service.
    Received,
}

impl fmt::Display for PacketWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PacketWay::Sent => "sent",
            PacketWay::Received => "received",
        })
    }
}

impl BrokerStage {
    /// The slowest law with these percentiles: times with their probabilities.
    pub fn times(&self) -> Vec<(Duration, f64)> {
        times_of(&self.latency, self.worst)
    }
}

impl PathStage {
    /// Its host.
    pub fn on(&self) -> &str {
        match self {
            PathStage::Service(stage) => &stage.on,
            PathStage::Tokens(stage) => &stage.on,
            PathStage::Broker(stage) => &stage.on,
            PathStage::Interface(stage) => &stage.on,
            PathStage::Link(stage) => &stage.on,
        }
    }

    /// The longest time over the link from the host of the stage before; `None` where that is a stage of its own.
    pub fn link(&self) -> Option<Duration> {
        match self {
            PathStage::Service(stage) => stage.link,
            PathStage::Tokens(stage) => stage.link,
            PathStage::Interface(stage) => stage.link,
            PathStage::Broker(_) | PathStage::Link(_) => None,
        }
    }

    /// The branch of a fork that it is on, from 1.
    pub fn branch(&self) -> Option<u32> {
        match self {
            PathStage::Service(stage) => stage.branch,
            PathStage::Interface(stage) => stage.branch,
            PathStage::Tokens(_) | PathStage::Broker(_) | PathStage::Link(_) => None,
        }
    }

    /// The service, where it is one.
    pub fn service(&self) -> Option<&str> {
        match self {
            PathStage::Service(stage) => Some(&stage.service),
            PathStage::Tokens(_) | PathStage::Broker(_) | PathStage::Interface(_) | PathStage::Link(_) => None,
        }
    }
}

impl fmt::Display for PathStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathStage::Service(stage) => f.pad(&stage.service),
            PathStage::Tokens(stage) => f.pad(&format!("tokens of {}", stage.tokens_of)),
            PathStage::Broker(stage) => f.pad(&format!("broker of {}", stage.broker_of)),
            PathStage::Interface(stage) => f.pad(&format!("{} ({})", stage.interface, stage.way)),
            PathStage::Link(stage) => f.pad(&format!("link to {}", stage.on)),
        }
    }
}

/// Stages of a path one after the other, or branch by branch side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Steps(pub Vec<Vec<Range<usize>>>);

impl Steps {
    /// Those of these stages: where branches of a fork are, they are one step.
    pub fn of(through: &[PathStage]) -> Steps {
        let mut steps: Vec<Vec<Range<usize>>> = Vec::new();
        let mut before: Option<u32> = None;
        for (nth, stage) in through.iter().enumerate() {
            let branch = stage.branch();
            match (steps.last_mut(), branch.is_some() && before.is_some()) {
                (Some(step), true) => match step.last_mut().filter(|_| branch == before) {
                    Some(range) => range.end = nth + 1,
                    None => step.push(nth..nth + 1),
                },
                _ => steps.push(std::iter::once(nth..nth + 1).collect()),
            }
            before = branch;
        }
        Steps(steps)
    }

    /// The sum of what all stages take, of a fork that of the longest branch; `None` beyond 584 years.
    pub fn along(&self, time: impl Fn(usize) -> Duration) -> Option<Duration> {
        let branch =
            |branch: &Range<usize>| branch.clone().try_fold(Duration::ZERO, |sum, stage| sum.checked_add(time(stage)));
        self.0.iter().try_fold(Duration::ZERO, |sum, step| {
            let longest = step.iter().map(branch).collect::<Option<Vec<_>>>()?.into_iter().max();
            sum.checked_add(longest.unwrap_or_default())
        })
    }

    /// The stages that messages come to this one from; none at the first, several after a fork.
    pub fn before(&self, stage: usize) -> Vec<usize> {
        let place = self.0.iter().position(|step| step.iter().any(|branch| branch.contains(&stage)));
        let begins = |step: &Vec<Range<usize>>| step.iter().any(|branch| branch.start == stage);
        match place {
            Some(place) if begins(&self.0[place]) => match place.checked_sub(1) {
                Some(before) => self.0[before].iter().map(|branch| branch.end - 1).collect(),
                None => Vec::new(),
            },
            Some(_) => vec![stage - 1],
            None => Vec::new(),
        }
    }

    /// The stages that messages go to from this one; none at the last, several where a fork begins.
    pub fn after(&self, stage: usize) -> Vec<usize> {
        let place = self.0.iter().position(|step| step.iter().any(|branch| branch.contains(&stage)));
        let ends = |step: &Vec<Range<usize>>| step.iter().any(|branch| branch.end == stage + 1);
        match place {
            Some(place) if ends(&self.0[place]) => {
                self.0.get(place + 1).into_iter().flatten().map(|branch| branch.start).collect()
            }
            Some(_) => vec![stage + 1],
            None => Vec::new(),
        }
    }

    /// For people: `camera, [left | right, far], controller`.
    pub fn words(&self, name: impl Fn(usize) -> String) -> String {
        let branch = |branch: &Range<usize>| branch.clone().map(&name).collect::<Vec<_>>().join(", ");
        let step = |step: &Vec<Range<usize>>| match &step[..] {
            [only] => branch(only),
            all => format!("[{}]", all.iter().map(branch).collect::<Vec<_>>().join(" | ")),
        };
        self.0.iter().map(step).collect::<Vec<_>>().join(", ")
    }
}

/// A percentile of a path: for times `d` and growths `x` of its stages, no more messages are late than the sum of what is late
/// at each (docs/decisions/0052).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPoint {
    /// Which.
    pub percentile: Percentile,
    /// What was promised.
    #[serde(rename = "within_ns")]
    pub within: Duration,
    /// What is proven: the sum of the times of all stages and links.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// Stage by stage.
    pub parts: Vec<PathPart>,
    /// Stages of other paths before they meet this one, in the order in which docs/decisions/0062 counts them; not written where
    /// there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meets: Vec<PathMeet>,
}

/// A stage of a path whose messages meet those of another one behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMeet {
    /// The path that goes through it.
    pub path: String,
    /// The service.
    pub service: String,
    /// What it has of the percentile of the one that is met.
    pub part: PathPart,
}

/// What a stage has of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPart {
    /// d: its time, with what comes late there, a period beside other services, and by how much messages of other paths may be
    /// early there.
    #[serde(rename = "within_ns")]
    pub within: Duration,
    /// x, in billionths: the rate of the next stage is counted as this one's divided by 1 − x. 0 at the last stage.
    pub growth_ppb: u32,
    /// Its part of the messages that may be late, in billionths.
    pub beyond_ppb: u32,
}

/// The longest time of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEvery {
    /// What was promised.
    #[serde(rename = "within_ns")]
    pub within: Duration,
    /// What is proven.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// The longest time at each stage.
    #[serde(rename = "parts_ns")]
    pub parts: Vec<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_one_step_of_branches() {
        let stage = |branch: Option<u32>| {
            PathStage::Service(ServiceStage { service: "one".into(), on: "edge".into(), link: None, branch })
        };
        let through = [None, Some(1), Some(1), Some(2), None, Some(1), Some(2)].map(stage);
        let steps = Steps::of(&through);
        let starts: Vec<Vec<usize>> =
            steps.0.iter().map(|step| step.iter().map(|branch| branch.start).collect()).collect();
        assert_eq!(starts, [vec![0], vec![1, 3], vec![4], vec![5, 6]]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|nth| steps.before(nth)),
            [vec![], vec![0], vec![1], vec![0], vec![2, 3], vec![4]]
        );
        assert_eq!(
            [0, 1, 2, 3, 4, 6].map(|nth| steps.after(nth)),
            [vec![1, 3], vec![2], vec![4], vec![4], vec![5, 6], vec![]]
        );
        let times = [1, 10, 20, 25, 100, 7, 1000].map(Duration::from_ns);
        assert_eq!(steps.along(|nth| times[nth]), Some(Duration::from_ns(1 + 30 + 100 + 1000)));
        assert_eq!(steps.words(|nth| nth.to_string()), "0, [1, 2 | 3], 4, [5 | 6]");
        assert_eq!(steps.along(|_| Duration::from_ns(u64::MAX)), None);
    }
}
