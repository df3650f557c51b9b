//! The status for Prometheus: OpenMetrics text, over the control socket and, where asked for, HTTP.

use crate::http::{answer, head};
use crate::listening::{Client, Server};
use crate::{
    CoreStatus, Error, Host, LinkStatus, PointStatus, ResponseStatus, ServiceState, ServiceStatus, StandingStatus,
    Status,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// The HTTP side, until it is dropped.
#[derive(Debug)]
pub(crate) struct Metrics {
    _server: Server,
}

impl Metrics {
    /// Answers `GET /metrics` at `address`. Errors: it cannot be listened on.
    pub(crate) fn listen(address: SocketAddr, host: Arc<dyn Host>) -> Result<Metrics, Error> {
        let cannot = |source| Error::Io { doing: format!("listen on {address} for --metrics"), source };
        if !address.ip().is_loopback() {
            tracing::warn!(
                "metrics at {address}: every host that reaches it can read the names and loads of all services"
            );
        }
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let serve = move |mut client: Client<TcpStream>| {
            if let Some(answered) = head(&mut client).ok().map(|head| respond(&head, host.as_ref())) {
                client.renew();
                let _ = client.write_all(answered.as_bytes());
            }
        };
        let server = Server::start("giusto-metrics", listener, serve, drop).map_err(cannot)?;
        Ok(Metrics { _server: server })
    }
}

fn respond(head: &[u8], host: &dyn Host) -> String {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words = String::from_utf8_lossy(line);
    let mut words = words.split(' ');
    let (status, more, kind, body) = match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some("/metrics"), Some("HTTP/1.1" | "HTTP/1.0")) => {
            ("200 OK", "", "application/openmetrics-text; version=1.0.0; charset=utf-8", text(&host.status()))
        }
        (Some("GET"), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => {
            ("404 Not Found", "", "text/plain", "only /metrics is here\n".into())
        }
        (Some(_), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => {
            ("405 Method Not Allowed", "Allow: GET\r\n", "text/plain", "only GET /metrics is answered\n".into())
        }
        _ => ("400 Bad Request", "", "text/plain", "expected GET /metrics HTTP/1.1\n".into()),
    };
    answer(status, more, kind, &body)
}

/// The status as OpenMetrics text.
pub(crate) fn text(status: &Status) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown(status.clone())));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => String::new(), // a String takes everything
    }
}

#[derive(Debug)]
struct Shown(Status);

type Labels = Vec<(&'static str, String)>;

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let status = &self.0;
        let host = ("host", status.host.clone());
        let mut giusto = |name, help, unit, label: Option<(&'static str, String)>, value| {
            let labels = std::iter::once(host.clone()).chain(label).collect();
            family(&mut encoder, name, help, unit, false, std::iter::once((labels, value)))
        };
        let version = Some(("version", status.version.clone()));
        giusto("giusto_build_info", "The release that runs here", None, version, 1.0)?;
        let since = seconds(status.since_ns);
        giusto("giusto_start_time", "When it started, in Unix time", Some(Unit::Seconds), None, since)?;
        let state = Some(("state", status.state.to_string()));
        giusto("giusto_state", "What it is doing", None, state, 1.0)?;
        if let Some(modes) = &status.modes {
            let mode = Some(("mode", modes.mode.clone().unwrap_or_default()));
            giusto("giusto_mode_info", "The mode in force; empty: none that the site names", None, mode, 1.0)?;
            let lost = modes.members.iter().filter(|member| member.connected == Some(false) || !member.sound).count();
            giusto(
                "giusto_agents_missing",
                "Agents that are not connected or do not run their mode",
                None,
                None,
                lost as f64,
            )?;
            if let Some(last) = modes.changes.last() {
                let took = seconds(last.took_ns);
                giusto("giusto_mode_change", "What the last change took", Some(Unit::Seconds), None, took)?;
            }
        }
        giusto(
            "giusto_cpu_recent",
            "What giusto itself took in the last second, as a share of a core",
            None,
            None,
            status.cpu_recent,
        )?;
        giusto("giusto_warnings", "What is wrong now", None, None, status.warnings.len() as f64)?;
        let otlp = status.otlp.iter().map(|otlp| (vec![host.clone()], otlp.dropped as f64));
        let help = "Late jobs and metrics that the collector of OpenTelemetry did not get";
        family(&mut encoder, "giusto_otlp_dropped", help, None, true, otlp)?;
        let mut services = |name, help, unit, counts, value: fn(&ServiceStatus) -> Option<f64>| {
            let known = status.services.iter().filter_map(|service| Some((labels(service), value(service)?)));
            family(&mut encoder, name, help, unit, counts, known)
        };
        let time = Some(Unit::Seconds);
        services("giusto_service_supply", "Processor time that it got", time.clone(), true, |s| {
            Some(seconds(s.supplied_ns))
        })?;
        services("giusto_service_budget", "Its server's budget", time.clone(), false, |s| s.budget_ns.map(seconds))?;
        services("giusto_service_period", "Its server's period", time.clone(), false, |s| s.period_ns.map(seconds))?;
        services("giusto_service_left", "What is left of its budget", time.clone(), false, |s| {
            s.left_ns.map(|ns| ns as f64 / 1e9)
        })?;
        services("giusto_service_overrun_max", "The most it had beyond a budget", time.clone(), false, |s| {
            s.overrun_max_ns.map(seconds)
        })?;
        services("giusto_service_boosted", "Processor time above its server", time.clone(), true, |s| {
            s.boosted_ns.map(seconds)
        })?;
        services("giusto_service_replenishments", "Budgets given", None, true, |s| s.replenishments.map(|n| n as f64))?;
        services("giusto_service_throttled", "Times that its budget was used up", None, true, |s| {
            s.depletions.map(|n| n as f64)
        })?;
        services("giusto_service_late_stops", "Times that it was not stopped in time", None, true, |s| {
            s.late_stops.map(|n| n as f64)
        })?;
        services("giusto_service_full", "Periods in which it got its whole budget", None, true, |s| {
            s.supply.as_ref().map(|supply| supply.full as f64)
        })?;
        services(
            "giusto_service_misses",
            "Periods in which it wanted its budget and did not get it",
            None,
            true,
            |s| s.misses.map(|n| n as f64),
        )?;
        services(
            "giusto_service_demand_planned",
            "What it was planned to ask for, as a share of a core",
            None,
            false,
            |s| s.demand.as_ref().map(|demand| demand.planned),
        )?;
        services("giusto_service_demand", "What it took lately, as a share of a core", None, false, |s| {
            s.demand.as_ref().map(|demand| demand.recent)
        })?;
        services("giusto_service_drifted", "1: it asks for more than was planned", None, false, |s| {
            s.demand.as_ref().map(|demand| f64::from(u8::from(demand.drifted_since_ns.is_some())))
        })?;
        services("giusto_service_restarts", "Times that it was started again", None, true, |s| {
            s.restarts.map(|n| n as f64)
        })?;
        services(
            "giusto_service_escaped",
            "Processes that had left its cgroup and were brought back",
            None,
            true,
            |s| s.escaped.map(|n| n as f64),
        )?;
        services("giusto_service_up", "1: it is there, 0: it has ended", None, false, |s| {
            let gone = [ServiceState::Ended, ServiceState::Restarting, ServiceState::Awaited].contains(&s.state);
            Some(f64::from(u8::from(!gone)))
        })?;
        services("giusto_service_threads", "Its threads", None, false, |s| Some(f64::from(s.threads)))?;
        responses(&mut encoder, status)?;
        let mut cores = |name, help, unit, counts, value: fn(&CoreStatus) -> Option<f64>| {
            let label = |core: &CoreStatus| vec![("core", core.core.to_string())];
            let known = status.cores.iter().filter_map(|core| Some((label(core), value(core)?)));
            family(&mut encoder, name, help, unit, counts, known)
        };
        cores("giusto_core_manager_cpu", "Processor time that the manager took", time.clone(), true, |c| {
            c.manager_cpu_ns.map(seconds)
        })?;
        cores("giusto_core_manager_wakeups_per_second", "The manager's wake-ups a second", None, false, |c| {
            c.wakeups_per_s
        })?;
        cores(
            "giusto_core_manager_lateness_max",
            "How late it woke up at most, last second",
            time.clone(),
            false,
            |c| c.lateness_max_ns.map(seconds),
        )?;
        cores("giusto_core_guarded", "Times that its servers were stopped as the manager was late", None, true, |c| {
            c.guarded.map(|n| n as f64)
        })?;
        cores("giusto_core_hi", "Time in which high criticality needed more than usual", time, true, |c| {
            c.criticality.map(|mode| seconds(mode.hi_ns))
        })?;
        let mut links = |name, help, counts, value: fn(&LinkStatus) -> Option<f64>| {
            let known = status.network.iter().filter_map(|link| Some((interface(link), value(link)?)));
            family(&mut encoder, name, help, None, counts, known)
        };
        links("giusto_interface_passed", "Packets that its bucket let through", true, |l| l.passed.map(|n| n as f64))?;
        links("giusto_interface_dropped", "Packets that its bucket dropped", true, |l| l.dropped.map(|n| n as f64))?;
        links("giusto_interface_bypassed", "Packets that bypassed its bucket and were dropped", true, |l| {
            l.bypassed.map(|n| n as f64)
        })?;
        links(
            "giusto_interface_demoted",
            "1: its threads have the lowest priority, as it overloads the host",
            false,
            |l| Some(f64::from(u8::from(l.demoted))),
        )?;
        links("giusto_interface_packets_per_second", "Packets both ways, last second", false, |l| {
            Some(l.packets_per_s)
        })?;
        links("giusto_interface_priority", "SCHED_FIFO priority of its threads, 0: SCHED_OTHER", false, |l| {
            Some(f64::from(l.priority.unwrap_or(0)))
        })?;
        links(
            "giusto_interface_moved",
            "1: its threads process its packets, 0: something else does",
            false,
            |l| match l.proof {
                giusto_network::Proof::Moved => Some(1.0),
                giusto_network::Proof::NotMoved { .. } => Some(0.0),
                giusto_network::Proof::Idle => None,
            },
        )
    }
}

/// What requests took, and how promises about it stand.
fn responses(encoder: &mut DescriptorEncoder, status: &Status) -> Result<(), fmt::Error> {
    // A path by its name, which is none of a service.
    let services = status.services.iter().filter_map(|one| Some((one.name.as_str(), one.responses.as_ref()?)));
    let paths = status.paths.iter().filter_map(|one| Some((one.name.as_str(), one.responses.as_ref()?)));
    let known: Vec<(&str, &ResponseStatus)> = services.chain(paths).collect();
    if known.is_empty() {
        return Ok(());
    }
    let (time, help) =
        (Some(Unit::Seconds), "What requests took, from the first byte's arrival to the answer's last byte");
    let mut metric = encoder.encode_descriptor("giusto_response", help, time.as_ref(), MetricType::Histogram)?;
    for (service, responses) in &known {
        let labels = named(service);
        let mut one = metric.encode_family(&labels)?;
        one.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
            seconds(responses.total_ns),
            responses.answered,
            &responses.buckets(),
            None,
        )?;
    }
    let unseen = known.iter().map(|(service, responses)| (named(service), responses.unseen as f64));
    let help = "Times that a connection was not understood for a while";
    family(encoder, "giusto_response_unseen", help, None, true, unseen)?;
    let by = known.iter().flat_map(|(service, responses)| {
        let causes = |point: &PointStatus| {
            let labels = percentile(service, point);
            let cause = |(cause, count): (&String, &u64)| {
                (labels.iter().cloned().chain([("cause", cause.clone())]).collect(), *count as f64)
            };
            point.late_by.iter().map(cause).collect::<Vec<_>>()
        };
        responses.promised.iter().flat_map(causes).collect::<Vec<_>>()
    });
    family(
        encoder,
        "giusto_promise_late_by",
        "Requests that took longer than promised, by what was probably the cause",
        None,
        true,
        by,
    )?;
    let mut points = |name, help, unit, counts, value: fn(&PointStatus) -> f64| {
        let points = known.iter().flat_map(|(service, responses)| {
            responses.promised.iter().map(|point| (percentile(service, point), value(point)))
        });
        family(encoder, name, help, unit, counts, points)
    };
    points("giusto_promise_within", "The response time that was promised", time.clone(), false, |point| {
        seconds(point.within_ns)
    })?;
    points("giusto_promise_late", "Requests that took longer than promised", None, true, |point| point.late as f64)?;
    points("giusto_promise_allowed", "The share of requests that may take longer", None, false, |point| {
        ((100.0 - point.percentile) * 1e3).round() / 1e5
    })?;
    points(
        "giusto_promise_left",
        "What is left of those that may be late, by the last day; negative: broken",
        None,
        false,
        |p| p.left,
    )?;
    let mut past = |name, help, unit, value: fn(&StandingStatus) -> Option<f64>| {
        let points = known.iter().flat_map(|(service, responses)| {
            let windows = |point: &PointStatus| {
                let labels = percentile(service, point);
                let past = ["1m", "1h", "1d"].into_iter().zip(point.past.clone());
                past.filter_map(move |(window, standing)| {
                    let labels = labels.iter().cloned().chain([("window", window.to_string())]).collect();
                    Some((labels, value(&standing)?))
                })
                .collect::<Vec<_>>()
            };
            responses.promised.iter().flat_map(windows).collect::<Vec<_>>()
        });
        family(encoder, name, help, unit, false, points)
    };
    past("giusto_promise_now", "The percentile as it is", time, |standing| standing.now_ns.map(seconds))?;
    past(
        "giusto_promise_burn",
        "Late requests over those that may be late; above 1 the promise breaks",
        None,
        |standing| Some(standing.burn),
    )
}

fn named(service: &str) -> Labels {
    vec![("service", service.into())]
}

fn percentile(service: &str, point: &PointStatus) -> Labels {
    vec![("service", service.into()), ("percentile", point.percentile.to_string())]
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn labels(service: &ServiceStatus) -> Labels {
    let number = |value: Option<u32>| value.map(|value| value.to_string()).unwrap_or_default();
    vec![("service", service.name.clone()), ("vcpu", number(service.vcpu)), ("core", number(service.core))]
}

fn interface(link: &LinkStatus) -> Labels {
    let class = link.class.map_or("uplink".into(), |class| class.to_string());
    let service = link.service.clone().unwrap_or_default();
    vec![("interface", link.name.clone()), ("service", service), ("class", class), ("core", link.core.to_string())]
}

/// A family of counters (`counts`) or gauges. Nothing where no value is known.
fn family(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    counts: bool,
    values: impl Iterator<Item = (Labels, f64)>,
) -> Result<(), fmt::Error> {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let kind = if counts { MetricType::Counter } else { MetricType::Gauge };
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for (labels, value) in values {
        let one = metric.encode_family(&labels)?;
        match counts {
            true => ConstCounter::new(value).encode(one)?,
            false => ConstGauge::new(value).encode(one)?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
