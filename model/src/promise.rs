//! What a service was promised.

use crate::{Bandwidth, GuestScheduler, Interface};
use serde::{Deserialize, Serialize};

/// The promise chooses the method (DESIGN, "The promise chooses the method"); the site room refuses the others with "not
/// yet".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The latency distribution of a whole core, on a share of one (VAS, paper 000 chapter 3).
    AsIfAlone,
    /// No job late, whatever else runs on the host (CSA, papers 002 and 004).
    EveryDeadline {
        /// Who runs its jobs.
        scheduler: GuestScheduler,
        /// How many virtual CPUs its tasks are spread over; 1 unless it is a virtual machine.
        vcpus: u32,
        /// The virtual CPU of each task, in their order; empty: the planner chooses.
        placed: Vec<u32>,
    },
    /// Processor time B in every P, whatever runs: one interface a virtual CPU of a VM, else one for the service.
    Supply(Vec<Interface>),
    /// Throughput only: whatever the others leave, but at least this much.
    Leftovers {
        /// `at-least: 10%`; zero when none was written.
        at_least: Bandwidth,
        /// `at-most: 40%`: a cap on all its processes together, never a guarantee.
        at_most: Option<Bandwidth>,
    },
}
