//! What a machine can enforce: for the planner, and beside what a plan needs.

use crate::peek::parked;
use giusto_compute::{Lack, Machine};
use giusto_model::{Backend, Plan};
use giusto_planner::{BackendFact, Facts, Placements};

/// What the planner has to know about this machine; no backend is insisted on, and it is not said which host of a site
/// it is.
pub fn facts() -> Facts {
    let mut machine = giusto_compute::probe();
    // What a giusto that runs now has parked is there for the planner: it brings it back when a plan needs it, and at
    // its end.
    machine.cores.extend(parked());
    machine.cores.sort_unstable();
    machine.cores.dedup();
    facts_of(&machine)
}

/// What the planner has to know about a machine that was looked at before.
pub fn facts_of(machine: &Machine) -> Facts {
    let fact = |backend| {
        let lacks: Vec<String> =
            machine.lacks(backend).iter().map(|lack| format!("{} is missing: {}", lack.what, lack.how)).collect();
        BackendFact { backend, available: lacks.is_empty(), why_not: lacks.join("; ") }
    };
    let backends = Backend::ALL.map(fact).to_vec();
    Facts {
        host: None,
        tick: machine.tick,
        deadline_period_max: machine.period_max,
        deadline_period_min: machine.period_min,
        deadline_bandwidth_cap: machine.cap,
        manager_cost: Facts::manager_cost(),
        period_cost: Facts::PERIOD_COST,
        loss: Facts::LOSS,
        lateness: Facts::LATENESS,
        manager: None,
        latency: None,
        cores: machine.cores.clone(),
        backends,
        held: machine.held.iter().map(held).collect(),
        insist: None,
        placed: Placements::default(),
    }
}

fn held(held: &giusto_compute::Held) -> giusto_planner::Held {
    giusto_planner::Held { cores: held.cores.clone(), why: held.why.clone() }
}

/// What the plan's backends lack on this machine; of a plan without any, what it takes to place processes, unless it is
/// about packets alone.
pub fn missing(plan: &Plan, machine: &Machine) -> Vec<Lack> {
    if plan.services.is_empty() && plan.leftovers.is_empty() && !plan.network.is_empty() {
        return vec![];
    }
    let quota = plan.leftovers.iter().filter(|leftover| leftover.at_most.is_some()).map(|_| Backend::CAP);
    let used: Vec<Backend> = plan.services.iter().map(|service| service.backend).chain(quota).collect();
    // What stock kernels can isolate with.
    let stock = |backend: &Backend| backend.abilities().isolates && backend.abilities().beyond_stock.is_none();
    let placed = |backend: &Backend| used.is_empty() && stock(backend);
    let needed = Backend::ALL.into_iter().filter(|backend| used.contains(backend) || placed(backend));
    let mut missing: Vec<Lack> = Vec::new();
    for lack in needed.flat_map(|backend| machine.lacks(backend)) {
        if !missing.contains(lack) {
            missing.push(lack.clone()); // what several lack is told once
        }
    }
    missing
}
