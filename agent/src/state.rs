//! What a restarted agent has to know: the last command, and which processes are its tasks; in files that only this
//! user can write, and only one agent can hold.
//!
//! Nothing else is believed: a process may call itself what it likes, and write what it likes into its environment.

use crate::error::{cannot, Error};
use crate::process::Process;
use giusto_modes::Intention;
use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of the file with the last command, always: one write replaces all of it.
const SIZE: usize = 128;
/// Bytes of what is written of a task, likewise.
const SLOT: usize = 1024;
/// A task that an agent was starting when it died holds its lock until it is written down.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct State {
    file: File,
    path: PathBuf,
    /// Which machine, since when, and which PID namespace in it: process ids of another one mean nothing.
    here: String,
}

/// A task, as it is written down before its first instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) task: String,
    here: String,
    /// Its own, if there was one to be had.
    pub(crate) cgroup: Option<PathBuf>,
    pid: i32,
    started: u64,
}

/// Where tasks are written down: a slot for each.
#[derive(Debug)]
pub(crate) struct Records {
    file: File,
    here: String,
}

impl State {
    /// The state of the agent of `service` below `folder`, and what was written last, if this machine still knows.
    pub(crate) fn open(folder: &Path, service: &str) -> Result<(State, Option<Intention>), Error> {
        let doing = || cannot(format!("make the folder {}", folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(doing())?;
        ours(&File::open(folder).map_err(doing())?, folder)?;
        let path = folder.join(service);
        let file = open(&path)?;
        let until = Instant::now() + PATIENCE;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > until {
                return Err(Error::Twice(service.into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let pids = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let here = format!("{} {}", boot.trim_end(), pids.display());
        let mut text = [0; SIZE];
        let kept = file.read_at(&mut text, 0).ok().and_then(|length| serde_json::from_slice(&text[..length]).ok());
        Ok((State { file, path, here }, kept))
    }

    /// Survives the death of this process, not that of the machine, with which the tasks go too: so nothing is synced.
    pub(crate) fn keep(&self, intention: &Intention) -> Result<(), Error> {
        let doing = || cannot(format!("write {}", self.path.display()));
        let text = serde_json::to_string(intention).map_err(|why| doing()(why.into()))?;
        self.file.write_all_at(format!("{text:SIZE$}").as_bytes(), 0).map_err(doing())
    }

    /// An orderly end: the next agent begins with nothing running.
    pub(crate) fn forget(&self) -> Result<(), Error> {
        self.file.set_len(0).map_err(cannot(format!("write {}", self.path.display())))
    }

    /// What is written of tasks.
    pub(crate) fn records(&self) -> Result<Records, Error> {
        Ok(Records { file: open(&self.path.with_extension("tasks"))?, here: self.here.clone() })
    }
}

impl Records {
    /// All of this machine and PID namespace, with their slots.
    pub(crate) fn read(&self) -> Vec<(usize, Record)> {
        let length = self.file.metadata().map_or(0, |found| found.len()) as usize;
        let slot = |nth: usize| {
            let mut text = [0; SLOT];
            let length = self.file.read_at(&mut text, (nth * SLOT) as u64).ok()?;
            let record: Record = serde_json::from_slice(&text[..length]).ok()?;
            (record.here == self.here).then_some((nth, record))
        };
        (0..length.div_ceil(SLOT)).filter_map(slot).collect()
    }

    pub(crate) fn clear(&self, slot: usize) -> io::Result<()> {
        self.file.write_all_at(&[b' '; SLOT], (slot * SLOT) as u64)
    }

    /// What a process that is about to be a task's holder writes: all but who it is.
    pub(crate) fn form(&self, slot: usize, task: &str, cgroup: Option<&Path>) -> io::Result<Form> {
        let word = |text: &str| serde_json::to_string(text).map_err(io::Error::other);
        let cgroup = cgroup.map_or(Ok("null".into()), |path| word(&path.display().to_string()))?;
        let begun = format!("{{\"task\":{},\"here\":{},\"cgroup\":{cgroup},\"pid\":", word(task)?, word(&self.here)?);
        if begun.len() > SLOT - 64 {
            return Err(io::Error::other(format!("its cgroup has too long a path: {cgroup}")));
        }
        let mut text = [b' '; SLOT];
        text[..begun.len()].copy_from_slice(begun.as_bytes());
        Ok(Form { text, begun: begun.len(), fd: self.file.as_raw_fd(), at: (slot * SLOT) as i64 })
    }
}

impl Record {
    /// The process that holds the task together.
    pub(crate) fn holder(&self) -> Process {
        Process { pid: self.pid, started: self.started }
    }
}

/// See [`Records::form`].
pub(crate) struct Form {
    text: [u8; SLOT],
    begun: usize,
    fd: RawFd,
    at: i64,
}

impl Form {
    /// Only what is allowed between fork and exec: no memory is asked for.
    pub(crate) fn fill_in(&mut self, holder: Process) -> io::Result<()> {
        use io::Write;
        write!(&mut self.text[self.begun..], "{},\"started\":{}}}", holder.pid, holder.started)?;
        // SAFETY: plain system call with memory of our own.
        match unsafe { libc::pwrite(self.fd, self.text.as_ptr().cast(), SLOT, self.at) } {
            written if written == SLOT as isize => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Opens or makes a file that is only this user's; never through a link.
fn open(path: &Path) -> Result<File, Error> {
    let doing = || cannot(format!("open {}", path.display()));
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path).map_err(doing())?;
    ours(&file, path)?;
    Ok(file)
}

fn ours(file: &File, path: &Path) -> Result<(), Error> {
    let found = file.metadata().map_err(cannot(format!("look at {}", path.display())))?;
    let single = found.is_dir() || found.is_file() && found.nlink() == 1;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0 && single {
        return Ok(());
    }
    Err(Error::State(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn a_state_that_others_could_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| match State::open(path, "s") {
            Err(Error::State(_) | Error::Io { .. }) => {}
            Err(why) => panic!("{why}"),
            Ok(_) => panic!("{} was believed", path.display()),
        };
        let own = |name: &str| {
            let path = folder.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            path
        };
        let open = own("open");
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        refused(&open);
        let linked = own("linked");
        std::fs::write(folder.path().join("elsewhere"), "{}").unwrap();
        symlink(folder.path().join("elsewhere"), linked.join("s")).unwrap();
        refused(&linked);
        let hard = own("hard");
        std::fs::hard_link(folder.path().join("elsewhere"), hard.join("s")).unwrap();
        refused(&hard);
        let writable = own("writable");
        std::fs::write(writable.join("s"), "").unwrap();
        std::fs::set_permissions(writable.join("s"), PermissionsExt::from_mode(0o666)).unwrap();
        refused(&writable);
        if rustix::process::geteuid().is_root() {
            let strange = own("strange");
            std::os::unix::fs::chown(&strange, Some(65534), None).unwrap();
            refused(&strange);
        }
        State::open(&own("own"), "s").unwrap();
    }

    #[test]
    fn records_are_read_back_and_those_of_another_boot_or_pid_namespace_are_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let (state, _) = State::open(folder.path(), "s").unwrap();
        let records = state.records().unwrap();
        let holder = Process { pid: 12, started: 345 };
        records.form(2, "a \"b\"", Some(Path::new("/c"))).unwrap().fill_in(holder).unwrap();
        records.form(0, "d", None).unwrap().fill_in(holder).unwrap();
        let read = records.read();
        assert_eq!(
            read.iter().map(|(slot, one)| (*slot, one.task.as_str())).collect::<Vec<_>>(),
            [(0, "d"), (2, "a \"b\"")]
        );
        assert_eq!((read[1].1.holder(), read[1].1.cgroup.as_deref()), (holder, Some(Path::new("/c"))));
        let other = Records { here: "another boot".into(), ..state.records().unwrap() };
        assert_eq!(other.read(), []);
        records.clear(0).unwrap();
        assert_eq!(records.read().len(), 1);
        // Whatever is written there, it is only a task if it is one.
        records.file.write_all_at(b"\xff garbage {", 0).unwrap();
        assert_eq!(records.read().len(), 1);
    }
}
