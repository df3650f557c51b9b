//! What the thread of modes is told, and what it answers and asks for.

use super::history::ChangeStatus;
use crate::Refused;
use giusto_compute::BudgetHandle;
use giusto_modes::{Policy, Target};
use std::sync::mpsc::SyncSender;

/// What changes the servers of each member, part by part.
pub(crate) type BudgetHandles = Vec<Vec<Box<dyn BudgetHandle>>>;

/// What the thread is told.
pub(super) enum Order {
    /// Another mode is wanted.
    Change {
        target: Target,
        policy: Option<Policy>,
        answer: SyncSender<Reply>,
    },
    /// A service without an agent does as its local mode says, or cannot.
    Carried {
        member: usize,
        change: u64,
        done: bool,
    },
    Stop,
}

/// What becomes of a wish for another mode: whether it was begun, then how it ended.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Begun,
    Ended(Result<ChangeStatus, Refused>),
}

/// A service without an agent is to run, or to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    pub(crate) service: String,
    pub(crate) runs: bool,
    pub(super) member: usize,
    pub(super) change: u64,
}
