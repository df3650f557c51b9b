//! The processes behind services: starting those that Giusto starts, finding those that it adopts.

use crate::vm::Vm;
use crate::{systemd, Error};
use giusto_compute::sched::{self, Thread};
use giusto_model::{Adopt, Origin};
use std::cell::RefCell;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Where a cgroup of the site file may lie: v1 hierarchies that systemd and others fill, and v2.
pub(crate) const HIERARCHIES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu"];

/// A virtual machine is not asked for its vCPUs again sooner.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

/// The threads of a machine's vCPUs, or why they are not known.
type Told = Result<Vec<Thread>, String>;

/// A service whose processes are known.
#[derive(Debug)]
pub struct Running {
    /// Its name in the site file.
    pub name: String,
    source: Source,
    child: Option<Child>,
    /// How a started service ended, once it has been reaped: its number may be somebody else's then.
    ended: Option<ExitStatus>,
    /// Adopted processes: on cgroup v2 they leave their cgroup when they are moved to a core.
    adopted: RefCell<Vec<Thread>>,
    /// What was told of a virtual machine's vCPUs, and when.
    told: RefCell<Option<(Instant, Told)>>,
    log: Option<PathBuf>,
}

/// How its processes are found.
#[derive(Debug)]
enum Source {
    Child,
    Process(u32),
    Cgroup(String),
    Vm(Vm),
}

impl Running {
    /// Starts the service in a process group of its own, its output going to `logs/NAME.log`; or finds the adopted one.
    ///
    /// `intend` gets the leader of that group before it runs its program, and has to write it down. The leader dies with this
    /// process (PR_SET_PDEATHSIG) also before.
    pub fn begin(
        name: &str,
        origin: &Origin,
        logs: &Path,
        intend: &mut (dyn FnMut(Thread) -> io::Result<()> + Send),
    ) -> Result<Running, Error> {
        let service = |what| Error::Service { name: name.into(), what };
        let source = match origin {
            Origin::Start(_) => Source::Child,
            Origin::Adopt(Adopt::Pid(pid)) => Source::Process(*pid),
            Origin::Adopt(Adopt::Cgroup(path)) => Source::Cgroup(path.clone()),
            Origin::Adopt(Adopt::Systemd(unit)) => {
                Source::Cgroup(systemd::control_group("systemctl", unit, &HIERARCHIES).map_err(service)?)
            }
            Origin::Adopt(Adopt::Qmp(path)) => Source::Vm(Vm::Qmp(path.clone())),
            Origin::Adopt(Adopt::Libvirt(name)) => Source::Vm(Vm::Libvirt(name.clone())),
        };
        let (owned, adopted, told) = (name.to_string(), RefCell::default(), RefCell::default());
        let mut running = Running { name: owned, source, child: None, ended: None, adopted, told, log: None };
        if let Origin::Start(words) = origin {
            let path = logs.join(format!("{name}.log"));
            let open = |source| Error::Io { doing: format!("open {}", path.display()), source };
            fs::create_dir_all(logs).map_err(open)?;
            let log = fs::File::create(&path).map_err(open)?;
            let program = words.first().ok_or_else(|| service("starts nothing".into()))?;
            let mut command = Command::new(program);
            command.args(&words[1..]).stdin(Stdio::null()).stderr(log.try_clone().map_err(open)?).stdout(log);
            let child = spawn_recorded(command.process_group(0), intend).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::Lacks {
                    what: format!("{program}, which service '{name}' starts"),
                    how: format!("install it (on Debian: apt-get install {program}) or give its full path"),
                },
                _ => Error::Io { doing: format!("start {program}"), source },
            })?;
            running.child = Some(child);
            running.log = Some(path);
        }
        if let Source::Vm(_) = running.source {
            running.vcpus()?;
        }
        if running.processes().is_empty() {
            let what = match &running.source {
                Source::Process(pid) => format!("there is no process {pid} to adopt"),
                Source::Cgroup(path) => format!(
                    "there is no process in cgroup {path}, nor below it, to adopt; expected a path below one of {}",
                    HIERARCHIES.join(", ")
                ),
                Source::Child | Source::Vm(_) => "ended at once".to_string(),
            };
            return Err(service(what));
        }
        Ok(running)
    }

    /// Whether Giusto started it (and may stop, continue and end it).
    pub fn started(&self) -> bool {
        self.child.is_some()
    }

    /// The process group of a started service that has not ended.
    pub fn group(&self) -> Option<u32> {
        self.child.as_ref().filter(|_| self.ended.is_none()).map(Child::id)
    }

    /// Ids of its processes now; empty when it has ended.
    pub fn processes(&self) -> Vec<u32> {
        let mut adopted = self.adopted.borrow_mut();
        match &self.source {
            Source::Child => return self.group().map(sched::kin).unwrap_or_default(),
            Source::Process(pid) if adopted.is_empty() => adopted.extend(Thread::of(*pid)),
            Source::Process(_) => {}
            Source::Cgroup(path) => {
                let folders = HIERARCHIES.iter().map(|root| Path::new(root).join(path.trim_start_matches('/')));
                let pids = folders.map(|folder| members(&folder)).find(|pids| !pids.is_empty()).unwrap_or_default();
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

    /// The threads of a virtual machine's vCPUs, in the order of their numbers: they come and go, and are asked for again after
    /// some seconds. Asking takes up to 2 s where QEMU does not answer; while another client has its monitor, what is known
    /// stays. Errors: it is no virtual machine, or cannot be asked.
    pub fn vcpus(&self) -> Result<Vec<u32>, Error> {
        let service = |what| Error::Service { name: self.name.clone(), what };
        let Source::Vm(vm) = &self.source else {
            let what = "is no virtual machine, of which vCPUs are known; expected adopt: {qmp: /run/vm.sock} or {libvirt: NAME}";
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

    /// An error that tells how it ended, if it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        let ended = |what: String| Err(Error::Service { name: self.name.clone(), what });
        let Some(child) = &mut self.child else {
            return if self.processes().is_empty() { ended("has ended".into()) } else { Ok(()) };
        };
        if self.ended.is_none() {
            self.ended = child.try_wait().ok().flatten();
        }
        let Some(status) = self.ended else { return Ok(()) };
        let how = match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with exit code {}", status.code().unwrap_or(-1)),
        };
        let log = self.log.as_deref().map(last_line).unwrap_or_default();
        ended(format!("{how}{log}"))
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
            // SAFETY: plain system call. The group is ours: its leader is our child and not reaped, so that the number cannot
            // have been reused.
            unsafe { libc::kill(-(group as i32), signal) };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
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

/// Starts a process that runs its program only once `intend` has written it down: the child tells its number and waits.
fn spawn_recorded(
    command: &mut Command,
    intend: &mut (dyn FnMut(Thread) -> io::Result<()> + Send),
) -> io::Result<Child> {
    let (mut told, tell) = io::pipe()?;
    let (wait, mut go) = io::pipe()?;
    let (parent, tell_fd, wait_fd, go_fd) = (std::process::id(), tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
    // SAFETY: all calls are async-signal-safe. Pipes are closed on exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::close(go_fd); // or its own copy would keep it waiting for a parent that has died
            let (pid, mut byte) = (libc::getpid().to_ne_bytes(), 0u8);
            let dead = libc::getppid() as u32 != parent // died before prctl
                || libc::write(tell_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize
                || libc::read(wait_fd, (&raw mut byte).cast(), 1) != 1;
            if dead {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            Ok(())
        });
    }
    std::thread::scope(|scope| {
        let recorder = scope.spawn(move || {
            let mut pid = [0; 4];
            // Nobody tells where the fork itself failed.
            told.read_exact(&mut pid).ok().and_then(|()| Thread::of(u32::from_ne_bytes(pid))).map_or(Ok(()), |leader| {
                intend(leader)?;
                go.write_all(&[1])
            })
        });
        let child = command.spawn();
        drop(tell);
        let recorded = recorder.join().unwrap_or_else(|_| Err(io::Error::other("the recording thread broke down")));
        recorded.and(child)
    })
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

    fn shell(script: &str) -> Origin {
        Origin::Start(vec!["sh".into(), "-c".into(), script.into()])
    }

    #[test]
    fn a_started_service_ends_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut running =
            Running::begin("pair", &shell("sleep 60 & sleep 60"), folder.path(), &mut |_| Ok(())).unwrap();
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
    fn children_that_make_a_group_for_themselves_belong_to_the_service_too() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sh -c 'setsid sleep 60 & wait' & wait";
        let mut running = Running::begin("kin", &shell(script), folder.path(), &mut |_| Ok(())).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let own = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        let sleeper = loop {
            if let Some(pid) = running.processes().into_iter().find(own) {
                break pid;
            }
            assert!(Instant::now() < until);
        };
        assert!(!sched::group(running.group().unwrap()).contains(&sleeper));
        // SAFETY: plain system call; it is our child's child, and alive.
        unsafe { libc::kill(sleeper as i32, libc::SIGKILL) };
        running.end();
    }

    #[test]
    fn what_could_not_be_recorded_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let touch = Origin::Start(vec!["touch".into(), ran.display().to_string()]);
        let refused = Running::begin("x", &touch, folder.path(), &mut |_| Err(io::ErrorKind::StorageFull.into()));
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        assert!(!ran.exists());
        let mut leader = None;
        let running = Running::begin("x", &touch, folder.path(), &mut |process| {
            leader = Some(process);
            assert!(!ran.exists(), "recorded before it runs");
            Ok(())
        });
        let ended = matches!(running, Err(Error::Service { .. })); // it may have ended by now
        assert!(ended || running.unwrap().group() == leader.map(|leader| leader.tid));
    }

    #[test]
    fn a_virtual_machine_is_not_asked_all_the_time_and_what_is_known_stays() {
        let nowhere = Vm::Qmp("/no/such/monitor".into());
        let own = Thread::of(std::process::id()).unwrap();
        let long_ago = Instant::now().checked_sub(2 * ASKED_AGAIN).unwrap();
        let running = |at: Instant, told: Result<Thread, &str>| Running {
            name: "vm".into(),
            source: Source::Vm(Vm::Qmp("/no/such/monitor".into())),
            child: None,
            ended: None,
            adopted: RefCell::default(),
            told: RefCell::new(Some((at, told.map(|vcpu| vec![vcpu]).map_err(String::from)))),
            log: None,
        };
        for at in [Instant::now(), long_ago] {
            assert_eq!(running(at, Ok(own)).vcpus().unwrap(), [own.tid]);
            let gone = running(at, Ok(Thread { started: 1, ..own })).vcpus().unwrap_err().to_string();
            assert!(gone.contains(&nowhere.vcpus().unwrap_err()), "{gone}");
        }
        assert!(running(Instant::now(), Err("busy")).vcpus().unwrap_err().to_string().contains("busy"));
        assert!(!running(long_ago, Err("busy")).vcpus().unwrap_err().to_string().contains("busy"));
    }

    #[test]
    fn a_cgroup_has_the_processes_of_those_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a.service/b.scope");
        fs::create_dir_all(&below).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        fs::write(below.join("cgroup.procs"), "7\n8\n").unwrap();
        assert_eq!(members(folder.path()), [7, 8]);
        assert!(members(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn an_adopted_process_that_has_ended_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let adopt = Origin::Adopt(Adopt::Pid(child.id()));
        let mut running = Running::begin("x", &adopt, folder.path(), &mut |_| Ok(())).unwrap();
        assert_eq!(running.processes(), [child.id()]);
        running.check().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(running.processes().is_empty() && running.check().is_err());
    }

    #[test]
    fn a_service_that_ends_says_how_and_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut running =
            Running::begin("short", &shell("sleep 0.2; echo no port >&2; exit 7"), folder.path(), &mut |_| Ok(()))
                .unwrap();
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
        assert!(matches!(Running::begin("x", &missing, folder.path(), &mut |_| Ok(())), Err(Error::Lacks { .. })));
        let socket = folder.path().join("qmp");
        for adopt in [
            Adopt::Pid(u32::MAX),
            Adopt::Cgroup("no/such".into()),
            Adopt::Systemd("no-such.service".into()),
            Adopt::Qmp(socket),
            Adopt::Libvirt("no such".into()),
        ] {
            assert!(matches!(
                Running::begin("x", &Origin::Adopt(adopt), folder.path(), &mut |_| Ok(())),
                Err(Error::Service { .. })
            ));
        }
    }
}
