//! `giusto analyze response` and `giusto analyze slo`.

use crate::args::{RandomArgs, RequestArgs, Serving, SloArgs};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::response::{Response, Server};
use giusto_answers::notation::shares;
use giusto_answers::response::{measured, Answer, Question, Requests};
use giusto_answers::slo;
use giusto_model::Duration;
use giusto_planner::share as percent;
use giusto_simulator::{Interval, Sampled};
use std::process::ExitCode;

/// `giusto analyze response`; with `most` that long at most.
pub(crate) fn response(args: &RandomArgs, most: Option<Duration>) -> Result<ExitCode, Failure> {
    let question = Question {
        requests: requests(&args.requests)?,
        budget: args.budget,
        period: args.period,
        at: args.at.clone(),
        percentiles: args.percentile.clone(),
        slots: args.slots,
        most,
    };
    let answer = question.answer()?;
    if args.json {
        return json(&answer);
    }
    let Answer { response, bound, .. } = &answer;
    if let Some(found) = &answer.simulated {
        return simulated(&question, response, found);
    }
    print(&table(&rows(response, bound.as_ref()), 1))?;
    if let Some(delay) = answer.delay {
        say!(
            "load {:.2} % of a core, server {}; as on a core of that speed, since the chain takes too long: no response is more \
             than {delay} longer, or shorter",
            100.0 * response.utilization,
            percent(response.bandwidth)
        );
        return Ok(ExitCode::SUCCESS);
    }
    let error =
        response.error.map_or("the bias of the grid is in it".into(), |error| format!("last changed by {error:.1e}"));
    say!(
        "load {:.2} % of a core, server {}; {:.0} slots a service time, {error}",
        100.0 * response.utilization,
        percent(response.bandwidth),
        response.slots
    );
    Ok(ExitCode::SUCCESS)
}

/// What was asked for, and beside it what it is at most.
fn rows(answer: &Response, bound: Option<&Response>) -> Vec<Vec<String>> {
    let time = |time: Duration| format!("{time:.3}");
    let mut rows = vec![vec!["mean".into(), time(answer.mean)]];
    rows.extend(answer.percentiles.iter().map(|p| vec![format!("p{}", p.p), time(p.at)]));
    rows.extend(answer.cdf.iter().map(|at| vec![format!("within {:.3}", at.at), format!("{:.4} %", 100.0 * at.p)]));
    if let Some(bound) = bound {
        let values = std::iter::once(time(bound.mean)).chain(bound.percentiles.iter().map(|p| time(p.at)));
        let values = values.chain(bound.cdf.iter().map(|at| format!("{:.4} %", 100.0 * at.p)));
        rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        rows.insert(0, vec![String::new(), "estimate".into(), "bound".into()]);
    }
    rows
}

/// Where the chain is too large to be solved.
fn simulated(question: &Question, response: &Response, found: &Sampled) -> Result<ExitCode, Failure> {
    let (at, percentiles) = (&question.at, question.told_percentiles());
    let time = |ns: f64| Duration::from_ns(ns.max(0.0).round() as u64);
    let times = |of: Interval| [of.value, of.low, of.high].map(|ns| format!("{:.3}", time(ns)));
    let parts = |of: Interval| [of.value, of.low, of.high].map(|share| format!("{:.4} %", 100.0 * share));
    let row = |name: String, cells: [String; 3]| [vec![name], cells.to_vec()].concat();
    let mut rows = vec![row(String::new(), ["simulated", "from", "to"].map(str::to_string))];
    rows.push(row("mean".into(), times(found.mean_ns)));
    rows.extend(percentiles.iter().zip(&found.percentiles_ns).map(|(p, of)| row(format!("p{p}"), times(*of))));
    rows.extend(at.iter().zip(&found.cdf).map(|(at, of)| row(format!("within {at:.3}"), parts(*of))));
    print(&table(&rows, 1))?;
    say!(
        "load {:.2} % of a core, server {}; simulated, since the chain takes too long: {} jobs, seed {}, 95 % intervals",
        100.0 * response.utilization,
        percent(response.bandwidth),
        found.jobs,
        found.seed
    );
    Ok(ExitCode::SUCCESS)
}

/// `giusto analyze slo`
pub(crate) fn slo(args: &SloArgs) -> Result<ExitCode, Failure> {
    let question = slo::Question {
        requests: requests(&args.requests)?,
        objectives: args.objective.clone(),
        periods: args.period.clone(),
        quantum: args.quantum,
    };
    let answer = question.answer()?;
    if args.json {
        return json(&answer);
    }
    let mut rows = vec![["period", "budget", "bandwidth", "hold"].map(str::to_string).to_vec()];
    rows[0].extend(args.objective.iter().map(|o| format!("within {}", o.within)));
    for (period, choice) in &answer.found {
        let Some(choice) = choice else {
            rows.push(vec![format!("{period:.3}"), "none".into()]);
            continue;
        };
        let mut row = vec![
            format!("{period:.3}"),
            format!("{:.3}", choice.budget),
            percent(choice.bandwidth),
            format!("{:.3}", choice.hold),
        ];
        row.extend(choice.reached.iter().map(|reached| format!("{reached:.3} %")));
        row.push(if answer.pareto_period_ns.contains(period) { "*" } else { "" }.into());
        rows.push(row);
    }
    print(&table(&rows, 0))?;
    say!("* nothing else here has both less bandwidth and a shorter hold (2B, what others may have to wait)");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn requests(args: &RequestArgs) -> Result<Requests, Failure> {
    let service = match &args.profile {
        None => shares(&args.service),
        Some(path) => measured(crate::simulate::profile(path)?.execution),
    };
    let server = match args.server {
        Serving::Deferrable => Server::Deferrable,
        Serving::Periodic => Server::Periodic,
        Serving::ConstantBandwidth => Server::ConstantBandwidth,
    };
    Ok(Requests { rate: args.rate, service, batch: args.batch.clone(), server })
}
