//! Who may change the mode, and when.

use super::{answer, known, Change, Manager, Waiting};
use crate::admission::Admission;
use crate::event::{Action, Outcome, Refusal, Requester, Target};
use crate::settings::Requests;
use giusto_model::Instant;

/// So many requests wait at most.
const QUEUE: usize = 16;

impl<A: Admission> Manager<A> {
    pub(super) fn request(&mut self, who: Requester, target: Target, now: Instant, out: &mut Vec<Action>) {
        let urgent =
            matches!(target, Target::Mode(mode) if self.table.modes().get(mode).is_some_and(|mode| mode.urgent));
        let to = match self.admitted(who, target) {
            Ok(to) => to,
            Err(why) => return answer(who, Outcome::Refused(why), out),
        };
        let request = Waiting { who, to, asked: now, urgent };
        if urgent && self.may_overtake(now) {
            return self.overtake(request, now, out);
        }
        let early = self.may_begin().filter(|&until| until > now);
        match (self.settings.requests, self.change.is_some(), early) {
            (_, false, None) if self.waiting.is_empty() => self.begin(request, now, out),
            (Requests::Reject, true, _) => answer(who, Outcome::Refused(Refusal::Busy), out),
            (Requests::Reject, false, Some(until)) => answer(who, Outcome::Refused(Refusal::TooSoon { until }), out),
            (Requests::Preempt, ..) => {
                self.drop_waiting(out);
                self.waiting.push_back(request);
            }
            _ if self.waiting.len() >= QUEUE => answer(who, Outcome::Refused(Refusal::QueueFull(QUEUE)), out),
            _ => self.waiting.push_back(request),
        }
    }

    /// Whether an urgent change may begin before `spacing` has passed, or take over: those are a spacing apart among
    /// themselves. So in any spacing there are two changes at most, one of each.
    fn may_overtake(&self, now: Instant) -> bool {
        let under_way = self.change.as_ref().is_some_and(|change| change.urgent) || self.urgent.is_some();
        !under_way && self.spaced(self.urgent_rested).is_none_or(|at| at <= now)
    }

    /// Begins at once: takes over from the change under way, or, where that is on its way back or no order leads on
    /// from within it, follows it. Each other request that waits was made before the emergency was known, and is dropped.
    fn overtake(&mut self, request: Waiting, now: Instant, out: &mut Vec<Action>) {
        self.drop_waiting(out);
        let back = self.change.as_ref().is_some_and(|change| change.back);
        if back || self.change.is_some() && self.order(&request.to).is_err() {
            self.urgent = Some(request);
            return;
        }
        self.begin(request, now, out);
    }

    fn drop_waiting(&mut self, out: &mut Vec<Action>) {
        let earlier = self.waiting.drain(..).map(|earlier| earlier.who).collect::<Vec<_>>();
        earlier.into_iter().for_each(|who| answer(who, Outcome::Preempted, out));
    }

    /// When the next change may begin; `None`: there was none.
    pub(super) fn may_begin(&self) -> Option<Instant> {
        self.spaced(self.rested)
    }

    fn spaced(&self, rested: Option<Instant>) -> Option<Instant> {
        Some(rested?.checked_add(self.settings.spacing).unwrap_or(Instant::from_ns(u64::MAX)))
    }

    /// Begins what waits, if its time has come. Whether something began.
    pub(super) fn next_request(&mut self, now: Instant, out: &mut Vec<Action>) -> bool {
        if self.change.is_none() {
            if let Some(urgent) = self.urgent.take() {
                self.begin(urgent, now, out);
                return true;
            }
        }
        // An urgent change ends before anything else begins.
        let urgent = self.urgent.is_some() || self.change.as_ref().is_some_and(|change| change.urgent);
        let preempts = self.settings.requests == Requests::Preempt && !urgent;
        // A change on its way back is let go: what it goes back to is the only mode that is known to be reachable.
        let busy = self.change.as_ref().is_some_and(|change| change.back || !preempts);
        if busy || self.may_begin().is_some_and(|at| at > now) {
            return false;
        }
        let Some(request) = self.waiting.pop_front() else { return false };
        self.begin(request, now, out);
        true
    }

    fn admitted(&self, who: Requester, target: Target) -> Result<Vec<usize>, Refusal> {
        let to = match target {
            Target::Mode(mode) => {
                let locals = self.table.modes().get(mode).map(|mode| mode.locals.clone()).ok_or(Refusal::Unknown)?;
                if let Requester::Member(member, _) = who {
                    if !self.table.members()[member].asks.contains(&mode) {
                        return Err(Refusal::NotAllowed);
                    }
                }
                locals
            }
            Target::Locals(locals) => locals,
        };
        known(&self.table, &to).then_some(to).ok_or(Refusal::Unknown)
    }

    fn begin(&mut self, request: Waiting, now: Instant, out: &mut Vec<Action>) {
        let Waiting { who, to, asked, urgent } = request;
        let there = (0..self.members.len()).all(|member| !self.needs(member, to[member]));
        if there && self.change.is_none() {
            self.settled = to;
            // A member that failed gets another chance.
            let failed = (0..self.members.len()).filter(|&member| self.members[member].failed);
            failed.for_each(|member| self.tell(member, now, out));
            return answer(who, Outcome::Unchanged, out);
        }
        let order = match self.order(&to) {
            Ok(order) => order,
            Err(why) => return answer(who, Outcome::Refused(why), out),
        };
        let from = match self.change.take() {
            Some(old) => {
                answer(old.who, Outcome::Preempted, out);
                old.from
            }
            None => self.settled.clone(),
        };
        self.rested = Some(now);
        if urgent {
            self.urgent_rested = Some(now);
        }
        let id = self.next_change();
        let (silent, stuck) = (Vec::new(), Vec::new());
        self.change = Some(Change {
            id,
            who,
            asked,
            from,
            to,
            back: false,
            urgent,
            boosts: true,
            order,
            silent,
            stuck,
            in_force: now,
            news: true,
        });
        out.push(Action::Keep(self.kept()));
        self.retarget(now, out);
    }

    /// The number of a new change: larger than all that any agent may have seen of us.
    pub(super) fn next_change(&mut self) -> u64 {
        self.last_change = self.last_change.saturating_add(1);
        self.last_change
    }
}
