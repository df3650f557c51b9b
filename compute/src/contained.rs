//! The cgroup of a program that is started, `giusto.NAME.service`, and the groups of controllers that limit it.
//!
//! What schedules a service takes its processes into groups of its own. Where a hierarchy has one tree for all (v2), or
//! the groups lie in the freezer that the manager uses too (v1 alone), these groups lie *below* the service's own, or
//! have one of its name below them, so that all that comes of the program stays together:
//! [`is_service`](crate::names::is_service) tells.

use crate::cpuset::{on_core, Cpusets};
use crate::files::{Files, Real};
use crate::names::folder_name;
use crate::record::{intend, Recorder, Undo};
use crate::{Error, Lack};
use giusto_cgroup::{Asked, Cgroup, Tree};
use giusto_model::{Limit, Process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A started service's groups, from before its first instruction until it is removed. A restart enters them again.
#[derive(Clone, Debug)]
pub struct Contained {
    group: Cgroup,
    /// Groups of v1 controllers that it enters as well.
    limits: Vec<PathBuf>,
    /// Where its cores are set; `None`: only its threads' affinity says.
    cores: Option<PathBuf>,
    /// Where isolated cores have their groups, if in the same tree as services.
    isolated: Option<PathBuf>,
}

impl Contained {
    /// Makes the groups of the service `name`, on record before. With `cores` it can have no other ones, whatever
    /// affinity its threads give themselves, where the controller for that is there; `None`: this machine has no
    /// hierarchy for it, or Giusto no right to use it.
    ///
    /// Errors: a limit that is asked for needs a controller that is not there; an earlier Giusto's group is; the kernel
    /// refuses.
    pub fn make(
        name: &str,
        process: &Process,
        cores: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Option<Contained>, Error> {
        let Some(tree) = Tree::find() else { return Ok(None) };
        let folder = folder_name(name);
        let group = tree.group(&folder);
        if group.exists() {
            return Err(Error::Leftover(group.folder().into()));
        }
        let mut limits = Vec::new();
        let mut writes = Vec::new();
        for limit in [Limit::Memory, Limit::Tasks] {
            let asked = process.limits.get(&limit).copied();
            let value = match (asked, limit) {
                (None, Limit::Tasks) => Limit::TASKS,
                (None | Some(u64::MAX), _) => continue,
                (Some(value), _) => value,
            };
            let files = match limit {
                Limit::Memory => ("memory", "memory.limit_in_bytes", "memory.max"),
                _ => ("pids", "pids.max", "pids.max"),
            };
            match Controller::find(files, &tree) {
                Some(controller) => {
                    let at = match &controller.v1 {
                        Some(root) => root.join(&folder),
                        None => group.folder().into(),
                    };
                    if controller.v1.is_some() {
                        limits.push(at.clone());
                    } else {
                        enable(tree.root(), controller.name, record)?;
                    }
                    writes.push((at.join(controller.file), value));
                }
                None if asked.is_some() => {
                    return Err(Error::Lacks(Lack {
                        what: format!("a cgroup controller for limit '{limit}' of service '{name}'"),
                        how: format!("mount the controller, or leave '{limit}' out of its limits"),
                    }));
                }
                None => {}
            }
        }
        let cpusets = Cpusets::find();
        let isolated = match &cpusets {
            Some(Cpusets::V2(root)) if root == tree.root() => Some(root.clone()),
            _ => None,
        };
        let cpuset = cpusets.filter(|_| !cores.is_empty());
        let file = match &cpuset {
            Some(Cpusets::V1(root)) => {
                limits.push(root.join(&folder));
                Some(root.join(&folder).join("cpuset.cpus"))
            }
            Some(Cpusets::V2(root)) if root == tree.root() => {
                enable(root, "cpuset", record)?;
                Some(group.folder().join("cpuset.cpus"))
            }
            _ => None,
        };
        let end_within_ns = process.end_within().ns();
        intend(record, Undo::Contained { folder: group.folder().into(), limits: limits.clone(), end_within_ns })?;
        match Real.make(group.folder()) {
            // Without the right to, nothing can be enforced either.
            Err(why) if matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {
                return Ok(None)
            }
            done => done.map_err(|why| broken("make", group.folder(), &why))?,
        }
        let contained = Contained { group, limits, cores: file, isolated };
        let equip = || {
            for folder in &contained.limits {
                Real.make(folder).map_err(|why| broken("make", folder, &why))?;
            }
            for (file, value) in writes {
                Real.write(&file, &value.to_string())
                    .map_err(|why| broken(&format!("write {value} to"), &file, &why))?;
            }
            if let Some(Cpusets::V1(root)) = &cpuset {
                let file = root.join(&folder).join("cpuset.mems");
                let all = Real.read(&root.join("cpuset.mems")).map_err(|why| broken("read", root, &why))?;
                Real.write(&file, all.trim()).map_err(|why| broken("write to", &file, &why))?;
            }
            contained.keep_on(cores)
        };
        // What is half made would be in the way of the next try.
        equip().inspect_err(|_| _ = contained.end(std::time::Duration::ZERO))?;
        Ok(Some(contained))
    }

    /// Gives it other cores, if it was made for some.
    pub fn keep_on(&self, cores: &[u32]) -> Result<(), Error> {
        let Some(file) = &self.cores else { return Ok(()) };
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        let cores = cores.join(",");
        Real.write(file, &cores).map_err(|why| broken(&format!("write {cores} to"), file, &why))
    }

    /// Its group, and those of its name on isolated cores (v2).
    fn groups(&self) -> Vec<Cgroup> {
        let below = self.isolated.as_ref().and_then(|root| Real.below(root).ok()).unwrap_or_default();
        let own = self.group.folder().file_name().unwrap_or_default();
        let cores = below.into_iter().filter(|at| on_core(at));
        let others = cores.map(|at| Cgroup::at(at.join(own))).filter(Cgroup::exists);
        std::iter::once(self.group.clone()).chain(others).collect()
    }

    /// All its processes.
    pub fn processes(&self) -> Vec<u32> {
        self.groups().iter().flat_map(Cgroup::processes).collect()
    }

    /// Those of its `processes` that are in all its groups, also in those that limit.
    pub fn inside(&self, processes: &[u32]) -> BTreeSet<u32> {
        let mut inside: BTreeSet<u32> = processes.iter().copied().collect();
        for folder in &self.limits {
            let there: BTreeSet<u32> = Cgroup::at(folder).processes().into_iter().collect();
            inside.retain(|pid| there.contains(pid));
        }
        inside
    }

    /// Processor time of all that is and ever was in it, in ns, where the kernel tells.
    pub fn usage_ns(&self) -> Option<u64> {
        self.groups().iter().map(Cgroup::usage_ns).sum()
    }

    /// Stops all its processes, or lets them go on, without waiting for that.
    pub fn ask_to_freeze(&self, stop: bool) -> std::io::Result<()> {
        self.groups().iter().try_for_each(|group| group.ask_to_freeze(stop))
    }

    /// Whether it was told to stop.
    pub fn is_frozen(&self) -> bool {
        self.group.is_frozen()
    }

    /// Ends all its processes at once, without waiting for that.
    pub fn kill_now(&self) {
        self.groups().iter().for_each(Cgroup::kill_now);
    }

    /// Asks its processes to end, gives them `patience`, ends the rest, and removes its groups. Errors: some do not
    /// end, within five seconds more; what could be ended and removed is.
    pub fn end(&self, patience: std::time::Duration) -> std::io::Result<()> {
        let groups = self.groups();
        let asked: Vec<Asked> = groups.iter().map(Cgroup::ask_to_end).collect();
        let until = std::time::Instant::now() + patience;
        groups
            .iter()
            .zip(asked)
            .rev()
            .map(|(group, asked)| group.end_by(asked, until))
            .fold(Ok(()), std::io::Result::and)?;
        self.limits.iter().try_for_each(|folder| Cgroup::at(folder).remove())
    }

    /// Moves a process in: the one that waits to run the service's program, or one that had left.
    pub fn enter(&self, pid: u32) -> std::io::Result<()> {
        self.limits.iter().try_for_each(|folder| Cgroup::at(folder).enter(pid))?;
        self.group.enter(pid)
    }

    /// Moves a process out again, to where it ends also while this is stopped.
    pub fn leave(&self, pid: u32) -> std::io::Result<()> {
        self.group.folder().parent().map_or(Ok(()), |above| Cgroup::at(above).enter(pid))
    }

    /// How often the kernel ended a process of it since its memory was used up.
    pub fn out_of_memory(&self) -> u64 {
        let files = self.limits.iter().map(|folder| folder.join("memory.oom_control"));
        let texts = files.chain([self.group.folder().join("memory.events")]).filter_map(|file| Real.read(&file).ok());
        let count = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill ").map(str::to_string))?;
            line.trim().parse::<u64>().ok()
        };
        texts.filter_map(count).sum()
    }
}

/// What limits.
struct Controller {
    name: &'static str,
    /// Its own hierarchy; `None`: it is in the v2 tree.
    v1: Option<PathBuf>,
    file: &'static str,
}

impl Controller {
    /// By its name, and what its file is called in v1 and v2.
    fn find((name, v1, v2): (&'static str, &'static str, &'static str), tree: &Tree) -> Option<Controller> {
        let mounts = Real.read(Path::new("/proc/mounts")).ok()?;
        let mut rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let own = rows.find(|row| row.len() > 3 && row[2] == "cgroup" && row[3].split(',').any(|one| one == name));
        if let Some(row) = own {
            return Some(Controller { name, v1: Some(row[1].into()), file: v1 });
        }
        let there = Real.read(&tree.root().join("cgroup.controllers")).unwrap_or_default();
        let there = tree.is_v2() && there.split_whitespace().any(|one| one == name);
        there.then_some(Controller { name, v1: None, file: v2 })
    }
}

/// For the groups directly below the root (v2).
fn enable(root: &Path, controller: &str, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let control = root.join("cgroup.subtree_control");
    let enabled = Real.read(&control).map_err(|why| broken("read", &control, &why))?;
    if enabled.split_whitespace().any(|one| one == controller) {
        return Ok(());
    }
    intend(record, Undo::File { path: control.clone(), value: format!("-{controller}") })?;
    Real.write(&control, &format!("+{controller}"))
        .map_err(|why| broken(&format!("write +{controller} to"), &control, &why))
}

fn broken(doing: &str, path: &Path, why: &std::io::Error) -> Error {
    Error::Kernel { doing: format!("{doing} {}", path.display()), why: why.to_string() }
}
