//! The kinds of servers: what each is called, and what may be assumed of it.
//!
//! A kind is its rules in the policy core (`policy/kinds`) and a row here, on which the planner, admission and the checker
//! rest. Others ask for a fact, or name a kind where they choose one; what treats kinds differently matches on all of them or
//! on all that a fact can be, so that the compiler tells what a new one lacks.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The server algorithm (specs: policy core). In the order of the policy core's own list, which knows them by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// PTPS of Lee11: full budget on a fixed grid; idle and the highest with budget, it keeps the core and burns it.
    PeriodicStrict,
    /// WCPS: as strict, but while it burns its budget the next server runs on its own.
    PeriodicConserving,
    /// CRPS: as strict, but it lends its budget: another of this kind runs on it for free, with a budget of its own or not.
    PeriodicReclaiming,
    /// A budget only where it is ready at the beginning of a period; lost when it goes idle.
    Polling,
    /// Full budget on a fixed grid, kept while idle; what is left is lost at the next replenishment.
    Deferrable,
    /// What is used returns one period after its use began (Stanovich et al. 2010).
    Sporadic,
    /// Hard CBS, as SCHED_DEADLINE does it: a wake-up keeps budget and deadline unless they would exceed the bandwidth, else a
    /// new period begins; depleted, it waits for its deadline.
    ConstantBandwidth,
    /// Never throttled: it gets what the others leave. It has no budget and no period.
    Unlimited,
}

/// How a server's budget comes back: what more than Σ B/P it can ask for in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Whole at kP from the first replenishment; what is not used is lost when the server is idle, at the latest then.
    Grid,
    /// Whole at kP, kept while the server is idle: one budget can be used just before the next, two in a row.
    KeptOnGrid,
    /// In parts, each a period after its use began.
    Parts,
    /// As soon as its bandwidth allows.
    Steady,
    /// It has no budget, and admission does not take it.
    Unlimited,
}

/// What work can count on that comes at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// What the periodic resource (B, P) supplies.
    AtAnyTime,
    /// Less, and why.
    Less(&'static str),
}

/// What may be assumed of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindFacts {
    /// Its name in files and on the command line.
    pub name: &'static str,
    /// What it can ask for.
    pub renewal: Renewal,
    /// What it gives.
    pub supply: Supply,
    /// Whether it loses budget by going idle, so that a driver has to tell the core at once, also where no other waits.
    pub idling_costs: bool,
    /// Whether W(P) is proven for it: at the highest priority it gives response times as on a whole core (Theorem 1).
    pub whole_core: bool,
    /// Whether the law of response times under random arrivals is known for it.
    pub response_times: bool,
    /// Why it is right for the response times of a whole core, for deadlines, and for other promises.
    pub why: [&'static str; 3],
}

impl ServerKind {
    /// All of them.
    pub const ALL: [ServerKind; 8] = [
        ServerKind::PeriodicStrict,
        ServerKind::PeriodicConserving,
        ServerKind::PeriodicReclaiming,
        ServerKind::Polling,
        ServerKind::Deferrable,
        ServerKind::Sporadic,
        ServerKind::ConstantBandwidth,
        ServerKind::Unlimited,
    ];

    /// Those that have a budget.
    pub const WITH_BUDGET: &[ServerKind] = ServerKind::ALL.split_at(ServerKind::ALL.len() - 1).0;

    /// What may be assumed of it.
    pub fn facts(self) -> &'static KindFacts {
        match self {
            ServerKind::PeriodicStrict => &KindFacts { name: "periodic_strict", ..PERIODIC },
            ServerKind::PeriodicConserving => &KindFacts { name: "periodic_conserving", ..PERIODIC },
            ServerKind::PeriodicReclaiming => &KindFacts { name: "periodic_reclaiming", ..PERIODIC },
            ServerKind::Polling => &POLLING,
            ServerKind::Deferrable => &DEFERRABLE,
            ServerKind::Sporadic => &SPORADIC,
            ServerKind::ConstantBandwidth => &CONSTANT_BANDWIDTH,
            ServerKind::Unlimited => &UNLIMITED,
        }
    }

    /// How its budget comes back.
    pub fn renewal(self) -> Renewal {
        self.facts().renewal
    }
}

impl Renewal {
    /// Whether a budget that was not used can be used beside the next one. Without such a server Σ B/P ≤ 1 is the whole test of
    /// EDF on one core.
    pub fn keeps_budget(self) -> bool {
        match self {
            Renewal::KeptOnGrid => true,
            Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited => false,
        }
    }

    /// Replenished on a grid, at kP from its first replenishment.
    pub fn on_grid(self) -> bool {
        match self {
            Renewal::Grid | Renewal::KeptOnGrid => true,
            Renewal::Parts | Renewal::Steady | Renewal::Unlimited => false,
        }
    }

    /// Whether its budget comes in steps, not as its bandwidth allows.
    pub fn steps(self) -> bool {
        match self {
            Renewal::Grid | Renewal::KeptOnGrid | Renewal::Parts => true,
            Renewal::Steady | Renewal::Unlimited => false,
        }
    }
}

const PERIODIC: KindFacts = KindFacts {
    name: "",
    renewal: Renewal::Grid,
    supply: Supply::AtAnyTime,
    idling_costs: false,
    whole_core: false,
    response_times: false,
    why: ["on a fixed grid; idle, its budget burns: to the others it is a periodic task"; 3],
};

const POLLING: KindFacts = KindFacts {
    name: "polling",
    renewal: Renewal::Grid,
    supply: Supply::Less(
        "it loses its budget when it is idle, so that work which comes then waits for the next period",
    ),
    idling_costs: true,
    whole_core: false,
    response_times: false,
    why: ["on a fixed grid; idle, it loses its budget: its supply counts from a replenishment at which it has work"; 3],
};

const DEFERRABLE: KindFacts = KindFacts {
    name: "deferrable",
    renewal: Renewal::KeptOnGrid,
    supply: Supply::AtAnyTime,
    idling_costs: false,
    whole_core: true,
    response_times: true,
    why: [
        "full budget on a fixed grid, kept while idle: Theorem 1",
        "keeps its budget while idle, and so can take 2 · budget in a row: sound under EDF where no window can ask for \
         more than its length",
        "keeps its budget while idle, and so can take 2 · budget in a row: sound under EDF where no window can ask for \
         more than its length",
    ],
};

const SPORADIC: KindFacts = KindFacts {
    name: "sporadic",
    renewal: Renewal::Parts,
    supply: Supply::Less("it remembers eight wake-ups a period, and what more of them used comes back late"),
    idling_costs: false,
    whole_core: false,
    response_times: false,
    why: ["what is used returns one period later; late for a service with many short wake-ups a period"; 3],
};

const CONSTANT_BANDWIDTH: KindFacts = KindFacts {
    name: "constant_bandwidth",
    renewal: Renewal::Steady,
    supply: Supply::AtAnyTime,
    idling_costs: false,
    whole_core: true,
    response_times: false,
    why: [
        "a wake-up after idling begins a new period: Theorem 1 holds for it too",
        "work that comes finds a new period, or one in which no more is used up than went by: never less than the periodic \
         resource supplies; sound under EDF with any mix of periods, as long as Σ B/P fits",
        "a wake-up after idling begins a new period: sound under EDF with any mix of periods, as long as Σ B/P fits",
    ],
};

const UNLIMITED: KindFacts = KindFacts {
    name: "unlimited",
    renewal: Renewal::Unlimited,
    supply: Supply::Less("it has no budget"),
    idling_costs: false,
    whole_core: false,
    response_times: false,
    why: ["no budget"; 3],
};

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::{value::Error as Malformed, IntoDeserializer};

    #[test]
    fn kinds_have_one_name_for_people_and_files() {
        for kind in ServerKind::ALL {
            let read: Result<ServerKind, Malformed> = ServerKind::deserialize(kind.facts().name.into_deserializer());
            assert_eq!(read.unwrap(), kind);
        }
    }

    #[test]
    fn all_are_listed_in_their_order() {
        assert!(ServerKind::ALL.into_iter().zip(0..).all(|(kind, at)| kind as u32 == at));
    }
}
