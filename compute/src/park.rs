//! Cores that are taken offline while nothing runs on them, so that they save power, and their package where it has no other.
//!
//! The kernel forgets with a core who asked for it alone: threads bound to it may run anywhere from then on, interrupts
//! go elsewhere,
//! and under cgroup v1 every cpuset but the root loses it. All of that is on record before, to be given back once the core
//! is online again.

use crate::cores::parse_cores;
use crate::cpuset::Cpusets;
use crate::files::{Files, Real};
use crate::sched::{self, Thread};
use crate::undo::undo_in;
use crate::{Error, Keeps, Lack, Recorder, Undo};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the kernel keeps its cores.
const CORES: &str = "/sys/devices/system/cpu";

/// A core that is offline.
#[derive(Debug)]
pub struct Parked {
    core: u32,
    /// What brings it back; empty: it was offline before.
    undo: Vec<Undo>,
}

impl Parked {
    /// Takes `core` offline. Stops all cores for some milliseconds.
    ///
    /// Errors: the machine cannot, or threads under SCHED_DEADLINE need the core; members of a cpuset have no other
    /// core (cgroup v1).
    pub fn new(core: u32, record: &mut dyn Recorder<Undo>) -> Result<Parked, Error> {
        let path = switch(core);
        let lacks = |why: &io::Error| lack(&path, why);
        if Real.read(&path).map_err(|why| lacks(&why))?.trim() == "0" {
            return Ok(Parked { core, undo: Vec::new() });
        }
        let mut undo: Vec<Undo> = bound(core).map(|(thread, cores)| Undo::Affinity { thread, cores }).collect();
        undo.extend(interrupts(core));
        if let Some(Cpusets::V1(root)) = Cpusets::find() {
            undo.extend(cpusets(&Real, &root, core)?);
        }
        // Last, as the latest is undone first: no thread can be given a core that is not there.
        undo.push(Undo::File { path: path.clone(), value: "1".into() });
        undo.iter().try_for_each(|undo| record.intend(undo)).map_err(Error::Journal)?;
        Real.write(&path, "0").map_err(|why| lacks(&why))?;
        Ok(Parked { core, undo })
    }

    /// Brings it online again, with all that belongs to it. Errors: what was not possible; may be tried again.
    pub fn bring_back(&self) -> Result<(), Error> {
        let failed = undo_in(&Real, &self.undo).failed;
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::Kernel { doing: format!("bring core {} online", self.core), why: failed.join("; ") })
    }
}

impl Undo {
    /// The core that was taken offline, if this brings one back.
    pub fn parks(&self) -> Option<u32> {
        let Undo::File { path, .. } = self else { return None };
        let core = path.strip_prefix(CORES).ok()?.to_str()?.strip_prefix("cpu")?.strip_suffix("/online")?;
        core.parse().ok()
    }
}

/// `0` in it takes the core offline.
fn switch(core: u32) -> PathBuf {
    Path::new(CORES).join(format!("cpu{core}/online"))
}

fn lack(path: &Path, why: &io::Error) -> Error {
    let how = match why.raw_os_error() {
        Some(libc::ENOENT) => "use a kernel with CONFIG_HOTPLUG_CPU whose firmware lets this core go",
        Some(libc::EBUSY) => "threads under SCHED_DEADLINE, or the firmware, need this core",
        _ => "run as root, outside of a container",
    };
    let how = format!("{how}; or write 'unused: leave' for this host, or take the core out of its 'cores'");
    Error::Lacks(Lack { what: format!("a core that can be parked (write 0 to {}: {why})", path.display()), how })
}

/// Threads that the kernel lets go anywhere when `core` goes, or that have a mask of their own, which kernels before
/// 6.2 forget when a
/// cpuset changes. Undoing leaves those alone whose mask is still their own.
fn bound(core: u32) -> impl Iterator<Item = (Thread, Vec<u32>)> {
    let all = sched::restricted().into_iter();
    all.filter_map(|(thread, _)| Some((thread, sched::allowed(thread.tid).ok()?)))
        .filter(move |(_, cores)| cores.contains(&core))
}

/// Interrupts that go to no other core.
fn interrupts(core: u32) -> Vec<Undo> {
    let Ok(entries) = fs::read_dir("/proc/irq") else { return Vec::new() };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path().join("smp_affinity_list")));
    let alone = |path: PathBuf| {
        let value = fs::read_to_string(&path).ok()?.trim().to_string();
        (parse_cores(&value) == [core]).then_some(Undo::File { path, value })
    };
    files.filter_map(alone).collect()
}

/// What the cpusets below `root` hold that have `core`: inner ones first, so that they are given it back after the outer ones.
fn cpusets(files: &dyn Files, root: &Path, core: u32) -> Result<Vec<Undo>, Error> {
    let mut found = Vec::new();
    for folder in files.below(root).unwrap_or_default() {
        found.extend(cpusets(files, &folder, core)?);
        let path = folder.join("cpuset.cpus");
        let Ok(value) = files.read(&path) else { continue };
        let cores = parse_cores(&value);
        if !cores.contains(&core) {
            continue;
        }
        // The kernel would move them out for good.
        let tasks = files.read(&folder.join("tasks")).unwrap_or_default().lines().count();
        if cores == [core] && tasks > 0 {
            return Err(Error::CoreTaken { core, cpuset: folder, tasks, why: Keeps::OnlyCores });
        }
        found.push(Undo::File { path, value: value.trim().into() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_switch_of_a_core_parks_it() {
        let file = |path: &str| Undo::File { path: path.into(), value: "1".into() };
        assert_eq!(Undo::File { path: switch(17), value: "1".into() }.parks(), Some(17));
        for other in
            ["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/cpu1/cpufreq/online", "/tmp/cpu1/online"]
        {
            assert_eq!(file(other).parks(), None, "{other}");
        }
        assert_eq!(Undo::Folder(switch(1)).parks(), None);
    }

    #[test]
    fn a_core_that_cannot_go_offline_is_told_with_what_to_do_and_nothing_is_on_record() {
        let mut record: Vec<Undo> = Vec::new();
        let told = Parked::new(8191, &mut record).unwrap_err();
        assert!(matches!(told, Error::Lacks(_)) && told.to_string().contains("'unused: leave'"), "{told}");
        assert_eq!(record, []);
    }

    #[test]
    fn outer_cpusets_are_given_a_core_back_before_inner_ones() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(folder.path().join("other")).unwrap();
        for (at, cores) in [("outer", "0-2\n"), ("outer/inner", "2\n"), ("other", "0-1\n")] {
            fs::write(folder.path().join(at).join("cpuset.cpus"), cores).unwrap();
            fs::write(folder.path().join(at).join("tasks"), "").unwrap();
        }
        let found = cpusets(&Real, folder.path(), 2).unwrap();
        let file = |at: &Path, value: &str| Undo::File { path: at.join("cpuset.cpus"), value: value.into() };
        assert_eq!(found, [file(&inner, "2"), file(&folder.path().join("outer"), "0-2")], "undone from the last on");
        fs::write(inner.join("tasks"), "7\n").unwrap();
        let told = cpusets(&Real, folder.path(), 2).unwrap_err();
        assert!(matches!(&told, Error::CoreTaken { core: 2, cpuset, tasks: 1, .. } if *cpuset == inner), "{told}");
    }
}
