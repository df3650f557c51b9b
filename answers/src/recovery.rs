//! `giusto analyze recovery`: how long an ensemble of ZooKeeper is without a leader.

use crate::Error;
use giusto_analysis::recovery::{Bound, Paper, Recovery};
use giusto_model::{Duration, Epochs, RecoveryTimes};
use serde::Serialize;

/// Which ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The dead leader among them; from 2 to 255.
    pub servers: u64,
    /// How epochs reach the disk.
    pub epochs: Epochs,
    /// How long an election waits for votes; `None`: [`RecoveryTimes::wait`] says.
    pub wait: Option<Duration>,
    /// What was measured.
    pub times: RecoveryTimes,
}

/// What was found; `formats/recovery.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    servers: u64,
    epochs: Epochs,
    /// Of epochs, before another leads.
    pub forced_writes: u64,
    /// How long an election waits for votes.
    pub wait_ns: Duration,
    times: RecoveryTimes,
    /// What holds.
    pub bound: Bound,
    /// What the paper has [LiH21, eq. 5.8].
    pub paper: Paper,
}

impl Question {
    /// The bound.
    ///
    /// # Errors
    /// Fewer than 2 servers or more than 255; times beyond 584 years.
    pub fn answer(&self) -> Result<Answer, Error> {
        let Question { servers, epochs, times, .. } = *self;
        if !(2..=255).contains(&servers) {
            return Err(Error::input(format!("{servers} servers are no ensemble; expected 2 to 255")));
        }
        let wait = times.wait(self.wait);
        let forced_writes = epochs.forced_writes();
        let question = Recovery { times, wait, forced_writes, left: servers - 1 };
        let bound = question.bound().map_err(Error::input)?;
        let paper = question.paper().map_err(Error::input)?;
        Ok(Answer { servers, epochs, forced_writes, wait_ns: wait, times, bound, paper })
    }
}
