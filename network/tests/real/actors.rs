//! This program in another role, as a process that can be killed.
pub(crate) const ROLES: [&str; 1] = ["none"];
pub(crate) fn play(_: &str, _: &[String]) {}
