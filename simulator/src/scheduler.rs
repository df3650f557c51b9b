//! What plays in virtual time: the policy core, or something to compare it with.

use giusto_policy::{Id, Pool};

/// Decides which servers have the cores of a pool. Servers are numbered in the order in which they were added; times are ns.
///
/// At one instant: charge each core, then ready, then decide.
pub trait Scheduler {
    /// The server on `core` had the processor for `ran` since the last charge.
    fn charge(&mut self, core: u32, ran: u64, now: u64);
    /// The server's workload became ready or went idle.
    fn ready(&mut self, server: usize, is_ready: bool, now: u64);
    /// Assigns all cores. Returns when to decide again at the latest; `None`: nothing will change by itself.
    fn decide(&mut self, now: u64) -> Option<u64>;
    /// Who has `core`.
    fn running(&self, core: u32) -> Option<usize>;
}

/// The policy core, with the ids of its servers.
pub(crate) struct Core {
    pub(crate) pool: Pool,
    pub(crate) ids: Vec<Id>,
}

impl Scheduler for Core {
    #[inline]
    fn charge(&mut self, core: u32, ran: u64, now: u64) {
        self.pool.charge(core, ran, now);
    }
    #[inline]
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.pool.ready(self.ids[server], is_ready, now);
    }
    #[inline]
    fn decide(&mut self, now: u64) -> Option<u64> {
        self.pool.decide(now).until
    }
    #[inline]
    fn running(&self, core: u32) -> Option<usize> {
        self.pool.running(core).map(Id::index)
    }
}
