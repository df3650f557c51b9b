//! What modes tell about themselves: the mode in force, who is connected, and what the last changes took, step by step
//! [LiH21, Fig. 2.5].

use giusto_modes::{Kept, Step, Table};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// So many changes are remembered.
const CHANGES: usize = 64;

/// Modes of this host, in `giusto status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModesStatus {
    /// The mode of the last change that ended; `None`: none that the site names.
    pub mode: Option<String>,
    /// The mode that a change leads to now.
    pub changing_to: Option<String>,
    /// The local mode of each member, in the order of `members`.
    pub locals: Vec<String>,
    /// Who has modes.
    pub members: Vec<PeerStatus>,
    /// The last changes, the latest last.
    pub changes: Vec<ChangeStatus>,
    /// Connections that were refused: no member's key, not our protocol, silent, or of so many that they had to make
    /// room for others.
    pub refused: u64,
}

/// A service with local modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerStatus {
    /// The service.
    pub service: String,
    /// Its local mode.
    pub local: String,
    /// Whether its agent is connected; `None`: it has none, the host itself stops it.
    pub connected: Option<bool>,
    /// Whether it runs what its reservation is for; one that does not has lost its own guarantee until it does.
    pub sound: bool,
    /// How often its agent had to wait as it said more than it may.
    pub throttled: u64,
}

/// A change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeStatus {
    /// Its number.
    pub change: u64,
    /// The mode it led from, as the site names it, or the local modes.
    pub from: String,
    /// And to.
    pub to: String,
    /// `done`, `degraded`, `rolled-back`, `preempted` or `stuck`.
    pub outcome: String,
    /// From its beginning to its end.
    pub took_ns: u64,
    /// When it began (CLOCK_MONOTONIC).
    pub began_ns: u64,
    /// What each member took, in the order of their ends.
    pub steps: Vec<StepStatus>,
}

/// What the change of a member took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepStatus {
    /// The service.
    pub service: String,
    /// What it took the host itself to send the command and to ask for the boost; `None`: nothing was sent.
    pub post_ns: Option<u64>,
    /// From the command to its being received by the agent; `None` where the agent's clock is not the host's.
    pub send_ns: Option<u64>,
    /// From there until the tasks are switched, on the agent's clock.
    pub signal_ns: Option<u64>,
    /// From there to the acknowledgement; as `send_ns`.
    pub receive_ns: Option<u64>,
    /// From the command to the acknowledgement; `None`: there was none.
    pub round_ns: Option<u64>,
    /// What changing its reservation took, or bringing it into force.
    pub change_ns: Option<u64>,
}

impl StepStatus {
    /// `posted`: of the last command to it.
    pub(super) fn of(step: &Step, posted: u64, table: &Table) -> StepStatus {
        let since = |from: u64, to: u64| to.checked_sub(from);
        let round_ns = step.done.and_then(|done| since(step.sent.ns(), done.ns()));
        // A clock that is not the host's does not happen to say a time between the two.
        let same = |&(received, switched): &(u64, u64)| {
            step.done.is_some_and(|done| step.sent.ns() <= received && received <= switched && switched <= done.ns())
        };
        let here = step.agent_ns.filter(same);
        StepStatus {
            service: table.members()[step.member].name.clone(),
            post_ns: step.agent_ns.map(|_| posted),
            send_ns: here.and_then(|(received, _)| since(step.sent.ns(), received)),
            signal_ns: step.agent_ns.and_then(|(received, switched)| since(received, switched)),
            receive_ns: here.and_then(|(_, switched)| since(switched, step.done?.ns())),
            round_ns,
            change_ns: step.raised.or(step.lowered).and_then(|(asked, done)| since(asked.ns(), done.ns())),
        }
    }
}

/// Changes as they go by.
#[derive(Debug, Default)]
pub(super) struct History {
    done: VecDeque<ChangeStatus>,
    open: Option<ChangeStatus>,
}

impl History {
    /// A change begins, turns, or ends.
    pub(super) fn kept(&mut self, kept: &Kept, now: u64, name: &dyn Fn(&[usize]) -> String) {
        if kept.open {
            match &mut self.open {
                Some(open) if open.to == name(&kept.to) => open.change = kept.change,
                _ => {
                    self.end("preempted", now);
                    let (from, to) = (name(&kept.from), name(&kept.to));
                    self.open =
                        Some(ChangeStatus { change: kept.change, from, to, began_ns: now, ..Default::default() });
                }
            }
        } else {
            self.end(if kept.back { "rolled-back" } else { "done" }, now);
        }
    }

    pub(super) fn step(&mut self, step: StepStatus) {
        if let Some(open) = &mut self.open {
            open.steps.push(step);
        }
    }

    /// How the last one ended, in a word.
    pub(super) fn outcome(&mut self, word: &str) {
        if let Some(last) = self.done.back_mut() {
            last.outcome = word.into();
        }
    }

    pub(super) fn last(&self) -> Option<&ChangeStatus> {
        self.done.back()
    }

    fn end(&mut self, outcome: &str, now: u64) {
        if let Some(mut open) = self.open.take() {
            (open.outcome, open.took_ns) = (outcome.into(), now.saturating_sub(open.began_ns));
            self.done.push_back(open);
            if self.done.len() > CHANGES {
                self.done.pop_front();
            }
        }
    }

    pub(super) fn all(&self) -> Vec<ChangeStatus> {
        self.done.iter().cloned().collect()
    }
}
