//! Reservations: what grows before the command, what shrinks after the acknowledgement.

use super::member::{Lag, Phase};
use super::Manager;
use crate::admission::Admission;
use crate::event::{Action, Parts, When};
use crate::settings::Transition;
use giusto_model::Instant;

/// A change of a reservation that the machine refuses is asked for so often on the way back.
const TRIES: u32 = 3;

impl<A: Admission> Manager<A> {
    /// Sets what grows; or tells the member at once.
    pub(super) fn start(&mut self, member: usize, now: Instant, out: &mut Vec<Action>) {
        let target = self.target(member);
        if self.members[member].waits_until(now).is_some() {
            return;
        }
        let (up, _) = self.differences(member, target);
        if up.is_empty() {
            return self.command(member, now, out);
        }
        let at = self.free_from(member, up, now);
        if self.places(member, up).into_iter().all(|place| self.passes(place, at, member, up, target)) {
            let set = self.set(member, up, target, at, out);
            self.members[member].phase = Phase::Raising { set, asked: now };
        }
    }

    /// Takes away what the new tasks do not need.
    pub(super) fn lower(&mut self, member: usize, now: Instant, out: &mut Vec<Action>) {
        let target = self.target(member);
        let (_, down) = self.differences(member, target);
        if down.is_empty() {
            return self.settle(member, out);
        }
        if self.members[member].waits_until(now).is_some() {
            return;
        }
        // For what only shrinks this passes always.
        let at = self.free_from(member, down, now);
        let simple = self.only_shrinks(member, target);
        if simple || self.places(member, down).into_iter().all(|place| self.passes(place, at, member, down, target)) {
            let at = if simple { now } else { at };
            let set = self.set(member, down, target, at, out);
            self.members[member].phase = Phase::Lowering { set, asked: now };
        }
    }

    pub(super) fn places(&self, member: usize, parts: Parts) -> Vec<usize> {
        let all = &self.table.members()[member].parts;
        let mut places: Vec<usize> = parts.iter().filter_map(|part| all.get(part).copied()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// When what others give up in these places no longer counts: under guaranteed transitions their zero-lag times.
    pub(super) fn free_from(&self, member: usize, parts: Parts, now: Instant) -> Instant {
        if self.settings.transition == Transition::Fast {
            return now;
        }
        let places = self.places(member, parts).into_iter().flat_map(|place| &self.on[place]);
        let of = |&(other, part): &(usize, usize)| {
            self.members[other].lags.iter().filter(move |lag| lag.part == part).map(|lag| lag.until).max()
        };
        places.filter_map(of).fold(now, Instant::max)
    }

    pub(super) fn set(&mut self, member: usize, parts: Parts, local: usize, at: Instant, out: &mut Vec<Action>) -> u64 {
        self.last_set += 1;
        let when = match self.settings.transition {
            Transition::Fast => When::Now,
            Transition::Guaranteed => When::Replenishment(at),
        };
        let state = &mut self.members[member];
        parts.iter().for_each(|part| state.parts[part].coming = Some(local));
        state.setting = parts;
        out.push(Action::Set { set: self.last_set, member, parts, local, when });
        self.last_set
    }

    /// The answer to a Set: from when on it is in force, or that it failed.
    pub(super) fn set_done(&mut self, set: u64, in_force: Option<Instant>, now: Instant, out: &mut Vec<Action>) {
        let of = |state: &super::State| match state.phase {
            Phase::Raising { set, asked } => Some((set, asked, true)),
            Phase::Lowering { set, asked } => Some((set, asked, false)),
            _ => None,
        };
        let found = self.members.iter().enumerate().find_map(|(member, state)| {
            of(state).filter(|phase| phase.0 == set).map(|(_, asked, up)| (member, asked, up))
        });
        let Some((member, asked, up)) = found else { return };
        let guaranteed = self.settings.transition == Transition::Guaranteed;
        let mut wanted = None;
        for part in self.members[member].setting.iter() {
            let state = &self.members[member].parts[part];
            let (held, coming) = (state.held, state.coming);
            wanted = wanted.or(coming);
            let covered = coming.is_some_and(|coming| {
                crate::covers(self.table.server(member, coming, part), self.table.server(member, held, part))
            });
            let state = &mut self.members[member].parts[part];
            state.coming = None;
            let (Some(coming), Some(at)) = (coming, in_force) else { continue };
            (state.was, state.held) = (held, coming);
            state.from = if guaranteed { at } else { now };
            let from = state.from;
            self.members[member].pending = from;
            if guaranteed && !covered && at > now {
                let lags = &mut self.members[member].lags;
                lags.retain(|lag| lag.until > now);
                lags.push(Lag { part, local: held, until: at });
            }
        }
        let target = self.target(member);
        self.news();
        let Some(at) = in_force else { return self.set_failed(member, up, wanted == Some(target), now, out) };
        let state = &mut self.members[member];
        state.tries = 0;
        if up {
            state.step.raised = Some((asked, now));
        } else {
            state.step.lowered = Some((asked, now));
        }
        if let Some(change) = &mut self.change {
            change.in_force = change.in_force.max(at);
        }
        if wanted != Some(target) {
            // The change has turned meanwhile.
            self.members[member].phase = if self.needs(member, target) { Phase::Waiting } else { Phase::Settled };
        } else if up {
            self.members[member].phase = Phase::Raised { at: if guaranteed { at } else { now } };
        } else {
            self.settle(member, out);
        }
    }

    /// `wanted`: it was for what is wanted still.
    pub(super) fn set_failed(&mut self, member: usize, up: bool, wanted: bool, now: Instant, out: &mut Vec<Action>) {
        let state = &mut self.members[member];
        state.tries += u32::from(wanted);
        state.phase = if up || !wanted { Phase::Waiting } else { Phase::Switched };
        let tries = state.tries;
        let Some(change) = &mut self.change else { return };
        if !change.back {
            change.silent.push(member);
            let from = change.from.clone();
            // Where no order is known, each member that can goes back, and the others are stuck.
            let order = self.order(&from).unwrap_or_else(|_| (0..self.members.len()).rev().collect());
            return self.turn_back(order, now, out);
        }
        if tries >= TRIES {
            change.stuck.push(member);
            self.members[member].phase = Phase::Settled;
        }
    }
}
