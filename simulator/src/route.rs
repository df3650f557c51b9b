//! Where messages of a path go: from server to server, and through the places between.

use crate::system::{Between, Execution, To, Waypoint, OTHERS};
use giusto_model::{Duration, PathPlan, PathStage, Steps};

/// A stage that is a service.
pub(crate) struct Stage {
    /// Which of the servers.
    pub(crate) server: usize,
    /// Added to each message.
    pub(crate) late: Duration,
    pub(crate) budget: Duration,
    pub(crate) execution: Execution,
}

/// Servers and places, and the ways between. Servers are numbered first.
pub(crate) struct Route {
    /// Where messages come from outside.
    pub(crate) firsts: Vec<To>,
    pub(crate) hops: Vec<(To, To, Duration)>,
    pub(crate) between: Vec<Between>,
    /// Which stages of the path each of those is; where branches meet, none.
    pub(crate) places: Vec<Vec<usize>>,
    /// By service: others, which a topic before it has brought, come as well.
    pub(crate) others: Vec<bool>,
    /// The server or place at which messages end.
    pub(crate) last: usize,
}

impl Route {
    /// `stages` are those of `path` that are services. `None` where it has no stage, or another one.
    pub(crate) fn new(path: &PathPlan, stages: &[Stage], servers: usize) -> Option<Route> {
        let mut build = Build { path, stages, servers, between: Vec::new(), places: Vec::new(), at: Vec::new() };
        let others = build.stations()?;
        let steps = Steps::of(&path.through);
        let (first, last) = (steps.0.first()?, steps.0.last()?);
        let meets = |nth: usize| steps.before(nth).len() > 1;
        let joins: Vec<Option<usize>> =
            (0..path.through.len()).map(|nth| meets(nth).then(|| build.join(steps.before(nth).len()))).collect();
        let end = (last.len() > 1).then(|| build.join(last.len()));
        let mut hops = Vec::new();
        for (nth, join) in joins.iter().enumerate() {
            let target = To { server: build.at[nth], task: 0 };
            let link = path.through[nth].link().unwrap_or(Duration::ZERO);
            if let Some(join) = join {
                build.between[join - servers].to.push((target, link));
            }
            for (way, from) in (0..).zip(steps.before(nth)) {
                let (to, takes) = join.map_or((target, link), |join| (To { server: join, task: way }, Duration::ZERO));
                build.hop(from, to, takes, &others, &mut hops);
            }
        }
        if let Some(end) = end {
            for (way, branch) in (0..).zip(last) {
                build.hop(branch.end - 1, To { server: end, task: way }, Duration::ZERO, &others, &mut hops);
            }
        }
        let firsts = first.iter().map(|branch| To { server: build.at[branch.start], task: 0 }).collect();
        let last = end.or(build.at.last().copied())?;
        let Build { between, places, .. } = build;
        Some(Route { firsts, hops, between, places, others, last })
    }
}

struct Build<'a> {
    path: &'a PathPlan,
    stages: &'a [Stage],
    servers: usize,
    between: Vec<Between>,
    places: Vec<Vec<usize>>,
    /// By stage of the path, its server or place.
    at: Vec<usize>,
}

impl Build<'_> {
    /// All stages of the path; by service, whether others come as well.
    fn stations(&mut self) -> Option<Vec<bool>> {
        let (mut served, mut with_others, mut others) = (self.stages.iter(), false, Vec::new());
        for (nth, stage) in self.path.through.iter().enumerate() {
            let number = match stage {
                PathStage::Service(_) => {
                    others.push(with_others);
                    served.next()?.server
                }
                PathStage::Tokens(stage) => {
                    with_others |= stage.others.is_some();
                    let by = vec![Waypoint::Tokens(stage.bucket, Duration::ZERO)];
                    self.place(Between { by, others: stage.others, ..Between::default() }, nth)
                }
                PathStage::Interface(stage) => {
                    let by = vec![Waypoint::Tokens(stage.bucket, stage.bound)];
                    self.place(Between { by, ..Between::default() }, nth)
                }
                PathStage::Broker(stage) => {
                    self.between.last_mut()?.by.push(Waypoint::Drawn(stage.times()));
                    self.places.last_mut()?.push(nth);
                    self.servers + self.between.len() - 1
                }
            };
            self.at.push(number);
        }
        Some(others)
    }

    fn place(&mut self, place: Between, stage: usize) -> usize {
        self.between.push(place);
        self.places.push(vec![stage]);
        self.servers + self.between.len() - 1
    }

    /// Where so many branches meet.
    fn join(&mut self, branches: usize) -> usize {
        self.between.push(Between { waits: branches as u32, ..Between::default() });
        self.places.push(Vec::new());
        self.servers + self.between.len() - 1
    }

    /// From stage `from` on, so much later.
    fn hop(&mut self, from: usize, to: To, takes: Duration, others: &[bool], hops: &mut Vec<(To, To, Duration)>) {
        let from = self.at[from];
        if from == to.server {
            return; // a topic's bucket and its broker are one place
        }
        if let Some(place) = from.checked_sub(self.servers) {
            return self.between[place].to.push((to, takes));
        }
        let own = self.stages.iter().zip(others).find(|(stage, _)| stage.server == from);
        let Some((stage, others)) = own else { return };
        let takes = stage.late.checked_add(takes).unwrap_or(Duration::from_ns(u64::MAX));
        // To a place where branches meet, the task is the branch; others are not on any.
        let tasks = if *others { 0..=OTHERS } else { 0..=0 };
        hops.extend(tasks.map(|task| (To { server: from, task }, To { task: to.task.max(task), ..to }, takes)));
    }
}
