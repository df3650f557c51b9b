//! The end of the thread that hears agents: what came, parsed, and what those who connect have come to.

use giusto_modes::{FromAgent, ToAgent};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::Arc;

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
    pub(super) fn new(members: usize) -> Counts {
        Counts { refused: AtomicU64::new(0), throttled: (0..members).map(|_| AtomicU64::new(0)).collect() }
    }
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

/// The end of the thread that hears agents.
pub(super) struct Counter {
    pub(super) out: Receiver<Outgoing>,
    pub(super) news: SyncSender<News>,
    pub(super) bell: Arc<OwnedFd>,
    pub(super) call: Arc<OwnedFd>,
    pub(super) stopped: Arc<AtomicBool>,
    pub(super) counts: Arc<Counts>,
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

/// Wakes the thread at the other end.
pub(super) fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}
