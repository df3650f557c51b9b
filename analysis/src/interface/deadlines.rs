//! Demands under EDF: every deadline is a point that must be met; few of them decide.

use super::demands::{steeper, Demands, Round, Verdict};
use super::exact::{Fraction, Load};
use super::lines::{due, due_lines, last_deadline, Line, LONGEST};
use super::need::{Grid, Need};
use super::server::{Delay, Server};
use crate::Error;
use giusto_model::Task;
use std::cmp::Ordering;
use std::iter;

/// Tasks looked at in the tests of one search, and of one budget in it. What is longer than that is undecided; it happens only where
/// the budget is within a millionth or so of U · Π.
const MOST_LOOKS: u64 = 60_000_000;
const MOST_LOOKS_AT_ONCE: u64 = 6_000_000;
/// Deadlines that are looked at before anything is asked.
const MOST_NEAR: u128 = 1 << 12;

/// See [`Demands`].
pub(super) struct Deadlines {
    lines: Vec<Line>,
    load: Load,
    latency: u64,
    /// Deadlines that a budget once missed; those that ruled out a period last come first.
    needs: Vec<Need>,
    /// A deadline that even a whole core misses.
    hopeless: bool,
    slope: (u64, u64),
    /// Up to here all deadlines that may decide are kept.
    near: u64,
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
        let longest = lines.iter().map(|line| line.period).max().unwrap_or(0);
        let mut all = Deadlines {
            lines,
            load,
            latency,
            needs: Vec::new(),
            hopeless: false,
            slope,
            near: 0,
            unused,
            left: MOST_LOOKS,
        };
        all.near =
            iter::successors(Some(2 * longest), |t| Some(t / 2)).find(|t| all.count(*t) <= MOST_NEAR).unwrap_or(0);
        all.keep_near();
        Ok(all)
    }

    /// At least the number of deadlines up to `t`.
    fn count(&self, t: u64) -> u128 {
        self.lines.iter().map(|line| u128::from(t / line.period) + 1).sum()
    }

    /// Keeps what may decide of the deadlines up to `near`.
    ///
    /// A point is implied by a later one with no more slack s = t − w: sbf rises by 1 at most, so
    /// sbf(t₀) ≥ sbf(t) − (t − t₀) ≥ w − (t − t₀) ≥ w₀. So of their slack the least from behind are enough.
    fn keep_near(&mut self) {
        let due = |line: &Line| {
            let (first, period, work) = (line.deadline, line.period, line.work);
            (0..).map(move |k| (first + k * period, work)).take_while(|(t, _)| *t <= self.near)
        };
        let mut rises: Vec<(u64, u64)> = self.lines.iter().flat_map(due).collect();
        rises.sort_unstable();
        let mut demand: u128 = rises.iter().map(|rise| u128::from(rise.1)).sum();
        let (mut behind, mut least) = (u64::MAX, None);
        for (from, work) in rises.into_iter().rev() {
            let slack = i128::from(from) - demand as i128; // at most 2^13 times 2^64
            if from < behind && least.is_none_or(|least| slack < least) {
                self.keep(from, demand);
                least = Some(slack);
            }
            behind = from;
            demand -= u128::from(work);
        }
    }

    /// Keeps the deadline that is missed.
    fn keep(&mut self, missed: u64, demand: u128) {
        let at = missed.checked_sub(self.latency);
        match at.zip(u64::try_from(demand).ok()).filter(|(at, work)| work <= at) {
            Some((at, work)) => {
                self.slope = steeper(self.slope, (work, at));
                self.needs.insert(0, Need { at, work });
            }
            None => self.hopeless = true,
        }
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
        [crossing, whole].into_iter().flatten().min().filter(|t| *t < LONGEST)
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

    fn least(&mut self, round: &Round) -> Option<Server> {
        let start = if round.grain.is_some() { self.long_run(round) } else { round.smallest() };
        let start = start.filter(|_| !self.hopeless);
        self.needs.iter().try_fold(start?, |server, need| round.raised(server, need))
    }

    /// Goes down over the deadlines as `edf::test` does, first over the early ones, then up to four times as far and so on: what
    /// is missed is mostly missed early. O(n) a step.
    fn check(&mut self, server: &Server) -> Result<Verdict, Error> {
        let Some(until) = self.bound(server) else { return Ok(Verdict::Undecided) };
        let looks = self.lines.len() as u64;
        let mut left = self.left.min(MOST_LOOKS_AT_ONCE) / looks;
        let (mut below, mut end) = (0, self.near.max(1));
        loop {
            let mut last = end.min(until);
            let mut asked = due(&self.lines, last);
            while asked > 0 && last > below {
                self.left = self.left.saturating_sub(looks);
                let Some(rest) = left.checked_sub(1) else { return Ok(Verdict::Undecided) };
                left = rest;
                let met = server.inverse(asked.into()).and_then(|t| t.checked_add(self.latency));
                let rest = met.filter(|met| *met <= last).map(|met| (met - 1, due(&self.lines, met - 1)));
                match rest.filter(|(_, rest)| *rest < asked) {
                    Some(next) => (last, asked) = next,
                    None => {
                        let missed = last_deadline(&self.lines, last).unwrap_or(last);
                        self.keep(missed, asked.into());
                        return Ok(Verdict::Missed);
                    }
                }
            }
            if end >= until {
                return Ok(Verdict::Enough);
            }
            (below, end) = (end, end.saturating_mul(4));
        }
    }

    fn sharpen(&mut self, _: &Round) -> Result<Option<Server>, Error> {
        Ok(None) // early misses are all known, late ones are dear to find
    }

    fn slope(&self) -> (u64, u64) {
        self.slope
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
        let mut last = until;
        while let Some(from) = last_deadline(&self.lines, last) {
            let Some(rest) = left.checked_sub(1) else { return Ok(None) };
            left = rest;
            let met = server.inverse(due(&self.lines, from).into()).and_then(|t| t.checked_add(self.latency));
            let (Some(met), Delay::Until(longest)) = (met, server.delay) else { return Ok(None) };
            let over = met.saturating_sub(from);
            server.delay = Delay::Until(longest.saturating_sub(over));
            last = met - over - 1;
        }
        match server.delay {
            Delay::Until(longest) => Ok(Some(longest)),
            Delay::None => Ok(None),
        }
    }
}
