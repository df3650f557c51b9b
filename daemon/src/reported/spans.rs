//! Spans of OpenTelemetry in JSON or protobuf (OTLP 1.x, `ExportTraceServiceRequest`), and what those of one service tell.

use super::protobuf::{Fields, Value};
use super::sink::Sink;
use super::told::Told;
use giusto_traces::{Span, SpanKind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// What a message in JSON says. Errors: it is none. O(message).
pub(super) fn read(message: &[u8]) -> Result<Vec<Span>, String> {
    giusto_traces::read_otlp(message)
}

/// The same of a message in protobuf.
pub(super) fn read_protobuf(message: &[u8]) -> Result<Vec<Span>, String> {
    // Fields by their numbers in opentelemetry/proto/trace/v1/trace.proto.
    let mut told = Vec::new();
    for resource in inside(message, 1) {
        let resource = resource?;
        let service = service(resource)?;
        for scope in inside(resource, 2) {
            let scope = scope?;
            if is_own(scope)? {
                continue;
            }
            for span in inside(scope, 2) {
                told.push(one(span?, &service)?);
            }
        }
    }
    Ok(told)
}

/// Whether its spans are those that Giusto sends.
fn is_own(scope: &[u8]) -> Result<bool, String> {
    for named in inside(scope, 1) {
        for name in inside(named?, 1) {
            if name? == giusto_traces::OWN_SCOPE.as_bytes() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// `service.name` among the attributes of a resource.
fn service(resource: &[u8]) -> Result<String, String> {
    for attributes in inside(resource, 1) {
        for attribute in inside(attributes?, 1) {
            let (mut key, mut value) = (&b""[..], &b""[..]);
            for field in Fields(attribute?) {
                match field? {
                    (1, Value::Bytes(text)) => key = text,
                    (2, Value::Bytes(any)) => value = any,
                    _ => {}
                }
            }
            if let (b"service.name", Some(name)) = (key, inside(value, 1).next().transpose()?) {
                return Ok(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Ok("unnamed".into())
}

fn one(span: &[u8], service: &str) -> Result<Span, String> {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // to a text: it cannot fail
            text
        })
    };
    let mut told = Span {
        trace: String::new(),
        id: String::new(),
        parent: None,
        service: service.into(),
        pid: None,
        name: String::new(),
        kind: SpanKind::Internal,
        start: 0,
        end: 0,
    };
    for field in Fields(span) {
        match field? {
            (1, Value::Bytes(id)) => told.trace = hex(id),
            (2, Value::Bytes(id)) => told.id = hex(id),
            (4, Value::Bytes(id)) if !id.is_empty() => told.parent = Some(hex(id)),
            (5, Value::Bytes(text)) => told.name = String::from_utf8_lossy(text).into_owned(),
            (6, Value::Number(number)) => told.kind = SpanKind::of_number(number),
            (7, Value::Fixed(ns)) => told.start = ns,
            (8, Value::Fixed(ns)) => told.end = ns,
            _ => {}
        }
    }
    Ok(told)
}

/// Takes the spans of one service.
pub(super) struct OfService {
    /// The name of those that count; `None`: those of servers and consumers.
    pub(super) span: Option<String>,
    pub(super) told: Arc<Told>,
}

impl Sink for OfService {
    fn take(&self, spans: Vec<Span>) -> u64 {
        let (mut lengths, mut total_ns, mut others, mut refused) = (BTreeMap::new(), 0u64, 0u64, 0);
        for span in spans {
            if !self.span.as_ref().map_or(span.kind.serves(), |name| *name == span.name) {
                others += 1;
                continue;
            }
            match span.length() {
                Some(ns) => {
                    *lengths.entry(giusto_measure::passive::rounded(ns)).or_default() += 1;
                    total_ns = total_ns.saturating_add(ns);
                }
                None => refused += 1,
            }
        }
        let counted = lengths.len();
        self.told.add(lengths, total_ns);
        match (refused, counted, &self.span) {
            (1.., ..) => self.is_wrong(format!("{refused} spans do not say when they began and ended")),
            (0, 0, None) if others > 0 => self.is_wrong(
                "its spans are of other kinds than server and consumer; name those that count (span: NAME)".into(),
            ),
            (0, 0, Some(name)) if others > 0 => self.is_wrong(format!("none of its spans is named '{name}'")),
            _ => self.told.is_right(),
        }
        refused
    }

    fn is_wrong(&self, why: String) {
        self.told.is_wrong(why);
    }
}

/// The messages that are a message's field of this number.
fn inside(message: &[u8], number: u64) -> impl Iterator<Item = Result<&[u8], String>> {
    Fields(message).filter_map(move |field| match field {
        Ok((known, Value::Bytes(bytes))) if known == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(why) => Some(Err(why)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many counted, what they took together, how many were refused, and what is wrong.
    fn told(spans: &[Span], name: Option<&str>) -> (u64, u64, u64, Option<String>) {
        let sink = OfService { span: name.map(String::from), told: Arc::default() };
        let refused = sink.take(spans.to_vec());
        let sums = sink.told.sums();
        (sums.count, sums.total_ns, refused, sums.problem.clone())
    }

    #[test]
    fn spans_of_servers_and_consumers_count_or_those_of_a_name() {
        let message = br#"{"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": [
            {"name": "GET /", "kind": 2, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000002000000"},
            {"name": "work", "kind": "SPAN_KIND_CONSUMER", "startTimeUnixNano": 1000, "endTimeUnixNano": 1100, "links": []},
            {"name": "query", "kind": 3, "startTimeUnixNano": "5", "endTimeUnixNano": "6"},
            {"name": "query", "startTimeUnixNano": "5", "endTimeUnixNano": "9"},
            {"name": "GET /", "kind": 2, "startTimeUnixNano": "9", "endTimeUnixNano": "5"},
            {"name": "GET /", "kind": 2, "endTimeUnixNano": "5"}]}]}, {}]}"#;
        let spans = read(message).unwrap();
        let (count, total_ns, refused, problem) = told(&spans, None);
        assert_eq!((count, total_ns, refused), (2, 2_000_100, 2));
        assert!(problem.unwrap().contains("2 spans do not say when"));
        assert_eq!(told(&spans, Some("query")), (2, 5, 0, None));
        assert!(told(&spans, Some("none")).3.unwrap().contains("none of its spans is named 'none'"));
        assert_eq!(read(b"{}"), Ok(Vec::new()));
        for bad in [&b""[..], b"[]", b"{\"resourceSpans\": 7}", b"\x0a\x12", &[b'['; 10_000]] {
            assert!(read(bad).is_err());
        }
    }

    #[test]
    fn protobuf_says_the_same_as_json() {
        // Lengths in two bytes, as those of longer messages.
        let text = |key: u8, text: &[u8]| [&[key, text.len() as u8 | 0x80, (text.len() >> 7) as u8], text].concat();
        let within =
            |key: u8, parts: &[Vec<u8>]| -> Vec<u8> { parts.iter().flat_map(|part| text(key, part)).collect() };
        let span = |name: &[u8], kind: u8, end: u64| {
            let ids = [text(0x0a, &[0xab; 16]), text(0x12, &[1; 8]), text(0x22, &[2; 8])].concat();
            let times = [&[0x30, kind, 0x39], &1_000_000u64.to_le_bytes()[..], &[0x41], &end.to_le_bytes()].concat();
            [ids, text(0x2a, name), times].concat()
        };
        let scope = within(0x12, &[span(b"GET /", 2, 3_000_000), span(b"query", 3, 1_000_100), span(b"GET /", 2, 5)]);
        let named = [text(0x0a, b"service.name"), within(0x12, &[text(0x0a, b"camera")])].concat();
        let resource = within(0x0a, &[within(0x0a, &[named])]);
        let message = within(0x0a, &[[resource, within(0x12, &[scope])].concat()]);
        let spans = read_protobuf(&message).unwrap();
        assert_eq!((spans[0].trace.as_str(), spans[0].service.as_str()), (&*"ab".repeat(16), "camera"));
        assert_eq!((spans[0].id.as_str(), spans[0].parent.as_deref()), ("0101010101010101", Some("0202020202020202")));
        let (count, total_ns, refused, _) = told(&spans, None);
        assert_eq!((count, total_ns, refused), (1, 2_000_000, 1));
        assert_eq!(told(&spans, Some("query")).1, 100);
        assert_eq!(read_protobuf(b""), Ok(Vec::new()));
        assert!(read_protobuf(&message[..message.len() - 1]).is_err());
    }
}
