//! Paths: what each stage claims of its messages, and that all of it together keeps the promise (docs/decisions/0052).
//!
//! A percentile: at each stage alone, under Poisson arrivals of the rate that the growths of the stages before it make, no more
//! messages are late than it claims; by the law of [`survival`](super::survival), not the planner's. The longest time: message by
//! message, from what each server does at least.

use super::broken::Broken;
use super::excess::{first_and_after, LEFT_OUT};
use super::interface;
use super::route::{self, Server, Stage};
use super::survival::{Law, Queue};
use super::topic;
use giusto_model::{
    Arrivals, BrokerStage, Duration, PathEvery, PathPart, PathPlan, PathPoint, PathSource, PathStage, Plan, Rate,
    Steps, TokensStage,
};
use serde::Serialize;
use std::ops::Range;

/// A path that keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedPath {
    /// Its name.
    pub name: String,
    /// Stages that were looked at: those on the hosts that the plan is for.
    pub stages: usize,
    /// Claims of stages that were computed again.
    pub compared: usize,
}

const BILLION: f64 = 1e9;
/// Of what a stage claims to be late: what the planner's computation may be off, as for a service's own percentiles.
const OFF: f64 = 0.01;
/// Parts of a period by which time beyond d is summed up.
const STEPS: f64 = 8.0;
/// Messages in a row that take a second to look at.
const MOST_MESSAGES: u64 = 20_000;

pub(super) fn check(plan: &Plan, path: &PathPlan) -> Result<CheckedPath, Broken> {
    let named = |broken: Broken| Broken { what: format!("path '{}': {}", path.name, broken.what), ..broken };
    one(plan, path).map_err(named)
}

fn one(plan: &Plan, path: &PathPlan) -> Result<CheckedPath, Broken> {
    let stages = route::stages(plan, path)?;
    let promised = match path.source {
        PathSource::Poisson(_) => !path.points.is_empty() && path.every.is_none(),
        PathSource::Periodic { .. } => path.points.is_empty() && path.every.is_some(),
    };
    if !promised || stages.is_empty() {
        return Err(Broken::new("a promise that goes with how messages come", path.source, "another, or none"));
    }
    let mut compared = 0;
    for one in &path.points {
        compared += point(path, one, &stages)?;
    }
    if let Some(every) = &path.every {
        compared += longest(path, every, &stages)?;
    }
    Ok(CheckedPath { name: path.name.clone(), stages: here(&stages), compared })
}

/// Stages on the hosts that the plan is for.
fn here(stages: &[Stage]) -> usize {
    stages.iter().filter(|stage| !matches!(stage, Stage::Elsewhere)).count()
}

/// The sum of what each stage takes, with the link to it; of a fork the longest branch.
fn whole(path: &PathPlan, parts: &[Duration]) -> u128 {
    let one = |nth: usize| {
        let link = path.through[nth].link().unwrap_or(Duration::ZERO);
        u128::from(link.ns()) + u128::from(parts[nth].ns())
    };
    let longest = |step: &Vec<Range<usize>>| step.iter().map(|branch| branch.clone().map(one).sum::<u128>()).max();
    Steps::of(&path.through).0.iter().filter_map(longest).sum()
}

fn in_time(promised: Duration, at: Duration, parts: &[Duration], path: &PathPlan) -> Result<(), Broken> {
    let sum = whole(path, parts);
    if sum != u128::from(at.ns()) {
        return Err(Broken::new("the time of all its stages and links", format!("{sum} ns"), at));
    }
    match at > promised {
        true => Err(Broken::new("the time that was promised", promised, at)),
        false => Ok(()),
    }
}

fn point(path: &PathPlan, point: &PathPoint, stages: &[Stage]) -> Result<usize, Broken> {
    let PathSource::Poisson(rate) = path.source else { return Ok(0) };
    if point.parts.len() != stages.len() {
        return Err(Broken::new("a part for each stage", stages.len(), point.parts.len()));
    }
    in_time(point.within, point.at, &point.parts.iter().map(|part| part.within).collect::<Vec<_>>(), path)?;
    let late: u64 = point.parts.iter().map(|part| u64::from(part.beyond_ppb)).sum();
    let most = u64::from(100_000 - point.percentile.thousandths()) * 10_000;
    if late > most {
        return Err(Broken::new(format!("billionths beyond {}, at most", point.percentile), most, late));
    }
    // How often messages leave each stage: those of the path, and what came from topics before it.
    let mut leave: Vec<f64> = Vec::new();
    let steps = Steps::of(&path.through);
    for (nth, (part, stage)) in point.parts.iter().zip(stages).enumerate() {
        let growth = f64::from(part.growth_ppb) / BILLION;
        // Where branches meet, the rate of all is that of the one whose own has grown most.
        let mut often = steps.before(nth).iter().map(|before| leave[*before]).fold(rate.per_ns(), f64::max);
        if (growth == 0.0) != steps.after(nth).is_empty() || growth >= 1.0 {
            return Err(Broken::new("growths between 0 and 1 before the last stage", "some", growth));
        }
        let name = &path.through[nth];
        if let PathStage::Tokens(TokensStage { others: Some(others), .. }) = name {
            often += others.per_ns();
        }
        let late = match stage {
            Stage::Service(server) => late_at(server, part, often, growth),
            Stage::Tokens(tokens) => topic::late(tokens.bucket, part, often, growth),
            Stage::Broker(broker) => Ok(measured(broker, part, often, growth)),
            Stage::Interface(interface) => interface::late(interface, part, often, growth),
            Stage::Elsewhere => Ok(0.0),
        };
        let late = late.map_err(|broken| Broken { what: format!("stage '{name}': {}", broken.what), ..broken })?;
        let claimed = f64::from(part.beyond_ppb) / BILLION;
        if late > claimed * (1.0 + OFF) {
            let what = format!("messages that are late at '{name}', of a million, at most");
            return Err(Broken::new(what, 1e6 * claimed, 1e6 * late));
        }
        leave.push(often / (1.0 - growth));
    }
    Ok(here(stages))
}

/// The same sum of what was measured of a broker, whatever comes to it.
fn measured(broker: &BrokerStage, part: &PathPart, often: f64, growth: f64) -> f64 {
    let each = if growth > 0.0 { often / growth } else { 0.0 };
    let later = broker.times().into_iter().filter(|(time, _)| *time > part.within);
    later.map(|(time, p)| p * (1.0 + each * (time.ns() - part.within.ns()) as f64)).sum()
}

/// P(R > d) + (λ/x)·E(R − d)⁺, without the second part where x is 0; λ in 1/ns.
fn late_at(stage: &Server, part: &PathPart, often: f64, growth: f64) -> Result<f64, Broken> {
    // Rounded up.
    let rate = Rate::of((often * 1e18).ceil() as u64, Duration::from_ns(1_000_000_000_000_000_000));
    let rate = rate.ok_or_else(|| Broken::new("a rate", "some", often))?;
    let service: Vec<(u64, f64)> = stage.service.bound().into_iter().map(|(time, p)| (time.ns(), p)).collect();
    let mean: f64 = service.iter().map(|(time, p)| *time as f64 * p).sum();
    let (load, share) = (often * mean, stage.budget as f64 / stage.period as f64);
    if stage.budget == 0 || stage.budget > stage.period || load >= share * (1.0 - 1e-6) {
        return Err(Broken::new("bandwidth for all messages", load, share));
    }
    let claimed = f64::from(part.beyond_ppb) / BILLION;
    if part.beyond_ppb == 0 {
        return Err(Broken::new("some messages that may be late at each stage", "1 billionth or more", 0));
    }
    let step = stage.period as f64 / STEPS;
    // What matters of the law reaches as far down as the sum beyond d does.
    let each = if growth > 0.0 { often / growth } else { 0.0 };
    let least = claimed * LEFT_OUT / (1.0 + each * step * STEPS);
    let arrivals = Arrivals { rate, batch: 1 };
    let queue = Queue { arrivals, service, period: stage.period, budget: stage.budget, alone: false };
    let law = Law::new(&queue, least.max(1e-12))?;
    let d = part.within.ns().saturating_sub(stage.latency) as f64;
    if each == 0.0 {
        return Ok((1.0 - law.within(d)).max(0.0));
    }
    let beyond = |times: &[f64]| law.within_each(times).into_iter().map(|within| 1.0 - within).collect();
    first_and_after(d, step, (each, claimed), beyond)
}

/// The n-th of messages that come at once is done so long after it has come at most: the server may have given all of its
/// budget just before, gives the next at the end of a period, and comes late once.
fn done(stage: &Server, n: u64) -> u128 {
    let (period, budget) = (u128::from(stage.period), u128::from(stage.budget));
    let work = u128::from(n) * u128::from(stage.service.longest().ns());
    let whole = work.div_ceil(budget) - 1;
    2 * (period - budget) + whole * period + (work - whole * budget) + u128::from(stage.latency)
}

/// Message q of a busy time leaves the last stage at most max over n_1 + … + n_k = q + k − 1 of Σ done_i(n_i) after the first of
/// it came, as each leaves a stage at most as long after one that waited for nothing there as those between take.
fn longest(path: &PathPlan, every: &PathEvery, stages: &[Stage]) -> Result<usize, Broken> {
    let PathSource::Periodic { period, jitter, burst } = path.source else { return Ok(0) };
    if every.parts.len() != stages.len() {
        return Err(Broken::new("a time for each stage", stages.len(), every.parts.len()));
    }
    if every.at > every.within {
        return Err(Broken::new("the time that was promised", every.within, every.at));
    }
    let all: Vec<&Server> = stages.iter().filter_map(Stage::server).collect();
    if stages.iter().any(|stage| matches!(stage, Stage::Tokens(_) | Stage::Broker(_))) {
        return Err(Broken::new("services only, where no message may take longer", "no topic", "one"));
    }
    for (stage, part) in stages.iter().zip(&every.parts) {
        let Stage::Interface(stage) = stage else { continue };
        interface::never_waits(path, stage, every.within.ns())?;
        if *part != stage.bound {
            return Err(Broken::new(format!("the longest wait at {}", stage.interface), stage.bound, part));
        }
    }
    if stages.iter().any(|stage| matches!(stage, Stage::Elsewhere)) {
        return Ok(0); // of several hosts: the plan of all of them proves it
    }
    if period.is_zero() || burst == 0 || all.iter().any(|one| one.budget == 0 || one.budget > one.period) {
        return Err(Broken::new("a source and budgets that make sense", "some", "none"));
    }
    // Time between messages, less what the slowest stage takes for each.
    let gap = period.ns() as f64 / f64::from(burst);
    let each = |one: &&Server| one.service.longest().ns() as f64 * one.period as f64 / one.budget as f64;
    let slowest = all.iter().map(each).fold(0.0, f64::max);
    if slowest >= gap * (1.0 - 1e-9) {
        return Err(Broken::new("bandwidth for all messages, in ns each", gap, slowest));
    }
    let most: f64 = all.iter().map(|one| 2.0 * one.period as f64 + one.latency as f64 + each(one)).sum();
    let rest = jitter.ns() as f64 + period.ns() as f64;
    let messages = ((most + rest) / (gap - slowest)).ceil() as u64 + 1;
    if messages > MOST_MESSAGES {
        return Err(Broken::new("messages to look at", format!("at most {MOST_MESSAGES}"), messages));
    }
    // By stage, when the q-th has left it; where branches meet, when it has left all of them.
    let mut left: Vec<Vec<u128>> = Vec::new();
    let steps = Steps::of(&path.through);
    let met = |left: &[Vec<u128>], ends: Vec<usize>| -> Vec<u128> {
        let latest = |q: usize| ends.iter().map(|end| left[*end][q]).max().unwrap_or(0);
        (0..messages as usize).map(latest).collect()
    };
    for (nth, stage) in stages.iter().enumerate() {
        let before = met(&left, steps.before(nth));
        let link = path.through[nth].link().unwrap_or(Duration::ZERO);
        let mut leaves: Vec<u128> = match stage {
            Stage::Service(server) => {
                let done: Vec<u128> = (1..=messages).map(|n| done(server, n)).collect();
                let at = |q: usize| (0..=q).map(|n| before[q - n] + done[n]).max().unwrap_or(0);
                (0..messages as usize).map(at).collect()
            }
            Stage::Interface(interface) => before.iter().map(|at| at + u128::from(interface.bound.ns())).collect(),
            Stage::Tokens(_) | Stage::Broker(_) | Stage::Elsewhere => before,
        };
        leaves.iter_mut().for_each(|at| *at += u128::from(link.ns()));
        left.push(leaves);
    }
    let ends = (0..stages.len()).filter(|nth| steps.after(*nth).is_empty()).collect();
    let left = met(&left, ends);
    // The q-th comes no sooner after the first.
    let comes = |q: u64| {
        let whole = u128::from((q - 1) / u64::from(burst)) * u128::from(period.ns());
        whole.saturating_sub(u128::from(jitter.ns()))
    };
    let needed = left.iter().zip(1..).map(|(left, q)| left.saturating_sub(comes(q))).max().unwrap_or(0);
    match needed > u128::from(every.at.ns()) {
        true => Err(Broken::new("the longest time of a message", format!("{needed} ns"), every.at)),
        false => Ok(messages as usize),
    }
}
