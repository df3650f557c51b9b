//! Mode changes on this host [LiH21, chapter 2]: the manager of `modes` with real sockets, a real clock and the
//! reservations of this host.
//!
//! One thread decides ([`host`]), at a priority above those who enforce, and waits for none but them: agents,
//! operators and the loop that enforces are heard as they come. It does nothing for the network: a thread below
//! all of them has the sockets, proves who speaks, and hands over what members say ([`peers`], [`post`]). That loop
//! starts it ([`Modes::start`]) and carries out what only it can: stopping services without agents ([`Modes::wait`]).

mod allowance;
mod clock;
mod counter;
mod history;
mod host;
mod kept;
mod order;
mod peers;
mod post;
mod table;

pub use history::{ChangeStatus, ModesStatus, PeerStatus, StepStatus};
pub(crate) use kept::forget;
pub(crate) use table::Begin;

use crate::{Error, Refused, Wish};
use giusto_compute::Contained;
use order::{BudgetHandles, Carry, Order, Reply};
use rustix::event::{eventfd, EventfdFlags};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where wishes go in; shared with the threads that serve operators.
#[derive(Clone)]
pub struct Wishes {
    orders: Sender<Order>,
    call: Arc<OwnedFd>,
    status: Arc<Mutex<ModesStatus>>,
    counts: Arc<counter::Counts>,
    names: Arc<table::Names>,
}

/// The manager of this host's modes, until it is dropped.
pub(crate) struct Modes {
    wishes: Wishes,
    carries: Receiver<Carry>,
    thread: Option<JoinHandle<()>>,
}

impl Modes {
    /// Listens for agents and begins. `begin` is the mode in force, whose reservations `handles` hold: of each member of
    /// the plan, part by part. `groups` are those members without agents that giusto started: their cgroups.
    ///
    /// Errors: a key is no key, an address cannot be listened on, the plan's modes make no table.
    pub(crate) fn start(
        begin: Begin<'_>,
        handles: BudgetHandles,
        groups: Vec<Option<Contained>>,
    ) -> Result<Modes, Error> {
        let (orders, received) = channel();
        let (carry, carries) = channel();
        let cannot = |doing: &str| {
            let doing = doing.to_string();
            move |why: rustix::io::Errno| Error::Io { doing, source: why.into() }
        };
        let call = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(cannot("make an eventfd"))?;
        let call = Arc::new(call);
        let status = Arc::new(Mutex::new(ModesStatus::default()));
        let names = Arc::new(table::Names::of(begin.modes));
        let (host, counts) = host::Host::new(begin, (handles, groups), received, call.clone(), carry, status.clone())?;
        let thread = std::thread::Builder::new().name("giusto-modes".into()).spawn(move || host.run());
        let thread = thread.map_err(|source| Error::Io { doing: "start the thread of modes".into(), source })?;
        Ok(Modes { wishes: Wishes { orders, call, status, counts, names }, carries, thread: Some(thread) })
    }

    /// Only by a mistake of its own.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn wishes(&self) -> Wishes {
        self.wishes.clone()
    }

    /// For so long, or until something is to be carried out, which has to be answered with [`Modes::carried`].
    pub(crate) fn wait(&self, at_most: Duration) -> Option<Carry> {
        match self.carries.recv_timeout(at_most) {
            Ok(carry) => Some(carry),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(at_most);
                None
            }
        }
    }

    /// It was carried out, or could not be.
    pub(crate) fn carried(&self, carry: &Carry, done: bool) {
        self.wishes.send(Order::Carried { member: carry.member, change: carry.change, done });
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        self.wishes.send(Order::Stop);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Wishes {
    /// Changes the mode; returns how that ended, or `None` once it has begun if the wish is not to wait.
    ///
    /// Errors: there is no such mode or service; it does not fit; another change is under way; how a change failed.
    pub(crate) fn change(&self, wish: &Wish) -> Result<Option<ChangeStatus>, Refused> {
        let stopping = || Refused { exit: 4, reason: "giusto is stopping".into() };
        let now = self.status().locals;
        let target = self.names.target(wish.mode.as_deref(), &wish.services, &now)?;
        let (answer, answered) = sync_channel(2);
        self.send(Order::Change { target, policy: wish.policy.map(table::policy), answer });
        loop {
            match answered.recv() {
                Ok(Reply::Begun) if !wish.wait => return Ok(None),
                Ok(Reply::Begun) => {}
                Ok(Reply::Ended(done)) => return done.map(Some),
                Err(_) => return Err(stopping()),
            }
        }
    }

    pub(crate) fn status(&self) -> ModesStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.refused = self.counts.refused();
        status.members.iter_mut().enumerate().for_each(|(at, one)| one.throttled = self.counts.throttled(at));
        status
    }

    fn send(&self, order: Order) {
        let _ = self.orders.send(order); // it may have ended
        let _ = rustix::io::write(&*self.call, &1u64.to_ne_bytes());
    }
}
