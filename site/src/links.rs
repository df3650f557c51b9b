//! `links:` between the hosts of a site.

use crate::error::{Fault, SiteError};
use crate::fields::{Fields, Grammar};
use crate::file::{Form, LARGEST_FILE};
use crate::paths::known;
use crate::suggest::shown;
use crate::tree::Node;
use crate::value::{duration, text};
use giusto_model::{Duration, Host, Link, LinkTimes, Percentile, Within};
use std::path::Path;

pub(crate) const LINK: Grammar = Grammar { what: "a link", keys: &["worst", "measured"], later: &[] };

const LINKS: &str = "expected links by their hosts, such as links: {edge-1 to edge-2: {worst: 300us}}";
const EITHER: &str =
    "expected the longest time of a message, such as {worst: 300us}, or a file of measured times, such as \
                      {measured: links/lan.csv}";
const TIMES: Form = Form {
    what: "a file of measured times",
    example: "links/lan.csv",
    like: "a line 'delay_ns' and below it a time in ns for each message (formats/link.md)",
    largest: LARGEST_FILE,
};
const HEADER: &str = "delay_ns";
/// The longest time in such a file, an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Fewer messages say nothing of a percentile that is promised.
const FEWEST: usize = 100;
/// What a plan has of a measured law, where at least one message was slower.
const PERCENTILES: [&str; 8] = ["p50", "p90", "p95", "p99", "p99.5", "p99.9", "p99.95", "p99.99"];

/// Reads them; files are named from `base` on.
pub(crate) fn read(site: &Fields<'_>, hosts: &[Host], base: &Path) -> Result<Vec<Link>, Fault> {
    let Some(node) = site.get("links") else { return Ok(Vec::new()) };
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), LINKS))?;
    let mut found: Vec<Link> = Vec::new();
    for (key, value) in entries {
        let Some((from, to)) = key.text.split_once(" to ") else {
            return Err(Fault::new(
                key.span,
                format!("'{}' does not say from where to where", shown(&key.text)),
                LINKS,
            ));
        };
        let host = |name: &str| known(key.span, name.trim(), hosts.iter().map(|host| host.name.as_str()), "host");
        let (from, to) = (host(from)?, host(to)?);
        if from == to {
            return Err(Fault::new(key.span, format!("'{from}' needs no link to itself"), "leave it out"));
        }
        if found.iter().any(|other| (&other.from, &other.to) == (&from, &to)) {
            return Err(Fault::new(
                key.span,
                format!("the link '{from} to {to}' is written twice"),
                "delete one of them",
            ));
        }
        let (worst, measured) = match LINK.read(value, key.span)?.one_of(&["worst", "measured"], EITHER)? {
            ("worst", node) => (duration(node)?, None),
            (_, node) => measured(node, base).map(|(worst, times)| (worst, Some(times)))?,
        };
        found.push(Link { from, to, worst, measured });
    }
    Ok(found)
}

/// The longest time of a file, and the rest of it.
fn measured(node: &Node, base: &Path) -> Result<(Duration, LinkTimes), Fault> {
    let name = text(node, EITHER)?;
    let unreadable = |error: SiteError| match error {
        SiteError::File { found, expected, .. } => node.fault(format!("'{}': {found}", shown(name)), expected),
        SiteError::Text(at) => node.fault(format!("'{}', line {}: {}", shown(name), at.line, at.found), at.expected),
    };
    let (_, all) = TIMES.read(&base.join(name)).map_err(unreadable)?;
    let expected = || format!("expected {}", TIMES.like);
    let wrong = |line: usize, what: String| node.fault(format!("'{}', line {line}: {what}", shown(name)), expected());
    let mut lines = all.lines().zip(1..);
    match lines.next() {
        Some((HEADER, _)) => {}
        Some((other, _)) if other.strip_prefix('\u{feff}') == Some(HEADER) => {
            return Err(wrong(1, "a byte order mark is before the header".into()))
        }
        // Nothing of what may be another's file is shown.
        Some(_) => return Err(wrong(1, "it is not the header".into())),
        None => return Err(node.fault(format!("'{}' is empty", shown(name)), expected())),
    }
    let time = |(text, line): (&str, usize)| match text.parse::<u64>() {
        _ if text.is_empty() => Err(wrong(line, "it is empty".into())),
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(wrong(line, format!("'{}' is not a whole number", shown(text))))
        }
        Ok(0) => Err(wrong(line, "no message takes no time".into())),
        Ok(ns) if ns <= LONGEST => Ok(ns),
        _ => Err(wrong(line, format!("'{}' is more than an hour", shown(text)))),
    };
    let mut times: Vec<u64> = lines.map(time).collect::<Result<_, _>>()?;
    if times.len() < FEWEST {
        let found = format!("'{}' has {} messages", shown(name), times.len());
        return Err(node.fault(found, format!("expected {FEWEST} at least: fewer say nothing of a percentile")));
    }
    times.sort_unstable();
    let longest = times[times.len() - 1];
    let mut latency: Vec<Within> = Vec::new();
    for percentile in PERCENTILES.iter().filter_map(|one| one.parse::<Percentile>().ok()) {
        let rank = (times.len() as u64 * u64::from(percentile.thousandths())).div_ceil(100_000);
        let within = times[(rank as usize).max(1) - 1];
        if within >= longest {
            break;
        }
        // Of the same time the higher one says more.
        latency.retain(|lower| lower.within.ns() < within);
        latency.push(Within { percentile, within: Duration::from_ns(within) });
    }
    Ok((Duration::from_ns(longest), LinkTimes { file: name.to_string(), messages: times.len(), latency }))
}
