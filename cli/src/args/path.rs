//! Flags of the analysis of paths.

use super::values::{part, percent, shares, span};
use clap::Args;
use giusto_analysis::path::Stage;
use giusto_analysis::response::{Server, Share};
use giusto_model::{Bandwidth, Bucket, Duration, Rate};

/// A stage, and how long a message takes there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) stage: Stage,
    pub(crate) service: Vec<(Duration, Option<Bandwidth>)>,
    /// As it was written.
    pub(crate) text: String,
}

/// Others that enter the path at one of its stages, and leave it there.
#[derive(Clone, Debug)]
pub(crate) struct Also {
    /// From 1.
    pub(crate) stage: usize,
    pub(crate) rate: Rate,
    pub(crate) service: Vec<(Duration, Option<Bandwidth>)>,
}

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

const STAGES: &str =
    "expected, for example, 2ms/4ms:1ms, periodic:2ms/4ms:1ms*75%,3ms, company:2ms/4ms:1ms, core:1ms, \
                      bucket:300/s*4, bound:300us or measured:3ms*99%,8ms";

/// `deferrable:2ms/4ms:1ms`
fn place(text: &str) -> Result<Place, String> {
    let bad = |why: &str| format!("'{text}' is no stage: {why}; {STAGES}");
    let of = |stage, service| Ok(Place { stage, service, text: text.into() });
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) if kind.starts_with(|c: char| c.is_ascii_alphabetic()) => (kind, rest),
        _ => ("deferrable", text),
    };
    if kind == "bound" {
        return of(Stage::Bounded(span(rest).map_err(|why| bad(&why))?), Vec::new());
    }
    if kind == "bucket" {
        let (rate, depth) = rest.rsplit_once('*').ok_or_else(|| bad("a bucket has a rate and a depth"))?;
        let rate = rate.parse().map_err(|why: String| bad(&why))?;
        let depth = depth.parse().map_err(|why: String| bad(&why))?;
        return of(Stage::Bucket(Bucket { rate, depth }), Vec::new());
    }
    if kind == "measured" {
        let times = services(rest).map_err(|why| bad(&why))?;
        return of(Stage::Measured(shares(&times)), Vec::new());
    }
    if kind == "core" {
        let service = services(rest).map_err(|why| bad(&why))?;
        // The whole core: its period says nothing.
        let whole = Duration::from_ms(1);
        return of(share(Server::Deferrable, whole, whole, false), service);
    }
    let (server, company) = match kind {
        "deferrable" => (Server::Deferrable, false),
        "periodic" => (Server::Periodic, false),
        "company" => (Server::Deferrable, true),
        "constant_bandwidth" => (Server::ConstantBandwidth, false),
        other => return Err(bad(&format!("there is no kind '{other}'"))),
    };
    let (budgets, service) = rest.split_once(':').ok_or_else(|| bad("it has no service time"))?;
    let (budget, period) = budgets.split_once('/').ok_or_else(|| bad("it has no budget and period"))?;
    let (budget, period) = (span(budget).map_err(|why| bad(&why))?, span(period).map_err(|why| bad(&why))?);
    if budget > period {
        return Err(bad(&format!("a budget of {budget} is more than its period of {period}")));
    }
    of(share(server, budget, period, company), services(service).map_err(|why| bad(&why))?)
}

fn share(server: Server, budget: Duration, period: Duration, company: bool) -> Stage {
    Stage::Share { share: Share { server, budget, period }, company }
}

/// `1ms*75%,3ms`
fn services(text: &str) -> Result<Vec<(Duration, Option<Bandwidth>)>, String> {
    let one = |text: &str| match text.split_once('*') {
        None => Ok((span(text)?, None)),
        Some((time, share)) => Ok((span(time)?, Some(part(share)?))),
    };
    text.split(',').map(one).collect()
}

/// `2=100/s:1ms`
fn also(text: &str) -> Result<Also, String> {
    let bad = |why: String| {
        format!("'{text}' is no other flow: {why}; expected a stage's number, a rate and a service time, such as 2=100/s:1ms")
    };
    let parts = text.split_once('=').and_then(|(stage, rest)| Some((stage, rest.split_once(':')?)));
    let (stage, (rate, service)) = parts.ok_or_else(|| bad("a part is missing".into()))?;
    let stage = stage.parse().map_err(|_| bad(format!("'{stage}' is no number")))?;
    Ok(Also { stage, rate: rate.parse().map_err(&bad)?, service: services(service).map_err(&bad)? })
}
