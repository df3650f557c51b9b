//! Groups of the cpu controller, cgroup v1 and v2: making them, and moving processes in, on record.

use crate::files::Files;
use crate::names::below;
use crate::record::{intend, Recorder, Undo};
use crate::sched::{self, Thread};
use crate::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Where the cpu controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuTree {
    /// cgroup v1: the hierarchy's mount point.
    V1(PathBuf),
    /// cgroup v2: the mount point.
    V2(PathBuf),
}

impl CpuTree {
    /// Finds it in the mount table; a controller is in one version only.
    pub(crate) fn find(files: &dyn Files) -> Option<CpuTree> {
        let mounts = files.read(Path::new("/proc/mounts")).ok()?;
        mounts.lines().find_map(|line| {
            let &[_, path, kind, options, ..] = line.split(' ').collect::<Vec<_>>().as_slice() else { return None };
            let controllers = || files.read(&Path::new(path).join("cgroup.controllers")).unwrap_or_default();
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => Some(CpuTree::V1(path.into())),
                "cgroup2" if controllers().split_whitespace().any(|c| c == "cpu") => Some(CpuTree::V2(path.into())),
                _ => None,
            }
        })
    }

    pub(crate) fn root(&self) -> &Path {
        match self {
            CpuTree::V1(root) | CpuTree::V2(root) => root,
        }
    }

    /// The group of a thread; `None` if it has gone.
    pub(crate) fn of_thread(&self, files: &dyn Files, tid: u32) -> Option<PathBuf> {
        let text = files.read(Path::new(&format!("/proc/{tid}/cgroup"))).ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let here = match self {
                CpuTree::V1(_) => controllers.split(',').any(|c| c == "cpu"),
                CpuTree::V2(_) => number == "0",
            };
            here.then_some(path.trim_start_matches('/'))
        })?;
        // A path with a trailing separator would not equal the same one without.
        Some(if path.is_empty() { self.root().into() } else { self.root().join(path) })
    }
}

/// A group that Giusto made directly below the root.
#[derive(Debug)]
pub(crate) struct CpuGroup {
    pub(crate) tree: CpuTree,
    pub(crate) folder: PathBuf,
}

impl CpuGroup {
    /// Makes `giusto.NAME`. Errors: an earlier Giusto's is there (nothing was changed then); the kernel refuses.
    pub(crate) fn make(
        files: &dyn Files,
        tree: &CpuTree,
        name: &str,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Self, Error> {
        let mut folder = tree.root().join(format!("giusto.{name}"));
        if files.is_folder(&folder) {
            return Err(Error::Leftover(folder));
        }
        // On v2 a process has one group: that of a started service, which is there as long as the service is.
        let own = Some(below(tree.root(), name)).filter(|own| matches!(tree, CpuTree::V2(_)) && files.is_folder(own));
        if let CpuTree::V2(root) = tree {
            let control = root.join("cgroup.subtree_control");
            let enabled = files.read(&control).map_err(|why| broken("read", &control, &why))?;
            if !enabled.split_whitespace().any(|c| c == "cpu") {
                intend(record, Undo::File { path: control.clone(), value: "-cpu".into() })?;
                files.write(&control, "+cpu").map_err(|why| broken("write +cpu to", &control, &why))?;
            }
        }
        match own {
            Some(own) => folder = own,
            None => {
                intend(record, Undo::Folder(folder.clone()))?;
                files.make(&folder).map_err(|why| broken("make", &folder, &why))?;
            }
        }
        Ok(CpuGroup { tree: tree.clone(), folder })
    }

    /// Writes one of its files; `hint` says what EINVAL means.
    pub(crate) fn write(&self, files: &dyn Files, name: &str, value: &str, hint: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        files.write(&path, value).map_err(|why| match why.raw_os_error() {
            Some(libc::EINVAL) => {
                broken(&format!("write {value} to"), &path, &io::Error::new(why.kind(), format!("{why}; {hint}")))
            }
            _ => broken(&format!("write {value} to"), &path, &why),
        })
    }

    /// Writes a period and what may be used of it, in µs, such that what is in force in between is never more than the larger
    /// share of before and after: a longer period comes first, a shorter one last. `was`: what is in force, and is again after
    /// an error; `None` in a fresh group.
    pub(crate) fn write_pair(
        &self,
        files: &dyn Files,
        was: Option<(u64, u64)>,
        (period_file, period): (&str, u64),
        (used_file, used): (&str, u64),
        hint: &str,
    ) -> Result<(), Error> {
        let mut steps = [(period_file, period), (used_file, used)];
        if was.is_some_and(|(before, _)| period < before) {
            steps.reverse();
        }
        let done = steps.iter().try_for_each(|(file, value)| self.write(files, file, &value.to_string(), hint));
        if let (Err(_), Some((period, used))) = (&done, was) {
            // The first step, if it was that far: back to what was in force before it.
            for (file, value) in [(used_file, used), (period_file, period)] {
                let _ = files.write(&self.folder.join(file), &value.to_string());
            }
        }
        done
    }

    /// Moves a process in with all its threads; false if it was here already, as what is born here is, or has gone.
    pub(crate) fn take_in(&self, files: &dyn Files, pid: u32, record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let (Some(process), Some(home)) = (Thread::of(pid), self.tree.of_thread(files, pid)) else { return Ok(false) };
        if home == self.folder {
            return Ok(false);
        }
        let from = &self.folder;
        for tid in sched::threads(pid) {
            // v1 lets single threads sit elsewhere than their process. Recorded before the process, so moved back after it.
            let apart = self.tree.of_thread(files, tid).filter(|at| *at != home && matches!(self.tree, CpuTree::V1(_)));
            if let (Some(at), Some(process)) = (apart, Thread::of(tid)) {
                intend(record, Undo::Place { process, back_to: at.join("tasks"), from: from.clone() })?;
            }
        }
        intend(record, Undo::Place { process, back_to: home.join("cgroup.procs"), from: from.clone() })?;
        match files.write(&from.join("cgroup.procs"), &pid.to_string()) {
            Ok(()) => Ok(true),
            Err(_) if !process.alive() => Ok(false),
            Err(why) => {
                let hint = match why.raw_os_error() {
                    Some(libc::EINVAL) => "; it has a real-time thread, which this group gives no time to",
                    _ => "",
                };
                let doing = format!("move process {pid} to {}", from.display());
                Err(Error::Kernel { doing, why: format!("{why}{hint}") })
            }
        }
    }
}

fn broken(doing: &str, path: &Path, why: &io::Error) -> Error {
    let hint = match why.raw_os_error() {
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => "; Giusto needs root, outside of a container",
        _ => "",
    };
    Error::Kernel { doing: format!("{doing} {}", path.display()), why: format!("{why}{hint}") }
}
