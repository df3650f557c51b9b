//! Percentiles of paths that share services (docs/decisions/0062): of messages that come to a service from elsewhere it counts
//! how early and how late they may be, too.

use super::broken::Broken;
use super::late::{claimed, late_at, Counted};
use super::route::{self, Stage};
use giusto_model::{Duration, PathMeet, PathPart, PathPlan, PathPoint, PathSource, PathStage, Plan};
use std::collections::HashMap;
use std::slice;

const BILLION: f64 = 1e9;
/// Lines of others that lead to one another at most: a proof has no more parts than this, so more are a circle.
const DEEPEST: usize = 96;

/// A path of a group.
struct Known<'a> {
    path: &'a PathPlan,
    services: Vec<&'a str>,
    stages: Vec<Stage<'a>>,
    /// Messages in a ns.
    often: f64,
}

impl Known<'_> {
    fn place(&self, service: &str) -> Option<usize> {
        self.services.iter().position(|one| *one == service)
    }

    fn link(&self, place: usize) -> u128 {
        self.path.through[place].link().unwrap_or(Duration::ZERO).ns().into()
    }
}

/// What is known of messages at the end of a line.
struct Reached {
    /// They come so long after they began at most, ns.
    time: u128,
    /// Their rate is counted as so many times what it is.
    grown: f64,
    /// Paths whose messages have come with them since they began.
    with: Vec<usize>,
}

/// Paths that share services, and one of them.
pub(super) struct Group<'a> {
    all: Vec<Known<'a>>,
    own: usize,
}

impl<'a> Group<'a> {
    /// That of path `nth`; `None` where it is alone. Of each path is known which is the first that it belongs together with.
    pub(super) fn of(plan: &'a Plan, together: &[usize], nth: usize) -> Result<Option<Group<'a>>, Broken> {
        let others: Vec<usize> = (0..plan.paths.len()).filter(|other| together[*other] == together[nth]).collect();
        if others.len() < 2 {
            return Ok(None);
        }
        let own = others.iter().position(|other| *other == nth).unwrap_or(0);
        let all: Vec<Known> =
            others.into_iter().map(|other| known(plan, &plan.paths[other])).collect::<Result<_, _>>()?;
        let alike = |one: &Known| {
            let plain = |stage: &PathStage| stage.service().is_some() && stage.branch().is_none();
            one.often > 0.0 && one.path.through.iter().all(plain)
        };
        // What goes the same way stays together, so it has to be one way.
        let mut ways: HashMap<(&str, &str), u128> = HashMap::new();
        for one in &all {
            for (place, pair) in (1..).zip(one.services.windows(2)) {
                let link = one.link(place);
                let known = *ways.entry((pair[0], pair[1])).or_insert(link);
                if known != link {
                    let way = format!("the same link for all paths from '{}' to '{}'", pair[0], pair[1]);
                    return Err(Broken::new(way, format!("{known} ns"), format!("{link} ns")));
                }
            }
        }
        match all.iter().find(|one| !alike(one)) {
            Some(unlike) => Err(Broken::new(
                format!("services one after the other, and messages at random, of path '{}'", unlike.path.name),
                "which shares services with others",
                unlike.path.source,
            )),
            None => Ok(Some(Group { all, own })),
        }
    }

    /// That no more messages are late than `point` says of each part; how many parts there are.
    pub(super) fn check(&self, point: &PathPoint) -> Result<usize, Broken> {
        let mut walk = Walk { group: self, own: point.parts.iter(), meets: point.meets.iter(), compared: 0 };
        walk.line(self.own, self.all[self.own].services.len(), &[], 0)?;
        match walk.meets.next() {
            None => Ok(walk.compared),
            Some(more) => {
                Err(Broken::new("stages that messages meet", "no more", format!("{} of '{}'", more.service, more.path)))
            }
        }
    }
}

fn known<'a>(plan: &'a Plan, path: &'a PathPlan) -> Result<Known<'a>, Broken> {
    let often = match path.source {
        PathSource::Poisson(rate) => rate.per_ns(),
        PathSource::Periodic { .. } => 0.0,
    };
    Ok(Known { path, services: path.services().collect(), stages: route::stages(plan, path)?, often })
}

struct Walk<'a> {
    group: &'a Group<'a>,
    own: slice::Iter<'a, PathPart>,
    meets: slice::Iter<'a, PathMeet>,
    compared: usize,
}

impl<'a> Walk<'a> {
    /// The first `until` services of a path, which leads on to the services `goal`; without a goal, to the end of the path whose
    /// promise this is.
    fn line(&mut self, flow: usize, until: usize, goal: &[&'a str], depth: usize) -> Result<Reached, Broken> {
        if depth > DEEPEST {
            return Err(Broken::new("paths that go through services in one order", "some order", "a circle"));
        }
        let group = self.group;
        let of = &group.all[flow];
        let mut reached = Reached { time: 0, grown: 1.0, with: group.begin_at(of.services[0]) };
        for place in 0..until {
            let service = of.services[place];
            let way: Vec<&str> = [&of.services[place..until], goal].concat();
            if !goal.is_empty() && group.parts(&way) {
                return Err(Broken::new(
                    format!("paths that stay together behind '{service}'"),
                    way.join(", "),
                    "another way",
                ));
            }
            let next = way.get(1).copied();
            let fresh: Vec<usize> =
                group.begin_at(service).into_iter().filter(|one| !reached.with.contains(one)).collect();
            let others = self.others(service, &[&reached.with[..], &fresh].concat(), &way, depth)?;
            let early = others.iter().map(|other| other.time).max().unwrap_or(0);
            let last = goal.is_empty() && place + 1 == until;
            if !last {
                reached.grown *= others.iter().map(|other| other.grown).fold(1.0, f64::max);
            }
            let sum = |flows: &[usize], grown: f64| flows.iter().map(|one| group.all[*one].often * grown).sum::<f64>();
            let often = sum(&reached.with, reached.grown)
                + sum(&fresh, 1.0)
                + others.iter().map(|other| sum(&other.with, other.grown)).sum::<f64>();
            let here = [&reached.with[..], &fresh].concat();
            let on: Vec<usize> =
                here.into_iter().filter(|one| *one == flow || group.goes_on(*one, service, next)).collect();
            let part = self.part(flow, service, goal.is_empty())?;
            let growth = f64::from(part.growth_ppb) / BILLION;
            if (growth == 0.0) != last || growth >= 1.0 {
                return Err(Broken::new("growths between 0 and 1 before the last stage", "some", growth));
            }
            let each = if last { 0.0 } else { sum(&on, reached.grown) / growth };
            if let Stage::Service(server) = &of.stages[place] {
                let own = u128::from(part.within.ns()).saturating_sub(early);
                let d = Duration::from_ns(u64::try_from(own).unwrap_or(u64::MAX));
                let late = late_at(server, (d, part.beyond_ppb), often, Counted { once: goal.is_empty(), each })
                    .map_err(|broken| Broken { what: format!("stage '{service}': {}", broken.what), ..broken })?;
                claimed(service, part.beyond_ppb, late)?;
                self.compared += 1;
            }
            reached.time += u128::from(part.within.ns()) + of.link(place);
            reached.grown /= 1.0 - growth;
            reached.with = on;
        }
        Ok(reached)
    }

    /// Messages that come to `service` from elsewhere, those that have come together as one.
    fn others(
        &mut self,
        service: &'a str,
        here: &[usize],
        way: &[&'a str],
        depth: usize,
    ) -> Result<Vec<Reached>, Broken> {
        let group = self.group;
        let mut all: Vec<Reached> = Vec::new();
        for (nth, other) in group.all.iter().enumerate() {
            let Some(place) = other.place(service) else { continue };
            if here.contains(&nth) || all.iter().any(|one| one.with.contains(&nth)) {
                continue;
            }
            let mut reached = self.line(nth, place, way, depth + 1)?;
            reached.time += other.link(place);
            reached.with.retain(|one| !here.contains(one));
            all.push(reached);
        }
        Ok(all)
    }

    fn part(&mut self, flow: usize, service: &str, is_own: bool) -> Result<PathPart, Broken> {
        let found = match is_own {
            true => self.own.next(),
            false => {
                let met = self.meets.next();
                let path = &self.group.all[flow].path.name;
                met.filter(|met| met.path == *path && met.service == service).map(|met| &met.part)
            }
        };
        let missing =
            || Broken::new(format!("a part for '{service}' of '{}'", self.group.all[flow].path.name), "one", "none");
        found.copied().ok_or_else(missing)
    }
}

impl Group<'_> {
    /// Paths that begin there: together they are one stream of messages at random.
    fn begin_at(&self, service: &str) -> Vec<usize> {
        (0..self.all.len()).filter(|nth| self.all[*nth].services[0] == service).collect()
    }

    fn goes_on(&self, flow: usize, service: &str, next: Option<&str>) -> bool {
        let own = &self.all[flow];
        next.is_some() && own.place(service).and_then(|place| own.services.get(place + 1)).copied() == next
    }

    /// Whether the own path goes through the first of these services, and not on through all of the others.
    fn parts(&self, way: &[&str]) -> bool {
        let own = &self.all[self.own];
        own.place(way[0]).is_some_and(|place| !own.services[place..].starts_with(way))
    }
}
