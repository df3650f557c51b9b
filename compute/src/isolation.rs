//! A core of its own root domain, where SCHED_DEADLINE may be pinned: exclusive cpusets, cgroup v1 and v2.

use crate::cores::{join, parse_cores};
use crate::cpuset::{kernel, make, read, set, Cpusets};
use crate::files::Files;
use crate::names::ours;
use crate::neighbours::Neighbour;
use crate::record::{intend, Recorder, Undo};
use crate::sched;
use crate::Error;
use std::path::Path;

impl Cpusets {
    /// Gives each of `cores` a root domain of its own, and all other cores of the machine one together.
    ///
    /// v1 needs an exclusive cpuset a core, a balanced one that holds the rest, and the root's `sched_load_balance` off; v2
    /// a partition a core; both that no cpuset beside them has the core (`neighbours.rs`). Errors, before anything is
    /// changed: an earlier Giusto's cpusets are there, another cpuset keeps one of the cores; later: the kernel refuses.
    pub(crate) fn isolate(
        &self,
        files: &dyn Files,
        cores: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let outer = files.below(self.root()).map_err(|why| kernel(format!("list {}", self.root().display()), &why))?;
        if let Some(leftover) = outer.into_iter().find(|folder| ours(folder)) {
            return Err(Error::Leftover(leftover));
        }
        let neighbours = self.neighbours(files)?;
        if let Some(keeps) = neighbours.iter().find_map(|one| one.keeps(cores)) {
            return Err(keeps);
        }
        match self {
            Cpusets::V1(root) => self.isolate_v1(files, root, cores, &neighbours, record),
            Cpusets::V2(root) => self.isolate_v2(files, root, cores, &neighbours, record),
        }
    }

    fn isolate_v1(
        &self,
        files: &dyn Files,
        root: &Path,
        cores: &[u32],
        neighbours: &[Neighbour],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let memory = read(files, &root.join("cpuset.mems"))?;
        let all = parse_cores(&read(files, &root.join("cpuset.cpus"))?);
        let taken: Vec<u32> = neighbours.iter().flat_map(|one| one.exclusively()).copied().collect();
        let rest: Vec<u32> = all.into_iter().filter(|core| !cores.contains(core) && !taken.contains(core)).collect();
        let flag = root.join("cpuset.sched_load_balance");
        let old = read(files, &flag)?;
        // Recorded first, so that it is undone last; done last, so that the rest is never without a balanced domain.
        intend(record, Undo::File { path: flag.clone(), value: old.trim().into() })?;
        self.make_way(files, neighbours, cores, record)?;
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
        neighbours: &[Neighbour],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let control = root.join("cgroup.subtree_control");
        if !read(files, &control)?.split_whitespace().any(|c| c == "cpuset") {
            intend(record, Undo::File { path: control.clone(), value: "-cpuset".into() })?;
            set(files, &control, "+cpuset")?;
        }
        // Kernels before 6.2 forget threads' own masks when a partition takes cores away.
        for (thread, cores) in sched::restricted() {
            intend(record, Undo::Affinity { thread, cores })?;
        }
        self.make_way(files, neighbours, cores, record)?;
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
}
