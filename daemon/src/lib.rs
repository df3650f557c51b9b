//! Composition on a real host: starts or adopts services, enforces a plan with `compute`, keeps the undo journal, and runs
//! trials: service and load together, arm by arm, job records out. The operator's side of it: control socket, status,
//! metrics, reload by difference, logs, the service manager's protocol.
//!
//! Called by the command line (`giusto run`, `giusto restore`, `giusto measure`, `giusto status`, `giusto reload`). Sites and
//! plans of one host flow in; job records, a judgement and the status flow out. It decides no parameter (`planner`) and
//! does no statistics (`verify`).

mod adapt;
mod calibrate;
mod change;
mod changes;
mod control;
mod desk;
mod difference;
mod doctor;
mod draft;
mod drift;
mod dry_run;
mod enforce;
mod hold;
mod journal;
mod listening;
mod log;
mod logs;
mod metrics;
mod modal;
mod modes;
mod notify;
mod observe;
mod operator;
mod packets;
mod peek;
mod protocol;
mod restart;
mod scene;
mod services;
mod signals;
mod spawn;
mod spinner;
mod status;
mod supervise;
mod systemd;
mod trial;
mod vm;
mod watchdog;

pub use adapt::{Again, Factors};
pub use calibrate::{calibrate, cost, Calibration, Subject};
pub use control::ask;
pub use desk::{Host, Planner, Refused};
pub use difference::{difference, Change, Layout, Step};
pub use doctor::{doctor, Check, Doctor, Standing};
pub use draft::{draft, find, host_name, Answered, Demand, Draft, Found, Observed, Summary};
pub use drift::DemandStatus;
pub use dry_run::dry_run;
pub use enforce::enforce;
pub use giusto_network::{LinkStatus, Network};
pub use journal::{Journal, Restored};
pub use log::log;
pub use modal::{begin_with, forget_mode};
pub use modes::{ChangeStatus, ModesStatus, PeerStatus, StepStatus, Wishes};
pub use notify::Notify;
pub use observe::Observer;
pub use operator::{Operator, Report, Settings, Stage};
pub use peek::running_plan;
pub use protocol::{Answer, Request, Wish};
pub use scene::Scene;
pub use services::{Before, Prepare, Running};
pub use signals::Signals;
pub use status::{Adaptation, CoreCriticality, CoreStatus, ServiceState, ServiceStatus, State, Status, STATUS_VERSION};
pub use trial::{loads, trial, Arm, Cause, Next, Options, Removed, Slice, Talk, Trial};
pub use watchdog::Watchdog;

use giusto_compute::{Lack, Machine};
use giusto_model::{Backend, Plan};
use giusto_planner::{BackendFact, Facts};

/// Why a run did not work. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something (exit code 3).
    #[error("{what} is missing: {how}")]
    Lacks {
        /// What.
        what: String,
        /// How to get it.
        how: String,
    },
    /// Another giusto holds this host.
    #[error("giusto runs on this host already{}", busy(*.pid))]
    Busy {
        /// Its process id, if it can be told.
        pid: Option<u32>,
    },
    /// Enforcement failed.
    #[error(transparent)]
    Compute(#[from] giusto_compute::Error),
    /// Packets could not be given their threads.
    #[error(transparent)]
    Network(#[from] giusto_network::Error),
    /// Measuring failed.
    #[error(transparent)]
    Measure(#[from] giusto_measure::Error),
    /// The plan is for several hosts, and this is one.
    #[error("a plan for {} hosts cannot be enforced on one; expected the part of one host", .0)]
    ManyHosts(usize),
    /// Told to stop before the end.
    #[error("interrupted; the host is as it was")]
    Interrupted,
    /// A trial without a time-sensitive service.
    #[error("there is nothing to try: no service of this site is promised as-if-alone or percentiles")]
    NothingToTry,
    /// Not everything could be undone.
    #[error("not everything could be undone, the rest stays in the journal: {0}; try 'giusto restore'")]
    NotRestored(String),
    /// A service is not there or ended.
    #[error("service '{name}': {what}")]
    Service {
        /// Which.
        name: String,
        /// What about it.
        what: String,
    },
    /// A file or a process could not be handled.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
}

fn busy(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!(" (process {pid}); stop it first: kill {pid}"),
        None => ", or is just starting or restoring; try again in a moment".to_string(),
    }
}

/// What the planner has to know about this machine; nobody insists on a backend, or has said which host of a site it is.
pub fn facts() -> Facts {
    let mut machine = giusto_compute::probe();
    // What a giusto that runs now has parked is there for whoever plans: it brings it back when a plan needs it, and at
    // its end.
    machine.cores.extend(peek::parked());
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
        loss: Facts::LOSS,
        lateness: Facts::LATENESS,
        latency: None,
        cores: machine.cores.clone(),
        backends,
        held: machine.held.iter().map(held).collect(),
        insist: None,
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
    let quota = plan.leftovers.iter().filter(|leftover| leftover.at_most.is_some()).map(|_| Backend::Quota);
    let used: Vec<Backend> = plan.services.iter().map(|service| service.backend).chain(quota).collect();
    let used = if used.is_empty() { vec![Backend::Deadline] } else { used };
    let needed = Backend::ALL.into_iter().filter(|backend| used.contains(backend));
    let mut missing: Vec<Lack> = Vec::new();
    for lack in needed.flat_map(|backend| machine.lacks(backend)) {
        if !missing.contains(lack) {
            missing.push(lack.clone()); // what several lack is told once
        }
    }
    missing
}
