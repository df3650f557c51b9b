//! The cheapest servers of all stages of a path, or of several that share some.
//!
//! Servers that ask for the same multiple of their messages' work, for each period; of the cheapest of those, stage by stage
//! another period, and pair by pair some of the one's budget for less of the other's, as long as that is cheaper. First by
//! exponentials alone, which takes microseconds a stage; what keeps the promise by them keeps it, with budgets to spare. Then by
//! the laws themselves from there on: less of all budgets, and, where there are not many paths, other ones again.

use super::course::{Ask, Asked, Common, Course};
use super::proofs::{Kept, Proofs, Slow};
use super::simulated::{Model, Shown};
use crate::steps::{periods, quantum};
use giusto_analysis::path::Laws;
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Duration, Interface};
use rayon::prelude::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// What was found before: one and the same question is asked whenever a change of the site is tried.
#[derive(Default)]
pub(crate) struct PathAnswers(RefCell<HashMap<Asked, Result<Found, Error>>>);

/// What a search found.
#[derive(Clone)]
pub(super) enum Found {
    /// What is counted on at each service, and what proves the promise of each path.
    Servers(Vec<Interface>, Vec<Kept>),
    /// What is counted on at each service of a path alone, the simulation that decided it, and what a proof would reserve.
    Simulated(Vec<Interface>, Shown, Option<f64>),
    /// This service cannot serve all messages, which ask for so much of a core.
    Overload(usize, Bandwidth),
    /// With as much of a core as there is a path takes too long.
    TooSlow(Slow),
}

/// More than the load of each stage is counted on: nearer to it a rate that is a little higher than the site says would make
/// the queue grow for ever.
const LEAST_OF_LOAD: f64 = 1.05;
/// Periods for stages that are shorter than those of other services, in ms: what they cost is counted here.
const SHORTER: [u64; 3] = [1, 2, 3];
/// Times that the multiple of the load is halved.
const HALVINGS: usize = 7;
/// ... and what exponentials leave too much.
const HALVINGS_OF_REST: usize = 4;
/// Of what a stage has beyond its load, parts that are given up for another.
const TAKEN: [f64; 2] = [0.3, 0.05];
/// Runs decide at most so often, each time with so much more of what is left up to the budgets that they began from.
const ATTEMPTS: u32 = 6;
const LARGER: f64 = 0.2;
/// Times round, at most.
pub(super) const ROUNDS: usize = 3;

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
    let proven = proven(asked)?;
    match Model::of(asked) {
        None => Ok(proven),
        Some(model) => decided(asked, &model, proven),
    }
}

/// Less than these servers of a path alone, which keep its promise, and what decided that it is enough.
pub(super) fn simulated_from(asked: &Asked, servers: &[Interface]) -> Result<Option<(Vec<Interface>, Shown)>, Error> {
    let Some(model) = Model::of(asked) else { return Ok(None) };
    match decided(asked, &model, Found::Servers(servers.to_vec(), Vec::new()))? {
        Found::Simulated(servers, shown, _) => Ok(Some((servers, shown))),
        _ => Ok(None),
    }
}

/// Less than what is proven, or than all there is, that simulation says is enough.
fn decided(asked: &Asked, model: &Model, proven: Found) -> Result<Found, Error> {
    let search = Search { asked, proofs: Proofs::new(asked, Laws::rough) };
    let (begun, cost) = match &proven {
        Found::Servers(servers, _) => (Some(servers.clone()), Some(search.asked.reserved(servers))),
        Found::TooSlow(_) => (search.largest(model)?, None),
        Found::Overload(..) | Found::Simulated(..) => return Ok(proven),
    };
    let Some(begun) = begun else { return Ok(proven) };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        *(if model.seems_kept(&search.part(&begun, middle))? { &mut high } else { &mut low }) = middle;
    }
    for attempt in 0..ATTEMPTS {
        let servers = search.part(&begun, high);
        if let Some(shown) = model.decided(&servers, attempt)? {
            return Ok(Found::Simulated(servers, shown, cost));
        }
        high += LARGER * (1.0 - high);
    }
    Ok(proven)
}

fn proven(asked: &Asked) -> Result<Found, Error> {
    let exact = Search { asked, proofs: Proofs::new(asked, Laws::default) };
    if let Some(common) = &asked.common {
        return exact.no_less_than(common);
    }
    if let Some(overload) = exact.overload() {
        return Ok(overload);
    }
    // A time that none exceeds needs no laws.
    let lawless = asked.courses.iter().all(|course| course.points.is_empty());
    let begun = match lawless {
        true => None,
        false => {
            let rough = Search { asked, proofs: Proofs::new(asked, Laws::rough) };
            // One path is cheap to look at, several are not.
            let rounds = if asked.courses.len() == 1 { asked.rounds.max(1) } else { asked.rounds };
            rough.alike()?.ok().map(|begun| rough.better(begun, rounds)).transpose()?
        }
    };
    let begun = match begun {
        Some(begun) => Ok(exact.less(begun)?),
        None => exact.alike()?,
    };
    match begun {
        Ok(begun) => {
            let best = exact.better(begun, if lawless { ROUNDS } else { asked.rounds })?;
            Ok(Found::Servers(best.clone(), exact.proofs.of(&best)?))
        }
        Err(whole) => exact.proofs.too_slow(&whole).map(Found::TooSlow),
    }
}

struct Search<'a> {
    asked: &'a Asked,
    proofs: Proofs<'a>,
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
    fn reserved(&self, one: Interface) -> f64 {
        (one.budget.ns() + self.loss.ns()).max(self.least.ns()) as f64 / one.period.ns() as f64
    }

    /// ... and what its manager takes.
    fn cost(&self, one: Interface) -> f64 {
        self.reserved(one) + self.each.ns() as f64 / one.period.ns() as f64
    }

    fn periods(&self, promised: Duration) -> Vec<Duration> {
        let longest = self.longest.min(promised.max(self.shortest));
        let shorter =
            SHORTER.map(Duration::from_ms).into_iter().filter(|period| (self.shortest..=longest).contains(period));
        shorter.chain(periods(self.shortest, longest)).collect()
    }
}

impl Asked {
    /// What is reserved of cores for all stages, so much of which is counted on.
    pub(super) fn reserved(&self, counted: &[Interface]) -> f64 {
        self.stages.iter().zip(counted).map(|(stage, one)| stage.reserved(*one)).sum()
    }

    /// ... and what their managers take.
    pub(super) fn cost(&self, counted: &[Interface]) -> f64 {
        self.stages.iter().zip(counted).map(|(stage, one)| stage.cost(*one)).sum()
    }
}

impl Search<'_> {
    fn loads(&self) -> Vec<f64> {
        let load = |(nth, stage): (usize, &Ask)| self.asked.often(nth) * stage.mean();
        self.asked.stages.iter().enumerate().map(load).collect()
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
            let least = self.scaled(period, &loads, LEAST_OF_LOAD);
            if best.as_ref().is_some_and(|best| self.cost(best) <= self.cost(&least)) {
                continue;
            }
            let largest = self.scaled(period, &loads, f64::INFINITY);
            if !self.proofs.kept(&largest)? {
                whole.push(largest);
                continue;
            }
            let (mut low, mut high) = (LEAST_OF_LOAD, 1.0 / loads.iter().copied().fold(1.0, f64::min));
            for _ in 0..HALVINGS {
                let middle = (low * high).sqrt();
                *(if self.proofs.kept(&self.scaled(period, &loads, middle))? { &mut high } else { &mut low }) = middle;
            }
            let found = self.scaled(period, &loads, high);
            if self.proofs.kept(&found)? && best.as_ref().is_none_or(|best| self.cost(&found) < self.cost(best)) {
                best = Some(found);
            }
        }
        Ok(best.ok_or(whole))
    }

    /// These servers, with larger budgets on the host that plans where it needs them.
    fn no_less_than(&self, Common { servers, own }: &Common) -> Result<Found, Error> {
        let found = |servers: &[Interface]| Ok(Found::Servers(servers.to_vec(), self.proofs.of(servers)?));
        if self.proofs.kept(servers)? {
            return found(servers);
        }
        let with = |part: f64| -> Vec<Interface> {
            let one = |((stage, server), own): ((&Ask, &Interface), &bool)| {
                let (step, now) = (quantum(server.period).ns(), server.budget.ns());
                let more = stage.whole(server.period).saturating_sub(now) as f64 * part;
                let more = if *own { (more / step as f64).ceil() as u64 * step } else { 0 };
                Interface {
                    budget: Duration::from_ns(now.saturating_add(more).min(stage.whole(server.period).max(now))),
                    ..*server
                }
            };
            self.asked.stages.iter().zip(servers).zip(own).map(one).collect()
        };
        if !self.proofs.kept(&with(1.0))? {
            return self.proofs.too_slow(&[with(1.0)]).map(Found::TooSlow);
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            *(if self.proofs.kept(&with(middle))? { &mut high } else { &mut low }) = middle;
        }
        found(&with(high))
    }

    /// The same periods with less of all budgets.
    fn less(&self, begun: Vec<Interface>) -> Result<Vec<Interface>, Error> {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS_OF_REST {
            let middle = 0.5 * (low + high);
            *(if self.proofs.kept(&self.part(&begun, middle))? { &mut high } else { &mut low }) = middle;
        }
        Ok(self.part(&begun, high))
    }

    /// The same periods with a part of what the budgets have beyond their loads.
    fn part(&self, begun: &[Interface], part: f64) -> Vec<Interface> {
        let one = |(one, load): (&Interface, f64)| {
            let (step, least) = (quantum(one.period).ns(), LEAST_OF_LOAD * load * one.period.ns() as f64);
            let budget = (least + part * (one.budget.ns() as f64 - least)).max(least);
            let budget = ((budget / step as f64).ceil() as u64 * step).min(one.budget.ns());
            Interface { budget: Duration::from_ns(budget), ..*one }
        };
        begun.iter().zip(self.loads()).map(one).collect()
    }

    /// As much of a core as there is, with a period that seems to be enough.
    fn largest(&self, model: &Model) -> Result<Option<Vec<Interface>>, Error> {
        let loads = self.loads();
        for period in self.asked.stages[0].periods(self.latest()) {
            let servers = self.scaled(period, &loads, f64::INFINITY);
            if model.seems_kept(&servers)? {
                return Ok(Some(servers));
            }
        }
        Ok(None)
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
        let latest = |course: &Course| course.points.iter().map(|point| point.within).chain(course.every).max();
        self.asked.courses.iter().filter_map(latest).max().unwrap_or(Duration::ZERO)
    }

    fn cost(&self, servers: &[Interface]) -> f64 {
        self.asked.cost(servers)
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
        let most = most.saturating_sub(stage.each.ns() + stage.loss.ns()).min(stage.whole(period)) / step;
        let mut low = (LEAST_OF_LOAD * load * period.ns() as f64 / step as f64) as u64;
        let mut high = most;
        if high <= low {
            return Ok(None);
        }
        let with = |servers: &mut Vec<Interface>, count: u64| servers[nth].budget = Duration::from_ns(count * step);
        with(&mut servers, high);
        if self.cost(&servers) >= cost || !self.proofs.kept(&servers)? {
            return Ok(None);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            with(&mut servers, middle);
            *(if self.proofs.kept(&servers)? { &mut high } else { &mut low }) = middle;
        }
        with(&mut servers, high);
        Ok(Some(servers))
    }
}
