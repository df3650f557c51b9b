//! The processes behind services: starting those that Giusto starts, finding those that it adopts.

use crate::Error;
use giusto_compute::sched;
use giusto_model::{Adopt, Origin};
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A service whose processes are known.
#[derive(Debug)]
pub struct Running {
    /// Its name in the site file.
    pub name: String,
    origin: Origin,
    child: Option<Child>,
    log: Option<PathBuf>,
}

impl Running {
    /// Starts the service in a process group of its own, its output going to `logs/NAME.log`; or finds the adopted one.
    ///
    /// A started process dies with this one (PR_SET_PDEATHSIG), so that even kill -9 leaves no orphan in the window
    /// before it stands in the journal.
    pub fn begin(name: &str, origin: &Origin, logs: &Path) -> Result<Running, Error> {
        let mut running = Running { name: name.to_string(), origin: origin.clone(), child: None, log: None };
        if let Origin::Start(words) = origin {
            let path = logs.join(format!("{name}.log"));
            let io = |source| Error::Io { doing: format!("open {}", path.display()), source };
            fs::create_dir_all(logs).map_err(io)?;
            let log = fs::File::create(&path).map_err(io)?;
            let program =
                words.first().ok_or_else(|| Error::Service { name: name.into(), what: "starts nothing".into() })?;
            let mut command = Command::new(program);
            command
                .args(&words[1..])
                .stdin(Stdio::null())
                .stderr(log.try_clone().map_err(io)?)
                .stdout(log)
                .process_group(0);
            let parent = std::process::id();
            // SAFETY: prctl, getppid and _exit are async-signal-safe.
            unsafe {
                command.pre_exec(move || {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() as u32 != parent {
                        libc::_exit(1); // the parent died before prctl
                    }
                    Ok(())
                });
            }
            let child = command.spawn().map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => Error::Lacks {
                    what: format!("{program}, which service '{name}' starts"),
                    how: format!("install it (on Debian: apt-get install {program}) or give its full path"),
                },
                _ => Error::Io { doing: format!("start {program}"), source },
            })?;
            running.child = Some(child);
            running.log = Some(path);
        }
        if running.processes().is_empty() {
            let what = match origin {
                Origin::Adopt(Adopt::Pid(pid)) => format!("there is no process {pid} to adopt"),
                Origin::Adopt(Adopt::Cgroup(path)) => format!("there is no process in cgroup {path} to adopt"),
                Origin::Start(_) => "ended at once".to_string(),
            };
            return Err(Error::Service { name: name.into(), what });
        }
        Ok(running)
    }

    /// Whether Giusto started it (and may stop, continue and end it).
    pub fn started(&self) -> bool {
        self.child.is_some()
    }

    /// The process group of a started service.
    pub fn group(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Ids of its processes now; empty when it has ended.
    pub fn processes(&self) -> Vec<u32> {
        match &self.origin {
            Origin::Start(_) => self.group().map(sched::group).unwrap_or_default(),
            Origin::Adopt(Adopt::Pid(pid)) => {
                if Path::new(&format!("/proc/{pid}")).exists() {
                    vec![*pid]
                } else {
                    vec![]
                }
            }
            Origin::Adopt(Adopt::Cgroup(path)) => ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
                .iter()
                .find_map(|root| fs::read_to_string(format!("{root}/{path}/cgroup.procs")).ok())
                .map(|text| text.lines().filter_map(|line| line.parse().ok()).collect())
                .unwrap_or_default(),
        }
    }

    /// An error that tells how it ended, if a started service has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
        let how = match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with exit code {}", status.code().unwrap_or(-1)),
        };
        let log = self.log.as_deref().map(last_line).unwrap_or_default();
        Err(Error::Service { name: self.name.clone(), what: format!("{how}{log}") })
    }

    /// SIGSTOP for a started service's group.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// SIGCONT for a started service's group.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Ends a started service at once and reaps it. The journal's undoing has ended it gently before, if there was time.
    pub fn end(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.take().map(|mut child| child.wait());
    }

    fn signal(&self, signal: i32) {
        if let Some(group) = self.group() {
            // SAFETY: plain system call. The group is ours: its leader is our child and not reaped yet, so that the
            // number cannot have been reused.
            unsafe { libc::kill(-(group as i32), signal) };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.map(|line| format!("; its last line: {}", line.trim())).unwrap_or_default();
    format!("{line} (all of it: {})", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shell(script: &str) -> Origin {
        Origin::Start(vec!["sh".into(), "-c".into(), script.into()])
    }

    #[test]
    fn a_started_service_ends_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Running::begin("pair", &shell("sleep 60 & sleep 60"), folder.path()).unwrap();
        while running.processes().len() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let group = running.group().unwrap();
        running.end();
        while !sched::group(group).is_empty() {
            std::thread::sleep(Duration::from_millis(5)); // the kernel is still ending them
        }
    }

    #[test]
    fn a_service_that_ends_says_how_and_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut running =
            Running::begin("short", &shell("sleep 0.2; echo no port >&2; exit 7"), folder.path()).unwrap();
        let error = loop {
            if let Err(error) = running.check() {
                break error.to_string();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(error.contains("exit code 7") && error.contains("no port"), "{error}");
    }

    #[test]
    fn what_is_not_there_cannot_be_started_or_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Origin::Start(vec!["no-such-program".into()]);
        assert!(matches!(Running::begin("x", &missing, folder.path()), Err(Error::Lacks { .. })));
        for adopt in [Adopt::Pid(u32::MAX), Adopt::Cgroup("no/such".into())] {
            assert!(matches!(Running::begin("x", &Origin::Adopt(adopt), folder.path()), Err(Error::Service { .. })));
        }
    }
}
