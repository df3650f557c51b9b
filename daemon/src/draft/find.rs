//! A service that runs, by what people call it: a process id, a unit of systemd, a container.

use crate::services::members;
use crate::systemd;
use crate::systemd::HIERARCHIES;
use giusto_model::Adopt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What people may mean.
const EXPECTED: &str = "expected a process id such as 1234, a unit such as redis.service, or a container's name or id";
/// Units that have processes.
const UNITS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
/// How folders of containers are named, before the container's id or name.
const PREFIXES: [&str; 7] = ["", "docker-", "libpod-", "cri-containerd-", "crio-", "lxc.payload.", "machine-"];
/// An id may be cut to this.
const SHORT_ID: usize = 12;
/// Longest name of a service in a site.
const LONGEST: usize = 64;

/// A service that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How a site adopts it.
    pub adopt: Adopt,
    /// A name for it, fit for a site.
    pub name: String,
    /// Its processes.
    pub pids: Vec<u32>,
    /// The unit that it belongs to, where it was named by its process id.
    pub unit: Option<String>,
}

/// Finds the service that `text` names.
///
/// # Errors
/// In words: there is none, or it has no process.
pub fn find(text: &str) -> Result<Found, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return process(text);
    }
    if UNITS.iter().any(|kind| text.ends_with(kind)) {
        let path = systemd::control_group("systemctl", text, &HIERARCHIES)?;
        return of(Adopt::Systemd(text.into()), name(stem(text)), below(&path), text);
    }
    container(text)
}

fn process(text: &str) -> Result<Found, String> {
    let gone = || format!("there is no process {text}; {EXPECTED}");
    let pid: u32 = text.parse().map_err(|_| gone())?;
    let called = fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| gone())?;
    if pid < 2 {
        return Err(format!("process {pid} is the system's first one and no service; {EXPECTED}"));
    }
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    Ok(Found { adopt: Adopt::Pid(pid), name: name(called.trim()), pids: vec![pid], unit: unit(&cgroup) })
}

/// The service's unit in a `/proc/PID/cgroup`.
fn unit(cgroup: &str) -> Option<String> {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut last = paths.filter_map(|path| path.rsplit('/').next());
    last.find(|folder| folder.ends_with(".service") && !folder.starts_with("user@")).map(String::from)
}

fn container(text: &str) -> Result<Found, String> {
    let none = || format!("there is no container '{text}' with a cgroup of its own here; {EXPECTED}");
    if text.is_empty() || text.contains('/') || text.starts_with('-') {
        return Err(format!("'{text}' is no name of a service; {EXPECTED}"));
    }
    let folder = HIERARCHIES.iter().rev().find_map(|root| Some((root, folder_of(Path::new(root), text)?)));
    let path = match folder {
        Some((root, folder)) => folder.strip_prefix(root).ok().map(|path| path.display().to_string()),
        None => asked(text).and_then(cgroup_of),
    };
    let path = path.ok_or_else(none)?;
    of(Adopt::Cgroup(path.clone()), name(text), below(&path), text)
}

/// A container's folder below another, by its whole name or the beginning of its id.
fn folder_of(folder: &Path, text: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    let is = |path: &&PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| named(name, text));
    below.iter().find(is).cloned().or_else(|| below.iter().find_map(|path| folder_of(path, text)))
}

fn named(folder: &str, text: &str) -> bool {
    let bare = folder.strip_suffix(".scope").unwrap_or(folder);
    let id = text.len() >= SHORT_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rest = PREFIXES.iter().filter_map(|prefix| bare.strip_prefix(prefix));
    rest.into_iter().any(|rest| rest == text || (id && rest.starts_with(text)))
}

/// The first process of a container, by the word of what runs it.
fn asked(text: &str) -> Option<u32> {
    let ask = |program: &&str| {
        let asked = Command::new(program).args(["inspect", "--format", "{{.State.Pid}}", "--", text]).output().ok()?;
        String::from_utf8_lossy(&asked.stdout).trim().parse().ok().filter(|pid| *pid > 1)
    };
    ["docker", "podman", "nerdctl"].iter().find_map(ask)
}

/// The cgroup of a process below one of the roots.
fn cgroup_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(|path| path.trim_start_matches('/'));
    let there = |path: &&str| !path.is_empty() && !below(path).is_empty();
    paths.into_iter().find(there).map(String::from)
}

/// The processes in a cgroup of any hierarchy.
fn below(path: &str) -> Vec<u32> {
    let folders = HIERARCHIES.iter().map(|root| Path::new(root).join(path));
    folders.map(|folder| members(&folder)).find(|pids| !pids.is_empty()).unwrap_or_default()
}

fn of(adopt: Adopt, name: String, pids: Vec<u32>, text: &str) -> Result<Found, String> {
    match pids.is_empty() {
        true => Err(format!("{text} has no process now; start it, then try again")),
        false => Ok(Found { adopt, name, pids, unit: None }),
    }
}

/// `redis` of `redis.service`.
fn stem(unit: &str) -> &str {
    unit.rsplit_once('.').map_or(unit, |(stem, _)| stem)
}

/// A name that a site takes: letters, digits, `-` and `_`.
fn name(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = text.chars().map(fit).take(LONGEST).collect();
    let name = name.trim_matches('-');
    // Such names mean something else in YAML.
    let words = ["on", "off", "yes", "no", "true", "false", "null", "y", "n", "within"];
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    match name {
        "" => "service".into(),
        name if is_number || words.contains(&name.to_ascii_lowercase().as_str()) => format!("service-{name}"),
        name => name.into(),
    }
}

/// This machine's hostname up to the first dot, as a site may call it.
pub fn host_name() -> String {
    let full = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name(full.split('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit_for_a_site() {
        let all = ["redis-server", "web@1", "(sd-pam)", "", "12", "on", "--x", "a.b"].map(name);
        let fit = ["redis-server", "web-1", "sd-pam", "service", "service-12", "service-on", "x", "a-b"];
        assert_eq!(all, fit.map(String::from));
        assert!(name(&"x".repeat(99)).len() == LONGEST);
    }

    #[test]
    fn a_container_s_folder_has_its_name_or_begins_with_its_id() {
        let id = "4f66ad9b1c2d3e4f66ad9b1c2d3e";
        assert!(named(&format!("docker-{id}.scope"), &id[..12]) && named(id, id) && named("lxc.payload.web", "web"));
        assert!(!named(&format!("docker-{id}.scope"), &id[..6]), "too short for an id");
        assert!(!named("website", "web") && !named("docker.service", "docker"));
    }

    #[test]
    fn the_unit_of_a_process_is_told_and_a_session_is_none() {
        assert_eq!(unit("0::/system.slice/redis.service\n").as_deref(), Some("redis.service"));
        assert_eq!(unit("1:name=systemd:/user.slice/user@1000.service\n0::/\n"), None);
    }

    #[test]
    fn this_process_is_found_and_what_is_not_there_is_told_with_what_was_expected() {
        let own = find(&std::process::id().to_string()).unwrap();
        assert_eq!((own.pids, own.adopt), (vec![std::process::id()], Adopt::Pid(std::process::id())));
        for none in ["4194303", "99999999999", "1", "no-such.service", "no-such-container", "", "../x"] {
            let why = find(none).unwrap_err();
            assert!(why.contains("expected"), "{none}: {why}");
        }
    }
}
