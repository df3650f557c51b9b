//! Services that go by a name, which outlives their cgroups.

use crate::container;
use crate::systemd::{self, HIERARCHIES};

/// Who knows the cgroup of a service: it may have another when it is started again.
#[derive(Debug)]
pub(crate) enum Named {
    /// Of systemd.
    Unit(String),
    /// Of Docker or Podman.
    Container(String),
}

impl Named {
    /// Its cgroup now. Errors say what was expected and what to do.
    pub(crate) fn control_group(&self) -> Result<String, String> {
        match self {
            Named::Unit(unit) => systemd::control_group("systemctl", unit, &HIERARCHIES),
            Named::Container(name) => container::control_group(&container::SOCKETS, name),
        }
    }

    /// How it is started again.
    pub(crate) fn start(&self) -> String {
        match self {
            Named::Unit(unit) => format!("systemctl start {unit}"),
            Named::Container(name) => format!("docker start {name}, or podman start {name}"),
        }
    }
}
