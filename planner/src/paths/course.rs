//! Paths that share services, as flows through a net of stages.

use giusto_analysis::path::{Arrival, Flow, Net, Source, Stage, Step, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_analysis::Error;
use giusto_model::{
    times_of, Bandwidth, Bucket, Duration, Fails, Interface, PathSource, PathStage, Rate, ServiceTime, Steps, Tokens,
    Within,
};
use std::collections::HashMap;
use std::ops::Range;

/// All that a search depends on: a path, or several that share services.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// One for each path.
    pub(super) courses: Vec<Course>,
    /// What comes to topics on their way from others.
    pub(super) brought: Vec<Brought>,
    /// The services of them, each once: at least one.
    pub(super) stages: Vec<Ask>,
    /// Times round by the laws themselves.
    pub(super) rounds: usize,
    /// What all hosts choose alike, where this one may take more for its own.
    pub(super) common: Option<Common>,
}

/// Servers that follow from the site alone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Common {
    pub(super) servers: Vec<Interface>,
    /// Which of them are of the host that plans.
    pub(super) own: Vec<bool>,
}

/// A path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Course {
    pub(super) source: PathSource,
    /// All stages, in order.
    pub(super) route: Vec<Spot>,
    /// Which they are of all stages of the paths that are planned together.
    pub(super) places: Vec<usize>,
    /// Which of them are one after the other, and which side by side.
    pub(super) steps: Steps,
    /// Of each stage over the link to it.
    pub(super) links: Vec<Duration>,
    pub(super) points: Vec<Within>,
    pub(super) every: Option<Duration>,
    /// Its stages, where simulation decides its percentiles.
    pub(super) simulated: Option<Vec<PathStage>>,
    /// Failures that it bears.
    pub(super) despite: Vec<Gap>,
}

/// A failure that is borne.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Gap {
    pub(super) fails: Fails,
    /// The stage that stands still; `None`: any of them may.
    pub(super) at: Option<usize>,
    /// So long at most.
    pub(super) gap: Duration,
}

/// What is known of a stage.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Spot {
    /// This one of the services.
    Served(usize),
    /// Tokens, which others take as well.
    Tokens(Bucket, Option<Rate>),
    /// What a broker or a link takes, as it was measured: percentiles, and the longest time.
    Measured(Vec<Within>, Duration),
    /// Tokens of an interface, which may drop what finds none, and how long its host's processing takes at most.
    Packets(Bucket, Duration),
}

/// Messages of none of the paths, which come to a topic at random and go on with all that it has.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Brought {
    pub(super) rate: Rate,
    /// The paths that go through the topic, and which of their stages has its tokens.
    pub(super) by: Vec<(usize, usize)>,
}

/// A stage that gets a server, and what its backend can do.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) service: ServiceTime,
    pub(super) loss: Duration,
    pub(super) latency: Duration,
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
    pub(super) least: Duration,
    pub(super) most: Bandwidth,
    /// What its manager takes for each period.
    pub(super) each: Duration,
}

impl Course {
    /// Which service that is, if it is one.
    pub(super) fn served(&self, nth: usize) -> Option<usize> {
        match self.route[nth] {
            Spot::Served(stage) => Some(stage),
            Spot::Tokens(..) | Spot::Measured(..) | Spot::Packets(..) => None,
        }
    }

    /// Where on its way this service is.
    pub(super) fn place(&self, stage: usize) -> Option<usize> {
        (0..self.route.len()).find(|nth| self.served(*nth) == Some(stage))
    }

    fn source(&self) -> Result<Source, Error> {
        Ok(match self.source {
            PathSource::Poisson(rate) => Source::Poisson(rate),
            PathSource::Periodic { period, jitter, burst: 1 } => {
                Source::Curve(Arrival::periodic(period, jitter, Duration::ZERO)?)
            }
            PathSource::Periodic { period, jitter, burst } => {
                // Within the jitter more may come: as many as in that time on average, rounded up.
                let more = (u128::from(jitter.ns()) * u128::from(burst)).div_ceil(u128::from(period.ns()));
                let depth = u64::from(burst).saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
                let rate = Rate::of(burst.into(), period).ok_or(Error::Range)?;
                Source::Curve(Arrival::bucket(Bucket { rate, depth: Tokens::whole(depth) })?)
            }
        })
    }
}

impl Asked {
    /// Whether links, and what comes late, are stages of the net: where messages may be early by them, or come at once.
    pub(super) fn has_ways(&self) -> bool {
        let drops = |course: &Course| {
            course.every.is_none() && course.route.iter().any(|spot| matches!(spot, Spot::Packets(..)))
        };
        self.courses.len() > 1 || self.courses.iter().any(drops)
    }

    /// Whether messages of another path go with those of this one over a link.
    pub(super) fn shares_a_link(&self, own: usize) -> bool {
        let ways = |course: &Course| -> Vec<(usize, usize)> {
            let linked = (0..course.route.len()).filter(|nth| !course.links[*nth].is_zero());
            let way = |nth: usize| {
                let before = course.steps.before(nth).into_iter();
                before.map(move |before| (course.places[before], course.places[nth]))
            };
            linked.flat_map(way).collect()
        };
        let those = ways(&self.courses[own]);
        let others = self.courses.iter().enumerate().filter(|(nth, _)| *nth != own);
        others.flat_map(|(_, other)| ways(other)).any(|way| those.contains(&way))
    }

    /// How often messages come to a service, 1/ns.
    pub(super) fn often(&self, stage: usize) -> f64 {
        let own = self.courses.iter().filter(|course| course.place(stage).is_some()).map(|one| one.source.per_ns());
        let behind =
            |(course, tokens): &(usize, usize)| self.courses[*course].place(stage).is_some_and(|place| place > *tokens);
        let brought = self.brought.iter().filter(|brought| brought.by.iter().any(behind));
        own.chain(brought.map(|brought| brought.rate.per_ns())).sum()
    }

    /// What a stage takes at most beside waiting, with the link to it.
    pub(super) fn late(&self, course: &Course, nth: usize) -> Duration {
        match &course.route[nth] {
            Spot::Served(stage) => self.stages[*stage].latency,
            Spot::Packets(_, bound) => *bound,
            Spot::Tokens(..) | Spot::Measured(..) => Duration::ZERO,
        }
    }

    /// Links, what comes late at each stage, and the processing of packets. Of a fork the most of a branch, whichever of them
    /// takes longest otherwise.
    pub(super) fn apart(&self, course: &Course) -> Duration {
        // With one too long to add, one that is beyond all.
        let one =
            |nth: usize| self.late(course, nth).checked_add(course.links[nth]).unwrap_or(Duration::from_ns(u64::MAX));
        course.steps.along(one).unwrap_or(Duration::from_ns(u64::MAX))
    }

    /// Whether a stage of its net is the way from one to another.
    pub(super) fn is_way(&self, stage: usize) -> bool {
        stage >= self.stages.len() + self.between().len()
    }

    /// All stages that are no services, each once: by which paths they are known, in the order of their numbers in the net.
    fn between(&self) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (course, own) in self.courses.iter().enumerate() {
            for nth in (0..own.route.len()).filter(|nth| own.served(*nth).is_none()) {
                let known = |(course, nth): &(usize, usize)| self.courses[*course].places[*nth];
                if found.iter().all(|other| known(other) != own.places[nth]) {
                    found.push((course, nth));
                }
            }
        }
        found
    }

    /// Which of all stages that is of the net, if it is one of those.
    pub(super) fn place_of(&self, stage: usize) -> Option<usize> {
        let course = |stage: usize| self.courses.iter().find_map(|course| Some(course.places[course.place(stage)?]));
        match stage.checked_sub(self.stages.len()) {
            None => course(stage),
            Some(nth) => self.between().get(nth).map(|(course, nth)| self.courses[*course].places[*nth]),
        }
    }

    /// The bucket of an interface, in messages. Those of several paths may be of different numbers of packets: each counts as the
    /// largest.
    fn tightest(&self, place: usize) -> Result<Bucket, Error> {
        let all = self.courses.iter().flat_map(|course| course.places.iter().zip(&course.route));
        let buckets = all.filter_map(|(other, spot)| match spot {
            Spot::Packets(bucket, _) if *other == place => Some(*bucket),
            Spot::Packets(..) | Spot::Tokens(..) | Spot::Measured(..) | Spot::Served(_) => None,
        });
        buckets.min_by_key(|bucket| bucket.depth).ok_or(Error::Range)
    }

    /// Stages in the order of the services, and then others, and the ways between, if it [has them](Self::has_ways): else its
    /// times are without what is [apart](Self::apart). Flows in the order of the courses, and then what comes from others.
    pub(super) fn net(&self, servers: &[Interface]) -> Result<Net, Error> {
        let share = |one: &Interface| Stage::Share {
            share: Share { server: Server::Deferrable, budget: one.budget, period: one.period },
            company: true,
        };
        let mut stages: Vec<Stage> = servers.iter().map(share).collect();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for (course, nth) in self.between() {
            let course = &self.courses[course];
            numbers.insert(course.places[nth], stages.len());
            stages.push(match &course.route[nth] {
                Spot::Tokens(bucket, _) => Stage::Bucket(*bucket),
                Spot::Measured(latency, worst) => Stage::Measured(times_of(latency, *worst)),
                Spot::Packets(..) if course.every.is_none() => Stage::Policed(self.tightest(course.places[nth])?),
                // None of its messages waits there.
                Spot::Packets(..) | Spot::Served(_) => Stage::Bounded(Duration::ZERO),
            });
        }
        let mut build = Build { asked: self, stages, numbers, ways: HashMap::new() };
        let own = self.courses.iter().map(|course| {
            let route = build.route(course, 0..course.route.len(), None);
            course.source().map(|source| Flow { source, route })
        });
        let mut flows = own.collect::<Result<Vec<Flow>, Error>>()?;
        let brought =
            self.brought.iter().map(|one| Flow { source: Source::Poisson(one.rate), route: build.brought(one) });
        flows.extend(brought);
        Ok(Net { stages: build.stages, flows })
    }
}

struct Build<'a> {
    asked: &'a Asked,
    stages: Vec<Stage>,
    /// By place, of those that are no services.
    numbers: HashMap<usize, usize>,
    /// By place and the next one, the way from the one to the other: flows that go it stay together. Where branches meet it is as
    /// long as the longest of theirs.
    ways: HashMap<(usize, Option<usize>, bool), usize>,
}

impl Build<'_> {
    /// Through these stages of a path, which begin and end beside a fork or on no branch, from the one before.
    fn route(&mut self, course: &Course, stages: Range<usize>, mut before: Option<usize>) -> Vec<Step> {
        let mut route = Vec::new();
        for step in course.steps.0.iter().filter(|step| stages.contains(&step[0].start)) {
            if let [only] = &step[..] {
                route.extend(self.line(course, only.clone(), before).into_iter().map(Step::At));
                before = Some(only.end - 1);
                continue;
            }
            let branch = |branch: &Range<usize>| {
                let mut visits = self.line(course, branch.clone(), before);
                visits.extend(self.way(course, branch.end - 1, course.steps.after(branch.end - 1).first().copied()));
                visits
            };
            route.push(Step::All(step.iter().map(branch).collect()));
            before = None;
        }
        route.extend(
            before
                .filter(|last| last + 1 == course.route.len())
                .and_then(|last| self.way(course, last, None))
                .map(Step::At),
        );
        route
    }

    /// Stages one right after the other.
    fn line(&mut self, course: &Course, stages: Range<usize>, mut before: Option<usize>) -> Vec<Visit> {
        let mut visits = Vec::new();
        for nth in stages {
            visits.extend(before.and_then(|before| self.way(course, before, Some(nth))));
            visits.push(match &course.route[nth] {
                Spot::Served(stage) => {
                    let service = self.asked.stages[*stage].service.bound();
                    Visit { stage: *stage, service, hold: Duration::ZERO }
                }
                _ => bare(self.numbers[&course.places[nth]]),
            });
            before = Some(nth);
        }
        visits
    }

    /// What comes late at a stage, and the link from there on; `None` where that is no stage.
    fn way(&mut self, course: &Course, nth: usize, next: Option<usize>) -> Option<Visit> {
        if !self.asked.has_ways() {
            return None;
        }
        let link = next.map_or(Duration::ZERO, |next| course.links[next]);
        let most = self.asked.late(course, nth).checked_add(link).unwrap_or(Duration::from_ns(u64::MAX));
        let stages = &mut self.stages;
        let meets = next.is_some_and(|next| course.steps.before(next).len() > 1);
        let key = (course.places[nth], next.map(|next| course.places[next]), meets);
        let stage = *self.ways.entry(key).or_insert_with(|| {
            stages.push(Stage::Bounded(most));
            stages.len() - 1
        });
        Some(bare(stage))
    }

    /// A channel of a topic gets all of it: what comes from others goes on with the messages of all its paths.
    fn brought(&mut self, brought: &Brought) -> Vec<Step> {
        let all: Vec<(&Course, usize)> =
            brought.by.iter().map(|(course, nth)| (&self.asked.courses[*course], *nth)).collect();
        let (first, begin) = all[0];
        let together = (0..first.route.len() - begin).take_while(|more| {
            let place = |(course, nth): &(&Course, usize)| course.places.get(nth + more).copied();
            all.iter().all(|one| place(one) == place(&all[0]))
        });
        let together = together.count();
        // Where they part, a copy goes each way.
        let mut tails: Vec<(&Course, usize)> = Vec::new();
        for (course, nth) in all.iter().filter(|(course, nth)| nth + together < course.route.len()) {
            let tail = |(course, nth): &(&Course, usize)| course.places[nth + together..].to_vec();
            if tails.iter().all(|other| tail(other) != tail(&(course, *nth))) {
                tails.push((course, *nth));
            }
        }
        if tails.len() < 2 {
            let (course, begin) = *tails.first().unwrap_or(&all[0]);
            return self.route(course, begin..course.route.len(), None);
        }
        let mut route = self.route(first, begin..begin + together, None);
        let branches = tails.into_iter().map(|(course, begin)| {
            let mut visits = self.line(course, begin + together..course.route.len(), Some(begin + together - 1));
            visits.extend(self.way(course, course.route.len() - 1, None));
            visits
        });
        route.push(Step::All(branches.collect()));
        route
    }
}

fn bare(stage: usize) -> Visit {
    Visit { stage, service: Vec::new(), hold: Duration::ZERO }
}
