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

    /// The least allowed budget, not less than that of `server`, with which `need` is met.
    pub(super) fn raised(&self, server: Server, need: &Need) -> Option<Server> {
        if need.met_by(&server) {
            return Some(server);
        }
        self.up(need.least(self.period, self.delay))
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

/// What one period needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The least budget that is known to be enough; `None`: more than there may be.
    pub(super) least: Option<Server>,
    /// The least that may be enough, if for a smaller one it took too long to say.
    pub(super) undecided: Option<Server>,
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

    /// A bandwidth that all interfaces of this or a longer period have at least (a fraction of at most 61 bits, at most 1).
    fn slope(&self, period: u64, delay: Delay) -> (u64, u64);

    /// After [`Verdict::Undecided`]: asks from now on for so much in the long run that less has to be looked at. Whether it could.
    fn keep_clear(&mut self) -> bool;

    /// The least budget.
    fn budget(&mut self, round: &Round) -> Result<Found, Error> {
        let mut undecided = None;
        loop {
            let Some(server) = self.least(round) else { return Ok(Found { least: None, undecided }) };
            match self.check(&server)? {
                Verdict::Enough => return Ok(Found { least: Some(server), undecided }),
                Verdict::Missed => {}
                Verdict::Undecided => {
                    undecided = undecided.or(Some(server));
                    if !self.keep_clear() {
                        return Ok(Found { least: None, undecided });
                    }
                }
            }
        }
    }
}

/// a < b
pub(super) fn less(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}

/// The greater of two fractions.
pub(super) fn steeper(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    if less(a, b) {
        b
    } else {
        a
    }
}
