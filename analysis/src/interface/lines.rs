//! A task set made ready for many questions about rbf and dbf: no division and no branch in the inner loops.

use super::demand::work;
use crate::Error;
use giusto_model::Task;

/// Times are less than this, 146 years, so that sums of two stay within 63 bits.
pub(super) const LONGEST: u64 = 1 << 62;

/// One task, all copies together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) period: u64,
    pub(super) deadline: u64,
    /// C, copies counted.
    pub(super) work: u64,
    /// T − D
    early: u64,
    /// With s = ⌈log₂ T⌉, ⌈2^(63 + s) / T⌉: between 2^63 and 2^64.
    inverse: u64,
    /// s
    shift: u32,
}

impl Line {
    /// Of a checked task. Errors: a period that is too long, more than 584 years of work at once.
    pub(super) fn new(task: &Task) -> Result<Self, Error> {
        let (period, deadline) = (task.period.ns(), task.deadline.ns());
        if period >= LONGEST {
            return Err(Error::TooLong { time: task.period });
        }
        let work = u64::try_from(work(task)).map_err(|_| Error::Demand)?;
        let shift = u64::BITS - (period - 1).leading_zeros();
        let inverse = (1u128 << (63 + shift)).div_ceil(u128::from(period));
        // T a power of two: 2^63 exactly.
        Ok(Line { period, deadline, work, early: period - deadline, inverse: inverse as u64, shift })
    }

    /// ⌊t / T⌋ for t < 2^63. The inverse is too great by less than 1, so t times it by less than 2^63 ≤ 2^(63 + s) / T: the
    /// product divided by 2^(63 + s) is less than 1/T too great, and does not reach the next whole number.
    #[inline]
    fn rounds(&self, t: u64) -> u64 {
        (((u128::from(t << 1) * u128::from(self.inverse)) >> 64) as u64).wrapping_shr(self.shift)
    }

    /// Jobs due by `t`.
    #[inline]
    fn due(&self, t: u64) -> u64 {
        self.rounds(t.wrapping_add(self.early))
    }

    /// Work released in [0, t) after a release at 0, for 0 < t < 2^63.
    fn released(&self, t: u64) -> u128 {
        u128::from(self.rounds(t - 1) + 1) * u128::from(self.work)
    }
}

/// rbf(t) of the last of `lines`, those of its priority and above, for 0 < t < 2^63. O(n).
pub(super) fn request(lines: &[Line], t: u64) -> u128 {
    lines.iter().map(|line| line.released(t)).sum()
}

/// The lines of `tasks` for dbf: those that are due alike as one.
pub(super) fn due_lines(tasks: &[Task]) -> Result<Vec<Line>, Error> {
    let mut lines = tasks.iter().map(Line::new).collect::<Result<Vec<_>, _>>()?;
    lines.sort_unstable_by_key(|line| (line.period, line.deadline));
    let mut merged: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        match merged.last_mut().filter(|last| (last.period, last.deadline) == (line.period, line.deadline)) {
            Some(last) => last.work = last.work.checked_add(line.work).ok_or(Error::Demand)?,
            None => merged.push(line),
        }
    }
    Ok(merged)
}

/// dbf(t) for t < 2^62 and lines with U ≤ 1: then dbf(t) ≤ t + max T fits, and no step overflows. O(n), about a ns a line.
#[inline]
pub(super) fn due(lines: &[Line], t: u64) -> u64 {
    lines.iter().fold(0, |sum, line| sum.wrapping_add(line.due(t).wrapping_mul(line.work)))
}

/// dbf(t), as [`due`], and the first deadline after t.
pub(super) fn due_and_next(lines: &[Line], t: u64) -> (u64, u64) {
    lines.iter().fold((0, u64::MAX), |(sum, next), line| {
        let jobs = line.due(t);
        let own = jobs.wrapping_mul(line.period).wrapping_add(line.deadline);
        (sum.wrapping_add(jobs.wrapping_mul(line.work)), next.min(own))
    })
}

/// The last deadline up to t, for t < 2^62 and if there is one.
pub(super) fn last_deadline(lines: &[Line], t: u64) -> Option<u64> {
    let last = |line: &Line| Some(line.deadline + line.due(t).checked_sub(1)? * line.period);
    lines.iter().filter_map(last).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Duration, Release};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_product_with_the_inverse_is_the_quotient() {
        let mut rng = StdRng::seed_from_u64(1);
        let some = |rng: &mut StdRng, bits: u32| rng.random_range(1..1u64 << bits) >> rng.random_range(0..bits);
        for _ in 0..200_000 {
            let period = match rng.random_range(0..4) {
                0 => 1u64 << rng.random_range(0..62),
                1 => (1u64 << rng.random_range(1..62)) - 1,
                _ => some(&mut rng, 62).max(1),
            };
            let length = Duration::from_ns(period);
            let name = String::new();
            let (offset, release) = (Duration::ZERO, Release::Sporadic);
            let task = Task { name, wcet: length, period: length, deadline: length, offset, release, copies: 1 };
            let line = Line::new(&task).unwrap();
            let multiple = some(&mut rng, 63) / period * period;
            for t in [some(&mut rng, 63), multiple, multiple.saturating_sub(1), (1 << 63) - 1, 0] {
                assert_eq!(line.rounds(t), t / period, "{t} / {period}");
            }
        }
    }
}
