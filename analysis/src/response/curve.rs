//! A distribution function over time, and its extrapolation to slots of no length.

use super::chain::Chain;
use super::grid::Grid;
use super::law::Law;
use super::question::Server;
use super::reanchored;
use crate::Error;

/// No response time is longer, in ns: 146 years.
const LONGEST: f64 = (1u64 << 62) as f64;

/// The continuous part of a law, with its weight in the curve.
#[derive(Clone, Debug)]
struct Spread {
    /// Without atoms, up to the end of slot i.
    up_to: Vec<f64>,
    /// All of it.
    top: f64,
    /// Slots after which what is above falls by e^(−this), from the last of them on; `None`: it has ended.
    falls: Option<(usize, f64)>,
    weight: f64,
}

impl Spread {
    /// Up to the end of slot `i`.
    fn at(&self, i: usize) -> f64 {
        match (self.up_to.get(i), self.falls) {
            (Some(up_to), _) => *up_to,
            (None, None) => self.top,
            (None, Some((period, falls))) => {
                let periods = (i - self.up_to.len()) / period + 1;
                self.top - (self.top - self.up_to[i - periods * period]) * (-falls * periods as f64).exp()
            }
        }
    }
}

/// Pr{R ≤ t} on one grid: a continuous part, known at the ends of slots, and atoms, each at its own time.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    slot: f64,
    parts: Vec<Spread>,
    /// Times in ns, ascending, and Pr{R is an atom ≤ t}.
    atoms: Vec<(f64, f64)>,
    /// In ns.
    pub(super) mean: f64,
}

impl Curve {
    /// The weighted sum of the laws of `chains`.
    pub(super) fn new(chains: &[(Chain, f64)], grid: Grid, server: Server) -> Result<Curve, Error> {
        let slot = grid.slot();
        let mut curve = Curve { slot, parts: Vec::new(), atoms: Vec::new(), mean: 0.0 };
        for (chain, weight) in chains {
            let law = match server {
                Server::Deferrable => Law::deferrable(chain, &chain.unfinished()?),
                Server::Periodic => Law::periodic(chain, &chain.unfinished()?),
                Server::ConstantBandwidth => reanchored::law(chain)?,
            };
            curve.add(chain, law, *weight);
        }
        curve.atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        for (_, p) in &mut curve.atoms {
            sum += *p;
            *p = sum;
        }
        Ok(curve)
    }

    fn add(&mut self, chain: &Chain, law: Law, weight: f64) {
        let gap = chain.period - chain.budget;
        let mut all = law.up_to;
        let end = all.last().copied().unwrap_or(0.0);
        let falls = law.falls.map(|falls| (chain.period, falls));
        // Of what goes on, a geometric series of what the last period has.
        let series = |falls: f64| (-falls).exp() / -(-falls).exp_m1();
        let last = all.len().saturating_sub(chain.period);
        let top = falls.map_or(end, |(_, falls)| end + series(falls) * (end - all[last - 1]));
        let above = |from: usize| all[from..].iter().map(|up_to| top - up_to).sum::<f64>();
        self.mean += weight * self.slot * (above(0) + falls.map_or(0.0, |(_, falls)| series(falls) * above(last)));
        let mut here = vec![0.0; all.len()];
        for atom in law.atoms {
            let job = chain.jobs[atom.job];
            here[job.slots + atom.gaps * gap] += atom.p;
            self.atoms.push((job.ns + (atom.gaps * gap) as f64 * self.slot, weight * atom.p));
        }
        let mut atoms = 0.0;
        for (up_to, atom) in all.iter_mut().zip(here) {
            atoms += atom;
            *up_to -= atoms;
        }
        self.parts.push(Spread { up_to: all, top: top - atoms, falls, weight });
    }

    /// Probability of all that was computed: what lacks of 1 is beyond the last slot.
    pub(super) fn mass(&self) -> f64 {
        self.parts.iter().map(|part| part.weight * part.top).sum::<f64>() + self.atoms_at(f64::MAX)
    }

    /// Pr{R ≤ ns}.
    pub(super) fn at(&self, ns: f64) -> f64 {
        self.spread_at(ns) + self.atoms_at(ns)
    }

    fn spread_at(&self, ns: f64) -> f64 {
        let slots = ns / self.slot;
        let i = slots as usize; // saturates
        let of = |part: &Spread| {
            let low = part.at(i);
            part.weight * (low + (slots - i as f64) * (part.at(i.saturating_add(1)) - low))
        };
        self.parts.iter().map(of).sum()
    }

    /// Up to here all is known one by one, in ns, and whether it goes on.
    fn reach(&self) -> (f64, bool) {
        let slots = self.parts.iter().map(|part| part.up_to.len()).max().unwrap_or(0);
        (slots as f64 * self.slot, self.parts.iter().any(|part| part.falls.is_some()))
    }

    fn atoms_at(&self, ns: f64) -> f64 {
        match self.atoms.partition_point(|(at, _)| *at <= ns * (1.0 + 1e-12)) {
            0 => 0.0,
            n => self.atoms[n - 1].1,
        }
    }
}

/// 2·F(half the slot) − F(slot): the bias of one grid halves with its slots. Or one grid as it is.
pub(super) struct Limit<'a> {
    pub(super) coarse: Option<&'a Curve>,
    pub(super) fine: &'a Curve,
}

impl Limit<'_> {
    fn extrapolate(&self, value: impl Fn(&Curve) -> f64) -> f64 {
        self.coarse.map_or(value(self.fine), |coarse| 2.0 * value(self.fine) - value(coarse))
    }

    /// In ns.
    pub(super) fn mean(&self) -> f64 {
        self.extrapolate(|curve| curve.mean)
    }

    /// Pr{R ≤ ns}.
    pub(super) fn at(&self, ns: f64) -> f64 {
        self.extrapolate(|curve| curve.at(ns)).clamp(0.0, 1.0)
    }

    /// The least t, in ns, with Pr{R ≤ t} ≥ p; `None` beyond what was computed.
    pub(super) fn percentile(&self, p: f64) -> Option<f64> {
        let slot = self.coarse.unwrap_or(self.fine).slot;
        let (mut end, goes_on) = self.fine.reach();
        while self.at(end) < p {
            if !goes_on || end > LONGEST {
                return None;
            }
            end *= 2.0;
        }
        // The end of the slot in which p is reached: F is monotone but for errors of extrapolation, which are small.
        let (mut low, mut high) = (0u64, (end / slot).ceil() as u64);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if self.at(middle as f64 * slot) >= p { &mut high } else { &mut low }) = middle;
        }
        // In it, an atom may be passed or reached; elsewhere F is a line.
        let (mut from, mut to) = (low as f64 * slot, high as f64 * slot);
        for _ in 0..60 {
            let middle = 0.5 * (from + to);
            *(if self.at(middle) >= p { &mut to } else { &mut from }) = middle;
        }
        Some(to)
    }
}
