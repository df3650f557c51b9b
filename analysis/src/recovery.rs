//! How long an ensemble of coordination servers is without a leader [LiH21, chapter 5].
//!
//! Two forms: the paper's own (5.8), and the one for Giusto's ZooKeeper, which floods votes once, has no epoch table, tells
//! a vote again to whom the first telling came too early, and may wait for forced writes of epochs. docs/coordination.md
//! derives the second; the server computes it too (`RecoveryBound`), and both are tested with the same numbers.

use crate::Error;
use giusto_model::{Duration, RecoveryTimes};
use serde::Serialize;

/// A recovery: its parts, the wait, and who is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// s_e, j, d, h, s_r, h_r and b.
    pub times: RecoveryTimes,
    /// w.
    pub wait: Duration,
    /// k: forced writes of an epoch that it waits for.
    pub forced_writes: u64,
    /// n, the paper's N: servers of the ensemble without the one that died, at least 1.
    pub left: u64,
}

/// The bound for Giusto's ZooKeeper, with its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// d: until the first survivor knows.
    #[serde(rename = "notice_ns")]
    pub notice: Duration,
    /// s_e: until it votes.
    #[serde(rename = "leave_ns")]
    pub leave: Duration,
    /// E = j + 2 d + w + h n(n+1): until there is a leader.
    #[serde(rename = "election_ns")]
    pub election: Duration,
    /// R = s_r + n h_r + k b: until it serves.
    #[serde(rename = "recovery_ns")]
    pub recovery: Duration,
    /// T = d + s_e + E + R.
    #[serde(rename = "total_ns")]
    pub total: Duration,
    /// T + 2 (2 d + h_r + b): until a new session has a write acknowledged, which is two proposals.
    #[serde(rename = "first_write_ns")]
    pub first_write: Duration,
}

/// The paper's estimate for its own protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// T_o = h N(N+1)/2 + w (5.4): one flood of votes.
    #[serde(rename = "flood_ns")]
    pub flood: Duration,
    /// T_e = s_e + j + 2 T_o (5.5).
    #[serde(rename = "election_ns")]
    pub election: Duration,
    /// T_r = s_r + N h_r (5.7).
    #[serde(rename = "recovery_ns")]
    pub recovery: Duration,
    /// T = T_e + T_r (5.8).
    #[serde(rename = "total_ns")]
    pub total: Duration,
}

impl Recovery {
    /// T for Giusto's ZooKeeper, from the death of the leader's process on. O(1).
    ///
    /// # Errors
    /// [`Error::NoneLeft`], and [`Error::Recovery`] beyond 584 years.
    pub fn bound(&self) -> Result<Bound, Error> {
        let RecoveryTimes { leave, jitter, delay, message, recover, learner, write } = self.times;
        let votes = self.left()?.checked_mul(self.left + 1);
        let election = sum([(jitter, Some(1)), (delay, Some(2)), (self.wait, Some(1)), (message, votes)])?;
        let recovery = sum([(recover, Some(1)), (learner, Some(self.left)), (write, Some(self.forced_writes))])?;
        let total = sum([delay, leave, election, recovery].map(|part| (part, Some(1))))?;
        let proposal = sum([(delay, Some(2)), (learner, Some(1)), (write, Some(1))])?;
        let first_write = sum([(total, Some(1)), (proposal, Some(2))])?;
        Ok(Bound { notice: delay, leave, election, recovery, total, first_write })
    }

    /// T of the paper's protocol (5.8), with N servers left. O(1).
    ///
    /// # Errors
    /// [`Error::NoneLeft`], and [`Error::Recovery`] beyond 584 years.
    pub fn paper(&self) -> Result<Paper, Error> {
        let RecoveryTimes { leave, jitter, message, recover, learner, .. } = self.times;
        let votes = self.left()?.checked_mul(self.left + 1).map(|twice| twice / 2);
        let flood = sum([(message, votes), (self.wait, Some(1))])?;
        let election = sum([(leave, Some(1)), (jitter, Some(1)), (flood, Some(2))])?;
        let recovery = sum([(recover, Some(1)), (learner, Some(self.left))])?;
        let total = sum([(election, Some(1)), (recovery, Some(1))])?;
        Ok(Paper { flood, election, recovery, total })
    }

    fn left(&self) -> Result<u64, Error> {
        match self.left {
            0 => Err(Error::NoneLeft),
            u64::MAX => Err(Error::Recovery),
            left => Ok(left),
        }
    }
}

/// Σ times · count.
fn sum<const PARTS: usize>(parts: [(Duration, Option<u64>); PARTS]) -> Result<Duration, Error> {
    let add = |sum: Duration, (time, count): (Duration, Option<u64>)| sum.checked_add(time.checked_mul(count?)?);
    parts.into_iter().try_fold(Duration::ZERO, add).ok_or(Error::Recovery)
}
