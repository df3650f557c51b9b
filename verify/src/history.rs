//! Response times of a service that runs: over the last minute, hour and day, and beside what was promised.
//!
//! In flow counts by length, a second's at a time. A window consists of blocks (seconds, minutes, ten minutes): jobs of one block
//! wait for each other, blocks much less so; how much more the counts of blocks vary than those of independent jobs would tells
//! how many independent jobs the window is worth (module `interval`).

use crate::interval::clusters;
use crate::sample::Percentile;
use crate::Verdict;
use giusto_model::Within;
use std::collections::{BTreeMap, VecDeque};

/// How far back one looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// 60 blocks of a second.
    Minute,
    /// 60 of a minute.
    Hour,
    /// 144 of ten minutes.
    Day,
}

impl Past {
    /// All, the shortest first.
    pub const ALL: [Past; 3] = [Past::Minute, Past::Hour, Past::Day];

    /// Its length in s.
    pub fn seconds(self) -> u64 {
        self.block() * self.blocks() as u64
    }
    /// Of one block, in s.
    fn block(self) -> u64 {
        match self {
            Past::Minute => 1,
            Past::Hour => 60,
            Past::Day => 600,
        }
    }
    fn blocks(self) -> usize {
        match self {
            Past::Minute | Past::Hour => 60,
            Past::Day => 144,
        }
    }
}

/// The jobs of some time, by their response times in ns; ascending.
type Counts = BTreeMap<u64, u64>;

/// What one service did, for a day. Some hundred kB at most.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Of each of [`Past::ALL`], the newest block last: when it began, in s, and what it has.
    blocks: [VecDeque<(u64, Counts)>; 3],
    /// The first second, and the last one.
    seconds: Option<(u64, u64)>,
}

impl History {
    /// `counts` response times in ns, and how many jobs took them, in the second before `now`, in s of any clock that is not set
    /// back. O(counts).
    pub fn add(&mut self, now: u64, counts: impl IntoIterator<Item = [u64; 2]>) {
        let first = self.seconds.map_or(now, |(first, _)| first);
        self.seconds = Some((first, now));
        let counts: Counts = counts.into_iter().map(|[ns, count]| (ns, count)).collect();
        for (past, blocks) in Past::ALL.into_iter().zip(&mut self.blocks) {
            let begin = now / past.block() * past.block();
            if blocks.back().is_none_or(|(last, _)| *last < begin) {
                blocks.push_back((begin, Counts::new()));
            }
            let (_, last) = blocks.back_mut().expect("there is one now");
            counts.iter().for_each(|(ns, count)| *last.entry(*ns).or_default() += count);
            while blocks.front().is_some_and(|(first, _)| first + past.seconds() <= begin) {
                blocks.pop_front();
            }
        }
    }

    /// A look at the last minute, hour or day. O(blocks · lengths).
    pub fn over(&self, past: Past) -> Look<'_> {
        let levels = &self.blocks[..=past as usize];
        let (mut all, mut length) = (Counts::new(), 0);
        if let (Some((oldest, _)), Some((first, last))) = (levels[past as usize].front(), self.seconds) {
            length = last - first.max(*oldest) + 1;
        }
        let counts = levels[past as usize].iter().flat_map(|(_, counts)| counts);
        counts.for_each(|(ns, count)| *all.entry(*ns).or_default() += count);
        let jobs = all.values().sum();
        Look { levels, all, jobs, length }
    }
}

/// What a service did in some time.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    /// Its blocks last, and before them the shorter ones of the most recent time.
    levels: &'a [VecDeque<(u64, Counts)>],
    all: Counts,
    /// How many jobs.
    pub jobs: u64,
    /// In how many s; less than was asked for, where not so much has been observed.
    pub length: u64,
}

/// How a promise stands over some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The percentile as it is, with its 95 % interval.
    pub now: Percentile,
    /// Jobs later than promised.
    pub late: u64,
    /// How many times as many as may be late: above 1, the promise would be broken if it went on so. Where none may be
    /// late: how many were.
    pub burn: f64,
}

impl Standing {
    /// Kept if the whole interval is within the promise, missed if it is beyond.
    pub fn verdict(&self, promised: &Within) -> Verdict {
        let within = promised.within.ns();
        match (self.now.low, self.now.high) {
            (Some(low), _) if low > within => Verdict::Missed,
            (_, Some(high)) if high <= within => Verdict::Kept,
            _ => Verdict::CannotTell,
        }
    }
}

impl Look<'_> {
    /// The least time that so many percent of the jobs did not exceed, with its 95 % interval, which allows for jobs that wait
    /// for each other; open above where there are too few. Without a job all are `None`. O(blocks · log lengths + lengths).
    pub fn percentile(&self, p: f64) -> Percentile {
        let (n, beyond) = (self.jobs as f64, 1.0 - p / 100.0);
        let Some(value) = self.value(p) else { return Percentile { p, value: None, low: None, high: None } };
        if beyond <= 0.0 {
            // Of all there is no sample: it is the longest.
            return Percentile { p, value: Some(value), low: Some(value), high: Some(value) };
        }
        let size = self.dispersion(beyond);
        let (least, most) = clusters(n / size * beyond, p / 100.0);
        let low = self.exceeded_by((most * size).ceil().min(n - 1.0) as u64).min(value);
        let high = least.map(|least| self.exceeded_by((least * size).floor() as u64).max(value));
        Percentile { p, value: Some(value), low: Some(low), high }
    }

    /// How a promise stands. Jobs whose length is not told apart from the promised one count as being in time.
    pub fn standing(&self, promised: &Within) -> Standing {
        let p = promised.percentile.percent();
        let late = later(&self.all, promised.within.ns());
        let burn = match self.jobs as f64 * (1.0 - p / 100.0) {
            _ if self.jobs == 0 => 0.0,
            allowed if allowed > 0.0 => late as f64 / allowed,
            _ => late as f64,
        };
        Standing { now: self.percentile(p), late, burn }
    }

    /// The least time that so many percent of the jobs did not exceed; `None` without a job. O(lengths).
    pub fn value(&self, p: f64) -> Option<u64> {
        let beyond = (self.jobs as f64 * (1.0 - p / 100.0) + 1e-9).floor();
        (self.jobs > 0).then(|| self.exceeded_by(beyond as u64))
    }

    /// The longest.
    pub fn longest(&self) -> Option<u64> {
        self.all.keys().next_back().copied()
    }

    /// The least length that at most so many jobs exceed.
    fn exceeded_by(&self, most: u64) -> u64 {
        let mut left = most;
        for (&ns, &count) in self.all.iter().rev() {
            if count > left {
                return ns;
            }
            left -= count;
        }
        self.all.keys().next().copied().unwrap_or(0)
    }

    /// How many jobs tell as much of the slowest `part` as an independent one; at least 1.
    fn dispersion(&self, mut part: f64) -> f64 {
        const CLUSTERS: f64 = 6.0;
        let mut most = 1.0f64;
        loop {
            let value = self.exceeded_by((self.jobs as f64 * part).floor() as u64);
            let here = self.of(value);
            most = most.max(here);
            // Too few clusters say nothing of their size: then those above lower percentiles count, too.
            if self.jobs as f64 * part / here >= CLUSTERS || part >= 0.5 {
                return most;
            }
            part = (3.0 * part).min(0.5);
        }
    }

    /// By what the number of jobs above `value` varies from block to block, over what that of independent jobs would; of blocks
    /// of all lengths, and of neighbouring ones taken together, the most.
    fn of(&self, value: u64) -> f64 {
        self.levels.iter().map(|blocks| of(blocks, value)).fold(1.0, f64::max)
    }
}

fn of(blocks: &VecDeque<(u64, Counts)>, value: u64) -> f64 {
    let mut blocks: Vec<(f64, f64)> =
        blocks.iter().map(|(_, all)| (all.values().sum::<u64>() as f64, later(all, value) as f64)).collect();
    let (jobs, above) = blocks.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let mean = above / jobs;
    let independent = jobs * mean * (1.0 - mean);
    let mut most = 1.0f64;
    while blocks.len() >= 8 && independent > 0.0 {
        let squares: f64 = blocks.iter().map(|(jobs, above)| (above - mean * jobs).powi(2)).sum();
        let free = (blocks.len() - 1) as f64;
        // Student's t for so few blocks over the normal quantile, to 1 %.
        let allowance = 1.0 + 1.25 / free;
        most = most.max(squares / independent * blocks.len() as f64 / free * allowance * allowance);
        let pair = |two: &[(f64, f64)]| two.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        blocks = blocks.chunks(2).map(pair).collect();
    }
    most
}

fn later(counts: &Counts, than: u64) -> u64 {
    counts.range(than + 1..).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets_what_is_older_and_counts_the_rest_once() {
        let mut history = History::default();
        for second in 1_000..1_000 + 90_000u64 {
            history.add(second, [[1_000_000 * (second % 10 + 1), 2]]);
        }
        for (past, seconds) in [(Past::Minute, 60), (Past::Hour, 3_600), (Past::Day, 86_400)] {
            let look = history.over(past);
            assert!(look.length <= seconds && look.length > seconds - past.block(), "{past:?}: {}", look.length);
            assert!(look.jobs == 2 * look.length, "{past:?}: {}", look.jobs);
            assert!(
                look.jobs <= 2 * seconds && look.jobs > 2 * (seconds - 2 * past.block()),
                "{past:?}: {}",
                look.jobs
            );
        }
        let promised = Within { percentile: "p90".parse().unwrap(), within: giusto_model::Duration::from_ms(8) };
        let look = history.over(Past::Minute);
        let standing = look.standing(&promised);
        assert_eq!((standing.now.value, standing.late, look.jobs), (Some(9_000_000), 24, 120));
        assert!((standing.burn - 2.0).abs() < 1e-9);
        assert_eq!(look.percentile(50.0).value, Some(5_000_000));
    }

    #[test]
    fn where_none_may_be_late_the_longest_decides() {
        let every = Within { percentile: giusto_model::Percentile::EVERY, within: giusto_model::Duration::from_ns(9) };
        let mut history = History::default();
        assert_eq!(history.over(Past::Minute).standing(&every).verdict(&every), Verdict::CannotTell);
        history.add(1, [[5, 3], [9, 1]]);
        let standing = history.over(Past::Minute).standing(&every);
        assert_eq!((standing.now.value, standing.burn, standing.verdict(&every)), (Some(9), 0.0, Verdict::Kept));
        history.add(2, [[10, 2]]);
        let standing = history.over(Past::Minute).standing(&every);
        assert_eq!((standing.now.value, standing.burn, standing.verdict(&every)), (Some(10), 2.0, Verdict::Missed));
    }

    #[test]
    fn without_a_job_nothing_is_said_and_of_a_few_no_upper_end() {
        let mut history = History::default();
        assert_eq!(history.over(Past::Hour).percentile(99.0).value, None);
        history.add(7, []);
        history.add(8, [[5, 3]]);
        let look = history.over(Past::Minute);
        let p99 = look.percentile(99.0);
        assert_eq!((p99.value, p99.low, p99.high, look.length), (Some(5), Some(5), None, 2));
    }
}
