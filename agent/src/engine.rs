//! The task engine: stops the tasks that a local mode does not have, then lets those go on that it has.
//!
//! Every way of doing it may be told twice. Nothing is remembered here: a task that the agent started is found again by a mark in its
//! environment, so that an agent that was killed at any instant knows its tasks when it is back.

use giusto_site::agent::{AgentFile, AgentMode, AgentTask, Control};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In the environment of what the agent starts: SERVICE/TASK.
const MARK: &str = "GIUSTO_TASK";
/// How long a cgroup may take to freeze, and a program to do as told.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tasks of one agent.
#[derive(Debug)]
pub struct Engine {
    service: String,
    tasks: Vec<AgentTask>,
    modes: Vec<AgentMode>,
    /// Process groups of tasks that agents of this service have started, by the task's place.
    groups: BTreeMap<usize, Pid>,
    children: Vec<Child>,
}

impl Engine {
    /// The engine for the tasks of `file`, with those that an earlier agent of the service has started. Reads all of /proc once.
    pub fn new(file: &AgentFile) -> Engine {
        let (service, tasks, modes) = (file.service.clone(), file.tasks.clone(), file.modes.clone());
        let mut groups = BTreeMap::new();
        for (place, task) in tasks.iter().enumerate().filter(|(_, task)| matches!(task.control, Control::Start(_))) {
            groups.extend(marked(&format!("{service}/{}", task.name)).map(|group| (place, group)));
        }
        Engine { service, tasks, modes, groups, children: Vec::new() }
    }

    /// Makes exactly the tasks of the local mode run. Microseconds for signals; as long as it takes for units and programs.
    ///
    /// Errors: those that could not be stopped or let go on, in words; all others are as the mode has them.
    pub fn switch(&mut self, local: usize) -> Result<(), String> {
        let Some(mode) = self.modes.get(local) else { return Err(format!("there is no local mode {local}")) };
        let runs = mode.runs.clone();
        let mut wrong = Vec::new();
        for wanted in [false, true] {
            for place in (0..runs.len()).filter(|&place| runs[place] == wanted) {
                if let Err(why) = self.set(place, wanted) {
                    let what = if wanted { "go on" } else { "stop" };
                    wrong.push(format!("task '{}' does not {what}: {why}", self.tasks[place].name));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(wrong.join("; "))
    }

    /// Ends what children that have ended still hold.
    pub fn reap(&mut self) {
        self.children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn set(&mut self, place: usize, runs: bool) -> io::Result<()> {
        match &self.tasks[place].control {
            Control::Start(_) => self.group(place, runs),
            Control::PidFile(file) => {
                let pid = std::fs::read_to_string(file)?.trim().parse().ok().and_then(Pid::from_raw);
                let pid = pid.ok_or_else(|| io::Error::other(format!("{} holds no process id", file.display())))?;
                signal(rustix::process::getpgid(Some(pid))?, runs)
            }
            Control::Cgroup(below) => freeze(below, !runs),
            Control::Systemd(unit) => {
                let word = if runs { "start" } else { "stop" };
                told(Command::new("systemctl").args([word, "--", unit]))
            }
            Control::Command(words) => {
                told(Command::new(&words[0]).args(&words[1..]).arg(if runs { "start" } else { "stop" }))
            }
        }
    }

    fn group(&mut self, place: usize, runs: bool) -> io::Result<()> {
        let known = self.groups.get(&place).copied();
        if let Some(group) = known {
            match signal(group, runs) {
                Err(gone) if gone.raw_os_error() == Some(libc::ESRCH) => _ = self.groups.remove(&place),
                Ok(()) if !(runs && self.has_ended(group)) => return Ok(()),
                Ok(()) => _ = self.groups.remove(&place),
                Err(why) => return Err(why),
            }
        }
        if runs {
            let Control::Start(words) = &self.tasks[place].control else { return Ok(()) };
            let mark = format!("{}/{}", self.service, self.tasks[place].name);
            let mut command = Command::new(&words[0]);
            let child = command.args(&words[1..]).env(MARK, mark).process_group(0).stdin(Stdio::null());
            let child = child.spawn()?;
            self.groups.extend(Pid::from_raw(child.id() as i32).map(|pid| (place, pid)));
            self.children.push(child);
        }
        Ok(())
    }

    /// A group whose leader is our child and a zombie takes signals all the same.
    fn has_ended(&mut self, group: Pid) -> bool {
        self.reap();
        rustix::process::test_kill_process_group(group).is_err()
    }
}

fn signal(group: Pid, runs: bool) -> io::Result<()> {
    Ok(rustix::process::kill_process_group(group, if runs { Signal::CONT } else { Signal::STOP })?)
}

/// The process group that an earlier agent started with this mark: of a leader with the mark, else of whoever has it still.
fn marked(mark: &str) -> Option<Pid> {
    let line = format!("{MARK}={mark}");
    let has_mark = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|one| one == line.as_bytes())
    };
    let all = std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let groups = all.filter(has_mark).filter_map(|pid| rustix::process::getpgid(Pid::from_raw(pid)).ok());
    groups.into_iter().min_by_key(|group| group.as_raw_nonzero())
}

/// Where the freezer is, below one of the hierarchies.
fn freezer(below: &str) -> io::Result<(PathBuf, bool)> {
    for (root, file, is_v2) in
        [("", "cgroup.freeze", true), ("unified", "cgroup.freeze", true), ("freezer", "freezer.state", false)]
    {
        let path = Path::new("/sys/fs/cgroup").join(root).join(below).join(file);
        if path.exists() {
            return Ok((path, is_v2));
        }
    }
    Err(io::Error::other(format!("there is no cgroup {below} with a freezer below /sys/fs/cgroup")))
}

fn freeze(below: &str, frozen: bool) -> io::Result<()> {
    let (path, is_v2) = freezer(below)?;
    let (word, state) = match (is_v2, frozen) {
        (true, true) => ("1", "frozen 1"),
        (true, false) => ("0", "frozen 0"),
        (false, true) => ("FROZEN", "FROZEN"),
        (false, false) => ("THAWED", "THAWED"),
    };
    let told = if is_v2 { path.with_file_name("cgroup.events") } else { path.clone() };
    std::fs::write(&path, word)?;
    let until = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&told)?.contains(state) {
        if Instant::now() > until {
            return Err(io::Error::other(format!("{} does not become {state}", path.display())));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Runs a program to its end.
fn told(command: &mut Command) -> io::Result<()> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("{:?} ended with {status}", command.get_program()))),
            None if Instant::now() > until => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!(
                    "{:?} did not end in {} s",
                    command.get_program(),
                    PATIENCE.as_secs()
                )));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
