//! Flags of the analysis of requests that come at random.

use super::values::{part, percent, span};
use clap::{Args, ValueEnum};
use giusto_analysis::response::Objective;
use giusto_answers::notation::{objective, weighted_size, weighted_time};
use giusto_model::{Bandwidth, Duration, Rate};
use std::path::PathBuf;

/// Requests that come at random.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// How often requests come (Poisson), or batches of them, such as 40/s or 0.004/ms
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Rate,
    /// A service time, and its share of all requests where there are several, such as 40ms:75%
    #[arg(long, value_name = "TIME[:SHARE]", value_parser = weighted_time, required_unless_present = "profile")]
    pub(crate) service: Vec<(Duration, Option<Bandwidth>)>,
    /// Measured service times, from 'giusto measure execution'
    #[arg(long, value_name = "FILE", conflicts_with = "service")]
    pub(crate) profile: Option<PathBuf>,
    /// How many come together, and the share of such batches where there are several, such as 3:50%
    #[arg(long, value_name = "SIZE[:SHARE]", value_parser = weighted_size, default_value = "1")]
    pub(crate) batch: Vec<(u32, Option<Bandwidth>)>,
    /// What becomes of the budget of an idle server
    #[arg(long, value_enum, default_value = "deferrable")]
    pub(crate) server: Serving,
}

/// The kinds of server that can be analysed with random arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Serving {
    /// Keeps its budget while idle
    Deferrable,
    /// Its budget runs off at a fixed place in each period
    Periodic,
    /// Its period begins anew with a request after a rest, as SCHED_DEADLINE's does
    #[value(name = "constant_bandwidth")]
    ConstantBandwidth,
}

#[derive(Debug, Args)]
pub(crate) struct RandomArgs {
    #[command(flatten)]
    pub(crate) requests: RequestArgs,
    /// The server's budget; the period for a whole core
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) budget: Duration,
    /// The server's period
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) period: Duration,
    /// Tell the share of response times up to this; may be repeated
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) at: Vec<Duration>,
    /// Tell this percentile; may be repeated [default: p50, p90, p99, p99.9]
    #[arg(long, value_name = "PERCENTILE", value_parser = percent)]
    pub(crate) percentile: Vec<f64>,
    /// The paper's model on one grid with so many slots in a mean service time, its bias included, instead of the limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) slots: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SloArgs {
    #[command(flatten)]
    pub(crate) requests: RequestArgs,
    /// A percentile and the latency that it may have, such as p90=30ms; may be repeated
    #[arg(long, value_name = "pN=TIME", value_parser = objective, required = true)]
    pub(crate) objective: Vec<Objective>,
    /// A server period to look at; may be repeated [default: from a quarter of the mean service time to 16 times it]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) period: Vec<Duration>,
    /// Budgets are multiples of this
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = span)]
    pub(crate) quantum: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MapArgs {
    #[command(flatten)]
    pub(crate) requests: RequestArgs,
    /// A percentile to map; may be repeated
    #[arg(long, value_name = "PERCENTILE", default_value = "p90", value_parser = percent)]
    pub(crate) percentile: Vec<f64>,
    /// Bandwidths [default: from a little more than the load to the whole core]
    #[arg(long, value_name = "FROM..TO", value_parser = bandwidths)]
    pub(crate) bandwidth: Option<(Bandwidth, Bandwidth)>,
    /// Server periods [default: from half the mean service time to 16 times it]
    #[arg(long, value_name = "FROM..TO", value_parser = periods)]
    pub(crate) period: Option<(Duration, Duration)>,
    /// How many bandwidths, evenly spaced, and how many periods, each the same multiple of the one before
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub(crate) steps: u16,
    /// Write all of it to this file (CSV)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw the first percentile over bandwidths and over periods (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn periods(text: &str) -> Result<(Duration, Duration), String> {
    range(text, span, "1ms..20ms")
}

/// Shares of a core, which may be all of it.
fn bandwidths(text: &str) -> Result<(Bandwidth, Bandwidth), String> {
    range(text, part, "50%..100%")
}

/// Two ends of a range, the first one below the other.
fn range<T: PartialOrd>(text: &str, of: impl Fn(&str) -> Result<T, String>, example: &str) -> Result<(T, T), String> {
    let bad = || format!("'{text}' is no range; expected two ends, the lower one first, such as {example}");
    let (from, to) = text.split_once("..").ok_or_else(bad)?;
    let (from, to) = (of(from)?, of(to)?);
    if from < to {
        Ok((from, to))
    } else {
        Err(bad())
    }
}
