//! From the paths of a site to what each of their services has to be given.

use super::refusal::{promise, PathCause, PathRefusal};
use super::search::{Ask, Asked, Found};
use crate::backend::{choose, deviation, most_of_a_core, Deviation, Wanted};
use crate::facts::{known, Facts};
use crate::promises::percentiles::Answers;
use crate::refusal::{Refusal, Witness};
use crate::words::{reason, share, time};
use giusto_model::{
    Bandwidth, Duration, Interface, Path, PathEvery, PathPlan, PathPoint, PathSource, PathStage, Percentile, Promise,
    Reason, Service, Site, Within,
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
    for path in &site.paths.all {
        let given = Given { site, facts, answers, path };
        let (servers, plan) = given.plan()?;
        for (name, server) in path.through.iter().zip(servers) {
            let own = resolved.site.services.iter_mut().find(|service| service.name == *name);
            if let Some(Promise::Stage { counted, .. }) = own.map(|service| &mut service.promise) {
                *counted = Some(server);
            }
        }
        resolved.paths.push(plan);
    }
    Ok(Some(resolved))
}

/// A path, and what it is planned with.
struct Given<'a> {
    site: &'a Site,
    facts: &'a Facts,
    answers: &'a Answers,
    path: &'a Path,
}

/// A promise is longer by so many thousandths than what is needed, as what is shown is rounded.
const LONGER: u64 = 5;

impl Given<'_> {
    fn refused(&self, cause: PathCause, nearest: Vec<String>) -> Refusal {
        Refusal::Path(Box::new(PathRefusal { path: self.path.name.clone(), cause, nearest }))
    }

    fn plan(&self) -> Result<(Vec<Interface>, PathPlan), Refusal> {
        let (through, links) = self.stages()?;
        let asks: Vec<(Ask, Deviation)> = through.iter().map(|stage| self.ask(stage)).collect::<Result<_, _>>()?;
        let (source, every) = (self.path.source, self.path.every);
        let stages = asks.iter().map(|(ask, _)| ask.clone()).collect();
        let asked = Asked { source, stages, links, points: self.path.points.clone(), every };
        let found = self.answers.paths.to(&asked);
        match found.map_err(|why| self.refused(PathCause::Analysis(why), Vec::new()))? {
            Found::Servers(servers, points, every) => {
                let reasons = self.reasons(&asked, &servers, &points, every.as_ref());
                let (name, source) = (self.path.name.clone(), self.path.source);
                Ok((servers, PathPlan { name, source, through, points, every, reasons }))
            }
            Found::Overload(stage, load) => {
                let (ask, service) = (&asked.stages[stage], through[stage].service.clone());
                Err(self.refused(PathCause::Overload { service, load, most: ask.most }, self.fewer(load, ask.most)))
            }
            Found::TooSlow { percentile, within, least, dear, part } => {
                let dear = through[dear].service.clone();
                let longer = round_up(least);
                let nearest = vec![promise(percentile, longer)];
                Err(self.refused(PathCause::TooSlow { percentile, within, least, dear, part }, nearest))
            }
        }
    }

    /// Fewer messages, for which a core is enough.
    fn fewer(&self, load: Bandwidth, most: Bandwidth) -> Vec<String> {
        let part = 0.9 * most.as_f64() / load.as_f64();
        match self.path.source {
            PathSource::Poisson(rate) => vec![format!("source: {{poisson: {:.3}/s}}", rate.per_second() * part)],
            PathSource::Periodic { period, .. } => {
                let longer = round_up(Duration::from_ns((period.ns() as f64 / part) as u64));
                vec![format!("period: {}", longer.to_string().replace(' ', ""))]
            }
        }
    }

    /// Its stages with their hosts and the links between, and the time over all of those.
    fn stages(&self) -> Result<(Vec<PathStage>, Duration), Refusal> {
        let mut through: Vec<PathStage> = Vec::new();
        let mut sum = Duration::ZERO;
        for name in &self.path.through {
            if let Some(other) = self.site.paths.through(name).find(|other| other.name != self.path.name) {
                let cause = PathCause::Shared { service: name.clone(), other: other.name.clone() };
                return Err(self.refused(cause, vec!["a service of its own for each path".into()]));
            }
            let service = self.service(name)?;
            let only = (self.site.hosts.len() == 1).then(|| self.site.hosts[0].name.clone());
            let Some(on) = service.on.clone().or(only) else {
                let nearest = vec![format!("on: {}", self.site.hosts[0].name)];
                return Err(self.refused(PathCause::NoHost { service: name.clone() }, nearest));
            };
            let before = through.last().filter(|before| before.on != on);
            let link = before.map(|before| self.link(&before.on, &on)).transpose()?;
            sum = sum.checked_add(link.unwrap_or(Duration::ZERO)).ok_or_else(|| self.range())?;
            through.push(PathStage { service: name.clone(), on, link });
        }
        Ok((through, sum))
    }

    fn range(&self) -> Refusal {
        self.refused(PathCause::Analysis(giusto_analysis::Error::Range), Vec::new())
    }

    fn service(&self, name: &str) -> Result<&Service, Refusal> {
        // The site has it: it was read so.
        self.site.services.iter().find(|service| service.name == name).ok_or_else(|| self.range())
    }

    fn link(&self, from: &str, to: &str) -> Result<Duration, Refusal> {
        let found = self.site.paths.links.iter().find(|link| link.from == from && link.to == to);
        found.map(|link| link.worst).ok_or_else(|| {
            let nearest = vec![format!("links: {{{from} to {to}: {{worst: 300us}}}}, should that be so")];
            self.refused(PathCause::NoLink { from: from.into(), to: to.into() }, nearest)
        })
    }

    /// What its backend can do for a stage.
    fn ask(&self, stage: &PathStage) -> Result<(Ask, Deviation), Refusal> {
        let service = self.service(&stage.service)?;
        let Promise::Stage { service: times, .. } = &service.promise else { return Err(self.range()) };
        let index = self.site.hosts.iter().position(|host| host.name == stage.on).ok_or_else(|| self.range())?;
        let here = self.facts.place(self.site)?;
        let of_host = known(self.site, self.facts, here, index).0;
        let chosen = choose(service, Wanted::Percentiles, &of_host)?;
        let deviation = deviation(chosen.backend, &of_host);
        let (most, _) = most_of_a_core(&self.site.hosts[index], &of_host, chosen.backend);
        let ask = Ask {
            service: times.clone(),
            loss: deviation.loss,
            latency: deviation.latency,
            shortest: chosen.limits.chosen,
            longest: chosen.limits.longest,
            least: chosen.limits.budget,
            most,
        };
        Ok((ask, deviation))
    }

    fn reasons(
        &self,
        asked: &Asked,
        servers: &[Interface],
        points: &[PathPoint],
        every: Option<&PathEvery>,
    ) -> Vec<Reason> {
        let mut reasons = vec![reason("messages", self.path.source, "from the site")];
        let all: f64 = servers.iter().zip(&asked.stages).map(|(one, ask)| ask.cost(*one)).sum();
        let all = Bandwidth::new((all * 1e6).round() as u64, 1_000_000).unwrap_or(Bandwidth::ONE);
        let why =
            "of a core for all stages together: periods and budgets that keep the promise, for which no change of one \
                   period or of two budgets was found to be cheaper";
        reasons.push(reason("bandwidth", share(all), why));
        if !asked.links.is_zero() {
            reasons.push(reason("links", time(asked.links), "at most, as the site says"));
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

/// A little more, with two digits.
fn round_up(least: Duration) -> Duration {
    let more = least.ns().saturating_add(least.ns() / 1000 * LONGER);
    let step = 10u64.saturating_pow(more.max(100).ilog10() - 1);
    Duration::from_ns(more.div_ceil(step).saturating_mul(step))
}

/// A refusal of a stage that has no place as one of its path; all others as they are.
///
/// `fits` says whether a site does; what would fit is found by trying longer promises.
pub(crate) fn of_path(site: &Site, resolved: &Site, refusal: Refusal, fits: &dyn Fn(&Site) -> bool) -> Refusal {
    match refusal {
        Refusal::DoesNotFit(witness) => no_room(site, resolved, &witness, fits).unwrap_or(Refusal::DoesNotFit(witness)),
        Refusal::On { host, refusal } => {
            Refusal::On { host, refusal: Box::new(of_path(site, resolved, *refusal, fits)) }
        }
        other => other,
    }
}

fn no_room(site: &Site, resolved: &Site, witness: &Witness, fits: &dyn Fn(&Site) -> bool) -> Option<Refusal> {
    let path = site.paths.through(&witness.service).next()?;
    let own = resolved.services.iter().find(|service| service.name == witness.service)?;
    let Promise::Stage { counted: Some(counted), .. } = own.promise else { return None };
    let needs = counted.bandwidth();
    // Twice as long, and so on; then the least of the steps between.
    let with = |factor: u64| {
        let mut other = site.clone();
        let own = other.paths.all.iter_mut().find(|one| one.name == path.name)?;
        own.points.iter_mut().for_each(|point| point.within = round_up(times(point.within, factor)));
        own.every = own.every.map(|every| round_up(times(every, factor)));
        let told = own.points.iter().map(|&Within { percentile, within }| (Some(percentile), within));
        let told: Vec<(Option<Percentile>, Duration)> = told.chain(own.every.map(|every| (None, every))).collect();
        fits(&other).then_some(told)
    };
    let longer = [15, 20, 30, 40, 60, 80, 120].into_iter().find_map(with);
    let nearest = longer.into_iter().map(|told| {
        let parts: Vec<String> = told.into_iter().map(|(percentile, within)| promise(percentile, within)).collect();
        parts.join(" and ")
    });
    let cause = PathCause::NoRoom { service: witness.service.clone(), needs, why: witness.cause.to_string() };
    let mut nearest: Vec<String> = nearest.collect();
    nearest.push(match witness.host.as_ref().or(site.hosts.first().map(|host| &host.name)) {
        Some(host) => format!("another core on {host}"),
        None => "another core".into(),
    });
    Some(Refusal::Path(Box::new(PathRefusal { path: path.name.clone(), cause, nearest })))
}

/// Tenths.
fn times(time: Duration, tenths: u64) -> Duration {
    Duration::from_ns((u128::from(time.ns()) * u128::from(tenths) / 10).min(u128::from(u64::MAX)) as u64)
}
