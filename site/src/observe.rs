//! `observe:` of a service.

use crate::error::Fault;
use crate::fields::Grammar;
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node};
use crate::value::{parsed, scalar, text};
use giusto_model::{Observe, Origin, Promise, Reported};
use std::net::SocketAddr;

const WORDS: [Observe; 4] = [Observe::Requests, Observe::WakeUps, Observe::Supply, Observe::None];
const EXPECTED: &str = "expected one of requests, wake-ups, supply, none, or what it says itself: {reported: {scrape: \
                        http://127.0.0.1:9121/metrics, histogram: NAME}} or {reported: {otlp: 127.0.0.1:4318}}";
const MAP: Grammar = Grammar { what: "an observation", keys: &["reported"], later: &[] };
const REPORTED: Grammar = Grammar { what: "a report", keys: &["scrape", "histogram", "otlp", "span"], later: &[] };
/// Names of histograms and spans.
const LONGEST: usize = 200;

/// Reads where the response times of a service with this promise come from.
pub(crate) fn read(node: &Node, promise: &Promise, origin: &Origin) -> Result<Observe, Fault> {
    if let Kind::Map(_) = &node.kind {
        let fields = MAP.read(node, node.span)?;
        return reported(fields.need("reported", "reported: {otlp: 127.0.0.1:4318}")?).map(Observe::Reported);
    }
    let word = &scalar(node, EXPECTED)?.text;
    let Some(observe) = WORDS.into_iter().find(|one| one.word() == word) else {
        let near = did_you_mean(word, WORDS.iter().map(Observe::word));
        return Err(node.fault(format!("'{}' is not what can be observed", shown(word)), EXPECTED.to_string() + &near));
    };
    if let (Observe::Supply, Promise::Leftovers { .. }) = (&observe, promise) {
        let found = "a service that gets what is left has no server, and so no supply to be observed";
        return Err(node.fault(found, "expected requests, wake-ups or none; or leave it out"));
    }
    if matches!(observe, Observe::Requests | Observe::WakeUps) && origin.has_vcpus() {
        let found = format!("'{word}' of a virtual machine are its guest's own, and are not seen from outside");
        return Err(node.fault(found, "expected supply or none; or leave it out"));
    }
    Ok(observe)
}

fn reported(node: &Node) -> Result<Reported, Fault> {
    let fields = REPORTED.read(node, node.span)?;
    let none = "expected where it shows a histogram, such as {scrape: http://127.0.0.1:9121/metrics, histogram: \
                request_duration_seconds}, or where it sends spans, such as {otlp: 127.0.0.1:4318}";
    match fields.one_of(&["scrape", "otlp"], none)? {
        ("scrape", from) => {
            fields.forbid("span", "'span' goes with 'otlp' only", "leave it out")?;
            let from = parsed(from, "expected where it shows its metrics, such as http://127.0.0.1:9121/metrics")?;
            let histogram = histogram(fields.need("histogram", "histogram: request_duration_seconds")?)?;
            Ok(Reported::Scrape { from, histogram })
        }
        (_, at) => {
            fields.forbid("histogram", "'histogram' goes with 'scrape' only", "leave it out")?;
            Ok(Reported::Otlp { at: listen_address(at)?, span: fields.get("span").map(span).transpose()? })
        }
    }
}

/// As OpenMetrics has names.
fn histogram(node: &Node) -> Result<String, Fault> {
    let expected = "expected the name of a histogram without _bucket, such as request_duration_seconds";
    let name = text(node, expected)?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_:".contains(c))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    match is_name && name.len() <= LONGEST && !name.ends_with("_bucket") {
        true => Ok(name.to_string()),
        false => Err(node.fault(format!("'{}' is not the name of a histogram", shown(name)), expected)),
    }
}

fn span(node: &Node) -> Result<String, Fault> {
    let expected = "expected the name of its spans that count, such as span: 'GET /search'";
    let name = text(node, expected)?;
    match !name.is_empty() && name.len() <= LONGEST && !name.contains(char::is_control) {
        true => Ok(name.to_string()),
        false => Err(node.fault(format!("'{}' is not the name of a span", shown(name)), expected)),
    }
}

/// Where spans are received: from this machine only.
pub(crate) fn listen_address(node: &Node) -> Result<SocketAddr, Fault> {
    let expected = "expected an address and port of this machine to listen on, such as 127.0.0.1:4318 or '[::1]:4318'";
    let text = text(node, expected)?;
    let address: Option<SocketAddr> = text.parse().ok();
    let address = address.filter(|address| address.ip().is_loopback() && address.port() != 0);
    address.ok_or_else(|| node.fault(format!("'{}' is no loopback address with a port", shown(text)), expected))
}
