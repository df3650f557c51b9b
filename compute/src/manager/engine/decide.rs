//! What has happened is charged in order, the policy core says who runs, and each server's threads get their place.

use super::super::budgets::BudgetPoint;
use super::super::ranks::priorities;
use super::super::watch::{self, Event, What};
use super::served::{give, Served};
use super::Engine;
use giusto_model::{Cap, Criticality, Renewal};
use giusto_policy::CoreMode;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The priority of the highest server.
const HIGHEST: u32 = 80;
/// What a stopped server has had beyond this (ns) was not all on the way to its stop.
const RAN_ON: i64 = 200_000;
/// A budget's rest below this (ns) counts as consumed, and is given back with the next consumption: a timer for it would cost
/// more than it is worth, and many of them in a row made a storm.
const CRUMB: u64 = 20_000;

impl Engine {
    /// Tells the policy core what has happened, in order.
    pub(super) fn drain(&mut self) {
        while let Some(event) = self.watch.next() {
            let Some(Some(server)) = self.servers.get_mut(event.server) else { continue };
            match event.what {
                What::New(tid) => {
                    server.threads.insert(tid);
                    server.parted.remove(&tid); // the number of another thread, which has ended
                    give(tid, server.priority); // its parent may have got another place in the middle of the fork
                }
                What::Gone(tid) => drop(server.threads.remove(&tid)),
                What::Moved(tid) => self.moved(event.server, tid),
                What::Idle | What::Ready => {
                    let is_ready = event.what == What::Ready;
                    if server.is_ready != is_ready {
                        server.set_ready(is_ready, event.at);
                        let id = server.id;
                        self.charge(event.at, Some(event));
                        self.pool.ready(id, is_ready, event.at);
                        self.pool.decide(event.at);
                    }
                }
            }
        }
    }

    /// Charges what was consumed up to `at` by the server that was chosen.
    fn charge(&mut self, at: u64, event: Option<Event>) {
        let at = at.max(self.at);
        let passed = (at - self.at) as i64;
        self.at = at;
        let (runs, payer) = (self.pool.running(0), self.pool.payer(0));
        let Some((slot, server)) = self.servers.iter_mut().enumerate().find_map(|(slot, server)| {
            let server = server.as_mut()?;
            (Some(server.id) == runs).then_some((slot, server))
        }) else {
            return self.pool.charge(0, 0, at);
        };
        let total = match event {
            Some(event) if event.server == slot => event.ran as i64,
            _ => self.watch.account(slot).ran.load(Relaxed) as i64,
        };
        if payer.is_none() {
            server.charged = total; // on a lent budget
            return self.pool.charge(0, 0, at);
        }
        let mut ran = (total - server.charged).clamp(0, passed);
        let rest = self.pool.left_ns(server.id) - ran;
        let limited = server.managed.server.kind.renewal() != Renewal::Unlimited && server.boost.is_none();
        if event.is_none() && limited && (1..=CRUMB as i64).contains(&rest) && ran + rest <= passed {
            ran += rest;
        }
        server.charged += ran;
        self.pool.charge(0, ran as u64, at);
    }

    /// What a server that is to be capped had besides, it owes: what ran on while it was being stopped, on another core, or
    /// outside its group. Not so in mixed criticality, where those without a budget may run.
    fn owe(&mut self) {
        for (slot, server) in self.servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            let account = self.watch.account(slot);
            let more = account.ran.load(Relaxed) as i64 - server.charged;
            if more <= 0 || server.managed.cap == Cap::Soft || server.managed.criticality.is_some() {
                continue;
            }
            server.charged += more;
            self.pool.owe(server.id, more as u64, self.at);
            // Stopped since it was looked at last, and still awake: not all of it can be in its group.
            let ran_on = server.frozen && more > RAN_ON && account.awake.load(Relaxed) > 0;
            server.strays.look |= ran_on;
        }
    }

    /// Brings the policy core up to now.
    pub(super) fn settle(&mut self, now: u64) {
        self.charge(now, None);
        self.owe();
        for (slot, server) in self.servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            server.boost = server.boost.filter(|&until| until > self.at);
            let account = self.watch.account(slot);
            // Events may have been lost where the buffer was full.
            let is_ready = account.awake.load(Relaxed) > 0;
            if account.parked.load(Relaxed) == 0 && server.is_ready != is_ready {
                server.set_ready(is_ready, self.at);
                self.pool.ready(server.id, is_ready, self.at);
            }
        }
        self.look_at_budgets();
        let was = self.mode.since;
        self.until = self.pool.decide(self.at).until;
        for server in self.servers.iter_mut().flatten() {
            let (left, ends) = self.pool.left_and_deadline_ns(server.id);
            let period = server.managed.server.period.ns();
            server.periods.pass(ends, period, server.charged, left);
        }
        if self.budgets.is_recorded() {
            self.tell_budgets();
        }
        let is_hi = self.pool.core_mode(0) == CoreMode::Hi;
        match (was, is_hi) {
            (Some(since), false) => self.mode.hi_ns += self.at - since,
            (None, true) => self.mode.switches += 1,
            _ => {}
        }
        self.mode.since = is_hi.then(|| was.unwrap_or(self.at));
    }

    fn tell_budgets(&self) {
        for (slot, server) in self.servers.iter().enumerate() {
            let Some(server) = server else { continue };
            let (left_ns, missed) = (self.pool.left_ns(server.id), server.periods.missed);
            self.budgets.write(BudgetPoint { at_ns: self.at, server: slot, left_ns, missed });
        }
    }

    /// Who has had more than its budget allows: it was not stopped in time, or ran although it was.
    fn look_at_budgets(&mut self) {
        for (slot, server) in self.servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            if server.managed.server.kind.renewal() == Renewal::Unlimited || server.boost.is_some() {
                continue;
            }
            let left = self.pool.left_ns(server.id);
            let hard = server.managed.cap == Cap::Hard;
            let uncharged = self.watch.account(slot).ran.load(Relaxed) as i64 - server.charged;
            let beyond = (-left).max(0) + if hard { uncharged.max(0) } else { 0 };
            if server.overrun(beyond as u64) {
                let (name, ms) = (&server.managed.name, beyond / 1_000_000);
                let text = format!("{name} was not stopped in time: it had {ms} ms beyond its budget, which it repays");
                if self.warnings.len() < 100 {
                    self.warnings.push(text);
                }
            }
        }
    }

    /// Gives each server's threads the place that the policy core's order gives it; `false`: one has fallen asleep,
    /// ended or woken since, so that who runs has to be decided anew.
    pub(super) fn apply(&mut self) -> bool {
        let slots: Vec<usize> = (0..self.servers.len()).filter(|&slot| self.servers[slot].is_some()).collect();
        let slot_of =
            |id| slots.iter().copied().find(|&slot| self.servers[slot].as_ref().is_some_and(|one| one.id == id));
        // A server without a claim gets what is left over, like threads without a server.
        let order = self.pool.order(watch::SERVERS).into_iter().take_while(|place| !place.leftovers);
        let order: Vec<usize> = order.filter_map(|place| slot_of(place.id)).collect();
        for &slot in slots.iter().filter(|slot| !order.contains(slot)) {
            let account = self.watch.account(slot);
            let Some(server) = &mut self.servers[slot] else { continue };
            let left = self.pool.left_ns(server.id);
            server.park(account, left);
        }
        let now: Vec<Option<u32>> =
            order.iter().map(|&slot| self.servers[slot].as_ref().and_then(|server| server.priority)).collect();
        for (&slot, priority) in order.iter().zip(priorities(&now, HIGHEST)) {
            if let Some(server) = &mut self.servers[slot] {
                server.unpark(self.watch.account(slot), priority);
            }
        }
        let mut is_as_decided = true;
        self.alone = self.alone_in_hi();
        // Last: threads that go on by this decision must not cause an event.
        for &slot in &slots {
            let Some(server) = &self.servers[slot] else { continue };
            let follow = slots.len() > 1 && self.alone != Some(slot) || server.managed.server.kind.facts().idling_costs;
            let urgent = match follow {
                true => watch::IDLE | watch::READY,
                false if self.alone == Some(slot) => 0,
                false => watch::READY * u32::from(!server.is_ready),
            };
            let account = self.watch.account(slot);
            account.urgent.store(urgent, SeqCst);
            // A thread that was woken from another core before that caused no event.
            let is_ready = account.awake.load(SeqCst) > 0;
            is_as_decided &= urgent == 0 || account.parked.load(Relaxed) != 0 || server.is_ready == is_ready;
        }
        is_as_decided
    }

    /// In HI, the only server of high criticality, if it has budget: whenever it wakes it goes before all others, which the kernel does by
    /// itself, so that the manager needs no event before its budget may end.
    fn alone_in_hi(&self) -> Option<usize> {
        if self.pool.core_mode(0) == CoreMode::Lo || self.boosted() {
            return None;
        }
        let high = |(slot, server): (usize, &Option<Served>)| match server.as_ref()?.managed.criticality? {
            Criticality::High { .. } => Some(slot),
            Criticality::Low => None,
        };
        let mut all = self.servers.iter().enumerate().filter_map(high);
        let only = all.next().filter(|_| all.next().is_none())?;
        self.servers[only].as_ref().filter(|server| self.pool.left_ns(server.id) > 0).map(|_| only)
    }

    fn boosted(&self) -> bool {
        self.servers.iter().flatten().any(|server| server.boost.is_some())
    }
}
