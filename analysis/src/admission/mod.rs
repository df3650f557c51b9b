//! Whether a set of servers fits on a core or on several, by the kind of each: the system level of compositional analysis.
//!
//! Called by `planner` and the command line. What a server is to the others depends on its kind:
//!
//! | kind | to the others | why |
//! |---|---|---|
//! | periodic_*, polling | a periodic task (B, P) | idle, its budget burns or is lost |
//! | sporadic | a sporadic task (B, P) | what is used returns a period after its use began |
//! | deferrable | up to 2B in a row | the budget waits while it is idle, until the next comes |
//! | constant_bandwidth | up to B + (t − B)·B/P in t | a wake-up renews the budget as soon as the bandwidth allows |
//!
//! What is promised to an admitted server that has work throughout: its budget in every whole period (of its grid; from a
//! wake-up that began a new one; of each part of a sporadic budget), and in any window of length t at least what the periodic
//! resource (P, B) supplies, [`Resource::Periodic`](crate::interface::Resource) (polling: in windows that begin with a
//! period). One exception: a constant_bandwidth server that goes on with the rest of a budget may have that rest after its
//! deadline, under fixed priorities or beside a deferrable server; under fixed priorities also the next budget. What it is
//! supplied in any window is not less for it.
//!
//! A core is whole: all that takes time from it must be one of the servers. What the sum of bandwidths may be of it, so that
//! something is left over for the rest of the machine, is the caller's `capacity`; it says nothing about when that time comes.
//!
//! Sources: Lee11 (§ II, server algorithms), Abe22 ("Fixed Priority Scheduling", "What About EDF?"); for deferrable
//! servers the jitter of Strosnider et al. 1995 and the demand of Ghazalie and Baker 1995, made tighter here ([`Demand`]).

mod edf;
mod error;
mod fixed;
mod global;
mod place;
mod ranked;
mod refused;
mod sensitivity;
mod servers;

pub use edf::Demand;
pub use error::ServerError;
pub use global::{admit_global, Known, OnAll};
pub use place::{place, Fit, PlacementRefusal};
pub use refused::{Density, Interference, Refused, Window};
pub use sensitivity::{sensitivity, Room};
pub use servers::Grids;

use crate::Error;
use giusto_model::{Bandwidth, Duration, Server};
use serde::{Deserialize, Serialize};
use servers::{check, sum};

/// Steps of one test; a second or so.
const MOST_STEPS: u64 = 5_000_000;

/// In which order the servers of a core run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In the order of the list, the first above all others.
    FixedPriority,
    /// Earliest deadline first.
    Edf,
}

/// That a set of servers fits, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// Σ B/P.
    pub bandwidth: Bandwidth,
    /// Fixed priority: the longest that each server needs for its budget, in the order of the list, each at most its period.
    /// Exact for periodic and sporadic tasks. `None` under EDF.
    #[serde(rename = "responses_ns")]
    pub responses: Option<Vec<Duration>>,
    /// EDF with a deferrable server: no window longer than this can be the first in which too much is asked for.
    #[serde(rename = "until_ns")]
    pub until: Option<Duration>,
}

/// Whether `servers` fit on one core of which all together may take `capacity`.
///
/// Ok(Ok): they do; Ok(Err): the witness. Fixed priority: exact response times for periodic and sporadic tasks, sufficient
/// with deferrable and constant_bandwidth servers. EDF: exact without a deferrable server, else sufficient. O(n) a step; the
/// number of steps is pseudo-polynomial.
///
/// Errors: a server that makes no sense, an exact sum of more than 64 bits, a set so close to its bound that the answer takes
/// millions of steps.
pub fn admit(
    servers: &[Server],
    order: Order,
    grids: Grids,
    capacity: Bandwidth,
) -> Result<Result<Admitted, Refused>, Error> {
    admit_in(servers, order, grids, capacity, &mut { MOST_STEPS })
}

/// The same in the steps that are `left`.
fn admit_in(
    servers: &[Server],
    order: Order,
    grids: Grids,
    capacity: Bandwidth,
    left: &mut u64,
) -> Result<Result<Admitted, Refused>, Error> {
    check(servers)?;
    let bandwidth = sum(servers)?;
    let capacity = capacity.min(Bandwidth::ONE);
    if bandwidth > capacity {
        return Ok(Err(Refused::Bandwidth { demand: bandwidth, supply: capacity }));
    }
    let found = match order {
        Order::FixedPriority => fixed::responses(servers, grids, left)?.map(|responses| (Some(responses), None)),
        Order::Edf => edf::windows(servers, bandwidth, left)?.map(|until| (None, until)),
    };
    Ok(found.map(|(responses, until)| Admitted { bandwidth, responses, until }).map_err(Refused::Window))
}
