//! Every message in time, by arrival and service curves, in whole ns.
//!
//! S(w) is the longest that a stage takes for the work w from the beginning of a busy period on: the inverse of its least supply;
//! of a bucket the time for as many tokens; of a bounded stage its bound. With δ(q) the shortest window of q messages
//!
//! - delay: the longest S(work that may come in a closed window Δ) − Δ (horizontal distance), all flows of the stage together, as
//!   the order of what comes at one time is not known;
//! - departures: q of them within max(0, min over j of δ(q + j) + c − S(j + 1)) at least (deconvolution; c the least
//!   service time), for a flow that is alone; where it is not, δ(q) + c − delay;
//! - consecutive stages without others: S(q) = max over p of S₁(p) + S₂(q − p + 1), as a message is in both (*pay bursts only
//!   once*: Le Boudec and Thiran 2001, § 1.4.3). The lesser of that and of the sum counts.

use super::curve::Arrival;
use super::error::PathError;
use super::net::{Flow, Net, Source, Stage, Step, Visit};
use crate::interface::Resource;
use crate::Error;
use giusto_model::{Bucket, Duration};

/// Messages of a busy period at most.
const MOST: usize = 100_000;

/// No message takes longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Every {
    /// From the first arrival to the last departure.
    pub within: Duration,
    /// The sum of the stages' delays, and of a fork's the largest.
    pub sum: Duration,
    /// Stage by stage, branch by branch.
    pub stages: Vec<Late>,
}

/// The longest delay at a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Which, from 0.
    pub stage: usize,
    /// Its delay.
    pub delay: Duration,
}

/// The longest that a message of `flow` takes. O(stages · messages of a busy period · flows), and for consecutive stages without
/// others the square of these messages.
///
/// # Errors
/// [`Error::Path`]: a flow that comes at random, a cycle, a stage that is asked for all that it gives.
pub fn every(net: &Net, flow: usize) -> Result<Every, Error> {
    net.check()?;
    let curves: Vec<&Arrival> = net
        .flows
        .iter()
        .enumerate()
        .map(|(number, flow)| match &flow.source {
            Source::Curve(curve) => Ok(curve),
            Source::Poisson(_) => Err(PathError::NoCurve { flow: number + 1 }),
        })
        .collect::<Result<_, _>>()?;
    let held = |flow: &Flow| flow.visits().any(|visit| !visit.hold.is_zero());
    if let Some(stage) = net.stages.iter().position(|stage| matches!(stage, Stage::Policed(_))) {
        return Err(PathError::Policed { stage: stage + 1 }.into());
    }
    if let Some(flow) = net.flows.iter().position(held) {
        return Err(PathError::Held { flow: flow + 1 }.into());
    }
    let mut known = Known { net, at: Vec::new(), delays: vec![None; net.stages.len()] };
    // Stages in an order in which all flows go forward, so that what comes to each is known.
    for stage in net.order()? {
        let mut there = Vec::new();
        for (number, flow) in net.flows.iter().enumerate() {
            if let Some(visit) = flow.at(stage) {
                let curve = known.reaching(number, curves[number], &flow.before(stage))?;
                there.push((number, curve, visit));
            }
        }
        known.stage(stage, there)?;
    }
    let route = &net.flows[flow].route;
    let mut stages = Vec::new();
    let sum = known.sum(route, &mut stages)?;
    let within = known.together(flow, route)?;
    let time = |ns: u128| u64::try_from(ns).map(Duration::from_ns).map_err(|_| Error::Range);
    Ok(Every { within: time(within)?, sum: time(sum)?, stages })
}

/// A flow at a stage: what comes, and what leaves.
struct Passed {
    flow: usize,
    stage: usize,
    comes: Arrival,
    leaves: Arrival,
    alone: bool,
}

struct Known<'a> {
    net: &'a Net,
    at: Vec<Passed>,
    /// By stage.
    delays: Vec<Option<u128>>,
}

impl Known<'_> {
    /// What of a flow comes after the way `before`.
    fn reaching(&self, flow: usize, source: &Arrival, before: &[Step]) -> Result<Arrival, Error> {
        // After a join: as late as the whole fork, and no delay at least.
        let mut curve = source.clone();
        for step in before {
            curve = match step {
                Step::At(visit) => self.passed(flow, visit.stage)?.leaves.clone(),
                Step::All(_) => {
                    let late = self.sum(std::slice::from_ref(step), &mut Vec::new())?;
                    curve.after(|_, _| late, Duration::ZERO)
                }
            };
        }
        Ok(curve)
    }

    fn passed(&self, flow: usize, stage: usize) -> Result<&Passed, Error> {
        let found = self.at.iter().find(|passed| passed.flow == flow && passed.stage == stage);
        found.ok_or(Error::Path(PathError::Cycle { stage: stage + 1 }))
    }

    /// The delay of a stage, and what leaves it.
    fn stage(&mut self, stage: usize, there: Vec<(usize, Arrival, &Visit)>) -> Result<(), Error> {
        let kind = &self.net.stages[stage];
        let flows: Vec<(&Arrival, u128)> =
            there.iter().map(|(_, curve, visit)| (curve, asked(kind, visit).1)).collect();
        fits(kind, stage, &flows)?;
        let (delay, messages) = delay(kind, stage, &flows)?;
        let alone = there.len() == 1;
        let mut passed = Vec::new();
        for (flow, comes, visit) in there {
            let (least, most) = asked(kind, visit);
            let apart = match kind {
                Stage::Share { .. } => Duration::from_ns(u64::try_from(least).unwrap_or(0)),
                _ => Duration::ZERO,
            };
            // By deconvolution, a line at a time: the longest S(j + 1) − j · time/count.
            let deconvolved = |time: u64, count: u64| {
                let grown = |j: u64| {
                    let served = served(kind, u128::from(j + 1) * most)?;
                    Some(served.saturating_sub(u128::from(j) * u128::from(time) / u128::from(count)))
                };
                (0..messages as u64).map(grown).try_fold(0, |most, grown| Some(most.max(grown?)))
            };
            let least = if matches!(kind, Stage::Share { .. }) { least } else { 0 };
            let grown = |time, count| {
                let by = if alone { deconvolved(time, count).unwrap_or(delay) } else { delay };
                by.min(delay).saturating_sub(least)
            };
            let mut leaves = comes.after(grown, apart);
            if let (Stage::Bucket(bucket), true) = (kind, alone) {
                leaves = leaves.and(Arrival::bucket(*bucket)?);
            }
            passed.push(Passed { flow, stage, comes, leaves, alone });
        }
        self.at.extend(passed);
        self.delays[stage] = Some(delay);
        Ok(())
    }

    fn delay(&self, stage: usize) -> Result<u128, Error> {
        self.delays[stage].ok_or(Error::Path(PathError::Cycle { stage: stage + 1 }))
    }

    /// Delay by delay.
    fn sum(&self, route: &[Step], told: &mut Vec<Late>) -> Result<u128, Error> {
        let mut sum = 0;
        for step in route {
            let mut line = |visits: &[Visit]| {
                visits.iter().try_fold(0, |sum, visit| {
                    let delay = self.delay(visit.stage)?;
                    told.push(Late { stage: visit.stage, delay: Duration::from_ns(delay as u64) });
                    Ok::<u128, Error>(sum + delay)
                })
            };
            sum += match step {
                Step::At(visit) => line(std::slice::from_ref(visit))?,
                Step::All(branches) => {
                    branches.iter().try_fold(0, |most: u128, b| Ok::<_, Error>(most.max(line(b)?)))?
                }
            };
        }
        Ok(sum)
    }

    /// With runs of stages without others as one: of each the lesser.
    fn together(&self, flow: usize, route: &[Step]) -> Result<u128, Error> {
        let (mut sum, mut run): (u128, Vec<&Visit>) = (0, Vec::new());
        for step in route {
            match step {
                Step::At(visit) if self.passed(flow, visit.stage)?.alone => run.push(visit),
                Step::At(visit) => sum += self.run(flow, &std::mem::take(&mut run))? + self.delay(visit.stage)?,
                Step::All(branches) => {
                    sum += self.run(flow, &std::mem::take(&mut run))?;
                    let mut most = 0;
                    for branch in branches {
                        let branch: Vec<Step> = branch.iter().cloned().map(Step::At).collect();
                        most = most.max(self.together(flow, &branch)?);
                    }
                    sum += most;
                }
            }
        }
        Ok(sum + self.run(flow, &run)?)
    }

    /// Consecutive stages in which no other flow is.
    fn run(&self, flow: usize, visits: &[&Visit]) -> Result<u128, Error> {
        let sum = visits.iter().try_fold(0, |sum, visit| Ok::<u128, Error>(sum + self.delay(visit.stage)?))?;
        let Some(first) = visits.first().filter(|_| visits.len() > 1) else { return Ok(sum) };
        let comes = &self.passed(flow, first.stage)?.comes;
        // Grown until what has come is done before the next comes.
        let mut messages = 8;
        loop {
            let (Some(all), Some(idle)) = (self.curve(visits, messages, served), self.curve(visits, messages, idle))
            else {
                return Ok(sum);
            };
            let late = |(q, served): (u64, &u128)| served.saturating_sub(comes.distance(q));
            let delay = (1..).zip(&all).map(late).max().unwrap_or(0);
            let ends = idle.iter().zip(2..).any(|(idle, next)| *idle <= comes.distance(next));
            if ends {
                return Ok(sum.min(delay));
            }
            messages *= 2;
            if messages > MOST_CONVOLVED {
                return Ok(sum);
            }
        }
    }
}

impl Known<'_> {
    /// The convolved curve of consecutive stages, from one message to `messages`; `None` beyond 584 years.
    fn curve(
        &self,
        visits: &[&Visit],
        messages: usize,
        of: impl Fn(&Stage, u128) -> Option<u128>,
    ) -> Option<Vec<u128>> {
        let mut all: Option<Vec<u128>> = None;
        for visit in visits {
            let kind = &self.net.stages[visit.stage];
            let most = asked(kind, visit).1;
            let one: Vec<u128> = (1..=messages as u128).map(|q| of(kind, q * most)).collect::<Option<_>>()?;
            all = Some(all.map_or(one.clone(), |before| convolved(&before, &one)));
        }
        all
    }
}

/// Messages for which curves are convolved, which takes their square.
const MOST_CONVOLVED: usize = 4096;

/// max over p of S₁(p) + S₂(q − p + 1), for q from 1 on.
fn convolved(one: &[u128], other: &[u128]) -> Vec<u128> {
    let at = |q: usize| (0..=q).map(|p| one[p] + other[q - p]).max().unwrap_or(0);
    (0..one.len()).map(at).collect()
}

/// The least and the most that a message takes of what the stage gives: ns of a core; messages of the others.
fn asked(kind: &Stage, visit: &Visit) -> (u128, u128) {
    match kind {
        Stage::Share { .. } => {
            let times = visit.service.iter().filter(|(_, p)| *p > 0.0).map(|(time, _)| u128::from(time.ns()));
            (times.clone().min().unwrap_or(0), times.max().unwrap_or(0))
        }
        _ => (1, 1),
    }
}

/// S(w) in ns; `None` beyond 584 years.
fn served(kind: &Stage, work: u128) -> Option<u128> {
    match *kind {
        // Alone on its core a server on a fixed grid has its budget at one place of its period; beside others, somewhere.
        Stage::Share { share, company } => {
            let (period, budget) = (share.period, share.budget);
            let supply =
                if company { Resource::Periodic { period, budget } } else { Resource::Aligned { period, budget } };
            supply.inverse(work).map(|time| time.ns().into())
        }
        Stage::Bucket(Bucket { rate, depth }) | Stage::Policed(Bucket { rate, depth }) => {
            let (count, time) = rate.fraction();
            let (parts, whole) = depth.fraction();
            // (q − b)/r, rounded up.
            let over = (work.checked_mul(whole.into())?).saturating_sub(parts.into());
            Some(over.checked_mul(time.into())?.div_ceil(u128::from(whole) * u128::from(count)))
        }
        Stage::Bounded(_) | Stage::Measured(_) => longest(kind).map(|most| most.ns().into()),
    }
}

/// What no message of a stage without a queue exceeds.
fn longest(kind: &Stage) -> Option<Duration> {
    match kind {
        Stage::Bounded(most) => Some(*most),
        Stage::Measured(times) => times.iter().filter(|(_, p)| *p > 0.0).map(|(time, _)| *time).max(),
        Stage::Share { .. } | Stage::Bucket(_) | Stage::Policed(_) => None,
    }
}

/// When the stage is as if nothing had come, after the work `work` at once: S, but of a bucket when it is full again.
fn idle(kind: &Stage, work: u128) -> Option<u128> {
    match *kind {
        Stage::Bucket(Bucket { rate, .. }) => {
            let (count, time) = rate.fraction();
            Some(work.checked_mul(time.into())?.div_ceil(count.into()))
        }
        _ => served(kind, work),
    }
}

/// Whether the stage gives more than all flows ask for.
fn fits(kind: &Stage, stage: usize, flows: &[(&Arrival, u128)]) -> Result<(), PathError> {
    let gives = match kind {
        Stage::Share { share, .. } => share.budget.ns() as f64 / share.period.ns() as f64,
        Stage::Bucket(bucket) | Stage::Policed(bucket) => bucket.rate.per_ns(),
        Stage::Bounded(_) | Stage::Measured(_) => return Ok(()),
    };
    let asked = flows.iter().map(|(curve, most)| {
        let (count, time) = curve.rate();
        count as f64 / time as f64 * *most as f64
    });
    let part = asked.sum::<f64>() / gives;
    // Equal is refused: a busy period need not end.
    if part < 1.0 - 1e-12 {
        return Ok(());
    }
    Err(PathError::Full { stage: stage + 1, asked: format!("{:.2} %", 100.0 * part) })
}

/// The longest S(work of a closed window Δ) − Δ, and how many messages come in a busy period.
fn delay(kind: &Stage, stage: usize, flows: &[(&Arrival, u128)]) -> Result<(u128, usize), Error> {
    if let Some(most) = longest(kind) {
        return Ok((most.ns().into(), 1));
    }
    let mut counts = vec![0u64; flows.len()];
    let (mut delay, mut messages, mut work) = (0u128, 0usize, 0u128);
    // What comes next, window by window.
    let mut window = 0u128;
    loop {
        let mut next = u128::MAX;
        for ((curve, most), count) in flows.iter().zip(&mut counts) {
            while curve.distance(*count + 1) <= window {
                *count += 1;
                messages += 1;
                work += most;
                if messages > MOST {
                    return Err(PathError::Busy { stage: stage + 1, messages: MOST }.into());
                }
            }
            next = next.min(curve.distance(*count + 1));
        }
        let done = served(kind, work).ok_or(Error::Range)?;
        delay = delay.max(done.saturating_sub(window));
        if idle(kind, work).ok_or(Error::Range)? <= next {
            return Ok((delay, messages));
        }
        window = next;
    }
}
