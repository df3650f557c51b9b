//! Containment: a cgroup for each program that Giusto starts, entered before its first instruction and emptied at its
//! end.
//!
//! Called by `daemon` for services, by `agent` for tasks, and by `compute` to undo. A [`Tree`] says where such groups
//! lie on this machine, a [`Cgroup`] is one of them. Whatever a member forks is a member: a double fork, setsid,
//! another process group, another user or another name do not change that. Only a process that may write to the cgroup
//! tree, such as one of root, can leave; its owner looks for that, and brings it back ([`Cgroup::enter`]).
//!
//! Three kinds of machines:
//! - v2, and v1 with a v2 tree beside it (hybrid): groups lie in the v2 tree, which needs no controller for that.
//!   `cgroup.kill` ends all members at once, also those that fork all the time.
//! - v1 alone: groups lie in the freezer hierarchy. Frozen members cannot fork, so that a pass that sends SIGKILL to
//!   all is
//!   complete.
//! - neither: there is no containment ([`Tree::find`] is `None`), and owners have process groups only.
//!
//! Nothing is remembered here: the caller writes down the folder of a group *before* it is made ([`Cgroup::folder`] is
//! known by then), and finds it again by that folder ([`Cgroup::at`]).

mod dying;
mod end;

pub use dying::hasten_dying;
pub use end::Asked;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a group may take to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// The hierarchy in which groups lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
    is_v2: bool,
}

impl Tree {
    /// The hierarchy of this machine, by its mount table: v2 where it is mounted anywhere, else the freezer of v1.
    pub fn find() -> Option<Tree> {
        Tree::of(&std::fs::read_to_string("/proc/mounts").ok()?)
    }

    fn of(mounts: &str) -> Option<Tree> {
        let rows: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
        let first = |wanted: &dyn Fn(&str, &str) -> bool| {
            let row = rows.iter().find(|row| row.len() > 3 && wanted(row[2], row[3]))?;
            Some(PathBuf::from(row[1]))
        };
        let v2 = first(&|kind, _| kind == "cgroup2").map(|root| Tree { root, is_v2: true });
        let freezer = |kind: &str, options: &str| kind == "cgroup" && options.split(',').any(|o| o == "freezer");
        v2.or_else(|| first(&freezer).map(|root| Tree { root, is_v2: false }))
    }

    /// Its mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is of version 2.
    pub fn is_v2(&self) -> bool {
        self.is_v2
    }

    /// The group at `below` this root, such as `giusto.cache.service`. It need not be there yet.
    pub fn group(&self, below: impl AsRef<Path>) -> Cgroup {
        Cgroup { folder: self.root.join(below) }
    }

    /// The group in which a process is; `None` if it has gone.
    pub fn of_process(&self, pid: u32) -> Option<Cgroup> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let here = if self.is_v2 { number == "0" } else { controllers.split(',').any(|one| one == "freezer") };
            here.then_some(path.trim_start_matches('/'))
        })?;
        // A path with a trailing separator would not equal the same one without.
        Some(if path.is_empty() { Cgroup { folder: self.root.clone() } } else { self.group(path) })
    }
}

/// A group that contains a program and all that comes of it. It is a name only: dropping it does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// The group of this folder, as it was written down.
    pub fn at(folder: impl Into<PathBuf>) -> Cgroup {
        Cgroup { folder: folder.into() }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is there.
    pub fn exists(&self) -> bool {
        self.folder.join("cgroup.procs").exists()
    }

    /// Makes it. Errors: it is there already (`AlreadyExists`), as an earlier owner has left it; the kernel refuses.
    pub fn make(&self) -> io::Result<()> {
        std::fs::create_dir(&self.folder)
    }

    /// Moves a process in with all its threads. To contain a program from its first instruction, do so while the child
    /// waits between fork and exec. Errors: it has gone; the kernel refuses.
    pub fn enter(&self, pid: u32) -> io::Result<()> {
        write(&self.folder.join("cgroup.procs"), &pid.to_string())
    }

    /// All processes in it and in the groups below it, zombies excepted: those that a member made, or a mechanism.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        self.each(&mut |group| found.extend(list(&group.join("cgroup.procs"))));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether a process is in it.
    pub fn is_empty(&self) -> bool {
        self.processes().is_empty()
    }

    /// Processor time of all that are and ever were in it, in ns: the kernel's own account. `None` on v1.
    pub fn usage_ns(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let us: u64 = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
        us.checked_mul(1_000)
    }

    /// Stops all members, or lets them go on; returns once they are stopped. Microseconds. Members cannot prevent it,
    /// other than a SIGSTOP that another process answers by SIGCONT. Errors: the kernel refuses; they do not stop
    /// within two seconds.
    pub fn freeze(&self, stop: bool) -> io::Result<()> {
        self.ask_to_freeze(stop)?;
        let v1 = self.folder.join("freezer.state");
        let (told, done) = if v1.exists() { (v1, "FROZEN") } else { (self.folder.join("cgroup.events"), "frozen 1") };
        let until = Instant::now() + PATIENCE;
        while stop && !std::fs::read_to_string(&told)?.contains(done) {
            if Instant::now() > until {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{} does not freeze", self.folder.display()),
                ));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// The same, without waiting until they are stopped: one that is stopped otherwise stops here when it would go on.
    pub fn ask_to_freeze(&self, stop: bool) -> io::Result<()> {
        let (v1, v2) = (self.folder.join("freezer.state"), self.folder.join("cgroup.freeze"));
        match v1.exists() {
            true => write(&v1, if stop { "FROZEN" } else { "THAWED" }),
            false => write(&v2, if stop { "1" } else { "0" }),
        }
    }

    /// Whether it was told to stop.
    pub fn is_frozen(&self) -> bool {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        // v1's freezer.state also tells that a group above it was.
        read("cgroup.freeze").trim() == "1" || read("freezer.self_freezing").trim() == "1"
    }

    /// Its folder and all below it, the deepest first.
    fn each(&self, see: &mut dyn FnMut(&Path)) {
        each(&self.folder, see);
    }
}

fn each(folder: &Path, see: &mut dyn FnMut(&Path)) {
    let below = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        each(&entry.path(), see);
    }
    see(folder);
}

fn list(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Writes a control file in one call; it must be there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut std::fs::OpenOptions::new().write(true).open(path)?, text.as_bytes())
}

#[cfg(test)]
mod tests;
