//! `paths:`: one promise over several services.

use crate::despite;
use crate::error::{Fault, Span};
use crate::fields::{Fields, Grammar};
use crate::load::{address, web};
use crate::observe::listen_address;
use crate::promises::percentiles::{is_percentile, points_of, rate};
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node, Text};
use crate::value::{count, duration, name, scalar};
use giusto_model::{
    About, Assurance, Coordination, Duration, Link, Path, PathLoad, PathObserve, PathSource, Paths, Promise, Service,
    Through, Topic, Within,
};

pub(crate) const PATH: Grammar = Grammar {
    what: "a path",
    keys: &["source", "through", "promise", "assurance", "load", "observe", "packets"],
    later: &[],
};
pub(crate) const PATH_LOAD: Grammar =
    Grammar { what: "a load of a path", keys: &["send", "receive", "http"], later: &[] };
pub(crate) const OBSERVE: Grammar = Grammar { what: "an observation of a path", keys: &["otlp"], later: &[] };
pub(crate) const SOURCE: Grammar =
    Grammar { what: "a source", keys: &["poisson", "period", "jitter", "burst"], later: &[] };
pub(crate) const STAGE: Grammar = Grammar { what: "a stage", keys: &["service", "topic", "all"], later: &[] };

const PATHS: &str = "expected paths by their names, such as paths: {braking: {source: {poisson: 50/s}, \
                     through: [{service: camera}, {service: controller}], promise: {p99: 30ms}}}";
const THROUGH: &str = "expected services and topics in the order in which messages go through them, such as \
                       [{service: camera}, {topic: alarms}, {service: controller}]";
const PROMISE: &str = "expected percentiles, such as {p99: 30ms, p99.9: 60ms}, or, of a periodic source, {every: 30ms}";
/// Most messages that come at once.
const BURST: u32 = 1000;
const BRANCHES: &str = "expected two branches or more, each a service or some one after the other, such as \
                        all: [[{service: left}], [{service: right}, {service: far}]]";
/// Most packets of a message.
const PACKETS: u32 = 100;
/// Most stages of a path.
const STAGES: usize = 64;

/// What paths may go through, and what they may bear.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) services: &'a [Service],
    pub(crate) topics: &'a [Topic],
    pub(crate) coordination: Option<&'a Coordination>,
}

/// Reads paths over these links. Every service that has no promise of its own has to be in a path.
pub(crate) fn read(site: &Fields<'_>, links: Vec<Link>, known: &Known<'_>) -> Result<Paths, Fault> {
    let services = known.services;
    let all = match site.get("paths") {
        None => Vec::new(),
        Some(node) => {
            let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), PATHS))?;
            if entries.is_empty() {
                return Err(node.fault("there is no path", PATHS));
            }
            entries.iter().map(|(key, value)| path(key, value, known)).collect::<Result<_, _>>()?
        }
    };
    let paths = Paths { links, all };
    let stage = |service: &&Service| service.promise.about() == About::Paths;
    match services.iter().filter(stage).find(|service| paths.through(&service.name).next().is_none()) {
        None => Ok(paths),
        Some(service) => {
            let at = site.get("services").and_then(Node::entries).unwrap_or_default();
            let at =
                at.iter().find(|(key, _)| key.text == service.name).map_or(site.place("services"), |(k, _)| k.span);
            if let Some(topic) = known.topics.iter().find(|topic| topic.service.as_ref() == Some(&service.name)) {
                let found =
                    format!("'{}' has no promise, and no path goes over its topic '{}'", service.name, topic.name);
                let expected =
                    "expected a path over it, or its 'promise', with 'measured' instead of 'service' of the topic";
                return Err(Fault::new(at, found, expected));
            }
            let found = format!("'{}' has no promise, and no path goes through it", service.name);
            Err(Fault::new(at, found, "expected a promise, such as promise: {p99: 80ms}, or a path through it"))
        }
    }
}

fn path(key: &Text, value: &Node, known: &Known<'_>) -> Result<Path, Fault> {
    let Known { services, coordination, .. } = *known;
    let name = name(key, "a path")?;
    let fields = PATH.read(value, key.span)?;
    let source = source(fields.need("source", "source: {poisson: 50/s}")?)?;
    let stages = fields.need("through", "through: [{service: camera}, {service: controller}]")?;
    let through = through(stages, known)?;
    let node = fields.need("promise", "promise: {p99: 30ms}")?;
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), PROMISE))?;
    let is_point = |key: &Text| !matches!(key.text.as_str(), "every" | "despite");
    if let Some((key, _)) = entries.iter().find(|(key, _)| is_point(key) && !is_percentile(&key.text)) {
        return Err(Fault::new(key.span, format!("'{}' is not a promise of a path", shown(&key.text)), PROMISE));
    }
    let points = points_of(entries.iter().filter(|(key, _)| is_point(key)))?;
    let failing = entries.iter().find(|(key, _)| key.text == "despite");
    let of_path =
        despite::Known { through: &through, services, topics: known.topics, has_ensemble: coordination.is_some() };
    let despite = failing.map_or(Ok(Vec::new()), |(_, node)| despite::read(node, &of_path))?;
    let load = fields.get("load").map(load).transpose()?;
    let observe = fields.get("observe").map(observe).transpose()?;
    let packets = fields.get("packets").map(|node| count(node, "a number of packets", 1..=PACKETS)).transpose()?;
    let packets = packets.unwrap_or(Path::PACKETS);
    let assurance = fields.get("assurance").map_or(Ok(Assurance::Proven), assurance)?;
    let every = entries.iter().find(|(key, _)| key.text == "every");
    let longest = every.map(|(_, value)| positive(value)).transpose()?;
    match (source, every, points.is_empty()) {
        (_, None, true) => Err(node.fault("nothing is promised", PROMISE)),
        (PathSource::Poisson(_), Some((key, _)), _) => Err(Fault::new(
            key.span,
            "of messages that come at random any number can come at once, so none has a longest time",
            "expected percentiles, such as {p99.9: 60ms}, or a periodic source: {period: 20ms}",
        )),
        (PathSource::Periodic { .. }, _, false) => Err(node.fault(
            "percentiles are promised of messages that come at random, and these come in periods",
            "expected a time that none exceeds, such as {every: 30ms}, or source: {poisson: 50/s}",
        )),
        (PathSource::Periodic { .. }, ..) if through.iter().any(|one| matches!(one, Through::Topic(_))) => Err(stages
            .fault(
                "other messages come to a topic at random, so that none of these has a longest time there",
                "expected services only, or percentiles of messages that come at random: source: {poisson: 50/s}",
            )),
        (PathSource::Periodic { .. }, ..) if assurance == Assurance::Simulated => {
            let at = fields.get("assurance").unwrap_or(node);
            Err(at.fault("no number of runs shows that every message is in time", "leave it out: that is proven"))
        }
        (PathSource::Poisson(_), ..) if assurance == Assurance::Simulated && points.iter().any(is_too_rare) => {
            let at = fields.get("assurance").unwrap_or(node);
            Err(at.fault(
                "messages beyond such a percentile are too rare for simulation to tell",
                "expected p99.99 at most, or no 'assurance: simulated'",
            ))
        }
        _ => Ok(Path { name, source, through, points, every: longest, load, observe, packets, assurance, despite }),
    }
}

/// Ten times as many runs would be needed for ten times as few.
fn is_too_rare(point: &Within) -> bool {
    point.percentile.percent() > 99.99
}

fn assurance(node: &Node) -> Result<Assurance, Fault> {
    let expected = "expected assurance: proven, or assurance: simulated";
    match scalar(node, expected)?.text.as_str() {
        "proven" => Ok(Assurance::Proven),
        "simulated" => Ok(Assurance::Simulated),
        other => Err(node.fault(format!("'{}' is no assurance", shown(other)), expected)),
    }
}

fn source(node: &Node) -> Result<PathSource, Fault> {
    let fields = SOURCE.read(node, node.span)?;
    let neither = "expected how messages come, such as {poisson: 50/s} or {period: 20ms, jitter: 2ms}";
    match fields.one_of(&["poisson", "period"], neither)? {
        ("poisson", node) => {
            for key in ["jitter", "burst"] {
                fields.forbid(key, &format!("'{key}' goes with 'period' only"), "leave it out")?;
            }
            rate(node).map(PathSource::Poisson)
        }
        (_, node) => {
            let burst =
                fields.get("burst").map(|node| count(node, "a number of messages that come at once", 1..=BURST));
            Ok(PathSource::Periodic {
                period: positive(node)?,
                jitter: fields.get("jitter").map_or(Ok(Duration::ZERO), duration)?,
                burst: burst.transpose()?.unwrap_or(1),
            })
        }
    }
}

fn load(node: &Node) -> Result<PathLoad, Fault> {
    let fields = PATH_LOAD.read(node, node.span)?;
    let neither = "expected requests, such as {http: 127.0.0.1:8080/orders}, or lines over TCP, such as \
                   {send: 127.0.0.1:7101, receive: 127.0.0.1:7100}";
    match fields.one_of(&["send", "http"], neither)? {
        ("http", node) => {
            fields.forbid("receive", "'receive' does not go with 'http': the first stage answers", "leave it out")?;
            let (address, path) = web(node)?;
            Ok(PathLoad::Http { address, path })
        }
        (_, node) => Ok(PathLoad::Lines {
            send: address(node)?,
            receive: address(fields.need("receive", "receive: 127.0.0.1:7100")?)?,
        }),
    }
}

fn observe(node: &Node) -> Result<PathObserve, Fault> {
    let at = OBSERVE.read(node, node.span)?.need("otlp", "otlp: 127.0.0.1:4318").and_then(listen_address)?;
    Ok(PathObserve::Otlp(at))
}

fn positive(node: &Node) -> Result<Duration, Fault> {
    match duration(node)? {
        Duration::ZERO => Err(node.fault("nothing is done in no time", "expected more, such as 30ms")),
        time => Ok(time),
    }
}

fn through(node: &Node, known: &Known) -> Result<Vec<Through>, Fault> {
    let topics = known.topics;
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), THROUGH)) };
    if items.is_empty() || items.len() > STAGES {
        return Err(node.fault(format!("found {} stages", items.len()), format!("{THROUGH}, 1 to {STAGES} of them")));
    }
    let (mut found, mut seen): (Vec<Through>, Vec<Through>) = Default::default();
    for item in items {
        let one = match STAGE.read(item, item.span)?.one_of(&["service", "topic", "all"], THROUGH)? {
            ("service", node) => once(node, "service", service(node, known)?, &mut seen)?,
            ("topic", node) => {
                let one = once(node, "topic", topic(node, topics)?, &mut seen)?;
                let own = topics.iter().find(|other| one == Through::Topic(other.name.clone()));
                let broker = own.and_then(|own| own.service.clone()).map(Through::Service);
                seen.extend(broker.clone());
                found.push(one);
                found.extend(broker);
                continue;
            }
            (_, node) if is_behind_fork(&found, topics) => {
                return Err(node.fault(
                    "a fork begins where another ends",
                    "expected a service between them, at which messages are one again",
                ));
            }
            (_, node) => fork(node, known, &mut seen)?,
        };
        found.push(one);
    }
    if seen.len() > STAGES {
        return Err(node.fault(format!("found {} stages", seen.len()), format!("{THROUGH}, 1 to {STAGES} of them")));
    }
    match seen.iter().any(|one| matches!(one, Through::Service(_))) {
        true => Ok(found),
        false => Err(node.fault("no service is on the way", "expected one at least; a topic has a promise of its own")),
    }
}

fn once(node: &Node, kind: &str, one: Through, seen: &mut Vec<Through>) -> Result<Through, Fault> {
    if seen.contains(&one) {
        return Err(node.fault(
            format!("'{}' is written twice", scalar(node, THROUGH)?.text),
            format!("expected each {kind} once: messages that come back to one could wait for each other"),
        ));
    }
    seen.push(one.clone());
    Ok(one)
}

/// No service is after the last fork. Spans tell of services only: without one between, two forks would look like one.
fn is_behind_fork(found: &[Through], topics: &[Topic]) -> bool {
    let is_silent = |one: &Through| match one {
        Through::Topic(_) => true,
        Through::Service(name) => topics.iter().any(|topic| topic.service.as_ref() == Some(name)),
        Through::All(_) => false,
    };
    matches!(found.iter().rev().find(|one| !is_silent(one)), Some(Through::All(_)))
}

/// `all: [[{service: left}], [{service: right}, {service: far}]]`; a branch of one stage needs no list.
fn fork(node: &Node, known: &Known, seen: &mut Vec<Through>) -> Result<Through, Fault> {
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), BRANCHES)) };
    if items.len() < 2 {
        let found = if items.is_empty() { "there is no branch" } else { "there is one branch only" };
        return Err(node.fault(found, BRANCHES));
    }
    let mut stage = |item: &Node| match STAGE.read(item, item.span)?.one_of(&["service", "topic", "all"], BRANCHES)? {
        ("service", node) => once(node, "service", service(node, known)?, seen),
        (kind, node) => Err(node.fault(format!("'{kind}' is not planned in a branch yet"), BRANCHES)),
    };
    let mut branch = |item: &Node| match &item.kind {
        Kind::List(stages) if stages.is_empty() => Err(item.fault("the branch is empty", BRANCHES)),
        Kind::List(stages) => stages.iter().map(&mut stage).collect(),
        _ => Ok(vec![stage(item)?]),
    };
    Ok(Through::All(items.iter().map(&mut branch).collect::<Result<_, _>>()?))
}

fn service(node: &Node, of: &Known) -> Result<Through, Fault> {
    let services = of.services;
    let written = scalar(node, "expected the name of a service of this site, such as service: camera")?;
    let named = known(node.span, &written.text, services.iter().map(|one| one.name.as_str()), "service")?;
    if let Some(topic) = of.topics.iter().find(|topic| topic.service.as_ref() == Some(&named)) {
        let name = &topic.name;
        let found = format!("'{named}' is the broker of topic '{name}'");
        return Err(node.fault(found, format!("expected topic: {name}, which goes through it")));
    }
    let promise = services.iter().find(|one| one.name == named).map(|one| &one.promise);
    match promise {
        Some(Promise::Stage { .. }) => Ok(Through::Service(named)),
        _ => Err(node.fault(
            format!("'{named}' has a promise of its own"),
            "expected a service without: leave out its 'promise' and 'arrivals', and say its 'execution'; paths say the rest",
        )),
    }
}

fn topic(node: &Node, topics: &[Topic]) -> Result<Through, Fault> {
    let written = scalar(node, "expected the name of a topic of this site, such as topic: alarms")?;
    if topics.is_empty() {
        let found = format!("the site has no topic '{}'", shown(&written.text));
        return Err(node.fault(found, "expected topics: {alarms: {publishers: 1000, ...}} in the site"));
    }
    known(node.span, &written.text, topics.iter().map(|one| one.name.as_str()), "topic").map(Through::Topic)
}

/// One of these names.
pub(crate) fn known<'a>(
    at: Span,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    what: &str,
) -> Result<String, Fault> {
    if names.clone().any(|one| one == name) {
        return Ok(name.to_string());
    }
    let hint = did_you_mean(name, names.clone());
    let known = names.collect::<Vec<_>>().join(", ");
    let found = format!("the site has no {what} '{}'", shown(name));
    Err(Fault::new(at, found, format!("expected one of {known}{hint}")))
}
