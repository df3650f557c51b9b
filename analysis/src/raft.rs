//! How long an ensemble of etcd servers is without a leader, whatever the leader was lost to, and how rarely they look for
//! another one for nothing.
//!
//! Raft as etcd has it, with CheckQuorum (always) and PreVote (`--pre-vote`). A server counts ticks of H. A leader sends at
//! each; a follower that counts R of them without a word campaigns, with R drawn from e..2e for each term, where E = eH; until
//! it has counted e it ignores who campaigns (its *lease*). A message is sent, on its way and handled within m = d + L. To
//! count k ticks takes at least (k − 1)H − L, and at most kH + s, where s = L + b: a server runs late, or its loop forces a
//! write.
//!
//! **Nothing is lost.** Words of the leader are handled at most g = H + s + m apart, in which a follower counts ⌊(g + L)/H⌋ + 1
//! ticks at most, fewer than e where (e − 2)H > s + m + L ([`Raft::steady`]).
//!
//! **The leader is lost** at 0: killed, stopped or cut, which is all the same to etcd, as it never looks at closed connections.
//!
//! * Each of the n servers left has handled the last word by m, so that all leases are over by Q = m + eH + s. Of those with
//!   the longest log let X have handled its last word at τ ≥ −(H + s). It campaigns at A ≤ m + (2e − 1)H + s, and no server
//!   left rejects it. Only where A < Q may some ignore it. Then it campaigns again R ticks later, R H ≤ A − τ + H + L, so by C
//!   = 2Q + 2H + 2s + L = 2(e + 1)H + 2m + 4s + L, when no lease is left ([`RaftBound::campaign`]).
//! * Votes are asked for and given twice, the second time with a forced write of the candidate and of its voters: V = 4m + 2b.
//! * The election is *split* where another server becomes a candidate before it hears of this one. That campaigns less than w
//!   later: w = 3d + b until all have heard, and where a quorum is all that are left, n ≤ 3, w = 2d until this one, a candidate
//!   itself by then, says no. Both wait anew, and so do those that voted: again (2e − 1)H + s + V.
//! * The leader serves when an entry of its term is with a quorum: 2m + b. So with r elections, the last not split,
//!   T = C + V + (r − 1)((2e − 1)H + s + V) + 2m + b.
//!
//! **How rare a split is.** Two servers campaign within w of each other for at most D = ⌊2w/H⌋ + 1 differences of what they
//! drew, each of which has a probability of at most e/e². The others draw no less than the earlier of both: over all pairs p ≤
//! n(n−1)/2 · D/e² · Σ_{j=1..e} (j/e)^{n−2} ([`Raft::split_ppm`]), and r − 1 splits in a row have p^{r−1}. w has no L: a server
//! that runs late is rare itself. `analysis/tests/raft.rs` plays elections by etcd's rules against all of this.

use crate::Error;
use giusto_model::{Duration, EtcdTimes};

/// etcd takes no election timeout below so many heartbeats.
pub const FEWEST_TICKS: u64 = 5;

/// An ensemble of etcd servers whose leader is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raft {
    /// L, d and b.
    pub times: EtcdTimes,
    /// H: `heartbeat-interval`.
    pub heartbeat: Duration,
    /// e: `election-timeout` in heartbeats.
    pub ticks: u64,
    /// n: servers left, at least 2.
    pub left: u64,
}

/// The longest recovery, and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftBound {
    /// C: until a server campaigns that no other ignores or rejects.
    pub campaign: Duration,
    /// V: until it leads.
    pub votes: Duration,
    /// What each election that is split adds.
    pub again: Duration,
    /// Until an entry of the new leader is with a quorum.
    pub serve: Duration,
    /// T.
    pub total: Duration,
    /// T + 4m + b: until a write is acknowledged that a client has sent to whatever server.
    pub first_write: Duration,
}

impl Raft {
    /// E.
    ///
    /// # Errors
    /// [`Error::Recovery`] beyond 584 years, here and below.
    pub fn election(&self) -> Result<Duration, Error> {
        self.heartbeat.checked_mul(self.ticks).ok_or(Error::Recovery)
    }

    /// Whether no server looks for another leader while the leader is there and all is as late as `times` say.
    ///
    /// # Errors
    /// As above.
    pub fn steady(&self) -> Result<bool, Error> {
        let least = sum(&[(self.stall()?, 1), (self.message()?, 1), (self.times.latency, 1)])?;
        Ok(sum(&[(self.heartbeat, self.ticks.saturating_sub(2))])? > least)
    }

    /// p in millionths, rounded up; 1,000,000 where nothing better is known. O(e).
    pub fn split_ppm(&self) -> u64 {
        const ALL: u128 = 1_000_000;
        let some = || {
            let (e, n) = (u128::from(self.ticks), u32::try_from(self.left).ok()?);
            let EtcdTimes { delay, write, .. } = self.times;
            let (delay, write) = (u128::from(delay.ns()), u128::from(write.ns()));
            let near = 2 * if n <= 3 { 2 * delay } else { 3 * delay + write };
            let differences = near / u128::from(self.heartbeat.ns()).max(1) + 1;
            let powers = (1..=e).try_fold(0u128, |sum, j| sum.checked_add(j.checked_pow(n.checked_sub(2)?)?))?;
            let pairs = u128::from(n) * u128::from(n - 1) / 2;
            let ways = pairs.checked_mul(differences)?.checked_mul(powers)?.checked_mul(ALL)?;
            Some(ways.div_ceil(e.checked_pow(n)?.max(1)).min(ALL))
        };
        u64::try_from(some().unwrap_or(ALL)).unwrap_or(u64::MAX)
    }

    /// r, the fewest elections of which more are needed in at most `ppm` of a million recoveries, and in how many. `None`:
    /// there is no such number below 64.
    pub fn rounds(&self, ppm: u64) -> Option<(u32, u64)> {
        let split = self.split_ppm();
        let powers = std::iter::successors(Some(split), |left| Some((left * split).div_ceil(1_000_000)));
        (1..64).zip(powers).find(|(_, left)| *left <= ppm)
    }

    /// T with `rounds` elections, at least 1. O(1).
    ///
    /// # Errors
    /// As above.
    pub fn bound(&self, rounds: u32) -> Result<RaftBound, Error> {
        let (m, s) = (self.message()?, self.stall()?);
        let Raft { times: EtcdTimes { latency, write, .. }, heartbeat, ticks, .. } = *self;
        let most = ticks.checked_mul(2).ok_or(Error::Recovery)?;
        let longer = most.checked_add(2).ok_or(Error::Recovery)?;
        let campaign = sum(&[(heartbeat, longer), (m, 2), (s, 4), (latency, 1)])?;
        let votes = sum(&[(m, 4), (write, 2)])?;
        let again = sum(&[(heartbeat, most.saturating_sub(1)), (s, 1), (votes, 1)])?;
        let serve = sum(&[(m, 2), (write, 1)])?;
        let more = u64::from(rounds.saturating_sub(1));
        let total = sum(&[(campaign, 1), (votes, 1), (again, more), (serve, 1)])?;
        let first_write = sum(&[(total, 1), (m, 4), (write, 1)])?;
        Ok(RaftBound { campaign, votes, again, serve, total, first_write })
    }

    /// m = d + L.
    fn message(&self) -> Result<Duration, Error> {
        sum(&[(self.times.delay, 1), (self.times.latency, 1)])
    }

    /// s = L + b.
    fn stall(&self) -> Result<Duration, Error> {
        sum(&[(self.times.latency, 1), (self.times.write, 1)])
    }
}

/// Σ times · count.
fn sum(parts: &[(Duration, u64)]) -> Result<Duration, Error> {
    let add = |sum: Duration, (time, count): &(Duration, u64)| sum.checked_add(time.checked_mul(*count)?);
    parts.iter().try_fold(Duration::ZERO, add).ok_or(Error::Recovery)
}
