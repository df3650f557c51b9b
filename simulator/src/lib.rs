//! Virtual time: plays servers, guests and tasks on the cores of a pool, with the very policy core that runs on hosts.
//!
//! Called by the command line (`simulate`, the prediction of a plan, `analyze response` where theory has no answer) and by
//! tests of the theorems. Flows in: servers with
//! their workloads, a horizon and a seed. Flows out: statistics of flat size and, to an [`Observer`], every job and every
//! slice of the schedule. [`network`] plays packets on the cores that process them, [`modes`] changes of mode;
//! [`services`] are loads as papers have them,
//! [`Partitioned`] cores that are scheduled apart. It knows no machine; what mechanisms add is modelled by a tick and a
//! cost of switching.

mod alone;
pub mod baselines;
mod engine;
mod gantt;
mod guest;
mod histogram;
pub mod modes;
pub mod network;
mod partitioned;
mod passage;
mod path;
mod predict;
mod random;
mod route;
mod scheduler;
mod seeds;
pub mod services;
mod shared;
mod shown;
mod stats;
mod system;
mod timeline;
mod trace;
mod watch;

pub use alone::{play_alone, settling, Alone, AloneRun};
pub use engine::{simulate, simulate_with};
pub use gantt::Gantt;
pub use partitioned::{Critical, Partitioned};
pub use path::{on_its_cores, play_path, play_path_that_fails, PlayedPath};
pub use predict::{predict, predict_random, predict_under, Overload, Predicted, TaskTimes, Under};
pub use random::{replay, sample, Interval, Sampled};
pub use route::PathStop;
pub use scheduler::Scheduler;
pub use seeds::{in_parallel, simulate_seeds};
pub use shown::Shown;
pub use stats::{Stats, PERCENTILE_ERROR};
pub use system::{
    Between, Change, Error, Execution, Guest, Messages, Onward, ServerSpec, Sporadic, Stop, System, To, Waypoint,
    Workload, OTHERS,
};
pub use timeline::{Lane, Play, Timeline};
pub use trace::{Observer, Trace, Unobserved};
pub use watch::{Idle, Watch};
