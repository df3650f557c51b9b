//! Demands under EDF: every deadline is a point that must be met; few of them decide.

use super::demands::{steeper, Demands, Round, Verdict};
use super::edf;
use super::exact::{Fraction, Load};
use super::levels::Levels;
use super::lines::{due, due_lines, last_deadline, Line, LONGEST};
use super::need::{Grid, Need};
use super::server::{Delay, Server};
use crate::Error;
use giusto_model::Task;
use std::cmp::Ordering;
use std::iter;

/// Tasks looked at in one test, some tens of milliseconds. What takes longer is undecided; that happens only where the budget is within a
/// millionth or so of U · Π.
const MOST_LOOKS: u64 = 10_000_000;
/// Tasks looked at in all tests of one search; from then on budgets close to U are undecided sooner.
const ALL_LOOKS: u64 = 20 * MOST_LOOKS;
/// A test may always look at so many.
const FEWEST_LOOKS: u64 = 100_000;
/// Deadlines that are looked at before anything is asked.
const MOST_NEAR: u128 = 1 << 12;

/// See [`Demands`].
pub(super) struct Deadlines {
    levels: Levels,
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
    /// How far the last step went that looked at all tasks.
    stride: u64,
    /// Tasks that may be looked at in one test.
    most: u64,
    /// Tasks that may still be looked at in this test, and in all.
    left: u64,
    rest: u64,
    /// A length that was tested, and for how many looks.
    pace: (u64, u64),
    /// As far as tests are to go from now on.
    reach: Option<u64>,
}

impl Deadlines {
    /// For checked tasks with U ≤ 1.
    pub(super) fn new(tasks: &[Task], latency: u64, effort: u32) -> Result<Self, Error> {
        let (lines, load) = (due_lines(tasks)?, Load::new(tasks));
        let slope = Fraction::of(&load).floor();
        let unused = (slope.1 - slope.0, slope.1);
        let longest = lines.iter().map(|line| line.period).max().unwrap_or(0);
        let count = lines.len() as u64;
        // A budget that takes more steps has no certificate.
        let most = MOST_LOOKS.saturating_mul(effort.into()).min(edf::MOST_STEPS * count);
        let mut all = Deadlines {
            levels: Levels::new(lines),
            load,
            latency,
            needs: Vec::new(),
            hopeless: false,
            slope,
            near: 0,
            unused,
            stride: 0,
            most,
            left: 0,
            rest: ALL_LOOKS.saturating_mul(effort.into()),
            pace: (2 * longest, 16 * count),
            reach: None,
        };
        all.near =
            iter::successors(Some(2 * longest), |t| Some(t / 2)).find(|t| all.count(*t) <= MOST_NEAR).unwrap_or(0);
        all.keep_near();
        Ok(all)
    }

    /// At least the number of deadlines up to `t`.
    fn count(&self, t: u64) -> u128 {
        self.levels.lines().iter().map(|line| u128::from(t / line.period) + 1).sum()
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
        let mut rises: Vec<(u64, u64)> = self.levels.lines().iter().flat_map(due).collect();
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

    /// A time t such that nothing is missed from behind it up to `last`; `last` itself if a deadline up to there is missed, and kept;
    /// `None` if nothing is due by then.
    fn step(&mut self, server: &Server, last: u64) -> Option<u64> {
        let met = |demand: u64| server.inverse(demand.into()).and_then(|t| t.checked_add(self.latency));
        let whole = self.levels.lines().len() as u64;
        for above in self.levels.above(last) {
            self.left = self.left.saturating_sub(above.looks);
            // A short way for a few looks is worth as much as a long way for many.
            let far = |t: &u64| {
                *t <= last
                    && u128::from(last - t) * u128::from(whole) >= u128::from(self.stride) * u128::from(above.looks)
            };
            if let Some(t) = met(above.demand).filter(far) {
                return Some(t - 1);
            }
        }
        self.left = self.left.saturating_sub(whole);
        let from = last_deadline(self.levels.lines(), last)?;
        let asked = due(self.levels.lines(), from);
        match met(asked).filter(|t| *t <= from) {
            Some(t) => {
                self.stride = last - t;
                Some(t - 1)
            }
            None => {
                self.keep(from, asked.into());
                Some(last)
            }
        }
    }

    /// See [`Demands::check`]; `until` as [`Deadlines::bound`] says, with `most` looks.
    fn down(&mut self, server: &Server, until: u64, most: u64) -> Verdict {
        let (mut below, mut end) = (0, self.near.max(1));
        loop {
            let (looked, mut last) = (self.left, Some(end.min(until)));
            while let Some(t) = last.filter(|t| *t > below) {
                if self.left == 0 {
                    return Verdict::Undecided;
                }
                last = self.step(server, t);
                if last == Some(t) {
                    return Verdict::Missed;
                }
            }
            if end >= until {
                return Verdict::Enough;
            }
            // What is to come at this pace; the early deadlines are closer to being missed than others.
            self.pace = (end - below, looked - self.left);
            if below > 0 && until / self.pace.0 > 4 * most / self.pace.1.max(1) {
                return Verdict::Undecided;
            }
            (below, end) = (end, end.saturating_mul(4));
        }
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
        let most = self.most.min(self.rest / 4).max(FEWEST_LOOKS);
        self.left = most;
        let verdict = self.down(server, until, most);
        self.rest = self.rest.saturating_sub(most - self.left);
        Ok(verdict)
    }

    fn sharpen(&mut self, _: &Round) -> Result<Option<Server>, Error> {
        Ok(None) // early misses are all known, late ones are dear to find
    }

    /// What is supplied up to some time must be as much as the line above dbf, so that the lines of sbf and dbf cross soon after.
    fn keep_clear(&mut self) -> bool {
        let (length, looks) = self.pace;
        let affordable = self.most.min(self.rest / 4).max(FEWEST_LOOKS);
        let most = (affordable / looks.max(1)).max(1).saturating_mul(length / 4).min(LONGEST - 1);
        let reach = self.reach.map_or(most, |reach| (reach / 2).min(most));
        self.reach = Some(reach);
        let line = self.load.line(reach).filter(|line| *line < reach.saturating_sub(self.latency));
        if let Some(line) = line {
            self.keep(reach, line.into());
        }
        line.is_some()
    }

    fn slope(&self, period: u64, delay: Delay) -> (u64, u64) {
        let own = |need: &Need| {
            let digits = Need::digits(need.at.max(period));
            (need.slope(digits, period, delay), 1 << digits)
        };
        self.needs.iter().map(own).fold(self.slope, steeper)
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
        let mut left = 4 * self.most / self.levels.lines().len() as u64;
        let mut last = until;
        while let Some(from) = last_deadline(self.levels.lines(), last) {
            let Some(rest) = left.checked_sub(1) else { return Ok(None) };
            left = rest;
            let met = server.inverse(due(self.levels.lines(), from).into()).and_then(|t| t.checked_add(self.latency));
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
