//! One reservation of a member, as far as a change of mode has to do with it.

use giusto_compute::manager::{Lever, When};
use giusto_model::{Instant, Server};

/// What changes one server, from the thread of modes.
#[derive(Clone, Debug)]
pub(crate) enum Grip {
    /// Giusto's own manager.
    Managed(Lever),
    /// SCHED_DEADLINE: changes count at once, and boosts are a small reservation that the agent always has.
    Deadline(giusto_compute::Grip),
}

/// How a change went.
pub(super) enum Changed {
    /// In force from then on.
    From(Instant),
    /// Not before it replenishes at this time: to be asked again then.
    NotYet(Instant),
}

impl Grip {
    /// Where its server is; `None`: wherever the kernel has it.
    pub(super) fn core(&self) -> Option<u32> {
        match self {
            Grip::Managed(lever) => Some(lever.core()),
            Grip::Deadline(_) => None,
        }
    }

    /// At once; what was consumed of the old budget may make one budget of others late.
    pub(super) fn set(&self, server: Server) -> Result<Instant, giusto_compute::Error> {
        match self {
            Grip::Managed(lever) => lever.set(server, When::Now).map(Instant::from_ns),
            Grip::Deadline(grip) => grip.set(&server).map(|()| now()),
        }
    }

    /// At its first replenishment that is not before `earliest`.
    pub(super) fn set_at(&self, server: Server, earliest: Instant) -> Result<Changed, giusto_compute::Error> {
        match self {
            Grip::Managed(lever) => {
                let next = Instant::from_ns(lever.replenishes()?);
                if next < earliest && next > now() {
                    return Ok(Changed::NotYet(next));
                }
                lever.set(server, When::NextPeriod).map(|at| Changed::From(Instant::from_ns(at)))
            }
            // The kernel changes at once: later than its own replenishment, never before `earliest`.
            Grip::Deadline(_) if now() < earliest => Ok(Changed::NotYet(earliest)),
            Grip::Deadline(grip) => grip.set(&server).map(|()| Changed::From(now())),
        }
    }

    /// No longer before all others, from the next command to its core on or from [`Grip::wake`].
    pub(super) fn end_boost(&self) {
        if let Grip::Managed(lever) = self {
            if let Err(why) = lever.end_boost() {
                tracing::warn!("a boost cannot be ended: {why}");
            }
        }
    }

    pub(super) fn wake(&self) {
        if let Grip::Managed(lever) = self {
            lever.wake();
        }
    }

    /// Before all others until then.
    pub(super) fn boost(&self, until: Instant) {
        if let Grip::Managed(lever) = self {
            if let Err(why) = lever.boost(until.ns()) {
                tracing::warn!("an agent is not boosted: {why}");
            }
        }
    }
}

/// CLOCK_MONOTONIC, as managers and agents of this host have it.
pub(super) fn now() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_ns(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Until now, in ns.
pub(super) fn since(begun: Instant) -> u64 {
    now().ns().saturating_sub(begun.ns())
}
