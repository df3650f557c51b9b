//! Writes traces in the trace event format (JSON), which ui.perfetto.dev, Perfetto's trace processor and chrome://tracing open.
//!
//! Times are given in ns and written as decimals of the format's microseconds, which keeps each ns.

use serde_json::{json, Map, Value};
use std::io::{self, Write};

/// A row of slices: a thread of a process, as the format calls them. Slices of one row must not overlap. Both numbers are written
/// one larger, as 0 is the idle process to Perfetto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Track {
    /// Its process.
    pub process: u32,
    /// Its number there.
    pub row: u32,
}

/// A place of a flow, which is drawn as arrows from slice to slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It begins here.
    Begin,
    /// It comes by.
    Step,
    /// It ends here.
    End,
}

/// Writes one trace. Every error is one of the writer below it.
#[derive(Debug)]
pub struct TraceEvents<W: Write> {
    to: W,
    is_first: bool,
}

impl<W: Write> TraceEvents<W> {
    /// Begins the file.
    pub fn new(mut to: W) -> io::Result<Self> {
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(TraceEvents { to, is_first: true })
    }

    /// Names a process; those with smaller numbers are shown above.
    pub fn process(&mut self, process: u32, name: &str) -> io::Result<()> {
        self.named("process_name", Track { process, row: 0 }, &json!({ "name": name }))?;
        self.named("process_sort_index", Track { process, row: 0 }, &json!({ "sort_index": process }))
    }

    /// Names a row; those with smaller numbers are shown above.
    pub fn track(&mut self, track: Track, name: &str) -> io::Result<()> {
        self.named("thread_name", track, &json!({ "name": name }))?;
        self.named("thread_sort_index", track, &json!({ "sort_index": track.row }))
    }

    fn named(&mut self, what: &str, track: Track, args: &Value) -> io::Result<()> {
        self.event("M", track, format_args!("\"name\":\"{what}\",\"args\":{args}"))
    }

    /// Something that lasted from the first to the second time (ns), with what is to be known of it: an object, or null.
    pub fn slice(&mut self, on: Track, name: &str, (from, to): (u64, u64), args: &Value) -> io::Result<()> {
        let (name, start, length) = (Value::from(name), micros(from), micros(to.saturating_sub(from)));
        let args = if args.is_null() { String::new() } else { format!(",\"args\":{args}") };
        self.event("X", on, format_args!("\"ts\":{start},\"dur\":{length},\"name\":{name}{args}"))
    }

    /// Something that happened at a time (ns).
    pub fn instant(&mut self, on: Track, name: &str, at: u64) -> io::Result<()> {
        let (name, at) = (Value::from(name), micros(at));
        self.event("i", on, format_args!("\"s\":\"t\",\"ts\":{at},\"name\":{name}"))
    }

    /// The value of a counter from a time (ns) on.
    pub fn counter(&mut self, process: u32, (name, unit): (&str, &str), at: u64, value: f64) -> io::Result<()> {
        let (name, at, args) = (Value::from(name), micros(at), json!({ unit: value }));
        self.event("C", Track { process, row: 0 }, format_args!("\"ts\":{at},\"name\":{name},\"args\":{args}"))
    }

    /// A flow comes to the slice that `on` has at a time (ns); that slice must have been written before.
    pub fn flow(&mut self, on: Track, id: u64, at: u64, place: Flow) -> io::Result<()> {
        let (at, phase, binds) = match place {
            Flow::Begin => (micros(at), "s", ""),
            Flow::Step => (micros(at), "t", ""),
            Flow::End => (micros(at), "f", "\"bp\":\"e\","),
        };
        self.event(phase, on, format_args!("{binds}\"ts\":{at},\"id\":{id},\"cat\":\"job\",\"name\":\"served\""))
    }

    /// Ends the file with what is to be known of all of it, and hands the writer back.
    pub fn finish(mut self, metadata: &Map<String, Value>) -> io::Result<W> {
        let metadata = match metadata.is_empty() {
            true => String::new(),
            false => format!(",\n\"metadata\":{}", Value::from(metadata.clone())),
        };
        writeln!(self.to, "]{metadata}}}")?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn event(&mut self, phase: &str, Track { process, row }: Track, fields: std::fmt::Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        let (process, row) = (process + 1, row + 1);
        write!(self.to, "{comma}\n{{\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{row},{fields}}}")
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ns_is_kept_and_no_name_breaks_the_file() {
        let track = Track { process: 1, row: 2 };
        let mut trace = TraceEvents::new(Vec::new()).unwrap();
        trace.process(1, "a \"quoted\" \\ name\n").unwrap();
        trace.track(track, "requests").unwrap();
        trace
            .slice(track, "job", (1_234_567_890_123_456_789, 1_234_567_890_123_457_000), &json!({"thread": 7}))
            .unwrap();
        trace.slice(track, "job", (5, 5), &Value::Null).unwrap();
        trace.instant(track, "late", 1).unwrap();
        trace.counter(1, ("budget left", "us"), 999, -0.5).unwrap();
        for place in [Flow::Begin, Flow::Step, Flow::End] {
            trace.flow(track, 3, 5, place).unwrap();
        }
        let metadata = Map::from_iter([("host".to_string(), "edge-1".into())]);
        let text = String::from_utf8(trace.finish(&metadata).unwrap()).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events[0]["args"]["name"], "a \"quoted\" \\ name\n");
        assert!(text.contains("\"ts\":1234567890123456.789,\"dur\":0.211,"), "{text}");
        assert_eq!((&events[4]["args"]["thread"], events[5].get("args")), (&7.into(), None));
        let phases: Vec<&str> = events.iter().map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(phases.concat(), "MMMMXXiCstf");
        assert_eq!((&events[10]["bp"], &read["metadata"]["host"]), (&"e".into(), &"edge-1".into()));
    }
}
