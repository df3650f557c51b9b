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
    /// In what part.
    pub kind: SpanKind,
    /// Since 1970, in ns; 0: it is not told.
    pub start: u64,
    /// The same of its end.
    pub end: u64,
}

/// What part of an exchange a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Of none, or it does not say.
    Internal,
    /// It answers.
    Server,
    /// It asks, and waits.
    Client,
    /// It hands something over.
    Producer,
    /// It takes what was handed over.
    Consumer,
}

impl SpanKind {
    /// Whether it is a request of somebody else that is worked on.
    pub fn serves(self) -> bool {
        matches!(self, SpanKind::Server | SpanKind::Consumer)
    }

    /// Whether the work is done elsewhere meanwhile, or later.
    pub fn waits(self) -> bool {
        matches!(self, SpanKind::Client | SpanKind::Producer)
    }

    /// By its number in OTLP.
    pub fn of_number(number: u64) -> SpanKind {
        match number {
            2 => SpanKind::Server,
            3 => SpanKind::Client,
            4 => SpanKind::Producer,
            5 => SpanKind::Consumer,
            _ => SpanKind::Internal,
        }
    }

    /// By its number or its name in OTLP.
    fn of_otlp(value: &Value) -> SpanKind {
        let named = |name: &str| match name {
            "SPAN_KIND_SERVER" => 2,
            "SPAN_KIND_CLIENT" => 3,
            "SPAN_KIND_PRODUCER" => 4,
            "SPAN_KIND_CONSUMER" => 5,
            _ => 0,
        };
        SpanKind::of_number(number(value).or_else(|| value.as_str().map(named)).unwrap_or(0))
    }

    fn of_jaeger(name: Option<&str>) -> SpanKind {
        match name {
            Some("server") => SpanKind::Server,
            Some("client") => SpanKind::Client,
            Some("producer") => SpanKind::Producer,
            Some("consumer") => SpanKind::Consumer,
            _ => SpanKind::Internal,
        }
    }
}

impl Span {
    /// How long it took, in ns; `None`: it does not say, or ended before it began.
    pub fn length(&self) -> Option<u64> {
        self.end.checked_sub(self.start).filter(|_| self.start > 0)
    }
}

/// Spans, and how many were left out as they do not say when, or end before they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// In the order of the file.
    pub all: Vec<Span>,
    /// Left out.
    pub refused: u64,
}

/// The instrumentation scope of spans that Giusto sends itself (`giusto run --otlp`): of late requests, jobs and messages. They
/// are no work of a service, and are not read.
pub const OWN_SCOPE: &str = "giusto";

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
    scope: ScopeName,
    spans: Vec<OtlpSpan>,
}
#[derive(Deserialize, Default)]
#[serde(default)]
struct ScopeName {
    name: String,
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

/// Reads the spans of one message of OTLP in JSON (`ExportTraceServiceRequest`), also those that do not say when they were.
/// Errors: it is none. O(message).
pub fn read_otlp(message: &[u8]) -> Result<Vec<Span>, String> {
    if message.trim_ascii_start().first() != Some(&b'{') {
        return Err("it is no JSON object".into()); // a list would be read as the fields of one
    }
    let read: Otlp = serde_json::from_slice(message).map_err(|why| why.to_string())?;
    Ok(read.resource_spans.into_iter().flat_map(otlp).collect())
}

fn message(value: Value, found: &mut Spans) -> Result<(), String> {
    if value.get("resourceSpans").is_some() {
        let read: Otlp = serde_json::from_value(value).map_err(|why| why.to_string())?;
        read.resource_spans.into_iter().flat_map(otlp).for_each(|span| found.take(span));
        return Ok(());
    }
    let Some(data) = value.get("data").and_then(Value::as_array) else { return Err(EXPECTED.to_string()) };
    for trace in data {
        let read = Jaeger::deserialize(trace).map_err(|why| why.to_string())?;
        let is_own = |span: &JaegerSpan| {
            let of = |tag: &Tag| {
                matches!(tag.key.as_str(), "otel.scope.name" | "otel.library.name") && tag.value == OWN_SCOPE
            };
            span.tags.iter().any(of)
        };
        let theirs = read.spans.into_iter().filter(|span| !is_own(span));
        theirs.for_each(|span| found.take(jaeger(span, &read.processes)));
    }
    Ok(())
}

fn otlp(resource: Resource) -> Vec<Span> {
    let told = |key: &str| {
        let attribute = resource.resource.attributes.iter().find(|one| one.key == key)?;
        attribute.value.as_object()?.values().next().cloned()
    };
    let service = told("service.name").and_then(|name| Some(name.as_str()?.to_string()));
    let service = service.unwrap_or_else(|| "unnamed".into());
    let pid = told("process.pid").and_then(|pid| u32::try_from(number(&pid)?).ok());
    let span = |one: OtlpSpan| Span {
        trace: one.trace_id,
        id: one.span_id,
        parent: Some(one.parent_span_id).filter(|parent| !parent.trim_matches('0').is_empty()),
        service: service.clone(),
        pid,
        name: one.name,
        kind: SpanKind::of_otlp(&one.kind),
        start: number(&one.start_time_unix_nano).unwrap_or(0),
        end: number(&one.end_time_unix_nano).unwrap_or(0),
    };
    let theirs = resource.scope_spans.into_iter().filter(|scope| scope.scope.name != OWN_SCOPE);
    theirs.flat_map(|scope| scope.spans).map(span).collect()
}

fn jaeger(one: JaegerSpan, processes: &BTreeMap<String, Process>) -> Span {
    let of = |tags: &[Tag], key: &str| tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.clone());
    let process = processes.get(&one.process);
    let pid = process.and_then(|process| of(&process.tags, "process.pid").or_else(|| of(&process.tags, "pid")));
    let kind = of(&one.tags, "span.kind");
    let ns = |us: u64| us.checked_mul(1000).unwrap_or(0);
    Span {
        trace: one.trace,
        id: one.id,
        parent: one.references.into_iter().next().map(|reference| reference.id),
        service: process.map_or_else(|| "unnamed".into(), |process| process.service_name.clone()),
        pid: pid.and_then(|pid| u32::try_from(number(&pid)?).ok()),
        name: one.name,
        kind: SpanKind::of_jaeger(kind.as_ref().and_then(Value::as_str)),
        start: ns(one.start),
        end: ns(one.start.saturating_add(one.duration)),
    }
}

impl Spans {
    fn take(&mut self, span: Span) {
        match span.length() {
            Some(_) => self.all.push(span),
            None => self.refused += 1,
        }
    }
}
