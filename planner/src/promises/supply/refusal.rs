//! Why no core has room for a supply.

use crate::words::{excess, share};
use giusto_model::{Bandwidth, Interface};
use std::fmt;

/// No core has room for a supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSupply {
    /// The virtual CPU that has no place.
    pub vcpu: Option<u32>,
    /// What it was promised.
    pub demand: Interface,
    /// The most that a core has left for it.
    pub supply: Bandwidth,
    /// Of a core without reservations.
    pub whole: Bandwidth,
    /// Cores that no as-if-alone service has to itself.
    pub cores: usize,
}

impl fmt::Display for NoSupply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoSupply { vcpu, demand, supply, whole, cores } = self;
        let subject = vcpu.map_or("it is ".into(), |vcpu| format!("its virtual CPU {vcpu} is "));
        let room = match cores {
            0 => {
                return write!(f, "{subject}promised {demand}, and as-if-alone services have every core to themselves");
            }
            1 => format!("the one core for it can give {} and has {} left", share(*whole), share(*supply)),
            _ => format!(
                "of {cores} cores that can give {} each none has more than {} left",
                share(*whole),
                share(*supply)
            ),
        };
        let bandwidth = demand.bandwidth();
        let excess = excess(Some(bandwidth), *supply);
        write!(f, "{subject}promised {demand} ({} of a core), and {room}: {excess} too much", share(bandwidth))
    }
}
