//! Composition on a real host: starts or adopts services, enforces a plan with `compute`, keeps the undo journal, and runs
//! trials: service and load together, arm by arm, job records out.
//!
//! Called by the command line (`giusto run`, `giusto restore`, `giusto measure`). Sites and plans flow in; job records and
//! a judgement flow out. It decides no parameter (`planner`) and does no statistics (`verify`).

mod difference;
mod dry_run;
mod journal;
mod scene;
mod services;
mod spinner;
mod systemd;
mod trial;
mod vm;

pub use difference::{difference, Change, Layout, Step};
pub use dry_run::dry_run;
pub use journal::{Journal, Restored};
pub use scene::{enforce, Scene};
pub use services::Running;
pub use trial::{loads, trial, Arm, Options, Run, Trial};

use giusto_compute::{Lack, Machine};
use giusto_model::{Backend, Plan};
use giusto_planner::{BackendFact, Facts};
use std::sync::atomic::AtomicBool;

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
    /// Measuring failed.
    #[error(transparent)]
    Measure(#[from] giusto_measure::Error),
    /// Told to stop before the end.
    #[error("interrupted; the host is as it was")]
    Interrupted,
    /// A trial without a time-sensitive service.
    #[error("there is nothing to try: no service of this site is promised as-if-alone")]
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

/// What the planner has to know about this machine; nobody insists on a backend.
pub fn facts() -> Facts {
    let machine = giusto_compute::probe();
    let fact = |backend| {
        let lacks: Vec<String> =
            machine.lacks(backend).iter().map(|lack| format!("{} is missing: {}", lack.what, lack.how)).collect();
        BackendFact { backend, available: lacks.is_empty(), why_not: lacks.join("; ") }
    };
    let backends = Backend::ALL.map(fact).to_vec();
    Facts {
        tick: machine.tick,
        deadline_period_max: machine.period_max,
        deadline_period_min: machine.period_min,
        deadline_bandwidth_cap: machine.cap,
        manager_cost: Facts::manager_cost(),
        cores: machine.cores,
        backends,
        insist: None,
    }
}

/// What the plan's backends lack on this machine; of a plan without any, what it takes to place processes.
pub fn missing(plan: &Plan, machine: &Machine) -> Vec<Lack> {
    let quota = plan.leftovers.iter().filter(|leftover| leftover.at_most.is_some()).map(|_| Backend::Quota);
    let used: Vec<Backend> = plan.services.iter().map(|service| service.backend).chain(quota).collect();
    let used = if used.is_empty() { vec![Backend::Deadline] } else { used };
    let needed = Backend::ALL.into_iter().filter(|backend| used.contains(backend));
    needed.flat_map(|backend| machine.lacks(backend).to_vec()).collect()
}

/// Sets `flag` when SIGINT, SIGTERM, SIGHUP (a terminal that closes) or SIGQUIT asks for an orderly end. Only the first call's flag counts.
pub fn on_stop(flag: &'static AtomicBool) {
    static FLAG: std::sync::OnceLock<&AtomicBool> = std::sync::OnceLock::new();
    extern "C" fn handler(_: libc::c_int) {
        if let Some(flag) = FLAG.get() {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let _ = FLAG.set(flag);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }
}
