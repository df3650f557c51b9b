//! Arrival curves: how many messages may come in a window, by the shortest window that holds so many.

use super::error::PathError;
use giusto_model::{Bucket, Duration};

/// Of q messages the last comes (q − 1)·time/count − jitter after the first, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// So many messages
    count: u64,
    /// in this time, in ns.
    time: u64,
    /// In ns.
    jitter: u128,
}

impl Line {
    /// δ(q) in ns, rounded down.
    fn distance(&self, q: u64) -> u128 {
        let regular = u128::from(q - 1) * u128::from(self.time) / u128::from(self.count);
        regular.saturating_sub(self.jitter)
    }
}

/// The least of several lines: the shortest window with q messages is the longest that any of them asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival(Vec<Line>);

impl Arrival {
    /// One in each period, each at most `jitter` late, and `distance` apart at least (0: any).
    ///
    /// # Errors
    /// [`PathError::Arrival`]: a period of 0.
    pub fn periodic(period: Duration, jitter: Duration, distance: Duration) -> Result<Arrival, PathError> {
        if period.is_zero() {
            return Err(PathError::Arrival("have no period"));
        }
        let mut lines = vec![Line { count: 1, time: period.ns(), jitter: jitter.ns().into() }];
        if !distance.is_zero() {
            lines.push(Line { count: 1, time: distance.ns(), jitter: 0 });
        }
        Ok(Arrival(lines))
    }

    /// As a token bucket lets through.
    ///
    /// # Errors
    /// [`PathError::Arrival`]: no rate, or a depth below 1.
    pub fn bucket(bucket: Bucket) -> Result<Arrival, PathError> {
        let (count, time) = bucket.rate.fraction();
        let (parts, whole) = bucket.depth.fraction();
        if count == 0 || parts < whole {
            return Err(PathError::Arrival("never come"));
        }
        // (b − 1)/r, rounded up.
        let over = u128::from(parts - whole) * u128::from(time);
        let jitter = over.div_ceil(u128::from(whole) * u128::from(count));
        Ok(Arrival(vec![Line { count, time, jitter }]))
    }

    /// Both hold.
    #[must_use]
    pub fn and(mut self, other: Arrival) -> Arrival {
        self.0.extend(other.0);
        self
    }

    /// δ(q): the shortest window, in ns, in which q ≥ 1 messages may come. O(lines).
    pub(super) fn distance(&self, q: u64) -> u128 {
        self.0.iter().map(|line| line.distance(q)).max().unwrap_or(0)
    }

    /// Messages in a ns in the long run, as a fraction: the least of all lines.
    pub(super) fn rate(&self) -> (u64, u64) {
        let slowest = |a: &&Line, b: &&Line| {
            let left = u128::from(a.count) * u128::from(b.time);
            left.cmp(&(u128::from(b.count) * u128::from(a.time)))
        };
        self.0.iter().min_by(slowest).map_or((0, 1), |line| (line.count, line.time))
    }

    /// Of what leaves a stage: `grown` says by how much more each line may jitter, from (time, count); `apart`: departures
    /// are so far apart at least.
    pub(super) fn after(&self, grown: impl Fn(u64, u64) -> u128, apart: Duration) -> Arrival {
        let mut lines: Vec<Line> = Vec::with_capacity(self.0.len() + 1);
        for line in &self.0 {
            lines.push(Line { jitter: line.jitter + grown(line.time, line.count), ..*line });
        }
        if !apart.is_zero() {
            lines.push(Line { count: 1, time: apart.ns(), jitter: 0 });
        }
        // A line that says nothing beside another.
        lines.sort_by_key(|line| line.jitter);
        let mut kept: Vec<Line> = Vec::new();
        for line in lines {
            let beside = |other: &Line| {
                u128::from(other.time) * u128::from(line.count) >= u128::from(line.time) * u128::from(other.count)
            };
            if !kept.iter().any(beside) {
                kept.push(line);
            }
        }
        Arrival(kept)
    }
}
