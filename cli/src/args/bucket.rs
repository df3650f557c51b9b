//! Flags of the analysis of token buckets.

use super::values::percentile;
use clap::Args;
use giusto_model::{Percentile, Rate, Tokens};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct BucketArgs {
    /// How often messages come (Poisson), or batches of them, such as 10k/s
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Rate,
    /// Messages that come together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) batch: u32,
    /// How often a token comes; when not given, several rates above that of the messages
    #[arg(long, value_name = "RATE")]
    pub(crate) tokens: Option<Rate>,
    /// Tokens that are kept, such as 26 or 4.5; when not given, the fewest for --access
    #[arg(long, value_name = "TOKENS", requires = "tokens", conflicts_with = "access")]
    pub(crate) depth: Option<Tokens>,
    /// So many messages must not wait at all
    #[arg(long, value_name = "PERCENTILE", default_value = "p99", value_parser = percentile)]
    pub(crate) access: Percentile,
    /// Split messages and bucket over up to so many brokers
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tokens", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) split: u32,
    /// Tell this percentile of the wait; may be repeated
    #[arg(long, value_name = "PERCENTILE", default_value = "p99", value_parser = percentile)]
    pub(crate) percentile: Vec<Percentile>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Arrivals: a number of ns a line, or comma-separated values with a column arrival_ns or release_ns
    pub(crate) file: PathBuf,
    /// How often a token comes; when not given, several rates above that of the messages
    #[arg(long, value_name = "RATE")]
    pub(crate) tokens: Option<Rate>,
    /// So many messages must not wait at all
    #[arg(long, value_name = "PERCENTILE", default_value = "p99", value_parser = percentile)]
    pub(crate) access: Percentile,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
