//! Demands under EDF: every deadline is a point that must be met; few of them decide.

use super::demands::{steeper, Demands, Found, Round};
use super::exact::{Fraction, Load};
use super::lines::{due_lines, stretch, Line};
use super::need::{Grid, Need};
use super::server::{Delay, Server};
use crate::Error;
use giusto_model::Task;
use std::cmp::Ordering;

/// Tasks looked at in the tests of one search, and of one budget in it. What is longer than that is undecided; it happens only where
/// the budget is within a millionth or so of U · Π.
const MOST_LOOKS: u64 = 60_000_000;
const MOST_LOOKS_AT_ONCE: u64 = 6_000_000;

/// See [`Demands`].
pub(super) struct Deadlines {
    lines: Vec<Line>,
    load: Load,
    latency: u64,
    /// Deadlines that a budget once missed; those that ruled out a period last come first.
    needs: Vec<Need>,
    slope: (u64, u64),
    /// 1 − U, rounded up to a fraction of 61 bits.
    unused: (u64, u64),
    /// Tasks that may still be looked at.
    left: u64,
}

impl Deadlines {
    /// For checked tasks with U ≤ 1.
    pub(super) fn new(tasks: &[Task], latency: u64) -> Result<Self, Error> {
        let (lines, load) = (due_lines(tasks)?, Load::new(tasks));
        let slope = Fraction::of(&load).floor();
        let unused = (slope.1 - slope.0, slope.1);
        Ok(Deadlines { lines, load, latency, needs: Vec::new(), slope, unused, left: MOST_LOOKS })
    }

    /// The least budget with α ≥ U, and α > U where α = U cannot be enough: windows that wait for their first budget get less
    /// than α times their length, tasks ask for U times their hyperperiod.
    fn long_run(&self, round: &Round) -> Option<Server> {
        let (least, exact) = self.load.times(round.period)?;
        let server = round.up((u128::from(least).max(1), 1))?;
        let equal = exact && server.top == u128::from(least) * server.bottom;
        if equal && (self.latency > 0 || server.waits()) {
            return round.up((u128::from(least) + 1, 1));
        }
        Some(server)
    }

    /// A time after which `server` misses no deadline first; `None`: there is none, or beyond 62 bits.
    fn bound(&self, server: &Server) -> Option<u64> {
        let share = (server.top, server.bottom * u128::from(server.period));
        match self.load.compare(share) {
            Ordering::Less => return None,
            Ordering::Equal if self.latency > 0 || server.waits() => return None,
            _ => {}
        }
        let lag = server.lag() + u128::from(self.latency);
        // Both dbf and sbf repeat: see `edf::test`.
        let whole = self.load.hyperperiod().and_then(|h| {
            let both = num_integer::lcm(u128::from(h), u128::from(server.period));
            u64::try_from(both.checked_add(lag)?).ok()
        });
        let crossing = self.load.crossing(share, lag);
        [crossing, whole].into_iter().flatten().min().filter(|t| *t < 1 << 62)
    }
}

impl Demands for Deadlines {
    fn next(&mut self, grid: &Grid, p: u64, held: u64) -> Option<u64> {
        // U·Π has to be left of every period, and what is held back grows no slower than that.
        let (gap, idle) = (held * grid.quantum + grid.overhead, self.unused.0);
        if gap > 0 {
            let least = (u128::from(gap) * u128::from(self.unused.1)).checked_div(u128::from(idle))?;
            let least = u64::try_from(least / u128::from(grid.quantum)).ok()?;
            if least > p {
                return Some(least);
            }
        }
        for i in 0..self.needs.len() {
            let next = self.needs[i].next(grid, p, held);
            if next != Some(p) {
                self.needs[..=i].rotate_right(1);
                return next;
            }
        }
        Some(p)
    }

    /// Goes down over the deadlines as `edf::test` does. Where one is missed it raises the budget so far that it is met: those
    /// after it are still met, and are not looked at again. O(n) a step.
    fn budget(&mut self, round: &Round) -> Result<Found, Error> {
        let start = if round.grain.is_some() { self.long_run(round) } else { round.smallest() };
        let Some(mut server) = start else { return Ok(Found::TooMuch) };
        for need in &self.needs {
            match round.raised(server, need) {
                Some(raised) => server = raised,
                None => return Ok(Found::TooMuch),
            }
        }
        let Some(until) = self.bound(&server) else { return Ok(Found::Undecided(server)) };
        let looks = self.lines.len() as u64;
        let mut left = self.left.min(MOST_LOOKS_AT_ONCE) / looks;
        let mut here = stretch(&self.lines, until);
        while here.demand > 0 {
            self.left = self.left.saturating_sub(looks);
            let Some(rest) = left.checked_sub(1) else { return Ok(Found::Undecided(server)) };
            left = rest;
            let met = |server: &Server| server.inverse(here.demand)?.checked_add(self.latency);
            let mut next = met(&server).filter(|t| *t <= here.from);
            if next.is_none() {
                let at = here.from.checked_sub(self.latency);
                let work = u64::try_from(here.demand).map_err(|_| Error::Demand)?;
                let Some(at) = at.filter(|at| work <= *at) else { return Ok(Found::TooMuch) };
                let need = Need { at, work };
                self.slope = steeper(self.slope, (work, at));
                self.needs.insert(0, need);
                match round.raised(server, &need) {
                    Some(raised) => server = raised,
                    None => return Ok(Found::TooMuch),
                }
                next = met(&server).into_iter().chain(self.bound(&server).map(|t| t + 1)).min();
            }
            here = match next {
                Some(t) if t > 0 => stretch(&self.lines, t - 1),
                _ => break,
            };
        }
        Ok(Found::Least(server))
    }

    fn slope(&self) -> (u64, u64) {
        self.slope
    }

    fn spent(&self) -> bool {
        self.left == 0
    }
}

impl Deadlines {
    /// The longest Δ, for a budget that is enough with Δ = Θ, with which it still is; `None` if that takes too long to say.
    pub(super) fn longest_delay(&mut self, server: &Server) -> Result<Option<u64>, Error> {
        if self.load.compare((server.top, server.bottom * u128::from(server.period))).is_eq() {
            return Ok(u64::try_from(server.top / server.bottom).ok()); // no wait is left for the first budget
        }
        let mut server = Server { delay: Delay::Until(server.period), ..*server };
        let Some(until) = self.bound(&server) else { return Ok(None) };
        let mut left = MOST_LOOKS / self.lines.len() as u64;
        let mut here = stretch(&self.lines, until);
        while here.demand > 0 {
            let Some(rest) = left.checked_sub(1) else { return Ok(None) };
            left = rest;
            let Some(met) = server.inverse(here.demand).and_then(|t| t.checked_add(self.latency)) else {
                return Ok(None);
            };
            let over = met.saturating_sub(here.from);
            let Delay::Until(longest) = server.delay else { return Ok(None) };
            server.delay = Delay::Until(longest.saturating_sub(over));
            here = stretch(&self.lines, met - over - 1);
        }
        match server.delay {
            Delay::Until(longest) => Ok(Some(longest)),
            Delay::None => Ok(None),
        }
    }
}
