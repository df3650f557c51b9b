//! A core of speed W: its unfinished work, and the response times on a server that is at most 2(P − B) later.

use super::load::Load;
use super::lundberg::{Lundberg, NOTHING};
use super::work::{geometric, tail, units, with, Kernel};
use crate::response::chain::smooth;

/// Units in a mean service time: more, the nearer the load is to the bandwidth.
const FEWEST: f64 = 24.0;
const MOST: f64 = 96.0;
/// Units of work that are told apart at most.
const MOST_STATES: usize = 5000;

/// Pr{V > l units}, V being the work that is unfinished on a core of speed W: at the beginning of its periods the server with its
/// budget last has no more (of all windows, those of whole periods count there).
pub(super) struct Fluid {
    unit: f64,
    /// With one request more.
    beyond: Vec<f64>,
    /// Without.
    waiting: Vec<f64>,
    speed: f64,
    delay: f64,
}

impl Fluid {
    /// V is a geometric number (ρ) of residual service times, here each rounded up.
    pub(super) fn new(load: &Load, decay: &Lundberg) -> Fluid {
        let part = load.part();
        let fine = (part / (0.08 * (1.0 - part))).clamp(FEWEST, MOST);
        let unit = (load.mean / fine.ceil()).max(decay.depth(NOTHING) / MOST_STATES as f64);
        let states = smooth(((decay.depth(NOTHING) / unit) as usize).max(16));
        // ∫ Pr{C > x} dx/E[C] up to each unit's end.
        let up_to = |end: f64| load.service.iter().map(|(ns, p)| p * ns.min(end)).sum::<f64>() / load.mean;
        let most = (load.service.last().map_or(0.0, |(ns, _)| *ns) / unit).ceil() as usize;
        let ends: Vec<f64> = (0..=most.min(states)).map(|j| up_to(j as f64 * unit)).collect();
        let residual = ends.windows(2).enumerate().map(|(j, two)| (j + 1, part * (two[1] - two[0])));
        let residual: Vec<(usize, f64)> = residual.collect();
        let work = geometric(1.0 - part, &residual, states);
        let own = units(&load.own, unit);
        let beyond = tail(&Kernel::one(&own, states).add(&work));
        Fluid { unit, beyond, waiting: tail(&work), speed: load.speed, delay: load.delay() }
    }

    /// Pr{R > t}, at most.
    pub(super) fn beyond(&self, t: f64) -> f64 {
        let served = self.speed * (t - self.delay) / self.unit;
        if served < 0.0 {
            return 1.0;
        }
        self.beyond[(served as usize).min(self.beyond.len() - 1)]
    }

    /// Pr{V > l}, at most, for units of `unit`.
    pub(super) fn waiting(&self, unit: f64, states: usize) -> Vec<f64> {
        let place = |l: usize| ((l as f64 * unit / self.unit) * (1.0 - 1e-12)) as usize;
        (0..states).map(|l| self.waiting[place(l).min(self.waiting.len() - 1)]).collect()
    }
}

/// Pr{V + own > most}, for other modules of the room.
pub(super) fn late(tail: &[f64], own: &[(usize, f64)], most: f64) -> f64 {
    if most < 0.0 {
        1.0
    } else {
        with(tail, own, most as usize)
    }
}
