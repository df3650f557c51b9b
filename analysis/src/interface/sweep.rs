//! The period that needs least, of all whole numbers of a quantum.
//!
//! Θ(Π), the least budget, rises with Π by at most as much (a server can always be idle in what its period grows by). A
//! candidate that beats the best bandwidth so far, β, is a whole number of quanta b with Θ(p) ≤ b < βp. A sweep goes up
//! in p, with what the kept points ask for in place of Θ. It jumps over all p where no whole number lies between αp and βp,
//! α a bandwidth that all interfaces need ([`super::lattice`]), and over all p that a kept point rules out
//! ([`super::need::Need::next`]); it ends where one rules out all that are left.
//!
//! What it finds needs no more than the true best. So it is the best if it passes the test in full; if not, the test
//! leaves a point behind that it misses, and the next sweep knows more. Ties go to the smallest period, since that comes
//! first.

use super::demands::{less, Demands, Round, Verdict};
use super::lattice::{before, first_between};
use super::need::{Candidate, Grid};
use crate::Error;

/// What a search found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    /// The best, as far as it is decided; `None`: nothing is enough.
    pub(super) best: Option<Candidate>,
    /// The best, had a candidate been enough for which it took too long to say. Nothing has less bandwidth than this.
    pub(super) undecided: Option<Candidate>,
    /// As far as single periods had to be ruled out: longer ones are no better.
    pub(super) end: u64,
}

/// Which periods.
#[derive(Clone, Copy, Debug)]
pub(super) enum Periods<'a> {
    /// All from 1 to so many quanta.
    UpTo(u64),
    /// These, in quanta, ascending.
    Among(&'a [u64]),
}

/// The best of all `periods`.
///
/// Under EDF a candidate very close to U may take too long to test. It is told, and the best of those that can be tested in time
/// is found ([`Demands::keep_clear`]).
pub(super) fn search(demands: &mut impl Demands, grid: &Grid, periods: Periods, start: u64) -> Result<Best, Error> {
    let (mut known, mut undecided) = (None, None);
    // Something to beat, and points that decide, from a period that may be near the best.
    if let Periods::UpTo(last) = periods {
        let sweep = Sweep { demands: &mut *demands, grid, best: known };
        if let Some(round) = sweep.round(start.clamp(1, last)) {
            known = demands.sharpen(&round)?.map(|server| grid.candidate(&server));
        }
    }
    loop {
        let mut sweep = Sweep { demands: &mut *demands, grid, best: known };
        let end = match periods {
            Periods::UpTo(last) => sweep.up_to(last),
            Periods::Among(all) => sweep.among(all),
        };
        let Some(best) = sweep.best.filter(|best| Some(*best) != known) else {
            return Ok(Best { best: known, undecided, end });
        };
        match demands.check(&grid.server(best))? {
            Verdict::Enough => return Ok(Best { best: Some(best), undecided, end }),
            Verdict::Missed => {
                let sweep = Sweep { demands: &mut *demands, grid, best: known };
                if let Some(round) = sweep.round(best.period) {
                    known = demands.sharpen(&round)?.map(|server| grid.candidate(&server)).or(known);
                }
            }
            Verdict::Undecided => {
                undecided = undecided.or(Some(best));
                if !demands.keep_clear() {
                    return Ok(Best { best: known, undecided, end });
                }
            }
        }
    }
}

struct Sweep<'a, D> {
    demands: &'a mut D,
    grid: &'a Grid,
    best: Option<Candidate>,
}

impl<D: Demands> Sweep<'_, D> {
    /// Over all periods; gives how far it had to go.
    fn up_to(&mut self, last: u64) -> u64 {
        if self.grid.overhead > 0 {
            self.survey(last);
        }
        let (mut p, mut low, mut known_to) = (1, (0, 1), 0);
        while p <= last {
            if p > known_to {
                let period = p * self.grid.quantum;
                low = self.demands.slope(period, self.grid.delay(period));
                known_to = p.saturating_mul(2).min(last);
            }
            if let Some((below, until)) = self.beats(p, known_to) {
                let above = (low.1 - low.0, low.1);
                match first_between(p, until, above, below) {
                    Some(next) => p = next,
                    None if until == known_to && !less(below, above) => break,
                    None => {
                        p = until + 1;
                        continue;
                    }
                }
            }
            match self.demands.next(self.grid, p, self.held(p)) {
                None => break,
                Some(next) if next > p => p = next,
                Some(_) => {
                    let before = self.best;
                    if self.consider(p) {
                        self.leap(before.map_or(0, |best| p.saturating_sub(best.period)), last);
                    }
                    p += 1;
                }
            }
        }
        p.min(last)
    }

    /// What a period of `p` or more quanta, up to the second, must hold back more than, as a part of itself, to beat the best.
    fn beats(&self, p: u64, last: u64) -> Option<((u64, u64), u64)> {
        let Candidate { period, budget } = self.best?;
        match period - budget {
            // Shorter ones need only be as good, so more than the fraction before.
            0 if p < period => None,
            gap if p < period => Some((before(gap, period, period), last.min(period - 1))),
            gap => Some(((gap, period), last)),
        }
    }

    /// Where bandwidths approach a limit they do so for a while at equal distances: goes on at `step` while that is better.
    fn leap(&mut self, step: u64, last: u64) {
        let mut times = u64::from(step > 0);
        let mut grows = true;
        while times > 0 {
            let from = self.best.map_or(0, |best| best.period);
            let to = step.checked_mul(times).and_then(|far| from.checked_add(far)).filter(|p| *p <= last);
            let before = self.best;
            to.map(|p| self.look(p));
            grows &= self.best != before;
            times = if grows { times.saturating_mul(2) } else { times / 2 };
        }
    }

    /// Over some periods only.
    fn among(&mut self, periods: &[u64]) -> u64 {
        for &p in periods {
            self.look(p);
        }
        periods.last().copied().unwrap_or(0)
    }

    /// With something lost of each budget, short periods are dear, and coming from there each is a little better than the
    /// one before. So some all over the range come first, then closer and closer ones around the best.
    fn survey(&mut self, last: u64) {
        let mut p = 1;
        while p <= last && self.look(p) {
            p += p / 8 + 1;
        }
        let mut step = self.best.map_or(0, |best| best.period / 8);
        while step > 0 {
            let center = self.best.map_or(1, |best| best.period);
            self.look(center.saturating_sub(step).max(1));
            self.look(center.saturating_add(step).min(last));
            step /= 2;
        }
    }

    /// Considers `p` quanta if the kept points allow it; whether they allow any from there on.
    fn look(&mut self, p: u64) -> bool {
        let next = self.demands.next(self.grid, p, self.held(p));
        if next == Some(p) {
            self.consider(p);
        }
        next.is_some()
    }

    /// Quanta that a period of `p` has to hold back at least to beat the best (or to be as good, and shorter).
    fn held(&self, p: u64) -> u64 {
        let Some(Candidate { period, budget }) = self.best else { return 0 };
        let (gap, of) = (u128::from(period - budget) * u128::from(p), u128::from(period));
        let held = if p < period { gap.div_ceil(of) } else { gap / of + 1 };
        held as u64 // at most p + 1
    }

    /// What a budget for `p` quanta may be to beat the best; `None`: nothing.
    fn round(&self, p: u64) -> Option<Round> {
        let Grid { quantum, overhead, .. } = *self.grid;
        let most = (p.checked_sub(self.held(p))? * quantum).checked_sub(overhead)?;
        let period = p * quantum;
        Some(Round { period, delay: self.grid.delay(period), most, grain: Some((quantum, overhead)) })
    }

    /// Finds the least budget for `p` quanta; what is better than the best takes its place. Whether it was.
    fn consider(&mut self, p: u64) -> bool {
        let found = self.round(p).and_then(|round| self.demands.least(&round));
        self.best = found.map(|server| self.grid.candidate(&server)).or(self.best);
        found.is_some()
    }
}
