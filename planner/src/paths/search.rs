//! The cheapest servers of all stages of a path.
//!
//! Servers that ask for the same multiple of their messages' work, for each period; of the cheapest of those, stage by stage
//! another period, and pair by pair some of the one's budget for less of the other's, as long as that is cheaper. First by
//! exponentials alone, which takes microseconds a stage; what keeps the promise by them keeps it, with budgets to spare. Then by
//! the laws themselves from there on: less of all budgets, and, where there are not many paths, other ones again.

use crate::steps::{periods, quantum};
use giusto_analysis::path::{every, is_within, within_by, Arrival, Flow, Laws, Net, Source, Stage, Step, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_analysis::Error;
use giusto_model::{
    Bandwidth, BrokerStage, Bucket, Duration, Interface, PathEvery, PathPart, PathPoint, PathSource, Percentile, Rate,
    ServiceTime, Steps, Tokens, Within,
};
use rayon::prelude::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What was found before: one and the same question is asked whenever a change of the site is tried.
#[derive(Default)]
pub(crate) struct PathAnswers(RefCell<HashMap<Asked, Result<Found, Error>>>);

/// All that a search depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) source: PathSource,
    /// All stages, in order.
    pub(super) route: Vec<Spot>,
    /// Which of them are one after the other, and which side by side.
    pub(super) steps: Steps,
    /// Those of them that get a server, one at least.
    pub(super) stages: Vec<Ask>,
    /// Of each stage over the link to it.
    pub(super) links: Vec<Duration>,
    pub(super) points: Vec<Within>,
    pub(super) every: Option<Duration>,
    /// Times round by the laws themselves.
    pub(super) rounds: usize,
}

/// What is known of a stage.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Spot {
    /// It is the next that gets a server.
    Served,
    /// Tokens, which others take as well.
    Tokens(Bucket, Option<Rate>),
    /// What a broker takes, as it was measured.
    Measured(BrokerStage),
    /// Tokens of an interface, which may drop what finds none, and how long its host's processing takes at most.
    Packets(Bucket, Duration),
}

impl Spot {
    /// What it takes at most beside waiting.
    fn bound(&self) -> Duration {
        match self {
            Spot::Packets(_, bound) => *bound,
            Spot::Served | Spot::Tokens(..) | Spot::Measured(_) => Duration::ZERO,
        }
    }
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

/// What a search found.
#[derive(Clone)]
pub(super) enum Found {
    /// What is counted on at each stage, and what proves the promise.
    Servers(Vec<Interface>, Vec<PathPoint>, Option<PathEvery>),
    /// This one of those with servers cannot serve all messages, which ask for so much of a core.
    Overload(usize, Bandwidth),
    /// With as much of a core as there is it takes so long, so much of it at this stage; of a percentile, or in all cases.
    TooSlow { percentile: Option<Percentile>, within: Duration, least: Duration, dear: usize, part: Duration },
}

/// More than the load of each stage is counted on: nearer to it a rate that is a little higher than the site says would make
/// the queue grow for ever.
const LEAST_OF_LOAD: f64 = 1.05;
/// Of the messages that may be late, what is left for the numbers of a certificate that are rounded.
const ROUNDED: f64 = 0.99;
/// Times that the multiple of the load is halved.
const HALVINGS: usize = 7;
/// ... and what exponentials leave too much.
const HALVINGS_OF_REST: usize = 4;
/// Of what a stage has beyond its load, parts that are given up for another.
const TAKEN: [f64; 2] = [0.3, 0.05];
/// Times round, at most.
pub(super) const ROUNDS: usize = 3;
const BILLION: f64 = 1e9;

impl PathAnswers {
    /// To all of these, on all processors.
    pub(super) fn to(&self, asked: &[Asked]) -> Vec<Result<Found, Error>> {
        let new: HashSet<&Asked> = asked.iter().filter(|one| !self.0.borrow().contains_key(*one)).collect();
        let found: Vec<(Asked, Result<Found, Error>)> =
            new.into_par_iter().map(|asked| (asked.clone(), found(asked))).collect();
        self.0.borrow_mut().extend(found);
        let known = self.0.borrow();
        asked.iter().map(|one| known[one].clone()).collect()
    }
}

fn found(asked: &Asked) -> Result<Found, Error> {
    let exact = Search { asked, laws: RefCell::default() };
    if let Some(overload) = exact.overload() {
        return Ok(overload);
    }
    // A time that none exceeds needs no laws.
    let begun = match asked.points.is_empty() {
        true => None,
        false => {
            let rough = Search { asked, laws: RefCell::new(Laws::rough()) };
            rough.alike()?.ok().map(|begun| rough.better(begun, asked.rounds.max(1))).transpose()?
        }
    };
    let begun = match begun {
        Some(begun) => Ok(exact.less(begun)?),
        None => exact.alike()?,
    };
    match begun {
        Ok(begun) => {
            let best = exact.better(begun, if asked.points.is_empty() { ROUNDS } else { asked.rounds })?;
            Ok(Found::Servers(best.clone(), exact.points(&best)?, exact.every(&best)?))
        }
        Err(whole) => exact.too_slow(&whole),
    }
}

/// How many messages may take longer.
fn beyond(percentile: Percentile) -> f64 {
    f64::from(Percentile::EVERY.thousandths() - percentile.thousandths()) / 1e5 * ROUNDED
}

struct Search<'a> {
    asked: &'a Asked,
    /// Only the shares of the net's stages change.
    laws: RefCell<Laws>,
}

impl Ask {
    fn mean(&self) -> f64 {
        self.service.bound().iter().map(|(time, p)| time.ns() as f64 * p).sum()
    }

    /// Most of a budget that can be counted on.
    fn whole(&self, period: Duration) -> u64 {
        let most = u128::from(period.ns()) * u128::from(self.most.numer()) / u128::from(self.most.denom());
        let step = quantum(period).ns();
        u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(self.loss.ns()) / step * step
    }

    /// What is reserved for what is counted on.
    pub(super) fn cost(&self, one: Interface) -> f64 {
        (one.budget.ns() + self.loss.ns()).max(self.least.ns()) as f64 / one.period.ns() as f64
    }

    fn periods(&self, promised: Duration) -> Vec<Duration> {
        periods(self.shortest, self.longest.min(promised.max(self.shortest))).collect()
    }
}

impl Search<'_> {
    fn loads(&self) -> Vec<f64> {
        let often = |stage: &Ask| self.asked.source.per_ns() + stage.others.map_or(0.0, Rate::per_ns);
        self.asked.stages.iter().map(|stage| often(stage) * stage.mean()).collect()
    }

    /// A stage that cannot serve all messages.
    fn overload(&self) -> Option<Found> {
        for (nth, (stage, load)) in self.asked.stages.iter().zip(self.loads()).enumerate() {
            let most = |period: &Duration| stage.whole(*period) as f64 / period.ns() as f64;
            let most = stage.periods(self.latest()).iter().map(most).fold(0.0, f64::max);
            if load * LEAST_OF_LOAD >= most {
                let load = Bandwidth::new((load * 1e6).ceil() as u64, 1_000_000).unwrap_or(Bandwidth::ONE);
                return Some(Found::Overload(nth, load));
            }
        }
        None
    }

    /// Of servers with the same period and the same multiple of their load the cheapest; else the largest there are.
    fn alike(&self) -> Result<Result<Vec<Interface>, Vec<Vec<Interface>>>, Error> {
        let loads = self.loads();
        let mut best: Option<Vec<Interface>> = None;
        let mut whole = Vec::new();
        for period in self.asked.stages[0].periods(self.latest()).into_iter().rev() {
            let largest = self.scaled(period, &loads, f64::INFINITY);
            if !self.kept(&largest)? {
                whole.push(largest);
                continue;
            }
            let (mut low, mut high) = (LEAST_OF_LOAD, 1.0 / loads.iter().copied().fold(1.0, f64::min));
            for _ in 0..HALVINGS {
                let middle = (low * high).sqrt();
                *(if self.kept(&self.scaled(period, &loads, middle))? { &mut high } else { &mut low }) = middle;
            }
            let found = self.scaled(period, &loads, high);
            if self.kept(&found)? && best.as_ref().is_none_or(|best| self.cost(&found) < self.cost(best)) {
                best = Some(found);
            }
        }
        Ok(best.ok_or(whole))
    }

    /// The same periods with less of all budgets.
    fn less(&self, begun: Vec<Interface>) -> Result<Vec<Interface>, Error> {
        let loads = self.loads();
        let part = |part: f64| -> Vec<Interface> {
            let one = |(one, load): (&Interface, &f64)| {
                let (step, least) = (quantum(one.period).ns(), LEAST_OF_LOAD * load * one.period.ns() as f64);
                let budget = (least + part * (one.budget.ns() as f64 - least)).max(least);
                let budget = ((budget / step as f64).ceil() as u64 * step).min(one.budget.ns());
                Interface { budget: Duration::from_ns(budget), ..*one }
            };
            begun.iter().zip(&loads).map(one).collect()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS_OF_REST {
            let middle = 0.5 * (low + high);
            *(if self.kept(&part(middle))? { &mut high } else { &mut low }) = middle;
        }
        Ok(part(high))
    }

    /// From there on, as long as it becomes cheaper.
    fn better(&self, mut best: Vec<Interface>, rounds: usize) -> Result<Vec<Interface>, Error> {
        let loads = self.loads();
        for _ in 0..rounds {
            let before = self.cost(&best);
            self.periods(&mut best, &loads)?;
            self.pairs(&mut best, &loads)?;
            if self.cost(&best) >= before * 0.999 {
                break;
            }
        }
        Ok(best)
    }

    fn latest(&self) -> Duration {
        let points = self.asked.points.iter().map(|point| point.within);
        points.chain(self.asked.every).max().unwrap_or(Duration::ZERO)
    }

    fn cost(&self, servers: &[Interface]) -> f64 {
        self.asked.stages.iter().zip(servers).map(|(stage, one)| stage.cost(*one)).sum()
    }

    /// Budgets of so many times what the messages ask for, but of no more than there is.
    fn scaled(&self, period: Duration, loads: &[f64], scale: f64) -> Vec<Interface> {
        let one = |(stage, load): (&Ask, &f64)| {
            let step = quantum(period).ns();
            let wanted = ((load * scale * period.ns() as f64 / step as f64).ceil() as u64).saturating_mul(step);
            Interface { budget: Duration::from_ns(wanted.min(stage.whole(period)).max(step)), period }
        };
        self.asked.stages.iter().zip(loads).map(one).collect()
    }

    /// Another period for one stage after the other.
    fn periods(&self, best: &mut Vec<Interface>, loads: &[f64]) -> Result<(), Error> {
        for (nth, stage) in self.asked.stages.iter().enumerate() {
            let all = stage.periods(self.latest());
            let Some(now) = all.iter().position(|period| *period == best[nth].period) else { continue };
            for next in [now.checked_sub(1), Some(now + 1)].into_iter().flatten().filter(|next| *next < all.len()) {
                let mut other = best.clone();
                other[nth].period = all[next];
                if let Some(found) = self.least(other, nth, self.cost(best), loads[nth])? {
                    *best = found;
                }
            }
        }
        Ok(())
    }

    /// Less of one budget, and as little more of another as that takes.
    fn pairs(&self, best: &mut Vec<Interface>, loads: &[f64]) -> Result<(), Error> {
        for less in 0..best.len() {
            for more in (0..best.len()).filter(|more| *more != less) {
                for part in TAKEN {
                    let step = quantum(best[less].period).ns();
                    let least = loads[less] * LEAST_OF_LOAD * best[less].period.ns() as f64;
                    let free = best[less].budget.ns() as f64 - least;
                    let by = ((part * free / step as f64) as u64).max(1) * step;
                    if (by as f64) >= free {
                        continue;
                    }
                    let mut other = best.clone();
                    other[less].budget = Duration::from_ns(best[less].budget.ns() - by);
                    if let Some(found) = self.least(other, more, self.cost(best), loads[more])? {
                        *best = found;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same with the least budget of stage `nth` that keeps the promise, if all of it costs less than `cost`.
    fn least(
        &self,
        mut servers: Vec<Interface>,
        nth: usize,
        cost: f64,
        load: f64,
    ) -> Result<Option<Vec<Interface>>, Error> {
        let (period, stage) = (servers[nth].period, &self.asked.stages[nth]);
        let step = quantum(period).ns();
        servers[nth].budget = Duration::ZERO;
        let rest: f64 = cost - self.cost(&servers) + stage.cost(servers[nth]);
        let most = (rest * period.ns() as f64) as u64;
        let most = most.saturating_sub(stage.loss.ns()).min(stage.whole(period)) / step;
        let mut low = (LEAST_OF_LOAD * load * period.ns() as f64 / step as f64) as u64;
        let mut high = most;
        if high <= low {
            return Ok(None);
        }
        let with = |servers: &mut Vec<Interface>, count: u64| servers[nth].budget = Duration::from_ns(count * step);
        with(&mut servers, high);
        if self.cost(&servers) >= cost || !self.kept(&servers)? {
            return Ok(None);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            with(&mut servers, middle);
            *(if self.kept(&servers)? { &mut high } else { &mut low }) = middle;
        }
        with(&mut servers, high);
        Ok(Some(servers))
    }

    /// Of each stage what belongs to it if it gets a server: `all` are of those.
    fn of_served<'a, T>(&'a self, all: &'a [T]) -> impl Iterator<Item = Option<&'a T>> + 'a {
        let mut all = all.iter();
        self.asked.route.iter().map(move |spot| if matches!(spot, Spot::Served) { all.next() } else { None })
    }

    fn net(&self, servers: &[Interface]) -> Result<Net, Error> {
        let share = |one: &Interface| Stage::Share {
            share: Share { server: Server::Deferrable, budget: one.budget, period: one.period },
            company: true,
        };
        let source = match self.asked.source {
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
        };
        let bound = |ask: Option<&Ask>| ask.map_or(Vec::new(), |ask| ask.service.bound());
        let visit = |(stage, ask)| Visit { stage, service: bound(ask), hold: Duration::ZERO };
        let visits: Vec<Visit> = self.of_served(&self.asked.stages).enumerate().map(visit).collect();
        // From a stage on, which is on no branch.
        let route = |from: usize| -> Vec<Step> {
            let steps = self.asked.steps.0.iter().filter(|step| step[0].start >= from);
            let step = |step: &Vec<Range<usize>>| match &step[..] {
                [only] => visits[only.clone()].iter().cloned().map(Step::At).collect(),
                all => vec![Step::All(all.iter().map(|branch| visits[branch.clone()].to_vec()).collect())],
            };
            steps.flat_map(step).collect()
        };
        let mut flows = vec![Flow { source, route: route(0) }];
        let mut stages = Vec::new();
        for (nth, (spot, server)) in self.asked.route.iter().zip(self.of_served(servers)).enumerate() {
            stages.push(match (spot, server) {
                (Spot::Tokens(bucket, others), _) => {
                    // A channel of the topic gets all of it.
                    flows.extend(others.map(|rate| Flow { source: Source::Poisson(rate), route: route(nth) }));
                    Stage::Bucket(*bucket)
                }
                (Spot::Measured(broker), _) => Stage::Measured(broker.times()),
                (Spot::Packets(bucket, _), _) => match self.asked.every {
                    None => Stage::Policed(*bucket),
                    // None of its messages waits there.
                    Some(_) => Stage::Bounded(Duration::ZERO),
                },
                (Spot::Served, Some(server)) => share(server),
                (Spot::Served, None) => return Err(Error::Range),
            });
        }
        Ok(Net { stages, flows })
    }

    /// Links, what comes late at each stage, and the processing of packets. Of a fork the most of a branch, whichever of them
    /// takes longest otherwise.
    fn apart(&self) -> Duration {
        let Asked { links, route, stages, steps, .. } = self.asked;
        let late = self.of_served(stages).zip(route).map(|(ask, spot)| ask.map_or(spot.bound(), |ask| ask.latency));
        let apart: Option<Vec<Duration>> = late.zip(links).map(|(late, link)| late.checked_add(*link)).collect();
        apart.and_then(|apart| steps.along(|nth| apart[nth])).unwrap_or(Duration::from_ns(u64::MAX))
    }

    fn kept(&self, servers: &[Interface]) -> Result<bool, Error> {
        for &Within { percentile, within } in &self.asked.points {
            let Some(left) = within.checked_sub(self.apart()) else { return Ok(false) };
            let laws = &mut self.laws.borrow_mut();
            let kept = match is_within(&self.net(servers)?, 0, beyond(percentile), left, laws) {
                Err(Error::Unstable { .. } | Error::Path(_) | Error::Budget { .. }) => false,
                kept => kept?,
            };
            if !kept {
                return Ok(false);
            }
        }
        match (self.asked.every, self.every(servers)?) {
            (Some(promised), found) => Ok(found.is_some_and(|found| found.at <= promised)),
            (None, _) => Ok(true),
        }
    }

    /// What all but as many as may be late take, and stage by stage; `None` where a queue would grow without end.
    fn time(&self, servers: &[Interface], percentile: Percentile) -> Result<Option<(Duration, Vec<PathPart>)>, Error> {
        let found = match within_by(&self.net(servers)?, 0, beyond(percentile), &mut self.laws.borrow_mut()) {
            Err(Error::Unstable { .. } | Error::Path(_) | Error::Budget { .. }) => return Ok(None),
            found => found?,
        };
        let part = |((part, ask), spot): ((&giusto_analysis::path::Part, Option<&Ask>), &Spot)| {
            Some(PathPart {
                within: part.within.checked_add(ask.map_or(spot.bound(), |ask| ask.latency))?,
                // Up, as then less is asked of the stage; the next one's rate is counted a little higher.
                growth_ppb: part.x.map_or(0, |x| (x * BILLION).ceil() as u32),
                beyond_ppb: (part.term * BILLION).ceil() as u32,
            })
        };
        let asks = self.of_served(&self.asked.stages);
        let parts: Option<Vec<PathPart>> = found.parts.iter().zip(asks).zip(&self.asked.route).map(part).collect();
        let parts = parts.ok_or(Error::Range)?;
        // With a link too long to add, one that is beyond all.
        let links = &self.asked.links;
        let with_link = |nth: usize| parts[nth].within.checked_add(links[nth]).unwrap_or(Duration::from_ns(u64::MAX));
        let sum = self.asked.steps.along(with_link);
        Ok(Some((sum.ok_or(Error::Range)?, parts)))
    }

    fn points(&self, servers: &[Interface]) -> Result<Vec<PathPoint>, Error> {
        let point = |&Within { percentile, within }: &Within| {
            let (at, parts) = self.time(servers, percentile)?.ok_or(Error::Range)?;
            Ok(PathPoint { percentile, within, at, parts })
        };
        self.asked.points.iter().map(point).collect()
    }

    /// The longest time, where that is promised; `None` where it is not, or a queue would grow without end.
    fn every(&self, servers: &[Interface]) -> Result<Option<PathEvery>, Error> {
        let Some(promised) = self.asked.every else { return Ok(None) };
        let found = match every(&self.net(servers)?, 0) {
            Err(Error::Path(_)) => return Ok(None),
            found => found?,
        };
        let at = found.within.checked_add(self.apart()).ok_or(Error::Range)?;
        let late = |((late, ask), spot): ((&giusto_analysis::path::Late, Option<&Ask>), &Spot)| {
            late.delay.checked_add(ask.map_or(spot.bound(), |ask| ask.latency))
        };
        let asks = self.of_served(&self.asked.stages);
        let parts: Option<Vec<Duration>> = found.stages.iter().zip(asks).zip(&self.asked.route).map(late).collect();
        Ok(Some(PathEvery { within: promised, at, parts: parts.ok_or(Error::Range)? }))
    }

    /// What is too long with the best of these, which are the largest there are.
    fn too_slow(&self, all: &[Vec<Interface>]) -> Result<Found, Error> {
        let mut best: Option<(f64, Found)> = None;
        for servers in all {
            let found = self.slowest(servers)?;
            let Some((ratio, found)) = found else { continue };
            if best.as_ref().is_none_or(|(least, _)| ratio < *least) {
                best = Some((ratio, found));
            }
        }
        best.map(|(_, found)| found).ok_or(Error::Range)
    }

    /// What is furthest beyond what was promised of it with these servers, and how many times as long.
    fn slowest(&self, servers: &[Interface]) -> Result<Option<(f64, Found)>, Error> {
        let mut all: Vec<(Option<Percentile>, Duration, Duration, Vec<Duration>)> = Vec::new();
        for point in &self.asked.points {
            let Some((least, parts)) = self.time(servers, point.percentile)? else { return Ok(None) };
            all.push((Some(point.percentile), point.within, least, parts.iter().map(|part| part.within).collect()));
        }
        if let (Some(within), Some(one)) = (self.asked.every, self.every(servers)?) {
            all.push((None, within, one.at, one.parts));
        }
        let ratio = |within: Duration, least: Duration| least.ns() as f64 / within.ns() as f64;
        let slowest = all.into_iter().max_by(|a, b| ratio(a.1, a.2).total_cmp(&ratio(b.1, b.2)));
        Ok(slowest.and_then(|(percentile, within, least, parts)| {
            let (dear, part) = (0..).zip(parts).max_by_key(|(_, part)| *part)?;
            Some((ratio(within, least), Found::TooSlow { percentile, within, least, dear, part }))
        }))
    }
}
