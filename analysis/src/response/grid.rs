//! From times to slots.

use super::chain::{Chain, Job, Pmf};
use super::question::Question;
use crate::Error;
use giusto_model::Duration;

/// The length of a slot, as a fraction of ns: `unit / parts`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    pub(super) unit: u64,
    pub(super) parts: u64,
}

/// How work between two slots' ends is put on the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// On both neighbours, keeping the mean.
    Split,
    /// Up.
    Up,
}

/// So many slots of a period are always worth it: next to B two of them may be far apart.
const FEW: u64 = 32;
/// So many times as many slots as asked for, and up to so many in a period, are worth it if they divide B: near the load the
/// answers for two budgets next to B lie far apart, and halving after halving is not enough.
const DIVIDED: u64 = 16;
const MANY: u64 = 256;
/// A budget of fewer slots than this is one of which the two next to it say little: then up to [`SCARCE`] slots in a period
/// are worth it.
const FEW_IN_BUDGET: u128 = 4;
const SCARCE: u64 = 4096;
/// Most slots of a period.
const MOST_SLOTS: u128 = 4_000_000;

impl Grid {
    /// Slots that divide B and P, at least `slots` of them in the mean service time; of those the longest that divide the service
    /// time as well, if one of up to twice as many does. Where B and P have no common part so long, slots divide P only, into
    /// [`FEW`] at least, and the answer lies between those of the budgets next to B: as near as can be.
    pub(super) fn new(question: &Question, mean: f64, slots: u32) -> Result<Grid, Error> {
        let common = num_integer::gcd(question.budget.ns(), question.period.ns());
        let least = |unit: u64| ((unit as f64 * f64::from(slots) / mean).ceil() as u64).max(1);
        let coarse = least(question.period.ns());
        let coarse_or_more = coarse.min(1 << 32);
        let (budget, period) = (u128::from(question.budget.ns()), u128::from(question.period.ns()));
        let scarce = budget * u128::from(coarse_or_more) < FEW_IN_BUDGET * period;
        let divided = if scarce { SCARCE } else { MANY.min(DIVIDED * coarse_or_more) };
        let most = u128::from((2 * coarse_or_more).max(FEW).max(divided));
        let parts = least(common);
        let count = |unit: u64, parts: u64| u128::from(question.period.ns() / unit) * u128::from(parts);
        let grid = if count(common, parts) <= most {
            let divides = |parts: &u64| {
                let whole = |&(time, _): &(Duration, f64)| {
                    (u128::from(time.ns()) * u128::from(*parts)).is_multiple_of(u128::from(common))
                };
                question.service.iter().all(whole)
            };
            let parts = (parts..2 * parts).take(1000).find(divides).unwrap_or(parts);
            Grid { unit: common, parts }
        } else {
            // Of up to twice as many the first that has B and the service times nearest to whole slots.
            let unit = question.period.ns();
            let off = |ns: u64, parts: u64| {
                let part = (u128::from(ns) * u128::from(parts) % u128::from(unit)) as f64 / unit as f64;
                part * (1.0 - part)
            };
            let misses = |parts: u64| {
                let service: f64 = question.service.iter().map(|(time, p)| p * off(time.ns(), parts)).sum();
                off(question.budget.ns(), parts) + service
            };
            let least = coarse.max(FEW);
            let candidates = (least..=2 * least).take(1000);
            let best = candidates.map(|parts| (misses(parts), parts)).min_by(|a, b| a.0.total_cmp(&b.0));
            Grid { unit, parts: best.map_or(least, |(_, parts)| parts) }
        };
        let count = count(grid.unit, grid.parts);
        if count > MOST_SLOTS {
            return Err(Error::Fine { states: count as u64 });
        }
        Ok(grid)
    }

    /// Half as long slots.
    pub(super) fn finer(self) -> Grid {
        Grid { parts: 2 * self.parts, ..self }
    }

    /// The length of a slot in ns.
    pub(super) fn slot(self) -> f64 {
        self.unit as f64 / self.parts as f64
    }

    /// Whether this is a whole number of slots.
    pub(super) fn divides(self, time: Duration) -> bool {
        self.slots(time.ns()).1 == 0.0
    }

    /// `ns` in slots: whole ones, and the part of one more.
    pub(super) fn slots(self, ns: u64) -> (usize, f64) {
        let parts = u128::from(ns) * u128::from(self.parts);
        let unit = u128::from(self.unit);
        ((parts / unit) as usize, (parts % unit) as f64 / self.unit as f64)
    }

    /// The chains whose answers, with these weights, make that for B: one where B is a whole number of slots.
    pub(super) fn chains(self, question: &Question, rounding: Rounding) -> Result<Vec<(Chain, f64)>, Error> {
        let (period, _) = self.slots(question.period.ns());
        let (budget, part) = self.slots(question.budget.ns());
        let single = self.on_grid(question, rounding);
        let (work, jobs) = self.batches(&single, &question.batch);
        let arrival = question.rate_per_ns() * self.slot();
        let chain = |budget: usize| {
            let chain = Chain { period, budget, arrival, work: work.clone(), jobs: jobs.clone() };
            let stable = budget > 0 && chain.load() * (period as f64) < budget as f64 * (1.0 - 1e-9);
            // A slot must not be asked for by more than every fourth arrival, or it is too long to tell them apart.
            (stable && arrival <= 0.25).then_some(chain).ok_or(Error::Fine { states: period as u64 })
        };
        if part == 0.0 {
            return Ok(vec![(chain(budget)?, 1.0)]);
        }
        Ok(vec![(chain(budget)?, 1.0 - part), (chain(budget + 1)?, part)])
    }

    /// The service time of one job.
    fn on_grid(self, question: &Question, rounding: Rounding) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for &(time, p) in &question.service {
            let ns = time.ns() as f64;
            let (whole, part) = self.slots(time.ns());
            let up = if rounding == Rounding::Up { part.ceil() } else { part };
            jobs.push(Job { slots: whole.max(1), p: p * (1.0 - up), ns });
            jobs.push(Job { slots: whole + 1, p: p * up, ns });
        }
        jobs.retain(|job| job.p > 0.0);
        jobs.sort_by_key(|job| job.slots); // stable
        jobs.dedup_by(|next, job| {
            let same = next.slots == job.slots;
            if same {
                let p = job.p + next.p;
                *job = Job { ns: (job.ns * job.p + next.ns * next.p) / p, p, ..*job };
            }
            same
        });
        jobs
    }

    /// The work of a whole batch, and what a job of one waits for: it is the j-th with probability Pr{size ≥ j} / mean size.
    fn batches(self, single: &[Job], batch: &[(u32, f64)]) -> (Pmf, Vec<Job>) {
        let most = batch.iter().map(|&(size, _)| size).max().unwrap_or(1);
        let sizes: f64 = batch.iter().map(|&(size, p)| p * f64::from(size)).sum();
        let (mut work, mut later) = (Vec::new(), Vec::new());
        let mut sum = vec![1.0];
        let mut first = 0.0;
        for size in 1..=most {
            sum = convolve(&sum, single);
            let exactly: f64 = batch.iter().filter(|(s, _)| *s == size).map(|(_, p)| p).sum();
            let at_least: f64 = batch.iter().filter(|(s, _)| *s >= size).map(|(_, p)| p / sizes).sum();
            add(&mut work, &sum, exactly);
            if size == 1 {
                first = at_least;
            } else {
                add(&mut later, &sum, at_least);
            }
        }
        let first = single.iter().map(|job| Job { p: job.p * first, ..*job });
        let later = sparse(&later).into_iter().map(|(slots, p)| Job { slots, p, ns: slots as f64 * self.slot() });
        let mut jobs: Vec<Job> = first.chain(later).collect();
        jobs.sort_by_key(|job| job.slots);
        (sparse(&work), jobs)
    }
}

fn add(to: &mut Vec<f64>, from: &[f64], weight: f64) {
    to.resize(to.len().max(from.len()), 0.0);
    to.iter_mut().zip(from).for_each(|(to, p)| *to += weight * p);
}

fn convolve(dense: &[f64], with: &[Job]) -> Vec<f64> {
    let most = with.last().map_or(0, |job| job.slots);
    let mut sum = vec![0.0; dense.len() + most];
    for &Job { slots, p, .. } in with {
        sum[slots..].iter_mut().zip(dense).for_each(|(to, share)| *to += p * share);
    }
    sum
}

fn sparse(dense: &[f64]) -> Pmf {
    dense.iter().enumerate().filter(|(_, p)| **p > 0.0).map(|(slots, p)| (slots, *p)).collect()
}
