//! Where messages of several paths go that share services.

use crate::route::{Route, Stage};
use crate::system::{Between, Onward, To, Waypoint};
use giusto_model::{Duration, PathPlan, PathSource, PathStage, Rate, Steps};

/// Servers and places of paths that share `services`, whose `stages` those are: messages of the n-th path are of task n, and
/// after those of all paths what others send to each topic is of one more. The first path is the one that is told of. `None`
/// where one has no stage, or another one.
pub(crate) fn shared(paths: &[&PathPlan], services: &[&str], stages: &[Stage], servers: usize) -> Option<Route> {
    let mut build = Build {
        services,
        stages,
        servers,
        names: Vec::new(),
        route: Route {
            firsts: Vec::new(),
            others: Vec::new(),
            hops: Vec::new(),
            between: Vec::new(),
            places: Vec::new(),
            tasks: Vec::new(),
            last: 0,
            at: Vec::new(),
        },
    };
    let mut topics: Vec<(usize, Rate)> = Vec::new();
    for (task, path) in (0..).zip(paths) {
        build.path(path, task, &mut topics)?;
    }
    let mut task = paths.len() as u32;
    for (place, rate) in topics.into_iter().filter(|(_, rate)| !rate.is_zero()) {
        build.route.between[place].others = Some((rate, task));
        for path in paths {
            build.brought(path, servers + place, task)?;
        }
        task += 1;
    }
    build.route.tasks = vec![task; services.len()];
    Some(build.route)
}

struct Build<'a> {
    services: &'a [&'a str],
    stages: &'a [Stage],
    servers: usize,
    /// Of each place between servers its host and its name; of one where branches meet none.
    names: Vec<Option<(String, String)>>,
    route: Route,
}

impl Build<'_> {
    fn path(&mut self, path: &PathPlan, task: u32, topics: &mut Vec<(usize, Rate)>) -> Option<()> {
        let through = &path.through;
        let at: Vec<usize> = (0..through.len()).map(|nth| self.station(through, nth, task)).collect::<Option<_>>()?;
        for (stage, at) in through.iter().zip(&at) {
            let (PathStage::Tokens(stage), PathSource::Poisson(own)) = (stage, path.source) else { continue };
            let place = at - self.servers;
            match topics.iter_mut().find(|(known, _)| *known == place) {
                // What others send beside a path is of the paths before, too.
                Some((_, rate)) => *rate = rate.minus(own).unwrap_or(Rate::of(0, Duration::from_secs(1))?),
                None => topics.push((place, stage.others.unwrap_or(Rate::of(0, Duration::from_secs(1))?))),
            }
        }
        let steps = Steps::of(through);
        for (nth, stage) in through.iter().enumerate() {
            let (to, link) = (To { server: at[nth], task }, stage.link().unwrap_or_default());
            match &steps.before(nth)[..] {
                [] => {}
                [before] => self.hop((at[*before], task), to, link)?,
                all => {
                    let join = self.join(all.len(), Some((to, link)));
                    for (way, before) in (0..).zip(all) {
                        self.hop((at[*before], task), To { server: join, task: way }, Duration::ZERO)?;
                    }
                }
            }
        }
        let to = |branch: &std::ops::Range<usize>| To { server: at[branch.start], task };
        let firsts: Vec<To> = steps.0.first()?.iter().map(to).collect();
        if task > 0 {
            self.route.others.push(firsts);
            return Some(());
        }
        let last = steps.0.last()?;
        self.route.last = *at.last()?;
        if last.len() > 1 {
            self.route.last = self.join(last.len(), None);
            for (way, branch) in (0..).zip(last) {
                let join = To { server: self.route.last, task: way };
                self.hop((at[branch.end - 1], task), join, Duration::ZERO)?;
            }
        }
        (self.route.firsts, self.route.at) = (firsts, at);
        Some(())
    }

    /// The server or place of a stage.
    fn station(&mut self, through: &[PathStage], nth: usize, task: u32) -> Option<usize> {
        let stage = &through[nth];
        let (by, topic) = match stage {
            PathStage::Service(own) => {
                let service = self.services.iter().position(|service| *service == own.service)?;
                return Some(self.stages[service].server);
            }
            PathStage::Tokens(own) => (Waypoint::Tokens(own.bucket, Duration::ZERO), Some(&own.tokens_of)),
            PathStage::Broker(own) => (Waypoint::Drawn(own.times()), Some(&own.broker_of)),
            PathStage::Interface(own) => (Waypoint::Tokens(own.bucket, own.bound), None),
            PathStage::Link(own) => (Waypoint::Drawn(own.times()), None),
        };
        let from = if let PathStage::Link(link) = stage { &link.link_from } else { stage.on() };
        let name = (from.to_string(), topic.map_or(stage.to_string(), |topic| format!("topic {topic}")));
        let known = self.names.iter().position(|other| other.as_ref() == Some(&name));
        let place = match known {
            Some(place) => place,
            None => {
                self.names.push(Some(name));
                self.route.between.push(Between::default());
                self.route.places.push(Vec::new());
                self.names.len() - 1
            }
        };
        // A topic's bucket and its broker are one place, which the first path through it makes.
        let is_new = known.is_none() || matches!(stage, PathStage::Broker(_)) && self.route.between[place].by.len() < 2;
        if is_new {
            self.route.between[place].by.push(by);
        }
        if task == 0 {
            self.route.places[place].push(nth);
        }
        Some(self.servers + place)
    }

    /// Where so many branches of a path meet, and go on from.
    fn join(&mut self, branches: usize, to: Option<(To, Duration)>) -> usize {
        let to = to.map(|(to, takes)| Onward { of: None, to, takes }).into_iter().collect();
        self.route.between.push(Between { waits: branches as u32, to, ..Between::default() });
        self.route.places.push(Vec::new());
        self.names.push(None);
        self.servers + self.names.len() - 1
    }

    /// Messages as of a task go on from a server or place; once.
    fn hop(&mut self, (from, task): (usize, u32), to: To, takes: Duration) -> Option<()> {
        if from == to.server {
            return Some(()); // a topic's bucket and its broker
        }
        if let Some(place) = from.checked_sub(self.servers) {
            let onward = Onward { of: Some(task), to, takes };
            let all = &mut self.route.between[place].to;
            all.extend((!all.contains(&onward)).then_some(onward));
            return Some(());
        }
        let stage = self.stages.iter().find(|stage| stage.server == from)?;
        let hop = (To { server: from, task }, to, stage.late.checked_add(takes)?);
        let hops = &mut self.route.hops;
        hops.extend((!hops.contains(&hop)).then_some(hop));
        Some(())
    }

    /// What others send to a topic goes on the way of each path that goes through it.
    fn brought(&mut self, path: &PathPlan, topic: usize, task: u32) -> Option<()> {
        let at: Vec<usize> =
            (0..path.through.len()).map(|nth| self.station(&path.through, nth, 1)).collect::<Option<_>>()?;
        let Some(begin) = at.iter().position(|at| *at == topic) else { return Some(()) };
        for nth in begin + 1..at.len() {
            let link = path.through[nth].link().unwrap_or_default();
            self.hop((at[nth - 1], task), To { server: at[nth], task }, link)?;
        }
        Some(())
    }
}
