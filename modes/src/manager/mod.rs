//! The manager of a host [LiH21, section 2.3]: when which reservation changes and which member is told to switch.

mod change;
mod command;
mod fit;
mod member;
mod order;
mod recover;
mod requests;
mod reserve;
mod scratch;

use crate::admission::Admission;
use crate::event::{Action, Event, Kept, Outcome, Requester, Target};
use crate::message::FromAgent;
use crate::settings::{Policy, Settings, SettingsError};
use crate::table::Table;
use giusto_model::Instant;
use member::{Phase, State};
pub use recover::RecoverError;
use scratch::Scratch;
use std::collections::VecDeque;

/// The manager. [`Manager::handle`] takes events and says what is to be done; it has no clock, thread or socket.
///
/// A member whose parts grow and shrink in one change gets those that grow first, then its command, then gives those
/// that shrink: what it has covers what its tasks may need, old or new, at every moment. An event costs O(members ·
/// parts) and the admission tests of the places where something may start.
pub struct Manager<A> {
    table: Table,
    settings: Settings,
    admission: A,
    members: Vec<State>,
    /// Who is in each place: member and part.
    on: Vec<Vec<(usize, usize)>>,
    change: Option<Change>,
    waiting: VecDeque<Waiting>,
    /// An urgent request that waits for nothing but the change under way, which it cannot take over from.
    urgent: Option<Waiting>,
    /// The local modes of the last change that ended, or began from.
    settled: Vec<usize>,
    /// When the last change ended; until it does, when it began.
    rested: Option<Instant>,
    /// The same of the last urgent one.
    urgent_rested: Option<Instant>,
    last_change: u64,
    last_set: u64,
    wake: Option<Instant>,
    scratch: Scratch,
}

/// A request that waits.
struct Waiting {
    who: Requester,
    to: Vec<usize>,
    asked: Instant,
    urgent: bool,
}

/// The change under way.
struct Change {
    id: u64,
    who: Requester,
    asked: Instant,
    from: Vec<usize>,
    to: Vec<usize>,
    back: bool,
    urgent: bool,
    /// Each member may be boosted once: not on the way back, nor after a restart, when the manager before it may have done so.
    boosts: bool,
    /// All members; those at the end have nothing to do.
    order: Vec<usize>,
    silent: Vec<usize>,
    /// Whose reservation the machine refuses.
    stuck: Vec<usize>,
    /// The latest time at which a reservation comes into force.
    in_force: Instant,
    /// Something has changed since it was last tried what may start.
    news: bool,
}

impl<A: Admission> Manager<A> {
    /// A manager in a mode that is in force: every reservation as in `locals`, and nothing else known of the agents.
    /// They are told to switch if their Hello says otherwise.
    ///
    /// # Errors
    /// Settings that make no sense for so many members.
    ///
    /// # Panics
    /// If `locals` is not a local mode for each member of the table: a mistake of the caller.
    pub fn new(table: Table, settings: Settings, admission: A, locals: &[usize]) -> Result<Manager<A>, SettingsError> {
        settings.validate(table.members().len(), table.at_once())?;
        assert!(known(&table, locals), "a local mode for each member");
        let members = table.members().iter().zip(locals).map(|(member, &local)| State::new(member, local)).collect();
        let mut on = vec![Vec::new(); table.places().len()];
        for (index, member) in table.members().iter().enumerate() {
            member.parts.iter().enumerate().for_each(|(part, &place)| on[place].push((index, part)));
        }
        let settled = locals.to_vec();
        Ok(Manager {
            table,
            settings,
            admission,
            members,
            on,
            change: None,
            waiting: VecDeque::new(),
            urgent: None,
            settled,
            rested: None,
            urgent_rested: None,
            last_change: 0,
            last_set: 0,
            wake: None,
            scratch: Scratch::default(),
        })
    }

    /// Takes one event that came at `now`, and appends what is to be done. Times do not run backwards.
    pub fn handle(&mut self, now: Instant, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Request { request, target } => self.request(Requester::Operator(request), target, now, out),
            Event::Message { member, message } if member < self.members.len() => self.hear(member, message, now, out),
            Event::Lost { member } if member < self.members.len() => {
                let state = &mut self.members[member];
                state.connected &= !state.agent;
            }
            Event::Carried { member, change, done } if member < self.members.len() => {
                if done {
                    self.acknowledged(member, change, None, now, out);
                } else {
                    self.refused(member, change, now, out);
                }
            }
            Event::SetDone { set, in_force } => self.set_done(set, Some(in_force), now, out),
            Event::SetFailed { set } => self.set_done(set, None, now, out),
            Event::Tick => {
                self.wake = None;
                self.news();
            }
            Event::Message { .. } | Event::Lost { .. } | Event::Carried { .. } => {}
        }
        self.progress(now, out);
        self.ask_to_be_woken(now, out);
    }

    /// In which order members change from now on; whether it was taken over: not during a change.
    pub fn set_policy(&mut self, policy: Policy) -> bool {
        let idle = self.change.is_none();
        if idle {
            self.settings.policy = policy;
        }
        idle
    }

    /// The global mode: of the last change that ended. `None`: one that the table does not have.
    pub fn mode(&self) -> Option<usize> {
        self.table.modes().iter().position(|mode| mode.locals == self.settled)
    }
    /// The same, member by member.
    pub fn locals(&self) -> &[usize] {
        &self.settled
    }
    /// Where the change under way leads; `None`: none is.
    pub fn changing(&self) -> Option<&[usize]> {
        self.change.as_ref().map(|change| if change.back { change.from.as_slice() } else { change.to.as_slice() })
    }
    /// Whether a member runs the tasks that its reservation is for, as far as the manager knows. One that does not, or of
    /// which a restarted manager has not heard yet, has lost its own guarantee until it says that it does.
    pub fn sound(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|state| !state.failed && state.heard)
    }
    /// Whether its agent has a session.
    pub fn connected(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|state| state.connected)
    }
    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn hear(&mut self, member: usize, message: FromAgent, now: Instant, out: &mut Vec<Action>) {
        match message {
            FromAgent::Hello { local, change, digest } => self.hello(member, local, change, digest, now, out),
            FromAgent::Done { change, local, received_ns, switched_ns }
                if usize::from(local) == self.members[member].told.1 =>
            {
                self.acknowledged(member, change, Some((received_ns, switched_ns)), now, out)
            }
            FromAgent::Done { .. } => {}
            FromAgent::Failed { change } => self.refused(member, change, now, out),
            FromAgent::Ask { request, mode } => {
                let who = Requester::Member(member, request);
                match self.table.mode(&mode) {
                    Some(mode) => self.request(who, Target::Mode(mode), now, out),
                    None => answer(who, Outcome::Refused(crate::Refusal::Unknown), out),
                }
            }
        }
    }

    /// What a restarted manager must know now.
    fn kept(&self) -> Kept {
        let settled = || (self.settled.clone(), self.settled.clone(), false, false);
        let (from, to, back, open) =
            self.change.as_ref().map_or_else(settled, |c| (c.from.clone(), c.to.clone(), c.back, true));
        let unsound = (0..self.members.len()).filter(|&member| self.members[member].failed).collect();
        Kept { change: self.last_change, from, to, back, open, unsound }
    }

    /// Of the change under way, for this member; else what is settled.
    fn target(&self, member: usize) -> usize {
        self.changing().unwrap_or(&self.settled)[member]
    }

    fn ask_to_be_woken(&mut self, now: Instant, out: &mut Vec<Action>) {
        let next = self.next_time(now);
        if next.is_some() && next != self.wake {
            self.wake = next;
            out.extend(next.map(|at| Action::Wake(at.max(now))));
        }
    }

    fn next_time(&self, now: Instant) -> Option<Instant> {
        let phases = self.members.iter().filter_map(|state| match state.phase {
            Phase::Raised { at } => Some(at),
            Phase::Commanded { until } => Some(until),
            _ => state.waits_until(now),
        });
        // One whose time has come waits for something else.
        let turn = self.may_begin().filter(|&at| at > now && !self.waiting.is_empty());
        phases.chain(turn).min()
    }
}

fn known(table: &Table, locals: &[usize]) -> bool {
    let members = table.members();
    locals.len() == members.len() && locals.iter().zip(members).all(|(&local, member)| local < member.locals.len())
}

fn answer(who: Requester, outcome: Outcome, out: &mut Vec<Action>) {
    match who {
        Requester::Operator(request) => out.push(Action::Answer { request, outcome }),
        Requester::Member(member, request) => {
            let message = crate::ToAgent::Answer { request, answered: outcome.word() };
            out.push(Action::Send { member, message });
        }
        Requester::None => {}
    }
}
