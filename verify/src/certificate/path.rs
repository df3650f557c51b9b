//! Paths: what each stage claims of its messages, and that all of it together keeps the promise (docs/decisions/0052).
//!
//! A percentile: at each stage alone, under Poisson arrivals of the rate that the growths of the stages before it make, no more
//! messages are late than it claims; by the law of [`survival`](super::survival), not the planner's. The longest time: message by
//! message, from what each server does at least.

use super::broken::Broken;
use super::survival::{Law, Queue};
use giusto_model::{
    Arrivals, Certificate, Duration, PathEvery, PathPart, PathPlan, PathPoint, PathSource, Plan, Promise, Rate,
    ServicePlan, ServiceTime,
};
use serde::Serialize;

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
/// What of that is left out, as a part of the claim.
const LEFT_OUT: f64 = 1e-3;
const MOST_STEPS: usize = 20_000;
/// Steps whose times are looked at together.
const AT_ONCE: usize = 100;
/// Messages in a row that take a second to look at.
const MOST_MESSAGES: u64 = 4000;

pub(super) fn check(plan: &Plan, path: &PathPlan) -> Result<CheckedPath, Broken> {
    let named = |broken: Broken| Broken { what: format!("path '{}': {}", path.name, broken.what), ..broken };
    one(plan, path).map_err(named)
}

fn one(plan: &Plan, path: &PathPlan) -> Result<CheckedPath, Broken> {
    let mut stages = Vec::new();
    for (nth, stage) in path.through.iter().enumerate() {
        let own = plan.services.iter().find(|entry| entry.name == stage.service);
        let here = plan.hosts.iter().any(|host| host.name == stage.on);
        if own.is_none() == here || own.is_some_and(|entry| entry.on != stage.on) {
            let found = own.map_or("none", |entry| entry.on.as_str());
            return Err(Broken::new(format!("the service of its stage '{}', there", stage.service), &stage.on, found));
        }
        let before = nth.checked_sub(1).map(|nth| path.through[nth].on.as_str());
        if before.is_some_and(|before| before != stage.on) != stage.link.is_some() {
            return Err(Broken::new(
                format!("a link to '{}' where its host is another", stage.service),
                stage.on.as_str(),
                before.unwrap_or("the first stage"),
            ));
        }
        if path.through[..nth].iter().any(|other| other.service == stage.service) {
            return Err(Broken::new("each service once", 1, &stage.service));
        }
        // Messages of another path may come between.
        let others = plan.paths.iter().filter(|other| other.through.iter().any(|one| one.service == stage.service));
        if others.count() != 1 {
            return Err(Broken::new(format!("one path through '{}'", stage.service), 1, "several"));
        }
        stages.push(own.map(|entry| (entry, Stage::of(entry))));
    }
    let stages: Vec<Option<Stage>> = stages
        .into_iter()
        .map(|own| own.map(|(entry, stage)| stage.map_err(|broken| broken.of(entry))).transpose())
        .collect::<Result<_, _>>()?;
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
    Ok(CheckedPath { name: path.name.clone(), stages: stages.iter().flatten().count(), compared })
}

/// What a path counts on at a service.
struct Stage<'a> {
    period: u64,
    budget: u64,
    latency: u64,
    service: &'a ServiceTime,
}

impl<'a> Stage<'a> {
    fn of(entry: &'a ServicePlan) -> Result<Self, Broken> {
        let (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) =
            (&entry.promise, &entry.certificate)
        else {
            return Err(Broken::new("a service without a promise of its own", "a stage", &entry.promise));
        };
        let some = service.bound().iter().all(|(time, p)| !time.is_zero() && *p > 0.0);
        if !some || service.longest().is_zero() {
            return Err(Broken::new("messages that take time", "some", "none"));
        }
        Ok(Stage { period: entry.server.period.ns(), budget: budget.ns(), latency: latency.ns(), service })
    }
}

/// The sum of the times over its links.
fn links(path: &PathPlan) -> u128 {
    path.through.iter().filter_map(|stage| stage.link).map(|link| u128::from(link.ns())).sum()
}

fn in_time(
    promised: Duration,
    at: Duration,
    parts: impl Iterator<Item = Duration>,
    path: &PathPlan,
) -> Result<(), Broken> {
    let sum = links(path) + parts.map(|part| u128::from(part.ns())).sum::<u128>();
    if sum != u128::from(at.ns()) {
        return Err(Broken::new("the time of all its stages and links", format!("{sum} ns"), at));
    }
    match at > promised {
        true => Err(Broken::new("the time that was promised", promised, at)),
        false => Ok(()),
    }
}

fn point(path: &PathPlan, point: &PathPoint, stages: &[Option<Stage>]) -> Result<usize, Broken> {
    let PathSource::Poisson(rate) = path.source else { return Ok(0) };
    if point.parts.len() != stages.len() {
        return Err(Broken::new("a part for each stage", stages.len(), point.parts.len()));
    }
    in_time(point.within, point.at, point.parts.iter().map(|part| part.within), path)?;
    let late: u64 = point.parts.iter().map(|part| u64::from(part.beyond_ppb)).sum();
    let most = u64::from(100_000 - point.percentile.thousandths()) * 10_000;
    if late > most {
        return Err(Broken::new(format!("billionths beyond {}, at most", point.percentile), most, late));
    }
    let mut often = rate.per_ns();
    let last = stages.len() - 1;
    for (nth, (part, stage)) in point.parts.iter().zip(stages).enumerate() {
        let growth = f64::from(part.growth_ppb) / BILLION;
        if (growth == 0.0) != (nth == last) || growth >= 1.0 {
            return Err(Broken::new("growths between 0 and 1 before the last stage", "some", growth));
        }
        if let Some(stage) = stage {
            let service = &path.through[nth].service;
            let late = late_at(stage, part, often, growth)
                .map_err(|broken| Broken { what: format!("stage '{service}': {}", broken.what), ..broken })?;
            let claimed = f64::from(part.beyond_ppb) / BILLION;
            if late > claimed * (1.0 + OFF) {
                let what = format!("messages that are late at '{service}', of a million, at most");
                return Err(Broken::new(what, 1e6 * claimed, 1e6 * late));
            }
        }
        often /= 1.0 - growth;
    }
    Ok(stages.iter().flatten().count())
}

/// P(R > d) + (λ/x)·E(R − d)⁺, without the second part where x is 0; λ in 1/ns.
fn late_at(stage: &Stage, part: &PathPart, often: f64, growth: f64) -> Result<f64, Broken> {
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
    // From the left of each step, so that it is not too little.
    let (mut first, mut sum, mut here) = (0.0, 0.0, 1.0);
    for steps in (0..MOST_STEPS).step_by(AT_ONCE) {
        let times: Vec<f64> = (steps..steps + AT_ONCE).map(|nth| d + nth as f64 * step).collect();
        for (nth, within) in (steps..).zip(law.within_each(&times)) {
            let next = (1.0 - within).max(0.0);
            if nth == 0 {
                first = next;
            }
            // It falls like a geometric series in the end.
            let ratio = (next / here).min(0.99);
            if nth > 0 && each * next * step / (1.0 - ratio) < LEFT_OUT * claimed {
                return Ok(first + each * sum);
            }
            sum += next * step;
            here = next;
        }
    }
    Err(Broken::new("steps until hardly any message is later", format!("at most {MOST_STEPS}"), "more"))
}

/// The n-th of messages that come at once is done so long after it has come at most: the server may have given all of its
/// budget just before, gives the next at the end of a period, and comes late once.
fn done(stage: &Stage, n: u64) -> u128 {
    let (period, budget) = (u128::from(stage.period), u128::from(stage.budget));
    let work = u128::from(n) * u128::from(stage.service.longest().ns());
    let whole = work.div_ceil(budget) - 1;
    2 * (period - budget) + whole * period + (work - whole * budget) + u128::from(stage.latency)
}

/// Message q of a busy time leaves the last stage at most max over n_1 + … + n_k = q + k − 1 of Σ done_i(n_i) after the first of
/// it came, as each leaves a stage at most as long after one that waited for nothing there as those between take.
fn longest(path: &PathPlan, every: &PathEvery, stages: &[Option<Stage>]) -> Result<usize, Broken> {
    let PathSource::Periodic { period, jitter, burst } = path.source else { return Ok(0) };
    if every.parts.len() != stages.len() {
        return Err(Broken::new("a time for each stage", stages.len(), every.parts.len()));
    }
    if every.at > every.within {
        return Err(Broken::new("the time that was promised", every.within, every.at));
    }
    let all: Vec<&Stage> = stages.iter().flatten().collect();
    if all.len() != stages.len() {
        return Ok(0); // of several hosts: the plan of all of them proves it
    }
    if period.is_zero() || burst == 0 || all.iter().any(|one| one.budget == 0 || one.budget > one.period) {
        return Err(Broken::new("a source and budgets that make sense", "some", "none"));
    }
    // Time between messages, less what the slowest stage takes for each.
    let gap = period.ns() as f64 / f64::from(burst);
    let each = |one: &&Stage| one.service.longest().ns() as f64 * one.period as f64 / one.budget as f64;
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
    let mut left: Vec<u128> = vec![0];
    for (nth, stage) in all.iter().enumerate() {
        let done: Vec<u128> = (1..=messages).map(|n| done(stage, n)).collect();
        left = match nth {
            0 => done,
            _ => {
                let at = |q: usize| (0..=q).map(|n| left[q - n] + done[n]).max().unwrap_or(0);
                (0..messages as usize).map(at).collect()
            }
        };
    }
    // The q-th comes no sooner after the first.
    let comes = |q: u64| {
        let whole = u128::from((q - 1) / u64::from(burst)) * u128::from(period.ns());
        whole.saturating_sub(u128::from(jitter.ns()))
    };
    let needed = left.iter().zip(1..).map(|(left, q)| left.saturating_sub(comes(q))).max().unwrap_or(0) + links(path);
    match needed > u128::from(every.at.ns()) {
        true => Err(Broken::new("the longest time of a message", format!("{needed} ns"), every.at)),
        false => Ok(messages as usize),
    }
}
