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
    /// One for each path. Where there are several, they have services only, one after the other, and messages come at random.
    pub(super) courses: Vec<Course>,
    /// The services of them, each once: at least one.
    pub(super) stages: Vec<Ask>,
    /// Times round by the laws themselves.
    pub(super) rounds: usize,
}

/// A path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Course {
    pub(super) source: PathSource,
    /// All stages, in order.
    pub(super) route: Vec<Spot>,
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

/// A stage that gets a server, and what its backend can do.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) service: ServiceTime,
    /// Messages that others have sent to topics before it: it gets them, too.
    pub(super) others: Option<Rate>,
    pub(super) loss: Duration,
    pub(super) latency: Duration,
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
    pub(super) least: Duration,
    pub(super) most: Bandwidth,
}

impl Course {
    /// Which service that is, if it is one.
    pub(super) fn served(&self, nth: usize) -> Option<usize> {
        match self.route[nth] {
            Spot::Served(stage) => Some(stage),
            Spot::Tokens(..) | Spot::Measured(..) | Spot::Packets(..) => None,
        }
    }

    /// Whether messages go through this service.
    pub(super) fn visits(&self, stage: usize) -> bool {
        (0..self.route.len()).any(|nth| self.served(nth) == Some(stage))
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
    /// Whether messages of another path go with those of this one over a link.
    pub(super) fn shares_a_link(&self, own: usize) -> bool {
        let ways = |course: &Course| -> Vec<(Option<usize>, Option<usize>)> {
            let linked = (1..course.route.len()).filter(|nth| !course.links[*nth].is_zero());
            linked.map(|nth| (course.served(nth - 1), course.served(nth))).collect()
        };
        let those = ways(&self.courses[own]);
        let others = self.courses.iter().enumerate().filter(|(nth, _)| *nth != own);
        others.flat_map(|(_, other)| ways(other)).any(|way| way.0.is_some() && those.contains(&way))
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

    /// Stages in the order of the services, and then others; flows in that of the courses, and then what comes from others. Its
    /// times are without what is [apart](Self::apart) where there is one course, and with it where there are several: messages
    /// of others may be early by it.
    pub(super) fn net(&self, servers: &[Interface]) -> Result<Net, Error> {
        let share = |one: &Interface| Stage::Share {
            share: Share { server: Server::Deferrable, budget: one.budget, period: one.period },
            company: true,
        };
        let stages = servers.iter().map(share).collect();
        let mut build = Build { asked: self, stages, flows: Vec::new(), on: HashMap::new() };
        let mut brought = Vec::new();
        for course in &self.courses {
            brought.extend(build.course(course)?);
        }
        build.flows.extend(brought);
        Ok(Net { stages: build.stages, flows: build.flows })
    }
}

struct Build<'a> {
    asked: &'a Asked,
    stages: Vec<Stage>,
    flows: Vec<Flow>,
    /// By service and the next one, the way from the one to the other: flows that go it stay together.
    on: HashMap<(Option<usize>, Option<usize>), usize>,
}

impl Build<'_> {
    /// Adds the flow of a course; those that its topics bring.
    fn course(&mut self, course: &Course) -> Result<Vec<Flow>, Error> {
        let visits: Vec<Visit> = (0..course.route.len()).map(|nth| self.visit(course, nth)).collect();
        // From a stage on, which is on no branch.
        let route = |from: usize| -> Vec<Step> {
            let steps = course.steps.0.iter().filter(|step| step[0].start >= from);
            let step = |step: &Vec<Range<usize>>| match &step[..] {
                [only] => visits[only.clone()].iter().cloned().map(Step::At).collect(),
                all => vec![Step::All(all.iter().map(|branch| visits[branch.clone()].to_vec()).collect())],
            };
            steps.flat_map(step).collect()
        };
        let brought = course.route.iter().enumerate().filter_map(|(nth, spot)| match spot {
            // A channel of the topic gets all of it.
            Spot::Tokens(_, others) => others.map(|rate| Flow { source: Source::Poisson(rate), route: route(nth) }),
            Spot::Served(_) | Spot::Measured(..) | Spot::Packets(..) => None,
        });
        let brought = brought.collect();
        let route = match self.asked.courses.len() {
            1 => route(0),
            _ => (0..)
                .zip(&visits)
                .flat_map(|(nth, visit)| [visit.clone(), self.way(course, nth)])
                .map(Step::At)
                .collect(),
        };
        self.flows.push(Flow { source: course.source()?, route });
        Ok(brought)
    }

    fn visit(&mut self, course: &Course, nth: usize) -> Visit {
        let stage = match &course.route[nth] {
            Spot::Served(stage) => {
                let service = self.asked.stages[*stage].service.bound();
                return Visit { stage: *stage, service, hold: Duration::ZERO };
            }
            Spot::Tokens(bucket, _) => Stage::Bucket(*bucket),
            Spot::Measured(latency, worst) => Stage::Measured(times_of(latency, *worst)),
            Spot::Packets(bucket, _) => match course.every {
                None => Stage::Policed(*bucket),
                // None of its messages waits there.
                Some(_) => Stage::Bounded(Duration::ZERO),
            },
        };
        self.stages.push(stage);
        Visit { stage: self.stages.len() - 1, service: Vec::new(), hold: Duration::ZERO }
    }

    /// What comes late at a service, and the link from there on.
    fn way(&mut self, course: &Course, nth: usize) -> Visit {
        let (own, next) = (course.served(nth), (nth + 1 < course.route.len()).then_some(nth + 1));
        let link = next.map_or(Duration::ZERO, |next| course.links[next]);
        let most = self.asked.late(course, nth).checked_add(link).unwrap_or(Duration::from_ns(u64::MAX));
        let stage = *self.on.entry((own, next.and_then(|next| course.served(next)))).or_insert_with(|| {
            self.stages.push(Stage::Bounded(most));
            self.stages.len() - 1
        });
        Visit { stage, service: Vec::new(), hold: Duration::ZERO }
    }
}
