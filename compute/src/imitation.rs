//! An imitation of the kernel's cgroup tree, v1 and v2, and what must hold on it at every step.

use crate::files::Files;
use crate::sched::Thread;
use crate::undo::undo_in;
use crate::{Cpusets, Error, Recorder, Undo};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Folders with their control files, and who is where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    v2: bool,
    folders: BTreeMap<PathBuf, BTreeMap<String, String>>,
    members: BTreeMap<u32, PathBuf>,
}

struct Imitation(RefCell<State>);

fn code(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

const ROOT: &str = "/cg";

impl Imitation {
    /// Four cores, a cgroup `system` with this process in it.
    fn new(v2: bool) -> Self {
        let mut state = State { v2, folders: BTreeMap::new(), members: BTreeMap::new() };
        let files: &[(&str, &str)] = match v2 {
            true => &[("cgroup.subtree_control", "cpu memory"), ("cgroup.controllers", "cpuset cpu memory")],
            false => &[("cpuset.mems", "0"), ("cpuset.cpus", "0-3"), ("cpuset.sched_load_balance", "1")],
        };
        let files = files.iter().map(|&(name, value)| (name.to_string(), value.to_string()));
        state.folders.insert(ROOT.into(), files.collect());
        let tree = Imitation(RefCell::new(state));
        tree.make(&Path::new(ROOT).join("system")).unwrap();
        tree.0.borrow_mut().members.insert(std::process::id(), Path::new(ROOT).join("system"));
        if !v2 {
            tree.write(&Path::new(ROOT).join("system/cpuset.mems"), "0").unwrap();
        }
        tree
    }
    fn cpusets(&self) -> Cpusets {
        if self.0.borrow().v2 {
            Cpusets::V2(ROOT.into())
        } else {
            Cpusets::V1(ROOT.into())
        }
    }
    /// Whether a sibling's cores meet this folder's.
    fn overlaps(&self, folder: &Path) -> bool {
        let state = self.0.borrow();
        let cores =
            |files: &BTreeMap<String, String>| crate::cpuset::parse_cores(files.get("cpuset.cpus").map_or("", |c| c));
        let own = cores(&state.folders[folder]);
        let others = state.folders.iter().filter(|(path, _)| *path != folder && path.parent() == folder.parent());
        others.into_iter().any(|(_, files)| cores(files).iter().any(|core| own.contains(core)))
    }
}

impl Files for Imitation {
    fn read(&self, path: &Path) -> io::Result<String> {
        let state = self.0.borrow();
        if let Some(pid) = path.to_str().and_then(|p| p.strip_prefix("/proc/")?.strip_suffix("/cgroup")?.parse().ok()) {
            // All others are threads of this process.
            let at = state.members.get(&pid).unwrap_or(&state.members[&std::process::id()]).clone();
            let at = at.strip_prefix(ROOT).unwrap().display().to_string();
            return Ok(if state.v2 { format!("0::/{at}\n") } else { format!("7:cpuset:/{at}\n1:cpu:/else\n") });
        }
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let files = state.folders.get(folder).ok_or_else(|| code(libc::ENOENT))?;
        if name == "cgroup.procs" {
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
            let without_memory = self.read(&folder.join("cpuset.mems")).is_ok_and(|mems| mems.is_empty());
            if without_memory {
                return Err(code(libc::ENOSPC));
            }
            self.0.borrow_mut().members.insert(text.parse().unwrap(), folder.into());
            return Ok(());
        }
        self.read(path)?;
        let mut value = text.to_string();
        match (name, text) {
            ("cpuset.cpu_exclusive", "1") if self.overlaps(folder) => return Err(code(libc::EINVAL)),
            ("cpuset.cpus.partition", "root") if self.overlaps(folder) => value = "root invalid (Cpu list)".into(),
            ("cgroup.subtree_control", "+cpuset") => value = "cpu memory cpuset".into(),
            ("cgroup.subtree_control", "-cpuset") => value = "cpu memory".into(),
            _ => {}
        }
        self.0.borrow_mut().folders.get_mut(folder).unwrap().insert(name.into(), value);
        Ok(())
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        if self.is_folder(path) {
            return Err(code(libc::EEXIST));
        }
        let v2 = self.0.borrow().v2;
        let enabled = self.read(&Path::new(ROOT).join("cgroup.subtree_control")).is_ok_and(|c| c.contains("cpuset"));
        let files: &[(&str, &str)] = match (v2, enabled) {
            (true, true) => &[("cpuset.cpus", ""), ("cpuset.cpus.partition", "member")],
            (true, false) => &[],
            (false, _) => &[("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.cpu_exclusive", "0")],
        };
        let files = files.iter().map(|&(name, value)| (name.to_string(), value.to_string()));
        self.0.borrow_mut().folders.insert(path.into(), files.collect());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if state.members.values().any(|at| at == path) {
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
struct Dying {
    left: usize,
    recorded: bool,
    all: Vec<Undo>,
}

impl Recorder for Dying {
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

fn all_of_it(tree: &Imitation, record: &mut dyn Recorder) -> Result<(), Error> {
    tree.cpusets().isolate(tree, &[1, 2], record)?;
    tree.cpusets().place(tree, std::process::id(), Some(1), record)?;
    tree.cpusets().place(tree, std::process::id(), None, record)
}

#[test]
fn dying_at_any_step_and_in_the_middle_of_undoing_leaves_the_tree_as_it_was() {
    for v2 in [false, true] {
        let mut steps = 0;
        for (left, recorded) in (0..100).flat_map(|left| [(left, false), (left, true)]) {
            let tree = Imitation::new(v2);
            let before = tree.0.borrow().clone();
            let mut record = Dying { left, recorded, all: vec![] };
            let finished = all_of_it(&tree, &mut record).is_ok();
            assert!(finished || *tree.0.borrow() == before || !record.all.is_empty());
            let half = record.all.len() / 2;
            undo_in(&tree, &record.all[half..]); // and died there
            for _ in 0..2 {
                let report = undo_in(&tree, &record.all);
                assert!(report.failed.is_empty() && report.notes.is_empty(), "{report:?}");
                assert_eq!(*tree.0.borrow(), before, "v2 {v2}, step {left}, recorded {recorded}");
            }
            if finished {
                steps = left;
                break;
            }
        }
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
fn what_is_in_the_way_is_named_before_anything_is_changed() {
    let tree = Imitation::new(false);
    tree.make(&Path::new(ROOT).join("vm")).unwrap();
    tree.write(&Path::new(ROOT).join("vm/cpuset.cpus"), "1-2").unwrap();
    let before = tree.0.borrow().clone();
    let mut record = Vec::new();
    let refused = tree.cpusets().isolate(&tree, &[2], &mut record).unwrap_err();
    assert!(matches!(&refused, Error::CoreTaken { core: 2, cpuset } if cpuset.ends_with("vm")), "{refused}");
    tree.make(&Path::new(ROOT).join("giusto.core3")).unwrap();
    let refused = tree.cpusets().isolate(&tree, &[3], &mut record).unwrap_err();
    assert!(matches!(refused, Error::Leftover(_)), "{refused}");
    tree.remove(&Path::new(ROOT).join("giusto.core3")).unwrap();
    assert_eq!((tree.0.borrow().clone(), record), (before, vec![]));
}

#[test]
fn a_partition_that_the_kernel_calls_invalid_is_an_error_with_its_reason() {
    let tree = Imitation::new(true);
    tree.write(&Path::new(ROOT).join("cgroup.subtree_control"), "+cpuset").unwrap();
    tree.make(&Path::new(ROOT).join("vm")).unwrap();
    tree.write(&Path::new(ROOT).join("vm/cpuset.cpus"), "1").unwrap();
    let refused = tree.cpusets().isolate(&tree, &[1], &mut Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("root invalid"), "{refused}");
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
