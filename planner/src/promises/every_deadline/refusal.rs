//! Why no core has room for a server that keeps all deadlines.

use crate::words::{share, time};
use giusto_model::{Bandwidth, Duration, GuestScheduler, Interface};
use std::fmt;

/// A server that keeps all deadlines of one virtual CPU, and what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The virtual CPU that has no place.
    pub vcpu: Option<u32>,
    /// In which order it runs its jobs.
    pub scheduler: GuestScheduler,
    /// The cheapest server that is enough; `None`: not even whole cores are.
    pub needs: Option<Interface>,
    /// The most that a core has left for it.
    pub room: Bandwidth,
    /// Of a core without reservations.
    pub whole: Bandwidth,
    /// Cores that no as-if-alone service has to itself.
    pub cores: usize,
    /// What goes wrong in that room.
    pub late: Late,
}

/// Work that comes too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// With this server, the largest that there is room for.
    pub given: Interface,
    /// A task that misses a deadline.
    pub task: String,
    /// In a window of this length ...
    pub at: Duration,
    /// ... so much may be asked for ...
    pub demand: Duration,
    /// ... and only this much is sure to be supplied.
    pub supply: Duration,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { vcpu, scheduler, needs, room, whole, cores, late } = self;
        let subject = vcpu.map_or("it needs".into(), |vcpu| format!("its virtual CPU {vcpu} needs"));
        match needs {
            None if *scheduler == GuestScheduler::Any => {
                write!(f, "{subject} more than a whole core for its deadlines if its jobs run in any order (no 'scheduler' is named)")?;
            }
            None => write!(f, "{subject} more than a whole core for its deadlines")?,
            Some(needs) => {
                write!(f, "{subject} {needs} ({} of a core) for its deadlines, and ", share(needs.bandwidth()))?;
                match cores {
                    0 => return write!(f, "as-if-alone services have every core to themselves"),
                    _ if needs.bandwidth() > *whole => write!(f, "a core can give {}", share(*whole))?,
                    1 => write!(f, "the one core for it has {} of {} left", share(*room), share(*whole))?,
                    _ => write!(f, "of {cores} cores none has more than {} of {} left", share(*room), share(*whole))?,
                }
            }
        }
        let Late { given, task, at, demand, supply } = late;
        let given = if given.budget.is_zero() { "nothing".into() } else { given.to_string() };
        write!(
            f,
            ": with {given} task '{task}' can be late, as in {} up to {} may be asked for and {} is sure to be supplied",
            time(*at),
            time(*demand),
            time(*supply)
        )
    }
}
