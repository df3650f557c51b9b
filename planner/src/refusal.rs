//! Why there is no plan: who does not fit, by how much, and what would.

use crate::words::{share, time};
use giusto_analysis::admission::Window;
use giusto_model::{Bandwidth, Duration, Interface, ServerKind};
use std::fmt;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The services ask for more than there is (exit 1).
    #[error("{0}")]
    DoesNotFit(Box<Witness>),
    /// The machine cannot do what the site or the method wants (exit 3).
    #[error("{lacks}; {remedy}")]
    Machine {
        /// What is missing.
        lacks: String,
        /// How to get it.
        remedy: String,
    },
    /// What was asked for cannot be had this way (exit 2).
    #[error("service '{service}': {why}; {instead}")]
    Asked {
        /// Whose.
        service: String,
        /// Why not.
        why: String,
        /// What to write instead.
        instead: String,
    },
    /// The tasks of a service cannot be analysed (exit 2).
    #[error("service '{service}': {why}")]
    Tasks {
        /// Whose.
        service: String,
        /// Why.
        why: giusto_analysis::Error,
    },
}

/// A service that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which.
    pub service: String,
    /// Why.
    pub cause: Cause,
    /// What would make it fit, each by itself; may be empty. With any of them this service is no longer refused for this
    /// cause (another service may then turn out not to fit either).
    pub nearest: Vec<NearestFit>,
}

/// What does not fit: demand against supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One core cannot hold the reservation.
    Core {
        /// Σ C/T.
        utilization: Bandwidth,
        /// W(P) at the best period allowed, and that period; `None` if U > 1.
        required: Option<(Bandwidth, Duration)>,
        /// Added to it.
        margin: Bandwidth,
        /// Most that a reservation may take of one core: the kernel's limit, or 1 − keep-free.
        supply: Bandwidth,
    },
    /// More time-sensitive services than cores.
    Cores {
        /// Time-sensitive services.
        demand: usize,
        /// Cores of the host.
        supply: usize,
    },
    /// No core has room for a supply.
    Supply {
        /// The virtual CPU that has no place.
        vcpu: Option<u32>,
        /// What it was promised.
        demand: Interface,
        /// The most that a core has left for it.
        supply: Bandwidth,
        /// Of a core without reservations.
        whole: Bandwidth,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// A core has room for a supply, but not in every window, as a deferrable server keeps its budget while it is idle.
    Window {
        /// The virtual CPU that has no place.
        vcpu: Option<u32>,
        /// What it was promised.
        demand: Interface,
        /// Of the cores that have room, where least is lacking: how much can be asked for in which time.
        window: Window,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// The reservations leave too little for the floors.
    Floors {
        /// Sum of all `at-least`.
        demand: Bandwidth,
        /// What is left on all cores together.
        supply: Bandwidth,
    },
}

/// A change of the site with which it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearestFit {
    /// A shorter execution time of one task.
    Wcet {
        /// Which task of the witness's.
        task: String,
        /// The longest that fits.
        at_most: Duration,
    },
    /// A smaller margin for the witness.
    Margin(Bandwidth),
    /// A smaller supply, of the same period.
    Supply {
        /// Of which virtual CPU.
        vcpu: Option<u32>,
        /// The largest that fits.
        at_most: Interface,
    },
    /// Another server algorithm for the witness.
    Kind(ServerKind),
    /// So many cores more.
    MoreCores(usize),
    /// A lower floor for the witness.
    AtLeast(Bandwidth),
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service '{}' does not fit: {}", self.service, self.cause)?;
        match self.nearest.split_last() {
            None => write!(f, "; no single change of its tasks, its margin, its supply or the cores makes it fit"),
            Some((last, [])) => write!(f, "; it fits with {last}"),
            Some((last, rest)) => {
                let rest: Vec<String> = rest.iter().map(NearestFit::to_string).collect();
                write!(f, "; it fits with {}, or with {last}", rest.join(", or with "))
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Core { utilization, required: None, .. } => {
                write!(f, "its tasks alone need U = {} of one core", share(*utilization))
            }
            Cause::Core { utilization, required: Some((required, period)), margin, supply } => write!(
                f,
                "it needs {} of one core every {} (U = {}) and a margin of {}, and one core can reserve {}: {} too much",
                share(*required),
                time(*period),
                share(*utilization),
                share(*margin),
                share(*supply),
                excess(required.checked_add(*margin), *supply)
            ),
            Cause::Cores { demand, supply } => write!(
                f,
                "{demand} services are promised as-if-alone, each needs a core to itself, and the host has {supply}"
            ),
            Cause::Supply { vcpu, demand, cores: 0, .. } => {
                write!(f, "{}promised {demand}, and as-if-alone services have every core to themselves", subject(*vcpu))
            }
            Cause::Supply { vcpu, demand, supply, whole, cores } => {
                let room = match cores {
                    1 => format!("the one core for it can give {} and has {} left", share(*whole), share(*supply)),
                    _ => format!(
                        "of {cores} cores that can give {} each none has more than {} left",
                        share(*whole),
                        share(*supply)
                    ),
                };
                let (subject, bandwidth) = (subject(*vcpu), demand.bandwidth());
                let excess = excess(Some(bandwidth), *supply);
                write!(f, "{subject}promised {demand} ({} of a core), and {room}: {excess} too much", share(bandwidth))
            }
            Cause::Window { vcpu, demand, window, cores } => {
                let subject = subject(*vcpu);
                let room = match cores {
                    1 => "the one core for it has room, but",
                    _ => "there are cores with room, but with it on any of them",
                };
                let Window { at, demand: asked, supply, .. } = window;
                let excess = asked.checked_sub(*supply).unwrap_or(Duration::ZERO);
                let (at, asked, excess) = (time(*at), time(*asked), time(excess));
                write!(
                    f,
                    "{subject}promised {demand}, and {room} {asked} can be asked for within {at}, as a deferrable server can \
                     use its budget up just before it gets the next: {excess} too much"
                )
            }
            Cause::Floors { demand, supply } => write!(
                f,
                "all floors together ask for {} of a core, and the reservations leave {}: {} too much",
                share(*demand),
                share(*supply),
                excess(Some(*demand), *supply)
            ),
        }
    }
}

fn subject(vcpu: Option<u32>) -> String {
    vcpu.map_or("it is ".into(), |vcpu| format!("its virtual CPU {vcpu} is "))
}

/// How much `demand` is above `supply`; what no tenth of a percentage point shows is still said.
fn excess(demand: Option<Bandwidth>, supply: Bandwidth) -> String {
    let excess = demand.and_then(|demand| demand.checked_sub(supply));
    excess.filter(|e| e.as_f64() >= 0.0005).map_or("less than 0.1 %".into(), Bandwidth::percent)
}

impl fmt::Display for NearestFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NearestFit::Wcet { task, at_most } => write!(f, "wcet ≤ {at_most} for task '{task}'"),
            NearestFit::Margin(margin) => write!(f, "margin {}", share(*margin)),
            NearestFit::Supply { vcpu: None, at_most } => write!(f, "a supply of {at_most}"),
            NearestFit::Supply { vcpu: Some(vcpu), at_most } => {
                write!(f, "a supply of {at_most} for virtual CPU {vcpu}")
            }
            NearestFit::Kind(kind) => write!(f, "server: {kind}"),
            NearestFit::MoreCores(1) => write!(f, "one core more"),
            NearestFit::MoreCores(more) => write!(f, "{more} cores more"),
            NearestFit::AtLeast(floor) => write!(f, "at-least {}", share(*floor)),
        }
    }
}
