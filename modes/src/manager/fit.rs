//! What servers count where, and whether they fit.

use super::Manager;
use crate::admission::Admission;
use crate::event::Parts;
use giusto_model::{Instant, Server};
use std::cmp::Ordering;

impl<A: Admission> Manager<A> {
    /// Whether a place passes at `at` with everything that may count there, and with what these parts of a member would be given.
    pub(super) fn passes(&mut self, place: usize, at: Instant, who: usize, parts: Parts, local: usize) -> bool {
        let Manager { table, members, on, scratch, admission, .. } = self;
        scratch.clear();
        for &(member, part) in &on[place] {
            let (state, of) = (&members[member].parts[part], |local| table.server(member, local, part));
            let given = (member == who && parts.has(part)).then_some(local);
            let lags = members[member].lags.iter().filter(|lag| lag.part == part && lag.until > at);
            let lags = lags.map(|lag| lag.local);
            scratch.add(of(state.held), state.coming.into_iter().chain(given).chain(lags).map(of));
        }
        scratch.every(|servers| admission.fits(place, servers))
    }

    /// Whether a place passes in a plan: `of` says which local modes may count for a member's part there.
    pub(super) fn would_pass(&mut self, place: usize, of: impl Fn(usize, usize) -> [usize; 2]) -> bool {
        let Manager { table, on, scratch, admission, .. } = self;
        scratch.clear();
        for &(member, part) in &on[place] {
            let [first, second] = of(member, part).map(|local| table.server(member, local, part));
            scratch.add(first, std::iter::once(second));
        }
        scratch.every(|servers| admission.fits(place, servers))
    }

    /// The local mode that a part will have when what was asked for is done.
    pub(super) fn effective(&self, member: usize, part: usize) -> usize {
        let part = self.members[member].parts[part];
        part.coming.unwrap_or(part.held)
    }

    /// Whether what is in force covers a local mode.
    pub(super) fn covers_now(&self, member: usize, local: usize, now: Instant) -> bool {
        local < self.table.members()[member].locals.len()
            && self.members[member].parts.iter().enumerate().all(|(nth, part)| {
                let has = if part.from > now { part.was } else { part.held };
                let server = |local| self.table.server(member, local, nth);
                grows(server(has), server(local)) != Ordering::Less
            })
    }

    /// Which parts of a member grow, and which shrink, on the way to a local mode.
    pub(super) fn differences(&self, member: usize, local: usize) -> (Parts, Parts) {
        let (mut up, mut down) = (Parts::default(), Parts::default());
        for part in 0..self.members[member].parts.len() {
            let (now, then) = (self.effective(member, part), local);
            match grows(self.table.server(member, now, part), self.table.server(member, then, part)) {
                Ordering::Less => up.add(part),
                Ordering::Greater => down.add(part),
                Ordering::Equal => {}
            }
        }
        (up, down)
    }
}

/// `Less` if the second needs more: it is set before the command. By bandwidth, then by period (a shorter one is more), then by kind.
fn grows(now: Option<&Server>, then: Option<&Server>) -> Ordering {
    let (Some(now), Some(then)) = (now, then) else { return now.is_some().cmp(&then.is_some()) };
    if now == then {
        return Ordering::Equal;
    }
    let share = |of: &Server, other: &Server| u128::from(of.budget.ns()) * u128::from(other.period.ns());
    let order = share(now, then).cmp(&share(then, now)).then(then.period.cmp(&now.period));
    match order {
        Ordering::Equal if now.kind != then.kind => Ordering::Greater,
        order => order,
    }
}
