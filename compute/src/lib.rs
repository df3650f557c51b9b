//! Mechanisms that give processor time to servers on Linux.
//!
//! Called by `daemon`. Flows in: processes, servers from the plan, and a [`Recorder`] that keeps what is to be undone.
//! Flows out: reservations in force, and undo records *before* each change; [`undo()`] takes them and puts everything
//! back. Backends are files behind one trait, [`Backend`]: `deadline` (SCHED_DEADLINE, pinned in an exclusive cpuset),
//! `manager` (servers of any kind, from user space), `rt-group` (real-time groups of cgroup v1), `quota` (a cap)
//! and `kernel` (servers of any kind, by a scheduler in the kernel). It
//! decides no parameter, starts no service and owns no journal file.

mod admission;
mod backend;
mod backends;
mod contained;
mod cores;
mod cpu_group;
mod cpuset;
mod deadline;
mod error;
mod files;
#[cfg(test)]
mod imitation;
mod isolation;
mod kernel;
mod left;
mod machine;
pub mod manager;
mod names;
mod neighbours;
#[cfg(test)]
mod neighbours_tests;
mod nudge;
mod park;
mod probe;
mod quota;
mod record;
pub mod rights;
mod rt_group;
pub mod sched;
mod spent;
mod stop;
mod undo;

pub use backend::{now, Backend, BudgetHandle, BudgetSource, Changed, Ground, Observed};
pub use backends::backend;
pub use contained::Contained;
pub use cpuset::Cpusets;
pub use deadline::{bind, budget_left, prompt, reschedule, Isolated, Reservation, Reserved};
pub use error::{Error, Keeps, Lack};
pub use machine::{kernel_version, Machine};
pub use neighbours::Held;
pub use park::Parked;
pub use probe::probe;
pub use quota::{Quota, Throttled};
pub use record::{Recorder, Undo};
pub use rt_group::RtGroup;
pub use spent::spent;
pub use stop::{go_on, stop};
pub use undo::{undo, Report};
