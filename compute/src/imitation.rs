//! An imitation of the kernel's cgroup tree, v1 and v2, and what must hold on it at every step.

mod rules;

use crate::files::Files;
use crate::sched::Thread;
use crate::undo::undo_in;
use crate::{Cpusets, Error, Recorder, Undo};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Folders with their control files, and who is where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    v2: bool,
    /// Which controller's hierarchy (v1).
    controller: &'static str,
    folders: BTreeMap<PathBuf, BTreeMap<String, String>>,
    members: BTreeMap<u32, PathBuf>,
}

pub(crate) struct Imitation(RefCell<State>, Cell<f64>);

fn code(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

pub(crate) const ROOT: &str = "/cg";

impl Imitation {
    /// Four cores, a cgroup `system` with this process in it.
    pub(crate) fn new(v2: bool) -> Self {
        Imitation::of(v2, "cpuset")
    }
    /// The same, with the cpu controller.
    pub(crate) fn cpu(v2: bool) -> Self {
        Imitation::of(v2, "cpu")
    }
    fn of(v2: bool, controller: &'static str) -> Self {
        let mut state = State { v2, controller, folders: BTreeMap::new(), members: BTreeMap::new() };
        let files: &[(&str, &str)] = match v2 {
            true if controller == "cpu" => {
                &[("cgroup.subtree_control", "memory"), ("cgroup.controllers", "cpuset cpu memory")]
            }
            false if controller == "cpu" => &[("cpu.rt_period_us", "1000000"), ("cpu.rt_runtime_us", "950000")],
            true => &[("cgroup.subtree_control", "cpu memory"), ("cgroup.controllers", "cpuset cpu memory")],
            false => &[("cpuset.mems", "0"), ("cpuset.cpus", "0-3"), ("cpuset.sched_load_balance", "1")],
        };
        let files = files.iter().map(|&(name, value)| (name.to_string(), value.to_string()));
        state.folders.insert(ROOT.into(), files.collect());
        let tree = Imitation(RefCell::new(state), Cell::new(0.0));
        tree.make(&Path::new(ROOT).join("system")).unwrap();
        tree.0.borrow_mut().members.insert(std::process::id(), Path::new(ROOT).join("system"));
        if !v2 && controller == "cpuset" {
            tree.write(&Path::new(ROOT).join("system/cpuset.mems"), "0").unwrap();
            tree.write(&Path::new(ROOT).join("system/cpuset.cpus"), "0-3").unwrap();
        }
        tree
    }
    pub(crate) fn state(&self) -> State {
        self.0.borrow().clone()
    }
    /// A process enters `folder`; in a group with real-time files, it is a real-time thread.
    pub(crate) fn enter(&self, pid: u32, folder: &Path) {
        self.0.borrow_mut().members.insert(pid, folder.into());
    }
    pub(crate) fn home_of(&self, pid: u32) -> PathBuf {
        self.0.borrow().members[&pid].clone()
    }
    /// The largest share that any real-time group had since this was last asked.
    pub(crate) fn largest_share(&self) -> f64 {
        self.1.replace(0.0)
    }
    /// Whether the kernel takes this value of the cpu controller (kernel/sched/rt.c, tg_rt_schedulable; core.c,
    /// tg_set_cfs_bandwidth).
    fn cpu_takes(&self, folder: &Path, name: &str, text: &str) -> io::Result<()> {
        let state = self.0.borrow();
        let number = |text: &str| text.parse::<u64>().ok();
        let of = |folder: &Path, file: &str| state.folders[folder].get(file).and_then(|text| number(text));
        let invalid = || code(libc::EINVAL);
        match name {
            "cpu.rt_period_us" | "cpu.rt_runtime_us" => {
                let new = number(text).ok_or_else(invalid)?;
                let mut own = [of(folder, "cpu.rt_period_us").unwrap(), of(folder, "cpu.rt_runtime_us").unwrap()];
                own[usize::from(name == "cpu.rt_runtime_us")] = new;
                let [period, runtime] = own;
                if runtime == 0 && state.members.values().any(|at| at == folder) {
                    return Err(code(libc::EBUSY));
                }
                let others = state.folders.keys().filter(|path| *path != folder && *path != Path::new(ROOT));
                let share =
                    |path: &PathBuf| Some(of(path, "cpu.rt_runtime_us")? as f64 / of(path, "cpu.rt_period_us")? as f64);
                let own = runtime as f64 / period as f64;
                if period == 0 || runtime > period || others.filter_map(share).sum::<f64>() + own > 0.95 {
                    return Err(invalid());
                }
                self.1.set(self.1.get().max(own));
            }
            "cpu.cfs_period_us" if number(text).is_none_or(|us| !(1_000..=1_000_000).contains(&us)) => {
                return Err(invalid())
            }
            "cpu.cfs_quota_us" if number(text).is_none_or(|us| us < 1_000) => return Err(invalid()),
            "cpu.max" => {
                let (quota, period) = text.split_once(' ').ok_or_else(invalid)?;
                let (quota, period) = number(quota).zip(number(period)).ok_or_else(invalid)?;
                if quota < 1_000 || !(1_000..=1_000_000).contains(&period) {
                    return Err(invalid());
                }
            }
            _ => {}
        }
        Ok(())
    }
    pub(crate) fn cpusets(&self) -> Cpusets {
        if self.0.borrow().v2 {
            Cpusets::V2(ROOT.into())
        } else {
            Cpusets::V1(ROOT.into())
        }
    }
}

impl Files for Imitation {
    fn read(&self, path: &Path) -> io::Result<String> {
        let state = self.0.borrow();
        if let Some(pid) = path.to_str().and_then(|p| p.strip_prefix("/proc/")?.strip_suffix("/cgroup")?.parse().ok()) {
            // All others are threads of this process.
            let at = state.members.get(&pid).unwrap_or(&state.members[&std::process::id()]).clone();
            let at = at.strip_prefix(ROOT).unwrap().display().to_string();
            return Ok(if state.v2 {
                format!("0::/{at}\n")
            } else {
                format!("7:{}:/{at}\n1:other:/else\n", state.controller)
            });
        }
        if path == Path::new("/proc/mounts") {
            return Ok(match state.v2 {
                true => format!("none {ROOT} cgroup2 rw 0 0\n"),
                false => format!("none {ROOT} cgroup rw,{} 0 0\n", state.controller),
            });
        }
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let files = state.folders.get(folder).ok_or_else(|| code(libc::ENOENT))?;
        if ["cgroup.procs", "cgroup.threads", "tasks"].contains(&name) {
            let members = state.members.iter().filter(|(_, at)| *at == folder);
            return Ok(members.map(|(pid, _)| format!("{pid}\n")).collect());
        }
        files.get(name).cloned().ok_or_else(|| code(libc::ENOENT))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        if name == "cgroup.procs" {
            if !self.is_folder(folder) {
                return Err(code(libc::ENOENT));
            }
            if !self.0.borrow().has_room(folder) {
                return Err(code(libc::ENOSPC));
            }
            self.0.borrow_mut().members.insert(text.parse().unwrap(), folder.into());
            return Ok(());
        }
        self.read(path)?;
        let value = match (name, text) {
            ("cgroup.subtree_control", "+cpuset") => "cpu memory cpuset".into(),
            ("cgroup.subtree_control", "-cpuset") => "cpu memory".into(),
            ("cgroup.subtree_control", "+cpu") => "memory cpu".into(),
            ("cgroup.subtree_control", "-cpu") => "memory".into(),
            _ if name.starts_with("cpuset.") => self.0.borrow_mut().cpuset_takes(folder, name, text)?,
            _ => self.cpu_takes(folder, name, text).map(|()| text.into())?,
        };
        self.0.borrow_mut().folders.get_mut(folder).unwrap().insert(name.into(), value);
        Ok(())
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        if self.is_folder(path) {
            return Err(code(libc::EEXIST));
        }
        let v2 = self.0.borrow().v2;
        let controller = self.0.borrow().controller;
        let control = self.read(&Path::new(ROOT).join("cgroup.subtree_control")).unwrap_or_default();
        let enabled = control.split(' ').any(|c| c == controller);
        let files: &[(&str, &str)] = match (v2, enabled) {
            (true, true) if controller == "cpu" => &[("cpu.max", "max 100000"), ("cpu.stat", "")],
            (false, _) if controller == "cpu" => &[
                ("cpu.rt_period_us", "1000000"),
                ("cpu.rt_runtime_us", "0"),
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_quota_us", "-1"),
                ("cpu.stat", ""),
            ],
            (true, true) => &[("cpuset.cpus", ""), ("cpuset.cpus.exclusive", ""), ("cpuset.cpus.partition", "member")],
            (true, false) => &[],
            (false, _) => &[
                ("cpuset.cpus", ""),
                ("cpuset.mems", ""),
                ("cpuset.cpu_exclusive", "0"),
                ("cpuset.mem_exclusive", "0"),
            ],
        };
        let files = files.iter().map(|&(name, value)| (name.to_string(), value.to_string()));
        self.0.borrow_mut().folders.insert(path.into(), files.collect());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if state.members.values().any(|at| at == path) || state.folders.keys().any(|at| at.parent() == Some(path)) {
            return Err(code(libc::EBUSY));
        }
        state.folders.remove(path).map(|_| ()).ok_or_else(|| code(libc::ENOENT))
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.borrow().folders.contains_key(path)
    }

    fn below(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.0.borrow().folders.keys().filter(|folder| folder.parent() == Some(path)).cloned().collect())
    }
}

/// Dies at the n-th record, before or after it is on disk: what was recorded stays, nothing more is done.
pub(crate) struct Dying {
    pub(crate) left: usize,
    pub(crate) recorded: bool,
    pub(crate) all: Vec<Undo>,
}

impl Recorder<Undo> for Dying {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        if self.left == 0 {
            if self.recorded {
                self.all.push(undo.clone());
            }
            return Err(io::Error::other("died"));
        }
        self.left -= 1;
        self.all.push(undo.clone());
        Ok(())
    }
}

fn all_of_it(tree: &Imitation, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    tree.cpusets().isolate(tree, &[1, 2], record)?;
    tree.cpusets().place(tree, std::process::id(), Some(1), record)?;
    tree.cpusets().place(tree, std::process::id(), None, record)
}

/// Isolates cores 1 and 2 of a tree, dies at every step, and in the middle of undoing; all must be as before. Returns how
/// many steps there are.
pub(crate) fn dies_everywhere(what: &str, make: &dyn Fn() -> Imitation) -> usize {
    for (left, recorded) in (0..200).flat_map(|left| [(left, false), (left, true)]) {
        let tree = make();
        let before = tree.state();
        let mut record = Dying { left, recorded, all: vec![] };
        let finished = all_of_it(&tree, &mut record).map_err(|error| error.to_string());
        assert!(finished.is_ok() || finished.as_ref().is_err_and(|why| why.contains("died")), "{what}: {finished:?}");
        assert!(finished.is_ok() || tree.state() == before || !record.all.is_empty());
        let half = record.all.len() / 2;
        undo_in(&tree, &record.all[half..]); // and died there
        for _ in 0..2 {
            let report = undo_in(&tree, &record.all);
            assert!(report.failed.is_empty() && report.notes.is_empty(), "{what}: {report:?}");
            assert_eq!(tree.state(), before, "{what}, step {left}, recorded {recorded}");
        }
        if finished.is_ok() {
            return left;
        }
    }
    panic!("{what}: it does not come to an end");
}

#[test]
fn dying_at_any_step_and_in_the_middle_of_undoing_leaves_the_tree_as_it_was() {
    for v2 in [false, true] {
        let steps = dies_everywhere(&format!("v2 {v2}"), &|| Imitation::new(v2));
        assert!(steps >= 5, "v2 {v2}: only {steps} steps were tried");
    }
}

#[test]
fn cores_are_isolated_as_each_version_wants_it() {
    let file = |tree: &Imitation, path: &str| tree.read(&Path::new(ROOT).join(path)).unwrap();
    let v1 = Imitation::new(false);
    v1.cpusets().isolate(&v1, &[1, 2], &mut Vec::new()).unwrap();
    assert_eq!(file(&v1, "cpuset.sched_load_balance"), "0");
    assert_eq!(
        (file(&v1, "giusto.core1/cpuset.cpus"), file(&v1, "giusto.core1/cpuset.cpu_exclusive")),
        ("1".into(), "1".into())
    );
    assert_eq!(file(&v1, "giusto.rest/cpuset.cpus"), "0,3");
    let v2 = Imitation::new(true);
    v2.cpusets().isolate(&v2, &[1], &mut Vec::new()).unwrap();
    assert_eq!(file(&v2, "giusto.core1/cpuset.cpus.partition"), "root");
    assert!(file(&v2, "cgroup.subtree_control").contains("cpuset"));
}

#[test]
fn what_was_forked_in_a_cpuset_goes_to_where_the_others_came_from() {
    const CHILD: u32 = 4_000_001;
    for v2 in [false, true] {
        let tree = Imitation::new(v2);
        let mut record = Vec::new();
        tree.cpusets().isolate(&tree, &[1], &mut record).unwrap();
        tree.cpusets().place(&tree, std::process::id(), Some(1), &mut record).unwrap();
        tree.write(&Path::new(ROOT).join("giusto.core1/cgroup.procs"), &CHILD.to_string()).unwrap();
        assert!(undo_in(&tree, &record).failed.is_empty());
        assert_eq!(tree.0.borrow().members[&CHILD], Path::new(ROOT).join("system"));
    }
}

#[test]
fn a_home_that_has_gone_is_replaced_by_its_parent_and_told() {
    let tree = Imitation::new(false);
    let mut record = Vec::new();
    tree.cpusets().isolate(&tree, &[1], &mut record).unwrap();
    tree.cpusets().place(&tree, std::process::id(), Some(1), &mut record).unwrap();
    tree.remove(&Path::new(ROOT).join("system")).unwrap();
    let report = undo_in(&tree, &record);
    assert_eq!((report.failed.len(), report.notes.len()), (0, 1), "{report:?}");
    assert_eq!(tree.0.borrow().members[&std::process::id()], Path::new(ROOT));
}

#[test]
fn what_an_earlier_giusto_left_is_named_before_anything_is_changed() {
    for v2 in [false, true] {
        let tree = Imitation::new(v2);
        tree.make(&Path::new(ROOT).join("giusto.core3")).unwrap();
        let before = tree.state();
        let mut record = Vec::new();
        let refused = tree.cpusets().isolate(&tree, &[3], &mut record).unwrap_err();
        assert!(matches!(refused, Error::Leftover(_)), "{refused}");
        assert_eq!((tree.state(), record), (before, vec![]));
    }
}

#[test]
fn a_thread_that_is_not_the_recorded_one_is_never_touched() {
    let tree = Imitation::new(false);
    let own = Thread::of(std::process::id()).unwrap();
    let other = Thread { started: own.started + 1, ..own };
    let before = (crate::sched::get(own.tid).unwrap(), crate::sched::affinity(own.tid).unwrap());
    let idle = crate::sched::Attr::of_policy(crate::sched::IDLE, 0);
    let record = [
        Undo::Group(other),
        Undo::Place { process: other, back_to: Path::new(ROOT).join("cgroup.procs"), from: ROOT.into() },
        Undo::Affinity { thread: other, cores: vec![0] },
        Undo::Scheduling { thread: other, before: idle, period_ns: 1_000_000 },
    ];
    let report = undo_in(&tree, &record);
    assert_eq!((report.undone, report.failed.len()), (4, 0), "{report:?}");
    assert_eq!((crate::sched::get(own.tid).unwrap(), crate::sched::affinity(own.tid).unwrap()), before);
    assert_eq!(tree.0.borrow().members[&own.tid], Path::new(ROOT).join("system"));
}
