//! The task engine: stops the tasks that a local mode does not have, then lets those go on that it has.
//!
//! Every way of doing it may be told twice. Which processes are the tasks that the agent itself has started is written
//! down ([`crate::state`]); nothing that a process says of itself counts.

use crate::cgroup;
use crate::error::Error;
use crate::process::Process;
use crate::state::{Records, State};
use crate::task::Task;
use giusto_site::agent::{AgentFile, AgentMode, AgentTask, Control};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a cgroup may take to freeze, and a program to do as told.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long tasks have between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(1);

/// The tasks of one agent.
pub(crate) struct Engine {
    service: String,
    tasks: Vec<AgentTask>,
    modes: Vec<AgentMode>,
    records: Records,
    /// Tasks that agents of this service have started, by their place: each with its slot among the records.
    started: BTreeMap<usize, (usize, Task)>,
    children: Vec<Child>,
    /// Tells cgroups of this agent's tasks from those of others.
    mark: String,
    /// Of whom pid-files told: the file (inode, time) and the process.
    told: BTreeMap<usize, ((u64, i64, i64), Process)>,
    notes: Vec<String>,
}

impl Engine {
    /// The engine for the tasks of `file`, with those that an earlier agent of the service has started. What it
    /// started and the file no longer has is ended.
    ///
    /// Errors: what is written down cannot be read.
    pub(crate) fn new(file: &AgentFile, state: &State) -> Result<Engine, Error> {
        let (service, tasks, modes) = (file.service.clone(), file.tasks.clone(), file.modes.clone());
        let (records, mut started, mut notes) = (state.records()?, BTreeMap::new(), Vec::new());
        for (slot, record) in records.read() {
            let Some(task) = Task::find(&record) else { continue };
            let is = |one: &AgentTask| one.name == record.task && matches!(one.control, Control::Start(_));
            match tasks.iter().position(is) {
                Some(place) => {
                    notes.push(format!(
                        "task '{}' of an earlier agent goes on (held by process {})",
                        record.task,
                        task.id()
                    ));
                    started.insert(place, (slot, task));
                }
                None => {
                    let ended = task
                        .end()
                        .map_or_else(|why| format!("and cannot be ended: {why}"), |()| "so it was ended".into());
                    notes.push(format!(
                        "task '{}' of an earlier agent is not in the file any more, {ended}",
                        record.task
                    ));
                }
            }
        }
        let digest = Sha256::digest(format!("{} {service}", file.state.display()));
        let mark = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let (children, told) = (Vec::new(), BTreeMap::new());
        Ok(Engine { service, tasks, modes, records, started, children, mark, told, notes })
    }

    /// Notes for the log since the last call.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Ends all tasks that agents of this service have started, gently where there is time.
    ///
    /// Errors: those that could not be ended, in words.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let until = Instant::now() + GRACE;
        self.started.values().for_each(|(_, task)| _ = task.ask_to_end());
        while self.started.values().any(|(_, task)| task.runs()) && Instant::now() < until {
            self.reap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let end = |(place, (slot, task)): (&usize, &(usize, Task))| {
            let done = task.end().and_then(|()| self.records.clear(*slot));
            done.err().map(|why| format!("task '{}' does not end: {why}", self.tasks[*place].name))
        };
        let wrong: Vec<String> = self.started.iter().filter_map(end).collect();
        self.started.clear();
        self.reap();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(wrong.join("; "))
    }

    /// Makes exactly the tasks of the local mode run. Microseconds for signals; as long as it takes for units and
    /// programs.
    ///
    /// Errors: those that could not be stopped or let go on, in words; all others are as the mode has them.
    pub(crate) fn switch(&mut self, local: usize) -> Result<(), String> {
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
    pub(crate) fn reap(&mut self) {
        self.children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn set(&mut self, place: usize, runs: bool) -> io::Result<()> {
        match &self.tasks[place].control {
            Control::Start(_) => self.started(place, runs),
            Control::PidFile(file) => {
                let file = file.clone();
                signal(self.told(place, &file)?, runs)
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

    fn started(&mut self, place: usize, runs: bool) -> io::Result<()> {
        if let Some((_, task)) = self.started.get(&place) {
            let done = if runs { task.go_on() } else { task.stop() };
            if task.runs() {
                return done;
            }
            task.leave();
            self.started.remove(&place);
        }
        if runs {
            self.start(place)?;
        }
        Ok(())
    }

    fn start(&mut self, place: usize) -> io::Result<()> {
        let AgentTask { name, control: Control::Start(words) } = &self.tasks[place] else { return Ok(()) };
        let taken = |slot: &usize| self.started.values().any(|(other, _)| other == slot);
        let slot = (0..).find(|slot| !taken(slot)).unwrap_or(place);
        let mark = format!("{}{}.{}.{name}", cgroup::TASK, self.mark, self.service);
        let cgroup = cgroup::own().and_then(|own| cgroup::make(&own, &mark));
        let into = cgroup.as_ref().ok().cloned();
        let (task, child) = Task::start(words, (&self.service, name), into, (&self.records, slot))?;
        self.notes.push(match &cgroup {
            Ok(group) => format!("task '{name}' runs in a cgroup of its own, {}", group.folder().display()),
            Err(why) => format!("task '{name}' runs below process {}, which finds its processes: {why}", task.id()),
        });
        self.started.insert(place, (slot, task));
        self.children.push(child);
        Ok(())
    }

    /// The process group that a pid-file names. Only root or this user may name processes: a signal of ours reaches
    /// whatever it names.
    fn told(&mut self, place: usize, path: &Path) -> io::Result<Pid> {
        let mut file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let found = file.metadata()?;
        let ours = [0, rustix::process::geteuid().as_raw()].contains(&found.uid());
        if !ours || found.mode() & 0o022 != 0 || !found.is_file() {
            return Err(io::Error::other(format!(
                "{} can be written by others, who could name any process in it; expected a file that only root can write, or systemd: or cgroup: instead",
                path.display()
            )));
        }
        let text = io::read_to_string(io::Read::take(&mut file, 64))?;
        let process = text.trim().parse().ok().filter(|&pid| pid > 0).and_then(Process::of);
        let process = process.ok_or_else(|| io::Error::other(format!("{} names no process", path.display())))?;
        let written = (found.ino(), found.mtime(), found.mtime_nsec());
        let (before, known) = *self.told.entry(place).or_insert((written, process));
        if before == written && known != process {
            let text = format!("{} still names process {}, which is another one by now", path.display(), process.pid);
            return Err(io::Error::other(text));
        }
        self.told.insert(place, (written, process));
        Ok(rustix::process::getpgid(Pid::from_raw(process.pid))?)
    }
}

fn signal(group: Pid, runs: bool) -> io::Result<()> {
    Ok(rustix::process::kill_process_group(group, if runs { Signal::CONT } else { Signal::STOP })?)
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
