//! `topics:`: messages with a rate and a promise.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::paths::known;
use crate::promises::percentiles::points;
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node, Text};
use crate::value::{choice, count, duration, name, parsed, scalar};
use giusto_model::{About, BrokerTimes, Bucket, Host, Rate, Service, Tokens, Topic, TopicLimit};

pub(crate) const TOPIC: Grammar = Grammar {
    what: "a topic",
    keys: &["publishers", "each", "batch", "brokers", "service", "promise", "limit", "bucket", "measured"],
    later: &[],
};
pub(crate) const BUCKET: Grammar = Grammar { what: "a token bucket", keys: &["rate", "depth"], later: &[] };
pub(crate) const MEASURED: Grammar =
    Grammar { what: "what was measured of a broker", keys: &["capacity", "latency", "worst"], later: &[] };

const TOPICS: &str = "expected topics by their names, such as \
                      alarms: {publishers: 1000, each: 10/s, brokers: [edge-1], promise: {p99: 1ms}}";
const BROKERS: &str = "expected hosts of this site whose brokers may carry the topic, such as [edge-1, edge-2]";
const MOST_PUBLISHERS: u32 = 10_000_000;
/// Most messages that come at once.
const BATCH: u32 = 1000;
/// NSQ takes up to 64 characters, dots too; a name of Giusto is one of NSQ.
const WHAT: &str = "a topic";

/// Reads all topics, in the order of the file; their brokers are on `hosts`, some of them as `services`.
pub(crate) fn read_all(node: &Node, hosts: &[Host], services: &[Service]) -> Result<Vec<Topic>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), TOPICS))?;
    if entries.is_empty() {
        return Err(node.fault("there is no topic", TOPICS));
    }
    let mut found: Vec<Topic> = Vec::new();
    for (key, value) in entries {
        let one = topic(key, value, hosts, services)?;
        // A host has one broker, of whose share the paths over one topic decide.
        let same = |other: &&Topic| {
            (one.service.is_some() || other.service.is_some())
                && one.brokers.iter().any(|host| other.brokers.contains(host))
        };
        if let Some(other) = found.iter().find(same) {
            let service = one.service.iter().chain(&other.service).next().map_or("", String::as_str);
            return Err(Fault::new(
                key.span,
                format!("'{}' and '{}' go through one broker, '{service}', as a host has one", other.name, one.name),
                "expected brokers on other hosts for one of them, or 'measured' instead of 'service': the share of a broker is \
                 planned for one topic",
            ));
        }
        found.push(one);
    }
    Ok(found)
}

fn topic(key: &Text, value: &Node, hosts: &[Host], services: &[Service]) -> Result<Topic, Fault> {
    let name = name(key, WHAT)?;
    let fields = TOPIC.read(value, key.span)?;
    let publishers =
        count(fields.need("publishers", "publishers: 1000")?, "a number of publishers", 1..=MOST_PUBLISHERS)?;
    let promise_node = fields.need("promise", "promise: {p99: 1ms}")?;
    let promise = points(promise_node)?;
    let highest =
        promise.last().ok_or_else(|| promise_node.fault("nothing is promised", "expected, for example, {p99: 1ms}"))?;
    let measured = fields.get("measured").map(measured).transpose()?;
    if let Some(latest) = measured.as_ref().and_then(|measured| measured.latency.last()) {
        if latest.percentile <= highest.percentile {
            let found = format!(
                "{} is promised, and of a broker no higher percentile than {} is known",
                highest.percentile, latest.percentile
            );
            let expected = "expected a higher one, such as latency: {p99.9: 800us} for a p99, as some messages wait for a token too";
            return Err(fields.get("measured").unwrap_or(value).fault(found, expected));
        }
    }
    let brokers = brokers(fields.need("brokers", "brokers: [edge-1]")?, hosts)?;
    Ok(Topic {
        service: service(&fields, &brokers, (hosts, services))?,
        name,
        publishers,
        each: rate(fields.need("each", "each: 10/s")?, "expected the messages of each publisher, such as each: 10/s")?,
        batch: fields
            .get("batch")
            .map_or(Ok(1), |node| count(node, "a number of messages that come at once", 1..=BATCH))?,
        brokers,
        promise,
        limit: fields.get("limit").map_or(Ok(TopicLimit::default()), |node| {
            choice(node, "what is limited", &[TopicLimit::Delivery, TopicLimit::Publishing])
        })?,
        bucket: fields.get("bucket").map(bucket).transpose()?,
        measured,
    })
}

fn rate(node: &Node, expected: &str) -> Result<Rate, Fault> {
    let rate: Rate = parsed(node, expected)?;
    match rate.is_zero() {
        true => Err(node.fault("nothing ever comes at this rate", expected)),
        false => Ok(rate),
    }
}

fn brokers(node: &Node, hosts: &[Host]) -> Result<Vec<String>, Fault> {
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), BROKERS)) };
    if items.is_empty() {
        return Err(node.fault("there is no broker", BROKERS));
    }
    let mut found: Vec<String> = Vec::new();
    for item in items {
        let written = scalar(item, BROKERS)?.text.as_str();
        let names = hosts.iter().map(|host| host.name.as_str());
        if !names.clone().any(|name| name == written) {
            let hint = did_you_mean(written, names.clone());
            let known = names.collect::<Vec<_>>().join(", ");
            return Err(item.fault(
                format!("the site has no host '{}'", shown(written)),
                format!("expected some of {known}{hint}"),
            ));
        }
        if found.iter().any(|other| other == written) {
            return Err(
                item.fault(format!("'{written}' is written twice"), "expected each host once: a host has one broker")
            );
        }
        found.push(written.to_string());
    }
    Ok(found)
}

/// The service that is its broker: on the only host that carries it, without a promise of its own.
fn service(fields: &Fields, brokers: &[String], of: (&[Host], &[Service])) -> Result<Option<String>, Fault> {
    let Some(node) = fields.get("service") else { return Ok(None) };
    let (hosts, services) = of;
    let written = scalar(node, "expected the service that is its broker, such as service: broker")?;
    let name = known(node.span, &written.text, services.iter().map(|one| one.name.as_str()), "service")?;
    fields.forbid(
        "measured",
        &format!("'measured' holds for the share that '{name}' had then, and paths over the topic choose another"),
        "leave it out; say the 'execution' of that service, which a message takes there",
    )?;
    let own = services.iter().find(|one| one.name == name);
    if own.is_none_or(|own| own.promise.about() != About::Paths) {
        return Err(node.fault(
            format!("'{name}' has a promise of its own"),
            "expected a service without: leave out its 'promise' and 'arrivals', and say its 'execution'; paths over the topic say the rest",
        ));
    }
    let on = own.and_then(|own| own.on.as_deref()).or((hosts.len() == 1).then(|| hosts[0].name.as_str()));
    match brokers {
        [only] if on == Some(only) => Ok(Some(name)),
        [only] => Err(node.fault(
            format!("'{name}' is not bound to '{only}'"),
            format!("expected on: {only} there, as the topic's broker is"),
        )),
        _ => {
            Err(node
                .fault(format!("there are {} brokers", brokers.len()), format!("expected one host, that of '{name}'")))
        }
    }
}

fn bucket(node: &Node) -> Result<Bucket, Fault> {
    let fields = BUCKET.read(node, node.span)?;
    let depth_node = fields.need("depth", "bucket: {rate: 11k/s, depth: 26}")?;
    let depth: Tokens = parsed(depth_node, "expected a number of tokens, such as depth: 26")?;
    if depth < Tokens::whole(1) {
        return Err(depth_node.fault("less than one token lets no message through", "expected at least 1"));
    }
    let rate_node = fields.need("rate", "bucket: {rate: 11k/s, depth: 26}")?;
    Ok(Bucket { rate: rate(rate_node, "expected how often tokens come, such as rate: 11k/s")?, depth })
}

fn measured(node: &Node) -> Result<BrokerTimes, Fault> {
    let fields = MEASURED.read(node, node.span)?;
    let capacity = fields.need("capacity", "measured: {capacity: 10k/s, latency: {p99.9: 800us}}")?;
    let latency_node = fields.need("latency", "measured: {capacity: 10k/s, latency: {p99.9: 800us}}")?;
    let latency = points(latency_node)?;
    if latency.is_empty() {
        return Err(
            latency_node.fault("nothing is known here", "expected percentiles, such as {p50: 300us, p99.9: 800us}")
        );
    }
    let highest = latency.last().map(|point| point.within).unwrap_or_default();
    let worst = fields.get("worst").map(|node| match duration(node)? {
        time if time > highest => Ok(time),
        _ => {
            Err(node.fault("not longer than all percentiles", format!("expected more than {highest}, or leave it out")))
        }
    });
    Ok(BrokerTimes {
        worst: worst.transpose()?,
        capacity: rate(capacity, "expected messages at which the latency was measured, such as capacity: 10k/s")?,
        latency,
    })
}
