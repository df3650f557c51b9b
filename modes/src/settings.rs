//! How modes are changed.

use giusto_model::Duration;
use serde::{Deserialize, Serialize};

/// In which order members change [LiH21, section 2.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One by one, the largest decrease first.
    Sequential,
    /// All that decrease at once; when all of them are done, all others.
    Batch,
    /// All that decrease at once; each of the others as soon as it fits.
    Greedy,
    /// As greedy, and the part with the agent goes before all others from the command to its acknowledgement: as many
    /// at once as the place has cores.
    Boost,
}

/// What becomes of a request that comes during a change, or sooner than `spacing` after the last one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// It is refused.
    Reject,
    /// It waits for its turn; 16 at most do.
    Queue,
    /// It replaces the change, from wherever that is; one that comes too soon waits, and the last one counts.
    Preempt,
}

/// What follows when a member does not acknowledge in time, or says that it cannot switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// Everyone goes back to the old mode.
    RollBack,
    /// The change goes on: the silent member gets its new reservation, whatever its tasks need, and the others what
    /// they were promised.
    Degrade,
}

/// What a change may cost those who do not take part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transition {
    /// Reservations change at once (the paper's). A budget that was used just before it shrank may make one other
    /// budget late.
    Fast,
    /// A reservation that shrinks counts in full until its zero-lag time, and one that grows does so at a
    /// replenishment of its own. Nothing is late; for one grid of period P it takes P and the signalling, in general
    /// the longest period of those that shrink and that of the one that grows.
    Guaranteed,
}

/// How modes are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// In which order.
    pub policy: Policy,
    /// During a change.
    pub requests: Requests,
    /// When a member is silent.
    pub on_timeout: OnTimeout,
    /// At once, or without any lateness.
    pub transition: Transition,
    /// From a command to its acknowledgement, at most. More than 0.
    pub timeout: Duration,
    /// From the end of a change to the beginning of the next, at least: the period of the hypothetical server that
    /// pays boosts.
    pub spacing: Duration,
    /// The longest boost of a command, at most `timeout`; its budget. Every member is boosted once in `spacing` at
    /// most.
    pub boost: Duration,
}

/// Why settings make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No member could ever acknowledge.
    #[error("a time-out of nothing lets no member acknowledge; expected, for example, 20ms")]
    NoTimeout,
    /// A boost without an end.
    #[error("a boost of {boost} is longer than the time-out of {timeout}; expected at most as long")]
    Boost {
        /// Longest boost.
        boost: Duration,
        /// Of a command.
        timeout: Duration,
    },
    /// Boosts more often than there is time for them.
    #[error("members may be boosted for {all} in one spacing, and changes are {spacing} apart; expected a longer spacing or a shorter boost")]
    Spacing {
        /// All members, one after the other.
        all: Duration,
        /// Between changes.
        spacing: Duration,
    },
}

impl Settings {
    /// Checks these for so many members, and so many changes in one spacing.
    ///
    /// # Errors
    /// See [`SettingsError`]. `boost` and `spacing` are judged under [`Policy::Boost`] only.
    pub fn validate(&self, members: usize, at_once: u64) -> Result<(), SettingsError> {
        let Settings { timeout, boost, spacing, .. } = *self;
        if timeout.is_zero() {
            return Err(SettingsError::NoTimeout);
        }
        if self.policy != Policy::Boost {
            return Ok(());
        }
        if boost > timeout {
            return Err(SettingsError::Boost { boost, timeout });
        }
        let all = boost.checked_mul((members as u64).saturating_mul(at_once)).unwrap_or(Duration::from_ns(u64::MAX));
        if all > spacing {
            return Err(SettingsError::Spacing { all, spacing });
        }
        Ok(())
    }
}
