//! Windows that end with a deadline, under EDF.

use super::refused::Window;
use super::servers::{length, sum};
use crate::gallop::first;
use crate::Error;
use giusto_model::{Bandwidth, Duration, Server};

/// Steps from the shortest window on, which find the shortest in which too much is asked for; some hundredths of a second.
const FIRST_STEPS: u32 = 10_000;

/// What servers can ask for, at most, in a window of length t that ends with a deadline, in whole ns.
///
/// The window begins where nothing that is due in it was left to do; so what it holds is
///
/// - periodic, polling, sporadic: ⌊t/P⌋·B;
/// - constant_bandwidth: t·B/P. It renews its budget as soon as its bandwidth allows, so that ⌊t/P⌋·B would be too little:
///   beside a deferrable (2, 7) a constant_bandwidth (4, 6) misses, though t = 6, 7, 8, … all have room for ⌊t/6⌋·4;
/// - deferrable: ⌊t/P⌋·B, and before that of the budget in which the window begins what can be used of it until it is
///   replaced, at x = t mod P: c ≤ B. As what is not used by then is lost, all those with an x up to y have Σ c ≤ y. The
///   most of Σ c under these bounds is found in the order of x. (Ghazalie and Baker's min(B, x) each counts time twice: then
///   two of (2, 4) would be refused, which never miss whatever their phases. With one deferrable server both are the same.)
///
/// A sporadic server joins parts of its budget that are due soon, and so can use one up to δ early, where δ is less than what
/// it has used since: its demand in t is at most ⌊(t + δ)/P⌋·B − δ for some δ ≥ 0. That is no more of a miss, for what holds
/// at t + δ holds at t.
pub struct Demand<'a> {
    servers: &'a [Server],
    /// Σ B/P of the constant_bandwidth ones.
    steady: Bandwidth,
}

impl<'a> Demand<'a> {
    /// Of servers with 0 < B ≤ P. Errors: an exact sum of more than 64 bits.
    pub fn new(servers: &'a [Server]) -> Result<Self, Error> {
        let steady = sum(servers.iter().filter(|server| !server.kind.renewal().steps()))?;
        Ok(Demand { servers, steady })
    }

    /// In a window of length `t`, in ns. Never falls with t. O(n log n).
    pub fn at(&self, t: Duration) -> u128 {
        let whole = self.stepping().map(|(budget, period)| t.ns() / period * budget);
        let steady = u128::from(t.ns()) * u128::from(self.steady.numer()) / u128::from(self.steady.denom());
        let (waiting, room) = self.kept(t.ns());
        whole.map(u128::from).sum::<u128>() + steady + waiting.min(room)
    }

    /// (B, P) of all that have steps at multiples of P.
    fn stepping(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let stepping = self.servers.iter().filter(|server| server.kind.renewal().steps());
        stepping.map(|server| (server.budget.ns(), server.period.ns()))
    }

    /// Of the budgets in which a window of length t begins: all of them, and the most that can be used of them before each
    /// is replaced if there were always enough. The lesser is what can be used.
    fn kept(&self, t: u64) -> (u128, u128) {
        let deferrable = self.servers.iter().filter(|server| server.kind.renewal().keeps_budget());
        let mut kept: Vec<(u64, u64)> = deferrable.map(|server| (t % server.period.ns(), server.budget.ns())).collect();
        kept.sort_unstable();
        let most = |room: u128, &(until, budget): &(u64, u64)| (room + u128::from(budget)).min(until.into());
        let room = kept.split_first().map_or(0, |(first, rest)| rest.iter().fold(first.0.into(), most));
        (kept.iter().map(|&(_, budget)| u128::from(budget)).sum(), room)
    }

    /// The last multiple of a period up to `t`, but not before `least`.
    fn step_until(&self, t: u64, least: u64) -> u64 {
        self.stepping().map(|(_, period)| t / period * period).fold(least, u64::max)
    }

    /// The last instant before the first multiple of a period after `t`.
    fn until_step(&self, t: u64) -> u64 {
        self.stepping().map(|(_, period)| (t / period).saturating_add(1).saturating_mul(period) - 1).min().unwrap_or(t)
    }

    /// Where demand is most above t, from `begin` to `last` without a step between: what is kept grows with t until it is
    /// all; from then on only the constant_bandwidth ones ask for more, and not more than t.
    fn most_above(&self, begin: u64, last: u64) -> u64 {
        let (waiting, room) = self.kept(begin);
        let more = u64::try_from(waiting.saturating_sub(room)).unwrap_or(u64::MAX);
        begin.saturating_add(more).min(last)
    }
}

/// Whether no window asks for more than its length, from the shortest period on: `Ok(Ok(bound))`, or a stretch of windows in
/// which one does, the shortest unless that is far away. Without a deferrable server the sum of bandwidths is the whole test.
///
/// A server misses at the end e of a window in which it had work throughout a period, so shorter windows than the shortest
/// period do not count. From one stretch without steps to the next; stretches in which less is asked for than was there
/// before them are passed over. What is left then is decided from the longest window down (QPA, Zhang and Burns 2009): where
/// demand(t) ≤ t, no window between both asks for too much, since demand never falls. That takes one demand a step.
pub(super) fn windows(
    servers: &[Server],
    bandwidth: Bandwidth,
    left: &mut u64,
) -> Result<Result<Option<Duration>, Window>, Error> {
    windows_after(servers, bandwidth, FIRST_STEPS, left)
}

/// The same with so many steps from the shortest window on.
fn windows_after(
    servers: &[Server],
    bandwidth: Bandwidth,
    steps: u32,
    left: &mut u64,
) -> Result<Result<Option<Duration>, Window>, Error> {
    if servers.iter().all(|server| !server.kind.renewal().keeps_budget()) {
        return Ok(Ok(None));
    }
    let demand = Demand::new(servers)?;
    let least = servers.iter().map(|server| server.period.ns()).min().unwrap_or(0);
    let last = bound(servers, bandwidth, least).ok_or(Error::Steps)?;
    let fits = Ok(Ok(Some(Duration::from_ns(last))));
    let asked = |t: u64| demand.at(Duration::from_ns(t));
    let refused = |at: u64, asked: u128| {
        let server = servers.iter().position(|server| server.period.ns() <= at).unwrap_or(0);
        let at = Duration::from_ns(at);
        Ok(Err(Window { server, at, demand: length(asked)?, supply: at }))
    };
    let mut from = least;
    for _ in 0..steps {
        *left = left.checked_sub(1).ok_or(Error::Steps)?;
        let until = demand.until_step(from).min(last);
        let at = demand.most_above(demand.step_until(from, least), until).max(from);
        let most = asked(at);
        if most > u128::from(at) {
            return refused(at, most);
        }
        match first(until, last, |t| asked(t) > u128::from(until)) {
            Some(next) => from = next,
            None => return fits,
        }
    }
    let mut until = last;
    loop {
        *left = left.checked_sub(1).ok_or(Error::Steps)?;
        let begin = demand.step_until(until, from);
        let at = demand.most_above(begin, until);
        let most = asked(at);
        if most > u128::from(at) {
            return refused(at, most);
        }
        // All of the stretch is looked at, and what is longer than its demand at the end.
        let before = begin.min(u64::try_from(asked(until)).unwrap_or(begin));
        match before.checked_sub(1).filter(|before| *before >= from) {
            Some(before) => until = before,
            None => return fits,
        }
    }
}

/// The longest window to look at; `None` if beyond 584 years.
///
/// Demand is at most U·t + Σ B(1 − B/P) over the deferrable ones, which is less than t beyond Σ B(1 − B/P)/(1 − U). And with H
/// the least common multiple of the periods it grows by U·H from t to t + H, so that `least` + H is enough.
fn bound(servers: &[Server], bandwidth: Bandwidth, least: u64) -> Option<u64> {
    let kept = servers.iter().filter(|server| server.kind.renewal().keeps_budget()).map(|server| {
        let (budget, period) = (u128::from(server.budget.ns()), u128::from(server.period.ns()));
        (budget * (period - budget)).div_ceil(period)
    });
    let (top, bottom) = (u128::from(bandwidth.numer()), u128::from(bandwidth.denom()));
    let rest = bottom.checked_sub(top).filter(|rest| *rest > 0);
    let line = rest.and_then(|rest| u64::try_from(kept.sum::<u128>().checked_mul(bottom)? / rest).ok());
    let common = servers.iter().try_fold(1u64, |all, server| {
        (all / num_integer::gcd(all, server.period.ns())).checked_mul(server.period.ns())
    });
    let repeats = common.and_then(|common| common.checked_add(least));
    line.into_iter().chain(repeats).min().map(|bound| bound.max(least))
}

#[cfg(test)]
mod tests {
    use super::super::servers::sum;
    use super::super::MOST_STEPS;
    use super::*;
    use giusto_model::ServerKind::{ConstantBandwidth, Deferrable, Polling};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn from_the_longest_window_down_the_answer_is_the_same() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut fits, mut refused) = (0, 0);
        for _ in 0..3000 {
            let count = rng.random_range(1..=4u64);
            let mut server = |kind| {
                let period = rng.random_range(2..=60u64);
                let budget = rng.random_range(1..=(2 * period).div_ceil(count).min(period));
                Server { kind, budget: Duration::from_ns(budget), period: Duration::from_ns(period) }
            };
            let kinds = [Deferrable, Polling, ConstantBandwidth, Deferrable];
            let servers: Vec<Server> = kinds[..count as usize].iter().map(|kind| server(*kind)).collect();
            let bandwidth = sum(&servers).unwrap();
            if bandwidth > Bandwidth::ONE {
                continue;
            }
            let all = windows_after(&servers, bandwidth, u32::MAX, &mut { u64::MAX }).unwrap();
            for steps in [0, 1, 3] {
                let down = windows_after(&servers, bandwidth, steps, &mut { u64::MAX }).unwrap();
                assert_eq!(down.is_ok(), all.is_ok(), "{servers:?} {steps}: {down:?} {all:?}");
                if let Err(window) = down {
                    let asked = Demand::new(&servers).unwrap().at(window.at);
                    assert!(asked > u128::from(window.at.ns()) && window.demand.ns() as u128 == asked, "{servers:?}");
                }
            }
            *(if all.is_ok() { &mut fits } else { &mut refused }) += 1;
        }
        assert!(fits > 300 && refused > 300, "{fits} {refused}");
    }

    #[test]
    fn a_set_of_a_million_periods_before_its_bound_is_decided() {
        let server = |kind, budget, period| Server {
            kind,
            budget: Duration::from_ns(budget),
            period: Duration::from_ns(period),
        };
        let second = 1_000_000_000;
        let servers = [
            server(Deferrable, 1_000_000, second),
            server(Polling, second - 1_000_002, second),
            server(Polling, 1, second - 63),
        ];
        let found = windows(&servers, sum(&servers).unwrap(), &mut { MOST_STEPS }).unwrap();
        assert!(found.as_ref().is_ok_and(|until| until.unwrap().ns() / second > 900_000), "{found:?}");
    }
}
