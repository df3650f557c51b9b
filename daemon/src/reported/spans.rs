//! Spans of OpenTelemetry in JSON or protobuf (OTLP 1.x, `ExportTraceServiceRequest`), as far as tells how long each took.

use super::protobuf::{Fields, Value};
use std::collections::BTreeMap;

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CONSUMER`.
const SERVED: [u64; 2] = [2, 5];

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    /// How many took so long, in ns.
    pub(super) lengths: BTreeMap<u64, u64>,
    /// All of them.
    pub(super) total_ns: u64,
    /// That were not what was asked for.
    pub(super) others: u64,
    /// That ended before they began, or do not say when.
    pub(super) refused: u64,
}

impl Spans {
    fn take(&mut self, counts: bool, length: Option<u64>) {
        if !counts {
            self.others += 1;
            return;
        }
        match length {
            Some(ns) => {
                *self.lengths.entry(giusto_measure::passive::rounded(ns)).or_default() += 1;
                self.total_ns = self.total_ns.saturating_add(ns);
            }
            None => self.refused += 1,
        }
    }
}

/// Reads a message in JSON; `name`: of the spans that count, else those of kind server or consumer. Errors: it is none.
/// O(message).
pub(super) fn read(message: &[u8], name: Option<&str>) -> Result<Spans, String> {
    let mut told = Spans::default();
    for span in giusto_traces::read_otlp(message)? {
        told.take(name.map_or(span.kind.serves(), |name| name == span.name), span.length());
    }
    Ok(told)
}

/// The same of a message in protobuf.
pub(super) fn read_protobuf(message: &[u8], name: Option<&str>) -> Result<Spans, String> {
    // Fields by their numbers in opentelemetry/proto/trace/v1/trace.proto.
    let mut told = Spans::default();
    for resource in inside(message, 1) {
        for scope in inside(resource?, 2) {
            for span in inside(scope?, 2) {
                let (mut own, mut kind, mut start, mut end) = (&b""[..], 0, 0, 0);
                for field in Fields(span?) {
                    match field? {
                        (5, Value::Bytes(text)) => own = text,
                        (6, Value::Number(number)) => kind = number,
                        (7, Value::Fixed(ns)) => start = ns,
                        (8, Value::Fixed(ns)) => end = ns,
                        _ => {}
                    }
                }
                let counts = name.map_or(SERVED.contains(&kind), |name| name.as_bytes() == own);
                told.take(counts, end.checked_sub(start).filter(|_| start > 0));
            }
        }
    }
    Ok(told)
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

    #[test]
    fn spans_of_servers_and_consumers_count_or_those_of_a_name() {
        let message = br#"{"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": [
            {"name": "GET /", "kind": 2, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000002000000"},
            {"name": "work", "kind": "SPAN_KIND_CONSUMER", "startTimeUnixNano": 1000, "endTimeUnixNano": 1100, "links": []},
            {"name": "query", "kind": 3, "startTimeUnixNano": "5", "endTimeUnixNano": "6"},
            {"name": "query", "startTimeUnixNano": "5", "endTimeUnixNano": "9"},
            {"name": "GET /", "kind": 2, "startTimeUnixNano": "9", "endTimeUnixNano": "5"},
            {"name": "GET /", "kind": 2, "endTimeUnixNano": "5"}]}]}, {}]}"#;
        let told = read(message, None).unwrap();
        assert_eq!((told.others, told.refused, told.total_ns), (2, 2, 2_000_100));
        let lengths: Vec<u64> = told.lengths.keys().copied().collect();
        assert!(lengths[0] == 101 && (2_000_001..2_016_000).contains(&lengths[1]), "{lengths:?}");
        let named = read(message, Some("query")).unwrap();
        assert_eq!((named.lengths.values().sum::<u64>(), named.others, named.total_ns), (2, 4, 5));
        assert_eq!(read(b"{}", None), Ok(Spans::default()));
        // The same in protobuf: one of a server that took 2 ms, and one that counts by its name only.
        let span = |name: &[u8], kind: u8, end: u64| {
            let head =
                [&[0x2a, name.len() as u8], name, &[0x30, kind, 0x39], &1_000_000u64.to_le_bytes(), &[0x41]].concat();
            [head, end.to_le_bytes().to_vec()].concat()
        };
        let within = |key: u8, parts: &[Vec<u8>]| -> Vec<u8> {
            parts.iter().flat_map(|part| [&[key, part.len() as u8], part.as_slice()].concat()).collect()
        };
        let scope = within(0x12, &[span(b"GET /", 2, 3_000_000), span(b"query", 3, 1_000_100), span(b"GET /", 2, 5)]);
        let message = within(0x0a, &[within(0x12, &[scope])]);
        let told = read_protobuf(&message, None).unwrap();
        assert_eq!((told.total_ns, told.others, told.refused), (2_000_000, 1, 1));
        assert_eq!(read_protobuf(&message, Some("query")).unwrap().total_ns, 100);
        assert_eq!(read_protobuf(b"", None), Ok(Spans::default()));
        assert!(read_protobuf(&message[..message.len() - 1], None).is_err());
        for bad in [&b""[..], b"[]", b"{\"resourceSpans\": 7}", b"\x0a\x12", &[b'['; 10_000]] {
            assert!(read(bad, None).is_err());
        }
    }
}
