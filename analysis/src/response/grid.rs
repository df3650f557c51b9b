//! From times to slots.

use super::chain::{Chain, Pmf};
use super::Question;
use crate::Error;

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

/// Most slots of a period.
const MOST_SLOTS: u128 = 4_000_000;

impl Grid {
    /// Slots that divide B and P, at least `slots` of them in the mean service time; of those the longest that divide the service
    /// time as well, if one of up to twice as many does. Where B and P have no common part so long, slots divide P only, and
    /// the answer lies between those of the budgets next to B.
    pub(super) fn new(question: &Question, mean: f64, slots: u32) -> Result<Grid, Error> {
        let common = num_integer::gcd(question.budget.ns(), question.period.ns());
        let least = |unit: u64| ((unit as f64 * f64::from(slots) / mean).ceil() as u64).max(1);
        let coarse = least(question.period.ns());
        let parts = least(common);
        let count = |unit: u64, parts: u64| u128::from(question.period.ns() / unit) * u128::from(parts);
        let grid = if count(common, parts) <= 2 * u128::from(coarse) {
            let divides = |parts: &u64| {
                let whole = |&(time, _): &(giusto_model::Duration, f64)| {
                    (u128::from(time.ns()) * u128::from(*parts)).is_multiple_of(u128::from(common))
                };
                question.service.iter().all(whole)
            };
            let parts = (parts..2 * parts).take(1000).find(divides).unwrap_or(parts);
            Grid { unit: common, parts }
        } else {
            Grid { unit: question.period.ns(), parts: coarse }
        };
        let count = count(grid.unit, grid.parts);
        if count > MOST_SLOTS {
            return Err(Error::Fine { states: count as f64 });
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

    /// `ns` in slots: whole ones, and the part of one more.
    fn slots(self, ns: u64) -> (usize, f64) {
        let parts = u128::from(ns) * u128::from(self.parts);
        let unit = u128::from(self.unit);
        ((parts / unit) as usize, (parts % unit) as f64 / self.unit as f64)
    }

    /// The chains whose answers, with these weights, make that for B: one where B is a whole number of slots.
    pub(super) fn chains(self, question: &Question, rounding: Rounding) -> Result<Vec<(Chain, f64)>, Error> {
        let (period, _) = self.slots(question.period.ns());
        let (budget, part) = self.slots(question.budget.ns());
        let single = self.on_grid(question, rounding);
        let (work, tagged) = batches(&single, &question.batch);
        let arrival = question.rate_per_ns() * self.slot();
        let chain = |budget: usize| {
            let chain = Chain { period, budget, arrival, work: work.clone(), tagged: tagged.clone() };
            let stable = budget > 0 && chain.load() * (period as f64) < budget as f64 * (1.0 - 1e-9);
            // A slot must not be asked for by more than every fourth arrival, or it is too long to tell them apart.
            (stable && arrival <= 0.25).then_some(chain).ok_or(Error::Fine { states: period as f64 })
        };
        if part == 0.0 {
            return Ok(vec![(chain(budget)?, 1.0)]);
        }
        Ok(vec![(chain(budget)?, 1.0 - part), (chain(budget + 1)?, part)])
    }

    /// The service time of one job.
    fn on_grid(self, question: &Question, rounding: Rounding) -> Pmf {
        let mut dense: Vec<f64> = Vec::new();
        let mut put = |slots: usize, p: f64| {
            let slots = slots.max(1);
            if dense.len() <= slots {
                dense.resize(slots + 1, 0.0);
            }
            dense[slots] += p;
        };
        for &(time, p) in &question.service {
            match (self.slots(time.ns()), rounding) {
                ((slots, 0.0), _) => put(slots, p),
                ((slots, _), Rounding::Up) => put(slots + 1, p),
                ((slots, part), Rounding::Split) => {
                    put(slots, p * (1.0 - part));
                    put(slots + 1, p * part);
                }
            }
        }
        sparse(&dense)
    }
}

/// The work of a whole batch, and what a job of one waits for: it is the j-th with probability Pr{size ≥ j} / mean size.
fn batches(single: &Pmf, batch: &[(u32, f64)]) -> (Pmf, Pmf) {
    let most = batch.iter().map(|&(size, _)| size).max().unwrap_or(1);
    let sizes: f64 = batch.iter().map(|&(size, p)| p * f64::from(size)).sum();
    let (mut work, mut tagged) = (Vec::new(), Vec::new());
    let mut sum = vec![1.0];
    for size in 1..=most {
        sum = convolve(&sum, single);
        let exactly: f64 = batch.iter().filter(|(s, _)| *s == size).map(|(_, p)| p).sum();
        let at_least: f64 = batch.iter().filter(|(s, _)| *s >= size).map(|(_, p)| p).sum();
        for (to, weight) in [(&mut work, exactly), (&mut tagged, at_least / sizes)] {
            let to: &mut Vec<f64> = to;
            to.resize(to.len().max(sum.len()), 0.0);
            to.iter_mut().zip(&sum).for_each(|(to, p)| *to += weight * p);
        }
    }
    (sparse(&work), sparse(&tagged))
}

fn convolve(dense: &[f64], with: &Pmf) -> Vec<f64> {
    let most = with.last().map_or(0, |&(slots, _)| slots);
    let mut sum = vec![0.0; dense.len() + most];
    for &(slots, p) in with {
        sum[slots..].iter_mut().zip(dense).for_each(|(to, share)| *to += p * share);
    }
    sum
}

fn sparse(dense: &[f64]) -> Pmf {
    dense.iter().enumerate().filter(|(_, p)| **p > 0.0).map(|(slots, p)| (slots, *p)).collect()
}
