//! From spans to chains of services: which of them a message goes through, one after the other, and how long each is at work.

use crate::{Span, Spans};
use std::collections::BTreeMap;

/// Messages that go through the same services in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What the first span of the first message is called.
    pub name: String,
    /// In the order in which they begin.
    pub services: Vec<Stage>,
    /// In the order in which they come.
    pub messages: Vec<Message>,
}

/// A service of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub service: String,
    /// Its process, where all spans that tell one tell the same.
    pub pid: Option<u32>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When the first span begins, in ns since 1970.
    pub start: u64,
    /// When the last one ends.
    pub end: u64,
    /// How long each service is at it, in ns: its spans without those for which they wait.
    pub own: Vec<u64>,
}

impl Spans {
    /// The chains, those with most messages first. Spans of clients and producers count as waiting, and a trace that has only
    /// such ones is no message. O(n log n).
    pub fn chains(&self) -> Vec<Chain> {
        let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
        self.all.iter().for_each(|span| traces.entry(&span.trace).or_default().push(span));
        let mut found: BTreeMap<Vec<&str>, Vec<(&str, Message)>> = BTreeMap::new();
        for spans in traces.values() {
            if let Some((services, name, message)) = message(spans) {
                found.entry(services).or_default().push((name, message));
            }
        }
        let mut chains: Vec<Chain> =
            found.into_iter().map(|(services, messages)| self.chain(&services, messages)).collect();
        chains.sort_by_key(|chain| std::cmp::Reverse(chain.messages.len()));
        chains
    }

    fn chain(&self, services: &[&str], mut messages: Vec<(&str, Message)>) -> Chain {
        messages.sort_by_key(|(_, message)| message.start);
        let name = messages.first().map_or(String::new(), |(name, _)| name.to_string());
        let pid = |service: &str| {
            let mut pids = self.all.iter().filter(|span| span.service == service).filter_map(|span| span.pid);
            let first = pids.next()?;
            pids.all(|pid| pid == first).then_some(first)
        };
        let stage = |service: &&str| Stage { service: service.to_string(), pid: pid(service) };
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Chain { name, services: services.iter().map(stage).collect(), messages }
    }
}

/// Services in the order in which they begin, the name of the first span, and the message.
fn message<'a>(spans: &[&'a Span]) -> Option<(Vec<&'a str>, &'a str, Message)> {
    let mut work: Vec<&&Span> = spans.iter().filter(|span| !span.kind.waits()).collect();
    // A parent before its children, where both begin at once.
    work.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let first = work.first()?;
    let mut children: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for span in spans {
        if let Some(parent) = span.parent.as_deref().filter(|parent| *parent != span.id) {
            children.entry(parent).or_default().push((span.start, span.end));
        }
    }
    children.values_mut().for_each(|times| times.sort_unstable());
    let mut services: Vec<&str> = Vec::new();
    let mut own: Vec<u64> = Vec::new();
    for span in &work {
        let place = services.iter().position(|known| *known == span.service).unwrap_or_else(|| {
            services.push(&span.service);
            own.push(0);
            services.len() - 1
        });
        own[place] = own[place].saturating_add(alone(span, children.get(span.id.as_str()).map_or(&[], Vec::as_slice)));
    }
    let end = work.iter().map(|span| span.end).max()?;
    let name = spans.iter().find(|span| span.parent.is_none()).map_or(first.name.as_str(), |root| &root.name);
    Some((services, name, Message { start: first.start, end, own }))
}

/// How long a span lasts without those that are done for it meanwhile, which are in the order of their begins.
fn alone(span: &Span, children: &[(u64, u64)]) -> u64 {
    let (mut covered, mut until) = (0, span.start);
    for &(start, end) in children {
        let (start, end) = (start.clamp(span.start, span.end), end.clamp(span.start, span.end));
        covered += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    span.end - span.start - covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_spans;

    /// A request to an API, which hands it to a queue; a worker, which asks a database twice, the second time for two things at
    /// once.
    fn spans(trace: &str, at: u64) -> String {
        let span = |id: &str, parent: &str, kind: u64, start: u64, end: u64| {
            format!(
                "{{\"traceId\":\"{trace}\",\"spanId\":\"{id}\",\"parentSpanId\":\"{parent}\",\"name\":\"{id}!\",\"kind\":{kind},\
                 \"startTimeUnixNano\":\"{}\",\"endTimeUnixNano\":\"{}\"}}",
                at + start,
                at + end
            )
        };
        let of = |service: &str, pid: u64, spans: &[String]| {
            format!(
                "{{\"resource\":{{\"attributes\":[{{\"key\":\"service.name\",\"value\":{{\"stringValue\":\"{service}\"}}}},\
                 {{\"key\":\"process.pid\",\"value\":{{\"intValue\":\"{pid}\"}}}}]}},\"scopeSpans\":[{{\"spans\":[{}]}}]}}",
                spans.join(",")
            )
        };
        let api = of("api", 7, &[span("a", "", 2, 0, 10), span("p", "a", 4, 4, 8)]);
        let worker = of(
            "worker",
            8,
            &[
                span("w", "p", 5, 20, 60),
                span("c1", "w", 3, 25, 30),
                span("c2", "w", 3, 40, 50),
                span("c3", "w", 3, 45, 55),
            ],
        );
        let store = of("store", at, &[span("d", "c1", 2, 26, 29)]);
        format!("{{\"resourceSpans\":[{api},{worker},{store}]}}\n")
    }

    #[test]
    fn a_chain_is_its_services_in_order_with_what_each_does_itself() {
        let text = spans("one", 1000) + "\n" + &spans("two", 5000);
        let read = read_spans(&mut text.as_bytes()).unwrap();
        assert_eq!((read.all.len(), read.refused), (14, 0));
        let chains = read.chains();
        let [chain] = chains.as_slice() else { panic!("{chains:?}") };
        let services: Vec<_> = chain.services.iter().map(|stage| (stage.service.as_str(), stage.pid)).collect();
        assert_eq!(services, [("api", Some(7)), ("worker", Some(8)), ("store", None)]);
        assert_eq!(chain.name, "a!");
        let message = |start| Message { start, end: start + 60, own: vec![6, 40 - 5 - 15, 3] };
        assert_eq!(chain.messages, [message(1000), message(5000)]);
    }

    #[test]
    fn an_export_of_jaeger_says_the_same() {
        let text = r#"{"data": [{"traceID": "t", "spans": [
            {"traceID": "t", "spanID": "b", "operationName": "work", "references": [{"refType": "CHILD_OF", "spanID": "a"}],
             "startTime": 30, "duration": 5, "processID": "p2"},
            {"traceID": "t", "spanID": "a", "operationName": "GET", "startTime": 10, "duration": 40, "processID": "p1",
             "tags": [{"key": "span.kind", "type": "string", "value": "server"}]}],
            "processes": {"p1": {"serviceName": "web", "tags": [{"key": "pid", "type": "int64", "value": 12}]},
                          "p2": {"serviceName": "job"}}}]}"#;
        let chains = read_spans(&mut text.as_bytes()).unwrap().chains();
        let [chain] = chains.as_slice() else { panic!("{chains:?}") };
        assert_eq!(chain.services[0], Stage { service: "web".into(), pid: Some(12) });
        assert_eq!(chain.messages, [Message { start: 10_000, end: 50_000, own: vec![35_000, 5_000] }]);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_what_is_expected() {
        for (text, told) in [
            ("", "resourceSpans"),
            ("{}", "resourceSpans"),
            ("[1]", "resourceSpans"),
            ("{\"data\": [7]}", "invalid type"),
            ("{\"resourceSpans\": [{\"scopeSpans\": 3}]}", "invalid type"),
            ("{\"resourceSpans\": []}", "no span"),
            (&(spans("one", 1000) + "{\"resourceSpans\""), "line 2"),
        ] {
            let refused = read_spans(&mut text.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains(told), "{text}: {refused}");
        }
        let late = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [
            {"traceId": "t", "spanId": "a", "startTimeUnixNano": 9, "endTimeUnixNano": 5},
            {"traceId": "t", "spanId": "b", "startTimeUnixNano": 9, "endTimeUnixNano": 9}]}]}]}"#;
        let read = read_spans(&mut late.as_bytes()).unwrap();
        assert_eq!((read.all.len(), read.refused), (1, 1));
    }
}
