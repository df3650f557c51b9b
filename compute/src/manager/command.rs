//! What a manager is asked to do.

use super::group::Group;
use super::managed::Managed;
use super::report::Report;
use crate::Error;
use giusto_model::{Criticality, Server};
use giusto_policy::When;
use std::sync::mpsc::SyncSender;

/// The answer goes to the sender.
pub(super) enum Command {
    Add {
        wanted: Box<(Managed, Group)>,
        threads: Vec<u32>,
        answer: SyncSender<Result<usize, Error>>,
    },
    /// It has other cgroups than before.
    Regroup {
        server: usize,
        group: Box<Group>,
    },
    TakeIn {
        server: usize,
        threads: Vec<u32>,
    },
    /// Answers once they are watched no longer.
    PartWith {
        server: usize,
        threads: Vec<u32>,
        answer: SyncSender<()>,
    },
    Prefer {
        server: usize,
        thread: u32,
    },
    /// Answers from when on it is in force.
    Set {
        server: usize,
        wanted: Server,
        criticality: Option<Criticality>,
        when: When,
        answer: SyncSender<Result<u64, Error>>,
    },
    Boost {
        server: usize,
        until: u64,
    },
    /// Answers with its next replenishment.
    Look {
        server: usize,
        answer: SyncSender<Result<u64, Error>>,
    },
    Remove {
        server: usize,
        answer: SyncSender<()>,
    },
    Report {
        answer: SyncSender<Report>,
    },
    Stop,
}
