//! What a task set demands of budgets and periods, as the search asks for it.

use super::need::{Grid, Need};
use super::server::{Delay, Server};
use crate::Error;

/// How budgets are rounded, and the most there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Π
    pub(super) period: u64,
    /// What a window may wait for first.
    pub(super) delay: Delay,
    /// Longest budget allowed, without what is lost of it.
    pub(super) most: u64,
    /// Budgets are whole numbers of so much, less the second (lost overhead); `None`: any fraction.
    pub(super) grain: Option<(u64, u64)>,
}

impl Round {
    /// The least allowed budget that is not less than `top` / `bottom`; `None` if that is too long.
    pub(super) fn up(&self, (top, bottom): (u128, u128)) -> Option<Server> {
        let (top, bottom) = match self.grain {
            None => (top, bottom),
            Some((quantum, lost)) => {
                let (quantum, lost) = (u128::from(quantum), u128::from(lost));
                ((top.div_ceil(bottom) + lost).div_ceil(quantum) * quantum - lost, 1)
            }
        };
        let fits = top > 0 && top <= u128::from(self.most).checked_mul(bottom)?;
        fits.then_some(Server { period: self.period, top, bottom, delay: self.delay })
    }

    /// The same, not less than `other`.
    pub(super) fn raised(&self, other: Server, need: &Need) -> Option<Server> {
        let least = self.up(need.least(self.period, self.delay))?;
        Some(if other.top * least.bottom < least.top * other.bottom { least } else { other })
    }

    /// The least allowed budget of all.
    pub(super) fn smallest(&self) -> Option<Server> {
        self.up((1, u128::from(u64::MAX)))
    }
}

/// Whether a server is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every deadline is met.
    Enough,
    /// It is not, and a point that says so is kept now.
    Missed,
    /// It takes too long to say.
    Undecided,
}

/// The least budget for one period.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// This is it.
    Least(Server),
    /// More than is allowed.
    TooMuch,
    /// It takes too long to say.
    Undecided,
}

/// A task set under one scheduler. Points that once decided are kept: what they ask for is quickly told, and is a lower bound.
pub(super) trait Demands {
    /// The least period ≥ `p` quanta that the kept points allow while each period holds back `held` quanta or more;
    /// `None`: no longer one is.
    fn next(&mut self, grid: &Grid, p: u64, held: u64) -> Option<u64>;

    /// The least budget that the kept points allow; `None`: more than there may be.
    fn least(&mut self, round: &Round) -> Option<Server>;

    /// Whether a budget that the kept points allow is enough.
    fn check(&mut self, server: &Server) -> Result<Verdict, Error>;

    /// After a miss with the least budget of the kept points: keeps more of what is missed with that period, as far as that is
    /// quickly found. Gives the least budget, if it is then known.
    fn sharpen(&mut self, round: &Round) -> Result<Option<Server>, Error>;

    /// A bandwidth that all interfaces have at least, whatever their period (a fraction of at most 61 bits, at most 1).
    fn slope(&self) -> (u64, u64);

    /// The least budget.
    fn budget(&mut self, round: &Round) -> Result<Found, Error> {
        loop {
            let Some(server) = self.least(round) else { return Ok(Found::TooMuch) };
            match self.check(&server)? {
                Verdict::Enough => return Ok(Found::Least(server)),
                Verdict::Missed => {}
                Verdict::Undecided => return Ok(Found::Undecided),
            }
        }
    }
}

/// The greater of two fractions.
pub(super) fn steeper(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    if u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1) {
        b
    } else {
        a
    }
}
