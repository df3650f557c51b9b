//! `giusto analyze path`.

use crate::args::PathArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::path::{Bound, Every, Net, Stage};
use giusto_answers::path::{Comes, Question};
use giusto_model::{Duration, Rate};
use std::process::ExitCode;

/// `giusto analyze path`
pub(crate) fn path(args: &PathArgs) -> Result<ExitCode, Failure> {
    let question = Question {
        comes: comes(args),
        stages: args.stage.clone(),
        also: args.also.clone(),
        percentiles: args.percentile.clone(),
        at: args.at.clone(),
    };
    let answer = question.answer()?;
    if args.json {
        return json(&answer);
    }
    if let Some(every) = &answer.most {
        return told_every(args, every);
    }
    let net = question.net()?;
    for (place, found) in answer.bounds.iter().enumerate() {
        if place > 0 {
            say!("");
        }
        told(args, &net, found)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn comes(args: &PathArgs) -> Comes {
    let zero = Duration::ZERO;
    match (args.period, args.rate, args.burst) {
        (Some(period), ..) => {
            Comes::Periodic { period, jitter: args.jitter.unwrap_or(zero), distance: args.distance.unwrap_or(zero) }
        }
        (None, Some(rate), Some(burst)) => Comes::Bucket(rate, burst),
        (None, rate, _) => Comes::Poisson(rate.unwrap_or_else(none)),
    }
}

/// No rate, which the bound refuses.
fn none() -> Rate {
    Rate::of(0, Duration::from_secs(1)).expect("a second is some time")
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
