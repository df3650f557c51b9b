//! Why an interface has no place among those whose packets go first, and what would give it one.

use crate::words::time;
use giusto_model::{BitRate, Duration, Host, Rate};
use std::fmt;

/// An interface without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketRefusal {
    /// Of which host.
    pub host: String,
    /// Its name; empty: none in particular.
    pub interface: String,
    /// Why.
    pub cause: PacketCause,
    /// What would do, each by itself: this interface is no longer refused then (a later one may still be).
    pub nearest: Vec<PacketFit>,
}

/// Why an interface has no place; on the core where it is the least trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketCause {
    /// The threads with real-time priorities would run for too long in a second.
    Busy {
        /// Of which core.
        core: u32,
        /// How long, with it.
        demand: Duration,
        /// How long they may.
        supply: Duration,
    },
    /// With it a promise is not kept, whatever the order: the interface that is last waits for too long.
    Late {
        /// On which core.
        core: u32,
        /// Who could be last with the least harm.
        last: String,
        /// What it was promised.
        promised: Duration,
        /// How long it can wait; `None`: without end.
        bound: Option<Duration>,
    },
    /// There are not as many priorities as promises need, or uplinks.
    Priorities {
        /// On which core.
        core: u32,
        /// So many there are.
        most: usize,
    },
    /// No assignment was found in reasonable time.
    Search,
    /// It cannot be computed.
    Analysis(giusto_analysis::Error),
}

/// A change with which it has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFit {
    /// The largest rate, in whole packets a second, beside one of bits where that stays.
    Rate(Rate, Option<BitRate>),
    /// The largest burst.
    Burst(u64),
    /// What can be promised, for each of its percentiles.
    Within(Duration),
    /// So many cores for packets.
    Cores(usize),
}

impl PacketRefusal {
    pub(super) fn analysis(host: &Host, why: giusto_analysis::Error) -> Box<PacketRefusal> {
        let cause = PacketCause::Analysis(why);
        Box::new(PacketRefusal { host: host.name.clone(), interface: String::new(), cause, nearest: Vec::new() })
    }
}

impl fmt::Display for PacketFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketFit::Rate(rate, None) => write!(f, "rate: {rate}"),
            PacketFit::Rate(rate, Some(bits)) => write!(f, "rate: [{rate}, {bits}]"),
            PacketFit::Burst(burst) => write!(f, "burst: {burst}"),
            PacketFit::Within(within) => write!(f, "a promise of {}", within.to_string().replace(' ', "")),
            PacketFit::Cores(cores) => write!(f, "{cores} cores for packets"),
        }
    }
}

impl fmt::Display for PacketCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketCause::Busy { core, demand, supply } => write!(
                f,
                "with it core {core} would process packets of uplinks and the high class for {} of a second, and {} are allowed",
                time(*demand),
                time(*supply)
            ),
            PacketCause::Late { core, last, promised, bound } => {
                let bound = bound.map_or("without end".into(), |bound| format!("for up to {}", time(bound)));
                write!(
                    f,
                    "with it an interface of core {core} is late: even '{last}', if it is last there, waits {bound}, \
                     and {} is promised",
                    time(*promised)
                )
            }
            PacketCause::Priorities { core, most } => {
                write!(f, "core {core} has {most} priorities for its kind, and what is promised there needs more of them")
            }
            PacketCause::Search => write!(f, "no assignment of interfaces to cores was found that keeps all promises"),
            PacketCause::Analysis(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for PacketRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interface.as_str() {
            "" => write!(f, "packets on {}: {}", self.host, self.cause)?,
            name => write!(f, "interface '{name}' on {}: {}", self.host, self.cause)?,
        }
        let nearest: Vec<String> = self.nearest.iter().map(PacketFit::to_string).collect();
        match nearest.is_empty() {
            true => Ok(()),
            false => write!(f, "; it would fit with {}", nearest.join(", or with ")),
        }
    }
}
