//! Why servers do not fit.

use super::servers::length;
use crate::Error;
use giusto_model::{Bandwidth, Duration, Server, ServerKind};
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Under EDF on several cores, by neither of two tests: there may be a schedule all the same.
    Global {
        /// All together.
        density: Density,
        /// The first server for which the second test fails; `None`: it is not for these kinds.
        interference: Option<Interference>,
    },
    /// Under fixed priorities on several cores: there may be a schedule all the same.
    Interference(Interference),
    /// On several cores no test for a server of this kind in this order is known here.
    NoTest {
        /// Which, by its place in the list.
        server: usize,
        /// Its kind.
        kind: ServerKind,
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

/// Σ U against m − (m − 1)·U_max, for m cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Density {
    /// Σ U.
    pub demand: Bandwidth,
    /// m − (m − 1)·U_max.
    pub supply: Bandwidth,
}

/// How long others can keep a server off all cores, all of them together, against what that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// Who may miss, by its place in the list.
    pub server: usize,
    /// A period of it.
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// What the others (fixed priority: those above) can run in it, each counted as far as it can keep this one from its budget.
    #[serde(rename = "demand_ns")]
    pub demand: Duration,
    /// From this on they can: m · (P − B + 1).
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
}

impl Interference {
    /// Of the server at this place, when the others can run so much.
    pub(super) fn of(server: Server, place: usize, cores: u32, demand: u128) -> Result<Self, Error> {
        let Server { budget, period, .. } = server;
        let supply = (u128::from(period.ns() - budget.ns()) + 1) * u128::from(cores);
        Ok(Interference { server: place, at: period, demand: length(demand)?, supply: length(supply)? })
    }
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
            Refused::Interference(interference) => interference.fmt(f),
            Refused::NoTest { server, kind } => {
                write!(
                    f,
                    "server {} is {kind}, and on several cores no test in this order is known for that",
                    server + 1
                )
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { server, at, demand, supply } = self;
        write!(f, "server {} misses: in {at} {demand} can be asked for, and there are {supply}", server + 1)
    }
}

impl fmt::Display for Density {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Density { demand, supply } = self;
        write!(
            f,
            "all together ask for {}, and {} is sure to fit beside the largest",
            demand.percent(),
            supply.percent()
        )
    }
}

impl fmt::Display for Interference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interference { server, at, demand, supply } = self;
        let server = server + 1;
        write!(f, "in {at} the others can run {demand}, and {supply} can keep server {server} from its budget")
    }
}
