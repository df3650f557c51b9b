//! Response times under fixed priorities on several cores that all servers share.

use super::refused::Interference;
use crate::Error;
use giusto_model::{Duration, Server};

/// Steps of one response time; a second or so.
const MOST_STEPS: u32 = 1_000_000;

/// A bound on the response time of each server, all on a grid, the first above all others; or the first without one.
///
/// Take a period of server k throughout which it has work, and let t₀ be the earliest instant from which to its beginning all
/// cores were busy with servers above. As long as k lacks some of its budget x after t₀, all cores were so for x − B + 1 ns at
/// least, in which server i ran min(W_i(x), x − B + 1) at most. So the least x with B + ⌊Σ min(W_i(x), x − B + 1)/m⌋ ≤ x is
/// enough. With R the bound for server i, which is above:
///
/// - N(x) = ⌊x/P⌋·B + min(B, x mod P), where no period of i that began before t₀ has budget left;
/// - C(x) = min(B, x) + N(x − B − P + R), where one has: it is used up by R after its beginning. Just before t₀ a core was not
///   busy with servers above k, and an idle periodic_* one with budget burns on a core of its own as if it ran; so that is
///   true of m − 1 of them at most, those where it makes the greatest difference;
/// - min(B, x) + N(x − B) for a deferrable one, always: it may keep a budget until its period ends, and needs no core for that.
///
/// Guan, Stigge, Yi and Yu 2009, § IV, with B in place of B − 1; Bertogna and Cirinei 2007, Theorem 5, for C(x).
pub(super) fn responses(servers: &[Server], cores: u32) -> Result<Result<Vec<Duration>, Interference>, Error> {
    let mut above: Vec<Above> = Vec::with_capacity(servers.len());
    let mut responses = Vec::with_capacity(servers.len());
    for (index, server) in servers.iter().enumerate() {
        let (budget, period) = (server.budget.ns(), server.period.ns());
        let others = |x: u64| interference(&above, cores, x, x - budget + 1);
        let (mut at, mut left) = (budget, MOST_STEPS);
        loop {
            let next = u128::from(budget) + others(at) / u128::from(cores);
            if next <= u128::from(at) {
                break;
            }
            match u64::try_from(next).ok().filter(|next| *next <= period) {
                Some(next) => at = next,
                // What others run never falls with x, so in a whole period it is too much as well.
                None => return Interference::of(*server, index, cores, others(period)).map(Err),
            }
            left = left.checked_sub(1).ok_or(Error::Steps)?;
        }
        let keeps = server.kind.renewal().keeps_budget();
        above.push(Above { budget, period, latest: if keeps { period } else { at }, keeps });
        responses.push(Duration::from_ns(at));
    }
    Ok(Ok(responses))
}

/// A server whose response is known.
struct Above {
    budget: u64,
    period: u64,
    /// The latest that its budget is used after its period began.
    latest: u64,
    keeps: bool,
}

impl Above {
    /// N(x)
    fn anew(&self, x: u64) -> u128 {
        u128::from(x / self.period) * u128::from(self.budget) + u128::from(self.budget.min(x % self.period))
    }

    /// C(x), with R the latest.
    fn with_rest(&self, x: u64) -> u128 {
        let again = u128::from(self.budget) + u128::from(self.period - self.latest);
        let rest = u128::from(x).checked_sub(again).map_or(0, |rest| self.anew(rest as u64)); // at most x
        u128::from(self.budget.min(x)) + rest
    }
}

/// Σ min(W_i(x), `most`).
fn interference(above: &[Above], cores: u32, x: u64, most: u64) -> u128 {
    let most = u128::from(most);
    let mut sum = 0;
    let mut more = Vec::with_capacity(above.len());
    for server in above {
        let (anew, with_rest) = (server.anew(x).min(most), server.with_rest(x).min(most));
        match server.keeps {
            true => sum += with_rest,
            false => {
                sum += anew;
                more.push(with_rest.saturating_sub(anew));
            }
        }
    }
    more.sort_unstable_by_key(|more| std::cmp::Reverse(*more));
    sum + more.iter().take(cores as usize - 1).sum::<u128>()
}
