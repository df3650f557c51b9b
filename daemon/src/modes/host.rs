//! The thread of modes: hears agents, operators and the loop that enforces, asks the state machine, and does what it
//! says.

use super::clock::{now, since};
use super::counter::{Counts, News, Outgoing};
use super::history::{ChangeStatus, History, ModesStatus, PeerStatus, StepStatus};
use super::kept::Memory;
use super::order::{BudgetHandles, Carry, Order, Reply};
use super::post::Post;
use super::table::{settings, Begin, Fits};
use crate::{Error, Refused};
use giusto_compute::sched::{self, Attr};
use giusto_compute::{BudgetHandle, Changed, Contained};
use giusto_model::Instant;
use giusto_modes::{Action, Event, Manager, Outcome, Parts, Policy, When};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

/// Above the managers of cores: it asks them for changes, and must not wait behind servers.
const PRIORITY: u32 = 92;
/// It looks by at least as often, in ns.
const BEAT: u64 = 1_000_000_000;
/// In a change it does not sleep for so long, in ns, after whatever it did last: an agent that is boosted answers
/// sooner than a core that sleeps wakes.
const AWAKE: u64 = 500_000;

pub(super) struct Host {
    manager: Manager<Fits>,
    handles: BudgetHandles,
    /// The cgroup of each member that giusto started itself.
    groups: Vec<Option<Contained>>,
    /// The local mode whose server each part of each member has.
    held: Vec<Vec<usize>>,
    post: Post,
    /// The session of each member's agent; 0: none.
    sessions: Vec<u64>,
    memory: Memory,
    orders: Receiver<Order>,
    called: Arc<OwnedFd>,
    carries: Sender<Carry>,
    status: Arc<Mutex<ModesStatus>>,
    history: History,
    /// What was published last, as far as it can change without a change of the mode: who is connected and sound.
    seen: Vec<(bool, bool)>,
    /// Something was done since.
    is_new: bool,
    /// The plan's.
    policy: Policy,
    wake: Option<Instant>,
    asked: BTreeMap<u64, SyncSender<Reply>>,
    /// What the loop that enforces has still to carry out.
    carried: usize,
    last_asked: u64,
    /// What the last command to each member took this thread itself, in ns, its boost included.
    posts: Vec<u64>,
    /// Reservations that grow at a replenishment of theirs that is still too far away.
    later: Vec<Later>,
    out: Vec<Action>,
    /// Answers that are due once the status is up to date.
    ended: Vec<(SyncSender<Reply>, Reply)>,
}

/// A set of reservations that is partly done.
struct Later {
    set: u64,
    member: usize,
    local: usize,
    parts: Vec<usize>,
    earliest: Instant,
    again: Instant,
    in_force: Instant,
}

impl Host {
    pub(super) fn new(
        begin: Begin<'_>,
        (handles, groups): (BudgetHandles, Vec<Option<Contained>>),
        orders: Receiver<Order>,
        called: Arc<OwnedFd>,
        carries: Sender<Carry>,
        status: Arc<Mutex<ModesStatus>>,
    ) -> Result<(Host, Arc<Counts>), Error> {
        let bad = |what: String| Error::Service { name: "modes".into(), what };
        let cores = handles.iter().flatten().filter_map(|handle| handle.core()).collect();
        let (post, counts) = Post::open(begin.modes, called.clone(), cores)?;
        let memory = Memory::open(begin.folder, &begin.table)?;
        let settings = settings(begin.modes);
        let members = begin.table.members().iter();
        let held: Vec<Vec<usize>> =
            members.zip(&begin.locals).map(|(member, &local)| vec![local; member.parts.len()]).collect();
        let mut out = Vec::new();
        let manager = match &begin.kept {
            None => {
                Manager::new(begin.table, settings, begin.fits, &begin.locals).map_err(|why| bad(why.to_string()))?
            }
            Some(kept) => Manager::recover(begin.table, settings, begin.fits, kept, &held, now(), &mut out)
                .map_err(|why| bad(why.to_string()))?,
        };
        let members = held.len();
        let mut host = Host {
            manager,
            posts: vec![0; members],
            handles,
            groups,
            held,
            post,
            sessions: vec![0; members],
            memory,
            orders,
            called,
            carries,
            status,
            history: History::default(),
            seen: Vec::new(),
            is_new: true,
            policy: settings.policy,
            wake: None,
            asked: BTreeMap::new(),
            carried: 0,
            last_asked: 0,
            later: Vec::new(),
            out,
            ended: Vec::new(),
        };
        host.publish();
        Ok((host, counts))
    }

    pub(super) fn run(mut self) {
        if let Err(why) = become_urgent() {
            tracing::warn!("mode changes are made without a real-time priority: {why}");
        }
        self.act();
        while self.obey() && !self.post.has_ended() {
            self.wait();
            while let Ok(one) = self.post.news.try_recv() {
                let event = match one {
                    News::Opened(member, session) => {
                        self.sessions[member] = session;
                        continue;
                    }
                    News::Said(member, message) => Event::Message { member, message },
                    News::Lost(member) => {
                        self.sessions[member] = 0;
                        Event::Lost { member }
                    }
                };
                self.happens(event);
            }
            if self.wake.is_some_and(|at| at <= now()) {
                self.wake = None;
                self.happens(Event::Tick);
            }
            self.catch_up();
        }
    }

    /// Waits until a message has come or something is due.
    fn wait(&self) {
        let at = self.later.iter().map(|later| later.again).chain(self.wake).min();
        let ns = at.map_or(BEAT, |at| at.ns().saturating_sub(now().ns())).min(BEAT);
        let mut fds = [PollFd::new(&*self.called, PollFlags::IN)];
        let begun = now();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while self.manager.changing().is_some() && !self.is_in_the_way() && since(begun) < ns.min(AWAKE) {
            if rustix::event::poll(&mut fds, Some(&at_once)) != Ok(0) {
                break;
            }
        }
        if fds[0].revents().is_empty() {
            let left = ns.saturating_sub(since(begun));
            let timeout = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&*self.called, &mut [0; 8]);
        }
    }

    /// Whether it runs where agents do, or may run where the loop that enforces has something to carry out.
    fn is_in_the_way(&self) -> bool {
        let here = sched::here();
        self.carried > 0 || self.handles.iter().flatten().any(|handle| handle.core().is_none_or(|core| core == here))
    }

    /// Hears operators and the loop that enforces; `false`: it is over.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Stop => return false,
                Order::Carried { member, change, done } => {
                    self.carried = self.carried.saturating_sub(1);
                    self.happens(Event::Carried { member, change, done });
                }
                Order::Change { target, policy, answer } => {
                    if let Some(refused) = policy.and_then(|policy| self.other_policy(policy)) {
                        let _ = answer.try_send(Reply::Ended(Err(refused)));
                        continue;
                    }
                    self.last_asked += 1;
                    let request = self.last_asked;
                    self.asked.insert(request, answer);
                    self.happens(Event::Request { request, target });
                    if self.manager.changing().is_none() {
                        self.manager.set_policy(self.policy); // it was refused, or waits
                    }
                    if let Some(answer) = self.asked.get(&request) {
                        let _ = answer.try_send(Reply::Begun);
                    }
                }
            }
        }
        true
    }

    /// For the change that comes next; why not.
    fn other_policy(&mut self, policy: Policy) -> Option<Refused> {
        let refused = |exit, reason: &str| Some(Refused { exit, reason: reason.into() });
        if policy == Policy::Boost && self.policy != Policy::Boost {
            return refused(1, "no time is reserved for boosts in this plan; expected another policy, or mode-changes: {policy: boost} in the site file");
        }
        match self.manager.set_policy(policy) {
            true => None,
            false => refused(4, "a change is under way, with its own policy; try again"),
        }
    }

    fn happens(&mut self, event: Event) {
        self.manager.handle(now(), event, &mut self.out);
        self.act();
    }

    /// Does what the machine wants done, in its order, and tells it what came of that.
    fn act(&mut self) {
        let mut news = Vec::new();
        while !self.out.is_empty() {
            for action in std::mem::take(&mut self.out) {
                self.carry_out(action, &mut news);
            }
            for event in news.drain(..) {
                self.manager.handle(now(), event, &mut self.out);
            }
        }
        self.handles.iter().flatten().for_each(|handle| handle.wake()); // if a boost has ended and nothing came after it
        if self.manager.changing().is_none() && self.differs() || !self.ended.is_empty() {
            self.publish();
        }
        for (answer, reply) in std::mem::take(&mut self.ended) {
            let _ = answer.try_send(reply); // the client may have gone
        }
    }

    fn carry_out(&mut self, action: Action, news: &mut Vec<Event>) {
        self.is_new |= !matches!(action, Action::Send { .. } | Action::Wake(_));
        match action {
            Action::Send { member, message } => {
                let begun = now();
                self.post.send(Outgoing { member, session: self.sessions[member], message });
                self.posts[member] = since(begun);
            }
            Action::Set { set, member, parts, local, when: When::Now } => {
                news.push(match self.set(member, parts, local) {
                    Ok(in_force) => Event::SetDone { set, in_force },
                    Err(why) => {
                        tracing::warn!("a reservation cannot be changed: {why}");
                        Event::SetFailed { set }
                    }
                });
            }
            Action::Set { set, member, parts, local, when: When::Replenishment(earliest) } => {
                let (parts, at) = (parts.iter().collect(), now());
                self.later.push(Later { set, member, local, parts, earliest, again: at, in_force: at });
                news.extend(self.try_later());
            }
            Action::Boost { member, until } => {
                let begun = now();
                self.boost(member, until);
                self.posts[member] += since(begun);
            }
            Action::EndBoost { member } => {
                if let Some(Err(why)) = self.handle(member, 0).map(BudgetHandle::end_boost) {
                    tracing::warn!("a boost cannot be ended: {why}");
                }
            }
            Action::Carry { member, change, local } => {
                let one = &self.manager.table().members()[member];
                let runs = one.locals[local].name != giusto_model::STOPPED;
                match self.groups.get(member).and_then(Option::as_ref) {
                    Some(contained) => {
                        let done = contained.ask_to_freeze(!runs);
                        done.as_ref().err().into_iter().for_each(|why| tracing::warn!("{}: {why}", one.name));
                        news.push(Event::Carried { member, change, done: done.is_ok() });
                    }
                    None => {
                        self.carried += 1;
                        let _ = self.carries.send(Carry { service: one.name.clone(), runs, member, change });
                    }
                }
            }
            Action::Wake(at) => self.wake = Some(at),
            Action::Keep(kept) => {
                self.memory.keep(&kept);
                let table = self.manager.table();
                self.history.kept(&kept, now().ns(), &|locals| name(table, locals));
                // All else can wait until the change is over; a reader meanwhile sees that there is one, unless
                // it is just reading.
                if let Some(mut status) = kept.open.then(|| self.status.try_lock().ok()).flatten() {
                    status.changing_to = Some(name(table, &kept.to));
                }
            }
            Action::Record(step) => {
                let posted = self.posts[step.member];
                self.history.step(StepStatus::of(&step, posted, self.manager.table()));
            }
            Action::Ended { outcome, .. } => {
                self.history.outcome(word(&outcome));
                self.manager.set_policy(self.policy);
            }
            Action::Answer { request, outcome } => {
                let Some(answer) = self.asked.remove(&request) else { return };
                let reply = self.reply(&outcome);
                self.ended.push((answer, Reply::Ended(reply)));
            }
        }
    }

    /// All of them at once, or none.
    fn set(&mut self, member: usize, parts: Parts, local: usize) -> Result<Instant, giusto_compute::Error> {
        let mut in_force = now();
        let mut done = Vec::new();
        for part in parts.iter() {
            let (Some(&server), Some(handle)) =
                (self.manager.table().server(member, local, part), self.handle(member, part))
            else {
                continue;
            };
            match handle.set(&server) {
                Ok(at) => in_force = in_force.max(at),
                Err(why) => {
                    self.back(member, &done);
                    return Err(why);
                }
            }
            done.push(part);
        }
        done.iter().for_each(|&part| self.held[member][part] = local);
        Ok(in_force)
    }

    /// To what they held before.
    fn back(&self, member: usize, parts: &[usize]) {
        for &part in parts {
            let server = self.manager.table().server(member, self.held[member][part], part);
            if let (Some(&server), Some(handle)) = (server, self.handle(member, part)) {
                if let Err(why) = handle.set(&server) {
                    tracing::error!("a reservation cannot be changed back: {why}; start giusto again");
                }
            }
        }
    }

    fn handle(&self, member: usize, part: usize) -> Option<&dyn BudgetHandle> {
        self.handles.get(member)?.get(part).map(Box::as_ref)
    }

    fn boost(&self, member: usize, until: Instant) {
        if let Some(Err(why)) = self.handle(member, 0).map(|handle| handle.boost(until)) {
            tracing::warn!("an agent is not boosted: {why}");
        }
    }

    /// What waited for a replenishment, and is due.
    fn catch_up(&mut self) {
        let news = self.try_later();
        for event in news {
            self.happens(event);
        }
    }

    fn try_later(&mut self) -> Vec<Event> {
        let mut news = Vec::new();
        let mut later = std::mem::take(&mut self.later);
        later.retain_mut(|later| {
            if later.again > now() {
                return true;
            }
            match self.advance(later) {
                Ok(true) => {
                    news.push(Event::SetDone { set: later.set, in_force: later.in_force });
                    false
                }
                Ok(false) => true,
                Err(why) => {
                    tracing::warn!("a reservation cannot be changed: {why}");
                    let parts = 0..self.held[later.member].len();
                    let changed: Vec<usize> = parts.filter(|part| !later.parts.contains(part)).collect();
                    self.back(later.member, &changed);
                    news.push(Event::SetFailed { set: later.set });
                    false
                }
            }
        });
        self.later = later;
        news
    }

    /// Asks for those parts whose next replenishment is late enough; whether that were all.
    fn advance(&mut self, later: &mut Later) -> Result<bool, giusto_compute::Error> {
        let mut again = Instant::from_ns(u64::MAX);
        let mut left = Vec::new();
        for &part in &later.parts {
            let server = self.manager.table().server(later.member, later.local, part).copied();
            let (Some(server), Some(handle)) = (server, self.handle(later.member, part)) else {
                continue;
            };
            match handle.set_at(&server, later.earliest)? {
                Changed::From(at) => later.in_force = later.in_force.max(at),
                Changed::NotYet(at) => {
                    again = again.min(at);
                    left.push(part);
                }
            }
        }
        let done: Vec<usize> = later.parts.iter().copied().filter(|part| !left.contains(part)).collect();
        done.iter().for_each(|&part| self.held[later.member][part] = later.local);
        (later.parts, later.again) = (left, again);
        Ok(later.parts.is_empty())
    }

    fn reply(&self, outcome: &Outcome) -> Result<ChangeStatus, Refused> {
        let names = |of: &[usize]| -> String {
            let members = self.manager.table().members();
            of.iter().map(|&member| members[member].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let refused = |exit, reason: String| Err(Refused { exit, reason });
        match outcome {
            Outcome::Done { .. } => Ok(self.history.last().cloned().unwrap_or_default()),
            Outcome::Unchanged => {
                let here = name(self.manager.table(), self.manager.locals());
                Ok(ChangeStatus { from: here.clone(), to: here, outcome: "unchanged".into(), ..Default::default() })
            }
            Outcome::Degraded { silent, .. } => {
                let who = names(silent);
                refused(5, format!("the mode is in force, but {who} did not switch in time and has lost its guarantee until it does; look after its agent"))
            }
            Outcome::RolledBack { silent } => {
                let who = names(silent);
                refused(5, format!("{who} did not switch in time, so everyone is in the old mode again; look after its agent: giusto status"))
            }
            Outcome::Preempted => refused(4, "another request took its place".into()),
            Outcome::Stuck { members } => {
                let who = names(members);
                refused(4, format!("the machine refuses reservations of {who} for the new mode and for the old one; start giusto again"))
            }
            Outcome::Refused(refusal) => {
                let table = self.manager.table();
                let reason = why(table, refusal, now());
                use giusto_modes::Refusal::{DoesNotFit, NoOrder, NotAllowed, Unknown};
                let exit = match refusal {
                    DoesNotFit { .. } | NoOrder { .. } => 1,
                    Unknown | NotAllowed => 2,
                    _ => 4,
                };
                refused(exit, reason)
            }
        }
    }

    /// Whether there is anything that was not published: what a member says again and again tells nothing new.
    fn differs(&self) -> bool {
        self.is_new || !self.now_seen().eq(self.seen.iter().copied())
    }

    fn now_seen(&self) -> impl Iterator<Item = (bool, bool)> + '_ {
        (0..self.sessions.len()).map(|member| (self.manager.connected(member), self.manager.sound(member)))
    }

    /// For readers of the status. A reader that holds the status up is not waited for: the next event brings it up to date.
    fn publish(&mut self) {
        (self.seen, self.is_new) = (self.now_seen().collect(), false);
        let (manager, table) = (&self.manager, self.manager.table());
        let members = table.members().iter().zip(manager.locals()).enumerate();
        let members: Vec<PeerStatus> = members
            .map(|(place, (member, &local))| PeerStatus {
                service: member.name.clone(),
                local: member.locals[local].name.clone(),
                connected: member.agent.then(|| manager.connected(place)),
                sound: manager.sound(place),
                throttled: 0,
            })
            .collect();
        let status = ModesStatus {
            mode: manager.mode().map(|mode| table.modes()[mode].name.clone()),
            changing_to: manager.changing().map(|locals| name(table, locals)),
            locals: members.iter().map(|member| member.local.clone()).collect(),
            members,
            changes: self.history.all(),
            refused: 0,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { .. } | Outcome::Unchanged => "done",
        Outcome::Degraded { .. } => "degraded",
        Outcome::Refused(_) => "refused",
        Outcome::RolledBack { .. } => "rolled-back",
        Outcome::Preempted => "preempted",
        Outcome::Stuck { .. } => "stuck",
    }
}

/// What the site calls these local modes; else each by its member.
fn name(table: &giusto_modes::Table, locals: &[usize]) -> String {
    if let Some(mode) = table.modes().iter().find(|mode| mode.locals == locals) {
        return mode.name.clone();
    }
    let members = table.members().iter().zip(locals);
    let each = members.map(|(member, &local)| format!("{}={}", member.name, member.locals[local].name));
    each.collect::<Vec<_>>().join(" ")
}

fn why(table: &giusto_modes::Table, refusal: &giusto_modes::Refusal, now: Instant) -> String {
    use giusto_modes::Refusal;
    let place = |place: &usize| table.places()[*place].name.clone();
    match refusal {
        Refusal::DoesNotFit { place: at } => {
            format!("the servers of that mode do not fit together on {}; 'giusto plan' says what would", place(at))
        }
        Refusal::NoOrder { place: at, members } => {
            let names: Vec<&str> = members.iter().map(|&member| table.members()[member].name.as_str()).collect();
            format!("on {} there is no order in which {} can change without overload on the way; go by a mode that needs less", place(at), names.join(", "))
        }
        Refusal::TooSoon { until } => {
            let ms = until.ns().saturating_sub(now.ns()) / 1_000_000 + 1;
            format!("changes are 'spacing' apart: try again in {ms} ms, or write mode-changes: {{requests: queue}}")
        }
        Refusal::Busy => "a change is under way; try again, or write mode-changes: {requests: queue}".into(),
        other => other.to_string(),
    }
}

/// Above the managers of cores.
fn become_urgent() -> std::io::Result<()> {
    sched::set(0, &Attr::of_policy(sched::FIFO, PRIORITY))
}
