//! What is asked for and what is sent, as it stands on the line (formats/control.md). All times are CLOCK_MONOTONIC's in ns.

use crate::ObservedBy;
use serde::{Deserialize, Serialize};

/// What is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordWish {
    /// For how long, from now on; of a late job, for how long before it began and after it ended.
    pub span_ns: u64,
    /// Not from now on, but around so many late jobs, one recording each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u32>,
    /// Late jobs of this service only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// Some time of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Giusto's.
    pub version: String,
    /// The host's name in the site file.
    pub host: String,
    /// When it begins; later than was asked for where the recorder's memory did not reach that far ...
    pub from_ns: u64,
    /// ... and ends.
    pub until_ns: u64,
    /// What has to be added to a time for Unix time.
    pub unix_ns: u64,
    /// The job that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<RecordedLate>,
    /// Changes, jobs and budgets for which there was no room in the kernel.
    pub lost: u64,
    /// The cores of the plan.
    pub cores: Vec<u32>,
    /// The services, in the order of the status.
    pub services: Vec<RecordedService>,
    /// Each thread that had or wanted one of the cores, by number.
    pub threads: Vec<RecordedThread>,
    /// When, which core, which thread (0: idle), and what: 0 it runs, 1 it runs and the one before it still wants the core, 2 it
    /// wakes. In the order of time; the first ones tell how it stood when the recording begins.
    pub changes: Vec<[u64; 4]>,
    /// Which of `services`, which thread answered or had the job, when the request arrived or the thread was woken, and when
    /// it was answered or went to sleep.
    pub jobs: Vec<[u64; 4]>,
    /// Changes of mode that were under way.
    pub modes: Vec<RecordedMode>,
}

/// The job that a recording is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedLate {
    /// Its service.
    pub service: String,
    /// When it began ...
    pub from_ns: u64,
    /// ... and ended.
    pub to_ns: u64,
}

/// When, what was left of the budget, and periods until then that were missed.
pub type RecordedBudget = (u64, i64, u64);

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedService {
    /// Its name.
    pub name: String,
    /// Which enforces its server.
    pub backend: Option<String>,
    /// What its jobs are; `None`: none is told one by one.
    pub jobs: Option<ObservedBy>,
    /// Jobs that take longer are late; `None`: that was not promised.
    pub within_ns: Option<u64>,
    /// By virtual CPU or copy, where it has several. Empty where no manager enforces it.
    pub budgets: Vec<(Option<u32>, Vec<RecordedBudget>)>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedThread {
    /// Its number.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// What it is called.
    pub name: String,
    /// Which of the services it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<usize>,
}

/// A change of mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMode {
    /// From which to which, and how it ended.
    pub change: String,
    /// When it began ...
    pub from_ns: u64,
    /// ... and ended.
    pub to_ns: u64,
}
