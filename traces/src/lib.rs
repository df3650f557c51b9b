//! Reads what stock tools recorded into the words of `model`: scheduler events of Linux, as `perf script`, `trace-cmd report` and
//! the tracing file system print them ([`read_sched`]), and the logs ([`read_log`]) and configurations ([`read_config`]) of rt-app.
//!
//! Called by the command line (`giusto measure import`). Text comes in; jobs or tasks, or the first line that makes no sense, go out.
//! Nothing is measured here (`measure`), and nothing judged (`verify`). Formats: formats/traces.md.
//!
//! Spans of distributed traces ([`read_spans`]) become chains of services ([`Spans::chains`]).
//!
//! What Giusto itself records or simulates is written as a trace for Perfetto by [`TraceEvents`].

mod chains;
mod config;
mod event;
mod events;
mod log;
mod sched;
mod spans;
mod thread;

pub use chains::{Chain, Message, Stage};
pub use config::{read_config, ConfigTask};
pub use events::{Flow, TraceEvents, Track};
pub use log::read_log;
pub use sched::{read_sched, Imported, Select};
pub use spans::{read_otlp, read_spans, Span, SpanKind, Spans, OWN_SCOPE};
pub use thread::{Cut, Job, Why};

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reader failed.
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    /// A line makes no sense.
    #[error("{line}: {found}; expected {expected}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// No event at all.
    #[error("there is no sched_switch in it; expected what 'perf script', 'trace-cmd report' or /sys/kernel/tracing/trace print of sched:sched_switch and sched:sched_wakeup")]
    NoEvent,
    /// The thread is not in it.
    #[error("there is no thread '{wanted}' in it; expected one of: {known}")]
    NoThread {
        /// Who was wanted.
        wanted: String,
        /// Those with most events.
        known: String,
    },
    /// Several threads have the name.
    #[error("{wanted} is the name of several threads; expected the number of one: {known}")]
    ManyThreads {
        /// Who was wanted.
        wanted: String,
        /// Their numbers.
        known: String,
    },
    /// A configuration is not one.
    #[error("{0}; expected a configuration of rt-app: JSON with an object 'tasks'")]
    Config(String),
    /// No spans, or broken ones.
    #[error("{0}")]
    Json(String),
    /// A task of a configuration that is none of a site.
    #[error("task '{task}': {why}")]
    Task {
        /// Its name.
        task: String,
        /// Why, and what to do.
        why: String,
    },
}
