//! `promise: {p90: 30ms, p99: 80ms}` and what goes with it: `arrivals:` and `execution:`.

use super::promised::{not_of_leftovers, one_mode, Keys, Promised, COMPUTED};
use crate::error::{Fault, SiteError};
use crate::fields::{Fields, Grammar};
use crate::file::{Form, LARGEST_FILE};
use crate::suggest::shown;
use crate::task::{fit, is_measured};
use crate::tree::{Kind, Node, Text};
use crate::value::{count, duration, parsed, text};
use giusto_model::{Arrivals, Bandwidth, Duration, Measured, Percentile, Profile, Promise, Rate, ServiceTime, Within};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const KEYS: Keys = Keys {
    foreign: &["tasks", "scheduler", "vcpus", "copies", "threads", "margin", "criticality"],
    why: "a promise of percentiles, which is about requests that come at random",
};
pub(crate) const ARRIVALS: Grammar = Grammar { what: "an arrival process", keys: &["poisson", "batch"], later: &[] };
pub(crate) const EXECUTION: Grammar =
    Grammar { what: "an execution time", keys: &["histogram", "mean", "wcet"], later: &[] };

const POINT: &str = "expected percentiles with their latencies, such as {p90: 30ms, p99: 80ms}";
const TIME: &str =
    "expected the processor time of a request, such as 8ms, {mean: 8ms, wcet: 10ms} or {histogram: search.csv}";
const PROFILE: Form = Form {
    what: "a profile",
    example: "profiles/search.csv",
    like: "what 'giusto measure execution --samples' writes",
    largest: LARGEST_FILE,
};
/// A measured time is rounded up to whole parts of the longest, one of so many.
const PARTS: u64 = 500;
/// The longest execution time, as in a profile.
const LONGEST: Duration = Duration::from_secs(3600);
/// Most requests that come at once.
const BATCH: u32 = 1000;
/// Load of a service whose execution times are not measured yet, and its gap between requests where that is to follow
/// from them.
const PLACEHOLDER: f64 = 0.1;
const PLACEHOLDER_GAP: Duration = Duration::from_ms(1);

/// Whether the promise at `node` is one of percentiles: a map with such a key.
pub(super) fn is_percentiles(node: &Node) -> bool {
    matches!(&node.kind, Kind::Map(entries) if entries.iter().any(|(key, _)| is_percentile(&key.text)))
}

/// Whether a key is one of these.
pub(crate) fn is_percentile(key: &str) -> bool {
    key.strip_prefix('p').is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()))
}

/// Reads the promise at `node`; files are named from `base` on.
pub(super) fn read(fields: &Fields<'_>, node: &Node, base: &Path) -> Result<Promised, Fault> {
    not_of_leftovers(fields, COMPUTED)?;
    one_mode(fields, "percentiles are planned for one stream of requests")?;
    let points = points(node)?;
    let time = fields.need("execution", "execution: 8ms, or execution: {mean: 8ms, wcet: 10ms}")?;
    let measured = is_measured(time);
    let (arrivals, fit) = arrivals(fields.need("arrivals", "arrivals: {poisson: 40/s}")?, measured)?;
    if measured {
        let load = fit.map_or(PLACEHOLDER, |fit| fit.as_f64());
        let each = load / (arrivals.rate.per_ns() * f64::from(arrivals.batch));
        // Not what makes the promise impossible before anything is measured.
        let most = points.iter().map(|point| point.within.ns() / 10).min().unwrap_or(u64::MAX).clamp(1, LONGEST.ns());
        let time = Duration::from_ns((each as u64).clamp(1, most));
        let service = ServiceTime::Constant { time };
        let measured = Measured::Wanted { fits: vec![fit] };
        return Ok(Promised { measured, ..Promised::of(Promise::Percentiles { points, arrivals, service }) });
    }
    let service = execution(time, base)?;
    Ok(Promised::of(Promise::Percentiles { points, arrivals, service }))
}

pub(crate) fn points(node: &Node) -> Result<Vec<Within>, Fault> {
    points_of(node.entries().unwrap_or_default().iter())
}

/// Those that are written between other keys.
pub(crate) fn points_of<'a>(entries: impl Iterator<Item = &'a (Text, Node)>) -> Result<Vec<Within>, Fault> {
    let mut points: Vec<(Within, &Node)> = Vec::new();
    for (key, value) in entries {
        let percentile: Percentile = key
            .text
            .parse()
            .map_err(|_| Fault::new(key.span, format!("'{}' is not a percentile", shown(&key.text)), POINT))?;
        if points.iter().any(|(point, _)| point.percentile == percentile) {
            return Err(Fault::new(
                key.span,
                format!("{percentile} is written twice"),
                "expected each percentile once; delete one of the two",
            ));
        }
        let within = duration(value)?;
        if within.is_zero() {
            return Err(value.fault("nothing is done in no time", POINT));
        }
        points.push((Within { percentile, within }, value));
    }
    points.sort_by_key(|(point, _)| point.percentile);
    let idle = points.windows(2).find(|pair| pair[0].0.within >= pair[1].0.within);
    if let Some([(lower, node), (higher, _)]) = idle {
        let found = format!("{lower} says nothing, as {higher} is promised");
        return Err(node
            .fault(found, format!("expected less than {} for {}, or leave it out", higher.within, lower.percentile)));
    }
    Ok(points.into_iter().map(|(point, _)| point).collect())
}

/// With the share of a core that they are to make, where the rate follows from measuring.
fn arrivals(node: &Node, measured: bool) -> Result<(Arrivals, Option<Bandwidth>), Fault> {
    let fields = ARRIVALS.read(node, node.span)?;
    let poisson = fields.need("poisson", "arrivals: {poisson: 40/s}")?;
    let fit = fit(poisson)?;
    if fit.is_some() && !measured {
        return Err(poisson
            .fault("a rate that follows from measuring needs something measured", "expected execution: measured"));
    }
    let found = match fit.and_then(|_| Rate::of(1, PLACEHOLDER_GAP)) {
        Some(placeholder) => placeholder,
        None => rate(poisson)?,
    };
    let batch = fields.get("batch").map(|node| count(node, "a number of requests that come at once", 1..=BATCH));
    Ok((Arrivals { rate: found, batch: batch.transpose()?.unwrap_or(1) }, fit))
}

/// How often a request comes.
pub(crate) fn rate(node: &Node) -> Result<Rate, Fault> {
    let expected = "expected how often a request comes, such as 40/s";
    let found: Rate = parsed(node, expected)?;
    match found.is_zero() {
        true => Err(node.fault("nothing ever comes at this rate", expected)),
        false => Ok(found),
    }
}

/// The processor time of a request.
pub(super) fn execution(node: &Node, base: &Path) -> Result<ServiceTime, Fault> {
    if !matches!(node.kind, Kind::Map(_)) {
        text(node, TIME)?;
        return Ok(ServiceTime::Constant { time: time(node)? });
    }
    let fields = EXECUTION.read(node, node.span)?;
    let Some(histogram) = fields.get("histogram") else {
        let mean_node = fields.need("mean", "execution: {mean: 8ms, wcet: 10ms}")?;
        let (mean, wcet) = (time(mean_node)?, time(fields.need("wcet", "execution: {mean: 8ms, wcet: 10ms}")?)?);
        if mean > wcet {
            let found = format!("a mean of {mean} is more than the longest, {wcet}");
            return Err(mean_node.fault(found, "expected a mean of at most wcet"));
        }
        return Ok(ServiceTime::Bounded { mean, wcet });
    };
    for key in ["mean", "wcet"] {
        fields.forbid(
            key,
            &format!("'{key}' does not go with 'histogram', which has all times"),
            "leave one of the two out",
        )?;
    }
    measured(histogram, base)
}

fn time(node: &Node) -> Result<Duration, Fault> {
    let time = duration(node)?;
    match time {
        Duration::ZERO => Err(node.fault("a request of nothing is none", TIME)),
        time if time > LONGEST => Err(node.fault(format!("{time} is more than an hour"), TIME)),
        time => Ok(time),
    }
}

/// The execution times of a profile.
fn measured(node: &Node, base: &Path) -> Result<ServiceTime, Fault> {
    let name = text(
        node,
        "expected a profile, as 'giusto measure execution --samples' writes it, such as profiles/search.csv",
    )?;
    let unreadable = |error: SiteError| match error {
        SiteError::File { found, expected, .. } => node.fault(format!("'{}': {found}", shown(name)), expected),
        SiteError::Text(at) => node.fault(format!("'{}', line {}: {}", shown(name), at.line, at.found), at.expected),
    };
    let (_, text) = PROFILE.read(&base.join(name)).map_err(unreadable)?;
    let expected = "expected a profile (formats/profile.md): measure it with 'giusto measure execution'";
    let profile = Profile::read(text.as_bytes()).map_err(|error| {
        let error = error.to_string();
        let (found, expected) = error.split_once("; ").unwrap_or((&error, expected));
        node.fault(format!("'{}': {}", shown(name), shown(found)), expected)
    })?;
    let longest = profile
        .execution
        .iter()
        .copied()
        .max()
        .ok_or_else(|| node.fault(format!("'{}' has no request", shown(name)), expected))?;
    let part = longest.div_ceil(PARTS);
    let mut times = BTreeMap::new();
    for time in &profile.execution {
        *times.entry(time.div_ceil(part) * part).or_insert(0u32) += 1;
    }
    let times = times.into_iter().map(|(time, requests)| (Duration::from_ns(time), requests)).collect();
    Ok(ServiceTime::Measured { from: name.to_string(), times })
}
