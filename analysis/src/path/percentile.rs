//! How many messages of a path may take longer than a time: a sum over its stages (docs/decisions/0052-paths.md).
//!
//! For any d_i > 0 and 0 < x_i < 1, with λ_1 = λ, λ_(i+1) = λ_i/(1 − x_i), and R_i the response time at stage i alone under
//! Poisson arrivals of rate λ_i,
//!
//! P(R > d_1 + … + d_k) ≤ Σ_(i<k) [P(R_i > d_i) + (λ_i/x_i)·E(R_i − d_i)⁺] + P(R_k > d_k).
//!
//! A policed bucket has its part, the messages that it drops, and neither time nor growth (docs/decisions/0073).
//!
//! Where flows that come from elsewhere share a stage, their own parts are added, without P, d grows by how early they may
//! be, and the rate by as much as theirs has grown. Each part comes from [`Tail`], which is never too small.

use super::choice::Choice;
use super::error::PathError;
use super::lines::{Line, Lines, Node, Queue};
use super::net::{Flow, Net, Source, Stage};
use crate::bucket::{self, BucketError, Dropped};
use crate::response::{Class, Server, Tail};
use crate::Error;
use giusto_model::Duration;
use std::collections::HashMap;

/// A bound, and how it comes about.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// So long
    pub within: Duration,
    /// all but so many of the messages take at most.
    pub beyond: f64,
    /// Stage by stage, and what others that meet the path do before; forks branch by branch.
    pub parts: Vec<Part>,
    /// By what part of itself the last halving of the search's steps made the time shorter.
    pub halved: f64,
}

/// A stage's part of the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Which, from 0.
    pub stage: usize,
    /// The flow that is followed, from 0.
    pub flow: usize,
    /// Whether it is on the path: not what another flow does before it meets it.
    pub on_path: bool,
    /// d: the time that is planned for it, what others may be early by not included.
    pub within: Duration,
    /// By how much d grows for flows that may be early.
    pub early: Duration,
    /// λ_i · E[C_i] of the share, or of the tokens: of all flows as they come.
    pub load: f64,
    /// λ_i/λ
    pub stretch: f64,
    /// x; `None` at the end of the path, and where no message waits.
    pub x: Option<f64>,
    /// Its part of the sum.
    pub term: f64,
}

/// Laws of one stage.
enum Law {
    /// Of the messages that are followed, and of all that go on with them.
    Waits(Tail, Option<Tail>),
    /// Of those that find no token.
    Dropped(Dropped),
}

/// The laws of stages that were needed so far, for nets with the same flows that differ in the shares of their stages only.
#[derive(Default)]
pub struct Laws {
    known: HashMap<Key, Option<Law>>,
    rough: bool,
}

impl Laws {
    /// Looser ones in microseconds each ([`Tail::exponential`]): what keeps a time by them keeps it.
    pub fn rough() -> Laws {
        Laws { known: HashMap::new(), rough: true }
    }
}

/// A part of the sum, the share that serves it, by how many powers of what the rates at it have grown.
type Key = (usize, Option<(u64, u64, bool)>, u64, Vec<i32>);

/// A net, a flow of it, and the laws that were needed so far.
pub(super) struct Given<'a> {
    net: &'a Net,
    lines: Lines,
    laws: &'a mut Laws,
    /// Rates grow by whole powers of this.
    pub(super) power: f64,
}

/// What is known at the end of a line: time in ns, and how many powers the rate has grown by.
#[derive(Clone, Copy)]
struct Reached {
    time: f64,
    level: i32,
}

impl<'a> Given<'a> {
    pub(super) fn new(net: &'a Net, flow: usize, laws: &'a mut Laws) -> Result<Given<'a>, Error> {
        net.check()?;
        let random = |flow: &Flow| matches!(flow.source, Source::Poisson(rate) if !rate.is_zero());
        if let Some(other) = net.flows.iter().position(|flow| !random(flow)) {
            return Err(PathError::NotRandom { flow: other + 1 }.into());
        }
        let lines = Lines::new(net, flow)?;
        let mut given = Given { net, lines, laws, power: 1.0 };
        // That each stage has a law at all, and how far rates can grow.
        let line = std::mem::take(&mut given.lines.line);
        let checked = given.check(&line);
        given.lines.line = line;
        checked.map(|()| given)
    }

    pub(super) fn terms(&self) -> usize {
        self.lines.terms
    }

    fn key(&self, queue: &Queue, levels: Vec<i32>) -> Key {
        let share = match &self.net.stages[queue.stage] {
            Stage::Share { share, company } => {
                Some((share.budget.ns(), share.period.ns(), *company || share.server == Server::Periodic))
            }
            Stage::Bucket(_) | Stage::Policed(_) | Stage::Bounded(_) | Stage::Measured(_) => None,
        };
        // A rate that has not grown is the same for all powers.
        let power = if levels.iter().all(|level| *level == 0) { 0 } else { self.power.to_bits() };
        (queue.term, share, power, levels)
    }

    fn check(&mut self, line: &Line) -> Result<(), Error> {
        for node in line {
            match node {
                Node::Bounded(..) => {}
                Node::Fork(branches) => branches.iter().try_for_each(|branch| self.check(branch))?,
                Node::Queue(queue) => {
                    let levels = vec![0; 1 + queue.others.len()];
                    let why = |why: Error| {
                        let full = matches!(why, Error::Unstable { .. } | Error::Bucket(BucketError::Load { .. }));
                        PathError::Stage { stage: queue.stage + 1, why: why.to_string(), full }
                    };
                    let key = self.key(queue, levels);
                    if !matches!(self.laws.known.get(&key), Some(Some(_))) {
                        let law = self.law(queue, &key.3).map_err(why)?;
                        self.laws.known.insert(key, Some(law));
                    }
                    queue.others.iter().try_for_each(|other| self.check(&other.before))?;
                }
            }
        }
        Ok(())
    }

    /// How long all but `most` take, each part having its share of it by `choice`; infinite where a stage has no law at its rate.
    /// `parts` are told where they are asked for.
    pub(super) fn time(&mut self, choice: &Choice, most: f64, mut parts: Option<&mut Vec<Part>>) -> f64 {
        let line = std::mem::take(&mut self.lines.line);
        let reached = self.walk(&line, Reached { time: 0.0, level: 0 }, &choice.parts(most), choice, &mut parts);
        self.lines.line = line;
        reached.map_or(f64::INFINITY, |reached| reached.time)
    }

    fn walk(
        &mut self,
        line: &Line,
        mut at: Reached,
        most: &[f64],
        choice: &Choice,
        parts: &mut Option<&mut Vec<Part>>,
    ) -> Option<Reached> {
        for node in line {
            match node {
                Node::Bounded(time, hold) => at.time = at.time.max(hold.ns() as f64) + time.ns() as f64,
                Node::Fork(branches) => {
                    let mut end = at;
                    for branch in branches {
                        let reached = self.walk(branch, at, most, choice, parts)?;
                        end.time = end.time.max(reached.time);
                        end.level = end.level.max(reached.level);
                    }
                    at = end;
                }
                Node::Queue(queue) => at = self.queue(queue, at, most, choice, parts)?,
            }
        }
        Some(at)
    }

    fn queue(
        &mut self,
        queue: &Queue,
        mut at: Reached,
        most: &[f64],
        choice: &Choice,
        parts: &mut Option<&mut Vec<Part>>,
    ) -> Option<Reached> {
        at.time = at.time.max(queue.hold.ns() as f64);
        let mut levels = vec![0];
        let (mut early, mut grown) = (0.0f64, 0);
        for other in &queue.others {
            let start = Reached { time: 0.0, level: 0 };
            let reached = self.walk(&other.before, start, most, choice, parts)?;
            levels.push(reached.level);
            early = early.max(reached.time - other.hold.ns() as f64);
            grown = grown.max(reached.level);
        }
        let drops = matches!(self.net.stages[queue.stage], Stage::Policed(_));
        if !queue.last && !drops {
            at.level += grown;
        }
        levels[0] = at.level;
        let step = choice.step(queue.term);
        let x = 1.0 - self.power.powi(-step);
        let on: f64 = queue.on.iter().map(|flow| self.rate(*flow, at.level)).sum();
        let once = if queue.once { 1.0 } else { 0.0 };
        let each = if queue.last { 0.0 } else { on / x };
        let key = self.key(queue, levels);
        if !self.laws.known.contains_key(&key) {
            let law = self.law(queue, &key.3).ok();
            self.laws.known.insert(key.clone(), law);
        }
        let law = self.laws.known.get(&key)?.as_ref()?;
        let (time, term) = match law {
            Law::Waits(own, None) => own.least(once, each, most[queue.term]),
            Law::Waits(own, Some(on)) => own.least_with(on, once, each, most[queue.term]),
            Law::Dropped(dropped) => {
                // All that are on their way may come there at once. Of those that are lost none is in time.
                let all: f64 = Self::flows(queue, &key.3).map(|(flow, level)| self.rate(flow, level)).sum();
                let term = dropped.part(all * (at.time + early.ceil()));
                if term > most[queue.term] {
                    return None;
                }
                if let Some(parts) = parts {
                    parts.push(Part { x: None, ..self.part(queue, at.level, (0.0, 0.0), (0.0, term)) });
                }
                return Some(at);
            }
        };
        let company = match self.net.stages[queue.stage] {
            Stage::Share { share, company: true } => share.period.ns() as f64,
            _ => 0.0,
        };
        let time = time.ceil() + company;
        if let Some(parts) = parts {
            parts.push(self.part(queue, at.level, (time, early.ceil()), (x, term)));
        }
        at.time += early.ceil() + time;
        at.level += if queue.last { 0 } else { step };
        Some(at)
    }

    fn part(&self, queue: &Queue, level: i32, (time, early): (f64, f64), (x, term): (f64, f64)) -> Part {
        Part {
            stage: queue.stage,
            flow: queue.flow,
            on_path: queue.once,
            within: Duration::from_ns(time as u64),
            early: Duration::from_ns(early as u64),
            load: self.load(queue),
            stretch: self.power.powi(level),
            x: (!queue.last).then_some(x),
            term,
        }
    }

    /// λ of a flow, grown.
    fn rate(&self, flow: usize, level: i32) -> f64 {
        self.net.flows[flow].rate() * self.power.powi(level)
    }

    /// Flows at a stage, and by how many powers their rates have grown.
    fn flows<'q>(queue: &'q Queue, levels: &'q [i32]) -> impl Iterator<Item = (usize, i32)> + 'q {
        let with = queue.with.iter().map(|flow| (*flow, levels[0]));
        let fresh = queue.fresh.iter().map(|flow| (*flow, 0));
        let others = queue.others.iter().zip(&levels[1..]);
        with.chain(fresh).chain(others.flat_map(|(other, level)| other.flows.iter().map(|flow| (*flow, *level))))
    }

    fn law(&self, queue: &Queue, levels: &[i32]) -> Result<Law, Error> {
        let share = match &self.net.stages[queue.stage] {
            Stage::Bucket(bucket) | Stage::Policed(bucket) => {
                let rate = Self::flows(queue, levels).map(|(flow, level)| self.rate(flow, level)).sum();
                return Ok(match self.net.stages[queue.stage] {
                    Stage::Policed(_) => Law::Dropped(Dropped::new(*bucket, rate)?),
                    _ => Law::Waits(bucket::tail(*bucket, rate)?, None),
                });
            }
            Stage::Measured(times) => return Ok(Law::Waits(Tail::steps(times)?, None)),
            Stage::Share { share, company: false } => *share,
            // What comes late by a period is that much later than on a server of its own.
            Stage::Share { share, company: true } => crate::response::Share { server: Server::Periodic, ..*share },
            Stage::Bounded(_) => unreachable!("a bounded stage has no queue"),
        };
        let service = |flow: usize| self.net.flows[flow].at(queue.stage).map_or(&[][..], |visit| &visit.service);
        let classes: Vec<Class> = Self::flows(queue, levels)
            .map(|(flow, level)| Class { rate: self.rate(flow, level), service: service(flow) })
            .collect();
        let own = service(queue.flow);
        let tail = if self.laws.rough { Tail::exponential } else { Tail::new };
        let same = queue.last || queue.on.iter().all(|flow| service(*flow) == own);
        let all: f64 = queue.on.iter().map(|flow| self.rate(*flow, 0)).sum();
        let on = (!same).then(|| {
            let part = |flow: usize| self.rate(flow, 0) / all;
            let mixed = queue.on.iter().flat_map(|flow| service(*flow).iter().map(|(t, p)| (*t, p * part(*flow))));
            tail(share, &classes, &mixed.collect::<Vec<_>>())
        });
        Ok(Law::Waits(tail(share, &classes, own)?, on.transpose()?))
    }

    /// Of all flows as they come.
    fn load(&self, queue: &Queue) -> f64 {
        let levels = vec![0; 1 + queue.others.len()];
        let flows = Self::flows(queue, &levels).map(|(flow, _)| flow);
        match &self.net.stages[queue.stage] {
            Stage::Bucket(bucket) | Stage::Policed(bucket) => {
                flows.map(|flow| self.rate(flow, 0)).sum::<f64>() / bucket.rate.per_ns()
            }
            Stage::Share { share, .. } => {
                let mean = |flow: usize| {
                    let service = self.net.flows[flow].at(queue.stage).map_or(&[][..], |visit| &visit.service);
                    service.iter().map(|(time, p)| time.ns() as f64 * p).sum::<f64>()
                };
                let asked: f64 = flows.map(|flow| self.rate(flow, 0) * mean(flow)).sum();
                asked * share.period.ns() as f64 / share.budget.ns() as f64
            }
            Stage::Bounded(_) | Stage::Measured(_) => 0.0,
        }
    }
}
