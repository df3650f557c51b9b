//! Commands and what members say to them.

use super::member::Phase;
use super::Manager;
use crate::admission::Admission;
use crate::event::Action;
use crate::message::ToAgent;
use crate::settings::{OnTimeout, Policy};
use giusto_model::Instant;

impl<A: Admission> Manager<A> {
    /// Tells a member to switch; one that is known to be silent is not waited for.
    pub(super) fn command(&mut self, member: usize, now: Instant, out: &mut Vec<Action>) {
        let target = self.target(member);
        let change = self.change.as_ref().map_or(self.last_change, |change| change.id);
        let (waits, boosts) = (!self.members[member].failed, self.change.as_ref().is_some_and(|change| change.boosts));
        let state = &mut self.members[member];
        let runs = state.runs == Some(target) && state.told.1 == target && !state.failed;
        state.step.sent = now;
        if runs {
            // Nothing to switch: only its reservation differs.
            state.phase = Phase::Switched;
            return self.lower(member, now, out);
        }
        state.told = (change.max(state.told.0.saturating_add(1)), target);
        state.step.change = state.told.0;
        state.runs = None;
        self.tell(member, now, out);
        if !waits {
            self.members[member].phase = Phase::Switched;
            return self.lower(member, now, out);
        }
        let until = now.checked_add(self.settings.timeout).unwrap_or(Instant::from_ns(u64::MAX));
        self.members[member].phase = Phase::Commanded { until };
        if self.settings.policy == Policy::Boost && boosts {
            self.boost(member, now, until, out);
        }
    }

    /// Sends the last command, if the member hears it and has the reservation for it. A member that connects later is told then.
    pub(super) fn tell(&self, member: usize, now: Instant, out: &mut Vec<Action>) {
        if !self.covers_now(member, self.members[member].told.1, now) {
            return;
        }
        let state = &self.members[member];
        let (change, local) = state.told;
        match (state.agent, state.connected) {
            (false, _) => out.push(Action::Carry { member, change, local }),
            (true, true) => {
                let message = ToAgent::Command { change, local: local as u16 };
                out.push(Action::Send { member, message });
            }
            (true, false) => {}
        }
    }

    pub(super) fn boost(&mut self, member: usize, now: Instant, most: Instant, out: &mut Vec<Action>) {
        let row = &self.table.members()[member];
        let (Some(&place), Some(part)) = (row.parts.first(), self.members[member].parts.first()) else { return };
        if !row.agent || self.table.places()[place].boosts == 0 || self.table.server(member, part.held, 0).is_none() {
            return;
        }
        let until = now.checked_add(self.settings.boost).unwrap_or(most).min(most);
        self.members[member].boosted = true;
        out.push(Action::Boost { member, until });
    }

    pub(super) fn end_boost(&mut self, member: usize, out: &mut Vec<Action>) {
        if std::mem::take(&mut self.members[member].boosted) {
            out.push(Action::EndBoost { member });
        }
    }

    /// A member says that it has carried out a command.
    pub(super) fn acknowledged(
        &mut self,
        member: usize,
        change: u64,
        agent_ns: Option<(u64, u64)>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let state = &mut self.members[member];
        if state.told.0 != change || state.runs == Some(state.told.1) {
            return;
        }
        state.runs = Some(state.told.1);
        (state.failed, state.heard) = (false, true);
        if !matches!(state.phase, Phase::Commanded { .. }) {
            return;
        }
        (state.step.agent_ns, state.step.done) = (agent_ns, Some(now));
        state.phase = Phase::Switched;
        self.end_boost(member, out);
        self.news();
    }

    /// A member says that it cannot carry out a command.
    pub(super) fn refused(&mut self, member: usize, change: u64, now: Instant, out: &mut Vec<Action>) {
        let state = &mut self.members[member];
        if state.told.0 != change {
            return;
        }
        (state.runs, state.failed) = (None, true);
        if matches!(state.phase, Phase::Commanded { .. }) {
            self.silent(member, now, out);
        }
    }

    /// An agent is there, and says what runs.
    pub(super) fn hello(
        &mut self,
        member: usize,
        local: Option<u16>,
        change: u64,
        digest: u64,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let row = &self.table.members()[member];
        if !row.agent {
            return;
        }
        let known = row.digest() == digest;
        let state = &mut self.members[member];
        // An agent of another table would take our commands for others.
        state.connected = known;
        if !known {
            state.failed = true;
            return;
        }
        let turn_comes = matches!(state.phase, Phase::Waiting | Phase::Raising { .. } | Phase::Raised { .. });
        // A restarted manager only thinks that it was told: it may run what it has no reservation for.
        let told = state.told.1;
        let covered = self.covers_now(member, told, now);
        let state = &mut self.members[member];
        if local.map(usize::from) == Some(told) && covered {
            // Whether or not it was this command that brought it there.
            state.told.0 = state.told.0.max(change);
            let told = state.told.0;
            state.runs = None;
            return self.acknowledged(member, told, None, now, out);
        }
        let unknown = turn_comes && state.runs.is_none() && !state.failed;
        let runs = local.map(usize::from).filter(|&local| unknown && self.covers_now(member, local, now));
        let state = &mut self.members[member];
        if let Some(runs) = runs {
            // A restarted manager did not know.
            (state.told, state.runs, state.heard) = ((state.told.0.max(change), runs), Some(runs), true);
            return self.news();
        }
        if change >= state.told.0 {
            state.told.0 = change.saturating_add(1);
        }
        if !matches!(state.phase, Phase::Commanded { .. }) {
            (state.runs, state.failed) = (None, true);
        }
        if !turn_comes {
            self.tell(member, now, out);
        }
    }

    pub(super) fn times_out(&mut self, now: Instant, out: &mut Vec<Action>) {
        for member in 0..self.members.len() {
            if matches!(self.members[member].phase, Phase::Commanded { until } if until <= now) {
                self.silent(member, now, out);
            }
        }
    }

    /// The change no longer waits for this member.
    pub(super) fn silent(&mut self, member: usize, now: Instant, out: &mut Vec<Action>) {
        self.end_boost(member, out);
        let state = &mut self.members[member];
        (state.failed, state.phase) = (true, Phase::Switched);
        self.news();
        let Some(change) = &mut self.change else { return };
        if !change.silent.contains(&member) {
            change.silent.push(member);
        }
        if change.back || self.settings.on_timeout == OnTimeout::Degrade {
            return;
        }
        // Where there is no way back that passes on the way, the change goes on without the silent one.
        let from = change.from.clone();
        if let Ok(order) = self.order(&from) {
            self.turn_back(order, now, out);
        }
    }
}
