//! What a service was promised.

use crate::{Arrivals, Bandwidth, GuestScheduler, Interface, LocalNeed, Scheduler, ServiceTime, Task, Within};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The promise chooses the method (DESIGN, "The promise chooses the method"); the site room refuses the others with "not
/// yet".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The latency distribution of a whole core, on a share of one (VAS, [LiH21, chapter 3]).
    AsIfAlone,
    /// No job late, whatever else runs on the host (CSA, Lee11 and Abe22).
    EveryDeadline {
        /// Who runs its jobs.
        scheduler: GuestScheduler,
        /// How many virtual CPUs its tasks are spread over; 1 unless it is a virtual machine.
        vcpus: u32,
        /// The virtual CPU of each task, in their order; empty: the planner chooses.
        placed: Vec<u32>,
    },
    /// Percentiles of the response time of requests that come at random [LiH21, chapter 4].
    Percentiles {
        /// What was promised, ascending in both; at least one.
        points: Vec<Within>,
        /// How requests come.
        arrivals: Arrivals,
        /// How long each takes.
        service: ServiceTime,
    },
    /// What the paths that go through it need, so that they keep their own promises.
    Stage {
        /// How long each message takes.
        service: ServiceTime,
        /// What they count on, of its budget in every period; `None`, and not written: that is still to be planned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<Interface>,
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

/// What a promise is about. Rooms that need not know which promises there are ask for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// How long requests take.
    Requests,
    /// The deadlines of tasks.
    Deadlines,
    /// Messages of paths, which promise for it.
    Paths,
    /// Processor time, whatever is done with it.
    Supply,
    /// What others leave.
    Rest,
}

impl Promise {
    /// What it is about.
    pub fn about(&self) -> About {
        match self {
            Promise::AsIfAlone | Promise::Percentiles { .. } => About::Requests,
            Promise::EveryDeadline { .. } => About::Deadlines,
            Promise::Stage { .. } => About::Paths,
            Promise::Supply(_) => About::Supply,
            Promise::Leftovers { .. } => About::Rest,
        }
    }

    /// Whether it is planned from tasks.
    pub fn has_tasks(&self) -> bool {
        match self {
            Promise::AsIfAlone | Promise::EveryDeadline { .. } => true,
            Promise::Percentiles { .. } | Promise::Stage { .. } | Promise::Supply(_) | Promise::Leftovers { .. } => {
                false
            }
        }
    }

    /// The processor time that it names itself, one a virtual CPU; empty: it names none.
    pub fn supplies(&self) -> &[Interface] {
        match self {
            Promise::Supply(interfaces) => interfaces,
            Promise::AsIfAlone
            | Promise::EveryDeadline { .. }
            | Promise::Percentiles { .. }
            | Promise::Stage { .. }
            | Promise::Leftovers { .. } => &[],
        }
    }

    /// What it needs in a mode of the service, which runs these tasks there.
    pub fn local_need(&self, tasks: &[Task]) -> LocalNeed {
        let (tasks, placed) = match self {
            Promise::Supply(interfaces) => return LocalNeed::Supply(interfaces.clone()),
            Promise::EveryDeadline { placed, .. } => (tasks.to_vec(), placed.clone()),
            // These have no modes.
            Promise::AsIfAlone | Promise::Percentiles { .. } | Promise::Stage { .. } | Promise::Leftovers { .. } => {
                (Vec::new(), Vec::new())
            }
        };
        LocalNeed::Tasks { tasks, placed }
    }

    /// How requests come, where that is at random.
    pub fn arrivals(&self) -> Option<Arrivals> {
        match self {
            Promise::Percentiles { arrivals, .. } => Some(*arrivals),
            _ => None,
        }
    }

    /// The order of its own jobs, where it names one.
    pub fn own_scheduler(&self) -> Option<Scheduler> {
        match self {
            Promise::EveryDeadline { scheduler: GuestScheduler::Own(own), .. } => Some(*own),
            _ => None,
        }
    }
}

/// In words, as `giusto check` tells it.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |each: Vec<String>| each.join(", ");
        match self {
            Promise::AsIfAlone => write!(f, "as-if-alone"),
            Promise::EveryDeadline { scheduler, vcpus, .. } => {
                let on = if *vcpus > 1 { format!(" on {vcpus} virtual CPUs") } else { String::new() };
                write!(f, "every-deadline, scheduler {scheduler}{on}")
            }
            Promise::Percentiles { points, arrivals, service } => {
                write!(f, "{}; {arrivals}, {service}", list(points.iter().map(Within::to_string).collect()))
            }
            Promise::Stage { service, .. } => write!(f, "what its paths need; {service}"),
            Promise::Supply(interfaces) => {
                write!(f, "supply of {}", list(interfaces.iter().map(Interface::to_string).collect()))
            }
            Promise::Leftovers { at_least, at_most } => {
                let most = at_most.map_or(String::new(), |most| format!(", at most {}", most.percent()));
                write!(f, "leftovers, at least {}{most}", at_least.percent())
            }
        }
    }
}
