//! The manager's core: one thread, one thing at a time, each with its cost.

use super::host::{refused, At, Host, Work};
use crate::system::Error;
use giusto_model::Instant;
use giusto_modes::{Action, Event, Outcome, Parts, When};
use std::cmp::Reverse;

impl Host<'_> {
    pub(super) fn tell_manager(&mut self, event: Event) -> Result<(), Error> {
        self.inbox.push_back(event);
        self.manager_goes_on()
    }

    /// One thread: what it wants done in its order, then what it is told.
    pub(super) fn manager_goes_on(&mut self) -> Result<(), Error> {
        while self.works.is_none() {
            if let Some(action) = self.outbox.pop_front() {
                let cost = match action {
                    Action::Send { .. } => self.cost(|costs| &costs.post_ns),
                    Action::Set { .. } => self.cost(|costs| &costs.set_ns),
                    // Nothing waits for a boost or its end: the times of posting and setting include them.
                    _ => {
                        self.done(action)?;
                        continue;
                    }
                };
                self.works(Work::Do(action), cost);
            } else if let Some(event) = self.inbox.pop_front() {
                if matches!(event, Event::Message { .. }) {
                    let cost = self.cost(|costs| &costs.receive_ns);
                    self.works(Work::Take(event), cost);
                } else {
                    self.take(event);
                }
            } else {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn take(&mut self, event: Event) {
        let mut out = Vec::new();
        self.manager.handle(Instant::from_ns(self.now), event, &mut out);
        self.outbox.extend(out);
    }

    /// The manager's core is busy for so long.
    pub(super) fn works(&mut self, work: Work, cost: u64) {
        self.works = Some(work);
        self.queue.push(Reverse((self.now + cost, At::Manager)));
    }

    /// What an action does, at the end of its time.
    pub(super) fn done(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Send { member, message } => {
                let flight = self.cost(|costs| &costs.send_ns);
                self.mail[member].push_back(message);
                self.queue.push(Reverse((self.now + flight, At::Mail(member))));
            }
            Action::Set { set, member, parts, local, when } => {
                let in_force = self.reserve(member, parts, local, when)?;
                // It is told when it is done with that, before anything else.
                self.inbox.push_front(Event::SetDone { set, in_force: Instant::from_ns(in_force) });
            }
            Action::Boost { member, until } => self.boost(member, until.ns())?,
            Action::EndBoost { member } => self.boost(member, 0)?,
            Action::Wake(at) => {
                self.tick += 1;
                self.queue.push(Reverse((at.ns(), At::Tick(self.tick))));
            }
            Action::Ended { outcome, .. } => {
                let asked = self.asked.take().unwrap_or(self.now);
                match outcome {
                    Outcome::Done { .. } => self.seen.latencies.push(self.now - asked),
                    _ => self.seen.failed += 1,
                }
                if self.changes() < self.scene.changes {
                    self.ask_later();
                }
            }
            Action::Carry { .. } | Action::Keep(_) | Action::Answer { .. } | Action::Record(_) => {}
        }
        Ok(())
    }

    pub(super) fn boost(&mut self, member: usize, until: u64) -> Result<(), Error> {
        let vcpu = self.first[member];
        self.pool.boost(self.ids[vcpu], until, self.now).map_err(|why| refused(vcpu, &why))?;
        self.queue.push(Reverse((until, At::Boost)));
        self.news = true;
        Ok(())
    }

    /// Changes reservations; from when on the new ones count, and they alone.
    pub(super) fn reserve(&mut self, member: usize, parts: Parts, local: usize, when: When) -> Result<u64, Error> {
        let server =
            *self.manager.table().server(member, local, 0).ok_or_else(|| refused(member, &"no reservation"))?;
        let (budget, period) = (server.budget.ns(), server.period.ns());
        let mut latest = self.now;
        for part in parts.iter() {
            let vcpu = self.first[member] + part;
            let next = self.pool.deadline_ns(self.ids[vcpu]);
            let in_force = match when {
                When::Now => {
                    let shrinks = self.budgets[vcpu] > budget;
                    self.set(vcpu, budget, period, giusto_policy::When::Now)?;
                    if shrinks {
                        next
                    } else {
                        self.now
                    }
                }
                When::Replenishment(at) => {
                    let behind = at.ns().saturating_sub(next).div_ceil(period);
                    if behind == 0 {
                        self.set(vcpu, budget, period, giusto_policy::When::NextPeriod)?;
                    } else {
                        let before = next + (behind - 1) * period + 1;
                        self.queue.push(Reverse((before, At::Set { vcpu, budget, period })));
                    }
                    next + behind * period
                }
            };
            self.budgets[vcpu] = budget;
            latest = latest.max(in_force);
        }
        Ok(latest)
    }

    pub(super) fn set(
        &mut self,
        vcpu: usize,
        budget: u64,
        period: u64,
        when: giusto_policy::When,
    ) -> Result<(), Error> {
        self.news = true;
        self.pool.set(self.ids[vcpu], budget, period, 0, when, self.now).map_err(|why| refused(vcpu, &why))
    }
}
