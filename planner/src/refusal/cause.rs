//! What does not fit: demand against supply. What only one promise can lack is in its folder.

use crate::critical::Discord;
use crate::promises::as_if_alone::{TooLarge, TooMany};
use crate::promises::every_deadline::Shortage;
use crate::promises::leftovers::Floors;
use crate::promises::percentiles::Miss;
use crate::promises::supply::NoSupply;
use crate::words::{share, time};
use giusto_analysis::admission::Window;
use giusto_model::{Backend, Bandwidth, Duration, Interface};
use std::fmt;

/// What does not fit: demand against supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One core cannot hold the reservation.
    Core(TooLarge),
    /// More services that each need a core than cores.
    Cores(TooMany),
    /// No core has room for a supply.
    Supply(NoSupply),
    /// No core has room for a server that keeps all deadlines.
    Deadlines(Box<Shortage>),
    /// No core has room for a server that keeps all percentiles.
    Percentiles(Box<Miss>),
    /// The reservations leave too little for the floors.
    Floors(Floors),
    /// A core has room for a server, but not in every window, as a deferrable server keeps its budget while it is idle.
    Window {
        /// The virtual CPU that has no place.
        vcpu: Option<u32>,
        /// What it was promised, or needs.
        demand: Interface,
        /// Of the cores that have room, where least is lacking: how much can be asked for in which time.
        window: Window,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// No core has room for a supply whose manager does not keep as many servers as it can ([`Backend::MANAGED`]).
    Servers {
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// No core has room for a server whose manager has the time for one more of such a period.
    Upkeep {
        /// What it would take for the periods of all servers, where that is least.
        needs: Bandwidth,
        /// What reservations never get of a core.
        has: Bandwidth,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// No core has servers with criticality with which it goes together.
    Discord(Box<Discord>),
    /// Every core has servers with criticality where this one has none, or the other way round.
    Apart {
        /// Whether this one has.
        critical: bool,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// In one of the modes.
    Mode {
        /// Of the site; `None`: in whatever mode of the site.
        mode: Option<String>,
        /// Of the service; `None`: it always does the same.
        local: Option<String>,
        /// What does not fit there.
        cause: Box<Cause>,
    },
    /// With the worst execution times of its tasks.
    AtWorst(Box<Cause>),
}

impl Cause {
    /// The same, in a mode if there are several.
    pub(crate) fn within(self, mode: Option<String>, local: Option<String>) -> Self {
        match (mode, local) {
            (None, None) => self,
            (mode, local) => Cause::Mode { mode, local, cause: Box::new(self) },
        }
    }

    /// The same, in whatever mode.
    pub(crate) fn itself(&self) -> &Cause {
        match self {
            Cause::Mode { cause, .. } | Cause::AtWorst(cause) => cause.itself(),
            cause => cause,
        }
    }

    /// How much is missing, in cores; what no exact fraction tells is much.
    pub(crate) fn missing(&self) -> Bandwidth {
        let much = Bandwidth::new(u64::MAX, 1).unwrap_or(Bandwidth::ONE);
        let missing = match self {
            Cause::Core(large) => large.missing(),
            Cause::Cores(many) => Bandwidth::new((many.demand - many.supply) as u64, 1),
            Cause::Supply(lack) => lack.demand.bandwidth().checked_sub(lack.supply),
            Cause::Deadlines(shortage) => shortage.needs.and_then(|needs| needs.bandwidth().checked_sub(shortage.room)),
            Cause::Percentiles(miss) => miss.missing(),
            Cause::Floors(floors) => floors.demand.checked_sub(floors.supply),
            Cause::Window { window, .. } => {
                let over = window.demand.checked_sub(window.supply);
                over.and_then(|over| Bandwidth::of(over, window.at))
            }
            Cause::Upkeep { needs, has, .. } => needs.checked_sub(*has),
            Cause::Servers { .. } | Cause::Discord(_) | Cause::Apart { .. } => {
                Bandwidth::new(1, Backend::MANAGED as u64)
            }
            Cause::Mode { cause, .. } | Cause::AtWorst(cause) => return cause.missing(),
        };
        missing.unwrap_or(much)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Core(large) => large.fmt(f),
            Cause::Cores(many) => many.fmt(f),
            Cause::Supply(lack) => lack.fmt(f),
            Cause::Deadlines(shortage) => shortage.fmt(f),
            Cause::Percentiles(miss) => miss.fmt(f),
            Cause::Floors(floors) => floors.fmt(f),
            Cause::Window { vcpu, demand, window, cores } => {
                let subject = vcpu.map_or("it has".into(), |vcpu| format!("its virtual CPU {vcpu} has"));
                let room = match cores {
                    1 => "the one core for it has room, but",
                    _ => "there are cores with room, but with it on any of them",
                };
                let Window { at, demand: asked, supply, .. } = window;
                let excess = asked.checked_sub(*supply).unwrap_or(Duration::ZERO);
                let (at, asked, excess) = (time(*at), time(*asked), time(excess));
                write!(
                    f,
                    "{subject} a server of {demand}, and {room} {asked} can be asked for within {at}, as a deferrable \
                     server can use its budget up just before it gets the next: {excess} too much"
                )
            }
            Cause::Servers { cores } => {
                let (most, cores) = (Backend::MANAGED, if *cores == 1 { "the one core" } else { "every core" });
                write!(
                    f,
                    "a manager keeps {most} servers at most, and {cores} with room for its supply has {most} already"
                )
            }
            Cause::Upkeep { needs, has, cores } => {
                let cores = if *cores == 1 { "the one core" } else { "every core" };
                let (needs, has) = (share(*needs), share(*has));
                write!(
                    f,
                    "the manager itself would take {needs} of {cores} with room for it, as it works in each \
                     period of each server, and {has} is kept from reservations: longer periods, or a larger keep-free"
                )
            }
            Cause::Mode { mode, local, cause } => {
                let words = match (mode, local) {
                    (Some(mode), Some(local)) => format!("in mode '{mode}', with it in '{local}'"),
                    (Some(mode), None) => format!("in mode '{mode}'"),
                    (None, Some(local)) => format!("in its mode '{local}'"),
                    (None, None) => "in some mode".into(),
                };
                write!(f, "{words} {cause}")
            }
            Cause::Discord(discord) => discord.fmt(f),
            Cause::Apart { critical, cores } => {
                let (own, others) = if *critical { ("a", "none") } else { ("no", "one") };
                let cores =
                    if *cores == 1 { "the one core for it has".into() } else { format!("each of {cores} cores has") };
                write!(
                    f,
                    "it has {own} criticality, and {cores} services that have {others}: a core is under one order; say of all \
                     services of a core which criticality they have, or of none"
                )
            }
            Cause::AtWorst(cause) => write!(f, "at its worst {cause}"),
        }
    }
}
