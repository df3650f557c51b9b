//! S(t): what a whole core gives to a task set.

use super::workload::{ns, Stream, Workload, MOST_JOBS};
use crate::Error;
use giusto_model::{Duration, Release, Task};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One busy period: the core works from `start` to `end` without a gap. Lengths in ns.
#[derive(Clone, Copy, Debug)]
struct Busy {
    start: u64,
    end: u64,
    /// S(start).
    before: u64,
}

/// The supply S(t) of a whole core to a task set [LiH21, eq. 3.5], as its busy periods.
///
/// S does not depend on the scheduler as long as it is work-conserving (Lemma 3), rises with slope 1 in a busy period and
/// is flat between two.
///
/// **Kept offsets: the steady state.** Let A∞ be the release pattern continued into the infinite past. A server window
/// [t, t + P] that starts a busy period gets min over u of (work released in [t, t + u)) + P − u, and A∞ releases at
/// least as much and starts with at least as much backlog: no transient window gets more than the same window in the
/// steady state. The real system reaches that state at max A + hyperperiod at the latest (a backlog never goes back more
/// than one hyperperiod when U ≤ 1; the paper's Lemma 4 says max A, which is too early), so the maximum over all t ≥ 0 is
/// the maximum over one hyperperiod of the steady state, where only A mod T counts and
/// S(t + hyperperiod) − S(t) = U · hyperperiod always.
///
/// **Sporadic.** No release pattern gives any window of length P more than S0(P), the supply after a synchronous release
/// at 0 (the same formula: no pattern releases more in [t, t + u)). S0 starts anew at each hyperperiod.
///
/// So that both are one data structure, time 0 is the start of a busy period, and the busy periods of one hyperperiod are
/// kept; for sporadic tasks only as far as needed.
#[derive(Debug)]
pub struct Supply {
    releases: Release,
    hyperperiod: u64,
    work: u64,
    reach: u64,
    /// Where time 0 is, after a multiple of the hyperperiod.
    origin: u64,
    busy: Vec<Busy>,
}

impl Supply {
    /// For server periods up to `longest`, and for all multiples of the hyperperiod.
    ///
    /// O(n log m) for n releases of m tasks in one hyperperiod (sporadic: in `longest`, if that is shorter).
    /// Errors: a bad task set, U > 1, more than 5,000,000 releases.
    pub fn new(tasks: &[Task], longest: Duration) -> Result<Self, Error> {
        Self::of(&Workload::new(tasks)?, longest.ns())
    }

    pub(super) fn of(load: &Workload, longest: u64) -> Result<Self, Error> {
        let Workload { releases, hyperperiod, work, .. } = *load;
        let reach = if releases == Release::KeptOffset { hyperperiod } else { longest.min(hyperperiod) };
        let jobs = load.jobs(reach);
        if jobs > u128::from(MOST_JOBS) {
            return Err(Error::TooManyJobs { jobs, limit: MOST_JOBS });
        }
        let mut busy = busy_periods(load.streams.iter().copied(), reach);
        let mut origin = 0;
        if releases == Release::KeptOffset {
            // The last busy period that starts in [0, hyperperiod) from an empty core also starts one in the steady
            // state: what it carries over the end cannot reach itself again, because U ≤ 1.
            origin = busy.last().map_or(0, |b| b.start);
            let turned = load
                .streams
                .iter()
                .map(|s| Stream { offset: (s.offset + s.period - origin % s.period) % s.period, ..*s });
            busy = busy_periods(turned, reach);
        }
        Ok(Supply { releases, hyperperiod, work, reach, origin, busy })
    }

    /// B(P) = max over t of S(t + P) − S(t): the least budget that is never exhausted in any period P, wherever the
    /// periods start (Theorem 1). For sporadic tasks S0(P).
    ///
    /// Exact. The maximum is attained where t starts a busy period: from inside one, moving t back to its start loses
    /// nothing; from a gap, moving t on to the next start loses nothing. O(n) for n busy periods, O(log n) for sporadic
    /// tasks. Errors: P = 0, or P modulo the hyperperiod is beyond the `longest` that this was built for.
    pub fn budget(&self, period: Duration) -> Result<Duration, Error> {
        if period.is_zero() {
            return Err(Error::Period);
        }
        let rest = period.ns() % self.hyperperiod;
        if rest > self.reach {
            return Err(Error::Reach { reach: ns(self.reach), asked: period });
        }
        // Theorem 2 and its multiples: a hyperperiod gets U · hyperperiod, wherever it starts.
        let whole = period.ns() / self.hyperperiod * self.work;
        let part = match self.releases {
            Release::Sporadic => self.since_zero(rest),
            Release::KeptOffset => self.most_in_any(rest).0,
        };
        Ok(ns(whole + part))
    }

    /// A t with S(t + P) − S(t) = B(P), in [0, hyperperiod). Errors: as [`Supply::budget`].
    pub(super) fn deciding(&self, period: Duration) -> Result<Duration, Error> {
        self.budget(period)?;
        let (_, start) = match self.releases {
            Release::Sporadic => (0, 0),
            Release::KeptOffset => self.most_in_any(period.ns() % self.hyperperiod),
        };
        Ok(ns((self.origin + start) % self.hyperperiod))
    }

    /// The busy periods of one hyperperiod, each as start and length; time 0 is the start of one. Sporadic: after a
    /// synchronous release, as far as this reaches (the last one may be cut short).
    pub fn busy_periods(&self) -> impl Iterator<Item = (Duration, Duration)> + '_ {
        self.busy.iter().map(|b| (ns(b.start), ns(b.end - b.start)))
    }

    /// True if the core is never idle (U = 1).
    pub fn never_idle(&self) -> bool {
        self.work == self.hyperperiod
    }

    /// Busy periods that one [`Supply::budget`] looks at.
    pub(super) fn steps(&self) -> u64 {
        if self.releases == Release::KeptOffset {
            2 * self.busy.len() as u64
        } else {
            32
        }
    }

    /// Longest busy period; `None` if the core is never idle.
    pub(super) fn longest_busy(&self) -> Option<Duration> {
        let longest = self.busy.iter().map(|b| b.end - b.start).max()?;
        (!self.never_idle()).then(|| ns(longest))
    }

    /// S(t) for t within reach.
    fn since_zero(&self, t: u64) -> u64 {
        let after = self.busy.partition_point(|b| b.start <= t);
        after.checked_sub(1).map_or(0, |last| supplied(&self.busy[last], t))
    }

    /// Greatest S(t + length) − S(t) over the starts t of busy periods, and the first such t; both ends move on together.
    fn most_in_any(&self, length: u64) -> (u64, u64) {
        let (mut index, mut round) = (0, 0); // busy period of the window's end, in this hyperperiod or the next
        let mut most = (0, 0);
        for from in &self.busy {
            let end = from.start + length;
            loop {
                let (next, next_round) = if index + 1 < self.busy.len() { (index + 1, round) } else { (0, round + 1) };
                if self.busy[next].start + next_round * self.hyperperiod > end {
                    break;
                }
                (index, round) = (next, next_round);
            }
            let to = round * self.work + supplied(&self.busy[index], end - round * self.hyperperiod);
            if to - from.before > most.0 {
                most = (to - from.before, from.start);
            }
        }
        most
    }
}

/// S(t) if `last` is the last busy period that starts at or before `t`.
fn supplied(last: &Busy, t: u64) -> u64 {
    last.before + t.min(last.end) - last.start
}

/// Busy periods that start in [0, until) on a core that is empty at 0. Two that touch are one: nothing else can run in between.
fn busy_periods(streams: impl Iterator<Item = Stream>, until: u64) -> Vec<Busy> {
    let mut next: BinaryHeap<Reverse<(u64, u64, u64)>> =
        streams.map(|s| Reverse((s.offset, s.work, s.period))).collect();
    let mut busy: Vec<Busy> = Vec::new();
    let mut released = 0;
    while let Some(mut top) = next.peek_mut() {
        let Reverse((at, work, period)) = *top;
        if at >= until {
            break;
        }
        match busy.last_mut() {
            Some(current) if at <= current.end => current.end += work,
            _ => busy.push(Busy { start: at, end: at + work, before: released }),
        }
        released += work;
        *top = Reverse((at + period, work, period));
    }
    busy
}
