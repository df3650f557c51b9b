//! Paths: what each stage claims of its messages, and that all of it together keeps the promise (docs/decisions/0052).
//!
//! A percentile: at each stage alone, under Poisson arrivals of the rate that the growths of the stages before it make, no more
//! messages are late than it claims; by the law of [`survival`](super::survival), not the planner's. The longest time: message by
//! message, from what each server does at least.

use super::broken::Broken;
use super::despite;
use super::excess::Counted;
use super::interface;
use super::late::{claimed, late_at};
use super::meets::Group;
use super::route::{self, Server, Stage};
use super::simulated;
use super::topic;
use super::windows_of_paths;
use giusto_model::{Duration, PathEvery, PathPlan, PathPoint, PathSource, PathStage, Plan, Steps, TokensStage};
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
    /// Claims of stages on other hosts, on which its proof rests and which their own plans show.
    pub believed: usize,
    /// Messages that were simulated again; `None`: its promise is proven.
    pub simulated: Option<u64>,
}

const BILLION: f64 = 1e9;
/// Messages in a row that take a second to look at.
const MOST_MESSAGES: u64 = 20_000;

/// Path `nth` of the plan; of each path is known which is the first that it belongs together with.
pub(super) fn check(plan: &Plan, together: &[usize], nth: usize) -> Result<CheckedPath, Broken> {
    let path = &plan.paths[nth];
    let named = |broken: Broken| Broken { what: format!("path '{}': {}", path.name, broken.what), ..broken };
    one(plan, path, together, nth).map_err(named)
}

fn one(plan: &Plan, path: &PathPlan, together: &[usize], nth: usize) -> Result<CheckedPath, Broken> {
    let stages = route::stages(plan, path)?;
    let promised = match path.source {
        PathSource::Poisson(_) => !path.points.is_empty() && path.every.is_none(),
        PathSource::Periodic { .. } => path.points.is_empty() && path.every.is_some(),
    };
    if !promised || stages.is_empty() {
        return Err(Broken::new("a promise that goes with how messages come", path.source, "another, or none"));
    }
    let (mut compared, mut believed) = (0, 0);
    let elsewhere = stages.len() - here(&stages);
    let shares = together.iter().filter(|first| **first == together[nth]).count() > 1;
    believed += despite::check(plan, path, &stages, shares)?;
    compared += path.despite.len() - believed;
    if let Some(simulated) = &path.simulated {
        let messages = simulated::check(plan, (path, simulated), &stages)?;
        let (claims, name) = (path.points.len(), path.name.clone());
        let (own, others) = if messages > 0 { (claims, 0) } else { (0, claims) };
        let (compared, believed) = (compared + own, believed + others);
        return Ok(CheckedPath { name, stages: here(&stages), compared, believed, simulated: Some(messages) });
    }
    let group = if path.points.is_empty() { None } else { Group::of(plan, together, nth)? };
    for one in &path.points {
        within(path, one, stages.len())?;
        let checked = match &group {
            Some(group) => group.check(one)?,
            None => point(path, one, &stages)?,
        };
        (compared, believed) = (compared + checked, believed + one.parts.len() + one.meets.len() - checked);
    }
    if let Some(every) = &path.every {
        let found = match shares {
            true => windows_of_paths::check(plan, together, nth, every)?,
            false => longest(path, every, &stages)?,
        };
        compared += found;
        // Where a stage is elsewhere, nothing of it is computed.
        believed += if found == 0 || elsewhere > 0 { stages.len() } else { 0 };
    }
    Ok(CheckedPath { name: path.name.clone(), stages: here(&stages), compared, believed, simulated: None })
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

/// Whether all parts together are what is promised.
fn within(path: &PathPlan, point: &PathPoint, stages: usize) -> Result<(), Broken> {
    if point.parts.len() != stages {
        return Err(Broken::new("a part for each stage", stages, point.parts.len()));
    }
    in_time(point.within, point.at, &point.parts.iter().map(|part| part.within).collect::<Vec<_>>(), path)?;
    let parts = point.parts.iter().chain(point.meets.iter().map(|met| &met.part));
    let late: u64 = parts.map(|part| u64::from(part.beyond_ppb)).sum();
    let most = u64::from(100_000 - point.percentile.thousandths()) * 10_000;
    match late > most {
        true => Err(Broken::new(format!("billionths beyond {}, at most", point.percentile), most, late)),
        false => Ok(()),
    }
}

/// That no more messages are late than is claimed of each stage of a path which is alone.
fn point(path: &PathPlan, point: &PathPoint, stages: &[Stage]) -> Result<usize, Broken> {
    let PathSource::Poisson(rate) = path.source else { return Ok(0) };
    if let Some(met) = point.meets.first() {
        return Err(Broken::new("other paths that it meets", "none", &met.path));
    }
    // How often messages leave each stage: those of the path, and what came from topics before it.
    let mut leave: Vec<f64> = Vec::new();
    // ... and how long after they began at most.
    let mut ends: Vec<u128> = Vec::new();
    let steps = Steps::of(&path.through);
    for (nth, (part, stage)) in point.parts.iter().zip(stages).enumerate() {
        let growth = f64::from(part.growth_ppb) / BILLION;
        // Where branches meet, the rate of all is that of the one whose own has grown most.
        let mut often = steps.before(nth).iter().map(|before| leave[*before]).fold(rate.per_ns(), f64::max);
        let drops = matches!(path.through[nth], PathStage::Interface(_));
        if (growth == 0.0) != (drops || steps.after(nth).is_empty()) || growth >= 1.0 {
            return Err(Broken::new("growths between 0 and 1 before the last stage", "some", growth));
        }
        let name = &path.through[nth];
        if let PathStage::Tokens(TokensStage { others: Some(others), .. }) = name {
            often += others.per_ns();
        }
        let link = u128::from(name.link().unwrap_or_default().ns());
        let comes = steps.before(nth).iter().map(|before| ends[*before]).fold(0, u128::max) + link;
        ends.push(comes + u128::from(part.within.ns()));
        let counted = Counted { once: true, each: if growth > 0.0 { often / growth } else { 0.0 } };
        let late = match stage {
            Stage::Service(server) => late_at(server, (part.within, part.beyond_ppb), often, counted),
            Stage::Tokens(tokens) => topic::late(tokens.bucket, part, often, counted),
            Stage::Broker(broker) => Ok(topic::measured(&broker.latency, broker.worst, part, counted)),
            Stage::Link(link) => Ok(topic::measured(&link.latency, link.worst, part, counted)),
            Stage::Interface(interface) => interface::late(interface, part, often, comes),
            Stage::Elsewhere => Ok(0.0),
        };
        let late = late.map_err(|broken| Broken { what: format!("stage '{name}': {}", broken.what), ..broken })?;
        claimed(&name.to_string(), part.beyond_ppb, late)?;
        leave.push(often / (1.0 - growth));
    }
    Ok(here(stages))
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
    if stages.iter().any(|stage| matches!(stage, Stage::Tokens(_) | Stage::Broker(_) | Stage::Link(_))) {
        return Err(Broken::new("services only, where no message may take longer", "nothing that is measured", "some"));
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
            Stage::Tokens(_) | Stage::Broker(_) | Stage::Link(_) | Stage::Elsewhere => before,
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
