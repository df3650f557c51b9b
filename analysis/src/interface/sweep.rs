//! The period that needs least, of all whole numbers of a quantum.
//!
//! Θ(Π), the least budget, rises with Π by at most as much (a server can always be idle in what its period grows by). A
//! candidate that beats the best bandwidth so far, β, is a whole number of quanta b with Θ(p) ≤ b < βp. The sweep goes up
//! in p, and jumps: over all p where no whole number lies between αp and βp, α a bandwidth that all interfaces need
//! ([`super::lattice`]); over all p that a kept point rules out ([`super::need::Need::next`]); and it ends where a point rules out all that are
//! left. Only what is left is tested in full, and what fails there leaves a point behind.
//!
//! Ties go to the smallest period, since that comes first.

use super::demands::{Demands, Found, Round};
use super::lattice::first_between;
use super::need::Grid;
use super::server::Server;
use crate::Error;

/// A period and a budget, in quanta.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) period: u64,
    pub(super) budget: u64,
}

impl Candidate {
    /// Θ/Π < that of the other.
    fn below(self, other: Candidate) -> bool {
        u128::from(self.budget) * u128::from(other.period) < u128::from(other.budget) * u128::from(self.period)
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    /// The best.
    pub(super) best: Option<Candidate>,
    /// Of what could not be decided, that of least bandwidth: nothing else is better than the best.
    pub(super) undecided: Option<Candidate>,
    /// As far as single periods had to be ruled out: longer ones are no better.
    pub(super) end: u64,
}

/// The sweep over all periods from 1 to `last` quanta.
pub(super) fn sweep(demands: &mut impl Demands, grid: &Grid, last: u64) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    if grid.overhead > 0 {
        survey(demands, grid, last, &mut swept)?;
    }
    let mut p = 1;
    while p <= last {
        // Past the best, nothing but a lower bandwidth is of use.
        if let Some(best) = swept.best.filter(|best| best.period <= p) {
            let (low, of) = demands.slope();
            match first_between(p, last, (of - low, of), (best.period - best.budget, best.period)) {
                Some(next) => p = next,
                None => break,
            }
        }
        match demands.next(grid, p, held(swept.best, p)) {
            None => break,
            Some(next) if next > p => p = next,
            Some(_) => {
                consider(demands, grid, p, &mut swept)?;
                if demands.spent() {
                    let (budget, period) = demands.slope();
                    swept.doubt(Candidate { period, budget });
                    break;
                }
                p += 1;
            }
        }
    }
    swept.end = p.min(last);
    Ok(swept)
}

/// Only some periods: ascending, in quanta.
pub(super) fn among(demands: &mut impl Demands, grid: &Grid, periods: &[u64]) -> Result<Swept, Error> {
    let mut swept = Swept { end: periods.last().copied().unwrap_or(0), ..Swept::default() };
    for &p in periods {
        if demands.next(grid, p, held(swept.best, p)) == Some(p) {
            consider(demands, grid, p, &mut swept)?;
        }
    }
    Ok(swept)
}

/// With something lost of each budget, short periods are dear, and coming from there each is a little better than the one before.
/// So some all over the range come first, then closer and closer ones around the best.
fn survey(demands: &mut impl Demands, grid: &Grid, last: u64, swept: &mut Swept) -> Result<(), Error> {
    let mut p = 1;
    while p <= last {
        match demands.next(grid, p, held(swept.best, p)) {
            None => break,
            Some(next) if next > p => {}
            Some(_) => consider(demands, grid, p, swept)?,
        }
        p += p / 8 + 1;
    }
    let mut step = swept.best.map_or(0, |best| best.period / 8);
    while step > 0 {
        let center = swept.best.map_or(1, |best| best.period);
        for p in [center.saturating_sub(step).max(1), center.saturating_add(step).min(last)] {
            if demands.next(grid, p, held(swept.best, p)) == Some(p) {
                consider(demands, grid, p, swept)?;
            }
        }
        step /= 2;
    }
    Ok(())
}

/// Quanta that a period of `p` has to hold back at least to beat the best (or to be as good, and shorter).
fn held(best: Option<Candidate>, p: u64) -> u64 {
    let Some(Candidate { period, budget }) = best else { return 0 };
    let (gap, of) = (u128::from(period - budget) * u128::from(p), u128::from(period));
    let held = if p < period { gap.div_ceil(of) } else { gap / of + 1 };
    held as u64 // at most p + 1
}

/// Finds the least budget for `p` quanta; what is better than the best takes its place.
fn consider(demands: &mut impl Demands, grid: &Grid, p: u64, swept: &mut Swept) -> Result<(), Error> {
    let period = p * grid.quantum;
    let Some(most) = p.checked_sub(held(swept.best, p)) else { return Ok(()) };
    let Some(most) = (most * grid.quantum).checked_sub(grid.overhead) else { return Ok(()) };
    let grain = Some((grid.quantum, grid.overhead));
    let of = |server: &Server| Candidate { period: p, budget: (server.top as u64 + grid.overhead) / grid.quantum };
    match demands.budget(&Round { period, delay: grid.delay(period), most, grain })? {
        Found::TooMuch => {}
        Found::Least(server) => swept.best = Some(of(&server)),
        Found::Undecided(server) => swept.doubt(of(&server)),
    }
    Ok(())
}

impl Swept {
    /// This may be enough, or not.
    fn doubt(&mut self, candidate: Candidate) {
        self.undecided = Some(self.undecided.filter(|other| !candidate.below(*other)).unwrap_or(candidate));
    }
}
