//! An upper end of the law of the response time at a fixed-grid server: never less than Pr{R > t} and E(R − t)⁺, at once.
//!
//! [`response`](fn@super::response) gives the law itself, as the limit of finer and finer grids; what rests on it may be
//! off by its error to either side. Here each step rounds to the safe side instead, so that a promise may rest on it
//! (docs/decisions/0052-paths.md):
//!
//! - rates are rounded up by 1e-9, and so are times; work is rounded up to whole units, supply down;
//! - requests that come within a slot count from its beginning and come at its end, which is later: the server is monotone;
//! - the unfinished work that a period begins with is at most that of a core of speed W, which is a compound geometric sum
//!   (Pollaczek and Khinchine), here of parts that are rounded up ([`fluid`]); a period that is played with more work than there
//!   is leaves more than there is ([`phased`]), so no iteration has to converge;
//! - what lies beyond the arrays has no end; beyond them Pr{R > t} is Lundberg's exponential ([`lundberg`]);
//! - [`OUTWARD`] is added to each probability, more than transforms and sums can have lost.

mod fluid;
mod load;
mod lundberg;
mod phased;
mod work;

use crate::Error;
use fluid::Fluid;
use giusto_model::Duration;
use load::{check, is_law, Load, UP};
use lundberg::Lundberg;

pub use load::{Class, Share};

/// Added to each probability. Of a transform of 2^14 real numbers the rounding is some 1e-13 in all, and what wraps around less
/// than [`lundberg::NOTHING`] each time; there are at most some 60 of them.
const OUTWARD: f64 = 2e-9;
/// Times that are looked at.
const POINTS: usize = 512;

/// Upper ends of Pr{R > t} and E(R − t)⁺ on a grid of times, and beyond it.
#[derive(Clone, Debug)]
pub struct Tail {
    /// ns, ascending.
    at: Vec<f64>,
    /// Pr{R > at}, at most; never rises.
    beyond: Vec<f64>,
    /// E(R − at)⁺ in ns, at most.
    excess: Vec<f64>,
    /// Pr{R > t} ≤ e^(−decay · (t − from)).
    decay: f64,
    from: f64,
}

impl Tail {
    /// Of a request that takes `own`, at a server that serves all `classes` first come, first served.
    ///
    /// # Errors
    /// [`Error::Unstable`] where the classes ask for as much as the server gives, or nearly; a budget or a distribution that is
    /// none; [`Error::Resource`] for a server that is not monotone (the caller refuses it by name).
    ///
    /// O(n log n) for n units of work that may wait, some 60 times.
    pub fn new(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<Tail, Error> {
        check(share, classes, own)?;
        let load = Load::new(share, classes, own)?;
        let decay = Lundberg::new(&load);
        let fluid = Fluid::new(&load, &decay);
        let end = decay.end(&load);
        let at: Vec<f64> = (0..=POINTS).map(|i| end * i as f64 / POINTS as f64).collect();
        let mut beyond: Vec<f64> = at.iter().map(|t| fluid.beyond(*t).min(decay.beyond(&load, *t))).collect();
        if let Some(phased) = phased::beyond(&load, &decay, &fluid, &at) {
            beyond.iter_mut().zip(phased).for_each(|(p, other)| *p = p.min(other));
        }
        let mut least = 1.0f64;
        for p in &mut beyond {
            least = least.min(*p + OUTWARD);
            *p = least;
        }
        let (decay, from) = (decay.in_time(&load), decay.from(&load));
        let mut sum = (-decay * (end - from)).exp() / decay;
        let mut excess = vec![sum; at.len()];
        for i in (0..POINTS).rev() {
            sum += (at[i + 1] - at[i]) * beyond[i];
            excess[i] = sum;
        }
        let up = |t: Vec<f64>| t.into_iter().map(|t| t * UP).collect();
        Ok(Tail { at: up(at), beyond, excess: up(excess), decay: decay / UP, from: from * UP })
    }

    /// The same by Lundberg's exponential alone, in microseconds: looser, and from time 0 on.
    ///
    /// # Errors
    /// As [`Tail::new`].
    pub fn exponential(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<Tail, Error> {
        check(share, classes, own)?;
        let load = Load::new(share, classes, own)?;
        let decay = Lundberg::new(&load);
        let (decay, from) = (decay.in_time(&load) / UP, decay.from(&load) * UP);
        Ok(Tail { at: vec![0.0], beyond: vec![1.0], excess: vec![from.max(0.0) + 1.0 / decay], decay, from })
    }

    /// Of a time that takes these values with these probabilities (Σ = 1).
    ///
    /// # Errors
    /// [`Error::Distribution`] for one that is none.
    pub(crate) fn steps(times: &[(Duration, f64)]) -> Result<Tail, Error> {
        if !is_law(times) {
            return Err(Error::Distribution { what: "measured times" });
        }
        let end = times.iter().map(|(time, _)| time.ns()).max().unwrap_or(0) as f64;
        let values = times.iter().map(|(time, _)| time.ns() as f64);
        let mut at: Vec<f64> = (0..POINTS).map(|i| end * i as f64 / POINTS as f64).chain(values).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let over = |t: f64, more: &dyn Fn(f64) -> f64| -> f64 {
            let later = times.iter().filter(|(time, _)| time.ns() as f64 > t);
            later.map(|(time, p)| p * more(time.ns() as f64 - t)).fold(0.0, |sum, one| sum + one)
        };
        let beyond = at.iter().map(|t| over(*t, &|_| 1.0)).collect();
        let excess = at.iter().map(|t| over(*t, &|more| more)).collect();
        // Nothing is beyond the end.
        Ok(Tail { at, beyond, excess, decay: 1.0, from: end })
    }

    /// From what is known of Pr{R > t} and of E(R − t)⁺ at the times `at` (ns, ascending from 0), and the exponential beyond.
    pub(crate) fn of(at: Vec<f64>, beyond: Vec<f64>, excess: Vec<f64>, decay: f64, from: f64) -> Tail {
        Tail { at, beyond, excess, decay, from }
    }

    /// Pr{R > t}, at most.
    pub fn beyond(&self, t: f64) -> f64 {
        let before = self.at.partition_point(|at| *at <= t).saturating_sub(1);
        let far = (-self.decay * (t - self.from)).exp();
        self.beyond[before].min(far).min(1.0)
    }

    /// E(R − t)⁺ in ns, at most.
    pub fn excess(&self, t: f64) -> f64 {
        let before = self.at.partition_point(|at| *at <= t).saturating_sub(1);
        let far = (-self.decay * (t - self.from)).exp() / self.decay;
        let known = self.excess[before];
        if t >= *self.at.last().unwrap_or(&0.0) {
            known.min(far)
        } else {
            known
        }
    }

    /// As [`Tail::least`], E being of `other` requests at the same server.
    pub fn least_with(&self, other: &Tail, once: f64, each: f64, most: f64) -> (f64, f64) {
        let sum = |t: f64| once * self.beyond(t) + each * other.excess(t);
        let mut high = self.at.last().unwrap_or(&1.0).max(1.0);
        while sum(high) > most {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            *(if sum(middle) <= most { &mut high } else { &mut low }) = middle;
        }
        (high, sum(high))
    }

    /// The least t in ns that is found with `once` · Pr{R > t} + `each` · E(R − t)⁺ ≤ `most`, and that sum. O(log points).
    pub fn least(&self, once: f64, each: f64, most: f64) -> (f64, f64) {
        let sum = |i: usize| once * self.beyond[i] + each * self.excess[i];
        let (mut low, mut high) = (0, self.at.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if sum(middle) <= most {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if low < self.at.len() {
            return (self.at[low], sum(low));
        }
        // Beyond, all is exponential.
        let height = once + each / self.decay;
        let t = self.from + (height / most).ln().max(0.0) / self.decay * UP;
        (t, height * (-self.decay * (t - self.from)).exp())
    }
}
