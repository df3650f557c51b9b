//! Why a service has no share of a core on which it would be as if alone.

use crate::words::{excess, share, time};
use giusto_model::{Bandwidth, Duration};
use std::fmt;

/// One core cannot hold the reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Σ C/T.
    pub utilization: Bandwidth,
    /// W(P) at the best period allowed, and that period; `None` if U > 1.
    pub required: Option<(Bandwidth, Duration)>,
    /// Added to it.
    pub margin: Bandwidth,
    /// Most that a reservation may take of one core: the kernel's limit, or 1 − keep-free.
    pub supply: Bandwidth,
}

/// More services that each need a core to themselves than cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// Services that are promised as-if-alone.
    pub services: usize,
    /// The cores that they need: one each, and one for each of their copies.
    pub demand: usize,
    /// Cores of the host.
    pub supply: usize,
}

impl TooLarge {
    /// How much is missing, in cores; `None`: no exact fraction tells.
    pub(crate) fn missing(&self) -> Option<Bandwidth> {
        match self.required {
            None => self.utilization.checked_sub(self.supply),
            Some((required, _)) => required.checked_add(self.margin)?.checked_sub(self.supply),
        }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { utilization, required, margin, supply } = self;
        let Some((required, period)) = required else {
            return write!(f, "its tasks alone need U = {} of one core", share(*utilization));
        };
        write!(
            f,
            "it needs {} of one core every {} (U = {}) and a margin of {}, and one core can reserve {}: {} too much",
            share(*required),
            time(*period),
            share(*utilization),
            share(*margin),
            share(*supply),
            excess(required.checked_add(*margin), *supply)
        )
    }
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooMany { services, demand, supply } = self;
        if demand > services {
            let own = if *services == 1 { "1 service that is".into() } else { format!("{services} services that are") };
            return write!(
                f,
                "{own} promised as-if-alone, {demand} with all copies, each needs a core to itself, and the host has \
                 {supply}"
            );
        }
        write!(f, "{demand} services are promised as-if-alone, each needs a core to itself, and the host has {supply}")
    }
}
