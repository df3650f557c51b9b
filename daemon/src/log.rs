//! Where events go: a line each on standard error, for people or as JSON; under systemd with their fields into the journal.
//!
//! Rooms say what happens with `tracing`: a message that is a whole sentence, and fields (`service`, `core`, `thread`) for
//! programs. Lines that reach the journal begin with their priority (sd-daemon(3)).

use crate::journald::{priority, Journald, Message};
use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// Whether fields of events are kept.
static HAS_FIELDS: AtomicBool = AtomicBool::new(false);

/// Says events from now on, as JSON objects with `timestamp`, `level`, `message` and the fields, or for people: `giusto: ` and
/// the message. Where standard error is the journal, and JSON was not asked for, fields go there as `GIUSTO_SERVICE` and so
/// on. Only the first call counts.
pub fn log(json: bool) {
    let (is_journal, is_stream) = journal();
    let journald = (is_stream && !json).then(Journald::open).and_then(Result::ok);
    HAS_FIELDS.store(json || journald.is_some(), Ordering::Relaxed);
    let _ = match journald {
        Some(journald) => {
            let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(journald);
            tracing::subscriber::set_global_default(subscriber)
        }
        None => {
            let lines = Lines { json, priorities: is_journal };
            tracing::subscriber::set_global_default(subscriber(lines, io::stderr))
        }
    };
}

/// Whether fields of events reach a program: in JSON, or in the journal.
pub(crate) fn has_fields() -> bool {
    HAS_FIELDS.load(Ordering::Relaxed)
}

fn subscriber<W>(lines: Lines, to: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> tracing_subscriber::fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .log_internal_errors(false) // where standard error is closed, nothing can report them
        .with_max_level(Level::INFO)
        .fmt_fields(JsonFields::new())
        .event_format(lines)
        .with_writer(to)
        .finish()
}

/// Whether standard error is the journal, as systemd says (`JOURNAL_STREAM=DEVICE:INODE`), and whether it is one of its
/// streams.
fn journal() -> (bool, bool) {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return (false, false) };
    let Ok(here) = std::fs::metadata("/proc/self/fd/2") else { return (false, false) };
    let is_journal = stream == format!("{}:{}", here.dev(), here.ino());
    (is_journal, is_journal && here.file_type().is_socket())
}

struct Lines {
    json: bool,
    priorities: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> tracing_subscriber::fmt::FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if self.priorities {
            write!(to, "<{}>", priority(event.metadata().level()))?;
        }
        if self.json {
            let json = tracing_subscriber::fmt::format().json().flatten_event(true).with_target(false);
            return json.format_event(context, to, event);
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        if self.priorities {
            message.0 = message.0.replace('\n', " | "); // for the journal a line is an event
        }
        writeln!(to, "giusto: {}", message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(json: bool, priorities: bool) -> String {
        let shared = Shared::default();
        let to = shared.clone();
        tracing::subscriber::with_default(subscriber(Lines { json, priorities }, move || to.clone()), || {
            tracing::info!(service = "cache", core = 1, thread = 77, "cache: reserved for thread {}", 77);
            tracing::warn!(service = "batch", "batch: ended\nno port");
            tracing::debug!("not said");
        });
        let bytes = shared.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn people_read_sentences_and_the_journal_priorities() {
        assert_eq!(said(false, false), "giusto: cache: reserved for thread 77\ngiusto: batch: ended\nno port\n");
        let journal = "<6>giusto: cache: reserved for thread 77\n<4>giusto: batch: ended | no port\n";
        assert_eq!(said(false, true), journal);
    }

    #[test]
    fn programs_read_fields() {
        let lines = said(true, false);
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[0]["service"], &lines[0]["core"], &lines[0]["thread"]),
            (&"cache".into(), &1.into(), &77.into())
        );
        assert_eq!((&lines[1]["level"], &lines[1]["message"]), (&"WARN".into(), &"batch: ended\nno port".into()));
        assert!(lines[0]["timestamp"].is_string());
        assert!(said(true, true).starts_with("<6>{"));
    }
}
