//! The server whose period begins anew when a request comes after a rest: hard constant bandwidth, as SCHED_DEADLINE does it.
//! The papers do not analyse it; this chain is ours.
//!
//! Its wake-up rule keeps (budget left g, deadline D) while V = D − g·P/B ≥ now, and else begins a period of full budget. V only
//! moves while the server runs, at P/B. Hence V − now, and the pending work at P/B, add up to the work in a queue that is served
//! at B/P without a stop: a rest is over, and a period begins, with the first request that finds that queue empty. Between two
//! such requests periods lie on a grid, budgets that are left go with V, and there is no other memory:
//!
//! Let h be the work of a period so far, what it began with and what came. The stretch ends where h·P ≤ n·B, n slots after the
//! period's begin; at its end h − B are pending. A job of c that comes then with h + c > B is not done in the period, and
//! y = h + c − B are left for the next ones: R = (P − n) + y + (⌈y/B⌉ − 1)(P − B), as in eq. 4.11. One with h + c ≤ B is done after
//! the l that is pending and itself, so l is needed only where h ≤ B.

use super::chain::{mean, Chain, Job};
use super::law::{Law, Tally};
use crate::Error;

/// Steps of the iteration for the periods' begins, each over two laps.
const MOST_ITERATIONS: u32 = 500;
/// A lap has so many service times at least: short periods are taken several at a time.
const LAP: f64 = 4.0;
/// What is left of the equation, at most, as a part of its right side.
const EXACT: f64 = 1e-10;

/// Steps of [`law`], about: for [`Error::Fine`].
pub(super) fn steps(chain: &Chain) -> f64 {
    let (period, budget, jobs) = (chain.period as f64, chain.budget as f64, chain.work.len() as f64);
    let laps = 100.0;
    (1.0 + jobs) * period * (laps * (lap(chain) * states(chain)) as f64 + budget * budget / 2.0)
}

/// Periods of a lap.
fn lap(chain: &Chain) -> usize {
    (LAP * mean(&chain.work) / chain.period as f64).ceil() as usize
}

/// Work that can be pending when a period begins.
fn states(chain: &Chain) -> usize {
    let most = chain.work.last().map_or(0, |&(slots, _)| slots);
    (chain.states(chain.decay()) as usize).max(2 * chain.budget + 4 * most)
}

/// Response times under a server that is re-anchored. O(P·M) an iteration for M states, and O(P·B²) once.
///
/// Jobs see what an arbitrary slot sees: in the mean 1/η slots of rest, then those of a stretch. Errors: [`Error::Fine`] where the
/// iteration does not end, as with a load too near the bandwidth.
pub(super) fn law(chain: &Chain) -> Result<Law, Error> {
    let stretch = Stretch { chain, states: states(chain) };
    let begins = stretch.begins()?;
    let budget = chain.budget;
    let mut tally = Tally::new(chain);
    // Rests: a job begins at once, with a period of its own.
    let rests = 1.0 / chain.arrival;
    tally.later(&[rests], budget, chain.period, true);
    for (job, &Job { slots, p, .. }) in chain.jobs.iter().enumerate().filter(|(_, job)| job.slots <= budget) {
        tally.add(slots, &[rests], p);
        tally.atom(job, 0, p * rests);
    }
    // Slots of stretches.
    let mut total = rests;
    let mut inner = Inner::new(chain, &begins);
    stretch.period(&begins, true, |n, work| {
        total += work.iter().sum::<f64>();
        tally.later(work, budget, chain.period - n, false);
        inner.tally(&mut tally);
        inner.slot(n);
    });
    Ok(tally.law(None, total))
}

/// The slots between two rests.
struct Stretch<'a> {
    chain: &'a Chain,
    states: usize,
}

impl Stretch<'_> {
    /// Plays a period: `begin[l]` of them begin with l pending. With `first`, also one that a request begins after a rest. `see` is
    /// told each slot and by h how many stretches are in it, before what comes in it. Returns how many periods begin next, by l.
    fn period(&self, begin: &[f64], first: bool, mut see: impl FnMut(usize, &[f64])) -> Vec<f64> {
        let Chain { period, budget, .. } = *self.chain;
        let mut now = begin.to_vec();
        now.resize(self.states + budget, 0.0);
        let mut next = vec![0.0; now.len()];
        for n in 0..period {
            see(n, &now);
            self.chain.slot(&now, &mut next, false);
            if n == 0 && first {
                self.chain.work.iter().for_each(|&(slots, p)| next[slots] += p);
            }
            next[..=ended(self.chain, n)].fill(0.0);
            std::mem::swap(&mut now, &mut next);
        }
        now.drain(..budget);
        now
    }

    /// How many periods of a stretch begin with l pending, in the mean, its first one not counted: S = T(S) + b, where T is a period
    /// and b what the first one leaves. So S = Y + T(Y) + … over the periods of a lap, where Y = Tᵏ(Y) + b for its k periods.
    /// T decays as slowly as stretches end, so Y is found by BiCGSTAB (van der Vorst 1992).
    fn begins(&self) -> Result<Vec<f64>, Error> {
        let none = vec![0.0; self.states];
        let right = self.period(&none, true, |_, _| ());
        let lap = lap(self.chain);
        let apply = |x: &[f64]| -> Vec<f64> {
            let after = (0..lap).fold(x.to_vec(), |x, _| self.period(&x, false, |_, _| ()));
            x.iter().zip(after).map(|(x, after)| x - after).collect()
        };
        let mut found = none.clone();
        let mut rest = right.clone();
        // Not the usual residue: that lies on a lattice of the service times, and the next one beside it.
        let shadow = vec![1.0; self.states];
        let enough = EXACT * norm(&right);
        let (mut rho, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        let (mut along, mut image) = (none.clone(), none);
        for _ in 0..MOST_ITERATIONS {
            if norm(&rest) <= enough {
                let mut all = found.clone();
                for _ in 1..lap {
                    found = self.period(&found, false, |_, _| ());
                    add(&mut all, &found, 1.0);
                }
                // Rounding.
                all.iter_mut().for_each(|share| *share = share.max(0.0));
                return Ok(all);
            }
            let before = std::mem::replace(&mut rho, dot(&shadow, &rest));
            let turn = rho / before * alpha / omega;
            for ((along, image), rest) in along.iter_mut().zip(&image).zip(&rest) {
                *along = rest + turn * (*along - omega * image);
            }
            image = apply(&along);
            alpha = rho / dot(&shadow, &image);
            add(&mut rest, &image, -alpha);
            let second = apply(&rest);
            let square = dot(&second, &second);
            omega = if square > 0.0 { dot(&second, &rest) / square } else { 0.0 };
            add(&mut found, &along, alpha);
            add(&mut found, &rest, omega);
            add(&mut rest, &second, -omega);
            if !(rho.is_finite() && alpha.is_finite() && omega.is_finite()) || omega == 0.0 && norm(&rest) > enough {
                break;
            }
        }
        Err(Error::Fine { states: self.states as u64 })
    }
}

/// The most work with which a stretch is over after slot n: h·P ≤ (n + 1)·B.
fn ended(chain: &Chain, n: usize) -> usize {
    (n + 1) * chain.budget / chain.period
}

/// What can still be done in its period: h ≤ B, with what is pending of it.
struct Inner<'a> {
    chain: &'a Chain,
    /// `by[h][l]`: stretches of the present slot.
    by: Vec<Vec<f64>>,
    after: Vec<Vec<f64>>,
}

impl<'a> Inner<'a> {
    fn new(chain: &'a Chain, begins: &[f64]) -> Self {
        let mut by: Vec<Vec<f64>> = (0..=chain.budget).map(|h| vec![0.0; h + 1]).collect();
        by.iter_mut().zip(begins).enumerate().for_each(|(h, (row, &share))| row[h] = share);
        Inner { chain, after: by.clone(), by }
    }

    /// Jobs that come in this slot and are done within the period.
    fn tally(&self, tally: &mut Tally) {
        // Σ over h from 0 on, by l.
        let mut up_to = vec![0.0; self.chain.budget + 1];
        let mut rows = self.by.iter();
        for (job, &Job { slots, p, .. }) in self.chain.jobs.iter().enumerate().rev() {
            // Jobs are in ascending order, so the rows that are left for them grow.
            let Some(highest) = self.chain.budget.checked_sub(slots) else { continue };
            let there = self.by.len() - rows.len();
            rows.by_ref().take((highest + 1).saturating_sub(there)).for_each(|row| {
                up_to.iter_mut().zip(row).for_each(|(sum, share)| *sum += share);
            });
            tally.add(slots, &up_to[..=highest], p);
            tally.atom(job, 0, p * up_to[0]);
        }
    }

    /// Slot n: what comes, and a slot of the budget where there is work.
    fn slot(&mut self, n: usize) {
        let stay = 1.0 - self.chain.arrival;
        for (to, from) in self.after.iter_mut().zip(&self.by) {
            to.iter_mut().zip(from).for_each(|(to, share)| *to = stay * share);
        }
        let first = if n == 0 { 1.0 } else { 0.0 };
        for &(slots, p) in &self.chain.work {
            let rows = self.after.iter_mut().skip(slots).zip(&self.by);
            for (h, (to, from)) in rows.enumerate() {
                let weight = p * self.chain.arrival;
                to[slots..].iter_mut().zip(from).for_each(|(to, share)| *to += weight * share);
                if h == 0 {
                    to[slots] += p * first;
                }
            }
        }
        let over = ended(self.chain, n);
        for (h, row) in self.after.iter_mut().enumerate() {
            if h <= over {
                row.fill(0.0);
            } else {
                let idle = row[0];
                row.copy_within(1.., 0);
                row[h] = 0.0;
                row[0] += idle;
            }
        }
        std::mem::swap(&mut self.by, &mut self.after);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    a.iter().map(|a| a.abs()).sum()
}

fn add(to: &mut [f64], from: &[f64], weight: f64) {
    to.iter_mut().zip(from).for_each(|(to, by)| *to += weight * by);
}
