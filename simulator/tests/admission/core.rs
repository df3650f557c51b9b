//! The policy core, ns by ns.

use crate::model::{on_grid, Spec, Work};
use giusto_analysis::admission::Order;
use giusto_model::ServerKind;
use giusto_policy::{Id, Kind, Params, Pool};

pub(crate) struct Core {
    pool: Pool,
    ids: Vec<Id>,
    now: u64,
}

pub(crate) fn order_of(order: Order) -> giusto_policy::Order {
    match order {
        Order::FixedPriority => giusto_policy::Order::FixedPriority,
        Order::Edf => giusto_policy::Order::Edf,
    }
}

pub(crate) fn kind_of(kind: ServerKind) -> Kind {
    match kind {
        ServerKind::PeriodicStrict => Kind::PeriodicStrict,
        ServerKind::PeriodicConserving => Kind::PeriodicConserving,
        ServerKind::PeriodicReclaiming => Kind::PeriodicReclaiming,
        ServerKind::Polling => Kind::Polling,
        ServerKind::Deferrable => Kind::Deferrable,
        ServerKind::Sporadic => Kind::Sporadic,
        ServerKind::ConstantBandwidth => Kind::ConstantBandwidth,
        ServerKind::Unlimited => Kind::Unlimited,
    }
}

impl Core {
    /// All idle; grids begin with their `phases`.
    pub(crate) fn new(order: Order, specs: &[Spec], phases: &[i16]) -> Core {
        let mut pool = Pool::new(order_of(order));
        let ids = specs.iter().zip(phases).zip(0..).map(|((spec, &phase), priority)| {
            let first = if on_grid(spec.kind) { phase as u64 } else { 0 };
            let params = Params { budget: spec.budget as u64, period: spec.period as u64, first, priority };
            pool.add(kind_of(spec.kind), params, 0).unwrap()
        });
        let ids = ids.collect();
        Core { pool, ids, now: 0 }
    }

    /// One ns; who had the core.
    pub(crate) fn step(&mut self, works: &[Work]) -> Option<usize> {
        for (&id, work) in self.ids.iter().zip(works) {
            if *work == Work::Anew {
                self.pool.ready(id, false, self.now);
            }
            self.pool.ready(id, *work != Work::Idle, self.now);
        }
        self.pool.decide(self.now);
        self.now += 1;
        self.pool.running(0).map(Id::index)
    }
}
