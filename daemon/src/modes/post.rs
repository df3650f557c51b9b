//! Between the thread of modes and the thread that hears agents: what came, parsed and in a queue that is bounded, and
//! what is to be sent.
//!
//! So the thread of modes, which goes before those who enforce, does nothing for the network: no socket, no byte, no
//! key. Whatever strangers and members do costs it only the messages that members are allowed.

use super::counter::{ring, Counter, Counts, News, Outgoing};
use super::peers::Peers;
use crate::Error;
use giusto_model::ModesPlan;
use rustix::event::{eventfd, EventfdFlags};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

/// So many messages wait for the thread of modes at most; then nothing is read until it has taken them.
const WAITING: usize = 256;

/// The end of the thread of modes. Dropped, the other thread ends.
pub(super) struct Post {
    pub(super) news: Receiver<News>,
    out: Sender<Outgoing>,
    bell: Arc<OwnedFd>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
        let counts = Arc::new(Counts::new(modes.members.len()));
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
