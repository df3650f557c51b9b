//! The policy core, stepped from Python.

use crate::error::input;
use crate::words::{kind, Count, Span, Time};
use giusto_model::ServerKind;
use giusto_policy::{Back, CoreMode, Id, Mixed, Order, Params, Pool, When};
use pyo3::prelude::*;

/// Cores that are scheduled together, and their servers: `giusto_policy::Pool`, with servers by their numbers.
#[pyclass(module = "giusto._giusto")]
pub(crate) struct PoolData {
    pool: Pool,
    /// By the number that Python knows; `None`: it was removed.
    ids: Vec<Option<Id>>,
    cores: u32,
}

pub(crate) fn order(name: &str) -> PyResult<Order> {
    match name {
        "fixed-priority" => Ok(Order::FixedPriority),
        "edf" => Ok(Order::Edf),
        "mixed-criticality" => Ok(Order::MixedCriticality),
        other => Err(input(format!("'{other}' is no order; expected fixed-priority, edf or mixed-criticality"))),
    }
}

impl PoolData {
    fn id(&self, server: Count) -> PyResult<Id> {
        let server = server.0 as usize;
        self.ids.get(server).copied().flatten().ok_or_else(|| input(format!("server {server} is not in this pool")))
    }
    fn number(&self, id: Id) -> Option<usize> {
        self.ids.iter().position(|known| *known == Some(id))
    }
    fn core(&self, core: &Count) -> PyResult<()> {
        match core.0 < self.cores {
            true => Ok(()),
            false => Err(input(format!("there is no core {}: the pool has {}", core.0, self.cores))),
        }
    }
    fn added(&mut self, id: Id) -> usize {
        self.ids.push(Some(id));
        self.ids.len() - 1
    }
}

fn when(next_period: bool) -> When {
    if next_period {
        When::NextPeriod
    } else {
        When::Now
    }
}

fn mixed(optimistic: Span, worst: Option<Span>, period: Span, virtual_deadline: Span) -> Mixed {
    Mixed {
        optimistic: optimistic.0.ns(),
        worst: worst.map(|it| it.0.ns()),
        period: period.0.ns(),
        virtual_deadline: virtual_deadline.0.ns(),
    }
}

/// What each does is in `giusto.policy`.
#[pymethods]
impl PoolData {
    #[new]
    fn new(order_name: &str, cores: Count) -> PyResult<PoolData> {
        let (order, cores) = (order(order_name)?, cores.0);
        if !(1..=64).contains(&cores) || order == Order::MixedCriticality && cores > 1 {
            return Err(input(format!("a pool has 1 to 64 cores, of mixed criticality one, not {cores}")));
        }
        Ok(PoolData { pool: Pool::with_cores(order, cores), ids: Vec::new(), cores })
    }
    #[allow(clippy::too_many_arguments)] // a reservation has so many values
    fn add(
        &mut self,
        name: &str,
        budget: Time,
        period: Time,
        priority: Count,
        first: Time,
        now: Time,
    ) -> PyResult<usize> {
        let params = Params { budget: budget.0.ns(), period: period.0.ns(), first: first.0.ns(), priority: priority.0 };
        let id = self.pool.add(kind(name)?, params, now.0.ns()).map_err(input)?;
        Ok(self.added(id))
    }
    #[pyo3(signature = (optimistic, worst, period, virtual_deadline, first, now))]
    fn add_mixed(
        &mut self,
        optimistic: Span,
        worst: Option<Span>,
        period: Span,
        virtual_deadline: Span,
        first: Time,
        now: Time,
    ) -> PyResult<usize> {
        let mixed = mixed(optimistic, worst, period, virtual_deadline);
        let id = self.pool.add_mixed(mixed, first.0.ns(), now.0.ns()).map_err(input)?;
        Ok(self.added(id))
    }
    #[allow(clippy::too_many_arguments)] // a reservation has so many values
    fn set(
        &mut self,
        server: Count,
        budget: Span,
        period: Span,
        priority: Count,
        next_period: bool,
        now: Time,
    ) -> PyResult<()> {
        let id = self.id(server)?;
        let (budget, period) = (budget.0.ns(), period.0.ns());
        self.pool.set(id, budget, period, priority.0, when(next_period), now.0.ns()).map_err(input)
    }
    fn remove(&mut self, server: Count, now: Time) -> PyResult<u64> {
        let at = server.0 as usize;
        let freed = self.pool.remove(self.id(server)?, now.0.ns()).map_err(input)?;
        self.ids[at] = None;
        Ok(freed)
    }
    fn boost(&mut self, server: Count, until: Time, now: Time) -> PyResult<()> {
        self.pool.boost(self.id(server)?, until.0.ns(), now.0.ns()).map_err(input)
    }
    fn cooling(&mut self, degrees: Count, by_temperature: bool) {
        self.pool.cooling(degrees.0, if by_temperature { Back::Temperature } else { Back::Idle });
    }
    fn charge(&mut self, core: Count, ran: Time, now: Time) -> PyResult<()> {
        self.core(&core)?;
        self.pool.charge(core.0, ran.0.ns(), now.0.ns());
        Ok(())
    }
    fn owe(&mut self, server: Count, ran: Time, now: Time) -> PyResult<()> {
        let id = self.id(server)?;
        self.pool.owe(id, ran.0.ns(), now.0.ns());
        Ok(())
    }
    fn ready(&mut self, server: Count, is_ready: bool, now: Time) -> PyResult<()> {
        let id = self.id(server)?;
        self.pool.ready(id, is_ready, now.0.ns());
        Ok(())
    }
    /// When to decide again at the latest, and the cores that have another server now.
    fn decide(&mut self, now: Time) -> (Option<u64>, Vec<u32>) {
        let decision = self.pool.decide(now.0.ns());
        let changed = (0..self.cores).filter(|core| decision.changed >> core & 1 == 1).collect();
        (decision.until, changed)
    }
    fn running(&self, core: Count) -> PyResult<Option<usize>> {
        self.core(&core)?;
        Ok(self.pool.running(core.0).and_then(|id| self.number(id)))
    }
    fn payer(&self, core: Count) -> PyResult<Option<usize>> {
        self.core(&core)?;
        Ok(self.pool.payer(core.0).and_then(|id| self.number(id)))
    }
    fn left_ns(&self, server: Count) -> PyResult<i64> {
        Ok(self.pool.left_ns(self.id(server)?))
    }
    fn deadline_ns(&self, server: Count) -> PyResult<Option<u64>> {
        Ok(Some(self.pool.deadline_ns(self.id(server)?)).filter(|at| *at != u64::MAX))
    }
    fn boost_ns(&self, server: Count) -> PyResult<u64> {
        Ok(self.pool.boost_ns(self.id(server)?))
    }
    /// Server, keeps its core, has leftovers only.
    fn order(&mut self, capacity: usize) -> Vec<(usize, bool, bool)> {
        let places = self.pool.order(capacity);
        let of = |place: &giusto_policy::Place| Some((self.number(place.id)?, place.keeps_core, place.leftovers));
        places.iter().filter_map(of).collect()
    }
    fn is_critical(&self) -> bool {
        self.pool.core_mode(0) == CoreMode::Hi
    }
    fn copy(&self) -> PoolData {
        PoolData { pool: self.pool.clone(), ids: self.ids.clone(), cores: self.cores }
    }
}

/// Names of the kinds that a pool of servers knows.
#[pyfunction]
pub(crate) fn kinds() -> Vec<String> {
    ServerKind::ALL.iter().map(ServerKind::to_string).collect()
}
