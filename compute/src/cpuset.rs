//! A core of its own root domain, where SCHED_DEADLINE may be pinned: exclusive cpusets, cgroup v1 and v2.

use crate::sched::{self, Thread};
use crate::{Error, Recorder, Undo};
use std::fs;
use std::path::{Path, PathBuf};

/// Which cgroup version has the cpuset controller, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpusets {
    /// cgroup v1: the hierarchy's mount point.
    V1(PathBuf),
    /// cgroup v2: the mount point.
    V2(PathBuf),
}

impl Cpusets {
    /// Finds them in the mount table; `None` if there are none.
    pub fn find() -> Option<Cpusets> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let mut unified = None;
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[_, path, kind, options, ..] = fields.as_slice() else { continue };
            if kind == "cgroup" && options.split(',').any(|option| option == "cpuset") {
                return Some(Cpusets::V1(path.into()));
            }
            let has = |file: &str| fs::read_to_string(Path::new(path).join(file)).unwrap_or_default();
            if kind == "cgroup2" && has("cgroup.controllers").split_whitespace().any(|c| c == "cpuset") {
                unified = Some(Cpusets::V2(path.into()));
            }
        }
        unified
    }

    /// The mount point.
    pub fn root(&self) -> &Path {
        match self {
            Cpusets::V1(root) | Cpusets::V2(root) => root,
        }
    }

    /// The cpuset of one core that [`Cpusets::isolate`] makes.
    pub fn folder(&self, core: u32) -> PathBuf {
        self.root().join(format!("giusto.core{core}"))
    }

    /// Gives each of `cores` a root domain of its own, and all other cores of the machine one together.
    ///
    /// v1 needs the root's `sched_load_balance` off, an exclusive cpuset a core, and a balanced one that holds the rest; v2
    /// a partition a core. Errors: another cpuset holds one of the cores, or the kernel refuses.
    pub fn isolate(&self, cores: &[u32], record: &mut dyn Recorder) -> Result<(), Error> {
        match self {
            Cpusets::V1(root) => {
                let memory = read(&root.join("cpuset.mems"))?;
                write(&root.join("cpuset.sched_load_balance"), "0", record)?;
                let all = parse_cores(&read(&root.join("cpuset.cpus"))?);
                let rest: Vec<u32> = all.into_iter().filter(|core| !cores.contains(core)).collect();
                if !rest.is_empty() {
                    let folder = make(root.join("giusto.rest"), record)?;
                    set(&folder.join("cpuset.mems"), &memory)?;
                    set(&folder.join("cpuset.cpus"), &join(&rest))?;
                }
                for &core in cores {
                    let folder = make(self.folder(core), record)?;
                    set(&folder.join("cpuset.mems"), &memory)?;
                    set(&folder.join("cpuset.cpus"), &core.to_string())?;
                    set(&folder.join("cpuset.cpu_exclusive"), "1")?;
                }
            }
            Cpusets::V2(root) => {
                let control = root.join("cgroup.subtree_control");
                if !read(&control)?.split_whitespace().any(|c| c == "cpuset") {
                    intend(record, Undo::File { path: control.clone(), value: "-cpuset".into() })?;
                    set(&control, "+cpuset")?;
                }
                for &core in cores {
                    let folder = make(self.folder(core), record)?;
                    set(&folder.join("cpuset.cpus"), &core.to_string())?;
                    let partition = folder.join("cpuset.cpus.partition");
                    set(&partition, "root")?;
                    let got = read(&partition)?;
                    if got.trim() != "root" {
                        return Err(Error::Kernel {
                            doing: format!("make core {core} a partition"),
                            why: got.trim().into(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Moves a process with all its threads to a core's cpuset, or to the cpuset of all other cores (`None`). One that is
    /// there already, or has gone, is left alone.
    pub fn place(&self, pid: u32, core: Option<u32>, record: &mut dyn Recorder) -> Result<(), Error> {
        let Some(process) = Thread::of(pid) else { return Ok(()) };
        let target = match (core, self) {
            (Some(core), _) => self.folder(core),
            (None, Cpusets::V1(root)) => root.join("giusto.rest"),
            (None, Cpusets::V2(_)) => return Ok(()), // the root partition's cores are the rest
        };
        let Some(home) = self.of_process(pid) else { return Ok(()) };
        if home == target {
            return Ok(());
        }
        for tid in sched::threads(pid) {
            // Older kernels forget a thread's own mask when its cpuset changes.
            if let (Some(thread), Ok(cores)) = (Thread::of(tid), sched::affinity(tid)) {
                intend(record, Undo::Affinity { thread, cores })?;
            }
        }
        intend(record, Undo::Place { process, back_to: home.join("cgroup.procs") })?;
        match fs::write(target.join("cgroup.procs"), pid.to_string()) {
            Err(why) if process.alive() => Err(Error::Kernel {
                doing: format!("move process {pid} to {}", target.display()),
                why: why.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The cgroup folder of a process in the cpuset hierarchy.
    fn of_process(&self, pid: u32) -> Option<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let ours = match self {
                Cpusets::V1(_) => controllers.split(',').any(|c| c == "cpuset"),
                Cpusets::V2(_) => number == "0",
            };
            ours.then_some(path)
        })?;
        Some(self.root().join(path.trim_start_matches('/')))
    }

    /// Lets the kernel count its deadline bandwidth anew by building its scheduling domains anew. Only while no thread of
    /// ours has a reservation.
    pub(crate) fn rebuild_domains(&self) -> std::io::Result<()> {
        match self {
            Cpusets::V1(root) => {
                let flag = root.join("cpuset.sched_load_balance");
                let old = fs::read_to_string(&flag)?;
                for value in ["0", "1", old.trim()] {
                    fs::write(&flag, value)?;
                }
                Ok(())
            }
            // Making and removing a partition has done it already: there is no flag to toggle.
            Cpusets::V2(_) => Ok(()),
        }
    }
}

fn intend(record: &mut dyn Recorder, undo: Undo) -> Result<(), Error> {
    record.intend(&undo).map_err(Error::Journal)
}

fn make(path: PathBuf, record: &mut dyn Recorder) -> Result<PathBuf, Error> {
    if path.exists() {
        return Err(Error::Leftover(path));
    }
    intend(record, Undo::Folder(path.clone()))?;
    fs::create_dir(&path)
        .map_err(|why| Error::Kernel { doing: format!("make {}", path.display()), why: why.to_string() })?;
    Ok(path)
}

/// Writes a file that outlives us, its old value recorded.
fn write(path: &Path, value: &str, record: &mut dyn Recorder) -> Result<(), Error> {
    let old = read(path)?;
    if old.trim() == value {
        return Ok(());
    }
    intend(record, Undo::File { path: path.into(), value: old.trim().into() })?;
    set(path, value)
}

fn set(path: &Path, value: &str) -> Result<(), Error> {
    fs::write(path, value.trim()).map_err(|why| {
        let busy = why.raw_os_error() == Some(libc::EINVAL) && path.ends_with("cpuset.cpu_exclusive");
        let hint = if busy { " (another cpuset holds this core; free it, or give Giusto other cores)" } else { "" };
        Error::Kernel { doing: format!("write {} to {}", value.trim(), path.display()), why: format!("{why}{hint}") }
    })
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path)
        .map_err(|why| Error::Kernel { doing: format!("read {}", path.display()), why: why.to_string() })
}

fn join(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// `0-2,5` as the kernel writes it.
pub(crate) fn parse_cores(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::parse_cores;

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cores("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_cores("1"), [1]);
        assert!(parse_cores("").is_empty());
    }
}
