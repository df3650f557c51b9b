//! A change under way: who may start, the way back, and how it ends.

use super::member::Phase;
use super::{answer, Manager};
use crate::admission::Admission;
use crate::event::{Action, Outcome, Step};
use crate::settings::Policy;
use giusto_model::Instant;

impl<A: Admission> Manager<A> {
    /// The change has another target than before: each member begins where it is.
    pub(super) fn retarget(&mut self, now: Instant, out: &mut Vec<Action>) {
        for member in 0..self.members.len() {
            let target = self.target(member);
            let state = &self.members[member];
            if state.being_set() || matches!(state.phase, Phase::Commanded { .. }) && state.told.1 == target {
                continue;
            }
            self.end_boost(member, out);
            let waits = self.needs(member, target);
            let change = self.change.as_ref().map_or(0, |change| change.id);
            let (shrinks, grows) = (self.only_shrinks(member, target), self.only_grows(member, target));
            let state = &mut self.members[member];
            state.phase = if waits { Phase::Waiting } else { Phase::Settled };
            (state.shrinks, state.mixed) = (shrinks, !shrinks && !grows);
            state.step = Step::sent(member, change, now);
            state.tries = 0;
        }
        self.news();
    }

    /// Does all that can be done at `now`.
    pub(super) fn progress(&mut self, now: Instant, out: &mut Vec<Action>) {
        loop {
            while self.next_request(now, out) {}
            self.times_out(now, out);
            let Some(change) = self.change.as_mut() else { return };
            if !std::mem::take(&mut change.news) && !self.due(now) {
                return;
            }
            let order = self.change.as_mut().map(|change| std::mem::take(&mut change.order)).unwrap_or_default();
            for &member in &order {
                self.advance(member, &order, now, out);
            }
            let Some(change) = self.change.as_mut() else { return };
            change.order = order;
            match (change.news, self.members.iter().any(|state| state.moves() || state.waits_until(now).is_some())) {
                (true, _) => {}
                (_, true) => return,
                _ => self.finish(now, out),
            }
        }
    }

    pub(super) fn due(&self, now: Instant) -> bool {
        self.members.iter().any(|state| matches!(state.phase, Phase::Raised { at } if at <= now))
    }

    pub(super) fn news(&mut self) {
        if let Some(change) = &mut self.change {
            change.news = true;
        }
    }

    pub(super) fn advance(&mut self, member: usize, order: &[usize], now: Instant, out: &mut Vec<Action>) {
        match self.members[member].phase {
            Phase::Waiting if self.may_start(member, order) => self.start(member, now, out),
            Phase::Raised { at } if at <= now => self.command(member, now, out),
            Phase::Switched => self.lower(member, now, out),
            _ => {}
        }
    }

    /// What the policy says [LiH21, section 2.4.1]. Of those that both grow and shrink one changes at a time, and
    /// those that only grow wait for them: else two could take the room that each still needs.
    pub(super) fn may_start(&self, member: usize, order: &[usize]) -> bool {
        let settled = |other: usize| self.members[other].phase == Phase::Settled;
        let mut before = order.iter().copied().take_while(|&other| other != member);
        match self.settings.policy {
            Policy::Sequential => before.all(settled) && !self.members.iter().any(|state| state.busy()),
            Policy::Boost if !self.boost_is_free(member) => false,
            _ if self.members[member].shrinks => true,
            Policy::Batch => {
                before.all(|other| settled(other) || !self.members[other].shrinks && !self.members[other].mixed)
            }
            Policy::Greedy | Policy::Boost => before.all(|other| settled(other) || !self.members[other].mixed),
        }
    }

    /// Whether its place can boost one more agent beside those that are on their way to an acknowledgement.
    fn boost_is_free(&self, member: usize) -> bool {
        let place = |member: usize| self.table.members()[member].parts.first().copied();
        let of = place(member).map_or(0, |place| self.table.places()[place].boosts);
        let under_way = |&other: &usize| {
            let phase = self.members[other].phase;
            let busy = matches!(phase, Phase::Raising { .. } | Phase::Raised { .. } | Phase::Commanded { .. });
            busy && self.table.members()[other].agent && place(other) == place(member)
        };
        !self.table.members()[member].agent
            || of == 0
            || (0..self.members.len()).filter(under_way).take(of).count() < of
    }

    /// Everyone goes back to the old mode.
    pub(super) fn turn_back(&mut self, order: Vec<usize>, now: Instant, out: &mut Vec<Action>) {
        let id = self.next_change();
        if let Some(change) = &mut self.change {
            (change.back, change.boosts, change.id, change.order) = (true, false, id, order);
        }
        out.push(Action::Keep(self.kept()));
        self.retarget(now, out);
    }

    pub(super) fn settle(&mut self, member: usize, out: &mut Vec<Action>) {
        let state = &mut self.members[member];
        state.phase = Phase::Settled;
        out.push(Action::Record(state.step));
        self.news();
    }

    /// Nothing is under way and nothing can start: the change has ended, one way or the other.
    pub(super) fn finish(&mut self, now: Instant, out: &mut Vec<Action>) {
        let Some(mut change) = self.change.take() else { return };
        let waiting = (0..self.members.len()).filter(|&member| self.members[member].phase != Phase::Settled);
        change.stuck.extend(waiting);
        self.members.iter_mut().for_each(|state| state.phase = Phase::Settled);
        self.settled = if change.back { change.from } else { change.to };
        self.rested = Some(now);
        if change.urgent {
            self.urgent_rested = Some(now);
        }
        out.push(Action::Keep(self.kept()));
        let took = now.since(change.asked).unwrap_or_default();
        let outcome = match (change.stuck.is_empty(), change.back, change.silent.is_empty()) {
            (false, ..) => Outcome::Stuck { members: change.stuck },
            (_, true, _) => Outcome::RolledBack { silent: change.silent },
            (_, _, true) => Outcome::Done { took, settled: change.in_force.max(now) },
            _ => Outcome::Degraded { silent: change.silent, took },
        };
        // Who came back while its turn was still to come, and then it did not come.
        let back = (0..self.members.len()).filter(|&member| self.members[member].failed && self.members[member].agent);
        back.for_each(|member| self.tell(member, now, out));
        out.push(Action::Ended { who: change.who, outcome: outcome.clone() });
        answer(change.who, outcome, out);
    }
}
