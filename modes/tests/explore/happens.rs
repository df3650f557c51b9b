//! What happens in the world, one event at a time.

use crate::play::{Next, Play, Seen, Test};
use giusto_model::Instant;
use giusto_modes::{Agent, AgentEvent, Event, FromAgent, Manager, Target};
use rand::RngExt;

impl Play<'_> {
    pub(crate) fn happen(&mut self, next: Next) -> Result<(), String> {
        match next {
            Next::ToAgent(m, ..) | Next::Switched(m, ..) | Next::Restart(m) if self.agents[m].frozen > self.now => {
                let until = self.agents[m].frozen;
                self.at(until, next);
            }
            Next::ToAgent(m, session, message) => {
                if self.agents[m].session == session && self.agents[m].connected {
                    self.agent(m, AgentEvent::Message(message))?;
                }
            }
            Next::FromAgent(m, session, message) => {
                if self.agents[m].session == session && self.agents[m].connected {
                    if matches!(message, FromAgent::Done { .. }) && self.seen[m] == Seen::Commanded {
                        self.seen[m] = Seen::Done;
                    }
                    if let FromAgent::Ask { mode, .. } = &message {
                        self.wanted
                            .extend(self.scene.table.mode(mode).map(|i| self.scene.table.modes()[i].locals.clone()));
                    }
                    self.manager(Event::Message { member: m, message })?;
                }
            }
            Next::Connect(m) => {
                if self.manager.is_none() || self.agents[m].machine.is_none() {
                    if self.agents[m].machine.is_some() {
                        self.after(100, 500, Next::Connect(m));
                    }
                } else if !self.agents[m].connected {
                    self.agents[m].connected = true;
                    self.agents[m].session += 1;
                    self.agents[m].clock = (self.now, self.now);
                    self.agent(m, AgentEvent::Connected)?;
                }
            }
            Next::Lose(m) => self.lose(m)?,
            Next::Switched(m, life, done) => {
                if self.agents[m].life == life {
                    if done {
                        let local = usize::from(self.agents[m].kept.local);
                        self.world.tasks[m] = vec![local];
                        self.agents[m].done = self.agents[m].kept.change;
                    }
                    self.agent(m, if done { AgentEvent::Switched } else { AgentEvent::SwitchFailed })?;
                }
            }
            Next::Restart(m) => {
                let names: Vec<String> =
                    self.scene.table.members()[m].locals.iter().map(|local| local.name.clone()).collect();
                let mut out = Vec::new();
                let kept = self.agents[m].kept;
                let agent = Agent::new(&names, kept, Instant::from_ns(self.now), &mut out);
                self.agents[m].machine = Some(agent.expect("kept is of the table"));
                self.agents[m].done = 0;
                self.agent_does(m, out)?;
                self.after(50, 1000, Next::Connect(m));
            }
            Next::Carried(m, change, number, done) => {
                if self.carry[m] == number {
                    if done {
                        let local = *self.world.tasks[m].last().expect("tasks");
                        self.world.tasks[m] = vec![local];
                    }
                    if self.seen[m] == Seen::Commanded {
                        self.seen[m] = Seen::Done;
                    }
                    self.manager(Event::Carried { member: m, change, done })?;
                }
            }
            Next::Set(set, m, parts, local, when) => {
                let fails = self.set_fails > 0;
                self.set_fails = self.set_fails.saturating_sub(1);
                let (life, now) = (self.life, self.now);
                let answer = if fails {
                    Event::SetFailed { set }
                } else {
                    let at = self.world.set(self.scene, m, parts, local, when, now);
                    Event::SetDone { set, in_force: Instant::from_ns(at) }
                };
                self.after(0, 20, Next::Answer(life, m as u64, answer));
            }
            Next::Answer(life, m, event) => {
                if life == self.life {
                    let m = m as usize;
                    match self.seen[m] {
                        Seen::Lowering => self.seen[m] = Seen::Done,
                        Seen::Raising => self.seen[m] = Seen::Waits,
                        _ => {}
                    }
                    self.manager(event)?;
                }
            }
            Next::Tick(number) => {
                if number == self.tick && self.manager.is_some() {
                    self.manager(Event::Tick)?;
                }
            }
            Next::Manager => self.restart_manager()?,
            Next::Request => self.request()?,
            Next::Time => {}
        }
        Ok(())
    }

    pub(crate) fn lose(&mut self, m: usize) -> Result<(), String> {
        if !self.agents[m].connected {
            return Ok(());
        }
        self.agents[m].connected = false;
        if self.manager.is_some() {
            self.manager(Event::Lost { member: m })?;
        }
        if self.agents[m].machine.is_some() {
            self.agent(m, AgentEvent::Lost)?;
            self.after(100, 3000, Next::Connect(m));
        }
        Ok(())
    }

    pub(crate) fn restart_manager(&mut self) -> Result<(), String> {
        // It is started again only when no change of a reservation is pending.
        if let Some(pending) = self.world.pending() {
            self.at(pending, Next::Manager);
            return Ok(());
        }
        let held: Vec<Vec<usize>> =
            self.world.reserved.iter().map(|parts| parts.iter().map(|part| part.local).collect()).collect();
        let (now, test) = (Instant::from_ns(self.now), Test(self.scene.tests.clone()));
        let mut out = Vec::new();
        let (table, settings) = (self.scene.table.clone(), self.scene.settings);
        self.paid.clear();
        let manager = Manager::recover(table, settings, test, &self.kept, &held, now, &mut out);
        self.manager = Some(manager.map_err(|why| why.to_string())?);
        self.manager_does(out)
    }

    pub(crate) fn request(&mut self) -> Result<(), String> {
        let modes = self.scene.table.modes().len();
        if self.rng.random_bool(0.25) {
            let m = self.rng.random_range(0..self.agents.len());
            if self.agents[m].machine.is_some() && self.agents[m].frozen <= self.now {
                let mode = self.scene.table.modes()[self.rng.random_range(0..modes)].name.clone();
                self.asked += 1;
                let request = self.asked as u32;
                return self.agent(m, AgentEvent::Ask { request, mode });
            }
        }
        if self.manager.is_none() {
            return Ok(());
        }
        self.asked += 1;
        let members = self.agents.len();
        let target = match self.rng.random_range(0..4) {
            0 => Target::Locals((0..members).map(|_| self.rng.random_range(0..modes)).collect()),
            _ => Target::Mode(self.rng.random_range(0..modes)),
        };
        self.wanted.push(match &target {
            Target::Mode(mode) => vec![*mode; members],
            Target::Locals(locals) => locals.clone(),
        });
        self.open.insert(self.asked, self.now);
        self.manager(Event::Request { request: self.asked, target })
    }
}
