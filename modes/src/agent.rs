//! The agent in a virtual machine (LiH21: domain mode manager).

use crate::message::{Answered, FromAgent, ToAgent};
use crate::table::digest;
use giusto_model::Instant;
use serde::{Deserialize, Serialize};

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// A session with the manager is open.
    Connected,
    /// It ended. The owner of the socket connects again.
    Lost,
    /// The manager says something.
    Message(ToAgent),
    /// The task engine has carried out [`AgentAction::Switch`].
    Switched,
    /// It could not.
    SwitchFailed,
    /// Someone in this virtual machine wants another global mode.
    Ask {
        /// To tell answers apart.
        request: u32,
        /// Its name.
        mode: String,
    },
}

/// What an agent wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAction {
    /// To the manager.
    Send(FromAgent),
    /// Write this down, safely, before what follows.
    Keep(Intention),
    /// Stop the tasks of every other local mode and start those of this one; answered by `Switched` or `SwitchFailed`. Also where
    /// they run already.
    Switch {
        /// Which.
        local: u16,
    },
    /// What became of [`AgentEvent::Ask`]; `None`: the session ended before the outcome was known.
    Answer {
        /// As it was asked.
        request: u32,
        /// What became of it.
        answered: Option<Answered>,
    },
}

/// The last command: what an agent that is restarted must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intention {
    /// The local mode.
    pub local: u16,
    /// The change that wants it; 0: none did, it is what runs from the start.
    pub change: u64,
}

/// The agent. One command is carried out at a time; the latest counts. The same one again is acknowledged again and not carried out again; one of an earlier
/// change does nothing.
#[derive(Clone, Debug)]
pub struct Agent {
    digest: u64,
    locals: u16,
    connected: bool,
    /// Hello was said in this session.
    greeted: bool,
    /// What runs, if no switch is under way.
    at: Intention,
    /// Under way, and when the command came.
    doing: Option<(Intention, Instant)>,
    /// To be done after that.
    next: Option<(Intention, Instant)>,
    /// When `at` was received and carried out, and whether that failed.
    times: (Instant, Instant),
    failed: bool,
    asked: Vec<u32>,
}

impl Agent {
    /// An agent with local modes of these names, in the order of the table. `kept` is what was written down last, or the local
    /// mode that runs from the start, with change 0: its tasks are switched to at once, whatever was under way.
    ///
    /// `None`: `kept` is none of the names, or there are none or more than 65,535.
    pub fn new(names: &[String], kept: Intention, now: Instant, out: &mut Vec<AgentAction>) -> Option<Agent> {
        let locals = u16::try_from(names.len()).ok()?;
        if kept.local >= locals {
            return None;
        }
        out.push(AgentAction::Switch { local: kept.local });
        Some(Agent {
            digest: digest(names.iter().map(String::as_str)),
            locals,
            connected: false,
            greeted: false,
            at: kept,
            doing: Some((kept, now)),
            next: None,
            times: (now, now),
            failed: false,
            asked: Vec::new(),
        })
    }

    /// What runs, and since which change; `None` while tasks are switched, or where that failed.
    pub fn at(&self) -> Option<Intention> {
        (self.doing.is_none() && !self.failed).then_some(self.at)
    }

    /// Takes one event that came at `now` of the agent's clock. O(1).
    pub fn handle(&mut self, now: Instant, event: AgentEvent, out: &mut Vec<AgentAction>) {
        match event {
            AgentEvent::Connected => {
                (self.connected, self.greeted) = (true, false);
                if self.doing.is_none() {
                    self.hello(out);
                }
            }
            AgentEvent::Lost => {
                (self.connected, self.greeted) = (false, false);
                out.extend(self.asked.drain(..).map(|request| AgentAction::Answer { request, answered: None }));
            }
            AgentEvent::Message(ToAgent::Command { change, local }) => {
                self.command(Intention { local, change }, now, out)
            }
            AgentEvent::Message(ToAgent::Answer { request, answered }) => {
                if let Some(place) = self.asked.iter().position(|&asked| asked == request) {
                    self.asked.swap_remove(place);
                    out.push(AgentAction::Answer { request, answered: Some(answered) });
                }
            }
            AgentEvent::Switched => self.switched(true, now, out),
            AgentEvent::SwitchFailed => self.switched(false, now, out),
            AgentEvent::Ask { request, mode } => {
                if self.greeted && mode.len() <= 255 && !self.asked.contains(&request) {
                    self.asked.push(request);
                    out.push(AgentAction::Send(FromAgent::Ask { request, mode }));
                } else {
                    out.push(AgentAction::Answer { request, answered: None });
                }
            }
        }
    }

    fn command(&mut self, wanted: Intention, now: Instant, out: &mut Vec<AgentAction>) {
        let latest = self.next.or(self.doing).map_or(self.at, |(intention, _)| intention);
        if wanted.change < latest.change {
            return;
        }
        if wanted.change == latest.change {
            // Done already: acknowledge once more. Under way: it will be. A failed one is tried again.
            if self.doing.is_some() {
                return;
            }
            if !self.failed {
                return self.acknowledge(out);
            }
        }
        if wanted.local >= self.locals {
            return self.send(FromAgent::Failed { change: wanted.change }, out);
        }
        if self.doing.is_some() {
            self.next = Some((wanted, now));
            return;
        }
        self.start(wanted, now, out);
    }

    fn start(&mut self, wanted: Intention, received: Instant, out: &mut Vec<AgentAction>) {
        self.doing = Some((wanted, received));
        out.push(AgentAction::Keep(wanted));
        out.push(AgentAction::Switch { local: wanted.local });
    }

    fn switched(&mut self, done: bool, now: Instant, out: &mut Vec<AgentAction>) {
        let Some((wanted, received)) = self.doing.take() else { return };
        (self.at, self.times, self.failed) = (wanted, (received, now), !done);
        if let Some((next, received)) = self.next.take() {
            return self.start(next, received, out);
        }
        if self.greeted {
            self.acknowledge(out);
        } else {
            self.hello(out);
        }
    }

    fn acknowledge(&self, out: &mut Vec<AgentAction>) {
        let (Intention { local, change }, (received, switched)) = (self.at, self.times);
        let done = FromAgent::Done { change, local, received_ns: received.ns(), switched_ns: switched.ns() };
        self.send(if self.failed { FromAgent::Failed { change } } else { done }, out);
    }

    fn hello(&mut self, out: &mut Vec<AgentAction>) {
        let Intention { local, change } = self.at;
        self.send(FromAgent::Hello { local: (!self.failed).then_some(local), change, digest: self.digest }, out);
        self.greeted = self.connected;
    }

    fn send(&self, message: FromAgent, out: &mut Vec<AgentAction>) {
        if self.connected {
            out.push(AgentAction::Send(message));
        }
    }
}
