//! Messages of OTLP 1.x in JSON: the metrics of [`crate::metrics`], and late jobs and messages as spans.

use crate::{Late, LateJob, LateMessage, ObservedBy};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`, `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER`, `STATUS_CODE_ERROR`.
const CUMULATIVE: u32 = 2;
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;
const ERROR: u32 = 2;

/// Who tells.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    pub(super) version: String,
    pub(super) host: String,
}

impl Teller {
    fn resource(&self, service: &str) -> Value {
        json!({ "attributes": [text("service.name", service), text("host.name", &self.host)] })
    }

    fn scope(&self) -> Value {
        json!({ "name": giusto_traces::OWN_SCOPE, "version": self.version })
    }

    /// `ExportTraceServiceRequest`. Each with its identity, of 24 bytes by chance; `unix_ns` is added to times of jobs. A message
    /// stays in its own trace, as a span of giusto.
    pub(super) fn spans(&self, late: &[(Late, [u8; 24])], unix_ns: u64) -> Value {
        let mut by_service: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (one, identity) in late {
            let (service, span) = match one {
                Late::Job(job) => (job.service.as_str(), of_job(job, identity, unix_ns)),
                Late::Message(message) => ("giusto", of_message(message, identity)),
            };
            by_service.entry(service).or_default().push(span);
        }
        let of = |(service, spans): (&str, Vec<Value>)| {
            let scope = json!({ "scope": self.scope(), "spans": spans });
            json!({ "resource": self.resource(service), "scopeSpans": [scope] })
        };
        json!({ "resourceSpans": by_service.into_iter().map(of).collect::<Vec<_>>() })
    }

    /// `ExportMetricsServiceRequest` of what OpenMetrics text tells: counted since `since_ns`, as it stands at `now_ns` (Unix
    /// time).
    pub(super) fn metrics(&self, open_metrics: &str, since_ns: u64, now_ns: u64) -> Value {
        let at = json!({ "startTimeUnixNano": since_ns.to_string(), "timeUnixNano": now_ns.to_string() });
        let metrics: Vec<Value> = families(open_metrics).into_iter().map(|family| family.metric(&at)).collect();
        json!({"resourceMetrics": [{
            "resource": self.resource("giusto"),
            "scopeMetrics": [{"scope": self.scope(), "metrics": metrics}],
        }]})
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_job(job: &LateJob, identity: &[u8; 24], unix_ns: u64) -> Value {
    let (name, kind) = match job.by {
        ObservedBy::Requests => ("late request", SERVER),
        _ => ("late job", INTERNAL),
    };
    let attributes = [
        number("process.pid", job.process.into()),
        number("thread.id", job.thread.into()),
        number("giusto.within_ns", job.within_ns),
        text("giusto.cause", job.cause.key()),
    ];
    let times = (job.from_ns + unix_ns, job.to_ns + unix_ns);
    span((hex(&identity[..16]), identity), (name, kind), times, &attributes, job.within_ns)
}

fn of_message(message: &LateMessage, identity: &[u8; 24]) -> Value {
    // Some have 64 bits; as those of OTLP they begin with zeros.
    let padded = format!("{:0>32}", message.trace);
    let is_an_id = padded.len() == 32 && padded.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_an_id = is_an_id && padded.bytes().any(|byte| byte != b'0');
    let trace = if is_an_id { padded } else { hex(&identity[..16]) };
    let attributes = [
        text("giusto.trace", &message.trace),
        text("giusto.path", &message.path),
        number("giusto.within_ns", message.within_ns),
        text("giusto.cause", &format!("at {}", message.at)),
    ];
    let times = (message.from_unix_ns, message.from_unix_ns.saturating_add(message.took_ns));
    span((trace, identity), ("late message", INTERNAL), times, &attributes, message.within_ns)
}

fn span(
    (trace, identity): (String, &[u8; 24]),
    (name, kind): (&str, u32),
    (from, to): (u64, u64),
    attributes: &[Value],
    within_ns: u64,
) -> Value {
    let within = giusto_model::Duration::from_ns(within_ns);
    json!({
        "traceId": trace,
        "spanId": hex(&identity[16..]),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": from.to_string(),
        "endTimeUnixNano": to.to_string(),
        "attributes": attributes,
        "status": {"code": ERROR, "message": format!("it was promised within {within}")},
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// JSON has no infinity.
fn double(value: f64) -> Value {
    match value {
        _ if value.is_finite() => value.into(),
        _ if value.is_nan() => "NaN".into(),
        _ if value > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

/// What follows the name, the labels, the value.
type Sample = (String, Vec<(String, String)>, f64);

/// A family of OpenMetrics.
#[derive(Debug, Default, PartialEq)]
struct Family {
    name: String,
    kind: String,
    unit: String,
    help: String,
    samples: Vec<Sample>,
}

impl Family {
    /// `at`: the times of each of its points.
    fn metric(self, at: &Value) -> Value {
        let Family { name, kind, unit, help, samples } = self;
        let point = |labels: &[(String, String)], more: Value| {
            let mut point = at.clone();
            let attributes: Vec<Value> = labels.iter().map(|(key, value)| text(key, value)).collect();
            point["attributes"] = attributes.into();
            point
                .as_object_mut()
                .into_iter()
                .for_each(|point| point.extend(more.as_object().cloned().unwrap_or_default()));
            point
        };
        let unit = if unit == "seconds" { "s" } else { "1" };
        let mut metric = json!({ "name": name, "unit": unit, "description": help });
        let values = || samples.iter().map(|(_, labels, value)| point(labels, json!({ "asDouble": double(*value) })));
        match kind.as_str() {
            "counter" => {
                let points: Vec<Value> = values().collect();
                metric["sum"] = json!({
                    "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
                });
            }
            "histogram" => {
                let mut series: BTreeMap<Vec<(String, String)>, Histogram> = BTreeMap::new();
                for (suffix, mut labels, value) in samples {
                    let end = labels.iter().position(|(key, _)| key == "le").map(|at| labels.remove(at).1);
                    series.entry(labels).or_default().take(&suffix, end.as_deref(), value);
                }
                let points: Vec<Value> = series.iter().map(|(labels, one)| point(labels, one.point())).collect();
                metric["histogram"] = json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
            }
            _ => metric["gauge"] = json!({ "dataPoints": values().collect::<Vec<_>>() }),
        }
        metric
    }
}

/// A series of a histogram: its counts are those of all that are at most as large.
#[derive(Default)]
struct Histogram {
    ends: Vec<f64>,
    below: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn take(&mut self, suffix: &str, end: Option<&str>, value: f64) {
        match (suffix, end) {
            ("_sum", _) => self.sum = value,
            ("_count", _) => self.count = value as u64,
            (_, Some(end)) => {
                self.ends.extend(end.parse::<f64>().ok().filter(|end| end.is_finite()));
                self.below.push(value as u64);
            }
            _ => {}
        }
    }

    fn point(&self) -> Value {
        let before = std::iter::once(0).chain(self.below.iter().copied());
        let counts: Vec<String> =
            self.below.iter().zip(before).map(|(now, before)| (now - before).to_string()).collect();
        json!({"count": self.count.to_string(), "sum": double(self.sum), "bucketCounts": counts, "explicitBounds": self.ends})
    }
}

/// Reads the text that [`crate::metrics`] writes; what is not understood is left out.
fn families(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(what), Some(name), rest) = (words.next(), words.next(), words.next().unwrap_or_default()) else {
                continue;
            };
            if families.last().is_none_or(|last| last.name != name) {
                families.push(Family { name: name.into(), ..Family::default() });
            }
            let Some(last) = families.last_mut() else { continue };
            match what {
                "TYPE" => last.kind = rest.into(),
                "UNIT" => last.unit = rest.into(),
                _ => last.help = rest.into(),
            }
        } else if let (Some(last), Some((series, value))) = (families.last_mut(), line.rsplit_once(' ')) {
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffix = name.strip_prefix(last.name.as_str());
            if let (Some(suffix), Ok(value)) = (suffix, value.parse()) {
                last.samples.push((suffix.into(), read_labels(labels), value));
            }
        }
    }
    families.retain(|family| !family.samples.is_empty());
    families
}

/// `a="b",c="d"}`
fn read_labels(mut rest: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while let Some((key, quoted)) = rest.trim_start_matches(',').split_once("=\"") {
        let (mut value, mut chars) = (String::new(), quoted.char_indices());
        let mut end = quoted.len();
        while let Some((at, next)) = chars.next() {
            match next {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        labels.push((key.into(), value));
        rest = &quoted[end..];
    }
    labels
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
