//! What the machines want done, done in the world; and what they must never want.

use crate::play::{Fault, Next, Play, Seen};
use crate::world::US;
use giusto_model::Instant;
use giusto_modes::{Action, AgentAction, AgentEvent, Event, Outcome, Policy, Refusal, Requests, ToAgent};
use rand::RngExt;

impl Play<'_> {
    pub(crate) fn agent(&mut self, m: usize, event: AgentEvent) -> Result<(), String> {
        let mut out = Vec::new();
        if let Some(agent) = &mut self.agents[m].machine {
            agent.handle(Instant::from_ns(self.now), event, &mut out);
        }
        self.agent_does(m, out)
    }

    pub(crate) fn agent_does(&mut self, m: usize, out: Vec<AgentAction>) -> Result<(), String> {
        for action in out {
            self.log.push(format!("{:>12} agent {m}: {action:?}", ""));
            match action {
                AgentAction::Send(message) => {
                    let copies = self.copies(m);
                    for _ in 0..copies {
                        let time = (self.now + self.rng.random_range(2..100) * US).max(self.agents[m].clock.1);
                        self.agents[m].clock.1 = time;
                        self.at(time, Next::FromAgent(m, self.agents[m].session, message.clone()));
                    }
                }
                AgentAction::Keep(kept) => {
                    let before = self.agents[m].kept;
                    if kept.change < before.change {
                        return Err(format!("agent {m} carries out change {} after {}", kept.change, before.change));
                    }
                    if kept.change == self.agents[m].done {
                        return Err(format!("agent {m} carries out change {} twice", kept.change));
                    }
                    self.agents[m].kept = kept;
                }
                AgentAction::Switch { local } => {
                    if local != self.agents[m].kept.local {
                        return Err(format!("agent {m} switches to m{local} and has not kept that"));
                    }
                    self.world.tasks[m].push(usize::from(local));
                    let fails = !self.quiet && self.fault_now(m, Fault::SwitchFails, 0.02);
                    let life = self.agents[m].life;
                    self.after(5, 200, Next::Switched(m, life, !fails));
                }
                AgentAction::Answer { .. } => {}
            }
        }
        Ok(())
    }

    /// Once, or twice: whatever carries messages may repeat one.
    pub(crate) fn copies(&mut self, m: usize) -> u32 {
        1 + u32::from(!self.quiet && self.fault_now(m, Fault::Repeated, 0.04))
    }

    pub(crate) fn manager(&mut self, event: Event) -> Result<(), String> {
        let mut out = Vec::new();
        let now = Instant::from_ns(self.now);
        if let Some(manager) = &mut self.manager {
            manager.handle(now, event, &mut out);
        }
        self.manager_does(out)
    }

    /// What boosts cost: in a spacing each member is boosted once, and once more where a mode is urgent. (Under
    /// `preempt` a spacing is counted from the beginning of a change, whose boosts come later.)
    fn paid(&mut self, member: usize) -> Result<(), String> {
        let since = self.now.saturating_sub(self.scene.settings.spacing.ns() - 1);
        self.paid.retain(|&(_, at)| at >= since);
        self.paid.push((member, self.now));
        let count = self.paid.iter().filter(|&&(other, _)| other == member).count() as u64;
        if count > self.scene.table.at_once() && self.scene.settings.requests != Requests::Preempt {
            return Err(format!("member {member} is boosted {count} times in one spacing"));
        }
        if count > 1 {
            self.kind("boosts of two changes in one spacing");
        }
        Ok(())
    }

    pub(crate) fn manager_does(&mut self, out: Vec<Action>) -> Result<(), String> {
        for action in out {
            self.log.push(format!("{:>12} manager: {action:?}", ""));
            match action {
                Action::Send { member, message } => {
                    if matches!(message, ToAgent::Command { .. }) {
                        self.seen[member] = Seen::Commanded;
                    }
                    if !self.agents[member].connected {
                        continue;
                    }
                    for _ in 0..self.copies(member) {
                        let time = (self.now + self.rng.random_range(2..100) * US).max(self.agents[member].clock.0);
                        self.agents[member].clock.0 = time;
                        self.at(time, Next::ToAgent(member, self.agents[member].session, message));
                    }
                }
                Action::Set { set, member, parts, local, when } => {
                    let before = self.seen[member];
                    self.seen[member] =
                        if matches!(before, Seen::Done | Seen::Commanded) { Seen::Lowering } else { Seen::Raising };
                    if !self.quiet && self.fault_now(member, Fault::SetFails, 0.04) {
                        self.set_fails += if self.rng.random_bool(0.2) { 4 } else { 1 };
                    }
                    self.set_free = self.set_free.max(self.now) + self.rng.random_range(5..80) * US;
                    self.at(self.set_free, Next::Set(set, member, parts, local, when));
                }
                Action::Boost { member, until } => {
                    if self.scene.settings.policy != Policy::Boost {
                        return Err("a boost under another policy".into());
                    }
                    if until.ns() - self.now > self.scene.settings.boost.ns() {
                        return Err("a boost that is too long".into());
                    }
                    if self.boosted.contains(&member) || self.kept.back {
                        return Err("a second boost in one change".into());
                    }
                    self.boosted.push(member);
                    self.paid(member)?;
                    self.world.boosts.push((member, until.ns()));
                    self.kind("boosts");
                }
                Action::EndBoost { member } => self.world.boosts.retain(|boost| boost.0 != member),
                Action::Carry { member, change, local } => {
                    self.world.tasks[member].push(local);
                    self.seen[member] = Seen::Commanded;
                    self.carry[member] += 1;
                    let number = self.carry[member];
                    let fails = !self.quiet && self.fault_now(member, Fault::SwitchFails, 0.02);
                    self.after(5, 300, Next::Carried(member, change, number, !fails));
                }
                Action::Wake(at) => {
                    self.tick += 1;
                    let number = self.tick;
                    self.at(at.ns(), Next::Tick(number));
                }
                Action::Keep(kept) => {
                    if kept.change < self.kept.change {
                        return Err("the number of a change runs backwards".into());
                    }
                    if kept.open && !self.kept.open {
                        for m in 0..self.seen.len() {
                            let waits = kept.from[m] != kept.to[m];
                            self.seen[m] = if waits { Seen::Waits } else { Seen::Idle };
                        }
                    }
                    if !kept.open {
                        self.seen.fill(Seen::Idle);
                        if !self.world.boosts.is_empty() {
                            return Err("a change ends and someone is boosted".into());
                        }
                    }
                    let taken_over = self.kept.open && kept.open && !kept.back && kept.change > self.kept.change;
                    if taken_over && self.scene.settings.requests != Requests::Preempt {
                        self.kind("urgent changes that took over");
                    }
                    if !kept.back {
                        self.boosted.clear();
                    }
                    if kept.back {
                        self.kind("turned back");
                    }
                    self.kept = kept;
                }
                Action::Answer { request, outcome } => {
                    if self.open.remove(&request).is_none() {
                        return Err(format!("request {request} is answered twice"));
                    }
                    let name = match &outcome {
                        Outcome::Refused(Refusal::TooSoon { .. }) => "TooSoon".into(),
                        Outcome::Refused(why) => {
                            format!("{why:?}").split(['(', ' ']).next().unwrap_or_default().to_string()
                        }
                        other => format!("{other:?}").split(' ').next().unwrap_or_default().to_string(),
                    };
                    *self.counts.outcomes.entry(name).or_default() += 1;
                }
                Action::Ended { outcome, .. } => self.stuck |= matches!(outcome, Outcome::Stuck { .. }),
                Action::Record(_) => {}
            }
        }
        if let Some(manager) = &self.manager {
            for m in 0..self.sound.len() {
                self.sound[m] = manager.sound(m);
            }
        }
        Ok(())
    }
}
