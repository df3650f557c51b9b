//! A task set made ready for many questions about rbf and dbf: no division in the inner loops.

use super::demand::work;
use crate::Error;
use giusto_model::Task;

/// One task, all copies together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) period: u64,
    pub(super) deadline: u64,
    /// C, copies counted.
    pub(super) work: u64,
    /// ⌊(2^64 − 1) / T⌋
    inverse: u64,
}

impl Line {
    /// Of a checked task. Errors: more than 584 years of work at once.
    pub(super) fn new(task: &Task) -> Result<Self, Error> {
        let (period, deadline) = (task.period.ns(), task.deadline.ns());
        let work = u64::try_from(work(task)).map_err(|_| Error::Demand)?;
        Ok(Line { period, deadline, work, inverse: u64::MAX / period })
    }

    /// ⌊t / T⌋: t times the inverse is too little by less than t / 2^64 · T < T, so the quotient by at most one.
    fn rounds(&self, t: u64) -> u64 {
        let rounds = ((u128::from(t) * u128::from(self.inverse)) >> 64) as u64;
        rounds + u64::from(t - rounds * self.period >= self.period)
    }

    /// Work released in [0, t) after a release at 0, for t > 0.
    pub(super) fn released(&self, t: u64) -> u128 {
        (u128::from(self.rounds(t - 1)) + 1) * u128::from(self.work)
    }
}

/// dbf where it does not change: from the last deadline up to some time until the next one after it.
pub(super) struct Stretch {
    /// The last deadline; 0: there is none yet.
    pub(super) from: u64,
    /// The first deadline after the time asked for; `u64::MAX` where it is beyond that.
    pub(super) next: u64,
    /// dbf.
    pub(super) demand: u128,
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

/// The stretch of dbf around `t`. O(n).
pub(super) fn stretch(lines: &[Line], t: u64) -> Stretch {
    let mut found = Stretch { from: 0, next: u64::MAX, demand: 0 };
    for line in lines {
        let Some(rest) = t.checked_sub(line.deadline) else {
            found.next = found.next.min(line.deadline);
            continue;
        };
        let rounds = line.rounds(rest);
        let last = line.deadline + rounds * line.period;
        found.from = found.from.max(last);
        found.next = found.next.min(last.saturating_add(line.period));
        found.demand += (u128::from(rounds) + 1) * u128::from(line.work);
    }
    found
}
