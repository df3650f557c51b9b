//! A core of its own root domain, where SCHED_DEADLINE may be pinned: exclusive cpusets, cgroup v1 and v2.

use crate::files::{Files, Real};
use crate::sched::{self, Thread};
use crate::{Error, Recorder, Undo};
use std::io;
use std::path::{Path, PathBuf};

/// How the folders that Giusto makes begin.
const OURS: &str = "giusto.";

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

    /// Why one of `cores` cannot be given a root domain of its own now: cpusets of others, or of an earlier
    /// Giusto. Reads only.
    pub fn in_the_way(&self, cores: &[u32]) -> Option<Error> {
        self.others(&Real, cores).err()
    }

    fn rest(&self) -> PathBuf {
        self.root().join(REST)
    }

    /// Gives each of `cores` a root domain of its own, and all other cores of the machine one together.
    ///
    /// v1 needs an exclusive cpuset a core, a balanced one that holds the rest, and the root's `sched_load_balance` off; v2
    /// a partition a core. Errors, before anything is changed: an earlier Giusto's cpusets are there, another cpuset holds
    /// one of the cores; later: the kernel refuses.
    pub(crate) fn isolate(&self, files: &dyn Files, cores: &[u32], record: &mut dyn Recorder) -> Result<(), Error> {
        let others = self.others(files, cores)?;
        match self {
            Cpusets::V1(root) => self.isolate_v1(files, root, cores, &others, record),
            Cpusets::V2(root) => self.isolate_v2(files, root, cores, record),
        }
    }

    fn isolate_v1(
        &self,
        files: &dyn Files,
        root: &Path,
        cores: &[u32],
        taken: &[u32],
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        let memory = read(files, &root.join("cpuset.mems"))?;
        let all = parse_cores(&read(files, &root.join("cpuset.cpus"))?);
        let rest: Vec<u32> = all.into_iter().filter(|core| !cores.contains(core) && !taken.contains(core)).collect();
        let flag = root.join("cpuset.sched_load_balance");
        let old = read(files, &flag)?;
        // Recorded first, so that it is undone last; done last, so that the rest is never without a balanced domain.
        intend(record, Undo::File { path: flag.clone(), value: old.trim().into() })?;
        if !rest.is_empty() {
            let folder = make(files, self.rest(), record)?;
            set(files, &folder.join("cpuset.mems"), &memory)?;
            set(files, &folder.join("cpuset.cpus"), &join(&rest))?;
        }
        for &core in cores {
            let folder = make(files, self.folder(core), record)?;
            set(files, &folder.join("cpuset.mems"), &memory)?;
            set(files, &folder.join("cpuset.cpus"), &core.to_string())?;
            set(files, &folder.join("cpuset.cpu_exclusive"), "1")?;
        }
        if old.trim() == "0" {
            return Ok(());
        }
        set(files, &flag, "0")
    }

    fn isolate_v2(
        &self,
        files: &dyn Files,
        root: &Path,
        cores: &[u32],
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        let control = root.join("cgroup.subtree_control");
        if !read(files, &control)?.split_whitespace().any(|c| c == "cpuset") {
            intend(record, Undo::File { path: control.clone(), value: "-cpuset".into() })?;
            set(files, &control, "+cpuset")?;
        }
        // Kernels before 6.2 forget everybody's own mask when a partition takes cores away.
        for (thread, cores) in sched::restricted() {
            intend(record, Undo::Affinity { thread, cores })?;
        }
        for &core in cores {
            let folder = make(files, self.folder(core), record)?;
            set(files, &folder.join("cpuset.cpus"), &core.to_string())?;
            let partition = folder.join("cpuset.cpus.partition");
            set(files, &partition, "root")?;
            let got = read(files, &partition)?;
            if got.trim() != "root" {
                // Such as "root invalid (Cpu list in cpuset.cpus not exclusive)".
                return Err(Error::Kernel { doing: format!("make core {core} a partition"), why: got.trim().into() });
            }
        }
        Ok(())
    }

    /// Looks for cpusets that are in the way. Returns cores that other cpusets hold exclusively.
    fn others(&self, files: &dyn Files, cores: &[u32]) -> Result<Vec<u32>, Error> {
        let folders =
            files.below(self.root()).map_err(|why| kernel(format!("list {}", self.root().display()), &why))?;
        let mut exclusive = Vec::new();
        for folder in folders {
            if ours(&folder) {
                return Err(Error::Leftover(folder));
            }
            let held = parse_cores(&files.read(&folder.join("cpuset.cpus")).unwrap_or_default());
            if let Some(&core) = cores.iter().find(|core| held.contains(core)) {
                // On v2 the kernel judges, as it shrinks what siblings use; on v1 they would share a root domain.
                if matches!(self, Cpusets::V1(_)) {
                    return Err(Error::CoreTaken { core, cpuset: folder });
                }
            }
            if files.read(&folder.join("cpuset.cpu_exclusive")).is_ok_and(|flag| flag.trim() == "1") {
                exclusive.extend(held);
            }
        }
        Ok(exclusive)
    }

    /// Moves a process with all its threads to a core's cpuset, or to the cpuset of all other cores (`None`). One that is
    /// there already, or has gone, is left alone.
    pub(crate) fn place(
        &self,
        files: &dyn Files,
        pid: u32,
        core: Option<u32>,
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        let Some(process) = Thread::of(pid) else { return Ok(()) };
        let target = match (core, self) {
            (Some(core), _) => self.folder(core),
            (None, Cpusets::V1(_)) if files.is_folder(&self.rest()) => self.rest(),
            (None, _) => return Ok(()), // on v2 the root partition's cores are the rest
        };
        let Some(home) = self.of_thread(files, pid) else { return Ok(()) };
        if home == target {
            return Ok(());
        }
        let taken = |&tid: &u32| sched::get(tid).is_ok_and(|attr| attr.policy == sched::DEADLINE);
        if let Some(tid) = sched::threads(pid).into_iter().find(taken) {
            return Err(Error::Taken(tid));
        }
        // From a core of ours: what was before the first move is on record already. From the rest: it was in the root, unless
        // the record of an earlier move says otherwise, which is then undone later.
        if !ours(&home) || is_rest(&home) {
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

    /// Moves everybody else who sits in the root to the cores that are left (v1, where nothing balances the root from now on,
    /// so that who last ran on a core of ours would stay there). They return when the cpuset of the rest goes.
    pub(crate) fn make_room(&self, files: &dyn Files, record: &mut dyn Recorder) -> Result<(), Error> {
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
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        let (Some(thread), Ok(cores)) = (Thread::of(tid), sched::allowed(tid)) else { return Ok(()) };
        // Kernels before 6.2 forget a thread's own mask when its cpuset changes. One that has none gets its home's cores back
        // by moving back.
        if self.effective(files, home).is_none_or(|all| all != cores) {
            intend(record, Undo::Affinity { thread, cores })?;
        }
        // v1 lets single threads sit elsewhere than their process. Recorded before the process, so moved back after it.
        let apart = self.of_thread(files, tid).filter(|at| at != home && matches!(self, Cpusets::V1(_)));
        apart.map_or(Ok(()), |at| {
            intend(record, Undo::Place { process: thread, back_to: at.join("tasks"), from: target.into() })
        })
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

/// Makes the kernel build its scheduling domains anew, and with them its sums of deadline bandwidth. Only while no thread of
/// ours has a reservation, and none that died is still booked.
///
/// Reading `sched_rt_runtime_us` is enough since 6.15 (its handler rebuilds on every access); before, and on v1 only, the
/// root's flag is toggled: twice, as the first turn may carry a wrong sum over.
pub(crate) fn rebuild_domains(files: &dyn Files, root: &Path) -> io::Result<()> {
    files.read(Path::new(crate::probe::RT_RUNTIME))?;
    let flag = root.join("cpuset.sched_load_balance");
    let Ok(old) = files.read(&flag) else { return Ok(()) };
    let (old, other) = if old.trim() == "0" { ("0", "1") } else { ("1", "0") };
    [other, old, other, old].into_iter().try_for_each(|value| files.write(&flag, value))
}

pub(crate) fn is_rest(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == REST)
}

fn ours(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OURS))
}

fn intend(record: &mut dyn Recorder, undo: Undo) -> Result<(), Error> {
    record.intend(&undo).map_err(Error::Journal)
}

fn make(files: &dyn Files, path: PathBuf, record: &mut dyn Recorder) -> Result<PathBuf, Error> {
    intend(record, Undo::Folder(path.clone()))?;
    files.make(&path).map_err(|why| kernel(format!("make {}", path.display()), &why))?;
    Ok(path)
}

fn set(files: &dyn Files, path: &Path, value: &str) -> Result<(), Error> {
    let value = value.trim();
    files.write(path, value).map_err(|why| kernel(format!("write {value} to {}", path.display()), &why))
}

fn read(files: &dyn Files, path: &Path) -> Result<String, Error> {
    files.read(path).map_err(|why| kernel(format!("read {}", path.display()), &why))
}

fn kernel(doing: String, why: &io::Error) -> Error {
    let hint = match why.raw_os_error() {
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => "; Giusto needs root, outside of a container",
        Some(libc::EINVAL) => "; another cpuset holds this core: free it, or give Giusto other cores",
        _ => "",
    };
    Error::Kernel { doing, why: format!("{why}{hint}") }
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
