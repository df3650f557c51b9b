//! `giusto analyze response` and `giusto analyze slo`.

use crate::args::{shares, RandomArgs, RequestArgs, Serving, SloArgs};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::response::{line, pareto, response as analyse, slo as search, Line};
use giusto_analysis::response::{At, Choice, Objective, Percentile, Precision, Question, Response, Server, Verdict};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration};
use giusto_planner::share as percent;
use giusto_simulator::{sample, Interval, Sampled};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::{thread, time};

const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// What `response --json` prints (`formats/response.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    method: Method,
    #[serde(flatten)]
    response: &'a Response,
    /// Never too optimistic: with service times rounded up to whole slots, where they are not; of a line its later end.
    bound: Option<Response>,
    /// The intervals, where it was simulated.
    simulated: Option<&'a Sampled>,
}

/// Where the numbers come from.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    Analysis,
    Simulation,
    /// By a core of the speed of the server.
    Line,
}

/// Jobs of a simulation, and their seed.
const JOBS: u64 = 2_000_000;
const SEED: u64 = 1;
/// Periods of service of a simulation at most, and runs of which each leaves its first tenth out.
const PERIODS: f64 = 4e7;
const RUNS: f64 = 20.0;
/// After so long the queue is simulated instead of solved; where a time is given, after half of that.
const PATIENCE: Duration = Duration::from_secs(2);

/// `giusto analyze response`; with `most` that long at most.
pub(crate) fn response(args: &RandomArgs, most: Option<Duration>) -> Result<ExitCode, Failure> {
    let question = question(&args.requests, args.budget, args.period)?;
    let percentiles =
        if args.percentile.is_empty() && args.at.is_empty() { &PERCENTILES[..] } else { &args.percentile };
    let of = |precision| analyse(&question, &args.at, percentiles, precision);
    let answer = match args.slots {
        Some(slots) => of(Precision::Slots(slots)),
        None => {
            let patience = most.map_or(PATIENCE, |most| Duration::from_ns(most.ns() / 2));
            match (solved(&question, &args.at, percentiles, patience)?, jobs(&question)) {
                (Some(Err(Error::Fine { .. })) | None, Some(jobs)) => {
                    return simulated(&question, &args.at, percentiles, jobs, args.json);
                }
                (Some(Err(Error::Fine { .. })) | None, None) => {
                    return bounded(&question, &args.at, percentiles, args.json);
                }
                (Some(answer), _) => answer,
            }
        }
    };
    let answer = answer.map_err(refused)?;
    let of = |precision| of(precision).map_err(refused);
    let up = args.slots.map(|slots| of(Precision::SlotsUp(slots))).transpose()?;
    let bound = up.filter(|bound| *bound != answer);
    if args.json {
        return json(&Answer { method: Method::Analysis, response: &answer, bound, simulated: None });
    }
    print(&table(&rows(&answer, bound.as_ref()), 1))?;
    let error =
        answer.error.map_or("the bias of the grid is in it".into(), |error| format!("last changed by {error:.1e}"));
    say!(
        "load {:.2} % of a core, server {}; {:.0} slots a service time, {error}",
        100.0 * answer.utilization,
        percent(answer.bandwidth),
        answer.slots
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

/// Where neither the chain nor a simulation says anything in time: two ends, at once.
fn bounded(question: &Question, at: &[Duration], percentiles: &[f64], as_json: bool) -> Result<ExitCode, Failure> {
    let Line { about, most, delay } = line(question, at, percentiles).map_err(refused)?;
    if as_json {
        return json(&Answer { method: Method::Line, response: &about, bound: Some(most), simulated: None });
    }
    print(&table(&rows(&about, Some(&most)), 1))?;
    say!(
        "load {:.2} % of a core, server {}; as on a core of that speed, since the chain takes too long: no response is more than \
         {delay} longer, or shorter",
        100.0 * about.utilization,
        percent(about.bandwidth)
    );
    Ok(ExitCode::SUCCESS)
}

/// The answer of the chain; `None`: it takes longer than `patience`. What still computes then ends with the process.
fn solved(
    question: &Question,
    at: &[Duration],
    percentiles: &[f64],
    patience: Duration,
) -> Result<Option<Result<Response, Error>>, Failure> {
    let (to, from) = channel();
    let (question, at, percentiles) = (question.clone(), at.to_vec(), percentiles.to_vec());
    let solve = move || {
        let _ = to.send(analyse(&question, &at, &percentiles, Precision::default()));
    };
    thread::Builder::new().spawn(solve).map_err(Failure::running)?;
    match from.recv_timeout(time::Duration::from_nanos(patience.ns())) {
        Ok(answer) => Ok(Some(answer)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(Failure::running("the computation broke off")),
    }
}

/// How many jobs a simulation may play; `None`: they would say nothing. A queue of load ρ forgets how it began within some
/// 4/(1 − ρ)² jobs, which must be over in what each run leaves out.
fn jobs(question: &Question) -> Option<u64> {
    let bandwidth = question.budget.ns() as f64 / question.period.ns() as f64;
    let free = 1.0 - question.utilization() / bandwidth;
    let work: f64 = question.service.iter().map(|(time, p)| p * time.ns() as f64).sum();
    let periods = work / question.budget.ns() as f64 + 1.0;
    let jobs = (JOBS as f64).min(PERIODS / periods);
    (free > 0.0 && jobs / RUNS / 10.0 * free.powi(2) >= 4.0).then_some(jobs as u64)
}

/// Where the chain is too large to be solved.
fn simulated(
    question: &Question,
    at: &[Duration],
    percentiles: &[f64],
    jobs: u64,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let found = sample(question, at, percentiles, jobs, SEED).map_err(Failure::running)?;
    let time = |ns: f64| Duration::from_ns(ns.max(0.0).round() as u64);
    let bandwidth = Bandwidth::of(question.budget, question.period).unwrap_or(Bandwidth::ONE);
    if as_json {
        let cdf = at.iter().zip(&found.cdf).map(|(&at, share)| At { at, p: share.value });
        let tiles = percentiles.iter().zip(&found.percentiles_ns);
        let response = Response {
            mean: time(found.mean_ns.value),
            cdf: cdf.collect(),
            percentiles: tiles.map(|(&p, at)| Percentile { p, at: time(at.value) }).collect(),
            slots: 0.0,
            error: None,
            lost: 0.0,
            utilization: question.utilization(),
            bandwidth,
        };
        let simulated = Some(&found);
        return json(&Answer { method: Method::Simulation, response: &response, bound: None, simulated });
    }
    let times = |of: Interval| [of.value, of.low, of.high].map(|ns| format!("{:.3}", time(ns)));
    let shares = |of: Interval| [of.value, of.low, of.high].map(|share| format!("{:.4} %", 100.0 * share));
    let row = |name: String, cells: [String; 3]| [vec![name], cells.to_vec()].concat();
    let mut rows = vec![row(String::new(), ["simulated", "from", "to"].map(str::to_string))];
    rows.push(row("mean".into(), times(found.mean_ns)));
    rows.extend(percentiles.iter().zip(&found.percentiles_ns).map(|(p, of)| row(format!("p{p}"), times(*of))));
    rows.extend(at.iter().zip(&found.cdf).map(|(at, of)| row(format!("within {at:.3}"), shares(*of))));
    print(&table(&rows, 1))?;
    say!(
        "load {:.2} % of a core, server {}; simulated, since the chain takes too long: {} jobs, seed {}, 95 % intervals",
        100.0 * question.utilization(),
        percent(bandwidth),
        found.jobs,
        found.seed
    );
    Ok(ExitCode::SUCCESS)
}

/// What `slo --json` prints (`formats/slo.schema.json`).
#[derive(Serialize)]
struct Found<'a> {
    /// One a period with which the objectives can be kept.
    choices: &'a [Choice],
    /// Those of them that no other beats both in bandwidth and in hold, by their periods.
    pareto_period_ns: Vec<Duration>,
}

/// `giusto analyze slo`
pub(crate) fn slo(args: &SloArgs) -> Result<ExitCode, Failure> {
    let question = question(&args.requests, Duration::from_ns(1), Duration::from_ns(1))?;
    let mean: f64 = question.service.iter().map(|(time, p)| time.ns() as f64 * p).sum();
    let scan = (-2..=4).map(|power| (mean * f64::from(power).exp2()) as u64 / args.quantum.ns() * args.quantum.ns());
    let scan = scan.filter(|ns| *ns > 0).map(Duration::from_ns).collect();
    let periods = if args.period.is_empty() { scan } else { args.period.clone() };
    let found = match search(&question, &args.objective, &periods, args.quantum).map_err(refused)? {
        Verdict::Unachievable { objective: Objective { percentile, within }, limit, least } => {
            return Err(Failure::does_not_fit(format!(
                "p{percentile} = {within} is unachievable: even a whole core serves only {limit:.2} % within it, and its \
                 p{percentile} is {least:.3} (M/G/1); expected a longer latency, shorter service times, or fewer requests"
            )));
        }
        Verdict::Achievable(found) => found,
    };
    let choices: Vec<Choice> = found.iter().flatten().cloned().collect();
    let best: Vec<Duration> = pareto(&choices).iter().map(|choice| choice.period).collect();
    if args.json {
        return json(&Found { choices: &choices, pareto_period_ns: best });
    }
    let mut rows = vec![["period", "budget", "bandwidth", "hold"].map(str::to_string).to_vec()];
    rows[0].extend(args.objective.iter().map(|o| format!("within {}", o.within)));
    for (period, choice) in periods.iter().zip(&found) {
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
        row.push(if best.contains(period) { "*" } else { "" }.into());
        rows.push(row);
    }
    print(&table(&rows, 0))?;
    say!("* nothing else here has both less bandwidth and a shorter hold (2B, what others may have to wait)");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn question(args: &RequestArgs, budget: Duration, period: Duration) -> Result<Question, Failure> {
    let service = match &args.profile {
        None => shares(&args.service),
        Some(path) => {
            let measured = crate::simulate::profile(path)?.execution;
            let each = 1.0 / measured.len() as f64;
            measured.into_iter().map(|ns| (Duration::from_ns(ns), each)).collect()
        }
    };
    let server = match args.server {
        Serving::Deferrable => Server::Deferrable,
        Serving::Periodic => Server::Periodic,
        Serving::ConstantBandwidth => Server::ConstantBandwidth,
    };
    Ok(Question { server, budget, period, rate: args.rate, service, batch: shares(&args.batch) })
}

pub(crate) fn refused(error: Error) -> Failure {
    match error {
        Error::Unstable { .. } => Failure::does_not_fit(error),
        _ => Failure::input(error),
    }
}
