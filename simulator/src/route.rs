//! Where messages of a path go: from server to server, and through the places between.

use crate::system::{Between, Execution, Onward, Stop, To, Waypoint, OTHERS};
use giusto_model::{Duration, Instant, PathStage, Steps};

/// A stage of a path that stands still for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStop {
    /// Which, from 0; `None`: all of them.
    pub stage: Option<usize>,
    /// From then
    pub from: Instant,
    /// until then.
    pub until: Instant,
    /// What a service had begun it begins once more; of a bucket all tokens are gone.
    pub lost: bool,
}

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
    /// Where those of the other paths do, path by path.
    pub(crate) others: Vec<Vec<To>>,
    pub(crate) hops: Vec<(To, To, Duration)>,
    pub(crate) between: Vec<Between>,
    /// Which stages of the path each of those is; where branches meet, none.
    pub(crate) places: Vec<Vec<usize>>,
    /// By service: the tasks of its messages. Others, which a topic before it has brought, are of another one.
    pub(crate) tasks: Vec<u32>,
    /// The server or place at which messages end.
    pub(crate) last: usize,
    /// By stage of the path, its server or place.
    pub(crate) at: Vec<usize>,
}

impl Route {
    /// `stages` are those of a path that are services. `None` where it has no stage, or another one.
    pub(crate) fn new(through: &[PathStage], stages: &[Stage], servers: usize) -> Option<Route> {
        let mut build = Build { through, stages, servers, between: Vec::new(), places: Vec::new(), at: Vec::new() };
        let tasks = build.stations()?;
        let steps = Steps::of(through);
        let (first, last) = (steps.0.first()?, steps.0.last()?);
        let meets = |nth: usize| steps.before(nth).len() > 1;
        let joins: Vec<Option<usize>> =
            (0..through.len()).map(|nth| meets(nth).then(|| build.join(steps.before(nth).len()))).collect();
        let end = (last.len() > 1).then(|| build.join(last.len()));
        let mut hops = Vec::new();
        for (nth, join) in joins.iter().enumerate() {
            let target = To { server: build.at[nth], task: 0 };
            let link = through[nth].link().unwrap_or(Duration::ZERO);
            if let Some(join) = join {
                build.between[join - servers].to.push(Onward { of: None, to: target, takes: link });
            }
            for (way, from) in (0..).zip(steps.before(nth)) {
                let (to, takes) = join.map_or((target, link), |join| (To { server: join, task: way }, Duration::ZERO));
                build.hop(from, to, takes, &tasks, &mut hops);
            }
        }
        if let Some(end) = end {
            for (way, branch) in (0..).zip(last) {
                build.hop(branch.end - 1, To { server: end, task: way }, Duration::ZERO, &tasks, &mut hops);
            }
        }
        let firsts = first.iter().map(|branch| To { server: build.at[branch.start], task: 0 }).collect();
        let last = end.or(build.at.last().copied())?;
        let Build { between, places, at, .. } = build;
        Some(Route { firsts, others: Vec::new(), hops, between, places, tasks, last, at })
    }
}

impl Route {
    /// The servers and places of these stages, each with its stop.
    pub(crate) fn stopped(&self, stops: &[PathStop]) -> Vec<Stop> {
        let one = |stop: &PathStop| {
            let PathStop { stage, from, until, lost } = *stop;
            let mut all: Vec<usize> = match stage {
                Some(stage) => self.at.get(stage).copied().into_iter().collect(),
                None => self.at.clone(),
            };
            all.dedup(); // a topic's bucket and its broker are one place
            all.into_iter().map(move |server| Stop { server, from, until, lost })
        };
        stops.iter().flat_map(one).collect()
    }
}

struct Build<'a> {
    through: &'a [PathStage],
    stages: &'a [Stage],
    servers: usize,
    between: Vec<Between>,
    places: Vec<Vec<usize>>,
    /// By stage of the path, its server or place.
    at: Vec<usize>,
}

impl Build<'_> {
    /// All stages of the path; by service, the tasks of its messages.
    fn stations(&mut self) -> Option<Vec<u32>> {
        let (mut served, mut with_others, mut tasks) = (self.stages.iter(), false, Vec::new());
        for (nth, stage) in self.through.iter().enumerate() {
            let number = match stage {
                PathStage::Service(_) => {
                    tasks.push(if with_others { 1 + OTHERS } else { 1 });
                    served.next()?.server
                }
                PathStage::Tokens(stage) => {
                    with_others |= stage.others.is_some();
                    let by = vec![Waypoint::Tokens(stage.bucket, Duration::ZERO)];
                    let others = stage.others.map(|rate| (rate, OTHERS));
                    self.place(Between { by, others, ..Between::default() }, nth)
                }
                PathStage::Interface(stage) => {
                    let by = vec![Waypoint::Tokens(stage.bucket, stage.bound)];
                    self.place(Between { by, ..Between::default() }, nth)
                }
                PathStage::Link(stage) => {
                    self.place(Between { by: vec![Waypoint::Drawn(stage.times())], ..Between::default() }, nth)
                }
                PathStage::Broker(stage) => {
                    self.between.last_mut()?.by.push(Waypoint::Drawn(stage.times()));
                    self.places.last_mut()?.push(nth);
                    self.servers + self.between.len() - 1
                }
            };
            self.at.push(number);
        }
        Some(tasks)
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
    fn hop(&mut self, from: usize, to: To, takes: Duration, tasks: &[u32], hops: &mut Vec<(To, To, Duration)>) {
        let from = self.at[from];
        if from == to.server {
            return; // a topic's bucket and its broker are one place
        }
        if let Some(place) = from.checked_sub(self.servers) {
            return self.between[place].to.push(Onward { of: None, to, takes });
        }
        let own = self.stages.iter().zip(tasks).find(|(stage, _)| stage.server == from);
        let Some((stage, tasks)) = own else { return };
        let takes = stage.late.checked_add(takes).unwrap_or(Duration::from_ns(u64::MAX));
        // To a place where branches meet, the task is the branch; others are not on any.
        hops.extend((0..*tasks).map(|task| (To { server: from, task }, To { task: to.task.max(task), ..to }, takes)));
    }
}
