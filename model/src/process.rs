//! How Giusto runs what it starts, and what becomes of the others when a service ends: systemd.service(5) and
//! systemd.exec(5) in small.

use crate::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Of one service. What is not written is not in a plan either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Whether it is started again when it has ended.
    #[serde(skip_serializing_if = "is_default")]
    pub restart: Restart,
    /// Its end ends everything.
    #[serde(skip_serializing_if = "is_default")]
    pub essential: bool,
    /// Whose it is; `None`: as Giusto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `None`: that of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it may have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Limit, u64>,
    /// Added to that of Giusto.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Where it begins; `None`: as Giusto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Runs after each of its ends, before it is started again; empty: nothing does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_end: Vec<String>,
    /// How long it may take to end after SIGTERM; `None`: [`Process::END`].
    #[serde(rename = "end_within_ns", skip_serializing_if = "Option::is_none")]
    pub end_within: Option<Duration>,
}

impl Process {
    /// How long one may take to end that says nothing of it.
    pub const END: Duration = Duration::from_secs(2);
    /// The longest that it may ask for: who ends it waits meanwhile, and for as long again where it cannot be killed.
    pub const LONGEST_END: Duration = Duration::from_secs(10);

    /// How long it may take to end after SIGTERM; then it is killed.
    pub fn end_within(&self) -> Duration {
        self.end_within.unwrap_or(Process::END)
    }

    /// Nothing was written.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }

    /// What of it a process has from its start: when that changes, the service has to be started again.
    pub fn at_start(&self) -> Process {
        Process { restart: Restart::default(), essential: false, after_end: vec![], ..self.clone() }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a service is started again when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// However it ended.
    Always,
    /// Unless it ended by itself with exit code 0.
    #[default]
    OnFailure,
    /// Not.
    Never,
}

impl Restart {
    /// All of them.
    pub const ALL: [Restart; 3] = [Restart::Always, Restart::OnFailure, Restart::Never];

    /// Whether one that ended so is started again.
    pub fn after(self, success: bool) -> bool {
        match self {
            Restart::Always => true,
            Restart::OnFailure => !success,
            Restart::Never => false,
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Restart::Always => "always",
            Restart::OnFailure => "on-failure",
            Restart::Never => "never",
        })
    }
}

/// What is limited: of all processes of a service together by a controller, or of each by setrlimit(2), with the names
/// of limits.conf(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Bytes of memory of all together (controller `memory`): beyond, the kernel ends one of them.
    Memory,
    /// Processes and threads, all together (controller `pids`): beyond, they cannot fork.
    Tasks,
    /// Open files of each process.
    Nofile,
    /// Processes and threads of its user.
    Nproc,
    /// Bytes of locked memory.
    Memlock,
    /// Bytes of address space.
    As,
    /// Bytes of a core file.
    Core,
    /// Bytes of a file that it writes.
    Fsize,
    /// Bytes of stack.
    Stack,
    /// Bytes of data.
    Data,
}

impl Limit {
    /// All of them.
    pub const ALL: [Limit; 10] = [
        Limit::Memory,
        Limit::Tasks,
        Limit::Nofile,
        Limit::Nproc,
        Limit::Memlock,
        Limit::As,
        Limit::Core,
        Limit::Fsize,
        Limit::Stack,
        Limit::Data,
    ];

    /// What is not written about tasks: each of a service's threads costs its core's manager time, whenever its budget
    /// ends and begins.
    pub const TASKS: u64 = 512;

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Limit::Tasks | Limit::Nofile | Limit::Nproc)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limit::Memory => "memory",
            Limit::Tasks => "tasks",
            Limit::Nofile => "nofile",
            Limit::Nproc => "nproc",
            Limit::Memlock => "memlock",
            Limit::As => "as",
            Limit::Core => "core",
            Limit::Fsize => "fsize",
            Limit::Stack => "stack",
            Limit::Data => "data",
        })
    }
}
