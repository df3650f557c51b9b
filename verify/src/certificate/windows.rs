//! Servers of one core under EDF, a deferrable one among them: no window asks for more than its length.
//!
//! A server misses only at the end of a window of at least one period in which more than its length is asked for. In one of
//! length t, of which each server's grid may be anywhere, that is at most
//!
//! - ⌊t/P⌋·B of each that is no constant_bandwidth server;
//! - t·B/P of each that is one, as it renews its budget as soon as its bandwidth allows;
//! - and of each deferrable one what it has left of an older budget: up to B, but only until that is replaced, t mod P after
//!   the window begins; what all of them use by then is not more than the time until then.

use super::broken::Broken;
use super::exact::{of, whole, Exact};
use giusto_model::Server;

/// Stretches that take some seconds.
const MOST_STRETCHES: u32 = 1_000_000;

/// Walks down from the longest window that could ask for too much. What is asked for never falls with t: if it is d < t for t,
/// no window from d to t asks for more than its length.
pub(super) fn check(here: &[Server]) -> Result<(), Broken> {
    if !here.iter().any(|entry| entry.kind.renewal().keeps_budget()) {
        return Ok(());
    }
    let least = here.iter().map(|entry| entry.period.ns()).min().unwrap_or(0);
    let mut t = longest(here)?;
    for _ in 0..MOST_STRETCHES {
        if t < least {
            return Ok(());
        }
        // From the last end of a period on nothing is added at once.
        let begin = steps(here).map(|(_, period)| t / period * period).fold(least, u64::max);
        let (all, room) = left(here, begin);
        // Until all of it is usable it grows as t does, then slower; so it is most above t there.
        let worst = u64::try_from(all.saturating_sub(room)).map_or(t, |more| begin.saturating_add(more).min(t));
        let asked = asked(here, worst);
        if asked > u128::from(worst) {
            let needed = format!("at most {worst} ns asked for");
            return Err(Broken::new("room in every window", needed, format!("{asked} ns")).at(worst));
        }
        t = begin - 1;
        t = u64::try_from(self::asked(here, t)).map_or(t, |asked| asked.min(t));
    }
    Err(Broken::new("stretches to look at", format!("at most {MOST_STRETCHES}"), "more"))
}

/// Σ B(1 − B/P) of the deferrable ones over 1 − Σ B/P: beyond, more than t cannot be asked for.
fn longest(here: &[Server]) -> Result<u64, Broken> {
    let one = whole(1);
    let share = |entry: &Server| of(entry.budget, entry.period).unwrap_or_else(|| whole(1));
    let sum: Exact = here.iter().map(share).sum();
    if sum >= one {
        return Err(Broken::new("a core of which something is left", "less than 1", sum));
    }
    let deferrable = here.iter().filter(|entry| entry.kind.renewal().keeps_budget());
    let kept: Exact = deferrable.map(|entry| whole(entry.budget.ns().into()) * (one.clone() - share(entry))).sum();
    let bound = (kept / (one - sum)).ceil().to_integer();
    u64::try_from(bound).map_err(|_| Broken::new("windows to look at", "at most 584 years", "longer ones"))
}

/// B and P of all that get their budgets at once.
fn steps<'a>(here: &'a [Server]) -> impl Iterator<Item = (u64, u64)> + 'a {
    let at_once = here.iter().filter(|entry| entry.kind.renewal().steps());
    at_once.map(|entry| (entry.budget.ns(), entry.period.ns()))
}

/// In whole ns.
fn asked(here: &[Server], t: u64) -> u128 {
    let whole_budgets: u128 = steps(here).map(|(budget, period)| u128::from(t / period) * u128::from(budget)).sum();
    let renewed = here.iter().filter(|entry| !entry.kind.renewal().steps());
    let renewed: Exact = renewed.filter_map(|entry| of(entry.budget, entry.period)).sum();
    let renewed = (renewed * whole(t.into())).floor().to_integer();
    let (all, room) = left(here, t);
    // It is less than t.
    whole_budgets + all.min(room) + u128::try_from(renewed).unwrap_or(u128::MAX / 2)
}

/// Of older budgets: all, and as much as there is time for. All that is replaced by y is used within y: the rest of them, those
/// replaced later, whole.
fn left(here: &[Server], t: u64) -> (u128, u128) {
    let deferrable = here.iter().filter(|entry| entry.kind.renewal().keeps_budget());
    let older: Vec<(u64, u128)> = deferrable.map(|entry| (t % entry.period.ns(), entry.budget.ns().into())).collect();
    let later = |until: u64| older.iter().filter(|(replaced, _)| *replaced > until).map(|(_, b)| b).sum::<u128>();
    let room = older.iter().map(|&(until, _)| u128::from(until) + later(until)).min().unwrap_or(0);
    (older.iter().map(|(_, budget)| budget).sum(), room)
}
