//! The phases of a period: what a request finds that comes in each of them.
//!
//! A period is cut into slots, those before the last B of it and those of the last B. Requests that come in a slot come at its
//! end, and count from its begin. The server with its budget last serves in slots of the second kind only. By Theorem 5 of
//! [LiH21] (see [`super::super::law`]) its work at any time says what a deferrable server leaves at the end of the period, and
//! with a period that ends x after the arrival, whether the request is done within x ≤ B.

use super::fluid::{late, Fluid};
use super::load::Load;
use super::lundberg::{Lundberg, LITTLE};
use super::work::{of_tail, tail, units, Kernel, Work};
use crate::response::chain::smooth;
use crate::response::question::Server;

/// Slots of each kind at most, of this part of a mean service time, and of a period at least.
const MOST_SLOTS: f64 = 20.0;
const SLOT: f64 = 0.35;
const OF_PERIOD: f64 = 28.0;
/// Periods shorter than this part of a mean service time are left to the fluid.
const SHORTEST: f64 = 0.1;
/// Periods that are played from the work of the fluid on: one where it is shorter than so many mean service times, else two.
const SHORT: f64 = 1.5;
/// Units of work that are told apart at most.
const MOST_STATES: usize = 3000;
/// Units in a mean service time.
const FEWEST: f64 = 12.0;
const MOST: f64 = 64.0;

/// Pr{R > t}, at most, at each of `at`; `None` where the fluid says as much.
pub(super) fn beyond(load: &Load, decay: &Lundberg, fluid: &Fluid, at: &[f64]) -> Option<Vec<f64>> {
    if load.budget >= load.period || load.period < SHORTEST * load.mean {
        return None;
    }
    let period = Period::new(load, decay, fluid)?;
    let slots = period.slots();
    let within = (load.server == Server::Deferrable).then(|| period.within(load, &slots));
    let all = at.iter().map(|&t| match &within {
        Some(within) if t < load.budget + period.off.max(period.on) => {
            within[((t / period.on) as usize).min(within.len() - 1)]
        }
        _ => slots.iter().map(|slot| slot.part * at_place(&slot.beyond, period.supplied(load, slot, t))).sum(),
    });
    Some(all.map(|p: f64| p.min(1.0)).collect())
}

/// Of a tail at a number of units, which are negative where nothing can be done.
fn at_place(tail: &[f64], units: f64) -> f64 {
    if units < 0.0 {
        1.0
    } else {
        tail[(units as usize).min(tail.len() - 1)]
    }
}

/// A period and the work that it begins with.
struct Period {
    unit: f64,
    /// Lengths of slots without budget and with it, in ns, and how many.
    off: f64,
    on: f64,
    offs: usize,
    ons: usize,
    /// Units of work that a slot with budget does.
    done: usize,
    comes_off: Kernel,
    comes_on: Kernel,
    comes_before: Kernel,
    begin: Work,
    own: Vec<(usize, f64)>,
    period: f64,
}

/// Arrivals of one slot.
struct Slot {
    /// From its begin and its end to the end of the period, in ns.
    begin: f64,
    end: f64,
    /// Of all arrivals.
    part: f64,
    /// At its end; Pr{work > l}; and with one request more.
    work: Work,
    tail: Vec<f64>,
    beyond: Vec<f64>,
}

impl Period {
    fn new(load: &Load, decay: &Lundberg, fluid: &Fluid) -> Option<Period> {
        let without = load.period - load.budget;
        let slot = (SLOT * load.mean).max(load.period / OF_PERIOD);
        let count = |time: f64| (time / slot).ceil().clamp(1.0, MOST_SLOTS) as usize;
        let (offs, ons) = (count(without), count(load.budget));
        let (off, on) = (without / offs as f64, load.budget / ons as f64);
        let longest = load.own.last().map_or(0.0, |(ns, _)| *ns);
        let depth = decay.depth(LITTLE) + 2.0 * load.budget + longest + 2.0 * on;
        let (done, service) = grid(load, on, (MOST_STATES as f64 * on / depth) as usize)?;
        let unit = on / done as f64;
        let states = smooth((depth / unit) as usize + 2);
        let comes = |time: f64| Kernel::comes(load.rate * time, &service, states);
        let mut period = Period {
            unit,
            off,
            on,
            offs,
            ons,
            done,
            comes_off: comes(off),
            comes_on: comes(on),
            comes_before: comes(without),
            begin: Vec::new(),
            own: units(&load.own, unit),
            period: load.period,
        };
        // Whatever is above the work at the begin of a period is, played, above that of the next.
        let mut most = fluid.waiting(unit, states);
        for _ in 0..if load.period < SHORT * load.mean { 1 } else { 2 } {
            let mut work = period.comes_before.add(&of_tail(&most));
            for _ in 0..ons {
                work = period.serve(&work);
            }
            most.iter_mut().zip(tail(&work)).for_each(|(most, other)| *most = most.min(other));
        }
        period.begin = of_tail(&most);
        Some(period)
    }

    /// A slot with budget, and then what comes in it.
    fn serve(&self, work: &[f64]) -> Work {
        let mut left = vec![0.0; work.len()];
        left[0] = work[..=self.done].iter().sum();
        left[1..work.len() - self.done].copy_from_slice(&work[self.done + 1..]);
        self.comes_on.add(&left)
    }

    /// The slots of the period of the server with its budget last.
    fn slots(&self) -> Vec<Slot> {
        let own = Kernel::one(&self.own, self.begin.len());
        let mut all = Vec::with_capacity(self.offs + self.ons);
        let mut work = self.begin.clone();
        let mut left = self.period;
        let mut slot = |length: f64, work: &Work, end: f64| {
            let beyond = tail(&own.add(work));
            let part = length / self.period;
            all.push(Slot { begin: left, end, part, work: work.clone(), tail: tail(work), beyond });
            left = end;
        };
        let budget = self.on * self.ons as f64;
        for n in 1..=self.offs {
            work = self.comes_off.add(&work);
            slot(self.off, &work, budget + self.off * (self.offs - n) as f64);
        }
        for n in 1..=self.ons {
            work = self.serve(&work);
            slot(self.on, &work, self.on * (self.ons - n) as f64);
        }
        all
    }

    /// Units that are done of a request of `slot`, and of what is before it, within `t` of the slot's begin; negative: none
    /// can be.
    fn supplied(&self, load: &Load, slot: &Slot, t: f64) -> f64 {
        let budget = load.budget;
        let after = t - slot.begin;
        let ns = match load.server {
            // Until the period ends, and then at the begin of each.
            Server::Deferrable => {
                let turns = (after / self.period).floor().max(0.0);
                budget.min(slot.end) + turns * budget + (after - turns * self.period).clamp(0.0, budget)
            }
            // Of each period the last B.
            _ => {
                let since = |time: f64| {
                    let turns = (time / self.period).floor();
                    turns * budget + (time - turns * self.period - (self.period - budget)).max(0.0)
                };
                since(self.period + after) - since(self.period - slot.end)
            }
        };
        ns / self.unit
    }

    /// Pr{R > x} on the deferrable server, at most, for x = 0 to B in slots with budget.
    fn within(&self, load: &Load, slots: &[Slot]) -> Vec<f64> {
        let part = self.on / self.period;
        let (before, last) = slots.split_at(self.offs);
        // From the begin of a period on, without a wait.
        let mut first = Vec::new();
        let mut work = self.begin.clone();
        for _ in 0..self.ons {
            work = self.serve(&work);
            first.push(tail(&work));
        }
        // After any wait for B.
        let mut waited = vec![0.0; work.len()];
        for slot in before {
            waited.iter_mut().zip(&slot.work).for_each(|(sum, share)| *sum += share / self.offs as f64);
        }
        let mut all = vec![1.0; self.ons + 1];
        for x in (1..=self.ons).rev() {
            let (most, less) = ((x * self.done) as f64, ((x - 1) * self.done) as f64);
            let none: f64 = first[..self.ons - x].iter().map(|tail| part * late(tail, &self.own, less)).sum();
            let over: f64 = last[self.ons - x..].iter().map(|slot| part * late(&slot.tail, &self.own, less)).sum();
            let some = (1.0 - load.speed) * late(&tail(&waited), &self.own, most);
            all[x] = none + over + some;
            waited = self.serve(&waited);
        }
        all
    }
}

/// Units in a slot with budget, of up to three times as many as needed those that service times fit best; and these in
/// units; no more than `limit`.
fn grid(load: &Load, on: f64, limit: usize) -> Option<(usize, Vec<(usize, f64)>)> {
    if limit == 0 {
        return None;
    }
    let part = load.part();
    let fine = (part / (0.2 * (1.0 - part))).clamp(FEWEST, MOST);
    let least = ((fine * on / load.mean).ceil().max(1.0) as usize).min(limit);
    let most = (3 * least + (FEWEST * on / load.mean) as usize).min(limit);
    let load_of = |service: &[(usize, f64)], done: usize| {
        service.iter().map(|(units, p)| p * *units as f64).sum::<f64>() * on / done as f64 / load.mean
    };
    let step = (most - least) / 48 + 1;
    let fits = (least..=most).step_by(step).map(|done| {
        let service = units(&load.service, on / done as f64);
        (load_of(&service, done) * (1.0 + 5e-3 * done as f64 / least as f64), done, service)
    });
    let (more, done, service) = fits.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (more * part < 1.0 - 0.2 * (1.0 - part)).then_some((done, service))
}
