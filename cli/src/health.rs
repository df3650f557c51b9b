//! `giusto status`: what requests and jobs take, how the promises about it stand, and where none of it is seen.

use crate::table::{aligned, time};
use giusto_daemon::{PointStatus, ResponseStatus, ServiceStatus, StandingStatus, SupplyPastStatus, SupplyStatus};
use giusto_verify::{Cause, Verdict};

/// Tables of the services of which something is seen, and what is observed of each.
pub(crate) fn lines(services: &[ServiceStatus]) -> Vec<String> {
    let mut lines = seen(services);
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
    if !rows.is_empty() {
        rows.insert(0, ["observed", "by", "why"].map(String::from).to_vec());
        lines.push(String::new());
        lines.extend(aligned(&rows, &[]));
    }
    lines
}

/// Tables of the services whose requests or jobs are seen; none without one.
fn seen(services: &[ServiceStatus]) -> Vec<String> {
    let known: Vec<(&ServiceStatus, &ResponseStatus)> =
        services.iter().filter_map(|service| Some((service, service.responses.as_ref()?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let heads = ["responses", "a second", "waiting, p50", "p50", "p99", "longest", "in all", "of"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(known.iter().map(|(service, responses)| last_minute(service, responses)));
    let mut lines = vec![String::new()];
    lines.extend(aligned(&rows, &[1, 2, 3, 4, 5, 6]));
    let heads = ["promise", "", "last minute", "last hour", "last day", "late", "left"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for (service, responses) in &known {
        rows.extend(responses.promised.iter().map(|point| promise(&service.name, point)));
    }
    if rows.len() > 1 {
        lines.push(String::new());
        lines.extend(aligned(&rows, &[2, 3, 4, 5, 6]));
    }
    for (service, responses) in known {
        lines.extend(responses.promised.iter().flat_map(|point| causes(&service.name, point)));
    }
    lines
}

/// `cache, p99: 12 late as more requests came than planned`, a line a cause.
fn causes<'a>(name: &'a str, point: &'a PointStatus) -> impl Iterator<Item = String> + 'a {
    point.late_by.iter().map(move |(key, count)| {
        let cause = Cause::ALL.into_iter().find(|cause| cause.key() == key).unwrap_or(Cause::Unknown);
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

fn last_minute(service: &ServiceStatus, responses: &ResponseStatus) -> Vec<String> {
    let known = |ns: Option<u64>| ns.map_or("-".into(), time);
    let connections = responses.connections.iter().map(|(protocol, count)| format!("{count} {protocol}"));
    let of = match &service.observed {
        Some(observed) if responses.connections.is_empty() => observed.by.to_string(),
        _ => connections.collect::<Vec<_>>().join(", "),
    };
    let mut row = vec![service.name.clone()];
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
