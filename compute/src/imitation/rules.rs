//! What the kernel asks of cpusets: `validate_change` and `update_prstate` of kernel/cgroup/cpuset.c (6.1; v1 alike in
//! 6.18, where its refusals were tried).

use super::{code, State, ROOT};
use crate::cores::parse_cores;
use std::io;
use std::path::{Path, PathBuf};

const CORES: &str = "cpuset.cpus";
const PARTITION: &str = "cpuset.cpus.partition";
const NOT_EXCLUSIVE: &str = "root invalid (Cpu list in cpuset.cpus not exclusive)";

impl State {
    /// What a file of a cpuset holds once `text` was written to it, or the refusal.
    pub(super) fn cpuset_takes(&mut self, folder: &Path, name: &str, text: &str) -> io::Result<String> {
        match (name, text) {
            (CORES, _) => self.cores_take(folder, text)?,
            ("cpuset.cpu_exclusive", flag) => self.flag_takes(folder, name, CORES, flag)?,
            ("cpuset.mem_exclusive", flag) => self.flag_takes(folder, name, "cpuset.mems", flag)?,
            ("cpuset.mems", _) => {
                let taken = |other: &PathBuf| self.flag(other, "cpuset.mem_exclusive");
                if self.beside(folder).iter().any(|other| taken(other) && meet(&self.list(other, name), text)) {
                    return Err(code(libc::EINVAL));
                }
            }
            ("cpuset.cpus.exclusive", _)
                if self.beside(folder).iter().any(|other| meet(&self.list(other, name), text)) =>
            {
                return Err(code(libc::EINVAL));
            }
            (PARTITION, "member") => {}
            (PARTITION, "root" | "isolated") => return Ok(self.partition(folder, text)),
            (PARTITION, _) => return Err(code(libc::EINVAL)),
            _ => {}
        }
        Ok(text.into())
    }

    /// Whether tasks can be in a cpuset: it needs cores and memory (v1).
    pub(super) fn has_room(&self, folder: &Path) -> bool {
        let empty = |name: &str| self.folders[folder].get(name).is_some_and(|list| list.is_empty());
        self.v2 || ![CORES, "cpuset.mems"].into_iter().any(empty)
    }

    fn cores_take(&mut self, folder: &Path, text: &str) -> io::Result<()> {
        let within = |inner: &str, outer: &str| parse_cores(inner).iter().all(|core| parse_cores(outer).contains(core));
        let parent = folder.parent().unwrap();
        if !self.v2 && self.below(folder).iter().any(|inner| !within(&self.list(inner, CORES), text)) {
            return Err(code(libc::EBUSY));
        }
        if !self.v2 && !within(text, &self.list(parent, CORES)) {
            return Err(code(libc::EACCES));
        }
        let emptied = text.is_empty() && !self.list(folder, CORES).is_empty();
        if emptied && self.members.values().any(|at| at.starts_with(folder)) {
            return Err(code(libc::ENOSPC));
        }
        // No room for the deadline bandwidth that its cores admit (cpuset_cpumask_can_shrink).
        if emptied && self.flag(folder, "cpuset.cpu_exclusive") {
            return Err(code(libc::EBUSY));
        }
        let alone = |at: &Path| self.flag(at, "cpuset.cpu_exclusive") || self.is_partition(at);
        let met = |other: &PathBuf| (alone(folder) || alone(other)) && meet(&self.list(other, CORES), text);
        let met: Vec<PathBuf> = self.beside(folder).into_iter().filter(met).collect();
        if !self.v2 && !met.is_empty() {
            return Err(code(libc::EINVAL));
        }
        // v2 lets it happen, and partitions that meet are none any more.
        let own = (!met.is_empty() || emptied).then(|| folder.to_path_buf());
        for at in met.into_iter().chain(own).filter(|at| self.is_partition(at)).collect::<Vec<_>>() {
            self.folders.get_mut(&at).unwrap().insert(PARTITION.into(), NOT_EXCLUSIVE.into());
        }
        Ok(())
    }

    fn flag_takes(&self, folder: &Path, name: &str, list: &str, text: &str) -> io::Result<()> {
        if text == "0" {
            let refused = self.below(folder).iter().any(|inner| self.flag(inner, name));
            return if refused { Err(code(libc::EBUSY)) } else { Ok(()) };
        }
        let parent = folder.parent().unwrap();
        if parent != Path::new(ROOT) && !self.flag(parent, name) {
            return Err(code(libc::EACCES));
        }
        let own = self.list(folder, list);
        if self.beside(folder).iter().any(|other| meet(&self.list(other, list), &own)) {
            return Err(code(libc::EINVAL));
        }
        Ok(())
    }

    fn partition(&self, folder: &Path, wanted: &str) -> String {
        let own = self.list(folder, CORES);
        let parent = folder.parent().unwrap();
        let met = |other: &PathBuf| {
            [CORES, "cpuset.cpus.exclusive"].into_iter().any(|list| meet(&self.list(other, list), &own))
        };
        if self.beside(folder).iter().any(met) {
            return NOT_EXCLUSIVE.into();
        }
        if own.is_empty() {
            return format!("{wanted} invalid (cpuset.cpus is empty)");
        }
        if parent != Path::new(ROOT) && !self.is_partition(parent) {
            return format!("{wanted} invalid (Parent is not a partition root)");
        }
        wanted.into()
    }

    fn is_partition(&self, folder: &Path) -> bool {
        ["root", "isolated"].contains(&self.list(folder, PARTITION).as_str())
    }

    fn flag(&self, folder: &Path, name: &str) -> bool {
        self.list(folder, name) == "1"
    }

    fn list(&self, folder: &Path, name: &str) -> String {
        self.folders[folder].get(name).cloned().unwrap_or_default()
    }

    fn below(&self, folder: &Path) -> Vec<PathBuf> {
        self.folders.keys().filter(|path| path.parent() == Some(folder)).cloned().collect()
    }

    fn beside(&self, folder: &Path) -> Vec<PathBuf> {
        self.below(folder.parent().unwrap()).into_iter().filter(|path| path != folder).collect()
    }
}

fn meet(list: &str, other: &str) -> bool {
    let other = parse_cores(other);
    parse_cores(list).iter().any(|core| other.contains(core))
}
