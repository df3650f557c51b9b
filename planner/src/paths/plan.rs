//! From the paths of a site to what each of their services has to be given.

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
    Bandwidth, Duration, Interface, Path, PathEvery, PathPlan, PathPoint, PathSource, PathStage, Promise, Rate, Reason,
    Service, ServiceStage, Site, Through, TopicPlan,
};

/// A site whose stages know what is counted on of them, and its paths as they are planned.
pub(crate) struct Resolved {
    pub(crate) site: Site,
    pub(crate) paths: Vec<PathPlan>,
}

/// What all paths of `site` need. `None` where it has none.
///
/// Errors: a path that cannot keep its promise, however much its stages get; stages whose backends cannot serve them.
pub(crate) fn planned(site: &Site, facts: &Facts, answers: &Answers) -> Result<Option<Resolved>, Refusal> {
    if site.paths.all.is_empty() {
        return Ok(None);
    }
    let mut resolved = Resolved { site: site.clone(), paths: Vec::new() };
    let mut topics = Vec::new();
    if site.paths.all.iter().any(|path| path.topics().next().is_some()) {
        resolved.site.topics = topic::deepened(site)?;
        topics = topics::plan(&resolved.site.topics).map_err(Refusal::Topic)?;
    }
    let given: Vec<Given> = site.paths.all.iter().map(|path| Given { site, facts, path, topics: &topics }).collect();
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

/// Both rates; the outer `None`: beyond 64 bits.
fn both(one: Option<Rate>, other: Option<Rate>) -> Option<Option<Rate>> {
    match (one, other) {
        (Some(one), Some(other)) => one.plus(other).map(Some),
        (one, other) => Some(one.or(other)),
    }
}

/// Of so many paths each is searched for as long as if it were alone, and of more so many times round.
const FEW: usize = 30;
const MANY: usize = 200;

/// A path, and what it is planned with.
struct Given<'a> {
    site: &'a Site,
    facts: &'a Facts,
    path: &'a Path,
    topics: &'a [TopicPlan],
}

impl Given<'_> {
    fn refused(&self, cause: PathCause) -> Refusal {
        Refusal::Path(Box::new(PathRefusal { path: self.path.name.clone(), cause, nearest: Vec::new() }))
    }

    /// Its stages, and what has to be found of them.
    fn asked(&self) -> Result<(Vec<PathStage>, Asked), Refusal> {
        let (through, links) = self.stages()?;
        let (mut stages, mut route, mut others) = (Vec::new(), Vec::new(), None);
        for stage in &through {
            route.push(match stage {
                PathStage::Service(stage) => {
                    stages.push(self.ask(stage, others)?);
                    Spot::Served
                }
                PathStage::Tokens(stage) => {
                    others = both(others, stage.others).ok_or_else(|| self.range())?;
                    Spot::Tokens(stage.bucket, stage.others)
                }
                PathStage::Broker(stage) => Spot::Measured(stage.clone()),
            });
        }
        let (source, every, points) = (self.path.source, self.path.every, self.path.points.clone());
        let count = self.site.paths.all.len();
        let rounds = if count <= FEW { ROUNDS } else { usize::from(count <= MANY) };
        Ok((through, Asked { source, route, stages, links, points, every, rounds }))
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

    /// Its stages with their hosts and the links between, and the time over all of those.
    fn stages(&self) -> Result<(Vec<PathStage>, Duration), Refusal> {
        let mut through: Vec<PathStage> = Vec::new();
        let mut sum = Duration::ZERO;
        let mut others = None;
        for one in &self.path.through {
            let apart = self.site.paths.all.iter().filter(|other| other.name != self.path.name);
            if let Some(other) = apart.into_iter().find(|other| other.through.contains(one)) {
                let cause = PathCause::Shared { stage: one.to_string(), other: other.name.clone() };
                return Err(self.refused(cause));
            }
            let (on, planned) = match one {
                Through::Service(name) => (self.host(name)?, None),
                Through::Topic(name) => {
                    let planned = self.topics.iter().find(|topic| topic.name == *name).ok_or_else(|| self.range())?;
                    let on = planned.brokers.first().ok_or_else(|| self.range())?;
                    (on.clone(), Some(planned))
                }
            };
            let before = through.last().filter(|before| before.on() != on);
            let link = before.map(|before| self.link(before.on(), &on)).transpose()?;
            sum = sum.checked_add(link.unwrap_or(Duration::ZERO)).ok_or_else(|| self.range())?;
            match (one, planned) {
                (Through::Topic(_), Some(planned)) => {
                    let PathSource::Poisson(source) = self.path.source else { return Err(self.range()) };
                    let own = both(Some(source), others).flatten().ok_or_else(|| self.range())?;
                    let stages = topic::stages(planned, own, link).map_err(|cause| self.refused(cause))?;
                    // All that it has goes on.
                    others = planned.arrivals.rate.minus(source).filter(|rate| !rate.is_zero());
                    through.extend(stages);
                }
                _ => through.push(PathStage::Service(ServiceStage { service: one.to_string(), on, link })),
            }
        }
        Ok((through, sum))
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
        if !asked.links.is_zero() {
            reasons.push(reason("links", time(asked.links), "at most, as the site says"));
        }
        for stage in through {
            if let PathStage::Broker(stage) = stage {
                let why =
                    "the longest that its broker takes, and the percentiles below, as measured: assumed, not proven";
                reasons.push(reason(&format!("topic {}", stage.broker_of), time(stage.worst), why));
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
