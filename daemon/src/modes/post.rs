//! Between the thread of modes and the thread that hears agents: what came, parsed and in a queue that is bounded, and
//! what is to be sent.
//!
//! So the thread of modes, which goes before those who enforce, does nothing for the network: no socket, no byte, no
//! key. Whatever strangers and members do costs it only the messages that members are allowed.

use super::peers::Peers;
use crate::Error;
use giusto_model::ModesPlan;
use giusto_modes::{FromAgent, ToAgent};
use rustix::event::{eventfd, EventfdFlags};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender, TrySendError};
use std::sync::Arc;
use std::thread::JoinHandle;

/// So many messages wait for the thread of modes at most; then nothing is read until it has taken them.
const WAITING: usize = 256;

/// What happened. Sessions of a member are numbered, from 1.
pub(super) enum News {
    /// Its agent has a session, the one before has ended.
    Opened(usize, u64),
    /// It says something.
    Said(usize, FromAgent),
    /// Its session has ended.
    Lost(usize),
}

/// A message for the agent of a member, in this session and no other.
pub(super) struct Outgoing {
    pub(super) member: usize,
    pub(super) session: u64,
    pub(super) message: ToAgent,
}

/// What those who connect have come to, for status and metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    refused: AtomicU64,
    /// By member: how often its agent had to wait as it said too much.
    throttled: Vec<AtomicU64>,
}

impl Counts {
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
    pub(super) fn throttled(&self, member: usize) -> u64 {
        self.throttled.get(member).map_or(0, |count| count.load(Ordering::Relaxed))
    }
    pub(super) fn throttle(&self, member: usize) {
        self.throttled.get(member).map(|count| count.fetch_add(1, Ordering::Relaxed));
    }
}

/// The end of the thread of modes. Dropped, the other thread ends.
pub(super) struct Post {
    pub(super) news: Receiver<News>,
    out: Sender<Outgoing>,
    bell: Arc<OwnedFd>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The end of the thread that hears agents.
pub(super) struct Counter {
    pub(super) out: Receiver<Outgoing>,
    news: SyncSender<News>,
    bell: Arc<OwnedFd>,
    call: Arc<OwnedFd>,
    stopped: Arc<AtomicBool>,
    pub(super) counts: Arc<Counts>,
}

impl Post {
    /// Listens, and hears agents from now on. `call` wakes the thread of modes; `cores` are those that managers have:
    /// where there are others, agents are heard there.
    ///
    /// Errors: a key is no key, an address cannot be listened on.
    pub(super) fn open(modes: &ModesPlan, call: Arc<OwnedFd>, cores: Vec<u32>) -> Result<(Post, Arc<Counts>), Error> {
        let io = |doing: &str, source| Error::Io { doing: doing.into(), source };
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let bell = Arc::new(eventfd(0, flags).map_err(|why| io("make an eventfd", why.into()))?);
        let (news, received) = sync_channel(WAITING);
        let (out, sent) = channel();
        let throttled = modes.members.iter().map(|_| AtomicU64::new(0)).collect();
        let counts = Arc::new(Counts { refused: AtomicU64::new(0), throttled });
        let stopped = Arc::new(AtomicBool::new(false));
        let counter =
            Counter { out: sent, news, bell: bell.clone(), call, stopped: stopped.clone(), counts: counts.clone() };
        let peers = Peers::listen(modes, counter)?;
        let thread = std::thread::Builder::new().name("giusto-agents".into()).spawn(move || peers.run(&cores));
        let thread = thread.map_err(|why| io("start the thread that hears agents", why))?;
        Ok((Post { news: received, out, bell, stopped, thread: Some(thread) }, counts))
    }

    /// Hands it over: a few microseconds.
    pub(super) fn send(&self, outgoing: Outgoing) {
        let _ = self.out.send(outgoing); // it may have ended
        ring(&self.bell);
    }

    /// Only by a mistake of its own.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        ring(&self.bell);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Counter {
    /// Whether it was taken; if not, it comes back.
    pub(super) fn tell(&self, news: News) -> Result<(), News> {
        let told = self.news.try_send(news);
        ring(&self.call);
        match told {
            Err(TrySendError::Full(news)) => Err(news),
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Rings when there is something to be sent.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }
}

fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}
