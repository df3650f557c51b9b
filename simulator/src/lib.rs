//! Virtual time: plays servers, guests and tasks on one core, with the very policy core that runs on hosts.
//!
//! Called by the command line (`simulate`, and the prediction of a plan) and by tests of the theorems. Flows in: servers with
//! their workloads, a horizon and a seed. Flows out: statistics of flat size and, to an [`Observer`], every job and every
//! slice of the schedule. It knows no machine: lateness and context switches of real mechanisms are not modelled yet.

mod engine;
mod guest;
mod predict;
mod stats;
mod system;
mod trace;

pub use engine::simulate;
pub use predict::{predict, Predicted};
pub use stats::{Stats, PERCENTILE_ERROR};
pub use system::{Error, Execution, Guest, ServerSpec, Sporadic, System, Workload};
pub use trace::{Observer, Trace, Unobserved};
