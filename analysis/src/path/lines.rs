//! A net as it looks to the messages of one flow: what they go through, and what others that meet them went through before.

use super::error::PathError;
use super::net::{Net, Stage, Step, Visit};
use giusto_model::Duration;

/// Parts of the sum at most.
const MOST_TERMS: usize = 96;

/// Nodes one after the other.
pub(super) type Line = Vec<Node>;

/// What messages go through.
#[derive(Debug)]
pub(super) enum Node {
    /// Where they wait.
    Queue(Queue),
    /// A bounded stage: so long at most. And until when messages are held before it.
    Bounded(Duration, Duration),
    /// All of these.
    Fork(Vec<Line>),
}

/// Waiting at a stage.
#[derive(Debug)]
pub(super) struct Queue {
    /// Which part of the sum, from 0.
    pub(super) term: usize,
    pub(super) stage: usize,
    /// The flow that is followed.
    pub(super) flow: usize,
    /// Flows that have come with it from a stage on that they entered the net by, itself among them.
    pub(super) with: Vec<usize>,
    /// Flows that enter the net here.
    pub(super) fresh: Vec<usize>,
    /// Of both, those that also go on with it.
    pub(super) on: Vec<usize>,
    /// Flows that come from elsewhere.
    pub(super) others: Vec<Other>,
    /// One message is followed, not only all that are before some time.
    pub(super) once: bool,
    /// No stage after it has a queue, or drops what it has no token for.
    pub(super) last: bool,
    /// How old messages are at least that come to it.
    pub(super) hold: Duration,
}

/// Flows that come together from earlier stages of their own.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) flows: Vec<usize>,
    pub(super) before: Line,
    /// How old their messages are at least.
    pub(super) hold: Duration,
}

/// The line of one flow, and how many parts the sum has.
pub(super) struct Lines {
    pub(super) line: Line,
    pub(super) terms: usize,
}

impl Lines {
    /// Of `flow`. The net has been checked.
    ///
    /// # Errors
    /// [`PathError::TooMany`], [`PathError::Parted`].
    pub(super) fn new(net: &Net, flow: usize) -> Result<Lines, PathError> {
        let mut unfold = Unfold { net, root: flow, terms: 0 };
        let with = unfold.enter(flow);
        let line = unfold.steps(&net.flows[flow].route, (flow, with), &Goal::End)?.0;
        Ok(Lines { line, terms: unfold.terms })
    }
}

/// Where a line leads to.
enum Goal {
    /// The end of the path.
    End,
    /// The end of a branch, after which it goes on; whether one message is followed.
    Join(bool),
    /// These stages, of which the last is on the path itself: it says what the messages meet.
    Meet(Vec<usize>),
}

struct Unfold<'a> {
    net: &'a Net,
    /// The flow of the path.
    root: usize,
    terms: usize,
}

impl Unfold<'_> {
    /// Flows that begin where this one does: together they are one Poisson process.
    fn enter(&self, flow: usize) -> Vec<usize> {
        match self.net.flows[flow].first() {
            None => vec![flow],
            first => (0..self.net.flows.len()).filter(|other| self.net.flows[*other].first() == first).collect(),
        }
    }

    /// The line of `steps`, and which flows are still with `flow` at its end.
    fn steps(
        &mut self,
        steps: &[Step],
        (flow, mut with): (usize, Vec<usize>),
        goal: &Goal,
    ) -> Result<(Line, Vec<usize>), PathError> {
        let mut line = Line::new();
        for (place, step) in steps.iter().enumerate() {
            let rest = &steps[place + 1..];
            match step {
                Step::At(visit) => {
                    let meets = match goal {
                        Goal::Meet(stages) => stages.first().copied(),
                        _ => None,
                    };
                    let next = rest.first().map_or(meets, first_of);
                    // Those that enter here are with it from here on: all of them are one Poisson process here.
                    let here = [&with[..], &self.entering(visit.stage, &with)].concat();
                    let on = self.going_on(&here, flow, visit.stage, next);
                    line.push(self.node(visit, (flow, &with, on.clone()), rest, goal)?);
                    with = on;
                }
                Step::All(branches) => {
                    let goal = match goal {
                        Goal::End if rest.is_empty() => Goal::End,
                        Goal::End | Goal::Join(true) => Goal::Join(true),
                        Goal::Join(false) | Goal::Meet(_) => Goal::Join(false),
                    };
                    let lines = branches.iter().map(|branch| {
                        let branch: Vec<Step> = branch.iter().cloned().map(Step::At).collect();
                        Ok(self.steps(&branch, (flow, vec![flow]), &goal)?.0)
                    });
                    line.push(Node::Fork(lines.collect::<Result<_, PathError>>()?));
                    with = vec![flow];
                }
            }
        }
        Ok((line, with))
    }

    /// Flows that enter the net by `stage`, but for those that are `with` the flow already.
    fn entering(&self, stage: usize, with: &[usize]) -> Vec<usize> {
        let flows = self.net.flows.iter().enumerate();
        let first = flows.filter(|(_, flow)| flow.first() == Some(stage)).map(|(other, _)| other);
        first.filter(|other| !with.contains(other)).collect()
    }

    /// Those `with` the flow that go from `stage` on to `next` as it does.
    fn going_on(&self, with: &[usize], flow: usize, stage: usize, next: Option<usize>) -> Vec<usize> {
        let follows = |other: usize| next.is_some_and(|next| self.net.flows[other].after(stage).contains(&next));
        with.iter().copied().filter(|other| *other == flow || follows(*other)).collect()
    }

    fn node(
        &mut self,
        visit: &Visit,
        (flow, with, on): (usize, &[usize], Vec<usize>),
        rest: &[Step],
        goal: &Goal,
    ) -> Result<Node, PathError> {
        let (stage, hold) = (visit.stage, visit.hold);
        match self.net.stages[stage] {
            Stage::Bounded(most) => return Ok(Node::Bounded(most, hold)),
            // What it drops delays no other.
            Stage::Policed(_) if matches!(goal, Goal::Meet(_) | Goal::Join(false)) => {
                return Ok(Node::Bounded(Duration::ZERO, hold));
            }
            _ => {}
        }
        let term = self.terms;
        self.terms += 1;
        if self.terms > MOST_TERMS {
            return Err(PathError::TooMany { terms: self.terms, limit: MOST_TERMS });
        }
        let flows = &self.net.flows;
        // What comes after this stage until the path is met. Messages of the path itself are never behind the one that is
        // followed, so of their ways it is the stage alone.
        let way = match goal {
            Goal::Meet(stages) if flow != self.root => {
                let rest: Option<Vec<usize>> = rest.iter().map(first_of).collect();
                let way = rest.map(|rest| [vec![stage], rest, stages.clone()].concat());
                if flows[self.root].at(stage).is_some() && !way.as_ref().is_some_and(|way| self.on_path(way)) {
                    return Err(PathError::Parted { stage: stage + 1 });
                }
                way
            }
            Goal::Join(false) if flow != self.root && flows[self.root].at(stage).is_some() => {
                return Err(PathError::Parted { stage: stage + 1 });
            }
            _ => Some(vec![stage]),
        };
        let fresh = self.entering(stage, with);
        // No message waits for another where times are known by measurement alone.
        let waits = !matches!(self.net.stages[stage], Stage::Measured(_));
        let elsewhere = |other: &usize| {
            waits && flows[*other].at(stage).is_some() && !with.contains(other) && !fresh.contains(other)
        };
        let later: Vec<usize> = (0..flows.len()).filter(elsewhere).collect();
        let mut others: Vec<Other> = Vec::new();
        for other in later {
            if others.iter().any(|before| before.flows.contains(&other)) {
                continue;
            }
            let goal = way.clone().map_or(Goal::Join(false), Goal::Meet);
            let (before, mut together) = self.steps(&flows[other].before(stage), (other, self.enter(other)), &goal)?;
            together.retain(|one| !with.contains(one));
            let hold = together.iter().filter_map(|one| flows[*one].at(stage)).map(|visit| visit.hold).min();
            others.push(Other { flows: together, before, hold: hold.unwrap_or(Duration::ZERO) });
        }
        let (once, last) = match goal {
            // Bounded stages need nothing of what comes to them.
            Goal::End => (true, rest.iter().all(|step| self.is_bounded(step))),
            Goal::Join(once) => (*once, false),
            Goal::Meet(_) => (false, false),
        };
        Ok(Node::Queue(Queue { term, stage, flow, with: with.to_vec(), on, fresh, others, once, last, hold }))
    }

    fn is_bounded(&self, step: &Step) -> bool {
        matches!(step, Step::At(visit) if matches!(self.net.stages[visit.stage], Stage::Bounded(_)))
    }

    /// Whether the path goes through these stages, one right after the other: into a branch of a fork as well, not out of one,
    /// as where branches meet a message waits for its other copies, and who was behind it may be before it.
    fn on_path(&self, way: &[usize]) -> bool {
        let goes = |chain: &[usize]| chain.windows(way.len()).any(|part| part == way);
        let mut before: Vec<usize> = Vec::new();
        for step in &self.net.flows[self.root].route {
            match step {
                Step::At(visit) => before.push(visit.stage),
                Step::All(branches) => {
                    let into = |branch: &Vec<Visit>| {
                        let own = branch.iter().map(|visit| visit.stage);
                        goes(&before.iter().copied().chain(own).collect::<Vec<_>>())
                    };
                    if branches.iter().any(into) {
                        return true;
                    }
                    before.clear();
                }
            }
        }
        goes(&before)
    }
}

/// The stage a step begins with; none of a fork.
fn first_of(step: &Step) -> Option<usize> {
    match step {
        Step::At(visit) => Some(visit.stage),
        Step::All(_) => None,
    }
}
