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
        let (mut at, mut left) = (budget, MOST_STEPS);
        loop {
            let rise = interference(&above, cores, at, budget);
            // B + ⌊sum/m⌋ ≤ x is the same as sum < m (x − B + 1).
            let room = u128::from(cores) * u128::from(at - budget + 1);
            if rise.sum < room {
                break;
            }
            // So far nothing is enough, as long as the sum rises no slower than now.
            let gain = u128::from(cores).saturating_sub(rise.slope);
            let enough = (rise.sum - room + 1).div_ceil(gain.max(1));
            let step = if gain == 0 { rise.until } else { enough.min(rise.until) };
            // Nor is anything below what is asked for here, as the sum never falls: far away that is the longer step.
            let next = (u128::from(at) + step).max(u128::from(budget) + rise.sum / u128::from(cores));
            match u64::try_from(next).ok().filter(|next| *next <= period) {
                Some(next) => at = next,
                // What others run never falls with x, so in a whole period it is too much as well.
                None => {
                    let all = interference(&above, cores, period, budget).sum;
                    return Interference::of(*server, index, cores, all).map(Err);
                }
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

/// A sum at x, and at least how it rises from there: by `slope` a ns for `until` ns.
struct Rise {
    sum: u128,
    slope: u128,
    until: u128,
}

/// A piece of W(x): its value, its slope, 0 or 1, and for how long it has that.
#[derive(Clone, Copy)]
struct Piece {
    work: u128,
    slope: i128,
    until: u128,
}

impl Piece {
    /// min(W(x), x − B + 1), the latter `most` at x.
    fn at_most(self, most: u128) -> Piece {
        match self.work <= most {
            true => self, // it rises no faster
            false if self.slope == 0 => Piece { work: most, slope: 1, until: self.until.min(self.work - most) },
            false => Piece { work: most, slope: 1, until: self.until },
        }
    }
}

impl Above {
    /// N(x)
    fn anew(&self, x: u64) -> Piece {
        let (periods, rest) = (x / self.period, x % self.period);
        let work = u128::from(periods) * u128::from(self.budget) + u128::from(self.budget.min(rest));
        match rest < self.budget {
            true => Piece { work, slope: 1, until: (self.budget - rest).into() },
            false => Piece { work, slope: 0, until: (self.period - rest).into() },
        }
    }

    /// C(x), with R the latest.
    fn with_rest(&self, x: u64) -> Piece {
        let again = u128::from(self.budget) + u128::from(self.period - self.latest);
        let (budget, at) = (u128::from(self.budget), u128::from(x));
        if at < budget {
            return Piece { work: at, slope: 1, until: budget - at };
        }
        match at.checked_sub(again) {
            None => Piece { work: budget, slope: 0, until: again - at },
            Some(rest) => {
                let anew = self.anew(rest as u64); // at most x
                Piece { work: budget + anew.work, ..anew }
            }
        }
    }
}

/// Σ min(W_i(x), x − B + 1).
fn interference(above: &[Above], cores: u32, x: u64, budget: u64) -> Rise {
    let most = u128::from(x - budget + 1);
    let (mut sum, mut slope, mut until) = (0, 0, u128::MAX);
    let mut more = Vec::with_capacity(above.len());
    for server in above {
        let (anew, with_rest) = (server.anew(x).at_most(most), server.with_rest(x).at_most(most));
        until = until.min(with_rest.until).min(if server.keeps { u128::MAX } else { anew.until });
        let own = if server.keeps { with_rest } else { anew };
        (sum, slope) = (sum + own.work, slope + own.slope);
        if !server.keeps && with_rest.work > anew.work {
            more.push((with_rest.work - anew.work, with_rest.slope - anew.slope));
        }
    }
    // Which of them count may change on the way, and who adds nothing now may add something: that only makes the sum larger.
    more.sort_unstable_by_key(|(work, _)| std::cmp::Reverse(*work));
    for (work, own) in more.into_iter().take(cores as usize - 1) {
        (sum, slope) = (sum + work, slope + own);
    }
    Rise { sum, slope: u128::try_from(slope).unwrap_or(0), until }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServerKind;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// The least x up to the period with B + ⌊sum/m⌋ ≤ x, tried one after the other.
    fn walked(servers: &[Server], cores: u32) -> Option<Vec<u64>> {
        let mut above = Vec::new();
        for server in servers {
            let (budget, period) = (server.budget.ns(), server.period.ns());
            let enough = |x: &u64| {
                let sum = interference(&above, cores, *x, budget).sum;
                u128::from(budget) + sum / u128::from(cores) <= u128::from(*x)
            };
            let at = (budget..=period).find(enough)?;
            let keeps = server.kind.renewal().keeps_budget();
            above.push(Above { budget, period, latest: if keeps { period } else { at }, keeps });
        }
        Some(
            above
                .iter()
                .zip(servers)
                .map(|(one, server)| if one.keeps { 0 } else { one.latest.min(server.period.ns()) })
                .collect(),
        )
    }

    #[test]
    fn jumps_end_where_steps_of_a_ns_do() {
        let mut rng = StdRng::seed_from_u64(28);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let cores = rng.random_range(1..=4);
            let server = |rng: &mut StdRng| {
                let period = rng.random_range(2..=40);
                let budget = rng.random_range(1..=period.min(12));
                let kind = if rng.random_bool(0.2) { ServerKind::Deferrable } else { ServerKind::Polling };
                Server { kind, budget: Duration::from_ns(budget), period: Duration::from_ns(period) }
            };
            let servers: Vec<Server> = (0..rng.random_range(1..=7)).map(|_| server(&mut rng)).collect();
            let found = responses(&servers, cores).unwrap().ok();
            let own = |at: (Duration, &Server)| if at.1.kind.renewal().keeps_budget() { 0 } else { at.0.ns() };
            let found = found.map(|all| all.into_iter().zip(&servers).map(own).collect::<Vec<_>>());
            assert_eq!(found, walked(&servers, cores), "{cores} {servers:?}");
            *(if found.is_some() { &mut accepted } else { &mut refused }) += 1;
        }
        assert!(accepted > 4_000 && refused > 4_000, "{accepted} {refused}");
    }

    #[test]
    fn a_response_is_found_in_few_steps_whatever_the_unit() {
        let server = |budget, period| Server {
            kind: ServerKind::Polling,
            budget: Duration::from_ms(budget),
            period: Duration::from_ms(period),
        };
        let found = responses(&[server(2, 5), server(3, 8), server(4, 12)], 2).unwrap().unwrap();
        // 2 and 3 ms above it leave half of each ns from the first on, until one has used its budget.
        assert!(found[2] > Duration::from_ms(4) && found[2] < Duration::from_ms(12), "{found:?}");
    }
}
