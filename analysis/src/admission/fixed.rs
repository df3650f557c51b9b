//! Response times under fixed priorities.

use super::refused::Window;
use super::servers::{length, sum, Grids};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Renewal, Server};

/// The response time of each server, or who can need more than its period; in the steps that are `left`.
pub(super) fn responses(
    servers: &[Server],
    grids: Grids,
    left: &mut u64,
) -> Result<Result<Vec<Duration>, Window>, Error> {
    let mut responses = Vec::with_capacity(servers.len());
    for index in 0..servers.len() {
        let level = Level::new(servers, index, grids)?;
        match level.response(servers[index].period.ns(), left)? {
            Some(response) => responses.push(Duration::from_ns(response)),
            None => {
                let at = servers[index].period;
                return Ok(Err(Window { server: index, at, demand: length(level.demand(at.ns()))?, supply: at }));
            }
        }
    }
    Ok(Ok(responses))
}

/// What one server and those above it ask for in a window of length t that begins when no work of those above is left:
/// B_i + Σ I_j(t), in whole ns, with
///
/// - periodic, polling, sporadic: ⌈t/P_j⌉·B_j;
/// - deferrable: ⌈(t + P_j − B_j)/P_j⌉·B_j, as one budget can be used just before the next comes;
/// - constant_bandwidth: B_j + (t − B_j)·B_j/P_j. All that it used before its last renewal it used at its bandwidth at
///   most, and the last budget takes B_j at least. (2, 8) above (5, 7) misses, although ⌈7/8⌉·2 + 5 ≤ 7: it uses 1, waits
///   for 4 ns, and has 2 anew.
///
/// The deferrable one is ⌈t/P_j⌉·B_j where the window begins with a period of it, so that nothing is kept from before. That
/// can only be counted on where it is so for all those above at once: grids are aligned, this server is on its grid, and
/// every P_j divides its P_i. One that is not so can bring work over from a double budget before: (2, 5) deferrable above
/// sporadic (2, 10) above (4, 10) misses. (Then the windows that begin in the middle of a period of this server are kept too:
/// they end where all begin anew, and so no budget is in them by more than its part.)
struct Level {
    own: u128,
    /// ⌈(t + .2)/.1⌉ · .0
    steps: Vec<(u128, u128, u128)>,
    /// Σ B_j(1 − B_j/P_j), each rounded up.
    at_once: u128,
    /// Σ B_j/P_j
    slope: Bandwidth,
}

impl Level {
    fn new(servers: &[Server], index: usize, grids: Grids) -> Result<Self, Error> {
        let (own, above) = (servers[index], &servers[..index]);
        let divides = |other: &Server| other.kind.renewal().on_grid() && own.period.ns() % other.period.ns() == 0;
        let together = grids == Grids::Aligned && own.kind.renewal().on_grid() && above.iter().all(divides);
        let renews = |server: &&Server| server.kind.renewal() == Renewal::Steady;
        let wide = |server: &Server| (u128::from(server.budget.ns()), u128::from(server.period.ns()));
        let mut level = Level { own: wide(&own).0, steps: Vec::new(), at_once: 0, slope: Bandwidth::ZERO };
        level.slope = sum(above.iter().filter(renews))?;
        for server in above {
            let (budget, period) = wide(server);
            match server.kind.renewal() {
                Renewal::Steady => level.at_once += (budget * (period - budget)).div_ceil(period),
                Renewal::KeptOnGrid if !together => level.steps.push((budget, period, period - budget)),
                Renewal::KeptOnGrid | Renewal::Grid | Renewal::Parts => level.steps.push((budget, period, 0)),
                Renewal::Unlimited => {} // refused before
            }
        }
        Ok(level)
    }

    fn stepped(&self, t: u64) -> u128 {
        let at = |(budget, period, jitter): &(u128, u128, u128)| (u128::from(t) + jitter).div_ceil(*period) * budget;
        self.steps.iter().map(at).sum()
    }

    /// What is asked for in `t`, at least all that is used at once.
    fn demand(&self, t: u64) -> u128 {
        let steady = u128::from(t) * u128::from(self.slope.numer()) / u128::from(self.slope.denom());
        self.own + self.stepped(t) + self.at_once + steady
    }

    /// The least t ≤ `period` with demand(t) ≤ t.
    fn response(&self, period: u64, left: &mut u64) -> Result<Option<u64>, Error> {
        let mut response = 0;
        loop {
            *left = left.checked_sub(1).ok_or(Error::Steps)?;
            let Some(next) = self.settled(self.own + self.stepped(response)).filter(|next| *next <= period) else {
                return Ok(None);
            };
            if next <= response {
                return Ok(Some(response));
            }
            response = next;
        }
    }

    /// The least t with `fixed` + at once + ⌊slope · t⌋ ≤ t.
    fn settled(&self, fixed: u128) -> Option<u64> {
        let (top, bottom) = (u128::from(self.slope.numer()), u128::from(self.slope.denom()));
        let least = fixed + self.at_once;
        if top == 0 {
            return u64::try_from(least).ok();
        }
        // slope · t < t − least + 1
        let rest = bottom.checked_sub(top).filter(|rest| *rest > 0)?;
        u64::try_from((least - 1).checked_mul(bottom)? / rest + 1).ok()
    }
}
