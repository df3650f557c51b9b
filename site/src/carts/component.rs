//! A tree of components.

use giusto_model::{Duration, Task};
use std::fmt;

/// What CARTS calls the root, which has no name of its own.
pub const SYSTEM: &str = "OS Scheduler";

/// The scheduler inside a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Earliest deadline first.
    Edf,
    /// Rate monotonic.
    Rm,
    /// Deadline monotonic.
    Dm,
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Scheduler::Edf => "EDF",
            Scheduler::Rm => "RM",
            Scheduler::Dm => "DM",
        })
    }
}

/// The period of a component's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Any.
    Free,
    /// This one.
    Exactly(Duration),
    /// One from the first to the second.
    Between(Duration, Duration),
}

/// Tasks and components below one scheduler: a whole system, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Unique in the tree; the root is [`SYSTEM`].
    pub name: String,
    /// Who schedules the tasks and the interfaces of the components in it.
    pub scheduler: Scheduler,
    /// What is wanted of its own interface.
    pub period: Period,
    /// `criticality`, `vmips` and `subtype`, which CARTS keeps and does not use either.
    pub notes: [Option<String>; 3],
    /// Each valid by itself; without names `task1`, ... Offsets are kept, copies are 1.
    pub tasks: Vec<Task>,
    /// The components in it. There is a task or a component.
    pub components: Vec<Component>,
}

/// The attributes behind [`Component::notes`].
pub(super) const NOTES: [&str; 3] = ["criticality", "vmips", "subtype"];
