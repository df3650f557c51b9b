//! Stages, and the flows that go through them.

use super::curve::Arrival;
use super::error::PathError;
use crate::response::{Server, Share};
use giusto_model::{Bucket, Duration, Rate};

/// One place where messages may wait. All of them serve first come, first served, and keep the order of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A service on a share of a core.
    Share {
        /// B in every P, on a fixed grid.
        share: Share,
        /// It shares its core under EDF with others of at most as much: what it does comes at most P later than that of a
        /// periodic server of its own (docs/decisions/0010-percentiles.md).
        company: bool,
    },
    /// Each message takes a token.
    Bucket(Bucket),
    /// Each message takes a token; one that finds none may be lost, and counts as late however long it is waited for. None waits.
    Policed(Bucket),
    /// Nothing takes longer than this; what comes first leaves first.
    Bounded(Duration),
    /// What a message takes is known by measurement alone, with its probability (Σ = 1), however the others come; what comes
    /// first leaves first.
    Measured(Vec<(Duration, f64)>),
}

/// A flow at a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Which, from 0.
    pub stage: usize,
    /// How long a message takes there, with its probability (Σ = 1). Not looked at but for [`Stage::Share`].
    pub service: Vec<(Duration, f64)>,
    /// A damper: on arrival a message is held until it is so old. 0: it is not held.
    pub hold: Duration,
}

/// A part of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// One stage.
    At(Visit),
    /// Several branches at once, each with a copy of the message: the latest of them counts.
    All(Vec<Vec<Visit>>),
}

/// How messages come.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// At random, so many in a time, independent of all others.
    Poisson(Rate),
    /// No more of them in any window than this curve says.
    Curve(Arrival),
}

/// Messages that go one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// How they come.
    pub source: Source,
    /// In order.
    pub route: Vec<Step>,
}

impl Flow {
    /// Through one stage after the other.
    pub fn line(source: Source, visits: Vec<Visit>) -> Flow {
        Flow { source, route: visits.into_iter().map(Step::At).collect() }
    }

    /// λ in 1/ns; 0 where messages do not come at random.
    pub(super) fn rate(&self) -> f64 {
        match self.source {
            Source::Poisson(rate) => rate.per_ns(),
            Source::Curve(_) => 0.0,
        }
    }

    /// All visits, branch by branch.
    pub(super) fn visits(&self) -> impl Iterator<Item = &Visit> {
        self.route.iter().flat_map(|step| match step {
            Step::At(visit) => vec![visit],
            Step::All(branches) => branches.iter().flatten().collect(),
        })
    }

    /// What it does at `stage`.
    pub(super) fn at(&self, stage: usize) -> Option<&Visit> {
        self.visits().find(|visit| visit.stage == stage)
    }

    /// The stage that it enters the net by; `None` where that is a fork.
    pub(super) fn first(&self) -> Option<usize> {
        match self.route.first() {
            Some(Step::At(visit)) => Some(visit.stage),
            _ => None,
        }
    }

    /// The stages that it goes to right after `stage`: where it forks, several; where branches meet, none.
    pub(super) fn after(&self, stage: usize) -> Vec<usize> {
        for (place, step) in self.route.iter().enumerate() {
            match step {
                Step::At(visit) if visit.stage == stage => {
                    return match self.route.get(place + 1) {
                        None => Vec::new(),
                        Some(Step::At(next)) => vec![next.stage],
                        Some(Step::All(branches)) => branches.iter().filter_map(|b| Some(b.first()?.stage)).collect(),
                    };
                }
                Step::At(_) => {}
                Step::All(branches) => {
                    for branch in branches {
                        if let Some(place) = branch.iter().position(|visit| visit.stage == stage) {
                            return branch.get(place + 1).map(|next| next.stage).into_iter().collect();
                        }
                    }
                }
            }
        }
        Vec::new()
    }

    /// The way to `stage`, without it: of a fork the one branch, unless the stage is after the join.
    pub(super) fn before(&self, stage: usize) -> Vec<Step> {
        let mut way = Vec::new();
        for step in &self.route {
            match step {
                Step::At(visit) if visit.stage == stage => return way,
                Step::All(branches) => {
                    let there = branches.iter().find_map(|branch| {
                        let place = branch.iter().position(|visit| visit.stage == stage)?;
                        Some(branch[..place].iter().cloned().map(Step::At))
                    });
                    match there {
                        Some(part) => {
                            way.extend(part);
                            return way;
                        }
                        None => way.push(step.clone()),
                    }
                }
                Step::At(_) => way.push(step.clone()),
            }
        }
        way
    }
}

/// Stages and flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Net {
    /// By number.
    pub stages: Vec<Stage>,
    /// By number.
    pub flows: Vec<Flow>,
}

impl Net {
    /// Whether all flows go forward through stages that a bound can be had of. O(stages · flows).
    ///
    /// # Errors
    /// [`PathError`]: a stage that is not there, comes twice, is not monotone, serves two branches of one flow; a cycle.
    pub fn check(&self) -> Result<(), PathError> {
        for (stage, kind) in self.stages.iter().enumerate() {
            if matches!(kind, Stage::Share { share, .. } if share.server == Server::ConstantBandwidth) {
                return Err(PathError::Reanchored { stage: stage + 1 });
            }
        }
        for (number, flow) in self.flows.iter().enumerate() {
            let flow_number = number + 1;
            if flow.visits().next().is_none() {
                return Err(PathError::NoStage { flow: flow_number });
            }
            let mut seen = vec![false; self.stages.len()];
            for visit in flow.visits() {
                let stages = self.stages.len();
                let Some(seen) = seen.get_mut(visit.stage) else {
                    return Err(PathError::Unknown { flow: flow_number, stage: visit.stage + 1, stages });
                };
                if std::mem::replace(seen, true) {
                    let twice = PathError::Twice { flow: flow_number, stage: visit.stage + 1 };
                    return Err(if flow.branches(visit.stage) > 1 {
                        PathError::Branches { stage: visit.stage + 1 }
                    } else {
                        twice
                    });
                }
            }
        }
        self.order().map(|_| ())
    }

    /// The stages in an order in which all flows go forward.
    ///
    /// # Errors
    /// [`PathError::Cycle`].
    pub fn order(&self) -> Result<Vec<usize>, PathError> {
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); self.stages.len()];
        for flow in &self.flows {
            let mut from: Vec<usize> = Vec::new();
            for step in &flow.route {
                let branches: Vec<&[Visit]> = match step {
                    Step::At(visit) => vec![std::slice::from_ref(visit)],
                    Step::All(branches) => branches.iter().map(Vec::as_slice).collect(),
                };
                let mut ends = Vec::new();
                for branch in branches {
                    let mut last = from.clone();
                    for visit in branch {
                        last.iter().for_each(|stage| after[*stage].push(visit.stage));
                        last = vec![visit.stage];
                    }
                    ends.extend(last);
                }
                from = ends;
            }
        }
        let mut waits = vec![0usize; self.stages.len()];
        after.iter().flatten().for_each(|stage| waits[*stage] += 1);
        let mut ready: Vec<usize> = (0..self.stages.len()).filter(|stage| waits[*stage] == 0).collect();
        let mut order = Vec::with_capacity(self.stages.len());
        while let Some(stage) = ready.pop() {
            order.push(stage);
            for next in &after[stage] {
                waits[*next] -= 1;
                if waits[*next] == 0 {
                    ready.push(*next);
                }
            }
        }
        match waits.iter().position(|left| *left > 0) {
            Some(stage) => Err(PathError::Cycle { stage: stage + 1 }),
            None => Ok(order),
        }
    }
}

impl Flow {
    /// In how many branches of one fork a stage is.
    fn branches(&self, stage: usize) -> usize {
        let of = |step: &Step| match step {
            Step::At(_) => 0,
            Step::All(branches) => branches.iter().filter(|branch| branch.iter().any(|v| v.stage == stage)).count(),
        };
        self.route.iter().map(of).max().unwrap_or(0)
    }
}
