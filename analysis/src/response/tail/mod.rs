//! An upper end of the law of the response time at a fixed-grid server: never less than Pr{R > t} and E(R − t)⁺, at once.
//!
//! [`response`](fn@super::response) gives the law itself, as the limit of finer and finer grids; what rests on it may be off by its
//! error to either side. Here each step rounds to the safe side instead, so that a promise may rest on it
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
mod lundberg;
mod phased;
mod work;

use super::question::Server;
use crate::Error;
use fluid::Fluid;
use giusto_model::Duration;
use lundberg::Lundberg;

/// Requests of one kind: so many in a ns, as a Poisson process, and how long one takes, with its probability.
#[derive(Clone, Copy, Debug)]
pub struct Class<'a> {
    /// λ in 1/ns.
    pub rate: f64,
    /// Service times and their probabilities (Σ = 1).
    pub service: &'a [(Duration, f64)],
}

/// A share of a core, on a grid that does not move: B in every P. Budget = period is the whole core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// [`Server::Deferrable`] or [`Server::Periodic`].
    pub server: Server,
    /// B
    pub budget: Duration,
    /// P
    pub period: Duration,
}

/// Added to each probability. Of a transform of 2^14 real numbers the rounding is some 1e-13 in all, and what wraps around less
/// than [`lundberg::NOTHING`] each time; there are at most some 60 of them.
const OUTWARD: f64 = 2e-9;
/// Rates and times are rounded up by this part.
const UP: f64 = 1.0 + 1e-9;
/// Times that are looked at.
const POINTS: usize = 768;

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
        let mut high = *self.at.last().unwrap_or(&1.0);
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

/// What comes, in ns, rounded up.
struct Load {
    server: Server,
    budget: f64,
    period: f64,
    /// W
    speed: f64,
    /// λ of all, and their service times.
    rate: f64,
    service: Vec<(f64, f64)>,
    /// Mean service time of all.
    mean: f64,
    own: Vec<(f64, f64)>,
}

/// A load nearer to the bandwidth than this is refused: all responses would be nearly without end.
const NEAREST: f64 = 1e-4;

impl Load {
    fn new(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<Load, Error> {
        let rate: f64 = classes.iter().map(|class| class.rate).sum::<f64>();
        let mut service: Vec<(f64, f64)> = Vec::new();
        for class in classes {
            let part = class.rate / rate;
            service.extend(class.service.iter().map(|(time, p)| (time.ns() as f64, p * part)));
        }
        let service = merged(service);
        let mean = service.iter().map(|(ns, p)| ns * p).sum::<f64>();
        let (budget, period) = (share.budget.ns() as f64, share.period.ns() as f64);
        let (rate, speed) = (rate * UP, budget / period);
        if rate * mean >= speed * (1.0 - NEAREST) {
            let percent = |share: f64| format!("{:.2} %", 100.0 * share);
            return Err(Error::Unstable { utilization: percent(rate * mean), bandwidth: percent(speed) });
        }
        let own = merged(own.iter().map(|(time, p)| (time.ns() as f64, *p)).collect());
        Ok(Load { server: share.server, budget, period, speed, rate, service, mean, own })
    }

    /// ρ = λE[C]/W.
    fn part(&self) -> f64 {
        self.rate * self.mean / self.speed
    }

    /// 2(P − B): how much later than a core of its speed the server may be.
    fn delay(&self) -> f64 {
        2.0 * (self.period - self.budget)
    }
}

/// Equal times once.
fn merged(mut service: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    service.retain(|(_, p)| *p > 0.0);
    service.sort_by(|a, b| a.0.total_cmp(&b.0));
    service.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    service
}

fn check(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<(), Error> {
    let Share { server, budget, period } = share;
    if period.is_zero() {
        return Err(Error::Period);
    }
    if budget.is_zero() || budget > period || server == Server::ConstantBandwidth {
        return Err(Error::Budget { budget, period });
    }
    let fair = |service: &[(Duration, f64)]| {
        let each = service.iter().all(|(time, p)| !time.is_zero() && p.is_finite() && *p >= 0.0);
        each && (service.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-6
    };
    if !fair(own) || classes.is_empty() || !classes.iter().all(|class| class.rate > 0.0 && fair(class.service)) {
        return Err(Error::Distribution { what: "service times" });
    }
    Ok(())
}
