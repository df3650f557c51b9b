//! Spans of distributed traces: OTLP in JSON, as the collector of OpenTelemetry writes it to a file (a message a line, or one in
//! all), and what Jaeger exports.

use crate::Error;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;

/// One operation of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it is part of, from the first request to the last answer.
    pub trace: String,
    /// Its own name in the trace.
    pub id: String,
    /// The span that it is done for; `None`: the first one.
    pub parent: Option<String>,
    /// Who did it.
    pub service: String,
    /// The process, where it is told.
    pub pid: Option<u32>,
    /// What was done.
    pub name: String,
    /// Whether the service waits for another one meanwhile, or hands something over: a client's or a producer's span.
    pub waits: bool,
    /// Since 1970, in ns.
    pub start: u64,
    /// After `start`, or at it.
    pub end: u64,
}

/// Spans, and how many were left out as they do not say when, or end before they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// In the order of the file.
    pub all: Vec<Span>,
    /// Left out.
    pub refused: u64,
}

const EXPECTED: &str =
    "expected spans in JSON: OTLP ({\"resourceSpans\": ...}), in one object or one a line, or an export of Jaeger \
                        ({\"data\": ...})";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Otlp {
    resource_spans: Vec<Resource>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: Attributes,
    scope_spans: Vec<Scope>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Attributes {
    attributes: Vec<Attribute>,
}
#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default)]
    value: Value,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Scope {
    spans: Vec<OtlpSpan>,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OtlpSpan {
    trace_id: String,
    span_id: String,
    parent_span_id: String,
    name: String,
    kind: Value,
    start_time_unix_nano: Value,
    end_time_unix_nano: Value,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Jaeger {
    spans: Vec<JaegerSpan>,
    processes: BTreeMap<String, Process>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct JaegerSpan {
    #[serde(rename = "traceID")]
    trace: String,
    #[serde(rename = "spanID")]
    id: String,
    #[serde(rename = "operationName")]
    name: String,
    references: Vec<Reference>,
    /// In us.
    #[serde(rename = "startTime")]
    start: u64,
    duration: u64,
    #[serde(rename = "processID")]
    process: String,
    tags: Vec<Tag>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference {
    #[serde(rename = "spanID")]
    id: String,
}
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Process {
    service_name: String,
    tags: Vec<Tag>,
}
#[derive(Deserialize)]
struct Tag {
    key: String,
    #[serde(default)]
    value: Value,
}

/// 64 bits are texts in JSON, but some write them as numbers.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads all spans of a file. Errors: it is none of these, or a part of it is not; with its line where there are several.
/// O(file), all of which is kept.
pub fn read_spans(from: &mut impl BufRead) -> Result<Spans, Error> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    let text = text.trim_start_matches('\u{feff}');
    let mut found = Spans::default();
    let whole: Result<Value, _> = serde_json::from_str(text);
    match whole {
        Ok(value) => message(value, &mut found).map_err(Error::Json)?,
        Err(why) => {
            // An object a line, then; what breaks the first line breaks the file.
            let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
            for (line, one) in lines {
                let value: Result<Value, _> = serde_json::from_str(one);
                let value = match value {
                    Err(_) if found.all.is_empty() => return Err(Error::Json(format!("{why}; {EXPECTED}"))),
                    value => value.map_err(|why| why.to_string()),
                };
                let read = value.and_then(|value| message(value, &mut found));
                read.map_err(|why| Error::Json(format!("line {line}: {why}")))?;
            }
        }
    }
    match found.all.is_empty() {
        true => Err(Error::Json(format!("there is no span in it; {EXPECTED}"))),
        false => Ok(found),
    }
}

fn message(value: Value, found: &mut Spans) -> Result<(), String> {
    if value.get("resourceSpans").is_some() {
        let read: Otlp = serde_json::from_value(value).map_err(|why| why.to_string())?;
        read.resource_spans.into_iter().for_each(|resource| otlp(resource, found));
        return Ok(());
    }
    let Some(data) = value.get("data").and_then(Value::as_array) else { return Err(EXPECTED.to_string()) };
    for trace in data {
        let read = Jaeger::deserialize(trace).map_err(|why| why.to_string())?;
        read.spans.into_iter().for_each(|span| jaeger(span, &read.processes, found));
    }
    Ok(())
}

fn otlp(resource: Resource, found: &mut Spans) {
    let told = |key: &str| {
        let attribute = resource.resource.attributes.iter().find(|one| one.key == key)?;
        attribute.value.as_object()?.values().next().cloned()
    };
    let service = told("service.name").and_then(|name| Some(name.as_str()?.to_string()));
    let service = service.unwrap_or_else(|| "unnamed".into());
    let pid = told("process.pid").and_then(|pid| u32::try_from(number(&pid)?).ok());
    for one in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
        let waits = matches!(number(&one.kind), Some(3 | 4))
            || matches!(one.kind.as_str(), Some("SPAN_KIND_CLIENT" | "SPAN_KIND_PRODUCER"));
        let (start, end) = (number(&one.start_time_unix_nano), number(&one.end_time_unix_nano));
        found.take(start.zip(end), |(start, end)| Span {
            trace: one.trace_id,
            id: one.span_id,
            parent: Some(one.parent_span_id).filter(|parent| !parent.trim_matches('0').is_empty()),
            service: service.clone(),
            pid,
            name: one.name,
            waits,
            start,
            end,
        });
    }
}

fn jaeger(one: JaegerSpan, processes: &BTreeMap<String, Process>, found: &mut Spans) {
    let of = |tags: &[Tag], key: &str| tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.clone());
    let process = processes.get(&one.process);
    let pid = process.and_then(|process| of(&process.tags, "process.pid").or_else(|| of(&process.tags, "pid")));
    let kind = of(&one.tags, "span.kind");
    let times =
        one.start.checked_mul(1000).zip(one.start.checked_add(one.duration).and_then(|end| end.checked_mul(1000)));
    found.take(times.filter(|_| one.start > 0), |(start, end)| Span {
        trace: one.trace,
        id: one.id,
        parent: one.references.into_iter().next().map(|reference| reference.id),
        service: process.map_or_else(|| "unnamed".into(), |process| process.service_name.clone()),
        pid: pid.and_then(|pid| u32::try_from(number(&pid)?).ok()),
        name: one.name,
        waits: matches!(kind.as_ref().and_then(Value::as_str), Some("client" | "producer")),
        start,
        end,
    });
}

impl Spans {
    fn take(&mut self, times: Option<(u64, u64)>, span: impl FnOnce((u64, u64)) -> Span) {
        match times.filter(|(start, end)| *start > 0 && start <= end) {
            Some(times) => self.all.push(span(times)),
            None => self.refused += 1,
        }
    }
}
