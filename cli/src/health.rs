//! `giusto status`: what requests and jobs take, how the promises about it stand, and where none of it is seen.

use crate::table::{aligned, time};
use giusto_daemon::{
    PointStatus, ResponseStatus, ServiceStatus, StandingStatus, Status, SupplyPastStatus, SupplyStatus,
};
use giusto_verify::{Cause, Verdict};

/// Tables of the services and paths of which something is seen, and what is observed of each.
pub(crate) fn lines(status: &Status) -> Vec<String> {
    let services = &status.services;
    let mut lines = seen(status);
    let supplied = services.iter().filter_map(|service| Some((service, service.supply.as_ref()?)));
    let mut rows: Vec<Vec<String>> = supplied.map(|(service, supply)| periods(service, supply)).collect();
    if !rows.is_empty() {
        let heads = ["supply", "budget / period", "last minute", "last hour", "last day", "periods", "full", "missed"];
        rows.insert(0, heads.map(String::from).to_vec());
        lines.push(String::new());
        lines.extend(aligned(&rows, &[2, 3, 4, 5, 6, 7]));
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for service in services {
        let Some(observed) = &service.observed else { continue };
        if rows.last().is_none_or(|row| row[0] != service.name) {
            rows.push(vec![service.name.clone(), observed.by.to_string(), observed.why.clone()]);
        }
    }
    rows.extend(status.paths.iter().map(|path| {
        let by = if path.responses.is_some() { "spans" } else { "none" };
        let why = match (&path.problem, &path.responses) {
            (Some(problem), _) => problem.clone(),
            (None, Some(_)) => format!("of {}, ten seconds after they began", path.through.join(", ")),
            (None, None) => {
                "the site does not say where its services send spans: observe: {otlp: 127.0.0.1:4318}".into()
            }
        };
        vec![path.name.clone(), by.into(), why]
    }));
    if !rows.is_empty() {
        rows.insert(0, ["observed", "by", "why"].map(String::from).to_vec());
        lines.push(String::new());
        lines.extend(aligned(&rows, &[]));
    }
    lines
}

/// Tables of the services whose requests or jobs are seen, and of paths whose messages are; none without one.
fn seen(status: &Status) -> Vec<String> {
    let of_service = |service: &ServiceStatus| service.observed.as_ref().map_or("".into(), |one| one.by.to_string());
    let services =
        status.services.iter().filter_map(|one| Some((&*one.name, one.responses.as_ref()?, of_service(one))));
    let paths = status.paths.iter().filter_map(|one| Some((&*one.name, one.responses.as_ref()?, "spans".into())));
    let known: Vec<(&str, &ResponseStatus, String)> = services.chain(paths).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let heads = ["responses", "a second", "waiting, p50", "p50", "p99", "longest", "in all", "of"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(known.iter().map(|(name, responses, by)| last_minute(name, responses, by)));
    let mut lines = vec![String::new()];
    lines.extend(aligned(&rows, &[1, 2, 3, 4, 5, 6]));
    let heads = ["promise", "", "last minute", "last hour", "last day", "late", "left"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for (name, responses, _) in &known {
        rows.extend(responses.promised.iter().map(|point| promise(name, point)));
    }
    if rows.len() > 1 {
        lines.push(String::new());
        lines.extend(aligned(&rows, &[2, 3, 4, 5, 6]));
    }
    for (name, responses, _) in &known {
        lines.extend(responses.promised.iter().flat_map(|point| causes(name, point)));
    }
    lines
}

/// `cache, p99: 12 late as more requests came than planned`, a line a cause.
fn causes<'a>(name: &'a str, point: &'a PointStatus) -> impl Iterator<Item = String> + 'a {
    point.late_by.iter().map(move |(key, count)| {
        // Of a path: at which service.
        let known = Cause::ALL.into_iter().find(|cause| cause.key() == key);
        let cause = known.map_or_else(|| format!("most of all {key}"), |cause| cause.to_string());
        format!("{name}, {}: {count} late: {cause}", percentile(point))
    })
}

/// What a server got in its periods.
fn periods(service: &ServiceStatus, supply: &SupplyStatus) -> Vec<String> {
    let name = service.vcpu.map_or_else(|| service.name.clone(), |vcpu| format!("{}/{vcpu}", service.name));
    let server = service.budget_ns.zip(service.period_ns);
    let server = server.map_or("-".into(), |(budget, period)| format!("{} / {}", time(budget), time(period)));
    let past = |past: &SupplyPastStatus| match past.verdict {
        Verdict::Missed => format!("{} of {} MISSED", past.missed, past.periods),
        verdict => word(verdict).to_string(),
    };
    let mut row = vec![name, server];
    row.extend(supply.past.iter().map(past));
    row.resize(5, "-".into());
    row.extend([supply.periods, supply.full, supply.missed].map(|count| count.to_string()));
    row
}

/// `p99`; `every` where none may be late.
fn percentile(point: &PointStatus) -> String {
    match point.percentile < 100.0 {
        true => format!("p{}", point.percentile),
        false => "every".into(),
    }
}

fn last_minute(name: &str, responses: &ResponseStatus, by: &str) -> Vec<String> {
    let known = |ns: Option<u64>| ns.map_or("-".into(), time);
    let connections = responses.connections.iter().map(|(protocol, count)| format!("{count} {protocol}"));
    let of = match responses.connections.is_empty() {
        true => by.to_string(),
        false => connections.collect::<Vec<_>>().join(", "),
    };
    let mut row = vec![name.to_string()];
    match responses.past.first() {
        Some(minute) => row.extend([
            format!("{:.1}", minute.requests as f64 / minute.seconds.max(1) as f64),
            known(minute.wait_p50_ns),
            known(minute.p50_ns),
            known(minute.p99_ns),
            known(minute.max_ns),
        ]),
        None => row.extend(std::iter::repeat_n("-".to_string(), 5)),
    }
    row.extend([responses.answered.to_string(), of]);
    row
}

fn promise(name: &str, point: &PointStatus) -> Vec<String> {
    let mut row =
        vec![name.to_string(), format!("{} ≤ {}", percentile(point), giusto_model::Duration::from_ns(point.within_ns))];
    row.extend(point.past.iter().map(standing));
    row.resize(5, "-".into());
    row.extend([point.late.to_string(), format!("{:.1} %", point.left * 100.0)]);
    row
}

/// `12.345 ms kept`; `?` where the interval straddles what was promised.
fn standing(standing: &StandingStatus) -> String {
    standing.now_ns.map_or("-".into(), |now| format!("{} {:<6}", time(now), word(standing.verdict)))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Missed => "MISSED",
        Verdict::CannotTell => "?",
    }
}
