//! Processes that cannot be mistaken for others: an id with its start time, signalled by pidfd.

use rustix::fd::OwnedFd;
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::io;

/// A process. Ids are used again; an id with its start time (clock ticks since the machine booted) is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) started: u64,
}

/// What /proc says of a process.
struct Stat {
    state: char,
    parent: i32,
    started: u64,
}

impl Process {
    /// The process that has this id now; `None`: there is none, or it is a zombie.
    pub(crate) fn of(pid: i32) -> Option<Process> {
        stat(pid).filter(Stat::lives).map(|stat| Process { pid, started: stat.started })
    }

    pub(crate) fn lives(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Holds on to it; `None`: it has gone.
    fn hold(self) -> Option<OwnedFd> {
        let fd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after it was opened, so that the id cannot be another's by now.
        self.lives().then_some(fd)
    }

    /// Errors: the signal is not allowed. One that has gone is passed over.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        match self.hold().map(|fd| pidfd_send_signal(fd, signal)) {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(why)) => Err(why.into()),
        }
    }

    /// All that descend from it. One that is born or moves to another parent meanwhile may be missing.
    pub(crate) fn descendants(self) -> Vec<Process> {
        let mut found = vec![self];
        let mut looked = 0;
        while let Some(&parent) = found.get(looked) {
            looked += 1;
            for pid in children(parent.pid) {
                // A number that was read may be another's by now: that one has another parent.
                let child = stat(pid).filter(|stat| stat.lives() && stat.parent == parent.pid);
                found.extend(child.map(|stat| Process { pid, started: stat.started }));
            }
            if !parent.lives() {
                break; // or its number is another's, and so are the children
            }
        }
        found.split_off(1)
    }
}

impl Stat {
    fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    Some(Stat { state, parent, started: fields.nth(17)?.parse().ok()? })
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let of = |path: std::path::PathBuf| std::fs::read_to_string(path.join("children")).unwrap_or_default();
    let text: String = tasks.map(|task| of(task.path()) + " ").collect();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether /proc tells of the processes that this one sees, and of their children; else what is wrong with it.
pub(crate) fn proc_is_ours() -> Result<(), &'static str> {
    let own = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    if own != Some(std::process::id()) {
        return Err("/proc does not tell of the processes of this PID namespace; mount it (unshare --mount-proc, or mount -t proc proc /proc)");
    }
    match std::path::Path::new("/proc/self/task").join(own.unwrap_or(0).to_string()).join("children").exists() {
        true => Ok(()),
        false => Err("the kernel does not tell who is whose child (CONFIG_PROC_CHILDREN); expected a kernel that does, as those of distributions"),
    }
}
