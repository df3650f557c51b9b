//! The server algorithms: one pool of one core, driven by calls that carry the time.
//!
//! The algorithms are written once, in C (`policy.h`), so that what is simulated is what runs on a host and in the
//! kernel; this is the thin Rust side, in plain integers of ns. Called by the simulator and by drivers of real machines.
//! Flows in: consumption, readiness, time. Flows out: who runs, and until when. It has no clock, thread or machine, and
//! does not judge whether a set of servers fits.

mod raw;

use raw::{RawPool, RawServer, CAPACITY, NEVER};
use thiserror::Error;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smaller `priority` first, ties by index.
    FixedPriority,
    /// The earlier deadline first, ties by index; unlimited servers last.
    Edf,
}

/// The server algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Full budget on a fixed grid whether or not it is idle; used only while the workload runs; what is left is lost at
    /// the next replenishment.
    Deferrable,
    /// Hard CBS, as SCHED_DEADLINE does it: a wake-up keeps budget and deadline unless they would exceed the bandwidth,
    /// else a new period begins; depleted, it waits for its deadline.
    ConstantBandwidth,
    /// Never throttled; budget, period and `first` are ignored.
    Unlimited,
}

/// A reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// B in ns, 0 < B ≤ P.
    pub budget: u64,
    /// P in ns, at most 2^62.
    pub period: u64,
    /// The first replenishment in ns, before which there is no budget; it anchors the grid. 0: now, with full budget.
    pub first: u64,
    /// Smaller is higher; used by [`Order::FixedPriority`].
    pub priority: u32,
}

/// A server of a pool: its index, in the order of [`Pool::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

/// What [`Pool::decide`] decided; [`Pool::running`] says who has the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Decide again at this time (ns) at the latest; `None`: nothing will change by itself.
    pub until: Option<u64>,
    /// Whether another server (or nobody) has the core now.
    pub changed: bool,
}

/// Why a server was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// No room.
    #[error("the pool is full: expected at most 64 servers; use another pool")]
    Full,
    /// Not a reservation.
    #[error("a budget of {budget} ns in {period} ns is no reservation: expected 0 < budget <= period <= 2^62 ns")]
    Reservation {
        /// B in ns.
        budget: u64,
        /// P in ns.
        period: u64,
    },
    /// Too late.
    #[error("the first replenishment is at {first} ns: expected at most 2^62 ns (146 years)")]
    First {
        /// In ns.
        first: u64,
    },
}

/// One core and its servers. The clock starts at 0 and ends at 2^62 ns; a time earlier than the last counts as the last.
/// [`Pool::decide`] is O(servers), every other call O(1).
#[derive(Clone)]
pub struct Pool(Box<RawPool>);

impl Pool {
    /// An empty pool at time 0.
    pub fn new(order: Order) -> Pool {
        Pool(RawPool::boxed(match order {
            Order::FixedPriority => 0,
            Order::Edf => 1,
        }))
    }

    /// Adds a server, idle.
    ///
    /// # Errors
    /// The pool has 64 servers already, 0 < B ≤ P ≤ 2^62 does not hold, or `first` is past 2^62.
    pub fn add(&mut self, kind: Kind, params: Params, now: u64) -> Result<Id, Error> {
        let Params { budget, period, first, priority } = params;
        let kind = match kind {
            Kind::Deferrable => 0,
            Kind::ConstantBandwidth => 1,
            Kind::Unlimited => 2,
        };
        // SAFETY: the pool is valid and ours; the C side keeps every index below CAPACITY. So in all calls here.
        match unsafe { raw::gi_pool_add(&mut *self.0, kind, budget, period, first, priority, now) } {
            -1 => Err(Error::Full),
            -2 => Err(Error::Reservation { budget, period }),
            index => u32::try_from(index).map(Id).map_err(|_| Error::First { first }),
        }
    }

    /// The running server really had the processor for `ran_ns` since the last call: less than the time that passed if it
    /// slept or the time was stolen, never more. Without this call the server is charged for all of it.
    #[inline]
    pub fn charge(&mut self, ran_ns: u64, now: u64) {
        // SAFETY: see `add`.
        unsafe { raw::gi_pool_charge(&mut *self.0, 0, ran_ns, now) }
    }

    /// The server's workload became ready or went idle. Takes effect at the next [`Pool::decide`].
    #[inline]
    pub fn ready(&mut self, id: Id, is_ready: bool, now: u64) {
        // SAFETY: see `add`; an id of another pool is another server of this one, or ignored.
        unsafe { raw::gi_pool_ready(&mut *self.0, id.0, u32::from(is_ready), now) }
    }

    /// Replenishes what is due and assigns the core.
    #[inline]
    pub fn decide(&mut self, now: u64) -> Decision {
        // SAFETY: see `add`.
        let changed = unsafe { raw::gi_pool_decide(&mut *self.0, now) } != 0;
        Decision { until: (self.0.until != NEVER).then_some(self.0.until), changed }
    }

    /// Who has the core.
    #[inline]
    pub fn running(&self) -> Option<Id> {
        let payer = self.0.core.payer;
        ((payer as usize) < CAPACITY).then_some(Id(payer))
    }

    /// Budget left at the time of the last call, in ns; below 0 is debt. 0 for an unlimited server.
    pub fn left_ns(&self, id: Id) -> i64 {
        self.look(id).left
    }

    /// At the time of the last call, in ns: the next replenishment of a grid, or the CBS deadline; `u64::MAX` for an
    /// unlimited server.
    pub fn deadline_ns(&self, id: Id) -> u64 {
        self.look(id).deadline
    }

    fn look(&self, id: Id) -> RawServer {
        let mut seen = RawServer::default();
        // SAFETY: both are valid; the C side masks the index.
        unsafe { raw::gi_pool_look(&*self.0, id.0, &mut seen) };
        seen
    }
}
