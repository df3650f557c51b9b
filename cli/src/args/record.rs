//! Flags of recordings.

use super::values::span;
use clap::Args;
use giusto_model::Duration;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Record for so long from now on
    #[arg(long = "for", value_name = "TIME", default_value = "5s", conflicts_with = "late", value_parser = span)]
    pub(crate) length: Duration,
    /// Record around each late job instead: of this service, or of all that were promised a response time
    #[arg(long, value_name = "SERVICE", num_args = 0..=1)]
    pub(crate) late: Option<Option<String>>,
    /// For how long before a late job began, and after it ended
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "late", value_parser = span)]
    pub(crate) around: Duration,
    /// End after so many late jobs; one that is in the trace of another has none of its own
    #[arg(long, default_value_t = 10, requires = "late", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,
    /// The trace [default: out/trace.json]; with --late a folder, in which each trace is named after service and time
    /// [default: out/late]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON, a line a trace
    #[arg(long)]
    pub(crate) json: bool,
}
