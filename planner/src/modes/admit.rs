//! Whether a combination of local modes fits, by the servers of a plan alone.

use super::boost::hypothetical;
use crate::together::{together, TooMuch};
use crate::words::share;
use giusto_analysis::admission::Window;
use giusto_analysis::Error;
use giusto_model::{Admission, Bandwidth, HostPlan, LocalPlan, ModesPlan, Plan, Server};

/// Why a combination of local modes cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModesRefusal {
    /// The plan is not for one host with modes, or these are not local modes of its members, one each, in their order.
    #[error("{0}; expected one local mode of each member of a plan for one host")]
    Unknown(String),
    /// All servers of a core together ask for too much.
    #[error("core {core} would have to give {}, and it can give {}", share(*demand), share(*supply))]
    Room {
        /// Which core.
        core: u32,
        /// Σ B/P, boosts included.
        demand: Bandwidth,
        /// What may be reserved of it.
        supply: Bandwidth,
    },
    /// There is room, but not in every window.
    #[error("on core {core} {} can be asked for within {}", window.demand, window.at)]
    Window {
        /// Which core.
        core: u32,
        /// Which window.
        window: Window,
    },
    /// It cannot be computed.
    #[error("core {core}: {why}")]
    Analysis {
        /// Which core.
        core: u32,
        /// Why not.
        why: Error,
    },
}

impl ModesRefusal {
    /// Where it does not fit.
    pub(super) fn core(&self) -> Option<u32> {
        match self {
            ModesRefusal::Unknown(_) => None,
            ModesRefusal::Room { core, .. }
            | ModesRefusal::Window { core, .. }
            | ModesRefusal::Analysis { core, .. } => Some(*core),
        }
    }
}

/// Whether the local modes `locals` of the members of `plan`, in their order, fit on its host together, whether the site names
/// that combination or not: on each core Σ B/P, boosts included, is at most what may be reserved, and no window asks for more
/// than its length. Every local mode by itself is proven in the plan. O(servers) where none is deferrable and no agent is
/// boosted.
///
/// # Errors
/// The first core on which they do not fit.
pub fn admit_modes(plan: &Plan, locals: &[String]) -> Result<(), ModesRefusal> {
    let unknown = |what: String| ModesRefusal::Unknown(what);
    let (Some(modes), Some(host)) = (plan.only_modes(), plan.only_host()) else {
        return Err(unknown("this plan has not one host with modes".into()));
    };
    if locals.len() != modes.members.len() {
        return Err(unknown(format!("{} local modes for {} members", locals.len(), modes.members.len())));
    }
    let local = |(place, name): (usize, &String)| {
        let found = modes.local(place, name);
        found.ok_or_else(|| unknown(format!("'{}' has no mode '{name}'", modes.members[place].service)))
    };
    let chosen: Vec<&LocalPlan> = locals.iter().enumerate().map(local).collect::<Result<_, _>>()?;
    fits(host, &servers(plan, modes, &chosen))
}

/// The server of each entry of `plan`, those of members as in these local modes.
pub(super) fn servers(plan: &Plan, modes: &ModesPlan, locals: &[&LocalPlan]) -> Vec<(u32, Server)> {
    let mut all: Vec<(u32, Server)> = plan.services.iter().map(|entry| (entry.core, entry.server)).collect();
    for (member, local) in modes.members.iter().zip(locals) {
        let own = plan.services.iter().zip(&mut all).filter(|(entry, _)| entry.name == member.service);
        own.zip(&local.servers).for_each(|((_, slot), server)| slot.1 = *server);
    }
    all
}

/// Whether these servers, each on its core, fit on the cores of `host`.
pub(super) fn fits(host: &HostPlan, servers: &[(u32, Server)]) -> Result<(), ModesRefusal> {
    host.admission.iter().try_for_each(|told| {
        let here = servers.iter().filter(|(on, _)| *on == told.core).map(|(_, server)| *server);
        admit_core(told, here.collect())
    })
}

/// Whether these servers fit together on the core that `told` is about, beside its boosts. See [`admit_modes`].
///
/// # Errors
/// They do not, and why.
pub fn admit_core(
    &Admission { core, most, boost, .. }: &Admission,
    mut servers: Vec<Server>,
) -> Result<(), ModesRefusal> {
    servers.extend(boost.map(hypothetical));
    together(&servers, most).map(drop).map_err(|why| match why {
        TooMuch::Room(demand) => ModesRefusal::Room { core, demand, supply: most },
        TooMuch::Window(window) => ModesRefusal::Window { core, window },
        TooMuch::Unknown(why) => ModesRefusal::Analysis { core, why },
    })
}
