//! `adopt:`: services that run already.

use crate::error::Fault;
use crate::fields::Grammar;
use crate::tree::Node;
use crate::value::{count, shown, text};
use giusto_model::Adopt;

/// Linux never gives a larger process id (PID_MAX_LIMIT).
const LARGEST_PID: u32 = 4_194_304;

pub(crate) const ADOPT: Grammar = Grammar {
    what: "an adoption",
    keys: &["pid", "cgroup"],
    later: &[
        ("systemd", "expected its cgroup instead: {cgroup: system.slice/NAME.service}"),
        ("libvirt", "expected the process id of its emulator instead: {pid: 1234}"),
    ],
};

/// Reads how to find a running service.
pub(crate) fn read(node: &Node) -> Result<Adopt, Fault> {
    let fields = ADOPT.read(node, node.span)?;
    match fields.one_of(["pid", "cgroup"], "expected {pid: 1234} or {cgroup: batch.slice}")? {
        ("pid", pid) => count(pid, "a process id", 2..=LARGEST_PID).map(Adopt::Pid),
        (_, path) => cgroup(path).map(Adopt::Cgroup),
    }
}

fn cgroup(node: &Node) -> Result<String, Fault> {
    let expected = "expected a path below the cgroup hierarchy's root, such as batch.slice or system.slice/web.service";
    let path = text(node, expected)?;
    let bad = |why: &str| Err(node.fault(format!("'{}' {why}", shown(path)), expected));
    if path.starts_with('/') {
        return bad("starts with '/'");
    }
    if path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return bad("has an empty part, '.' or '..' in it");
    }
    if path.contains(char::is_control) {
        return bad("has an invisible character in it");
    }
    Ok(path.to_string())
}
