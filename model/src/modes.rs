//! Modes: what each service runs in which situation, and what a change between them may cost [LiH21, chapter 2].
//!
//! A *local* mode is what one service runs, and the servers for that; a *global* mode names a local mode for each
//! service that has any.

use crate::{Admission, AgentKey, Bandwidth, Certificate, Duration, Hold, Interface, Listen, Reason, Server, Task};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The local mode of a service that runs nothing. Of one without an agent the host freezes all processes; with one, the
/// agent stops all tasks.
pub const STOPPED: &str = "stopped";
/// The name of an agent's work among the tasks of its service; no task of a site can be called so.
pub const AGENT_TASK: &str = "(agent)";
/// The local mode of a service without modes of its own that is not [`STOPPED`].
pub const RUNNING: &str = "running";

/// The modes of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteModes {
    /// How the site changes between them; a policy of `None` is chosen by the planner.
    pub changes: ModeChanges<Option<ChangePolicy>>,
    /// In the order of the file, names unique, at least one; the site begins in the first.
    pub modes: Vec<SiteMode>,
}

impl SiteModes {
    /// How many changes there may be in one `spacing`: one, and one that is urgent.
    pub fn at_once(&self) -> u64 {
        1 + u64::from(self.modes.iter().any(|mode| mode.urgent))
    }
}

/// A global mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteMode {
    /// Its name.
    pub name: String,
    /// How long a change to it may take, from any other; `None`: nothing is promised.
    pub within: Option<Duration>,
    /// A change to it is not held back by `spacing`, and takes over from another one.
    pub urgent: bool,
    /// The local mode of every member, in the order of the services: one of its own, or [`STOPPED`], or, of a service
    /// without modes, [`RUNNING`]. The same members in all modes.
    pub locals: Vec<MemberMode>,
}

/// The local mode of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMode {
    /// The service.
    pub service: String,
    /// What it does.
    pub local: String,
}

/// A local mode of a service, as it was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceMode {
    /// Its name, unique in the service; never [`STOPPED`].
    pub name: String,
    /// What it is promised there.
    pub need: LocalNeed,
}

/// What a service is promised in a local mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalNeed {
    /// Every deadline of these.
    Tasks {
        /// At least one.
        tasks: Vec<Task>,
        /// The virtual CPU of each task, in their order; empty: the planner chooses.
        placed: Vec<u32>,
    },
    /// So much processor time, one interface a virtual CPU; as many in all local modes, and of the same periods.
    Supply(Vec<Interface>),
}

/// How a site changes its mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeChanges<P = ChangePolicy> {
    /// In which order, and how agents are reached.
    pub policy: P,
    /// Whether the change itself may make a budget late.
    pub transition: Transition,
    /// What becomes of a request that comes during a change.
    pub requests: Requests,
    /// What becomes of a change in which an agent does not answer.
    pub on_timeout: OnTimeout,
    /// How long an agent has for its answer.
    #[serde(rename = "timeout_ns")]
    pub timeout: Duration,
    /// The least time from the end of a change to the beginning of the next, enforced.
    #[serde(rename = "spacing_ns")]
    pub spacing: Duration,
    /// Where agents find the host's manager; at least one.
    pub listen: Vec<Listen>,
}

impl ModeChanges<Option<ChangePolicy>> {
    /// The same with a policy.
    pub fn with(self, policy: ChangePolicy) -> ModeChanges {
        let ModeChanges { policy: _, transition, requests, on_timeout, timeout, spacing, listen } = self;
        ModeChanges { policy, transition, requests, on_timeout, timeout, spacing, listen }
    }
}

/// One word for people and files.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$says])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($name::$variant => $word,)* })
            }
        }
    };
}

words! {
    /// The order of a change [LiH21, § 2.4].
    ChangePolicy {
        /// One member after the other, the largest decrease first; each agent's virtual CPU goes before all others
        /// from its command to its answer, so that it waits for no budget.
        Boost = "boost",
        /// One member after the other, the largest decrease first.
        Sequential = "sequential",
        /// All that decrease at once, then all others.
        Batch = "batch",
        /// All that decrease at once, each other as soon as enough is free for it.
        Greedy = "greedy",
    }
}

words! {
    /// Whether the change itself may make a budget late.
    Transition {
        /// As fast as it goes: what a member gives up counts as free at once, which may make one budget of others late.
        Fast = "fast",
        /// Nothing is late: what a member gives up counts as free from its next replenishment on, and servers grow at
        /// theirs.
        Guaranteed = "guaranteed",
    }
}

words! {
    /// What becomes of a request for a mode that comes during a change.
    Requests {
        /// It is refused.
        Reject = "reject",
        /// It waits.
        Queue = "queue",
        /// It takes over: the rest is planned anew from where the change is.
        Preempt = "preempt",
    }
}

words! {
    /// What becomes of a change in which an agent does not answer in time.
    OnTimeout {
        /// It ends refused, with every service in the old mode.
        RollBack = "roll-back",
        /// It goes on: the silent service loses its guarantee and is capped at its new budget.
        Degrade = "degrade",
    }
}

/// What was decided for the modes of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModesPlan {
    /// The host.
    pub on: String,
    /// How it changes its mode.
    pub changes: ModeChanges,
    /// The services that do not do the same in all modes, in the order of the site.
    pub members: Vec<MemberPlan>,
    /// In the order of the site; the host begins in the first.
    pub modes: Vec<ModePlan>,
    /// What it would cost to reserve for each member what it needs in its worst mode.
    pub static_cost: StaticCost,
    /// Where the numbers come from.
    pub reasons: Vec<Reason>,
}

impl ModesPlan {
    /// The plan of the local mode `local` of the member at `place`.
    pub fn local(&self, place: usize, local: &str) -> Option<&LocalPlan> {
        self.members.get(place)?.locals.iter().find(|one| one.name == local)
    }
    /// The mode of this name.
    pub fn mode(&self, name: &str) -> Option<&ModePlan> {
        self.modes.iter().find(|mode| mode.name == name)
    }
    /// How many changes there may be in one `spacing`: one, and one that is urgent.
    pub fn at_once(&self) -> u64 {
        1 + u64::from(self.modes.iter().any(|mode| mode.urgent))
    }
    /// Whether agents are boosted, so that each core needs a hypothetical server for that.
    pub fn boosts(&self) -> bool {
        self.changes.policy == ChangePolicy::Boost
    }
}

/// A service with local modes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberPlan {
    /// The service.
    pub service: String,
    /// Its agent, on virtual CPU 0 if it has several; `None`: what is left, which the host freezes and lets go on.
    pub agent: Option<AgentKey>,
    /// Its local modes: those of the site, then [`STOPPED`]; of a service without an agent [`RUNNING`] and
    /// [`STOPPED`]. Also those that no mode of the site uses, so that a combination of one's own can be admitted.
    pub locals: Vec<LocalPlan>,
}

/// A local mode with its servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalPlan {
    /// Its name.
    pub name: String,
    /// Σ C/T of all its tasks, the agent's work included.
    pub utilization: Bandwidth,
    /// One for each entry of the service in the plan (virtual CPU), in their order; of the same kinds and periods in
    /// all local modes. None of a member without an agent.
    pub servers: Vec<Server>,
    /// What runs, as it was described; the agent's work is not among it.
    pub tasks: Vec<Task>,
    /// What each server rests on, in their order.
    pub proofs: Vec<LocalProof>,
}

impl LocalPlan {
    /// Σ B/P; `None` where that needs more than 64 bits.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        self.servers.iter().try_fold(Bandwidth::ZERO, |sum, server| sum.checked_add(server.bandwidth()))
    }
}

/// What the server of one virtual CPU rests on in a local mode, or with its pessimistic budget: what
/// [`crate::ServicePlan`] says of it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalProof {
    /// What runs there; the agent's work is first.
    pub tasks: Vec<Task>,
    /// Σ C/T.
    pub utilization: Bandwidth,
    /// Least bandwidth at this period.
    pub required: Bandwidth,
    /// What was added to it.
    pub margin: Bandwidth,
    /// How long it can hold the core.
    pub hold: Hold,
    /// What proves that it is enough.
    pub certificate: Certificate,
}

/// A global mode on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModePlan {
    /// Its name.
    pub name: String,
    /// How long a change to it may take; `None`: nothing is promised.
    #[serde(rename = "within_ns")]
    pub within: Option<Duration>,
    /// Whether a change to it is not held back by `spacing`, other than after another such change, and takes over from
    /// one that is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The local mode of each member, in their order.
    pub locals: Vec<String>,
    /// How long a change to it takes at most, from any other mode of the site, if every agent does what it has to do
    /// within its cost; 0 if there is no other.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
    /// For each core with reservations what proves that they fit together in this mode.
    pub admission: Vec<Admission>,
}

/// What modes save: reservations for the worst mode of each server against those of the worst mode of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticCost {
    /// Σ over all servers of the host of the most that it has in any mode, rounded up where it is not exact.
    #[serde(rename = "static")]
    pub fixed: Bandwidth,
    /// The largest Σ over all servers of the host in one mode.
    pub modal: Bandwidth,
    /// Cores that the first takes, each server on the first with room, the largest first.
    #[serde(rename = "static_cores")]
    pub fixed_cores: u32,
    /// Cores that the second takes likewise.
    pub modal_cores: u32,
}
