//! Backends: the mechanisms that enforce servers on Linux, and what each can do.
//!
//! What the planner, the checker and the doctor have to know of a backend is data here ([`Backend::abilities`]), so that a new
//! one is a row. How it works is in `compute`, a file each behind one trait.

use crate::{Duration, ServerKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The mechanism that enforces a server on Linux (specs: linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// SCHED_DEADLINE per thread, pinned in an exclusive cpuset. Enforced at the kernel's tick.
    Deadline,
    /// Giusto's own manager thread a core, which drives the policy core: any kind, on a fixed grid, exact.
    Manager,
    /// The real-time group's runtime of cgroup v1. Enforced at the kernel's tick.
    RtGroup,
    /// The fair scheduler's quota: a cap, never a guarantee.
    Quota,
    /// The policy core as a scheduler in the kernel (sched_ext): any kind, budgets kept to microseconds.
    Kernel,
    /// RTDS, the scheduler of Xen: deferrable servers, one a virtual CPU, under EDF.
    Rtds,
}

/// What a backend can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Its name in files and on the command line.
    pub name: &'static str,
    /// What it is good for, in a few words.
    pub purpose: &'static str,
    /// The kinds of server that it can be; none: it caps and guarantees nothing.
    pub kinds: &'static [ServerKind],
    /// Whether threads without budget may go on in the time that is left over.
    pub soft_caps: bool,
    /// Whether it knows criticality: the mixed order, in which low servers give way to high ones.
    pub criticality: bool,
    /// Whether an agent can go before all servers of its core for a moment.
    pub boosts: bool,
    /// Whether budgets end at the kernel's tick only: a server then runs over by up to one, and pays it back.
    pub at_the_tick: bool,
    /// Whether servers have fixed priorities, so that one is alone on its core.
    pub alone: bool,
    /// Whether a constant_bandwidth server of its begins a new period at each wake-up after which its old budget and
    /// deadline would exceed its bandwidth; if not, budgets come on a grid that work does not know.
    pub at_wake_up: bool,
    /// Whether single threads of a service, such as virtual CPUs, can have servers of their own.
    pub single_threads: bool,
    /// Whether a thread of Giusto's on every core does it, which takes a part of that core; if not, the kernel says
    /// what it admits.
    pub own_thread: bool,
    /// Whether its cores are taken from all other programs of the machine.
    pub isolates: bool,
    /// Servers on one core at most.
    pub servers: usize,
    /// What a stock kernel lacks for it and how to get that; `None`: it has all of it.
    pub beyond_stock: Option<&'static str>,
    /// Where it comes when a backend is chosen for a service that is to have the response times of a whole core, and for
    /// others; the smallest comes first, `None` is not chosen.
    pub order: [Option<u8>; 2],
    /// Which periods it keeps.
    pub periods: Periods,
    /// Budgets and periods are whole multiples of this.
    pub grain: Duration,
    /// The least budget, and where that comes from.
    pub least: (Duration, &'static str),
    /// Why it is chosen for the response times of a whole core, and for other promises; `{tick}` is the kernel's, `{among}` who
    /// else is on its core.
    pub why: [&'static str; 2],
}

/// Where the periods of a backend come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Periods {
    /// What SCHED_DEADLINE accepts, and no less than some ticks.
    OfTheKernel,
    /// No less than some ticks.
    OfTheTick,
    /// From `shortest` on; without being asked, from `chosen` on.
    From {
        /// It keeps no shorter one.
        shortest: Duration,
        /// Below it costs more than it should.
        chosen: Duration,
        /// Why `chosen`.
        why: &'static str,
    },
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 6] =
        [Backend::Deadline, Backend::Manager, Backend::RtGroup, Backend::Quota, Backend::Kernel, Backend::Rtds];
    /// Servers that [`Backend::Manager`] keeps on one core at most.
    pub const MANAGED: usize = 64;
    /// What caps services that get leftovers.
    pub const CAP: Backend = Backend::Quota;

    /// What it can do.
    pub fn abilities(self) -> &'static Abilities {
        match self {
            Backend::Deadline => &DEADLINE,
            Backend::Manager => &MANAGER,
            Backend::RtGroup => &RT_GROUP,
            Backend::Quota => &QUOTA,
            Backend::Kernel => &KERNEL,
            Backend::Rtds => &RTDS,
        }
    }
}

const DEADLINE: Abilities = Abilities {
    name: "deadline",
    purpose: "usable: one thread a service",
    kinds: &[ServerKind::ConstantBandwidth],
    soft_caps: false,
    criticality: false,
    boosts: false,
    at_the_tick: true,
    alone: false,
    at_wake_up: true,
    single_threads: false,
    own_thread: false,
    isolates: true,
    servers: usize::MAX,
    beyond_stock: None,
    order: [Some(0), Some(1)],
    periods: Periods::OfTheKernel,
    grain: Duration::from_ns(1),
    least: (Duration::from_ns(1024), "the least runtime that the kernel accepts"), // DL_SCALE
    why: [
        "SCHED_DEADLINE, hard constant bandwidth, pinned: the highest priority on its core, as Theorem 1 asks",
        "SCHED_DEADLINE, pinned: {among}, enforced at the tick of {tick}; it serves one thread, the one that does the work",
    ],
};

const MANAGER: Abilities = Abilities {
    name: "manager",
    purpose: "usable: reservations of all kinds",
    kinds: ServerKind::WITH_BUDGET,
    soft_caps: true,
    criticality: true,
    boosts: true,
    at_the_tick: false,
    alone: false,
    at_wake_up: true,
    single_threads: true,
    own_thread: true,
    isolates: false,
    servers: Backend::MANAGED,
    beyond_stock: None,
    order: [Some(1), Some(0)],
    // It keeps budgets to about 0.1 ms, and took 2.5 % of a core at the shortest period.
    periods: Periods::From {
        shortest: Duration::from_ms(5),
        chosen: Duration::from_ms(10),
        why: "where the manager takes less than 2 % of a core",
    },
    grain: Duration::from_ns(1),
    least: (Duration::from_us(100), "the least budget that the manager keeps"),
    why: [
        "Giusto's manager, budgets kept to about 0.1 ms; alone on its core, hence the highest priority, as Theorem 1 asks",
        "Giusto's manager, budgets kept to about 0.1 ms; EDF among the servers of its core",
    ],
};

const RT_GROUP: Abilities = Abilities {
    name: "rt-group",
    purpose: "usable, where --backend asks for it",
    kinds: &[ServerKind::ConstantBandwidth],
    soft_caps: false,
    criticality: false,
    boosts: false,
    at_the_tick: true,
    alone: true,
    at_wake_up: false, // the group's timer goes on for as long as it has used any of its budget
    single_threads: false,
    own_thread: false,
    isolates: false,
    servers: usize::MAX,
    beyond_stock: Some("cpu.rt_runtime_us is missing: use a kernel with RT_GROUP_SCHED and cgroup v1"),
    order: [Some(2), Some(2)],
    periods: Periods::OfTheTick,
    grain: Duration::from_ns(1),
    least: (Duration::from_us(1), "the least runtime that the kernel accepts"),
    why: [
        "a real-time group, alone on its core: the highest priority, as Theorem 1 asks",
        "a real-time group, enforced at the tick of {tick}; alone on its core, as groups have fixed priorities",
    ],
};

const QUOTA: Abilities = Abilities {
    name: "quota",
    purpose: "usable: caps by at-most",
    kinds: &[],
    soft_caps: false,
    criticality: false,
    boosts: false,
    at_the_tick: true,
    alone: false,
    at_wake_up: false,
    single_threads: false,
    own_thread: false,
    isolates: false,
    servers: usize::MAX,
    beyond_stock: None,
    order: [None, None],
    periods: Periods::OfTheTick,
    grain: Duration::from_ns(1),
    least: (Duration::from_us(1), "the least runtime that the kernel accepts"),
    why: ["a cap, never a guarantee", "a cap, never a guarantee"],
};

const KERNEL: Abilities = Abilities {
    name: "kernel",
    purpose: "usable, where --backend asks for it: reservations of all kinds, enforced in the kernel",
    kinds: ServerKind::WITH_BUDGET,
    soft_caps: false,
    criticality: false,
    boosts: false,
    at_the_tick: false,
    alone: false,
    at_wake_up: true,
    single_threads: false,
    own_thread: false,
    isolates: true,
    servers: 256,
    beyond_stock: Some("sched_ext is missing: use a kernel with CONFIG_SCHED_CLASS_EXT (docs/kernel.md)"),
    order: [None, None],
    periods: Periods::From {
        shortest: Duration::from_ms(1),
        chosen: Duration::from_ms(10),
        why: "where it was measured, in a guest",
    },
    grain: Duration::from_ns(1),
    least: (Duration::from_us(100), "several times what a switch costs"),
    why: [
        "the policy core in the kernel; alone on its core, hence the highest priority, as Theorem 1 asks",
        "the policy core in the kernel; EDF among the servers of its core",
    ],
};

const RTDS: Abilities = Abilities {
    name: "rtds",
    purpose: "domains of Xen, on hosts with hypervisor: xen",
    kinds: &[ServerKind::Deferrable],
    soft_caps: true, // "extra time"
    criticality: false,
    boosts: false,
    at_the_tick: false,
    alone: false,
    at_wake_up: false,
    single_threads: true,
    own_thread: false,
    isolates: false,
    servers: usize::MAX,
    beyond_stock: Some("it is a scheduler of Xen: needs a host with hypervisor: xen (docs/xen.md)"),
    order: [None, None],
    periods: Periods::From { shortest: Duration::from_ms(1), chosen: Duration::from_ms(10), why: "Xen's own default" },
    grain: Duration::from_us(1),
    least: (Duration::from_us(10), "the least budget that RTDS accepts"),
    why: [
        "RTDS, Xen's deferrable servers; alone on its core, hence the highest priority, as Theorem 1 asks",
        "RTDS, Xen's deferrable servers; EDF among the virtual CPUs that are pinned to its core",
    ],
};

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.abilities().name)
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Backend::ALL.map(|backend| backend.to_string()).join(", ");
        let found = Backend::ALL.into_iter().find(|backend| backend.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not a backend; expected one of {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_have_one_name_for_people_and_files() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        assert!("cfs".parse::<Backend>().unwrap_err().contains("deadline, manager, rt-group, quota, kernel, rtds"));
    }

    #[test]
    fn what_is_chosen_guarantees_something_and_never_comes_in_the_same_place() {
        for wanted in 0..2 {
            let mut places: Vec<u8> = Backend::ALL.iter().filter_map(|one| one.abilities().order[wanted]).collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        }
        let chosen = |one: &Backend| one.abilities().order.iter().any(Option::is_some);
        assert!(Backend::ALL.iter().filter(|one| chosen(one)).all(|one| !one.abilities().kinds.is_empty()));
    }
}
