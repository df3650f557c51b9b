//! The server algorithms: pools of cores, driven by calls that carry the time.
//!
//! The algorithms are written once, in C (`policy.h`), so that what is simulated is what runs on a host and in the
//! kernel; this is the thin Rust side, in plain integers of ns. Called by the simulator and by drivers of real machines.
//! Flows in: consumption, readiness, changes, time. Flows out: who runs, and until when. It has no clock, thread or machine,
//! and does not judge whether a set of servers fits.

mod raw;

/// The server algorithm. The core knows it by its number, and as one more `mixed`, which [`Pool::add_mixed`] adds.
pub use giusto_model::ServerKind as Kind;
use raw::{RawPool, CAPACITY, CORES, NEVER};
use thiserror::Error;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smaller `priority` first, ties by index.
    FixedPriority,
    /// The earlier deadline first, ties by index; unlimited servers last.
    Edf,
    /// EDF with virtual deadlines on one core that is in a mode, LO or HI (Asy20); for servers of that, and
    /// [`Kind::Unlimited`] last. Never idle while any server is ready: a server out of budget runs on what is left over.
    MixedCriticality,
}

/// The mode of a core under [`Order::MixedCriticality`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMode {
    /// Every server has its optimistic budget.
    Lo,
    /// A high server asked for its worst budget: each high one has its own, low ones run on what is left over.
    Hi,
}

/// When HI ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// When all high servers are cool and none has pending work.
    #[default]
    Idle,
    /// When all are cool: the rule of Asy20, under which a high server may miss its worst budget.
    Temperature,
}

/// A reservation of a server of mixed criticality, in ns: 0 < optimistic ≤ worst ≤ period ≤ 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// Its budget in LO.
    pub optimistic: u64,
    /// Its budget in HI; `None`: it is of low criticality.
    pub worst: Option<u64>,
    /// From a job's release to its deadline, and at least to the next release.
    pub period: u64,
    /// From a release to the deadline by which it is ranked in LO: at least the optimistic budget, at most the period,
    /// which it is for a low one.
    pub virtual_deadline: u64,
}

/// When a change of a reservation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once: the budget left changes by the difference; a new period begins a new grid.
    Now,
    /// At the next replenishment. One change waits at most; the last wins. The priority stays.
    NextPeriod,
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

/// A server of a pool: its slot, which is another server's once it has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    /// Its slot: among equals the lower one goes first. New servers take the slot that was freed last, else the next.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What [`Pool::decide`] decided; [`Pool::running`] says who has which core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Decide again at this time (ns) at the latest; `None`: nothing will change by itself.
    pub until: Option<u64>,
    /// The cores that another server, or no server, has now, as a mask.
    pub changed: u64,
}

/// A place in the order of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub id: Id,
    /// It is idle, and its budget burns: it keeps a core from those after it, as if it ran.
    pub keeps_core: bool,
    /// It has no claim to a core: it runs on what those before it leave over.
    pub leftovers: bool,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// No room.
    #[error("the pool is full: expected at most 1024 servers; use another pool")]
    Full,
    /// Not a reservation.
    #[error("a budget of {budget} ns in {period} ns is no reservation: expected 0 < budget <= period <= 2^62 ns")]
    Reservation {
        /// B in ns.
        budget: u64,
        /// P in ns.
        period: u64,
    },
    /// Not a reservation of mixed criticality.
    #[error(
        "{} ns of {} ns (worst: {:?}) by {} ns is no reservation of mixed criticality: expected 0 < optimistic <= worst <= \
         period <= 2^62 ns and optimistic <= virtual deadline <= period, which it is for low criticality",
        .0.optimistic, .0.period, .0.worst, .0.virtual_deadline
    )]
    Mixed(Mixed),
    /// Of no kind for this.
    #[error(
        "this kind of server does not belong here: expected mixed (with its own calls, and the criticality it was added \
         with) or unlimited in the order of mixed criticality, and any other kind elsewhere"
    )]
    Kind,
    /// Too late.
    #[error("the first replenishment is at {first} ns: expected at most 2^62 ns (146 years)")]
    First {
        /// In ns.
        first: u64,
    },
    /// As many are boosted as there are cores.
    #[error("{0} servers are boosted already, one a core; end one of these boosts first")]
    Boosts(u32),
    /// Not of this pool.
    #[error("server {0} is not in this pool")]
    Unknown(u32),
}

/// Cores that are scheduled together, and their servers. The clock starts at 0 and ends at 2^62 ns; a time earlier than the
/// last counts as the last. [`Pool::decide`] is O(m log n), and O(n log n) where it changes the mode of mixed criticality; every
/// other call is O(log n + m).
#[derive(Clone)]
pub struct Pool(RawPool);

impl Pool {
    /// An empty pool of one core at time 0.
    pub fn new(order: Order) -> Pool {
        Pool::with_cores(order, 1)
    }

    /// An empty pool of `cores` cores, 1 to 64, at time 0; servers are not bound to one of them. Under
    /// [`Order::MixedCriticality`] a pool has one core.
    pub fn with_cores(order: Order, cores: u32) -> Pool {
        assert!(order != Order::MixedCriticality || cores == 1, "mixed criticality has one core a pool, not {cores}");
        assert!((1..=CORES as u32).contains(&cores), "a pool has 1 to 64 cores, not {cores}");
        Pool(RawPool::new(order as u32, cores))
    }

    /// Adds a server, idle.
    ///
    /// # Errors
    /// The pool has 1,024 servers already, 0 < B ≤ P ≤ 2^62 does not hold, `first` is past 2^62, or the kind does not belong
    /// in a pool of this order.
    pub fn add(&mut self, kind: Kind, params: Params, now: u64) -> Result<Id, Error> {
        let Params { budget, period, first, priority } = params;
        // SAFETY: the pool is valid and ours; the C side keeps every index within bounds. So in all calls here.
        match unsafe { raw::gi_pool_add(self.0.at(), kind as u32, budget, period, first, priority, now) } {
            -1 => Err(Error::Full),
            -2 => Err(Error::Reservation { budget, period }),
            -4 => Err(Error::Kind),
            index => u32::try_from(index).map(Id).map_err(|_| Error::First { first }),
        }
    }

    /// Adds a server of mixed criticality, idle; its first job is released now or when it becomes ready, but not before
    /// `first` (ns; 0: now).
    ///
    /// # Errors
    /// The pool has 1,024 servers already or another order, it is no reservation (see [`Mixed`]), or `first` is past 2^62.
    pub fn add_mixed(&mut self, mixed: Mixed, first: u64, now: u64) -> Result<Id, Error> {
        let Mixed { optimistic, worst, period, virtual_deadline } = mixed;
        // 0 is low for the C side, and no worst budget.
        if worst == Some(0) {
            return Err(Error::Mixed(mixed));
        }
        // SAFETY: see `add`.
        let added = unsafe {
            raw::gi_pool_add_mixed(self.0.at(), optimistic, worst.unwrap_or(0), period, virtual_deadline, first, now)
        };
        match added {
            -1 => Err(Error::Full),
            -3 => Err(Error::First { first }),
            -4 => Err(Error::Kind),
            index => u32::try_from(index).map(Id).map_err(|_| Error::Mixed(mixed)),
        }
    }

    /// Changes a reservation of mixed criticality; a high one stays high, a low one low.
    ///
    /// # Errors
    /// It is no reservation (see [`Mixed`]), the server is of another kind or criticality, or not of this pool; nothing is
    /// changed then.
    pub fn set_mixed(&mut self, id: Id, mixed: Mixed, when: When, now: u64) -> Result<(), Error> {
        let Mixed { optimistic, worst, period, virtual_deadline } = mixed;
        if worst == Some(0) {
            return Err(Error::Mixed(mixed));
        }
        let worst = worst.unwrap_or(0);
        // SAFETY: see `add`.
        let set = unsafe {
            raw::gi_pool_set_mixed(self.0.at(), id.0, optimistic, worst, period, virtual_deadline, when as u32, now)
        };
        match set {
            0 => Ok(()),
            -2 => Err(Error::Mixed(mixed)),
            -4 => Err(Error::Kind),
            _ => Err(Error::Unknown(id.0)),
        }
    }

    /// Under [`Order::MixedCriticality`]: a high server that asked for its worst budget is hot for `degrees` of its periods
    /// from then on (1 unless this is called), and when HI ends.
    pub fn cooling(&mut self, degrees: u32, back: Back) {
        // SAFETY: see `add`.
        unsafe { raw::gi_pool_cooling(self.0.at(), degrees, back as u32) }
    }

    /// The mode of `core`, as the last [`Pool::decide`] left it: [`CoreMode::Lo`] in any order but that of mixed criticality.
    pub fn core_mode(&self, core: u32) -> CoreMode {
        if core < self.0.head().m && self.0.head().mode != 0 {
            CoreMode::Hi
        } else {
            CoreMode::Lo
        }
    }

    /// Changes a reservation. For an unlimited server only the priority counts.
    ///
    /// # Errors
    /// 0 < B ≤ P ≤ 2^62 does not hold, the server is of mixed criticality or not of this pool; nothing is changed then.
    pub fn set(&mut self, id: Id, budget: u64, period: u64, priority: u32, when: When, now: u64) -> Result<(), Error> {
        // SAFETY: see `add`.
        match unsafe { raw::gi_pool_set(self.0.at(), id.0, budget, period, priority, when as u32, now) } {
            0 => Ok(()),
            -2 => Err(Error::Reservation { budget, period }),
            -4 => Err(Error::Kind),
            _ => Err(Error::Unknown(id.0)),
        }
    }

    /// Takes a server out; its slot is the next to be given away. Returns from when on (ns) its bandwidth is free: when it
    /// would have had a full budget in a new period, had it stayed, idle. A server that takes the bandwidth over has its
    /// `first` replenishment then at the earliest, and not before what the removal of any before it told: all of them together
    /// consume no more in any window than one could.
    ///
    /// # Errors
    /// The server is not of this pool.
    pub fn remove(&mut self, id: Id, now: u64) -> Result<u64, Error> {
        // SAFETY: see `add`.
        match unsafe { raw::gi_pool_remove(self.0.at(), id.0, now) } {
            0 => Ok(self.0.head().freed),
            _ => Err(Error::Unknown(id.0)),
        }
    }

    /// Puts a server above all others until then, whether or not it has budget; first come, first served among the boosted.
    /// Boosting again moves the end, and an end that is not in the future ends the boost.
    ///
    /// # Errors
    /// As many are boosted as there are cores, or the server is not of this pool.
    pub fn boost(&mut self, id: Id, until: u64, now: u64) -> Result<(), Error> {
        // SAFETY: see `add`.
        match unsafe { raw::gi_pool_boost(self.0.at(), id.0, until, now) } {
            0 => Ok(()),
            -1 => Err(Error::Boosts(self.0.head().m)),
            _ => Err(Error::Unknown(id.0)),
        }
    }

    /// The server on `core` really had the processor for `ran_ns` since the last charge: less than the time that passed if it
    /// slept or the time was stolen, never more. A core that is not charged is charged for all of it by the next other call.
    #[inline]
    pub fn charge(&mut self, core: u32, ran_ns: u64, now: u64) {
        // SAFETY: see `add`.
        unsafe { raw::gi_pool_charge(self.0.at(), core, ran_ns, now) }
    }

    /// The server had the processor for `ran_ns` besides what its core is charged for: it ran on while it was being stopped,
    /// or on a core of another pool. It pays for it from what is left and its next budgets. Nothing for [`Kind::Unlimited`] and
    /// mixed criticality. Before a decision of the same instant, as a charge.
    #[inline]
    pub fn owe(&mut self, id: Id, ran_ns: u64, now: u64) {
        // SAFETY: see `ready`.
        unsafe { raw::gi_pool_owe(self.0.at(), id.0, ran_ns, now) }
    }

    /// The server's workload became ready or went idle. Takes effect at the next [`Pool::decide`].
    #[inline]
    pub fn ready(&mut self, id: Id, is_ready: bool, now: u64) {
        // SAFETY: see `add`; an id of another pool is another server of this one, or ignored.
        unsafe { raw::gi_pool_ready(self.0.at(), id.0, u32::from(is_ready), now) }
    }

    /// Replenishes what is due and assigns all cores.
    #[inline]
    pub fn decide(&mut self, now: u64) -> Decision {
        let pool = &mut self.0;
        // SAFETY: see `add`.
        let changed = unsafe { raw::gi_pool_decide(pool.at(), now) };
        let until = pool.head().until;
        Decision { until: (until != NEVER).then_some(until), changed }
    }

    /// Who may run, highest first, the idle among them at the places that they would have if they woke: the first
    /// `capacity` of them, as the last [`Pool::decide`] left them. Going down, each that is ready or [`Place::keeps_core`]
    /// takes a core until all are taken. The ready ones that take a core run. When a server wakes or sleeps, the same walk
    /// over the new states gives the servers that run. O(n log n).
    pub fn order(&mut self, capacity: usize) -> Vec<Place> {
        let mut places = vec![0u32; capacity.min(CAPACITY)];
        // SAFETY: see `add`; there is room for as many as are asked for.
        let n = unsafe { raw::gi_pool_order(self.0.at(), places.as_mut_ptr(), places.len() as u32) };
        let place = |&place: &u32| Place {
            id: Id(place % CAPACITY as u32),
            keeps_core: place & 1 << 16 != 0,
            leftovers: place & 1 << 17 != 0,
        };
        places[..n as usize].iter().map(place).collect()
    }

    /// The next replenishment, as the last [`Pool::decide`] saw it: what comes before it in [`Decision::until`] is the end of
    /// a budget or of a boost, which real mechanisms enforce late.
    pub fn replenishes(&self) -> Option<u64> {
        let refill = self.0.head().refill;
        (refill != NEVER).then_some(refill)
    }

    /// Who has `core`.
    #[inline]
    pub fn running(&self, core: u32) -> Option<Id> {
        let pool = &self.0;
        pool.head().core.get(core as usize).filter(|core| core.runs < pool.head().count).map(|core| Id(core.runs))
    }

    /// The server that is charged for what runs on `core`; `None` on a lent budget, for which only the lender is charged.
    pub fn payer(&self, core: u32) -> Option<Id> {
        let pool = &self.0;
        pool.head().core.get(core as usize).filter(|core| core.payer < pool.head().count).map(|core| Id(core.payer))
    }

    /// Budget left at the time of the last call, in ns; below 0 is debt. 0 for an unlimited server; of one of mixed criticality,
    /// of what the mode gives.
    pub fn left_ns(&self, id: Id) -> i64 {
        self.look(id)[0] as i64
    }

    /// At the time of the last call, in ns: the next replenishment of a grid, the deadline of a CBS or mixed server, or for a sporadic server one
    /// period after its head; `u64::MAX` for an unlimited server.
    pub fn deadline_ns(&self, id: Id) -> u64 {
        self.look(id)[1]
    }

    /// What it has consumed boosted beyond its budget, in ns.
    pub fn boost_ns(&self, id: Id) -> u64 {
        self.look(id)[2]
    }

    /// What [`Pool::left_ns`] and [`Pool::deadline_ns`] tell, for one look.
    pub fn left_and_deadline_ns(&self, id: Id) -> (i64, u64) {
        let [left, deadline, _] = self.look(id);
        (left as i64, deadline)
    }

    fn look(&self, id: Id) -> [u64; 3] {
        let mut seen = [0; 3];
        // SAFETY: see `add`; looking does not write to the pool.
        unsafe { raw::gi_pool_look(self.0.head(), id.0, &mut seen) };
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn in_core(kind: u32) -> Option<String> {
        // SAFETY: it returns a constant string, or null for what is no kind.
        let name = unsafe { raw::gi_pool_kind_name(kind).as_ref().map(|name| CStr::from_ptr(name)) };
        name.map(|name| name.to_string_lossy().into_owned())
    }

    #[test]
    fn a_kind_has_one_number_and_one_name_here_and_in_the_core() {
        for kind in Kind::ALL {
            assert_eq!(in_core(kind as u32), Some(kind.to_string()));
        }
        let beyond = Kind::ALL.len() as u32;
        assert_eq!((in_core(beyond).as_deref(), in_core(beyond + 1)), (Some("mixed"), None));
    }
}
