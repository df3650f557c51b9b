//! Units of systemd: their cgroups.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where a cgroup of the site file may lie: v1 hierarchies that systemd and others fill, and v2.
pub(crate) const HIERARCHIES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu"];

const PATIENCE: Duration = Duration::from_secs(2);

/// The cgroup of a running unit below the hierarchies' roots: systemd's word (`systemctl`, the program to ask it with), else
/// the folder of that name below one of `roots`, such as in a container without systemd.
pub(crate) fn control_group(systemctl: &str, unit: &str, roots: &[&str]) -> Result<String, String> {
    let asked = answer(Command::new(systemctl).args(["show", "-p", "ControlGroup", "--value", "--", unit]));
    let told = asked.unwrap_or_default().trim().trim_start_matches('/').to_string();
    if !told.is_empty() {
        return Ok(told);
    }
    roots.iter().find_map(|root| find(Path::new(root), unit)?.strip_prefix(root).ok()?.to_str().map(String::from)).ok_or_else(
        || {
            format!(
                "unit {unit} has no cgroup, neither by 'systemctl show -p ControlGroup {unit}' nor as a folder below {}; \
                 expected a unit that runs: start it with 'systemctl start {unit}', or look up its name with 'systemctl list-units'",
                roots.join(", ")
            )
        },
    )
}

/// What a program prints, if it ends well within [`PATIENCE`]: systemd may hang, and those who ask enforce.
fn answer(program: &mut Command) -> Option<String> {
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.spawn().ok()?;
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            None => {
                child.kill().ok()?;
                child.wait().ok()?;
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

/// The folder `name` below `folder`.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let below: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    let here = below.iter().find(|path| path.file_name().is_some_and(|found| found == name)).cloned();
    here.or_else(|| below.iter().find_map(|path| find(path, name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_unit_s_cgroup_is_systemd_s_word_or_a_folder_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("cpu/user.slice/a.slice/web.service")).unwrap();
        let program = folder.path().join("systemctl");
        let (cpu, none) =
            (folder.path().join("cpu").display().to_string(), folder.path().join("v2").display().to_string());
        let ask = |script: &str, unit: &str| {
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            control_group(&program.display().to_string(), unit, &[&none, &cpu])
        };
        let found = Ok("user.slice/a.slice/web.service".to_string());
        assert_eq!(ask("echo /system.slice/$6", "db.service"), Ok("system.slice/db.service".into()));
        assert_eq!(ask("echo", "web.service"), found, "systemd does not know it");
        assert_eq!(ask("echo /x; exit 1", "web.service"), found, "systemd is not there");
        let begun = Instant::now();
        assert_eq!(ask("exec sleep 1000", "web.service"), found, "systemd hangs");
        assert!(begun.elapsed() < 4 * PATIENCE, "{:?}", begun.elapsed());
        let error = ask("echo", "none.service").unwrap_err();
        assert!(error.contains("systemctl start none.service"), "{error}");
        std::fs::remove_file(&program).unwrap();
        assert_eq!(control_group(&program.display().to_string(), "web.service", &[&none, &cpu]), found);
    }
}
