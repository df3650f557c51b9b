//! Whether a set of servers fits on a core, by the kind of each: the system level of compositional analysis.
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
//! A core is whole: whoever takes time from it must be one of the servers. What the sum of bandwidths may be of it, so that
//! something is left over for the rest of the machine, is the caller's `capacity`; it says nothing about when that time comes.
//!
//! Sources: Lee11 (§ II, server algorithms), Abe22 ("Fixed Priority Scheduling", "What About EDF?"); for deferrable
//! servers the jitter of Strosnider et al. 1995 and the demand of Ghazalie and Baker 1995, made tighter here ([`Demand`]).

mod edf;
mod fixed;
mod global;
mod place;
mod sensitivity;

pub use crate::kind::keeps_budget;
pub use edf::Demand;
pub use global::{admit_global, Density, Interference, Known, OnAll};
pub use place::{place, Fit, Unplaced};
pub use sensitivity::{sensitivity, Room};

use crate::kind::{renewal, Renewal};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Server};
use serde::{Deserialize, Serialize};
use std::fmt;

/// In which order the servers of a core run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In the order of the list, the first above all others.
    FixedPriority,
    /// Earliest deadline first.
    Edf,
}

/// What is known of the grids of servers that have one (all but constant_bandwidth and sporadic).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grids {
    /// Replenished at whole multiples of their periods, all from one instant.
    Aligned,
    /// Nothing.
    Apart,
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

/// Why a set of servers does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Refused {
    /// All together.
    Bandwidth {
        /// Σ B/P.
        demand: Bandwidth,
        /// What they may take.
        supply: Bandwidth,
    },
    /// In one window.
    Window(Window),
    /// On several cores, by neither of two tests: there may be a schedule all the same.
    Global {
        /// All together.
        density: Density,
        /// The first server for which the second test fails; `None`: it is not for these kinds.
        interference: Option<Interference>,
    },
    /// A deferrable server on several cores: no test is known here.
    Deferrable {
        /// Which, by its place in the list.
        server: usize,
    },
}

/// A window in which more can be asked for than a core gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Who misses, by its place in the list. Fixed priority: at every length up to its period more is asked for by it and
    /// those above it. EDF: one whose period is not longer than the window.
    pub server: usize,
    /// Its length; fixed priority: the period of the server.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// What is asked for in it.
    #[serde(rename = "demand_ns")]
    pub demand: Duration,
    /// What the core gives in it.
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
}

/// Why a server makes no sense. Each text says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// B = 0.
    #[error("the budget must be more than 0")]
    NoBudget,
    /// B > P.
    #[error("the budget {budget} is longer than the period {period}")]
    TooMuch {
        /// B
        budget: Duration,
        /// P
        period: Duration,
    },
    /// Nothing bounds it.
    #[error("an unlimited server takes all it can get: leave it out, it comes after all others")]
    Unlimited,
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
    check(servers)?;
    let bandwidth = sum(servers)?;
    let capacity = capacity.min(Bandwidth::ONE);
    if bandwidth > capacity {
        return Ok(Err(Refused::Bandwidth { demand: bandwidth, supply: capacity }));
    }
    let found = match order {
        Order::FixedPriority => fixed::responses(servers, grids)?.map(|responses| (Some(responses), None)),
        Order::Edf => edf::windows(servers, bandwidth)?.map(|until| (None, until)),
    };
    Ok(found.map(|(responses, until)| Admitted { bandwidth, responses, until }).map_err(Refused::Window))
}

/// Whether each server makes sense.
fn check(servers: &[Server]) -> Result<(), Error> {
    servers.iter().zip(1..).try_for_each(|(server, number)| {
        let why = match *server {
            Server { kind, .. } if renewal(kind) == Renewal::Unlimited => ServerError::Unlimited,
            Server { budget, .. } if budget.is_zero() => ServerError::NoBudget,
            Server { budget, period, .. } if budget > period => ServerError::TooMuch { budget, period },
            _ => return Ok(()),
        };
        Err(Error::Server { number, why })
    })
}

/// Σ B/P, exactly; where that needs more than 64 bits a millionth of a millionth more or so for each server, which is the safe side.
fn sum<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Result<Bandwidth, Error> {
    let add = |all: Bandwidth, server: &Server| {
        let share = server.bandwidth();
        all.checked_add(share).or_else(|| all.add_up(share))
    };
    servers.into_iter().try_fold(Bandwidth::ZERO, add).ok_or(Error::Range)
}

fn length(work: u128) -> Result<Duration, Error> {
    u64::try_from(work).map(Duration::from_ns).map_err(|_| Error::Demand)
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Bandwidth { demand, supply } => {
                write!(f, "all together ask for {} of the {} they may take", demand.percent(), supply.percent())
            }
            Refused::Window(window) => window.fmt(f),
            Refused::Global { density, interference } => {
                write!(f, "{density}")?;
                interference.map_or(Ok(()), |interference| write!(f, "; {interference}"))
            }
            Refused::Deferrable { server } => write!(
                f,
                "server {} is deferrable and can take two budgets in a row: on several cores no test holds for it; place \
                 servers core by core, or make it another kind",
                server + 1
            ),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { server, at, demand, supply } = self;
        write!(f, "server {} misses: in {at} {demand} can be asked for, and there are {supply}", server + 1)
    }
}
