//! When a ZooKeeper leader that is stopped or cut off is missed, and that none is missed for nothing.
//!
//! A leader sends each follower a word every half tick, which is answered at once. A follower that hears nothing for S =
//! syncLimit ticks looks for another leader; Giusto's leader steps down where no quorum has answered a word that is younger
//! than A. ZooKeeper counts whole milliseconds: g = 1 ms. A thread that is due runs up to L late, a message takes up to d.
//!
//! **Nothing is lost.** Words are sent at most h = tick/2 + g + L apart. One is on its way after another thread's L, within d,
//! so that a follower has the next one h + L + d after it sent for the last one, or later: silence is shorter than
//! h + L + d. The follower runs, its answer is on its way and is read by another thread, so that the answer to the next word
//! is there h + 3 L + 2 d after the last word was sent: no leader steps down where
//!
//!   A > tick/2 + g + 4 L + 2 d.
//!
//! A leader also closes a follower that has not acknowledged a write for S. Its disk may just have begun to force another one:
//! S > g + 3 L + 2 d + 2 b. So nothing is suspected while no thread is later than L, no message than d and no write than b.
//! Where only one is late at a time, it may be so by what the others leave: A − h, which is more than 3 L.
//!
//! **The leader knows first.** A follower that answered a word that was sent at s has begun to count after s, so that it leaves
//! after s + S. The leader sees at s + A + L, with nothing known of d, that it has no quorum of such followers any more; and
//! without one of them no other can be elected. A + L + 2 g = S: the second g is for clocks that run apart.
//!
//! **The leader is lost** at 0. Its last word is handled by d + L, and the last follower has left by D = d + L + S + L. The
//! first may have left j' = tick/2 + g + 4 L + d before, as one thread had sent its word and another had not. Then they elect
//! another as after the death of a process, but that all know: T' = D + s_e + (2 d + w + h n(n+1)) + R. Where more servers are
//! left than a quorum, those that left first must wait for the last one's vote: w > j' + d.
//!
//! `analysis/tests/silence.rs` plays ensembles against all of this.

use crate::recovery::Bound;
use crate::Error;
use giusto_model::{Duration, RecoveryTimes};

/// g: what ZooKeeper's clock counts.
pub const GRAIN: Duration = Duration::from_ms(1);

/// An ensemble of Giusto's ZooKeeper servers with one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// L: by how much a thread that is due runs late.
    pub latency: Duration,
    /// d.
    pub delay: Duration,
    /// b.
    pub write: Duration,
    /// `tickTime`, an even number of milliseconds.
    pub tick: Duration,
}

/// What a silence means for both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// `syncLimit`.
    pub sync_limit: u32,
    /// S: after so long without a word a follower leaves.
    pub silence: Duration,
    /// A: a leader steps down where no quorum has answered for so long.
    pub step_down: Duration,
    /// D: all followers have left a leader that was lost at 0.
    pub noticed: Duration,
    /// j': how far apart they leave.
    pub apart: Duration,
    /// How late one thread or message may be at a time without being missed.
    pub stall: Duration,
}

impl Silence {
    /// The shortest that nothing is suspected with. O(1).
    ///
    /// # Errors
    /// [`Error::Recovery`] beyond 584 years, or 4 billion ticks.
    pub fn shortest(&self) -> Result<Patience, Error> {
        let Silence { latency, delay, write, tick } = *self;
        let half = Duration::from_ns(tick.ns() / 2);
        let answered = sum(&[(half, 1), (GRAIN, 1), (latency, 4), (delay, 2)])?;
        let margin = self.margin()?;
        let acknowledged = sum(&[(GRAIN, 1), (latency, 3), (delay, 2), (write, 2)])?;
        let least = sum(&[(answered, 1), (margin, 1)])?.max(acknowledged);
        let limit = least.ns().checked_div(tick.ns()).ok_or(Error::Recovery)? + 1;
        let sync_limit = u32::try_from(limit).map_err(|_| Error::Recovery)?;
        let silence = tick.checked_mul(limit).ok_or(Error::Recovery)?;
        let step_down = silence.checked_sub(margin).ok_or(Error::Recovery)?;
        let noticed = sum(&[(silence, 1), (delay, 1), (latency, 2)])?;
        let apart = sum(&[(half, 1), (GRAIN, 1), (latency, 4), (delay, 1)])?;
        let usual = sum(&[(half, 1), (GRAIN, 1)])?;
        let stall = step_down.checked_sub(usual).ok_or(Error::Recovery)?;
        Ok(Patience { sync_limit, silence, step_down, noticed, apart, stall })
    }

    /// S − A: what a leader needs to see that it is alone, before the first follower leaves.
    fn margin(&self) -> Result<Duration, Error> {
        sum(&[(self.latency, 1), (GRAIN, 2)])
    }
}

impl Patience {
    /// T': from the loss of the leader to another that serves, where `bound` is that of the death of its process.
    ///
    /// # Errors
    /// As above.
    pub fn machine_loss(&self, times: &RecoveryTimes, bound: &Bound) -> Result<Duration, Error> {
        let known = sum(&[(bound.notice, 1), (times.jitter, 1)])?;
        let rest = bound.total.checked_sub(known).ok_or(Error::Recovery)?;
        sum(&[(self.noticed, 1), (rest, 1)])
    }

    /// What a wait for votes must be longer than, where more servers are left than a quorum.
    ///
    /// # Errors
    /// As above.
    pub fn spread(&self, delay: Duration) -> Result<Duration, Error> {
        sum(&[(self.apart, 1), (delay, 1)])
    }
}

/// Σ times · count.
fn sum(parts: &[(Duration, u64)]) -> Result<Duration, Error> {
    let add = |sum: Duration, (time, count): &(Duration, u64)| sum.checked_add(time.checked_mul(*count)?);
    parts.iter().try_fold(Duration::ZERO, add).ok_or(Error::Recovery)
}
