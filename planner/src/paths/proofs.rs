//! What is proven of paths whose stages have these servers.

use super::course::{Asked, Course};
use giusto_analysis::path::{every, is_within, within_by, Bound, Late, Laws, Part, PathError};
use giusto_analysis::Error;
use giusto_model::{Duration, Fails, Interface, PathEvery, PathPart, PathPoint, Percentile, Within};
use std::cell::RefCell;

/// Of the messages that may be late, what is left for the numbers of a certificate that are rounded.
const ROUNDED: f64 = 0.99;
const BILLION: f64 = 1e9;

/// How a path keeps its promise.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) points: Vec<Proven>,
    pub(super) every: Option<PathEvery>,
}

/// A percentile of a path; of other flows, which, and which of all stages.
#[derive(Clone)]
pub(super) struct Proven {
    pub(super) point: PathPoint,
    pub(super) meets: Vec<(usize, usize, PathPart)>,
}

/// How a path does not.
#[derive(Clone)]
pub(super) struct Slow {
    /// Which of them.
    pub(super) course: usize,
    /// Of a percentile, or in all cases.
    pub(super) percentile: Option<Percentile>,
    pub(super) within: Duration,
    /// So long it takes,
    pub(super) least: Duration,
    /// of it so much where this has failed,
    pub(super) later: Option<(Fails, Duration)>,
    /// most of it at this stage:
    pub(super) dear: usize,
    pub(super) part: Duration,
}

pub(super) struct Proofs<'a> {
    asked: &'a Asked,
    /// Of each path; only the shares of the net's stages change.
    laws: RefCell<Vec<Laws>>,
}

/// How many messages may take longer.
fn beyond(percentile: Percentile) -> f64 {
    f64::from(Percentile::EVERY.thousandths() - percentile.thousandths()) / 1e5 * ROUNDED
}

/// Whether there is no bound with these servers, and there may be one with others.
fn is_of_servers(why: &Error) -> bool {
    match why {
        Error::Path(PathError::TooMany { .. } | PathError::Parted { .. } | PathError::Cycle { .. }) => false,
        why => matches!(why, Error::Path(_) | Error::Unstable { .. } | Error::Budget { .. }),
    }
}

impl<'a> Proofs<'a> {
    pub(super) fn new(asked: &'a Asked, laws: fn() -> Laws) -> Self {
        Proofs { asked, laws: RefCell::new(asked.courses.iter().map(|_| laws()).collect()) }
    }

    pub(super) fn kept(&self, servers: &[Interface]) -> Result<bool, Error> {
        for nth in 0..self.asked.courses.len() {
            if !self.is_kept(nth, servers)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_kept(&self, nth: usize, servers: &[Interface]) -> Result<bool, Error> {
        let course = &self.asked.courses[nth];
        let (net, more) = (self.asked.net(servers)?, self.asked.more(course, servers));
        let taken = self.apart(course).checked_add(more).unwrap_or(Duration::from_ns(u64::MAX));
        for &Within { percentile, within } in &course.points {
            let Some(left) = within.checked_sub(taken) else { return Ok(false) };
            let laws = &mut self.laws.borrow_mut()[nth];
            let kept = match is_within(&net, nth, beyond(percentile), left, laws) {
                Err(why) if is_of_servers(&why) => false,
                kept => kept?,
            };
            if !kept {
                return Ok(false);
            }
        }
        match (course.every, self.every(nth, servers)?) {
            (Some(promised), found) => {
                let left = promised.checked_sub(more);
                Ok(found.is_some_and(|found| left.is_some_and(|left| found.at <= left)))
            }
            (None, _) => Ok(true),
        }
    }

    /// Of all paths, which keep what was promised.
    pub(super) fn of(&self, servers: &[Interface]) -> Result<Vec<Kept>, Error> {
        let kept = |nth: usize| {
            let point = |&Within { percentile, within }: &Within| {
                let found = self.bound(nth, servers, percentile)?.ok_or(Error::Range)?;
                self.proven(nth, percentile, within, &found)
            };
            let points = self.asked.courses[nth].points.iter().map(point).collect::<Result<_, _>>()?;
            Ok(Kept { points, every: self.every(nth, servers)? })
        };
        (0..self.asked.courses.len()).map(kept).collect()
    }

    /// What its net does not have.
    fn apart(&self, course: &Course) -> Duration {
        match self.asked.has_ways() {
            false => self.asked.apart(course),
            true => Duration::ZERO,
        }
    }

    /// What all but as many as may be late take; `None` where a queue would grow without end.
    fn bound(&self, nth: usize, servers: &[Interface], percentile: Percentile) -> Result<Option<Bound>, Error> {
        let laws = &mut self.laws.borrow_mut()[nth];
        match within_by(&self.asked.net(servers)?, nth, beyond(percentile), laws) {
            Err(why) if is_of_servers(&why) => Ok(None),
            found => found.map(Some),
        }
    }

    fn proven(&self, nth: usize, percentile: Percentile, within: Duration, found: &Bound) -> Result<Proven, Error> {
        let course = &self.asked.courses[nth];
        let late = |part: &Part, late: Duration| {
            Some(PathPart {
                within: part.within.checked_add(part.early)?.checked_add(late)?,
                // Up, as then less is asked of the stage; the next one's rate is counted a little higher.
                growth_ppb: part.x.map_or(0, |x| (x * BILLION).ceil() as u32),
                beyond_ppb: (part.term * BILLION).ceil() as u32,
            })
        };
        let on_path = found.parts.iter().filter(|part| part.on_path);
        let parts: Option<Vec<PathPart>> =
            (0..).zip(on_path).map(|(nth, part)| late(part, self.asked.late(course, nth))).collect();
        let parts = parts.ok_or(Error::Range)?;
        // With a link too long to add, one that is beyond all.
        let links = &course.links;
        let with_link = |nth: usize| parts[nth].within.checked_add(links[nth]).unwrap_or(Duration::from_ns(u64::MAX));
        let at = course.steps.along(with_link).ok_or(Error::Range)?;
        let met = |part: &Part| {
            let latency = self.asked.stages.get(part.stage).map_or(Duration::ZERO, |stage| stage.latency);
            Some((part.flow, self.asked.place_of(part.stage)?, late(part, latency)?))
        };
        let meets: Option<Vec<_>> = found.parts.iter().filter(|part| !part.on_path).map(met).collect();
        let point = PathPoint { percentile, within, at, parts, meets: Vec::new() };
        Ok(Proven { point, meets: meets.ok_or(Error::Range)? })
    }

    /// The longest time, where that is promised; `None` where it is not, or a queue would grow without end.
    fn every(&self, nth: usize, servers: &[Interface]) -> Result<Option<PathEvery>, Error> {
        let course = &self.asked.courses[nth];
        let Some(promised) = course.every else { return Ok(None) };
        let found = match every(&self.asked.net(servers)?, nth) {
            Err(why) if is_of_servers(&why) => return Ok(None),
            found => found?,
        };
        let at = found.within.checked_add(self.apart(course)).ok_or(Error::Range)?;
        let late = |(nth, late): (usize, &Late)| late.delay.checked_add(self.asked.late(course, nth));
        // Of paths that share services the ways between are stages of the net as well.
        let own = found.stages.iter().filter(|late: &&Late| !self.asked.is_way(late.stage));
        let parts: Option<Vec<Duration>> = (0..).zip(own).map(late).collect();
        Ok(Some(PathEvery { within: promised, at, parts: parts.ok_or(Error::Range)? }))
    }

    /// What is too long with the best of these, which are the largest there are.
    pub(super) fn too_slow(&self, all: &[Vec<Interface>]) -> Result<Slow, Error> {
        let mut best: Option<(f64, Slow)> = None;
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
    fn slowest(&self, servers: &[Interface]) -> Result<Option<(f64, Slow)>, Error> {
        let mut all: Vec<(Slow, Vec<Duration>)> = Vec::new();
        for (nth, course) in self.asked.courses.iter().enumerate() {
            let later = self.asked.later(course, servers);
            let more = later.map_or(Duration::ZERO, |(_, more)| more);
            let slow = |percentile: Option<Percentile>, within: Duration, at: Duration| Slow {
                course: nth,
                percentile,
                within,
                least: at.checked_add(more).unwrap_or(at),
                later: later.map(|(fails, more)| (fails.clone(), more)),
                dear: 0,
                part: Duration::ZERO,
            };
            for &Within { percentile, within } in &course.points {
                let Some(found) = self.bound(nth, servers, percentile)? else { return Ok(None) };
                let PathPoint { at, parts, .. } = self.proven(nth, percentile, within, &found)?.point;
                all.push((slow(Some(percentile), within, at), parts.iter().map(|part| part.within).collect()));
            }
            if let (Some(within), Some(one)) = (course.every, self.every(nth, servers)?) {
                all.push((slow(None, within, one.at), one.parts));
            }
        }
        let ratio = |slow: &Slow| slow.least.ns() as f64 / slow.within.ns() as f64;
        let slowest = all.into_iter().max_by(|a, b| ratio(&a.0).total_cmp(&ratio(&b.0)));
        Ok(slowest.and_then(|(slow, parts)| {
            let (dear, part) = (0..).zip(parts).max_by_key(|(_, part)| *part)?;
            Some((ratio(&slow), Slow { dear, part, ..slow }))
        }))
    }
}
