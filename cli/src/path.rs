//! `giusto analyze path`.

use crate::args::{shares, PathArgs};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::path::{bound, every, within, Arrival, Bound, Every, Flow, Net, PathError, Source, Stage, Visit};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, Rate, Tokens};
use serde::Serialize;
use std::process::ExitCode;

/// What `path --json` prints (`formats/path.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    /// Of messages that come at random.
    percentiles: Vec<Found<'a>>,
    /// Of messages that keep to an arrival curve.
    every: Option<EveryOne<'a>>,
}

/// So long all but so many take at most.
#[derive(Serialize)]
struct Found<'a> {
    within_ns: Duration,
    beyond: f64,
    stages: Vec<Part<'a>>,
}

/// What a stage gets.
#[derive(Serialize)]
struct Part<'a> {
    stage: &'a str,
    within_ns: Duration,
    load: f64,
    stretch: f64,
    x: Option<f64>,
    term: f64,
}

/// No message takes longer.
#[derive(Serialize)]
struct EveryOne<'a> {
    within_ns: Duration,
    sum_ns: Duration,
    stages: Vec<Late<'a>>,
}

/// The longest delay at a stage.
#[derive(Serialize)]
struct Late<'a> {
    stage: &'a str,
    within_ns: Duration,
}

/// `giusto analyze path`
pub(crate) fn path(args: &PathArgs) -> Result<ExitCode, Failure> {
    let net = net(args)?;
    if let Source::Curve(_) = net.flows[0].source {
        let found = every(&net, 0).map_err(refused)?;
        return told_every(args, &found);
    }
    let percentiles = if args.percentile.is_empty() && args.at.is_empty() { &[99.0][..] } else { &args.percentile };
    let mut found = Vec::new();
    for percentile in percentiles {
        found.push(within(&net, 0, 1.0 - percentile / 100.0).map_err(refused)?);
    }
    for at in &args.at {
        found.push(bound(&net, 0, *at).map_err(refused)?);
    }
    if args.json {
        return json(&Answer { percentiles: found.iter().map(|found| as_json(args, found)).collect(), every: None });
    }
    for (place, found) in found.iter().enumerate() {
        if place > 0 {
            say!("");
        }
        told(args, &net, found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The stages in a row, and the flows.
fn net(args: &PathArgs) -> Result<Net, Failure> {
    let visits = args.stage.iter().enumerate().map(|(stage, place)| Visit {
        stage,
        service: shares(&place.service),
        hold: Duration::ZERO,
    });
    let mut flows = vec![Flow::line(source(args)?, visits.collect())];
    for also in &args.also {
        let stage = also.stage.checked_sub(1).filter(|stage| *stage < args.stage.len()).ok_or_else(|| {
            Failure::input(format!(
                "--also names stage {}, and there are {}; expected the number of a stage, from 1",
                also.stage,
                args.stage.len()
            ))
        })?;
        let visit = Visit { stage, service: shares(&also.service), hold: Duration::ZERO };
        flows.push(Flow::line(Source::Poisson(also.rate), vec![visit]));
    }
    Ok(Net { stages: args.stage.iter().map(|place| place.stage.clone()).collect(), flows })
}

fn source(args: &PathArgs) -> Result<Source, Failure> {
    let curve = match (args.period, args.rate, args.burst) {
        (Some(period), ..) => {
            let zero = Duration::ZERO;
            Arrival::periodic(period, args.jitter.unwrap_or(zero), args.distance.unwrap_or(zero))
        }
        (None, Some(rate), Some(burst)) => Arrival::bucket(Bucket { rate, depth: Tokens::whole(burst.into()) }),
        (None, rate, _) => return Ok(Source::Poisson(rate.unwrap_or_else(none))),
    };
    curve.map(Source::Curve).map_err(Failure::input)
}

/// No rate, which the bound refuses.
fn none() -> Rate {
    Rate::of(0, Duration::from_secs(1)).expect("a second is some time")
}

/// A load that does not fit is a refusal (1), all else bad input (2).
fn refused(error: Error) -> Failure {
    match &error {
        Error::Path(PathError::Full { .. } | PathError::TooShort { .. } | PathError::Stage { full: true, .. })
        | Error::Unstable { .. } => Failure::does_not_fit(error),
        _ => Failure::input(error),
    }
}

fn as_json<'a>(args: &'a PathArgs, found: &Bound) -> Found<'a> {
    let part = |part: &giusto_analysis::path::Part| Part {
        stage: &args.stage[part.stage].text,
        within_ns: part.within,
        load: part.load,
        stretch: part.stretch,
        x: part.x,
        term: part.term,
    };
    Found { within_ns: found.within, beyond: found.beyond, stages: found.parts.iter().map(part).collect() }
}

fn told(args: &PathArgs, net: &Net, found: &Bound) -> Result<(), Failure> {
    let mut rows = vec![["stage", "", "within", "load", "rate grows", "part of all"].map(String::from).to_vec()];
    for (number, place) in args.stage.iter().enumerate() {
        let mut row = vec![(number + 1).to_string(), place.text.clone()];
        match (found.parts.iter().find(|part| part.stage == number), &net.stages[number]) {
            (Some(part), stage) => row.extend([
                format!("{:.3}", part.within),
                match stage {
                    Stage::Measured(_) => "measured".into(),
                    _ => format!("{:.1} %", 100.0 * part.load),
                },
                format!("{:.1} %", 100.0 * (part.stretch - 1.0)),
                format!("{:.4} %", 100.0 * part.term),
            ]),
            (None, Stage::Bounded(most)) => row.push(format!("{most:.3}")),
            (None, _) => {}
        }
        rows.push(row);
    }
    let planned = found.parts.iter().map(|part| part.within.ns() + part.early.ns()).sum::<u64>();
    let bounded = net.stages.iter().filter_map(|stage| match stage {
        Stage::Bounded(most) => Some(most.ns()),
        _ => None,
    });
    let all = Duration::from_ns(planned + bounded.sum::<u64>());
    rows.push(vec![
        "all".into(),
        String::new(),
        format!("{all:.3}"),
        String::new(),
        String::new(),
        format!("{:.4} %", 100.0 * found.beyond),
    ]);
    print(&table(&rows, 2))?;
    say!(
        "all but {:.4} % of the messages are through within {:.3}, whatever their stages do to each other",
        100.0 * found.beyond,
        found.within
    );
    Ok(())
}

fn told_every(args: &PathArgs, found: &Every) -> Result<ExitCode, Failure> {
    if args.json {
        let late =
            |late: &giusto_analysis::path::Late| Late { stage: &args.stage[late.stage].text, within_ns: late.delay };
        let stages = found.stages.iter().map(late).collect();
        let every = Some(EveryOne { within_ns: found.within, sum_ns: found.sum, stages });
        return json(&Answer { percentiles: Vec::new(), every });
    }
    let mut rows = vec![["stage", "", "within"].map(String::from).to_vec()];
    for (number, late) in found.stages.iter().enumerate() {
        rows.push(vec![(number + 1).to_string(), args.stage[late.stage].text.clone(), format!("{:.3}", late.delay)]);
    }
    rows.push(vec!["all".into(), String::new(), format!("{:.3}", found.sum)]);
    print(&table(&rows, 2))?;
    if found.within < found.sum {
        say!("every message is through within {:.3}, as a burst is paid for only once", found.within);
    } else {
        say!("every message is through within {:.3}", found.within);
    }
    Ok(ExitCode::SUCCESS)
}
