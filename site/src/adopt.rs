//! `adopt:`: services that run already.

use crate::error::Fault;
use crate::fields::Grammar;
use crate::suggest::shown;
use crate::tree::Node;
use crate::value::{count, text};
use crate::xen;
use giusto_model::Adopt;

/// Linux never gives a larger process id (PID_MAX_LIMIT).
const LARGEST_PID: u32 = 4_194_304;
/// Linux takes no longer path for a socket (`sun_path` without its final zero).
const LONGEST_SOCKET: usize = 107;
/// Linux takes no longer file name; libvirt's is NAME.xml. systemd takes no longer unit.
const LONGEST_FILE: usize = 255;
/// Units that have processes.
const UNITS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];

pub(crate) const ADOPT: Grammar = Grammar {
    what: "an adoption",
    keys: &["pid", "cgroup", "systemd", "container", "qmp", "libvirt", "xen"],
    later: &[],
};

/// Reads how to find a running service.
pub(crate) fn read(node: &Node) -> Result<Adopt, Fault> {
    let fields = ADOPT.read(node, node.span)?;
    let none =
        "expected {pid: 1234}, {cgroup: batch.slice}, {systemd: search.service} or {container: NAME}; for a virtual \
                machine {qmp: /run/vm.sock}, {libvirt: NAME} or {xen: DOMAIN}";
    match fields.one_of(ADOPT.keys, none)? {
        ("pid", pid) => count(pid, "a process id", 2..=LARGEST_PID).map(Adopt::Pid),
        ("cgroup", path) => cgroup(path).map(Adopt::Cgroup),
        ("systemd", unit) => systemd(unit).map(Adopt::Systemd),
        ("container", name) => container(name).map(Adopt::Container),
        ("qmp", path) => qmp(path).map(|path| Adopt::Qmp(path.into())),
        ("libvirt", name) => libvirt(name).map(Adopt::Libvirt),
        (_, name) => xen::domain(name).map(Adopt::Xen),
    }
}

/// How such an adoption is written: its key and the value.
pub(crate) fn key(adopt: &Adopt) -> (&'static str, String) {
    match adopt {
        Adopt::Pid(pid) => ("pid", pid.to_string()),
        Adopt::Cgroup(path) => ("cgroup", path.clone()),
        Adopt::Systemd(unit) => ("systemd", unit.clone()),
        Adopt::Container(name) => ("container", name.clone()),
        Adopt::Qmp(path) => ("qmp", path.display().to_string()),
        Adopt::Libvirt(name) => ("libvirt", name.clone()),
        Adopt::Xen(name) => ("xen", name.clone()),
    }
}

pub(crate) fn cgroup(node: &Node) -> Result<String, Fault> {
    let expected = "expected a path below the cgroup hierarchy's root, such as batch.slice or system.slice/web.service";
    let path = visible(node, expected)?;
    let bad = |why: &str| Err(node.fault(format!("'{}' {why}", shown(path)), expected));
    if path.starts_with('/') {
        return bad("starts with '/'");
    }
    if path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return bad("has an empty part, '.' or '..' in it");
    }
    Ok(path.to_string())
}

pub(crate) fn systemd(node: &Node) -> Result<String, Fault> {
    let expected = "expected a unit with its type, such as search.service, as 'systemctl status' shows it";
    let unit = visible(node, expected)?;
    let bad = |why: &str, expected: &str| Err(node.fault(format!("'{}' {why}", shown(unit)), expected));
    // systemd.unit(5); '\' is how it writes what is not allowed.
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if !unit.chars().all(allowed) || unit.starts_with('-') || unit.len() > LONGEST_FILE {
        return bad("is not the name of a unit", expected);
    }
    match unit.rsplit_once('.') {
        Some((name, kind)) if UNITS.contains(&kind) && !name.is_empty() && !name.ends_with('@') => Ok(unit.to_string()),
        Some((name, kind)) if UNITS.contains(&kind) && name.ends_with('@') => {
            bad("is a template, which does not run", "expected one of its instances, such as web@1.service")
        }
        other => {
            let hint = if other.is_none() { format!("; did you mean {}.service?", shown(unit)) } else { String::new() };
            bad(&format!("is not a unit with processes ({})", UNITS.join(", ")), &format!("{expected}{hint}"))
        }
    }
}

/// What Docker and Podman take for a name; the id of a container is one, too.
fn container(node: &Node) -> Result<String, Fault> {
    let expected = "expected the name or the id of a container, as 'docker ps' or 'podman ps' shows it, such as search";
    let name = visible(node, expected)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || !name.chars().all(allowed) || name.len() > LONGEST_FILE {
        return Err(node.fault(format!("'{}' is not the name of a container", shown(name)), expected));
    }
    Ok(name.to_string())
}

fn qmp(node: &Node) -> Result<String, Fault> {
    let expected =
        "expected the full path of the Unix socket that QEMU was given with -qmp unix:/run/vm.sock,server=on,wait=off";
    let path = visible(node, expected)?;
    if !path.starts_with('/') {
        return Err(node.fault(format!("'{}' does not start with '/'", shown(path)), expected));
    }
    if path.len() > LONGEST_SOCKET {
        let found = format!("the path has {} bytes, and Linux takes {LONGEST_SOCKET} for a socket", path.len());
        return Err(node.fault(found, "expected a shorter path; give the VM its socket in /run, or make a link to it"));
    }
    Ok(path.to_string())
}

fn libvirt(node: &Node) -> Result<String, Fault> {
    let expected = "expected the name of a virtual machine, as 'virsh list' shows it, such as flight-1";
    let name = visible(node, expected)?;
    if name.is_empty() || name.contains('/') || name.len() + ".xml".len() > LONGEST_FILE {
        return Err(node.fault(format!("'{}' is not the name of a libvirt domain", shown(name)), expected));
    }
    Ok(name.to_string())
}

/// A text without invisible characters.
fn visible<'a>(node: &'a Node, expected: &str) -> Result<&'a str, Fault> {
    let text = text(node, expected)?;
    if text.contains(char::is_control) {
        return Err(node.fault(format!("'{}' has an invisible character in it", shown(text)), expected));
    }
    Ok(text)
}
