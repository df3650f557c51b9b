//! Percentiles of paths that share services (docs/decisions/0062, 0073): of messages that come to a stage from elsewhere it
//! counts how early and how late they may be, too.

use super::broken::Broken;
use super::excess::Counted;
use super::flows::{self, Flow, Kind, Place, Step};
use super::interface;
use super::late::{claimed, late_at};
use super::route::Stage;
use super::topic;
use giusto_model::{Duration, PathMeet, PathPart, PathPoint, Plan};
use std::slice;

const BILLION: f64 = 1e9;
/// Lines of others that lead to one another at most: a proof has no more parts than this, so more are a circle.
const DEEPEST: usize = 96;

/// What is known of messages at the end of a line.
#[derive(Clone)]
struct Reached {
    /// They come so long after they began at most, ns.
    time: u128,
    /// Their rate is counted as so many times what it is.
    grown: f64,
    /// Flows whose messages have come with them since they began.
    with: Vec<usize>,
}

/// Where a line leads to.
#[derive(Clone, Copy)]
enum Goal<'g> {
    /// The end of the path whose promise this is.
    End,
    /// The end of a branch; whether of the path whose promise this is.
    Join(bool),
    /// These stages.
    Meet(&'g [String]),
}

/// Paths that share services, and one of them.
pub(super) struct Group<'a> {
    flows: Vec<Flow>,
    stages: Vec<Stage<'a>>,
    own: usize,
}

impl<'a> Group<'a> {
    /// The stage at a place; of an interface that of the path with most packets a message, as which all messages there count.
    fn tightest(&self, place: &Place) -> usize {
        let places = self.flows.iter().flat_map(|flow| flow.route.iter().flatten().flatten());
        let interfaces = places.filter(|one| one.key == place.key).filter_map(|one| match &self.stages[one.stage] {
            Stage::Interface(interface) => Some((interface.bucket.depth, one.stage)),
            _ => None,
        });
        interfaces.min().map_or(place.stage, |(_, stage)| stage)
    }

    /// That of path `nth`; `None` where it is alone. Of each path is known which is the first that it belongs together with.
    pub(super) fn of(plan: &'a Plan, together: &[usize], nth: usize) -> Result<Option<Group<'a>>, Broken> {
        let others: Vec<usize> = (0..plan.paths.len()).filter(|other| together[*other] == together[nth]).collect();
        if others.len() < 2 {
            return Ok(None);
        }
        let own = others.iter().position(|other| *other == nth).unwrap_or(0);
        let (flows, stages) = flows::all(plan, &others)?;
        Ok(Some(Group { flows, stages, own }))
    }

    /// That no more messages are late than `point` says of each part; how many parts there are.
    pub(super) fn check(&self, point: &PathPoint) -> Result<usize, Broken> {
        let mut walk = Walk { group: self, own: point.parts.iter(), meets: point.meets.iter(), compared: 0, depth: 0 };
        let route = &self.flows[self.own].route;
        walk.line((self.own, route), Goal::End, self.begin(self.own))?;
        match walk.meets.next() {
            None => Ok(walk.compared),
            Some(more) => {
                Err(Broken::new("stages that messages meet", "no more", format!("{} of '{}'", more.service, more.path)))
            }
        }
    }

    /// Flows that come into the net where this one does: together they are one stream of messages at random.
    fn begin(&self, flow: usize) -> Reached {
        let with = match self.flows[flow].first() {
            Some(first) => self.begin_at(first),
            None => vec![flow],
        };
        Reached { time: 0, grown: 1.0, with }
    }

    fn begin_at(&self, key: &str) -> Vec<usize> {
        (0..self.flows.len()).filter(|nth| self.flows[*nth].first() == Some(key)).collect()
    }

    /// So many messages of these come in a ns, with their growth.
    fn often(&self, flows: &[usize], grown: f64) -> f64 {
        flows.iter().map(|one| self.flows[*one].often * grown).sum()
    }
}

struct Walk<'a> {
    group: &'a Group<'a>,
    own: slice::Iter<'a, PathPart>,
    meets: slice::Iter<'a, PathMeet>,
    compared: usize,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn line(&mut self, (flow, steps): (usize, &[Step]), goal: Goal, mut at: Reached) -> Result<Reached, Broken> {
        for (nth, step) in steps.iter().enumerate() {
            let rest = &steps[nth + 1..];
            if let [only] = &step[..] {
                for (place, stage) in only.iter().enumerate() {
                    at = self.stage((flow, stage), (&only[place + 1..], rest), goal, at)?;
                }
                continue;
            }
            // Copies in all branches: as late as the latest of them.
            let goal = match goal {
                Goal::End if rest.is_empty() => Goal::End,
                Goal::End | Goal::Join(true) => Goal::Join(true),
                Goal::Join(false) | Goal::Meet(_) => Goal::Join(false),
            };
            let mut end = Reached { with: vec![flow], ..at.clone() };
            let begin = end.clone();
            for branch in step {
                let own = self.line((flow, &[vec![branch.clone()]]), goal, begin.clone())?;
                (end.time, end.grown) = (end.time.max(own.time), end.grown.max(own.grown));
            }
            at = end;
        }
        Ok(at)
    }

    /// One stage, behind which there are others of its branch, and steps.
    fn stage(
        &mut self,
        (flow, place): (usize, &Place),
        (branch, steps): (&[Place], &[Step]),
        goal: Goal,
        mut at: Reached,
    ) -> Result<Reached, Broken> {
        let (group, key) = (self.group, &place.key);
        let is_own = matches!(goal, Goal::End | Goal::Join(true));
        at.time += place.link;
        // Messages of the path itself are never behind the one that is followed.
        let is_path = flow == group.own;
        let ahead: Vec<String> = match goal {
            Goal::Meet(goal) if !is_path => {
                let straight = branch.iter().chain(steps.iter().flatten().flatten()).map(|place| place.key.clone());
                std::iter::once(key.clone()).chain(straight).chain(goal.iter().cloned()).collect()
            }
            _ => vec![key.clone()],
        };
        let forks = !is_path && steps.iter().any(|step| step.len() > 1);
        let next = match (branch.first(), steps.first(), goal) {
            (Some(next), ..) => Some(next.key.as_str()),
            (None, Some(step), _) if step.len() > 1 => None,
            (None, Some(step), _) => Some(step[0][0].key.as_str()),
            (None, None, Goal::Meet(goal)) => Some(goal[0].as_str()),
            (None, None, _) => None,
        };
        let fresh: Vec<usize> = group.begin_at(key).into_iter().filter(|one| !at.with.contains(one)).collect();
        let here = [&at.with[..], &fresh].concat();
        let goes_on = |one: &usize| *one == flow || next.is_some_and(|next| group.flows[*one].steps(key, next));
        let on: Vec<usize> = here.iter().copied().filter(goes_on).collect();
        let of = &group.stages[group.tightest(place)];
        if let (Kind::Drops(bound), false) = (place.kind, is_own) {
            // What it drops delays no message.
            at.time += bound;
            at.with = on;
            return Ok(at);
        }
        let own = &group.flows[group.own];
        let parts = match goal {
            _ if is_path => false,
            Goal::Meet(_) => forks || !own.goes(&ahead),
            Goal::Join(is_own) => !is_own,
            Goal::End => false,
        };
        if parts && own.before(key).is_some() {
            return Err(Broken::new(
                format!("paths that stay together behind '{key}'"),
                ahead.join(", "),
                "another way",
            ));
        }
        let others = match place.kind {
            Kind::Measured => Vec::new(),
            Kind::Queue | Kind::Drops(_) => {
                self.others(key, &here, if forks { Goal::Join(false) } else { Goal::Meet(&ahead) })?
            }
        };
        let part = self.part(flow, key, is_own)?;
        let early = others.iter().map(|other| other.time).max().unwrap_or(0);
        let last = matches!(goal, Goal::End) && branch.is_empty() && steps.is_empty();
        let drops = matches!(place.kind, Kind::Drops(_));
        if !last && !drops {
            at.grown *= others.iter().map(|other| other.grown).fold(1.0, f64::max);
        }
        let often = group.often(&at.with, at.grown)
            + group.often(&fresh, 1.0)
            + others.iter().map(|other| group.often(&other.with, other.grown)).sum::<f64>();
        let growth = f64::from(part.growth_ppb) / BILLION;
        if (growth == 0.0) != (last || drops) || growth >= 1.0 {
            return Err(Broken::new("growths between 0 and 1 before the last stage", "some", growth));
        }
        let each = if last || drops { 0.0 } else { group.often(&on, at.grown) / growth };
        let shorter = |time: Duration| {
            let own = u128::from(time.ns()).saturating_sub(early);
            Duration::from_ns(u64::try_from(own).unwrap_or(u64::MAX))
        };
        let alone = PathPart { within: shorter(part.within), ..part };
        let counted = Counted { once: is_own, each };
        let late = match of {
            Stage::Service(server) => Some(late_at(server, (alone.within, part.beyond_ppb), often, counted)),
            Stage::Tokens(tokens) => Some(topic::late(tokens.bucket, &alone, often, counted)),
            Stage::Broker(broker) => Some(Ok(topic::measured(&broker.latency, broker.worst, &part, counted))),
            Stage::Interface(interface) => Some(interface::late(interface, &part, often, at.time + early)),
            Stage::Link(_) => return Err(Broken::new("links by their longest times", "no law", key)),
            Stage::Elsewhere => None,
        };
        if let Some(late) = late {
            let late = late.map_err(|broken| Broken { what: format!("stage '{key}': {}", broken.what), ..broken })?;
            claimed(key, part.beyond_ppb, late)?;
            self.compared += 1;
        }
        at.time += u128::from(part.within.ns());
        at.grown /= 1.0 - growth;
        at.with = on;
        Ok(at)
    }

    /// Messages that come to a stage from elsewhere, those that have come together as one.
    fn others(&mut self, key: &str, here: &[usize], goal: Goal) -> Result<Vec<Reached>, Broken> {
        let group = self.group;
        let mut all: Vec<Reached> = Vec::new();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Broken::new("paths that go through services in one order", "some order", "a circle"));
        }
        for (nth, other) in group.flows.iter().enumerate() {
            let Some((before, place)) = other.before(key) else { continue };
            if here.contains(&nth) || all.iter().any(|one| one.with.contains(&nth)) {
                continue;
            }
            let mut reached = self.line((nth, &before), goal, group.begin(nth))?;
            reached.time += place.link;
            reached.with.retain(|one| !here.contains(one));
            all.push(reached);
        }
        self.depth -= 1;
        Ok(all)
    }

    fn part(&mut self, flow: usize, key: &str, is_own: bool) -> Result<PathPart, Broken> {
        let name = &self.group.flows[flow].name;
        let found = match is_own {
            true => self.own.next(),
            false => {
                let met = self.meets.next();
                met.filter(|met| met.path == *name && met.service == key).map(|met| &met.part)
            }
        };
        found.copied().ok_or_else(|| Broken::new(format!("a part for '{key}' of '{name}'"), "one", "none"))
    }
}
