//! `giusto analyze path`: percentiles and bounds over several stages.

use crate::notation::{part, shares, span, Weighted};
use crate::Error;
use giusto_analysis::path::{bound, every, within, Arrival, Bound, Every, Flow, Net, PathError, Source, Stage, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_model::{Bucket, Duration, Rate, Tokens};
use serde::Serialize;

/// A stage, and how long a message takes there.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it gives.
    pub stage: Stage,
    /// How long a message takes there; none where the stage says it.
    pub service: Vec<Weighted<Duration>>,
    /// As it was written.
    pub text: String,
}

/// Others that enter the path at one of its stages, and leave it there.
#[derive(Clone, Debug)]
pub struct Also {
    /// From 1.
    pub stage: usize,
    /// How often they come.
    pub rate: Rate,
    /// How long they take.
    pub service: Vec<Weighted<Duration>>,
}

/// How messages come.
#[derive(Clone, Copy, Debug)]
pub enum Comes {
    /// At random.
    Poisson(Rate),
    /// At a rate in the long run, so many at once: the bound is for every message.
    Bucket(Rate, u32),
    /// One in each period: the bound is for every message.
    Periodic {
        /// Its length.
        period: Duration,
        /// How late one may come.
        jitter: Duration,
        /// How far apart they are at least.
        distance: Duration,
    },
}

/// Which path.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its messages.
    pub comes: Comes,
    /// In their order.
    pub stages: Vec<Place>,
    /// Others.
    pub also: Vec<Also>,
    /// Times for these are asked for; p99 where nothing is asked for.
    pub percentiles: Vec<f64>,
    /// How many messages are within these is asked for.
    pub at: Vec<Duration>,
}

/// What `path --json` prints (`formats/path.schema.json`).
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Of messages that come at random.
    pub percentiles: Vec<Found>,
    /// Of messages that keep to an arrival curve.
    pub every: Option<EveryOne>,
    /// As the analysis has them, in the order of the percentiles.
    #[serde(skip)]
    pub bounds: Vec<Bound>,
    #[serde(skip)]
    /// The same of every message.
    pub most: Option<Every>,
}

/// So long all but so many take at most.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    within_ns: Duration,
    beyond: f64,
    stages: Vec<Part>,
}

/// What a stage gets.
#[derive(Clone, Debug, Serialize)]
struct Part {
    stage: String,
    within_ns: Duration,
    load: f64,
    stretch: f64,
    x: Option<f64>,
    term: f64,
}

/// No message takes longer.
#[derive(Clone, Debug, Serialize)]
pub struct EveryOne {
    within_ns: Duration,
    sum_ns: Duration,
    stages: Vec<Late>,
}

/// The longest delay at a stage.
#[derive(Clone, Debug, Serialize)]
struct Late {
    stage: String,
    within_ns: Duration,
}

impl Question {
    /// The bounds.
    ///
    /// # Errors
    /// A load or a time that does not fit; a path that makes no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let net = self.net()?;
        if let Source::Curve(_) = net.flows[0].source {
            let found = every(&net, 0).map_err(refused)?;
            let late = |late: &giusto_analysis::path::Late| Late {
                stage: self.stages[late.stage].text.clone(),
                within_ns: late.delay,
            };
            let stages = found.stages.iter().map(late).collect();
            let told = EveryOne { within_ns: found.within, sum_ns: found.sum, stages };
            return Ok(Answer { percentiles: Vec::new(), every: Some(told), bounds: Vec::new(), most: Some(found) });
        }
        let nothing = self.percentiles.is_empty() && self.at.is_empty();
        let percentiles = if nothing { &[99.0][..] } else { &self.percentiles };
        let mut bounds = Vec::new();
        for percentile in percentiles {
            bounds.push(within(&net, 0, 1.0 - percentile / 100.0).map_err(refused)?);
        }
        for at in &self.at {
            bounds.push(bound(&net, 0, *at).map_err(refused)?);
        }
        let percentiles = bounds.iter().map(|found| self.told(found)).collect();
        Ok(Answer { percentiles, every: None, bounds, most: None })
    }

    /// The stages in a row, and the flows.
    ///
    /// # Errors
    /// Others at a stage that is not there, messages that never come.
    pub fn net(&self) -> Result<Net, Error> {
        let visits = self.stages.iter().enumerate().map(|(stage, place)| Visit {
            stage,
            service: shares(&place.service),
            hold: Duration::ZERO,
        });
        let mut flows = vec![Flow::line(self.source()?, visits.collect())];
        for also in &self.also {
            let stage = also.stage.checked_sub(1).filter(|stage| *stage < self.stages.len()).ok_or_else(|| {
                Error::input(format!(
                    "--also names stage {}, and there are {}; expected the number of a stage, from 1",
                    also.stage,
                    self.stages.len()
                ))
            })?;
            let visit = Visit { stage, service: shares(&also.service), hold: Duration::ZERO };
            flows.push(Flow::line(Source::Poisson(also.rate), vec![visit]));
        }
        Ok(Net { stages: self.stages.iter().map(|place| place.stage.clone()).collect(), flows })
    }

    fn source(&self) -> Result<Source, Error> {
        let curve = match self.comes {
            Comes::Periodic { period, jitter, distance } => Arrival::periodic(period, jitter, distance),
            Comes::Bucket(rate, burst) => Arrival::bucket(Bucket { rate, depth: Tokens::whole(burst.into()) }),
            Comes::Poisson(rate) => return Ok(Source::Poisson(rate)),
        };
        curve.map(Source::Curve).map_err(Error::input)
    }

    fn told(&self, found: &Bound) -> Found {
        let part = |part: &giusto_analysis::path::Part| Part {
            stage: self.stages[part.stage].text.clone(),
            within_ns: part.within,
            load: part.load,
            stretch: part.stretch,
            x: part.x,
            term: part.term,
        };
        Found { within_ns: found.within, beyond: found.beyond, stages: found.parts.iter().map(part).collect() }
    }
}

/// A load that does not fit is a refusal, all else bad input.
fn refused(error: giusto_analysis::Error) -> Error {
    use giusto_analysis::Error::{Path, Unstable};
    match &error {
        Path(PathError::Full { .. } | PathError::TooShort { .. } | PathError::Stage { full: true, .. })
        | Unstable { .. } => Error::does_not_fit(error),
        _ => Error::input(error),
    }
}

const STAGES: &str =
    "expected, for example, 2ms/4ms:1ms, periodic:2ms/4ms:1ms*75%,3ms, company:2ms/4ms:1ms, core:1ms, \
                      bucket:300/s*4, bound:300us or measured:3ms*99%,8ms";

/// `deferrable:2ms/4ms:1ms`
///
/// # Errors
/// No stage in one of the notations of [`Place`].
pub fn place(text: &str) -> Result<Place, String> {
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
fn services(text: &str) -> Result<Vec<Weighted<Duration>>, String> {
    let one = |text: &str| match text.split_once('*') {
        None => Ok((span(text)?, None)),
        Some((time, share)) => Ok((span(time)?, Some(part(share)?))),
    };
    text.split(',').map(one).collect()
}

/// `2=100/s:1ms`
///
/// # Errors
/// No number of a stage, no rate, or no time.
pub fn also(text: &str) -> Result<Also, String> {
    let bad = |why: String| {
        format!("'{text}' is no other flow: {why}; expected a stage's number, a rate and a service time, such as 2=100/s:1ms")
    };
    let parts = text.split_once('=').and_then(|(stage, rest)| Some((stage, rest.split_once(':')?)));
    let (stage, (rate, service)) = parts.ok_or_else(|| bad("a part is missing".into()))?;
    let stage = stage.parse().map_err(|_| bad(format!("'{stage}' is no number")))?;
    Ok(Also { stage, rate: rate.parse().map_err(&bad)?, service: services(service).map_err(&bad)? })
}
