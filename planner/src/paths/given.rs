//! The stages of a path, and what has to be found of them.

use super::course::{Ask, Asked, Course, Gap, Spot};
use super::packets::{self, AtOnce};
use super::refusal::{PathCause, PathRefusal};
use super::topic;
use crate::backend::{choose, deviation, most_of_a_core, upkeep_of_period, Wanted};
use crate::facts::{known, Facts};
use crate::refusal::Refusal;
use crate::words::{reason, share, time};
use giusto_model::{
    Assurance, Bandwidth, Despite, Duration, Fails, Interface, InterfaceStage, Link, LinkStage, LinkTimes, NetworkPlan,
    PacketWay, Path, PathEvery, PathPoint, PathSource, PathStage, Promise, Rate, Reason, Service, ServiceStage,
    SimulatedPath, Site, Steps, Through, TopicPlan,
};

/// The stages of a path so far.
struct Way {
    through: Vec<PathStage>,
    /// The hosts that messages come from; several after a fork.
    ends: Vec<String>,
    /// How many messages there are, with those that topics have brought; `None`: they come in periods.
    messages: Option<Rate>,
    laws_of_links: bool,
    at_once: AtOnce,
}

/// How many copies of a message come to a stage, and leave it.
#[derive(Clone, Copy)]
struct Copies {
    come: u32,
    go: u32,
}

/// A path, and what it is planned with.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) site: &'a Site,
    pub(super) facts: &'a Facts,
    pub(super) path: &'a Path,
    pub(super) topics: &'a [TopicPlan],
    pub(super) networks: &'a [NetworkPlan],
    /// How long the ensemble has no leader at most.
    pub(super) outage: Option<Duration>,
    pub(super) periods: Periods,
}

/// The host of a service, which is bound to one where there are several.
pub(super) fn host_of<'a>(site: &'a Site, name: &str) -> Option<&'a str> {
    let service = site.services.iter().find(|service| service.name == name)?;
    service.on.as_deref().or(site.hosts.first().map(|host| host.name.as_str()))
}

/// From which periods those of stages are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Periods {
    /// All that backends can do, where they are cheaper with what backends take for them.
    Short,
    /// Those that are chosen for others, too.
    Usual,
}

impl Given<'_> {
    pub(super) fn refused(&self, cause: PathCause) -> Refusal {
        Refusal::Path(Box::new(PathRefusal { path: self.path.name.clone(), cause, nearest: Vec::new() }))
    }

    /// Its stages as what has to be found of them; services that are not among those `known` are added there, and all stages to
    /// the `places`, by host and name; a link by the host from which it goes.
    pub(super) fn course(
        &self,
        through: &[PathStage],
        (names, known): (&mut Vec<String>, &mut Vec<Ask>),
        places: &mut Vec<(String, String)>,
    ) -> Result<Course, Refusal> {
        let steps = Steps::of(through);
        let links = through.iter().map(|stage| stage.link().unwrap_or_default()).collect();
        let (mut route, mut own) = (Vec::new(), Vec::new());
        for stage in through {
            let from = if let PathStage::Link(link) = stage { &link.link_from } else { stage.on() };
            let place = (from.to_string(), stage.to_string());
            let there = places.iter().position(|other| *other == place);
            own.push(there.unwrap_or(places.len()));
            places.extend(there.is_none().then_some(place));
            route.push(match stage {
                PathStage::Service(stage) => {
                    let there = names.iter().position(|name| *name == stage.service);
                    if there.is_none() {
                        names.push(stage.service.clone());
                        known.push(self.ask(stage)?);
                    }
                    Spot::Served(there.unwrap_or(names.len() - 1))
                }
                PathStage::Tokens(stage) => Spot::Tokens(stage.bucket, stage.others),
                PathStage::Broker(stage) => Spot::Measured(stage.latency.clone(), stage.worst),
                PathStage::Link(stage) => Spot::Measured(stage.latency.clone(), stage.worst),
                PathStage::Interface(stage) => Spot::Packets(stage.bucket, stage.bound),
            });
        }
        let (source, every, points) = (self.path.source, self.path.every, self.path.points.clone());
        let simulated = (self.path.assurance == Assurance::Simulated).then(|| through.to_vec());
        let despite = self.path.despite.iter().map(|one| self.gap(one, through)).collect::<Result<_, _>>()?;
        Ok(Course { source, route, places: own, steps, links, points, every, simulated, despite })
    }

    fn gap(&self, one: &Despite, through: &[PathStage]) -> Result<Gap, Refusal> {
        let place = |found: &dyn Fn(&PathStage) -> bool| through.iter().position(found).ok_or_else(|| self.range());
        let at = match &one.fails {
            Fails::Leader => None,
            Fails::Service(name) => Some(place(&|stage| stage.service() == Some(name))?),
            Fails::Topic(name) => {
                Some(place(&|stage| matches!(stage, PathStage::Tokens(one) if one.tokens_of == *name))?)
            }
        };
        // The site has an ensemble where its leader may fail: it was read so.
        let gap = one.gap.or(self.outage).ok_or_else(|| self.range())?;
        Ok(Gap { fails: one.fails.clone(), at, gap })
    }

    /// Its stages with their hosts and the links between; with the laws of those that were measured, where they have one way
    /// only, or with their longest times.
    pub(super) fn stages(&self, laws_of_links: bool, at_once: AtOnce) -> Result<Vec<PathStage>, Refusal> {
        let all = &self.path.through;
        let messages = match self.path.source {
            PathSource::Poisson(rate) => Some(rate),
            PathSource::Periodic { .. } => None,
        };
        let mut way = Way { through: Vec::new(), ends: Vec::new(), messages, laws_of_links, at_once };
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
        let Through::Service(name) = one else {
            let messages = self.of_topic(one)?;
            let planned = self.topics.iter().find(|topic| one == &Through::Topic(topic.name.clone()));
            let planned = planned.ok_or_else(|| self.range())?;
            let on = planned.brokers.first().ok_or_else(|| self.range())?;
            let link = self.over(way, on, branch)?;
            let own = way.messages.ok_or_else(|| self.range())?; // the site was read so
            if let Some(sum) = messages.filter(|sum| *sum > planned.arrivals.rate) {
                let (topic, messages) = (planned.name.clone(), planned.arrivals.rate);
                return Err(self.refused(PathCause::Fewer { topic, messages, own: sum }));
            }
            way.through.extend(topic::stages(planned, own, link).map_err(|cause| self.refused(cause))?);
            // All that it has goes on.
            (way.messages, way.ends) = (Some(planned.arrivals.rate), vec![on.clone()]);
            return Ok(());
        };
        let (service, on) = (self.service(name)?, self.host(name)?);
        let mut link = self.over(way, &on, branch)?;
        let (messages, at_once) = (way.messages, way.at_once);
        let by = |direction, copies, link| {
            let ask =
                packets::Ask { site: self.site, networks: self.networks, path: self.path, messages, copies, at_once };
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

    /// How often messages of all paths that go through a topic come to it, where there are several.
    ///
    /// Errors: a channel of the topic gets all of them, so they have to go on to the same service; and what goes on from there to
    /// another topic would not be known.
    fn of_topic(&self, topic: &Through) -> Result<Option<Rate>, Refusal> {
        let next = |path: &Path| {
            let place = path.through.iter().position(|one| one == topic)?;
            let behind = path.through[place + 1..].iter().find(|one| !self.is_broker(one));
            behind.filter(|one| path.topics().count() == 1 && matches!(one, Through::Service(_))).cloned()
        };
        let (own, mut sum) = (next(self.path), None);
        for other in self.site.paths.all.iter().filter(|other| other.through.contains(topic)) {
            let PathSource::Poisson(rate) = other.source else { return Err(self.range()) };
            if other.name != self.path.name && (own.is_none() || next(other) != own) {
                let (topic, other) = (topic.to_string(), other.name.clone());
                return Err(self.refused(PathCause::Shared { topic, other }));
            }
            sum = Some(sum.map_or(Some(rate), |sum: Rate| sum.plus(rate)).ok_or_else(|| self.range())?);
        }
        Ok(sum)
    }

    /// Whether it is a service that is the broker of a topic.
    fn is_broker(&self, one: &Through) -> bool {
        self.topics
            .iter()
            .any(|topic| matches!((one, &topic.service), (Through::Service(name), Some(own)) if name == own))
    }

    /// From where its messages are to another host: the longest time, or a stage, where all of them go over one link that was
    /// measured.
    fn over(&self, way: &mut Way, on: &str, branch: Option<u32>) -> Result<Option<Duration>, Refusal> {
        let from = way.ends.iter().filter(|from| *from != on);
        let links: Vec<&Link> = from.map(|from| self.link(from, on)).collect::<Result<_, _>>()?;
        let is_one_way = branch.is_none() && way.ends.len() == 1;
        let is_a_law = way.laws_of_links && is_one_way && way.messages.is_some();
        if let ([Link { from, worst, measured: Some(measured), .. }], true) = (&links[..], is_a_law) {
            let (link_from, on, latency) = (from.clone(), on.to_string(), measured.latency.clone());
            way.through.push(PathStage::Link(LinkStage { link_from, on, latency, worst: *worst }));
            return Ok(None);
        }
        Ok(links.into_iter().map(|link| link.worst).max())
    }

    fn host(&self, name: &str) -> Result<String, Refusal> {
        let only = (self.site.hosts.len() == 1).then(|| self.site.hosts[0].name.clone());
        // Of several hosts one has been chosen by now.
        self.service(name)?.on.clone().or(only).ok_or_else(|| self.range())
    }

    fn range(&self) -> Refusal {
        self.refused(PathCause::Analysis(giusto_analysis::Error::Range))
    }

    fn service(&self, name: &str) -> Result<&Service, Refusal> {
        // The site has it: it was read so.
        self.site.services.iter().find(|service| service.name == name).ok_or_else(|| self.range())
    }

    fn link(&self, from: &str, to: &str) -> Result<&Link, Refusal> {
        let found = self.site.paths.links.iter().find(|link| link.from == from && link.to == to);
        let missing = || self.refused(PathCause::NoLink { from: from.into(), to: to.into() });
        found.ok_or_else(missing)
    }

    /// What decided its percentiles, in the place of a proof.
    pub(super) fn said_of_simulation(&self, points: &[PathPoint], simulated: &SimulatedPath) -> Vec<Reason> {
        let SimulatedPath { runs, messages, late_ppb, risk_ppm, proven } = simulated;
        let point = |(point, late): (&PathPoint, &u32)| {
            let why = format!(
                "{} promised: in {runs} independent runs {:.3} % of {messages} messages were later. Simulated, not proven: each \
                 stage with its budget at the end of each period, and a period later, on hosts other than the first from the \
                 worst place of the grid; the chance of a wrong yes is {risk_ppm} in a million at most (decision 0066)",
                time(point.within),
                f64::from(*late) / 1e7,
            );
            reason(&point.percentile.to_string(), time(point.at), why)
        };
        let (needs, why) = match proven {
            Some(proven) => (share(*proven), "of a core for all stages together, if it were to be proven"),
            None => ("none".into(), "is possible, with as much of a core for each stage as there is"),
        };
        points.iter().zip(late_ppb).map(point).chain([reason("proof", needs, why)]).collect()
    }

    /// Whether one of the links whose longest time counts was measured.
    fn is_measured(&self, through: &[PathStage]) -> bool {
        let steps = Steps::of(through);
        let measured = |from: &str, to: &str| self.link(from, to).is_ok_and(|link| link.measured.is_some());
        let linked = through.iter().enumerate().filter(|(_, stage)| stage.link().is_some());
        linked
            .flat_map(|(nth, stage)| steps.before(nth).into_iter().map(move |before| (before, stage.on())))
            .any(|(before, to)| measured(through[before].on(), to))
    }

    /// What its backend can do for a stage.
    fn ask(&self, stage: &ServiceStage) -> Result<Ask, Refusal> {
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
            loss: deviation.loss,
            latency: deviation.latency,
            shortest: match self.periods {
                Periods::Short => chosen.limits.shortest,
                Periods::Usual => chosen.limits.chosen,
            },
            longest: chosen.limits.longest,
            least: chosen.limits.budget,
            most,
            each: upkeep_of_period(chosen.backend, &of_host),
        })
    }

    pub(super) fn reasons(
        &self,
        asked: &Asked,
        (nth, others): (usize, &[&str]),
        servers: &[Interface],
        (through, points, every): (&[PathStage], &[PathPoint], Option<&PathEvery>),
    ) -> Vec<Reason> {
        let mut reasons = vec![reason("messages", self.path.source, "from the site")];
        let all = (asked.reserved(servers) * 1e6).round() as u64;
        let all = Bandwidth::new(all, 1_000_000).unwrap_or(Bandwidth::ONE);
        let searched = match asked.rounds {
            0 => "found by exponentials, less what the laws say is too much: of so many paths no others are tried",
            _ => "for which no change of one period or of two budgets was found to be cheaper",
        };
        let why = match others {
            [] => format!("of a core for all stages together: periods and budgets that keep the promise, {searched}"),
            others => format!(
                "of a core for all services of this path and of '{}', which share some: periods and budgets that keep all \
                 promises, {searched}",
                others.join("', '")
            ),
        };
        reasons.push(reason("bandwidth", share(all), why));
        let course = &asked.courses[nth];
        if asked.shares_a_link(nth) {
            let why =
                "that messages of all paths keep their order over a link between two services which they go through";
            reasons.push(reason("order", "assumed", why));
        }
        let links = course.steps.along(|nth| course.links[nth]).unwrap_or_default();
        if !links.is_zero() {
            let why = match self.is_measured(through) {
                false => "at most, as the site says",
                true => "at most, as the site says or its files have it: what was measured is assumed, not proven",
            };
            reasons.push(reason("links", time(links), why));
        }
        for stage in through {
            if let PathStage::Broker(stage) = stage {
                let why =
                    "the longest that its broker takes, and the percentiles below, as measured: assumed, not proven";
                reasons.push(reason(&format!("topic {}", stage.broker_of), time(stage.worst), why));
            }
            if let PathStage::Tokens(stage) = stage {
                let own = self.topics.iter().find(|topic| topic.name == stage.tokens_of);
                if let Some(service) = own.and_then(|own| own.service.as_ref()) {
                    let why = "is its broker: assumed to take its messages one after the other, when they have their \
                               tokens, each for the time that the site says";
                    reasons.push(reason(&format!("topic {}", stage.tokens_of), service, why));
                }
            }
            if let PathStage::Link(stage) = stage {
                let link = self.link(&stage.link_from, &stage.on).ok().and_then(|link| link.measured.as_ref());
                let why = link.map_or(String::new(), |LinkTimes { file, messages, .. }| {
                    format!(
                        "the longest of {messages} messages in '{file}', and the percentiles below: assumed, not proven, as \
                         is that messages keep their order there"
                    )
                });
                reasons.push(reason(&format!("link to {}", stage.on), time(stage.worst), why));
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
