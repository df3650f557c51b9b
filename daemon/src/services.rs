//! The processes behind services: starting those that Giusto starts, finding those that it adopts, and how they end.
//!
//! What Giusto starts lives in a cgroup of its own, `giusto.NAME.service`, from before its first instruction
//! ([`Contained`]), and again after each restart: all that is in there is the service, and ends with it. Its first
//! process says how it ended: with exit code 0 while others of it go on, it works in the background; else the rest is
//! ended. Where there are no cgroups, a service is its process group and all their children.

use crate::after_end::{AfterEnd, REAPED};
use crate::logs;
use crate::named::{Named, Place};
use crate::restart::Restarts;
use crate::spawn::spawn;
use crate::systemd::HIERARCHIES;
use crate::vm::Vm;
use crate::Error;
use giusto_compute::sched::{self, Thread};
use giusto_compute::{Contained, Recorder, Undo};
use giusto_model::{Adopt, Origin, Process};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A virtual machine is not asked for its vCPUs again sooner.
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// What a manager knows of threads is not older.
const REUSED: Duration = Duration::from_millis(1500);

/// The threads of a machine's vCPUs, or why they are not known.
type Told = Result<Vec<Thread>, String>;

/// What has to be done before a service is started.
#[derive(Debug)]
pub enum Before {
    /// To be written down: cgroups will be made for it.
    Made(Undo),
    /// Its process waits to run its program: in its cgroup, and not in its place yet.
    Runs(Thread),
}

/// Who does it. Its error is the start's.
pub type Prepare<'a> = dyn FnMut(Before) -> io::Result<()> + Send + 'a;

/// A service whose processes are known, or were.
#[derive(Debug)]
pub struct Running {
    /// Its name in the site file.
    pub name: String,
    source: Source,
    /// How it is run.
    pub(crate) process: Process,
    child: Option<Child>,
    /// Its cgroup, if Giusto started it and the machine has some.
    contained: Option<Contained>,
    /// How a started service ended, once it has been reaped: its number may be another process's then.
    ended: Option<ExitStatus>,
    /// It has ended, or has gone, and how; `None`: it is there.
    down: Option<String>,
    /// How it ended the last time.
    last_end: Option<String>,
    /// What runs since then.
    after_end: AfterEnd,
    restarts: Restarts,
    /// What was in its cgroup when it was looked at last.
    seen: BTreeSet<Thread>,
    /// How many processes had left their cgroup and were brought back.
    escaped: u64,
    /// How often its memory was used up so far.
    out_of_memory: u64,
    /// Adopted processes: on cgroup v2 they leave their cgroup when they are moved to a core.
    adopted: RefCell<Vec<Thread>>,
    /// What was told of a virtual machine's vCPUs, and when.
    told: RefCell<Option<(Instant, Told)>>,
    log: Option<PathBuf>,
}

/// How its processes are found.
#[derive(Debug)]
enum Source {
    /// Giusto starts it: program and arguments.
    Child(Vec<String>),
    Process(u32),
    Cgroup(String),
    /// A unit or a container.
    Named(Place),
    Vm(Vm),
}

/// Something became of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has ended, and is started again after a while, if at all.
    Ended { how: String, again: Option<Duration> },
    /// An adopted one that had gone is back.
    Back,
    /// What runs after its end has done its work, or not.
    AfterEnd(Result<(), String>),
}

impl Running {
    /// Starts the service, its output going to `logs/NAME.log`; or finds the adopted one. A started one may have ended
    /// when this returns; [`Running::check`] tells.
    ///
    /// Errors: there is no such program; what has to be done `before` failed, and it has not run; there is nothing to
    /// adopt.
    pub fn begin(
        name: &str,
        origin: &Origin,
        process: &Process,
        cores: &[u32],
        logs: &Path,
        before: &mut Prepare<'_>,
    ) -> Result<Running, Error> {
        let service = |what| Error::Service { name: name.into(), what };
        let named = |named: Named| Place::of(named).map(Source::Named);
        let source = match origin {
            Origin::Start(words) if words.is_empty() => return Err(service("starts nothing".into())),
            Origin::Start(words) => Source::Child(words.clone()),
            Origin::Adopt(Adopt::Pid(pid)) => Source::Process(*pid),
            Origin::Adopt(Adopt::Cgroup(path)) => Source::Cgroup(path.clone()),
            Origin::Adopt(Adopt::Systemd(unit)) => named(Named::Unit(unit.clone())).map_err(service)?,
            Origin::Adopt(Adopt::Container(name)) => named(Named::Container(name.clone())).map_err(service)?,
            Origin::Adopt(Adopt::Qmp(path)) => Source::Vm(Vm::Qmp(path.clone())),
            Origin::Adopt(Adopt::Libvirt(name)) => Source::Vm(Vm::Libvirt(name.clone())),
            Origin::Adopt(Adopt::Xen(name)) => {
                return Err(service(format!(
                    "is the domain {name}, which 'giusto export xen' has Xen serve; see docs/xen.md"
                )));
            }
        };
        let mut running = Running::new(name, source, process.clone());
        match &running.source {
            Source::Child(_) => {
                running.log = Some(logs.join(format!("{name}.log")));
                running.contained =
                    Contained::make(name, process, cores, &mut Written(before)).map_err(|why| match why {
                        giusto_compute::Error::Lacks(lack) => Error::Lacks { what: lack.what, how: lack.how },
                        other => other.into(),
                    })?;
                running.start(before)?;
                return Ok(running);
            }
            Source::Vm(_) => drop(running.vcpus()?),
            _ => {}
        }
        if running.processes().is_empty() {
            let what = match &running.source {
                Source::Process(pid) => format!("there is no process {pid} to adopt"),
                Source::Cgroup(path) | Source::Named(Place { path, .. }) => format!(
                    "there is no process in cgroup {path}, nor below it, to adopt; expected a path below one of {}",
                    HIERARCHIES.join(", ")
                ),
                Source::Child(_) | Source::Vm(_) => "ended at once".to_string(),
            };
            return Err(service(what));
        }
        Ok(running)
    }

    fn new(name: &str, source: Source, process: Process) -> Running {
        Running {
            name: name.into(),
            source,
            restarts: Restarts::new(process.restart, Instant::now()),
            process,
            child: None,
            contained: None,
            ended: None,
            down: None,
            last_end: None,
            after_end: AfterEnd::default(),
            seen: BTreeSet::new(),
            escaped: 0,
            out_of_memory: 0,
            adopted: RefCell::default(),
            told: RefCell::default(),
            log: None,
        }
    }

    /// Stands for one that is begun just now.
    pub(crate) fn not_yet(name: &str) -> Running {
        Running::new(name, Source::Child(vec![]), Process::default())
    }

    fn start(&mut self, before: &mut Prepare<'_>) -> Result<(), Error> {
        let Source::Child(words) = &self.source else { return Ok(()) };
        let child = self.launch(words, before)?;
        (self.child, self.ended, self.down) = (Some(child), None, None);
        self.seen.clear();
        Ok(())
    }

    /// Runs a program as this service, in its cgroup and its place.
    fn launch(&self, words: &[String], before: &mut Prepare<'_>) -> Result<Child, Error> {
        let path = self.log.as_deref().unwrap_or(Path::new("/dev/null"));
        let log = logs::open(path).map_err(|source| Error::Io { doing: format!("open {}", path.display()), source })?;
        let contained = &self.contained;
        let mut ready = |leader: Thread| {
            match contained {
                Some(contained) => {
                    let stopped = || Err(io::Error::other("a mode has stopped it"));
                    // In there it could not even end.
                    if contained.is_frozen() {
                        return stopped();
                    }
                    contained.enter(leader.tid)?;
                    if contained.is_frozen() {
                        contained.leave(leader.tid)?;
                        return stopped();
                    }
                }
                None => before(Before::Made(Undo::Group(leader)))?,
            }
            before(Before::Runs(leader))
        };
        spawn(words, &self.process, log, &mut ready).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Lacks {
                what: format!("{}, which service '{}' starts", words[0], self.name),
                how: match words[0].contains('/') {
                    true => "build or install it, or correct the path".into(),
                    false => format!("install it (on Debian: apt-get install {}) or give its full path", words[0]),
                },
            },
            _ => source.downcast().unwrap_or_else(|source| Error::Io {
                doing: format!("start {}, which is service '{}'", words[0], self.name),
                source,
            }),
        })
    }

    /// Starts it again, in the same cgroups; or first what runs after its end. Errors: as [`Running::begin`]; it is
    /// tried again later.
    pub(crate) fn start_again(&mut self, before: &mut Prepare<'_>) -> Result<(), Error> {
        let name = self.name.clone();
        if matches!(self.after_end, AfterEnd::Due) {
            self.after_end = match self.launch(&self.process.after_end, before) {
                Ok(child) => AfterEnd::Runs(child, Instant::now()),
                Err(error) => {
                    tracing::warn!(service = name, "service '{name}': its 'after-end' cannot run: {error}");
                    AfterEnd::Rests
                }
            };
            return Ok(());
        }
        let done = self.start(before);
        match &done {
            Ok(()) => {
                self.restarts.started(Instant::now());
                tracing::info!(service = name, "service '{name}' is started again");
            }
            Err(error) => {
                self.down = Some(error.to_string());
                self.restarts.ended(false, Instant::now());
            }
        }
        done
    }

    /// Whether it has ended, and it or what runs after its end is to be started now: not while a mode has stopped it.
    pub(crate) fn is_due(&self) -> bool {
        let is_stopped = || self.contained.as_ref().is_some_and(|contained| contained.is_frozen());
        let is_due = match &self.after_end {
            AfterEnd::Rests => self.restarts.is_due(Instant::now()),
            after_end => matches!(after_end, AfterEnd::Due),
        };
        is_due && !is_stopped()
    }

    /// Another say of the site file on what follows its end.
    pub(crate) fn supervise(&mut self, process: &Process) {
        self.process = process.clone();
        let success = self.ended.is_some_and(|status| status.success());
        self.restarts.follow(process.restart, self.started() && self.down.is_some(), success, Instant::now());
    }

    /// Whether Giusto started it (and may stop, continue and end it).
    pub fn started(&self) -> bool {
        matches!(self.source, Source::Child(_))
    }

    /// The process group of a started service that has not ended.
    pub fn group(&self) -> Option<u32> {
        self.child.as_ref().filter(|_| self.ended.is_none()).map(Child::id)
    }

    /// Its cgroup, if Giusto started it.
    pub(crate) fn contained(&self) -> Option<&Contained> {
        self.contained.as_ref()
    }

    /// Ids of its processes now; empty when it has ended.
    pub fn processes(&self) -> Vec<u32> {
        let mut adopted = self.adopted.borrow_mut();
        match &self.source {
            Source::Child(_) => {
                return match &self.contained {
                    Some(contained) => contained.processes(),
                    None => self.group().map(sched::kin).unwrap_or_default(),
                }
            }
            Source::Process(pid) if adopted.is_empty() => adopted.extend(Thread::of(*pid)),
            Source::Process(_) => {}
            Source::Cgroup(path) | Source::Named(Place { path, .. }) => {
                let folders = HIERARCHIES.iter().map(|root| Path::new(root).join(path.trim_start_matches('/')));
                let pids = folders.map(|folder| members(&folder)).find(|pids| !pids.is_empty()).unwrap_or_default();
                adopted.retain(|process| process.alive());
                let new: Vec<Thread> = pids.into_iter().filter_map(Thread::of).collect();
                adopted.extend(new);
                adopted.sort_unstable_by_key(|process| process.tid);
                adopted.dedup();
            }
            // Once it has ended, it may have been started again.
            Source::Vm(vm) if !adopted.iter().any(|process| process.alive()) => {
                *adopted = vm.process().into_iter().collect();
            }
            Source::Vm(_) => {}
        }
        adopted.iter().filter(|process| process.alive()).map(|process| process.tid).collect()
    }

    /// Whether it is a virtual machine.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Vm(_))
    }

    /// The threads of a virtual machine's vCPUs, in the order of their numbers: they come and go, and are asked for
    /// again after some seconds. Asking takes up to 2 s where QEMU does not answer; while another client has its
    /// monitor, what is known stays. Errors: it is no virtual machine, or cannot be asked.
    pub fn vcpus(&self) -> Result<Vec<u32>, Error> {
        let service = |what| Error::Service { name: self.name.clone(), what };
        let Source::Vm(vm) = &self.source else {
            let what = "is no virtual machine, of which vCPUs are known; expected adopt: {qmp: /run/vm.sock} or \
                        {libvirt: NAME}";
            return Err(service(what.into()));
        };
        let alive = |vcpus: &Vec<Thread>| vcpus.iter().all(|vcpu| vcpu.alive());
        let before = self.told.take().filter(|(_, told)| told.as_ref().map_or(true, alive));
        let (at, told) = match before {
            Some((at, told)) if at.elapsed() < ASKED_AGAIN => (at, told),
            before => {
                let told = vm.vcpus().map(|(process, vcpus)| {
                    *self.adopted.borrow_mut() = vec![process];
                    vcpus
                });
                (Instant::now(), told.or_else(|why| before.and_then(|(_, told)| told.ok()).ok_or(why)))
            }
        };
        let answer = told.as_ref().map(|vcpus| vcpus.iter().map(|vcpu| vcpu.tid).collect());
        let answer = answer.map_err(|why| service(why.clone()));
        self.told.replace(Some((at, told)));
        answer
    }

    /// What became of it since the last look. Of started ones cheap as long as they run; adopted ones are looked for.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        if !self.started() {
            return self.poll_adopted();
        }
        if self.down.is_some() {
            return self.after_end.follow(self.contained.as_ref()).map(Event::AfterEnd);
        }
        if self.ended.is_none() {
            self.ended = self.child.as_mut()?.try_wait().ok().flatten();
        }
        let status = self.ended?;
        if !self.processes().is_empty() {
            if status.success() {
                return None; // it works in the background
            }
            self.contained.iter().for_each(|contained| contained.kill_now());
            if !self.processes().is_empty() {
                return None; // soon
            }
        }
        let mut how = match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with exit code {}", status.code().unwrap_or(-1)),
        };
        let out_of_memory = self.contained.as_ref().map_or(0, Contained::out_of_memory);
        if std::mem::replace(&mut self.out_of_memory, out_of_memory) < out_of_memory {
            how.push_str(", as its memory was used up (limits: memory)");
        }
        self.last_end = Some(how.clone());
        if !self.process.after_end.is_empty() {
            self.after_end = AfterEnd::Due;
        }
        let again = self.restarts.ended(status.success(), Instant::now());
        how.push_str(&self.log.as_deref().map(logs::last_line).unwrap_or_default());
        self.down = Some(how.clone());
        Some(Event::Ended { how, again })
    }

    fn poll_adopted(&mut self) -> Option<Event> {
        if let (Source::Named(place), true) = (&mut self.source, self.down.is_some()) {
            place.look();
        }
        let gone = self.processes().is_empty();
        match (gone, self.down.is_some()) {
            (true, false) => {
                let how = match &self.source {
                    Source::Process(pid) => {
                        format!("has ended: process {pid} cannot come back; adopt it by another way, and reload")
                    }
                    Source::Cgroup(path) => format!("has ended; a process in cgroup {path} is waited for"),
                    Source::Named(place) => format!("has ended; it is waited for: {}", place.named.start()),
                    Source::Vm(_) | Source::Child(_) => "has ended; it is waited for: start it again".into(),
                };
                (self.down, self.last_end) = (Some(how.clone()), Some("ended".into()));
                Some(Event::Ended { how, again: None })
            }
            (false, true) => {
                self.down = None;
                Some(Event::Back)
            }
            _ => None,
        }
    }

    /// How it ended, as long as it is not there.
    pub(crate) fn down(&self) -> Option<&str> {
        self.down.as_deref()
    }

    /// Whether it ended by itself, as a program does that has done its work, and is not started again.
    pub(crate) fn is_done(&self) -> bool {
        self.down.is_some() && !self.awaited() && self.ended.is_some_and(|status| status.success())
    }

    /// Whether it has ended, and it is known how it may come back.
    pub(crate) fn awaited(&self) -> bool {
        self.down.is_some() && (self.restarts.waits() || !matches!(self.source, Source::Child(_) | Source::Process(_)))
    }

    /// How often it was started again, and how it ended the last time.
    pub(crate) fn history(&self) -> (Option<u64>, Option<String>) {
        (self.started().then_some(self.restarts.count), self.last_end.clone())
    }

    /// Processor time of all that is and ever was in its cgroup, in ns, where the kernel tells.
    pub(crate) fn usage_ns(&self) -> Option<u64> {
        self.contained.as_ref()?.usage_ns()
    }

    /// How many of its processes had left its cgroup, which takes root, and were brought back.
    pub(crate) fn escaped(&self) -> u64 {
        self.escaped
    }

    /// Brings processes back into its cgroup that have left it: those that were in it, their children, the processes
    /// of `threads` on `core`, which a manager knew from their birth a second ago, and those that it saw `moved`.
    /// Without a manager, the children of those that are in it. Returns what is to be told.
    pub(crate) fn bring_back(&mut self, core: Option<u32>, threads: &[u32], moved: &[Thread]) -> Option<String> {
        let contained = self.contained.as_ref()?;
        let now = contained.processes();
        let inside = contained.inside(&now);
        let outside = |pid: &u32| !inside.contains(pid);
        let known = self.seen.iter().filter(|process| outside(&process.tid) && process.alive()).map(|one| one.tid);
        let known = known.chain(now.iter().copied().filter(outside)); // only a limit was left
        let unmanaged = now.iter().filter(|_| core.is_none()).flat_map(|&pid| sched::kin(pid)).filter(outside);
        // A number that was used again since belongs to a process that is younger, and has other cores.
        let same = |pid: &u32| {
            Thread::of(*pid).and_then(Thread::age).is_some_and(|age| age > REUSED)
                && sched::affinity(*pid).is_ok_and(|cores| core.is_some_and(|core| cores == [core]))
        };
        let born = threads.iter().filter(|tid| outside(tid)).filter_map(|&tid| sched::process_of(tid));
        let born = born.filter(|pid| outside(pid) && same(pid));
        let moved = moved.iter().filter(|process| outside(&process.tid) && process.alive()).map(|process| process.tid);
        let mut strays: BTreeSet<u32> = known.chain(born).chain(moved).chain(unmanaged).collect();
        let children: Vec<u32> = strays.iter().flat_map(|&pid| sched::kin(pid)).filter(outside).collect();
        strays.extend(children);
        self.seen = now.iter().filter_map(|&pid| Thread::of(pid)).collect();
        let brought: Vec<u32> = strays.into_iter().filter(|&pid| contained.enter(pid).is_ok()).collect();
        let &one = brought.first()?;
        self.escaped += brought.len() as u64;
        Some(format!(
            "{}: {} processes had left its cgroup (such as {one}) and were brought back; only root can do that: give it \
             a 'user'",
            self.name,
            brought.len()
        ))
    }

    /// An error that tells how it ended, if it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        self.poll();
        match &self.down {
            Some(how) => Err(Error::Service { name: self.name.clone(), what: how.clone() }),
            None => Ok(()),
        }
    }

    /// Begins a new log where it is too large.
    pub(crate) fn rotate(&self) -> io::Result<()> {
        self.log.as_deref().map_or(Ok(()), logs::rotate)
    }

    /// Stops all processes of a started service.
    pub fn stop(&self) {
        self.freeze(true);
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.freeze(false);
    }

    fn freeze(&self, stop: bool) {
        match &self.contained {
            Some(contained) => _ = contained.ask_to_freeze(stop),
            None => self.signal(if stop { libc::SIGSTOP } else { libc::SIGCONT }),
        }
    }

    /// Asks a started service to end, kills it when it has not after two seconds, or what its `end-within` says, and
    /// removes its cgroup. One that cannot end (it is within the kernel, with a disk that does not answer) is told and
    /// left: others do not wait longer than six seconds more for it.
    pub fn end(&mut self) {
        self.end_within(self.process.end_within().to_std());
    }

    /// The journal's undoing has ended it gently before, if there was time.
    fn end_within(&mut self, patience: Duration) {
        match self.contained.take().map(|contained| contained.end(patience)) {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!("{}: {error}; it is left, and ends when the kernel lets it", self.name),
            None => self.signal(libc::SIGTERM),
        }
        self.signal(libc::SIGKILL);
        let Some(mut child) = self.child.take() else { return };
        let until = Instant::now() + REAPED;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(group) = self.group() {
            // SAFETY: plain system call. The group is ours: its leader is our child and not reaped, so that the number
            // cannot have been reused.
            unsafe { libc::kill(-(group as i32), signal) };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_within(Duration::ZERO);
    }
}

/// What is to be written down goes to the caller that prepares a start.
struct Written<'a, 'b>(&'a mut Prepare<'b>);

impl Recorder<Undo> for Written<'_, '_> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        (self.0)(Before::Made(undo.clone()))
    }
}

/// Processes of a cgroup and of those below it.
pub(crate) fn members(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let below = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let own = text.lines().filter_map(|line| line.parse().ok());
    own.chain(below.flat_map(|entry| members(&entry.path()))).collect()
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
