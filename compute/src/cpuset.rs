//! The cpusets of a host, cgroup v1 and v2: where they are, who is in which, and moving processes between them.

use crate::cores::parse_cores;
use crate::files::{Files, Real};
use crate::names::{is_service, OURS};
use crate::record::{intend, Recorder, Undo};
use crate::sched::{self, Thread};
use crate::Error;
use std::io;
use std::path::{Path, PathBuf};

/// The one of all cores that are not given away.
const REST: &str = "giusto.rest";

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
        Cpusets::find_in(&Real)
    }

    pub(crate) fn find_in(files: &dyn Files) -> Option<Cpusets> {
        let mounts = files.read(Path::new("/proc/mounts")).ok()?;
        let mut unified = None;
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[_, path, kind, options, ..] = fields.as_slice() else { continue };
            if kind == "cgroup" && options.split(',').any(|option| option == "cpuset") {
                return Some(Cpusets::V1(path.into()));
            }
            let controllers = || files.read(&Path::new(path).join("cgroup.controllers")).unwrap_or_default();
            if kind == "cgroup2" && controllers().split_whitespace().any(|c| c == "cpuset") {
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

    /// The cpuset of one core that [`Isolated::new`](crate::Isolated::new) makes.
    pub fn folder(&self, core: u32) -> PathBuf {
        self.root().join(format!("{OURS}core{core}"))
    }

    pub(crate) fn rest(&self) -> PathBuf {
        self.root().join(REST)
    }

    /// Moves a process with all its threads to a core's cpuset, or to the cpuset of all other cores (`None`). One that is
    /// there already, or has gone, is left alone.
    pub(crate) fn place(
        &self,
        files: &dyn Files,
        pid: u32,
        core: Option<u32>,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let Some(process) = Thread::of(pid) else { return Ok(()) };
        let Some(home) = self.of_thread(files, pid) else { return Ok(()) };
        let target = match (core, self) {
            // All that comes of a started service stays in a group of its own.
            (Some(core), Cpusets::V2(_)) if is_service(&home) => {
                let own = self.folder(core).join(home.file_name().unwrap_or_default());
                if !files.is_folder(&own) {
                    make(files, own.clone(), record)?;
                }
                own
            }
            (Some(core), _) => self.folder(core),
            (None, Cpusets::V1(_)) if files.is_folder(&self.rest()) => self.rest(),
            (None, _) => return Ok(()), // on v2 the root partition's cores are the rest
        };
        if home == target {
            return Ok(());
        }
        let taken = |&tid: &u32| sched::get(tid).is_ok_and(|attr| attr.policy == sched::DEADLINE);
        if let Some(tid) = sched::threads(pid).into_iter().find(taken) {
            return Err(Error::Taken(tid));
        }
        // From a core of ours: what was before the first move is on record already. From the rest: it was in the root, unless
        // the record of an earlier move says otherwise, which is then undone later.
        if !on_core(&home) {
            for tid in sched::threads(pid) {
                self.record_thread(files, tid, &home, &target, record)?;
            }
            let back_to = if is_rest(&home) { self.root() } else { &home }.join("cgroup.procs");
            intend(record, Undo::Place { process, back_to, from: target.clone() })?;
        }
        match files.write(&target.join("cgroup.procs"), &pid.to_string()) {
            Err(why) if process.alive() => Err(kernel(format!("move process {pid} to {}", target.display()), &why)),
            _ => Ok(()),
        }
    }

    /// Moves all others that sit in the root to the cores that are left (v1, where nothing balances the root from now on,
    /// so that who last ran on a core of ours would stay there). They return when the cpuset of the rest goes.
    pub(crate) fn make_room(&self, files: &dyn Files, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let rest = self.rest();
        if matches!(self, Cpusets::V2(_)) || !files.is_folder(&rest) {
            return Ok(());
        }
        // Twice, for those that were forked meanwhile.
        for pid in sched::processes().into_iter().chain(sched::processes()) {
            if self.of_thread(files, pid).as_deref() != Some(self.root()) {
                continue;
            }
            for tid in sched::threads(pid) {
                self.record_thread(files, tid, self.root(), &rest, record)?;
            }
            // One with a reservation of its own, or bound to the kernel's cores, stays.
            let _ = files.write(&rest.join("cgroup.procs"), &pid.to_string());
        }
        Ok(())
    }

    fn record_thread(
        &self,
        files: &dyn Files,
        tid: u32,
        home: &Path,
        target: &Path,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let Some(thread) = Thread::of(tid) else { return Ok(()) };
        self.record_mask(files, tid, home, record)?;
        // v1 lets single threads sit elsewhere than their process. Recorded before the process, so moved back after it.
        let apart = self.of_thread(files, tid).filter(|at| at != home && matches!(self, Cpusets::V1(_)));
        apart.map_or(Ok(()), |at| {
            intend(record, Undo::Place { process: thread, back_to: at.join("tasks"), from: target.into() })
        })
    }

    /// Kernels before 6.2 forget a thread's own mask when its cpuset changes. One that has none gets its home's cores back
    /// with its home.
    pub(crate) fn record_mask(
        &self,
        files: &dyn Files,
        tid: u32,
        home: &Path,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let (Some(thread), Ok(cores)) = (Thread::of(tid), sched::allowed(tid)) else { return Ok(()) };
        if self.effective(files, home).is_some_and(|all| all == cores) {
            return Ok(());
        }
        intend(record, Undo::Affinity { thread, cores })
    }

    /// Cores of a cgroup: its own cpuset's, or that of the nearest one above it that has one (v2).
    pub(crate) fn effective(&self, files: &dyn Files, folder: &Path) -> Option<Vec<u32>> {
        let name = match self {
            Cpusets::V1(_) => "cpuset.effective_cpus",
            Cpusets::V2(_) => "cpuset.cpus.effective",
        };
        let text = folder.ancestors().find_map(|at| files.read(&at.join(name)).ok())?;
        Some(parse_cores(&text))
    }

    /// The cgroup folder of a thread in the cpuset hierarchy.
    pub(crate) fn of_thread(&self, files: &dyn Files, tid: u32) -> Option<PathBuf> {
        let text = files.read(Path::new(&format!("/proc/{tid}/cgroup"))).ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let ours = match self {
                Cpusets::V1(_) => controllers.split(',').any(|c| c == "cpuset"),
                Cpusets::V2(_) => number == "0",
            };
            ours.then_some(path)
        })?;
        let path = path.trim_start_matches('/');
        // A path with a trailing separator would not equal the same one without.
        Some(if path.is_empty() { self.root().into() } else { self.root().join(path) })
    }
}

/// The share of a core that real-time threads may use; see [`rebuild_domains`] for what reading it does.
pub(crate) const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Makes the kernel build its scheduling domains anew, and with them its sums of deadline bandwidth. Only while no thread of
/// ours has a reservation, and none that died is still booked.
///
/// Reading `sched_rt_runtime_us` is enough since 6.15 (its handler rebuilds on every access); before, and on v1 only, the
/// root's flag is toggled: twice, as the first turn may carry a wrong sum over.
pub(crate) fn rebuild_domains(files: &dyn Files, root: &Path) -> io::Result<()> {
    files.read(Path::new(RT_RUNTIME))?;
    let flag = root.join("cpuset.sched_load_balance");
    let Ok(old) = files.read(&flag) else { return Ok(()) };
    let (old, other) = if old.trim() == "0" { ("0", "1") } else { ("1", "0") };
    [other, old, other, old].into_iter().try_for_each(|value| files.write(&flag, value))
}

pub(crate) fn is_rest(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == REST)
}

/// Whether a folder is the cpuset of a core of ours, or in it.
pub(crate) fn on_core(folder: &Path) -> bool {
    let number = |name: &str| Some(name.strip_prefix(OURS)?.strip_prefix("core")?.parse::<u32>().is_ok());
    folder.ancestors().any(|at| at.file_name().and_then(|name| number(name.to_str()?)) == Some(true))
}

pub(crate) fn make(files: &dyn Files, path: PathBuf, record: &mut dyn Recorder<Undo>) -> Result<PathBuf, Error> {
    intend(record, Undo::Folder(path.clone()))?;
    files.make(&path).map_err(|why| kernel(format!("make {}", path.display()), &why))?;
    Ok(path)
}

pub(crate) fn set(files: &dyn Files, path: &Path, value: &str) -> Result<(), Error> {
    let value = value.trim();
    files.write(path, value).map_err(|why| kernel(format!("write {value} to {}", path.display()), &why))
}

pub(crate) fn read(files: &dyn Files, path: &Path) -> Result<String, Error> {
    files.read(path).map_err(|why| kernel(format!("read {}", path.display()), &why))
}

pub(crate) fn kernel(doing: String, why: &io::Error) -> Error {
    let hint = match why.raw_os_error() {
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => "; Giusto needs root, outside of a container",
        Some(libc::EINVAL) => "; another cpuset holds this core: free it, or give Giusto other cores",
        _ => "",
    };
    Error::Kernel { doing, why: format!("{why}{hint}") }
}
