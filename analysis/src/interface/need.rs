//! One point: so much is needed in a window of such a length. What it demands of budgets and periods is known in closed form.

use super::server::{Delay, Server};

/// sbf(`at`) ≥ `work` is needed; 0 < work ≤ at < 2^62. Any latency is taken off `at` already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) at: u64,
    pub(super) work: u64,
}

/// The periods and budgets that are searched: p and b quanta.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Length of a quantum.
    pub(super) quantum: u64,
    /// What is lost of each budget.
    pub(super) overhead: u64,
    /// Whether the first gap is that of the general resource (Δ = Π) or none.
    pub(super) general: bool,
}

impl Grid {
    /// The delay of a server with that period.
    pub(super) fn delay(&self, period: u64) -> Delay {
        match self.general {
            true => Delay::Until(period),
            false => Delay::None,
        }
    }

    /// The server of a candidate, without what is lost of its budget.
    pub(super) fn server(&self, candidate: Candidate) -> Server {
        let period = candidate.period * self.quantum;
        let top = u128::from(candidate.budget * self.quantum - self.overhead);
        Server { period, top, bottom: 1, delay: self.delay(period) }
    }

    /// The candidate of a server of this grid.
    pub(super) fn candidate(&self, server: &Server) -> Candidate {
        let budget = (server.top as u64 + self.overhead) / self.quantum;
        Candidate { period: server.period / self.quantum, budget }
    }
}

/// A period and a budget (lost overhead counted), in quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) period: u64,
    pub(super) budget: u64,
}

impl Need {
    /// Whether `server` is enough.
    pub(super) fn met_by(&self, server: &Server) -> bool {
        server.inverse(u128::from(self.work)).is_some_and(|t| t <= self.at)
    }

    /// The least real Θ that is enough, as a fraction (it may be longer than the delay's Δ, which is then too short). O(1).
    ///
    /// sbf⁻¹(w) = (X − cΘ) + j(Π − Θ) + w with j = ⌈w/Θ⌉ (X = Π, c = 1 in general; X = c = 0 without a first gap). So Θ is
    /// enough iff for some j ≥ 1 both Θ ≥ w/j and Θ ≥ (X + jΠ − s)/(j + c), where s = t − w. The first falls with j, the
    /// second rises: the least is on one of both sides of where they cross, the positive root of
    /// Πj² + (X − t)j − cw. A float guesses it; what decides is in integers.
    pub(super) fn least(&self, period: u64, delay: Delay) -> (u128, u128) {
        let (constant, times) = delay.parts();
        // A guess at the root, whose first digits do.
        let over = (self.at as i64 - constant as i64) as f64; // both less than 2^62
        let (late, span) = (self.work as f64 * times as f64, 2.0 * period as f64);
        let root = (over * over + 2.0 * span * late).sqrt();
        let guess = match over > 0.0 {
            true => (over + root) / span,
            false => 2.0 * late / (root - over), // no difference of two like numbers
        };
        let (at, work) = (i128::from(self.at), i128::from(self.work));
        let (period, constant, times) = (i128::from(period), i128::from(constant), i128::from(times));
        let rising = |j: i128| constant + j * period - (at - work);
        let crossed = |j: i128| j * rising(j) >= work * (j + times);
        let mut j = i128::from((guess as u64).clamp(1, 1 << 62));
        while !crossed(j) {
            j += 1;
        }
        while j > 1 && crossed(j - 1) {
            j -= 1;
        }
        let (up, down) = ((rising(j), j + times), (work, j - 1));
        let least = if j > 1 && down.0 * up.1 < up.0 * down.1 { down } else { up };
        (least.0 as u128, least.1 as u128)
    }

    /// Whether no server of this or a longer period is enough with a bandwidth up to `share` (in 2^-digits).
    ///
    /// Where a budget ends, sbf is on the line α(t − Π(1 − α)) (without a first gap: αt), and never above it. The line falls with Π.
    pub(super) fn short(&self, share: u64, digits: u32, period: u64, delay: Delay) -> bool {
        let (one, share) = (1i128 << digits, i128::from(share));
        let gap = if delay == Delay::None { 0 } else { i128::from(period) * (one - share) };
        share * (i128::from(self.at) * one - gap) < (i128::from(self.work) << (2 * digits))
    }

    /// A bandwidth with which it is [`Need::short`], next to the largest. O(1).
    pub(super) fn slope(&self, digits: u32, period: u64, delay: Delay) -> u64 {
        let (at, work) = (self.at as f64, self.work as f64);
        let gap = if delay == Delay::None { 0.0 } else { period as f64 };
        let over = at - gap;
        let root = (over * over + 4.0 * gap * work).sqrt();
        // The positive root of gap·α² + over·α − work, without a difference of two like numbers.
        let guess = if over > 0.0 { 2.0 * work / (root + over) } else { (root - over) / (2.0 * gap) };
        let mut share = ((guess.min(1.0) * (1u64 << digits) as f64) as u64).min(1 << digits);
        // A float is off by a few of its last digits.
        let mut less = 1;
        while !self.short(share, digits, period, delay) {
            (share, less) = (share.saturating_sub(less), 2 * less);
        }
        share
    }

    /// Digits with which all of that fits, for times up to `longest`.
    pub(super) fn digits(longest: u64) -> u32 {
        (124 - (u64::BITS - longest.leading_zeros())) / 2
    }

    /// The least period ≥ `p` quanta with which this can be enough while a period holds back `held` quanta or more of itself:
    /// `p` itself if it can there; `None` if it never can. O(1).
    ///
    /// With the gap g (lost overhead counted) and the largest j with (j + c)g ≤ s, Π − g ≥ w/j is needed. Longer periods hold
    /// back no less, so none before is enough either.
    pub(super) fn next(&self, grid: &Grid, p: u64, held: u64) -> Option<u64> {
        let gap = held * grid.quantum + grid.overhead;
        if gap == 0 {
            return Some(p);
        }
        let budgets = ((self.at - self.work) / gap).checked_sub(u64::from(grid.general)).filter(|j| *j > 0)?;
        let rest = self.work.div_ceil(budgets) + grid.overhead;
        Some(p.max(held + rest.div_ceil(grid.quantum)))
    }
}
