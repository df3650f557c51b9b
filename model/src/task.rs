//! Periodic and sporadic tasks.

use crate::{Bandwidth, Duration, TimeError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is known of when a task's jobs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Strictly periodic at `offset + k·period`, and the offset is kept: an analysis may rely on it.
    KeptOffset,
    /// At least one period apart; nothing more is known (also: periodic with jitter, or with an unknown offset).
    Sporadic,
}

/// A task τ = (A, C, D, T): jobs of at most `wcet` each, released one `period` apart or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Name in the site file; in `analyze`, `task1`, `task2`, …
    pub name: String,
    /// Worst-case execution time C > 0 of one job.
    #[serde(rename = "wcet_ns")]
    pub wcet: Duration,
    /// Period T ≥ C, or least time between releases.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Relative deadline D with C ≤ D ≤ T; the period when none was written.
    #[serde(rename = "deadline_ns")]
    pub deadline: Duration,
    /// First release A.
    #[serde(rename = "offset_ns")]
    pub offset: Duration,
    /// Whether the analysis may count on the offset.
    pub release: Release,
    /// How many tasks like this there are (six clients that each send one request every millisecond: 6).
    pub copies: u32,
}

/// Why a task makes no sense. Each text says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// Not in the notation at all.
    #[error("'{0}' is not a task; expected wcet/period[@deadline][+offset], for example 2ms/7ms or 2ms/7ms@6ms+1ms")]
    Malformed(String),
    /// One of the durations.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// C = 0.
    #[error("the execution time must be more than 0")]
    NoWork,
    /// T = 0.
    #[error("the period must be more than 0")]
    NoPeriod,
    /// C > D.
    #[error("the execution time {wcet} is longer than the deadline {deadline}: the job can never be on time")]
    TooLong {
        /// C
        wcet: Duration,
        /// D
        deadline: Duration,
    },
    /// D > T.
    #[error("the deadline {deadline} is longer than the period {period}; deadlines up to the period are supported")]
    LateDeadline {
        /// D
        deadline: Duration,
        /// T
        period: Duration,
    },
    /// No copies.
    #[error("copies must be 1 or more")]
    NoCopies,
}

impl Task {
    /// One whose jobs come apart by `period` at least or on average, each of which is also its deadline.
    pub fn sporadic(name: &str, wcet: Duration, period: Duration) -> Task {
        let (name, offset, release) = (name.to_string(), Duration::ZERO, Release::Sporadic);
        Task { name, wcet, period, deadline: period, offset, release, copies: 1 }
    }

    /// Checks 0 < C ≤ D ≤ T and copies ≥ 1.
    pub fn validate(&self) -> Result<(), TaskError> {
        let Task { wcet, period, deadline, .. } = *self;
        if wcet.is_zero() {
            return Err(TaskError::NoWork);
        }
        if period.is_zero() {
            return Err(TaskError::NoPeriod);
        }
        if wcet > deadline {
            return Err(TaskError::TooLong { wcet, deadline });
        }
        if deadline > period {
            return Err(TaskError::LateDeadline { deadline, period });
        }
        if self.copies == 0 {
            return Err(TaskError::NoCopies);
        }
        Ok(())
    }

    /// copies · C / T; `None` if the exact fraction needs more than 64 bits.
    pub fn utilization(&self) -> Option<Bandwidth> {
        Bandwidth::of(self.wcet.checked_mul(u64::from(self.copies))?, self.period)
    }
}

impl FromStr for Task {
    type Err = TaskError;

    /// `wcet/period[@deadline][+offset]`. A written offset, also `+0ms`, is one that is kept; without one the task is
    /// sporadic. The name is left empty.
    fn from_str(text: &str) -> Result<Self, TaskError> {
        let malformed = || TaskError::Malformed(text.to_string());
        let (rest, offset) = text.split_once('+').map_or((text, None), |(r, o)| (r, Some(o)));
        let (rest, deadline) = rest.split_once('@').map_or((rest, None), |(r, d)| (r, Some(d)));
        let (wcet, period) = rest.split_once('/').ok_or_else(malformed)?;
        let period: Duration = period.trim().parse()?;
        let task = Task {
            name: String::new(),
            wcet: wcet.trim().parse()?,
            period,
            deadline: deadline.map_or(Ok(period), |d| d.trim().parse())?,
            offset: offset.map_or(Ok(Duration::ZERO), |o| o.trim().parse())?,
            release: if offset.is_some() { Release::KeptOffset } else { Release::Sporadic },
            copies: 1,
        };
        task.validate()?;
        Ok(task)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} every {}", self.wcet, self.period)?;
        if self.deadline != self.period {
            write!(f, ", due in {}", self.deadline)?;
        }
        if self.copies > 1 {
            write!(f, " ({} of them)", self.copies)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_says_all_four_parameters() {
        let task: Task = "2ms/7ms@6ms+1ms".parse().unwrap();
        assert_eq!((task.wcet, task.period), (Duration::from_ms(2), Duration::from_ms(7)));
        assert_eq!((task.deadline, task.offset), (Duration::from_ms(6), Duration::from_ms(1)));
        assert_eq!(task.release, Release::KeptOffset);
        let plain: Task = "2ms/7ms".parse().unwrap();
        assert_eq!((plain.deadline, plain.release), (Duration::from_ms(7), Release::Sporadic));
    }

    #[test]
    fn a_task_that_cannot_be_is_refused() {
        assert_eq!("0ms/7ms".parse::<Task>(), Err(TaskError::NoWork));
        assert!(matches!("8ms/7ms".parse::<Task>(), Err(TaskError::TooLong { .. })));
        assert!(matches!("2ms/7ms@8ms".parse::<Task>(), Err(TaskError::LateDeadline { .. })));
        assert!(matches!("2ms".parse::<Task>(), Err(TaskError::Malformed(_))));
        assert!(matches!("2/7ms".parse::<Task>(), Err(TaskError::Time(TimeError::NoUnit(_)))));
    }
}
