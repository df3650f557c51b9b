//! What plays in virtual time: the policy core, or something to compare it with.

use crate::system::{Change, Error, ServerSpec, System};
use giusto_model::ServerKind;
use giusto_policy::{Id, Params, Pool};

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
    /// What is left of a server's budget at the last decision, in ns; below 0 is debt. `None`: it has none.
    fn left(&self, _server: usize) -> Option<i64> {
        None
    }
    /// Changes a reservation. What knows none ignores it.
    fn change(&mut self, _change: &Change, _now: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// The policy core, and how late its driver enforces.
pub(crate) struct Core {
    pool: Pool,
    ids: Vec<Id>,
    /// Which of them have no budget.
    endless: Vec<bool>,
    /// Budgets end at a multiple of this; ns.
    tick: Option<u64>,
}

impl Core {
    pub(crate) fn new(system: &System) -> Result<Core, Error> {
        let mut pool = Pool::with_cores(system.order, system.cores);
        let (mut ids, mut endless) = (Vec::new(), Vec::new());
        for (index, spec) in system.servers.iter().enumerate() {
            for _ in 0..spec.vcpus {
                endless.push(spec.kind == ServerKind::Unlimited);
                ids.push(add(&mut pool, spec).map_err(|why| Error::Server { index, why: why.to_string() })?);
            }
        }
        let tick = system.tick.map(|tick| tick.ns()).filter(|&tick| tick > 0);
        Ok(Core { pool, ids, endless, tick })
    }
}

fn add(pool: &mut Pool, spec: &ServerSpec) -> Result<Id, giusto_policy::Error> {
    let params =
        Params { budget: spec.budget.ns(), period: spec.period.ns(), first: spec.first.ns(), priority: spec.priority };
    pool.add(spec.kind, params, 0)
}

impl Scheduler for Core {
    #[inline]
    fn charge(&mut self, _core: u32, _ran: u64, _now: u64) {
        // Nothing is stolen in virtual time: the pool charges a core for all the time that has passed by itself.
    }
    #[inline]
    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        self.pool.ready(self.ids[server], is_ready, now);
    }
    #[inline]
    fn decide(&mut self, now: u64) -> Option<u64> {
        let until = self.pool.decide(now).until?;
        let Some(tick) = self.tick else { return Some(until) };
        let refill = self.pool.replenishes().unwrap_or(u64::MAX);
        // Replenishing has a timer of its own; that a budget has ended is seen at the tick.
        Some(refill.min(until.div_ceil(tick) * tick))
    }
    #[inline]
    fn running(&self, core: u32) -> Option<usize> {
        self.pool.running(core).map(Id::index)
    }
    fn left(&self, server: usize) -> Option<i64> {
        (!self.endless[server]).then(|| self.pool.left_ns(self.ids[server]))
    }
    fn change(&mut self, change: &Change, now: u64) -> Result<(), Error> {
        let (Change::Set { server, .. } | Change::Boost { server, .. }) = *change;
        let refused = |why: &dyn std::fmt::Display| Error::Server { index: server, why: why.to_string() };
        let id = *self.ids.get(server).ok_or_else(|| refused(&"a change is for a server that is not there"))?;
        match *change {
            Change::Set { budget, period, priority, when, .. } => {
                self.pool.set(id, budget.ns(), period.ns(), priority, when, now)
            }
            Change::Boost { until, .. } => self.pool.boost(id, until.ns(), now),
        }
        .map_err(|why| refused(&why))
    }
}
