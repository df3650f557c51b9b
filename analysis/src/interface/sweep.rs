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

use super::demands::{steeper, Demands, Round, Verdict};
use super::lattice::first_between;
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
/// Under EDF a candidate very close to U may take too long to test. It is told, and then candidates twice as far from what
/// all need at least are tried, until one can be decided.
pub(super) fn search(demands: &mut impl Demands, grid: &Grid, periods: Periods, start: u64) -> Result<Best, Error> {
    let (mut floor, mut known, mut undecided) = ((0, 1), None, None);
    // Something to beat, and points that decide, from a period that may be near the best.
    if let Periods::UpTo(last) = periods {
        let sweep = Sweep { demands: &mut *demands, grid, floor, best: known };
        if let Some(round) = sweep.round(start.clamp(1, last)) {
            known = demands.sharpen(&round)?.map(|server| grid.candidate(&server));
        }
    }
    loop {
        let mut sweep = Sweep { demands: &mut *demands, grid, floor, best: known };
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
                let sweep = Sweep { demands: &mut *demands, grid, floor, best: known };
                if let Some(round) = sweep.round(best.period) {
                    known = demands.sharpen(&round)?.map(|server| grid.candidate(&server)).or(known);
                }
            }
            Verdict::Undecided => {
                undecided = undecided.or(Some(best));
                floor = farther(best, demands.slope());
            }
        }
    }
}

/// A bandwidth about twice as far from `low` as that of `candidate`, at least 2^-41.
fn farther(candidate: Candidate, low: (u64, u64)) -> (u64, u64) {
    const ONE: u64 = 1 << 61;
    let part = |(n, d): (u64, u64)| (u128::from(n) * u128::from(ONE) / u128::from(d)) as u64; // at most 1
    let share = part((candidate.budget, candidate.period)) + 1;
    (share.saturating_add((share - part(low).min(share)).max(ONE >> 41)).min(ONE), ONE)
}

struct Sweep<'a, D> {
    demands: &'a mut D,
    grid: &'a Grid,
    /// No candidate with less is looked at.
    floor: (u64, u64),
    best: Option<Candidate>,
}

impl<D: Demands> Sweep<'_, D> {
    /// Over all periods; gives how far it had to go.
    fn up_to(&mut self, last: u64) -> u64 {
        if self.grid.overhead > 0 {
            self.survey(last);
        }
        let low = steeper(self.demands.slope(), self.floor);
        let mut p = 1;
        while p <= last {
            // Past the best, nothing but a lower bandwidth is of use.
            if let Some(best) = self.best.filter(|best| best.period <= p) {
                match first_between(p, last, (low.1 - low.0, low.1), (best.period - best.budget, best.period)) {
                    Some(next) => p = next,
                    None => break,
                }
            }
            match self.demands.next(self.grid, p, self.held(p)) {
                None => break,
                Some(next) if next > p => p = next,
                Some(_) => {
                    self.consider(p);
                    p += 1;
                }
            }
        }
        p.min(last)
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

    /// Finds the least budget for `p` quanta; what is better than the best takes its place.
    fn consider(&mut self, p: u64) {
        let Some(round) = self.round(p) else { return };
        let Some(server) = self.demands.least(&round) else { return };
        let least = self.grid.candidate(&server).budget;
        let floor = (u128::from(self.floor.0) * u128::from(p)).div_ceil(u128::from(self.floor.1)) as u64; // at most p
        let budget = least.max(floor);
        if budget <= (round.most + self.grid.overhead) / self.grid.quantum {
            self.best = Some(Candidate { period: p, budget });
        }
    }
}
