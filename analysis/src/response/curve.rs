//! A distribution function over time, and its extrapolation to slots of no length.

use super::chain::Chain;
use super::grid::Grid;
use super::law::Law;
use super::Server;
use crate::Error;

/// Pr{R ≤ t} at the ends of slots.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    slot: f64,
    /// Up to the end of slot i, atoms included.
    up_to: Vec<f64>,
    /// What of it is the atom at its very end.
    atom: Vec<f64>,
    pub(super) mean: f64,
}

impl Curve {
    /// For each of `chains`, weighted.
    pub(super) fn new(chains: &[(Chain, f64)], grid: Grid, server: Server) -> Result<Curve, Error> {
        let (mut density, mut atom) = (Vec::new(), Vec::new());
        for (chain, weight) in chains {
            let unfinished = chain.unfinished()?;
            let law = match server {
                Server::Deferrable => Law::deferrable(chain, &unfinished),
                Server::Periodic => Law::periodic(chain, &unfinished),
            };
            let length = law.spread.len().max(law.atoms.last().map_or(0, |&(slots, _)| slots + 1));
            for values in [&mut density, &mut atom] {
                let values: &mut Vec<f64> = values;
                values.resize(values.len().max(length), 0.0);
            }
            density.iter_mut().zip(&law.spread).for_each(|(to, p)| *to += weight * p);
            for &(slots, p) in &law.atoms {
                density[slots] += weight * p;
                atom[slots] += weight * p;
            }
        }
        let slot = grid.slot();
        let mean = slot * density.iter().enumerate().map(|(slots, p)| slots as f64 * p).sum::<f64>();
        let mut sum = 0.0;
        for p in &mut density {
            sum += *p;
            *p = sum;
        }
        Ok(Curve { slot, up_to: density, atom, mean })
    }

    /// Probability of all that was computed: what lacks of 1 is beyond the last slot.
    pub(super) fn mass(&self) -> f64 {
        self.up_to.last().copied().unwrap_or(0.0)
    }

    /// 2·F(half the slot) − F(slot) at the ends of the longer slots, monotone and within [0, 1]: the bias of one grid halves with
    /// its slots.
    pub(super) fn extrapolate(&self, finer: &Curve) -> Curve {
        let length = self.up_to.len().min(finer.up_to.len().div_ceil(2));
        let mut top = 0.0f64;
        let up_to = (0..length)
            .map(|i| {
                top = top.max((2.0 * finer.up_to[2 * i] - self.up_to[i]).min(1.0));
                top
            })
            .collect();
        let atom = (0..length).map(|i| (2.0 * finer.atom[2 * i] - self.atom[i]).max(0.0)).collect();
        Curve { slot: self.slot, up_to, atom, mean: 2.0 * finer.mean - self.mean }
    }

    /// Pr{R ≤ ns}.
    pub(super) fn at(&self, ns: f64) -> f64 {
        let slots = ns / self.slot;
        // A time that is the end of a slot but for rounding is that end.
        let whole = (slots + 1e-9).floor();
        let (i, part) = (whole as usize, (slots - whole).max(0.0));
        match (self.up_to.get(i), self.up_to.get(i + 1)) {
            (Some(low), Some(high)) => low + part * (high - self.atom[i + 1] - low).max(0.0),
            _ => self.mass(),
        }
    }

    /// The least t, in ns, with Pr{R ≤ t} ≥ p; `None` beyond what was computed.
    pub(super) fn percentile(&self, p: f64) -> Option<f64> {
        let i = self.up_to.partition_point(|&up_to| up_to < p);
        let high = *self.up_to.get(i)?;
        let Some(before) = i.checked_sub(1) else { return Some(0.0) };
        let (low, high) = (self.up_to[before], high - self.atom[i]);
        let part = if high > p { (p - low) / (high - low) } else { 1.0 };
        Some((before as f64 + part) * self.slot)
    }
}
