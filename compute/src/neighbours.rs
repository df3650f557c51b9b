//! Cpusets of others: what keeps them from giving cores away, and how they do without those for a while.
//!
//! A cpuset without a task in it or below it holds nothing, whatever container engines, virtual machine managers and
//! service managers have left in its files: it is never a reason to refuse. One with tasks does without a core as long
//! as it has another one and is not exclusive. Each old value is on record before it is changed, that of an inner
//! cpuset before that of an outer one: what was recorded last is undone first, so outer ones are widened first, as v1
//! asks.

use crate::cores::{join, parse_cores};
use crate::cpuset::{kernel, set, Cpusets};
use crate::files::Files;
use crate::names::ours;
use crate::record::{intend, Recorder, Undo};
use crate::{Error, Keeps};
use std::path::{Path, PathBuf};

/// The cores of a cpuset.
const CORES: &str = "cpuset.cpus";
/// Those that nothing beside it may have (v2, since 6.7).
const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
/// `member`, `root` or `isolated`, perhaps followed by what is wrong (v2).
const PARTITION: &str = "cpuset.cpus.partition";
/// What a cpuset of v1 may not share with those beside it; inner ones have to be cleared before outer ones.
const FLAGS: [&str; 2] = ["cpuset.cpu_exclusive", "cpuset.mem_exclusive"];

/// A cpuset that Giusto did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    folder: PathBuf,
    /// Those that it has.
    cores: Vec<u32>,
    /// How many are in it and below it.
    tasks: usize,
    /// Why nothing beside it may have its cores.
    exclusive: Option<Keeps>,
    /// Whether its `cpuset.cpus` is in the way. Under v2 only directly below the root: the kernel compares partitions
    /// with those beside them alone, and gives to those further below what is left to those above them.
    in_the_way: bool,
    /// Whether there is no task either in all of the tree below the root that it is part of.
    deserted: bool,
}

/// Cores of this machine that cannot all be given away, as a cpuset with tasks keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// All of these.
    pub cores: Vec<u32>,
    /// Which cpuset keeps them, why, and what to do.
    pub why: String,
}

impl Neighbour {
    /// Why it cannot do without `cores`.
    pub(crate) fn keeps(&self, cores: &[u32]) -> Option<Error> {
        let core = *self.cores.iter().find(|core| cores.contains(core)).filter(|_| self.tasks > 0)?;
        let only = || self.in_the_way && self.cores.iter().all(|core| cores.contains(core));
        let why = self.exclusive.or_else(|| only().then_some(Keeps::OnlyCores))?;
        Some(Error::CoreTaken { core, cpuset: self.folder.clone(), tasks: self.tasks, why })
    }

    /// Cores that it keeps to itself whatever Giusto does.
    pub(crate) fn exclusively(&self) -> &[u32] {
        if self.exclusive.is_some() && !self.deserted {
            &self.cores
        } else {
            &[]
        }
    }

    /// The smallest sets of cores that it cannot do without.
    fn held(&self) -> Vec<Held> {
        let sets: Vec<Vec<u32>> = match self.exclusive {
            Some(_) => self.cores.iter().map(|&core| vec![core]).collect(),
            None => vec![self.cores.clone()],
        };
        let held = |cores: Vec<u32>| Some(Held { why: self.keeps(&cores)?.to_string(), cores });
        sets.into_iter().filter_map(held).collect()
    }

    fn meets(&self, cores: &[u32]) -> bool {
        self.cores.iter().any(|core| cores.contains(core))
    }
}

impl Cpusets {
    /// All cpusets of others, inner ones before outer ones.
    pub(crate) fn neighbours(&self, files: &dyn Files) -> Result<Vec<Neighbour>, Error> {
        let outer = files.below(self.root()).map_err(|why| kernel(format!("list {}", self.root().display()), &why))?;
        let mut found = Vec::new();
        for folder in outer.into_iter().filter(|folder| !ours(folder)) {
            let from = found.len();
            let tasks = self.look(files, folder, true, &mut found);
            found[from..].iter_mut().for_each(|one| one.deserted = tasks == 0);
        }
        Ok(found)
    }

    /// Adds a cpuset and all below it; returns how many tasks are there.
    fn look(&self, files: &dyn Files, folder: PathBuf, outer: bool, found: &mut Vec<Neighbour>) -> usize {
        let inner = files.below(&folder).unwrap_or_default();
        let below: usize = inner.into_iter().map(|inner| self.look(files, inner, false, found)).sum();
        let tasks = below + self.members(files, &folder).len();
        let list = |name: &str| parse_cores(&files.read(&folder.join(name)).unwrap_or_default());
        let exclusive = self.exclusive(files, &folder);
        let alone = Some(list(EXCLUSIVE)).filter(|alone| exclusive.is_some() && !alone.is_empty());
        let cores = alone.unwrap_or_else(|| list(CORES));
        let in_the_way = outer || matches!(self, Cpusets::V1(_));
        found.push(Neighbour { folder, cores, tasks, exclusive, in_the_way, deserted: false });
        tasks
    }

    fn exclusive(&self, files: &dyn Files, folder: &Path) -> Option<Keeps> {
        let read = |name: &str| files.read(&folder.join(name)).unwrap_or_default();
        match self {
            Cpusets::V1(_) => (read(FLAGS[0]).trim() == "1").then_some(Keeps::Exclusive),
            Cpusets::V2(_) => (!["", "member"].contains(&read(PARTITION).trim())).then_some(Keeps::Partition),
        }
    }

    /// The threads of a cpuset itself.
    fn members(&self, files: &dyn Files, folder: &Path) -> Vec<u32> {
        let name = match self {
            Cpusets::V1(_) => "tasks",
            Cpusets::V2(_) => "cgroup.threads",
        };
        let text = files.read(&folder.join(name)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Lets all `neighbours` do without `cores`, which none of them keeps. Under v2 masks of threads are on record
    /// already.
    pub(crate) fn make_way(
        &self,
        files: &dyn Files,
        neighbours: &[Neighbour],
        cores: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        // Those that keep their cores to themselves have none of these.
        for one in neighbours.iter().filter(|one| one.tasks == 0 || one.exclusive.is_none()) {
            match self {
                Cpusets::V1(_) if one.deserted => FLAGS.iter().try_for_each(|flag| clear(files, one, flag, record))?,
                Cpusets::V1(_) if one.tasks > 0 && one.meets(cores) => self.record_masks(files, one, record)?,
                Cpusets::V1(_) => {}
                Cpusets::V2(_) => {
                    if one.exclusive.is_some() && one.meets(cores) {
                        dissolve(files, one, record)?;
                    }
                    narrow(files, one, EXCLUSIVE, cores, record)?;
                }
            }
            if one.in_the_way {
                narrow(files, one, CORES, cores, record)?;
            }
        }
        Ok(())
    }

    /// Kernels before 6.2 forget a thread's own mask when its cpuset changes.
    fn record_masks(&self, files: &dyn Files, of: &Neighbour, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let members = self.members(files, &of.folder);
        members.into_iter().try_for_each(|tid| self.record_mask(files, tid, &of.folder, record))
    }
}

/// Cores that cannot be given away, for the planner.
pub(crate) fn held(files: &dyn Files, cpusets: &Cpusets) -> Vec<Held> {
    cpusets.neighbours(files).unwrap_or_default().iter().flat_map(Neighbour::held).collect()
}

/// Makes something shared that was not.
fn clear(files: &dyn Files, of: &Neighbour, flag: &str, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let path = of.folder.join(flag);
    match files.read(&path) {
        Ok(old) if old.trim() == "1" => change(files, path, &old, "0", record),
        _ => Ok(()),
    }
}

/// Makes a partition without tasks an ordinary cpuset.
fn dissolve(files: &dyn Files, of: &Neighbour, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let path = of.folder.join(PARTITION);
    let state = files.read(&path).unwrap_or_default();
    // What is wrong with it cannot be written back, and need not be: the kernel finds out again.
    let old = state.split_whitespace().next().unwrap_or_default();
    change(files, path, old, "member", record)
}

/// Takes `cores` out of a list.
fn narrow(
    files: &dyn Files,
    of: &Neighbour,
    list: &str,
    cores: &[u32],
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    let path = of.folder.join(list);
    let Ok(old) = files.read(&path) else { return Ok(()) };
    let (taken, left): (Vec<u32>, Vec<u32>) = parse_cores(&old).into_iter().partition(|core| cores.contains(core));
    if taken.is_empty() {
        return Ok(());
    }
    change(files, path, &old, &join(&left), record)
}

fn change(
    files: &dyn Files,
    path: PathBuf,
    old: &str,
    new: &str,
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    intend(record, Undo::File { path: path.clone(), value: old.trim().into() })?;
    match set(files, &path, new) {
        // Its owner has removed it meanwhile.
        Err(_) if !path.parent().is_some_and(|folder| files.is_folder(folder)) => Ok(()),
        done => done,
    }
}
