//! A task that the agent has started: all that its command has become, however it is called, wherever it has forked to.
//!
//! Its *holder*, a copy of the agent that does nothing else, is the parent of the command and of whatever loses its
//! parent in the task (PR_SET_CHILD_SUBREAPER), and ends when there is nothing left. Before the command runs, the
//! holder goes into the task's own cgroup, if there is one to be had, and writes down who it is. So an agent that was
//! killed at any instant finds its tasks, and nothing but its tasks, when it is back: it waits for the lock that a
//! holder has until it is written down.
//!
//! In a cgroup a task is stopped and ended by the kernel. Without one its processes are looked for below the holder,
//! until there is none that was not told. Who has the agent's own rights can leave either.

use crate::cgroup;
use crate::process::Process;
use crate::state::{Record, Records};
use giusto_cgroup::Cgroup;
use rustix::process::Signal;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In the environment of what the agent starts: SERVICE/TASK, for people and logs. It proves nothing.
const MARK: &str = "GIUSTO_TASK";
/// How long a task may take to stop and to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    holder: Process,
    cgroup: Option<Cgroup>,
}

/// By what a task is held together.
enum By<'a> {
    Cgroup(&'a Cgroup),
    Tree,
}

impl Task {
    /// That of a record, if anything of it runs.
    pub(crate) fn find(record: &Record) -> Option<Task> {
        // What others could move processes to holds nothing together.
        let cgroup = record.cgroup.clone().map(Cgroup::at).filter(cgroup::is_ours);
        let task = Task { holder: record.holder(), cgroup };
        if task.runs() {
            return Some(task);
        }
        task.leave();
        None
    }

    /// Starts a command as a task: it runs once it is written down in this slot.
    pub(crate) fn start(
        words: &[String],
        (service, name): (&str, &str),
        cgroup: Option<Cgroup>,
        (records, slot): (&Records, usize),
    ) -> io::Result<(Task, Child)> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, format!("{service}/{name}")).stdin(Stdio::null());
        let mut form = records.form(slot, name, cgroup.as_ref().map(Cgroup::folder))?;
        let procs = cgroup.as_ref().map(|group| group.folder().join("cgroup.procs"));
        let members = procs.map(|path| std::fs::OpenOptions::new().write(true).open(path)).transpose()?;
        let into = members.as_ref().map(|file| file.as_raw_fd());
        // SAFETY: only system calls, and memory of our own, between fork and exec; the agent has one thread.
        let child = unsafe { command.pre_exec(move || hold(into, &mut form)) }.spawn();
        let started = child.and_then(|child| {
            let found =
                records.read().into_iter().find(|(at, one)| *at == slot && one.holder().pid == child.id() as i32);
            let (_, record) = found.ok_or_else(|| io::Error::other("what was written down of it is gone"))?;
            Ok((Task { holder: record.holder(), cgroup: cgroup.clone() }, child))
        });
        match started {
            Ok(started) => Ok(started),
            Err(why) => {
                cgroup.as_ref().map(Cgroup::remove);
                records.clear(slot)?;
                Err(why)
            }
        }
    }

    /// Its holder's process id.
    pub(crate) fn id(&self) -> i32 {
        self.holder.pid
    }

    /// Whether anything of it runs.
    pub(crate) fn runs(&self) -> bool {
        self.holder.lives() || self.cgroup.as_ref().is_some_and(|group| !group.is_empty())
    }

    /// Its cgroup counts only as long as it is in there: the host may have moved it to one of its own.
    fn by(&self) -> By<'_> {
        let here = |group: &&Cgroup| !self.holder.lives() || cgroup::holds(group, self.holder.pid);
        self.cgroup.as_ref().filter(here).map_or(By::Tree, By::Cgroup)
    }

    /// Nothing of it executes another instruction of its own. Microseconds, without a cgroup some tens for each
    /// process.
    pub(crate) fn stop(&self) -> io::Result<()> {
        match self.by() {
            By::Cgroup(group) => cgroup::freeze(group, true),
            By::Tree => self.tell_all(Signal::STOP),
        }
    }

    pub(crate) fn go_on(&self) -> io::Result<()> {
        match self.by() {
            By::Cgroup(group) => cgroup::freeze(group, false),
            // Nothing moves before all are found: nothing is missed.
            By::Tree => self.holder.descendants().into_iter().try_for_each(|one| one.signal(Signal::CONT)),
        }
    }

    /// Asks it to end, wherever it stands.
    pub(crate) fn ask_to_end(&self) -> io::Result<()> {
        self.holder.descendants().into_iter().try_for_each(|one| one.signal(Signal::TERM))?;
        self.go_on()
    }

    /// Ends all of it, and waits until it has ended.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.cgroup.as_ref().map_or(Ok(()), Cgroup::kill)?;
        let until = Instant::now() + PATIENCE;
        while self.runs() {
            self.tell_all(Signal::KILL)?;
            if Instant::now() > until {
                return Err(io::Error::other("some of its processes do not end"));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        self.leave();
        Ok(())
    }

    /// Nothing runs in it any more.
    pub(crate) fn leave(&self) {
        let _ = self.cgroup.as_ref().map(Cgroup::remove);
    }

    /// Sends a signal to each process once, until there is none that did not get it.
    fn tell_all(&self, signal: Signal) -> io::Result<()> {
        let mut told: Vec<Process> = Vec::new();
        let until = Instant::now() + PATIENCE;
        loop {
            let mut all = self.holder.descendants();
            all.retain(|one| !told.contains(one));
            if all.is_empty() {
                return Ok(());
            }
            for one in all {
                one.signal(signal)?;
                told.push(one);
            }
            if Instant::now() > until {
                return Err(io::Error::other("it makes processes faster than they can be told"));
            }
        }
    }
}

/// Between fork and exec, in what becomes the holder: returns in the command's process only.
fn hold(into: Option<i32>, form: &mut crate::state::Form) -> io::Result<()> {
    let done = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    // SAFETY: plain system calls with memory of our own; none asks for memory.
    unsafe {
        // Sessions of their own: no signal for an orphaned process group reaches a stopped task when a process above it
        // dies.
        done(libc::setsid())?;
        done(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
        done(libc::prctl(libc::PR_SET_NAME, c"giusto-task".as_ptr()))?;
        if let Some(fd) = into {
            done(libc::write(fd, c"0".as_ptr().cast(), 1) as i32)?;
        }
        form.fill_in(Process { pid: libc::getpid(), started: started()? })?;
        let holder = libc::getpid();
        if done(libc::fork())? == 0 {
            done(libc::setsid())?;
            if into.is_none() {
                // Without its holder nothing would be found again.
                done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                if libc::getppid() != holder {
                    return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                }
            }
            return Ok(());
        }
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0); // the agent's lock is free from here on
        while libc::waitpid(-1, std::ptr::null_mut(), 0) >= 0
            || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        libc::_exit(0)
    }
}

/// Field 22 of /proc/self/stat, without asking for memory.
fn started() -> io::Result<u64> {
    let mut bytes = [0u8; 1024];
    // SAFETY: plain system calls with memory of our own.
    let length = unsafe {
        let fd = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(fd);
        length
    };
    let text = bytes.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    let after = text.iter().rposition(|&byte| byte == b')').map_or(text, |end| &text[end + 1..]);
    let field = after.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(19);
    let number = field.and_then(|field| std::str::from_utf8(field).ok()?.parse().ok());
    number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODATA))
}
