//! From the paths of a site to what each of their services has to be given.

use super::course::{Asked, Brought, Common};
use super::despite;
use super::given::{host_of, Given, Periods};
use super::packets::{self, AtOnce};
use super::proofs::{Kept, Proven, Slow};
use super::refusal::{PathCause, Unlike};
use super::search::{Found, ROUNDS};
use super::simulated::{Shown, RISK};
use super::topic;
use crate::facts::Facts;
use crate::placements::Placements;
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use crate::{coordination, topics};
use giusto_analysis::path::PathError;
use giusto_analysis::Error;
use giusto_model::{
    together, Assurance, Bandwidth, DespitePlan, Duration, Fails, Interface, NetworkPlan, Path, PathMeet, PathPart,
    PathPlan, PathPoint, PathSource, PathStage, Promise, SimulatedPath, Site, Within,
};
use std::collections::BTreeMap;

/// A site whose stages know what is counted on of them, and its paths as they are planned.
pub(crate) struct Resolved {
    pub(crate) site: Site,
    pub(crate) paths: Vec<PathPlan>,
}

/// What all hosts know of each other.
pub(super) fn stock(facts: &Facts) -> Facts {
    Facts { host: None, placed: Placements::default(), ..facts.clone() }
}

pub(super) fn is_over_hosts(site: &Site, path: &Path) -> bool {
    let mut hosts: Vec<Option<&str>> = path.services().map(|name| host_of(site, name)).collect();
    hosts.dedup();
    hosts.len() > 1
}

/// How hosts process packets.
#[derive(Clone, Copy)]
pub(crate) struct Networks<'a> {
    /// With what was measured of the host that plans.
    pub(crate) own: &'a [NetworkPlan],
    /// By the site alone.
    pub(crate) alike: &'a [NetworkPlan],
}

/// What all paths of `site` need, whose hosts process packets as `networks` say. `None` where it has none. Servers of paths over
/// several hosts follow from the site alone, so that hosts that plan for themselves choose alike; on the one that plans they
/// are larger where it is later than a stock machine.
///
/// Errors: a path that cannot keep its promise, however much its stages get; stages whose backends cannot serve them.
pub(super) fn planned(
    site: &Site,
    facts: &Facts,
    networks: Networks,
    answers: &Answers,
    periods: Periods,
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
    let leads = |path: &Path| path.despite.iter().any(|one| one.fails == Fails::Leader);
    let ensemble = site.coordination.as_ref().filter(|_| site.paths.all.iter().any(leads));
    let outage = ensemble.map(|ensemble| coordination::plan(ensemble, None)).transpose()?;
    let outage = outage.and_then(|plan| plan.outage());
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    let together = together(site.paths.all.iter().map(Path::services));
    for (first, path) in together.iter().zip(&site.paths.all) {
        let (topics, networks) = (&topics[..], networks.own);
        groups.entry(*first).or_default().0.push(Given { site, facts, path, topics, networks, outage, periods });
    }
    let stock = stock(facts);
    let alike = groups.values().map(|group| group.alike_everywhere(&stock, networks.alike));
    let alike: Vec<Option<Group>> = alike.collect::<Result<_, _>>()?;
    let first = |(own, alike): (&Group, &Option<Group>)| alike.as_ref().unwrap_or(own).asked();
    let asked: Vec<Vec<Question>> = groups.values().zip(&alike).map(first).collect::<Result<_, _>>()?;
    let questions: Vec<Asked> = asked.iter().flatten().map(|question| question.asked.clone()).collect();
    let mut found = answers.paths.to(&questions).into_iter();
    for ((group, alike), questions) in groups.values().zip(&alike).zip(asked) {
        let both: Vec<_> = questions.into_iter().zip(&mut found).enumerate().collect();
        let cost = |(_, (question, found)): &(usize, Answered)| question.cost(found);
        let Some((nth, (question, found))) = both.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
            continue;
        };
        let (question, found) = match (alike, &found) {
            (Some(_), Ok(Found::Servers(servers, _))) => {
                group.no_less_than(nth, servers, &question.asked, answers)?.unwrap_or((question, found))
            }
            (Some(_) | None, _) => (question, found),
        };
        let (servers, plans) = group.plan(&question, found)?;
        for (name, server) in question.services.iter().zip(servers) {
            let own = resolved.site.services.iter_mut().find(|service| service.name == *name);
            if let Some(Promise::Stage { counted, .. }) = own.map(|service| &mut service.promise) {
                *counted = Some(server);
            }
        }
        resolved.paths.extend(plans);
    }
    let place = |plan: &PathPlan| site.paths.all.iter().position(|path| path.name == plan.name);
    resolved.paths.sort_by_cached_key(place);
    Ok(Some(resolved))
}

/// Of so many paths each is searched for as long as if it were alone, and of more so many times round.
const FEW: usize = 30;
const MANY: usize = 200;
/// So it is with those that share services: each is looked at with each. More than these are not planned for yet.
const FEW_TOGETHER: usize = 3;
const MOST_TOGETHER: usize = 12;

/// Paths that share services, or one.
#[derive(Default)]
struct Group<'a>(Vec<Given<'a>>);

/// What has to be found of a group.
struct Question {
    /// By path.
    through: Vec<Vec<PathStage>>,
    /// Those of all paths, each once.
    services: Vec<String>,
    /// All stages of all paths, each once: its host, and its name.
    places: Vec<(String, String)>,
    asked: Asked,
}

/// ... and what was found.
type Answered = (Question, Result<Found, Error>);

impl Question {
    /// What all of its services take of cores, with their managers; without an end where they cannot keep what was promised.
    fn cost(&self, found: &Result<Found, Error>) -> f64 {
        match found {
            Ok(Found::Servers(servers, _) | Found::Simulated(servers, ..)) => self.asked.cost(servers),
            _ => f64::INFINITY,
        }
    }
}

impl Question {
    /// What failures cost a path that takes `at` without them.
    fn despite(&self, nth: usize, servers: &[Interface], at: Option<Duration>) -> Vec<DespitePlan> {
        self.asked.despite(&self.asked.courses[nth], servers, at.unwrap_or_default())
    }
}

impl Group<'_> {
    /// Of a path alone that goes over links which were measured, with their laws, and with their longest times: either may be
    /// the cheaper.
    fn asked(&self) -> Result<Vec<Question>, Refusal> {
        let own = self.question(self.0.len() == 1)?;
        let has_laws = own.through.iter().flatten().any(|stage| matches!(stage, PathStage::Link(_)));
        let other = has_laws.then(|| self.question(false)).transpose()?;
        Ok(std::iter::once(own).chain(other).collect())
    }

    /// The same by the site alone, where it goes over several hosts, of which one plans. What simulation decides is left to that
    /// host.
    fn alike_everywhere<'b>(&self, stock: &'b Facts, networks: &'b [NetworkPlan]) -> Result<Option<Group<'b>>, Refusal>
    where
        Self: 'b,
    {
        let Some(first) = self.0.first() else { return Ok(None) };
        let is_over_hosts = self.0.iter().any(|given| is_over_hosts(given.site, given.path));
        let simulated = self.0.iter().any(|given| given.path.assurance == Assurance::Simulated);
        if !is_over_hosts || simulated || first.facts.place(first.site)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Group(self.0.iter().map(|given| Given { facts: stock, networks, ..*given }).collect())))
    }

    /// Its question of that place, about servers that are `common` to all hosts, and what is found; `None` where it is what was
    /// asked of them.
    fn no_less_than(
        &self,
        nth: usize,
        common: &[Interface],
        asked: &Asked,
        answers: &Answers,
    ) -> Result<Option<Answered>, Refusal> {
        let mut question = self.asked()?.swap_remove(nth);
        if question.asked == *asked {
            return Ok(None);
        }
        let (facts, site) = (self.0[0].facts, self.0[0].site);
        let here = facts.place(site)?.map(|here| site.hosts[here].name.as_str());
        let own = question.services.iter().map(|name| host_of(site, name) == here).collect();
        question.asked.common = Some(Common { servers: common.to_vec(), own });
        let found = answers.paths.to(std::slice::from_ref(&question.asked)).remove(0);
        Ok(Some((question, found)))
    }

    fn question(&self, laws_of_links: bool) -> Result<Question, Refusal> {
        let count = self.0.first().map_or(0, |first| first.site.paths.all.len());
        let rounds = match (count, self.0.len()) {
            (..=FEW, ..=FEW_TOGETHER) => ROUNDS,
            (..=MANY, ..=FEW_TOGETHER) => 1,
            _ => 0,
        };
        if self.0.len() > MOST_TOGETHER {
            let other = self.0[1].path.name.clone();
            return Err(
                self.0[0].refused(PathCause::Unlike { unlike: Unlike::Many(self.0.len(), MOST_TOGETHER), other })
            );
        }
        let asked = Asked { courses: Vec::new(), brought: Vec::new(), stages: Vec::new(), rounds, common: None };
        let mut question = Question { through: Vec::new(), services: Vec::new(), places: Vec::new(), asked };
        for given in &self.0 {
            let through = given.stages(laws_of_links, AtOnce::One)?;
            self.alike(given, &through)?;
            let known = (&mut question.services, &mut question.asked.stages);
            let course = given.course(&through, known, &mut question.places)?;
            if let Some(cause) = despite::refused(&course, self.0.len() > 1) {
                return Err(given.refused(cause));
            }
            question.asked.courses.push(course);
            question.through.push(through);
        }
        question.asked.brought = self.brought(&question.through);
        Ok(question)
    }

    /// What comes to each topic from others than these paths.
    fn brought(&self, through: &[Vec<PathStage>]) -> Vec<Brought> {
        // By topic; `None`: all of its messages are of the paths.
        let mut all: Vec<(&str, Option<Brought>)> = Vec::new();
        for (course, (through, given)) in through.iter().zip(&self.0).enumerate() {
            for (nth, stage) in through.iter().enumerate() {
                let PathStage::Tokens(stage) = stage else { continue };
                let PathSource::Poisson(own) = given.path.source else { continue };
                match all.iter_mut().find(|(topic, _)| *topic == stage.tokens_of) {
                    // More than those of the path itself, of which are those of the others, too.
                    Some((_, known)) => {
                        *known = known.take().and_then(|known| Some(Brought { rate: known.rate.minus(own)?, ..known }));
                        known.iter_mut().for_each(|known| known.by.push((course, nth)));
                    }
                    None => {
                        all.push((&stage.tokens_of, stage.others.map(|rate| Brought { rate, by: vec![(course, nth)] })))
                    }
                }
            }
        }
        all.into_iter().filter_map(|(_, known)| known).filter(|known| !known.rate.is_zero()).collect()
    }

    /// Whether a path that shares services with others is one of those that can be planned together.
    fn alike(&self, given: &Given, through: &[PathStage]) -> Result<(), Refusal> {
        let Some(other) = self.0.iter().find(|other| other.path.name != given.path.name) else { return Ok(()) };
        let is_random = |given: &Given| matches!(given.path.source, PathSource::Poisson(_));
        let unlike = match given.path.source {
            PathSource::Poisson(_) if given.path.assurance == Assurance::Simulated => Some(Unlike::Simulated),
            _ if self.0.iter().any(|other| is_random(other) != is_random(given)) => Some(Unlike::Mixed),
            PathSource::Poisson(_) => None,
            PathSource::Periodic { .. } => through.iter().find_map(|stage| match stage {
                PathStage::Service(stage) => stage.branch.map(|_| Unlike::Fork),
                PathStage::Interface(_) => Some(Unlike::Interface),
                // Others come to topics at random; where it is not alone, the longest time of a link counts.
                PathStage::Tokens(_) | PathStage::Broker(_) | PathStage::Link(_) => None,
            }),
        };
        match unlike {
            None => Ok(()),
            Some(unlike) => Err(given.refused(PathCause::Unlike { unlike, other: other.path.name.clone() })),
        }
    }

    /// What each service gets, and each path.
    fn plan(
        &self,
        question: &Question,
        found: Result<Found, Error>,
    ) -> Result<(Vec<Interface>, Vec<PathPlan>), Refusal> {
        let found = found.map_err(|why| match why {
            Error::Path(why) if self.0.len() > 1 => self.tangled(question, why),
            why => self.drops().unwrap_or_else(|| self.0[0].refused(PathCause::Analysis(why))),
        })?;
        match found {
            Found::Servers(servers, kept) => {
                let plan = |(nth, kept): (usize, Kept)| self.one(question, &servers, nth, kept);
                let plans = kept.into_iter().enumerate().map(plan).collect();
                Ok((servers, plans))
            }
            Found::Simulated(servers, shown, proven) => {
                let plan = self.simulated(question, &servers, &shown, proven);
                Ok((servers, vec![plan]))
            }
            Found::Overload(stage, load) => {
                let service = question.services[stage].clone();
                let through =
                    question.asked.courses.iter().position(|course| course.place(stage).is_some()).unwrap_or(0);
                let most = question.asked.stages[stage].most;
                Err(self.0[through].refused(PathCause::Overload { service, load, most }))
            }
            Found::TooSlow(Slow { course, percentile, within, least, later, dear, part }) => {
                let dear = question.through[course][dear].to_string();
                Err(self.0[course].refused(PathCause::TooSlow { percentile, within, least, later, dear, part }))
            }
        }
    }

    /// An interface whose bucket does not hold all messages that are on their way, as there is no time that all but few take:
    /// those of a path, or of all paths together.
    fn drops(&self) -> Option<Refusal> {
        self.0.iter().find_map(|given| {
            let stages = match given.stages(false, AtOnce::Promised) {
                Ok(stages) => stages,
                Err(why) => return Some(why),
            };
            stages.iter().find_map(|stage| match stage {
                PathStage::Interface(stage) => packets::short(given.site, stage).map(|cause| given.refused(cause)),
                PathStage::Service(_) | PathStage::Tokens(_) | PathStage::Broker(_) | PathStage::Link(_) => None,
            })
        })
    }

    /// Of the paths through the service at which it is, if that is known.
    fn tangled(&self, question: &Question, why: PathError) -> Refusal {
        let stage = match &why {
            PathError::Cycle { stage } | PathError::Parted { stage } | PathError::Branches { stage } => {
                stage.checked_sub(1)
            }
            _ => None,
        };
        let place = stage.and_then(|stage| question.asked.place_of(stage));
        let courses = question.asked.courses.iter().zip(&self.0);
        let mut there = courses.filter(|(course, _)| place.is_none_or(|place| course.places.contains(&place)));
        let first = there.next().map_or(&self.0[0], |(_, given)| given);
        let others: Vec<String> = there.map(|(_, other)| other.path.name.clone()).collect();
        first.refused(PathCause::Tangled { others, service: place.map(|place| question.places[place].1.clone()), why })
    }

    fn one(&self, question: &Question, servers: &[Interface], nth: usize, kept: Kept) -> PathPlan {
        // Flows of the paths come first, and then what others bring.
        let name = |flow: usize| match self.0.get(flow) {
            Some(given) => given.path.name.clone(),
            None => {
                let (course, tokens) = question.asked.brought[flow - self.0.len()].by[0];
                match &question.through[course][tokens] {
                    PathStage::Tokens(stage) => format!("others of {}", stage.tokens_of),
                    stage => format!("others at {stage}"),
                }
            }
        };
        let met = |(flow, place, part): (usize, usize, PathPart)| PathMeet {
            path: name(flow),
            service: question.places[place].1.clone(),
            part,
        };
        let point = |proven: Proven| PathPoint { meets: proven.meets.into_iter().map(met).collect(), ..proven.point };
        let points: Vec<PathPoint> = kept.points.into_iter().map(point).collect();
        let (through, path, every) = (question.through[nth].clone(), self.0[nth].path, kept.every);
        let others: Vec<&str> =
            self.0.iter().map(|other| other.path.name.as_str()).filter(|other| *other != path.name).collect();
        let mut reasons =
            self.0[nth].reasons(&question.asked, (nth, &others), servers, (&through, &points, every.as_ref()));
        let at = points.iter().map(|point| point.at).chain(every.as_ref().map(|every| every.at)).max();
        let despite = question.despite(nth, servers, at);
        reasons.extend(despite::reasons(&despite));
        let (name, source, observe) = (path.name.clone(), path.source, path.observe);
        PathPlan { name, source, through, points, every, observe, simulated: None, despite, reasons }
    }

    /// Of a path alone.
    fn simulated(&self, question: &Question, servers: &[Interface], shown: &Shown, proven: Option<f64>) -> PathPlan {
        let given = &self.0[0];
        let point = |(nth, &Within { percentile, within }): (usize, &Within)| PathPoint {
            percentile,
            within,
            at: shown.at[nth],
            parts: Vec::new(),
            meets: Vec::new(),
        };
        let points: Vec<PathPoint> = given.path.points.iter().enumerate().map(point).collect();
        let simulated = SimulatedPath {
            runs: shown.runs as u32,
            messages: shown.messages(),
            late_ppb: shown.late.iter().map(|late| (late * 1e9).round() as u32).collect(),
            risk_ppm: (RISK * 1e6).round() as u32,
            proven: proven.and_then(|cores| Bandwidth::new((cores * 1e6).round() as u64, 1_000_000)),
        };
        let mut reasons = given.reasons(&question.asked, (0, &[]), servers, (&question.through[0], &[], None));
        let why = "of a core for all stages together: the budgets of a proof, or all there is, made smaller as far as \
                   simulation allows";
        reasons.iter_mut().filter(|one| one.what == "bandwidth").for_each(|one| one.why = why.into());
        reasons.extend(given.said_of_simulation(&points, &simulated));
        let despite = question.despite(0, servers, points.iter().map(|point| point.at).max());
        reasons.extend(despite::reasons(&despite));
        let (name, source, observe) = (given.path.name.clone(), given.path.source, given.path.observe);
        let (through, simulated) = (question.through[0].clone(), Some(simulated));
        PathPlan { name, source, through, points, every: None, observe, simulated, despite, reasons }
    }
}
