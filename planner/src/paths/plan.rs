//! From the paths of a site to what each of their services has to be given.

use super::packets;
use super::refusal::{PathCause, PathRefusal};
use super::search::{Ask, Asked, Found, Spot, ROUNDS};
use super::topic;
use crate::backend::{choose, deviation, most_of_a_core, Wanted};
use crate::facts::{known, Facts};
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use crate::topics;
use crate::words::{reason, share, time};
use giusto_model::{
    Bandwidth, Duration, Interface, InterfaceStage, NetworkPlan, PacketWay, Path, PathEvery, PathPlan, PathPoint,
    PathSource, PathStage, Promise, Rate, Reason, Service, ServiceStage, Site, Steps, Through, TopicPlan,
};

/// A site whose stages know what is counted on of them, and its paths as they are planned.
pub(crate) struct Resolved {
    pub(crate) site: Site,
    pub(crate) paths: Vec<PathPlan>,
}

/// What all paths of `site` need, whose hosts process packets as `networks` say. `None` where it has none.
///
/// Errors: a path that cannot keep its promise, however much its stages get; stages whose backends cannot serve them.
pub(crate) fn planned(
    site: &Site,
    facts: &Facts,
    networks: &[NetworkPlan],
    answers: &Answers,
) -> Result<Option<Resolved>, Refusal> {
    if site.paths.all.is_empty() {
        return Ok(None);
    }
    let mut resolved = Resolved { site: site.clone(), paths: Vec::new() };
    let mut topics = Vec::new();
    if site.paths.all.iter().any(|path| path.topics().next().is_some()) {
        resolved.site.topics = topic::deepened(site)?;
        topics = topics::plan(&resolved.site.topics).map_err(Refusal::Topic)?;
    }
    let given = |path| Given { site, facts, path, topics: &topics, networks };
    let given: Vec<Given> = site.paths.all.iter().map(given).collect();
    let asked: Vec<(Vec<PathStage>, Asked)> = given.iter().map(Given::asked).collect::<Result<_, _>>()?;
    let questions: Vec<Asked> = asked.iter().map(|(_, asked)| asked.clone()).collect();
    for ((given, (through, asked)), found) in given.iter().zip(asked).zip(answers.paths.to(&questions)) {
        let (servers, plan) = given.plan(through, &asked, found)?;
        for (name, server) in given.path.services().zip(servers) {
            let own = resolved.site.services.iter_mut().find(|service| service.name == name);
            if let Some(Promise::Stage { counted, .. }) = own.map(|service| &mut service.promise) {
                *counted = Some(server);
            }
        }
        resolved.paths.push(plan);
    }
    Ok(Some(resolved))
}

/// Of so many paths each is searched for as long as if it were alone, and of more so many times round.
const FEW: usize = 30;
const MANY: usize = 200;

/// The stages of a path so far.
struct Way {
    through: Vec<PathStage>,
    /// The hosts that messages come from; several after a fork.
    ends: Vec<String>,
    /// How many messages there are, with those that topics have brought; `None`: they come in periods.
    messages: Option<Rate>,
}

/// How many copies of a message come to a stage, and leave it.
#[derive(Clone, Copy)]
struct Copies {
    come: u32,
    go: u32,
}

/// A path, and what it is planned with.
struct Given<'a> {
    site: &'a Site,
    facts: &'a Facts,
    path: &'a Path,
    topics: &'a [TopicPlan],
    networks: &'a [NetworkPlan],
}

impl Given<'_> {
    fn refused(&self, cause: PathCause) -> Refusal {
        Refusal::Path(Box::new(PathRefusal { path: self.path.name.clone(), cause, nearest: Vec::new() }))
    }

    /// Its stages, and what has to be found of them.
    fn asked(&self) -> Result<(Vec<PathStage>, Asked), Refusal> {
        let through = self.stages()?;
        let steps = Steps::of(&through);
        let links = through.iter().map(|stage| stage.link().unwrap_or_default()).collect();
        let (mut stages, mut route) = (Vec::new(), Vec::new());
        // Messages that topics have brought so far.
        let mut others: Option<Rate> = None;
        for stage in &through {
            route.push(match stage {
                PathStage::Service(stage) => {
                    stages.push(self.ask(stage, others)?);
                    Spot::Served
                }
                PathStage::Tokens(stage) => {
                    others = match (others, stage.others) {
                        (Some(before), Some(more)) => Some(before.plus(more).ok_or_else(|| self.range())?),
                        (before, more) => before.or(more),
                    };
                    Spot::Tokens(stage.bucket, stage.others)
                }
                PathStage::Broker(stage) => Spot::Measured(stage.clone()),
                PathStage::Interface(stage) => Spot::Packets(stage.bucket, stage.bound),
            });
        }
        let (source, every, points) = (self.path.source, self.path.every, self.path.points.clone());
        let count = self.site.paths.all.len();
        let rounds = if count <= FEW { ROUNDS } else { usize::from(count <= MANY) };
        Ok((through, Asked { source, route, steps, stages, links, points, every, rounds }))
    }

    fn plan(
        &self,
        through: Vec<PathStage>,
        asked: &Asked,
        found: Result<Found, giusto_analysis::Error>,
    ) -> Result<(Vec<Interface>, PathPlan), Refusal> {
        match found.map_err(|why| self.refused(PathCause::Analysis(why)))? {
            Found::Servers(servers, points, every) => {
                let reasons = self.reasons(asked, &servers, (&through, &points, every.as_ref()));
                let (name, source, observe) = (self.path.name.clone(), self.path.source, self.path.observe);
                Ok((servers, PathPlan { name, source, through, points, every, observe, reasons }))
            }
            Found::Overload(stage, load) => {
                let service = self.path.services().nth(stage).unwrap_or_default().to_string();
                Err(self.refused(PathCause::Overload { service, load, most: asked.stages[stage].most }))
            }
            Found::TooSlow { percentile, within, least, dear, part } => {
                let dear = through[dear].to_string();
                Err(self.refused(PathCause::TooSlow { percentile, within, least, dear, part }))
            }
        }
    }

    /// Its stages with their hosts and the links between.
    fn stages(&self) -> Result<Vec<PathStage>, Refusal> {
        let all = &self.path.through;
        let messages = match self.path.source {
            PathSource::Poisson(rate) => Some(rate),
            PathSource::Periodic { .. } => None,
        };
        let mut way = Way { through: Vec::new(), ends: Vec::new(), messages };
        // Into how many branches messages go on, or how many come together.
        let branches = |one: Option<&Through>| match one {
            None => 0,
            Some(Through::All(branches)) => branches.len() as u32,
            Some(Through::Service(_) | Through::Topic(_)) => 1,
        };
        for (nth, one) in all.iter().enumerate() {
            let copies = Copies {
                come: branches(nth.checked_sub(1).and_then(|before| all.get(before))),
                go: branches(all.get(nth + 1)),
            };
            let Through::All(own) = one else {
                self.stage(&mut way, one, None, copies)?;
                continue;
            };
            if way.messages != messages {
                return Err(self.refused(PathCause::Fork { first: own[0][0].to_string() }));
            }
            let (from, mut ends) = (way.ends.clone(), Vec::new());
            for (branch, number) in own.iter().zip(1..) {
                way.ends.clone_from(&from);
                for (place, one) in branch.iter().enumerate() {
                    let come = if place == 0 { copies.come.min(1) } else { 1 };
                    let go = if place + 1 == branch.len() { copies.go.min(1) } else { 1 };
                    self.stage(&mut way, one, Some(number), Copies { come, go })?;
                }
                ends.append(&mut way.ends);
            }
            way.ends = ends;
        }
        Ok(way.through)
    }

    /// The next stage of its `way`, with what is between.
    fn stage(&self, way: &mut Way, one: &Through, branch: Option<u32>, copies: Copies) -> Result<(), Refusal> {
        let mut others = self.site.paths.all.iter().filter(|other| other.name != self.path.name);
        let service = match one {
            Through::Service(name) => Some(name.as_str()),
            Through::Topic(_) | Through::All(_) => None,
        };
        let is_on = |other: &&Path| match service {
            Some(name) => other.services().any(|other| other == name),
            None => other.through.contains(one),
        };
        if let Some(other) = others.find(is_on) {
            let cause = PathCause::Shared { stage: one.to_string(), other: other.name.clone() };
            return Err(self.refused(cause));
        }
        let Some(name) = service else {
            let planned = self.topics.iter().find(|topic| one == &Through::Topic(topic.name.clone()));
            let planned = planned.ok_or_else(|| self.range())?;
            let on = planned.brokers.first().ok_or_else(|| self.range())?;
            let (link, own) = (self.links(way, on)?, way.messages.ok_or_else(|| self.range())?); // the site was read so
            way.through.extend(topic::stages(planned, own, link).map_err(|cause| self.refused(cause))?);
            // All that it has goes on.
            (way.messages, way.ends) = (Some(planned.arrivals.rate), vec![on.clone()]);
            return Ok(());
        };
        let (service, on) = (self.service(name)?, self.host(name)?);
        let mut link = self.links(way, &on)?;
        let messages = way.messages;
        let by = |direction, copies, link| {
            let ask = packets::Ask { networks: self.networks, path: self.path, messages, copies };
            let stage = packets::stage(&ask, (service, &on), direction, (link, branch));
            stage.map(|stage| stage.map(PathStage::Interface)).map_err(|cause| self.refused(cause))
        };
        if copies.come > 0 {
            way.through.extend(by(PacketWay::Received, copies.come, link)?.inspect(|_| link = None));
        }
        way.through.push(PathStage::Service(ServiceStage { service: name.into(), on: on.clone(), link, branch }));
        if copies.go > 0 {
            way.through.extend(by(PacketWay::Sent, copies.go, None)?);
        }
        way.ends = vec![on];
        Ok(())
    }

    /// The longest time from where its messages are to another host.
    fn links(&self, way: &Way, on: &str) -> Result<Option<Duration>, Refusal> {
        let from = way.ends.iter().filter(|from| *from != on);
        Ok(from.map(|from| self.link(from, on)).collect::<Result<Vec<_>, _>>()?.into_iter().max())
    }

    fn host(&self, name: &str) -> Result<String, Refusal> {
        let only = (self.site.hosts.len() == 1).then(|| self.site.hosts[0].name.clone());
        self.service(name)?.on.clone().or(only).ok_or_else(|| {
            let host = self.site.hosts[0].name.clone();
            self.refused(PathCause::NoHost { service: name.to_string(), host })
        })
    }

    fn range(&self) -> Refusal {
        self.refused(PathCause::Analysis(giusto_analysis::Error::Range))
    }

    fn service(&self, name: &str) -> Result<&Service, Refusal> {
        // The site has it: it was read so.
        self.site.services.iter().find(|service| service.name == name).ok_or_else(|| self.range())
    }

    fn link(&self, from: &str, to: &str) -> Result<Duration, Refusal> {
        let found = self.site.paths.links.iter().find(|link| link.from == from && link.to == to);
        let missing = || self.refused(PathCause::NoLink { from: from.into(), to: to.into() });
        found.map(|link| link.worst).ok_or_else(missing)
    }

    /// What its backend can do for a stage.
    fn ask(&self, stage: &ServiceStage, others: Option<Rate>) -> Result<Ask, Refusal> {
        let service = self.service(&stage.service)?;
        let Promise::Stage { service: times, .. } = &service.promise else { return Err(self.range()) };
        let index = self.site.hosts.iter().position(|host| host.name == stage.on).ok_or_else(|| self.range())?;
        let here = self.facts.place(self.site)?;
        let of_host = known(self.site, self.facts, here, index).0;
        let chosen = choose(service, Wanted::Percentiles, &of_host)?;
        let deviation = deviation(chosen.backend, &of_host);
        let (most, _) = most_of_a_core(&self.site.hosts[index], &of_host, chosen.backend);
        Ok(Ask {
            service: times.clone(),
            others,
            loss: deviation.loss,
            latency: deviation.latency,
            shortest: chosen.limits.chosen,
            longest: chosen.limits.longest,
            least: chosen.limits.budget,
            most,
        })
    }

    fn reasons(
        &self,
        asked: &Asked,
        servers: &[Interface],
        (through, points, every): (&[PathStage], &[PathPoint], Option<&PathEvery>),
    ) -> Vec<Reason> {
        let mut reasons = vec![reason("messages", self.path.source, "from the site")];
        let all: f64 = servers.iter().zip(&asked.stages).map(|(one, ask)| ask.cost(*one)).sum();
        let all = Bandwidth::new((all * 1e6).round() as u64, 1_000_000).unwrap_or(Bandwidth::ONE);
        let searched = match asked.rounds {
            0 => "found by exponentials, less what the laws say is too much: of so many paths no others are tried",
            _ => "for which no change of one period or of two budgets was found to be cheaper",
        };
        let why = format!("of a core for all stages together: periods and budgets that keep the promise, {searched}");
        reasons.push(reason("bandwidth", share(all), why));
        let links = asked.steps.along(|nth| asked.links[nth]).unwrap_or_default();
        if !links.is_zero() {
            reasons.push(reason("links", time(links), "at most, as the site says"));
        }
        for stage in through {
            if let PathStage::Broker(stage) = stage {
                let why =
                    "the longest that its broker takes, and the percentiles below, as measured: assumed, not proven";
                reasons.push(reason(&format!("topic {}", stage.broker_of), time(stage.worst), why));
            }
            if let PathStage::Interface(InterfaceStage { interface, packets, bound, .. }) = stage {
                let why = format!(
                    "for the host's processing at most, within its bucket; of a message {packets} packets are counted, and \
                     assumed that its service has no others there"
                );
                reasons.push(reason(interface, time(*bound), why));
            }
        }
        for PathPoint { percentile, within, at, .. } in points {
            let why = format!(
                "{} promised: no more messages are later than the stages' shares of them, each at a rate that grows by what \
                 the stage before may delay (M/G(PS)/1, decision 0052)",
                time(*within)
            );
            reasons.push(reason(&percentile.to_string(), time(*at), why));
        }
        if let Some(PathEvery { within, at, .. }) = every {
            let why = format!("{} promised: the least supply of all stages as one, bursts paid once", time(*within));
            reasons.push(reason("every", time(*at), why));
        }
        reasons
    }
}
