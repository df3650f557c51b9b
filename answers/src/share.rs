//! `giusto analyze share`: the least share of a core on which tasks have the response times of a whole core.

use crate::{named, Error};
use giusto_analysis::share::{share, Share, Wanted};
use giusto_model::{Bandwidth, Release, Task};

/// What is known of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releases {
    /// Strictly periodic, offsets known and kept.
    Kept,
    /// Sporadic, jittered, or offsets unknown.
    Sporadic,
}

/// Which share is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The tasks; their names do not count.
    pub tasks: Vec<Task>,
    /// `None`: kept offsets if any task has one, else sporadic.
    pub releases: Option<Releases>,
    /// Of the server.
    pub wanted: Wanted,
    /// Percentage points of a core to add in practice.
    pub margin: Bandwidth,
}

impl Question {
    /// The share, as in [LiH21, Theorem 2 and § 3.2]; `formats/share.schema.json`.
    ///
    /// # Errors
    /// Tasks that need more than a core do not fit; tasks that make no sense, and hyperperiods of too many jobs.
    pub fn answer(&self) -> Result<Share, Error> {
        let mut tasks = named(&self.tasks);
        let kept = match self.releases {
            Some(releases) => releases == Releases::Kept,
            None => tasks.iter().any(|task| task.release == Release::KeptOffset),
        };
        for task in &mut tasks {
            task.release = if kept { Release::KeptOffset } else { Release::Sporadic };
        }
        share(&tasks, self.wanted, self.margin, Bandwidth::ZERO).map_err(|error| match error {
            giusto_analysis::Error::Overload { .. } => Error::does_not_fit(error),
            _ => Error::input(error),
        })
    }
}
