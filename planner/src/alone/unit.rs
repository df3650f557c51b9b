//! Units of systemd: the one of a service, and the one that is made of what the site starts.

use super::escape::{command, comment, unit};
use giusto_model::{Adopt, Limit, Origin, Process, Restart};
use std::fmt::Write;

/// The unit of a service: the one that it has, or the one that the export makes of what the site starts. `None`: it has none.
pub fn unit_of(name: &str, origin: &Origin) -> Option<String> {
    match origin {
        Origin::Start(_) => Some(format!("giusto-{name}.service")),
        Origin::Adopt(Adopt::Systemd(unit)) => Some(unit.clone()),
        Origin::Adopt(Adopt::Cgroup(path)) => {
            let last = path.rsplit('/').next()?;
            let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
            let (stem, kind) = last.rsplit_once('.')?;
            let is_unit = !stem.is_empty() && last.chars().all(allowed) && section(kind).is_some();
            is_unit.then(|| last.to_string())
        }
        Origin::Adopt(Adopt::Pid(_) | Adopt::Container(_) | Adopt::Qmp(_) | Adopt::Libvirt(_) | Adopt::Xen(_)) => None,
    }
}

/// The section of a unit's file that has its settings.
pub(super) fn section(kind: &str) -> Option<&'static str> {
    match kind {
        "service" => Some("Service"),
        "slice" => Some("Slice"),
        "scope" => Some("Scope"),
        "socket" => Some("Socket"),
        "mount" => Some("Mount"),
        "swap" => Some("Swap"),
        _ => None,
    }
}

/// The unit of what the site starts.
pub(super) fn started(name: &str, words: &[String], process: &Process) -> String {
    let why =
        [format!("Service '{name}' of a site, by 'giusto export systemd': what starts it, its limits and its end.")];
    let mut out = comment("# ", &why);
    let _ = write!(
        out,
        "[Unit]\nDescription=Service {name} of a site of Giusto\n\n[Service]\nExecStart={}\n",
        command(words)
    );
    let restart = match process.restart {
        Restart::Always => "always",
        Restart::OnFailure => "on-failure",
        Restart::Never => "no",
    };
    let _ = writeln!(out, "Restart={restart}");
    if let Some(user) = &process.user {
        let _ = writeln!(out, "User={}", user.replace('%', "%%"));
    }
    if let Some(group) = &process.group {
        let _ = writeln!(out, "Group={}", group.replace('%', "%%"));
    }
    match process.directory.as_deref().and_then(|path| path.to_str()) {
        Some(path) if path.starts_with('/') && !path.ends_with(['\\', ' ']) && !path.contains(char::is_control) => {
            let _ = writeln!(out, "WorkingDirectory={}", path.replace('%', "%%"));
        }
        Some(path) => {
            let why = format!(
                "NOT HERE: its directory {path:?}: systemd takes a full path without signs at its end; \
                 WorkingDirectory= is to be set."
            );
            out += &comment("# ", &[why]);
        }
        None => {}
    }
    for (key, value) in &process.environment {
        let _ = writeln!(out, "Environment={}", unit(&format!("{key}={value}")));
    }
    for (limit, value) in &process.limits {
        let _ = writeln!(out, "{}", limited(*limit, *value));
    }
    if !process.limits.contains_key(&Limit::Tasks) {
        let _ = writeln!(out, "TasksMax={}", Limit::TASKS);
    }
    if !process.after_end.is_empty() {
        let _ = writeln!(out, "ExecStopPost={}", command(&process.after_end));
    }
    let _ = writeln!(out, "TimeoutStopSec={}us", process.end_within().ns() / 1000);
    if process.essential {
        out += &comment(
            "# ",
            &["NOT HERE: 'essential: yes', its end ends nothing else; FailureAction= or PartOf= can.".to_string()],
        );
    }
    out + "\n[Install]\nWantedBy=multi-user.target\n"
}

fn limited(limit: Limit, value: u64) -> String {
    let name = match limit {
        Limit::Memory => "MemoryMax",
        Limit::Tasks => "TasksMax",
        Limit::Nofile => "LimitNOFILE",
        Limit::Nproc => "LimitNPROC",
        Limit::Memlock => "LimitMEMLOCK",
        Limit::As => "LimitAS",
        Limit::Core => "LimitCORE",
        Limit::Fsize => "LimitFSIZE",
        Limit::Stack => "LimitSTACK",
        Limit::Data => "LimitDATA",
    };
    match value {
        u64::MAX => format!("{name}=infinity"),
        value => format!("{name}={value}"),
    }
}
