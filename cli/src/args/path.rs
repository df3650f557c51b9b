//! Flags of the analysis of paths.

use super::values::{percent, span};
use clap::Args;
use giusto_answers::packets::{level, Level};
use giusto_answers::path::{also, place, Also, Place};
use giusto_model::{Duration, Rate};

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// How often messages come (Poisson), such as 50/s; with --burst no more of them than that
    #[arg(long, value_name = "RATE", required_unless_present = "period", conflicts_with = "period")]
    pub(crate) rate: Option<Rate>,
    /// Messages that may come at once, at --rate in the long run: then the bound is for every message
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) burst: Option<u32>,
    /// A message comes in each such time: then the bound is for every message
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) period: Option<Duration>,
    /// How late a message of --period may come
    #[arg(long, value_name = "TIME", requires = "period", value_parser = span)]
    pub(crate) jitter: Option<Duration>,
    /// Messages of --period are so far apart at least
    #[arg(long, value_name = "TIME", requires = "period", value_parser = span)]
    pub(crate) distance: Option<Duration>,
    /// A stage, in order: [KIND:]BUDGET/PERIOD:SERVICE, KIND being deferrable, periodic or company (under EDF beside others);
    /// core:SERVICE; bucket:RATE*DEPTH; bound:TIME; measured:TIMES. Several times: 1ms*75%,3ms
    #[arg(long, value_name = "STAGE", value_parser = place, required = true)]
    pub(crate) stage: Vec<Place>,
    /// Other messages that come at random to a stage, by its number, and leave after it, such as 2=100/s:1ms
    #[arg(long, value_name = "N=RATE:SERVICE", value_parser = also, conflicts_with_all = ["burst", "period"])]
    pub(crate) also: Vec<Also>,
    /// The time for this percentile; may be repeated [default: p99, without --at]
    #[arg(long, value_name = "PERCENTILE", value_parser = percent)]
    pub(crate) percentile: Vec<f64>,
    /// How many messages are within this time; may be repeated
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) at: Vec<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessingArgs {
    /// What a thread processes at most, from the highest priority down; + between threads that share a priority
    #[arg(long, value_name = "RATE*BURST", value_parser = level, required = true)]
    pub(crate) flow: Vec<Level>,
    /// Packets that the core processes, as 'giusto measure packets' finds them
    #[arg(long, value_name = "RATE")]
    pub(crate) capacity: Rate,
    /// Packets that a thread processes in a row, whatever else comes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) poll: u32,
    /// Longest time until a thread that is woken runs
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    pub(crate) latency: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
