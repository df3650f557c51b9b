//! Kept, missed, or cannot tell: and why, in words.

use crate::bootstrap::Estimate;
use serde::{Deserialize, Serialize};

/// The answer to *was the promise kept?*
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole 95 % interval of the distance is within the limit: equivalence is shown, not only no difference found.
    Kept,
    /// The whole interval is beyond the limit; or jobs never finished that did on a whole core.
    Missed,
    /// The interval straddles the limit; or the limit is more than the median response time on a whole core, so that being
    /// within it means nothing; or there are too few complete rounds ([`MIN_CYCLES`] of a trial, [`MIN_ROUNDS`] of
    /// files), fewer
    /// than [`MIN_JOBS`] jobs (of an arm of a trial, of each run of files), or jobs that never finished even on a whole core.
    CannotTell,
}

impl Verdict {
    /// Exit code of a command that judges: 0 kept, 5 missed, 6 cannot tell.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Kept => 0,
            Verdict::Missed => 5,
            Verdict::CannotTell => 6,
        }
    }

    /// In words: `promise kept`, `promise missed`, `cannot tell`.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Kept => "promise kept",
            Verdict::Missed => "promise missed",
            Verdict::CannotTell => "cannot tell",
        }
    }

    /// One column wide: ✓, ✗ or ?.
    pub fn mark(self) -> char {
        match self {
            Verdict::Kept => '✓',
            Verdict::Missed => '✗',
            Verdict::CannotTell => '?',
        }
    }

    /// Where `distance` lies against `limit`, as far as its interval tells.
    pub(crate) fn of(distance: Estimate, limit: f64) -> Verdict {
        if distance.high <= limit {
            Verdict::Kept
        } else if distance.low > limit {
            Verdict::Missed
        } else {
            Verdict::CannotTell
        }
    }
}
