//! The cgroup of a managed server: who is in it belongs to the server, also what is born later, and can be stopped at once.
//!
//! v1: a group of the freezer hierarchy, which takes single threads too. v2: a group below the one that a member is in; for
//! single threads a threaded one below one of Giusto's own.

use crate::files::{Files, Real};
use crate::names;
use crate::sched::{self, Attr, Thread};
use crate::{Error, Recorder, Undo};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where groups can be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freezer {
    /// cgroup v1: the mount point of the freezer hierarchy.
    V1(PathBuf),
    /// cgroup v2: the mount point.
    V2(PathBuf),
}

/// A frozen group without members. On v1 the first group to freeze on a machine has the kernel rewrite its own code (a static
/// key), which takes 75 us instead of 2; while this one is frozen, no other is the first. No service can have this name.
const KEEPER: &str = "giusto.manager.keeper";

impl Freezer {
    /// Finds it in the mount table.
    pub(crate) fn find(files: &dyn Files) -> Option<Freezer> {
        let mounts = files.read(Path::new("/proc/mounts")).ok()?;
        let rows: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
        let v1 = rows.iter().find(|row| {
            row.get(2) == Some(&"cgroup")
                && row.get(3).is_some_and(|options| options.split(',').any(|o| o == "freezer"))
        });
        let v2 = || rows.iter().find(|row| row.get(2) == Some(&"cgroup2"));
        v1.map(|row| Freezer::V1(row[1].into())).or_else(|| v2().map(|row| Freezer::V2(row[1].into())))
    }

    fn root(&self) -> &Path {
        match self {
            Freezer::V1(root) | Freezer::V2(root) => root,
        }
    }

    /// Makes the keeper, unless it is there.
    pub(crate) fn keep(&self, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let Freezer::V1(root) = self else { return Ok(()) };
        let folder = root.join(KEEPER);
        record.intend(&Undo::Folder(folder.clone())).map_err(Error::Journal)?;
        if !folder.is_dir() {
            make(&folder)?;
        }
        write(&folder.join("freezer.state"), "FROZEN")
    }

    /// The cgroup folder of a thread.
    fn of_thread(&self, tid: u32) -> Option<PathBuf> {
        let text = Real.read(Path::new(&format!("/proc/{tid}/cgroup"))).ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let here = match self {
                Freezer::V1(_) => controllers.split(',').any(|c| c == "freezer"),
                Freezer::V2(_) => number == "0",
            };
            here.then_some(path)
        })?;
        Some(self.root().join(path.trim_start_matches('/')))
    }
}

/// The group of one server: one cgroup, or, of adopted processes under v2, one below each cgroup that they are in, so that the
/// limits of those hold on.
#[derive(Debug)]
pub(crate) struct Group {
    freezer: Freezer,
    name: String,
    /// What names it besides, where it takes single threads.
    part: Option<u32>,
    core: u32,
    /// Whether its members end with their service's cgroup, so that nothing else of them has to be undone.
    contained: bool,
    /// What those get in the end that were born in it.
    before: Attr,
    cores: Vec<u32>,
    folders: Vec<Folder>,
    /// Whether its cgroups are others than [`Group::has_changed`] has told.
    changed: bool,
}

/// A cgroup of a server.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The file that its members are written to in the end.
    home: PathBuf,
    switch: File,
}

impl Group {
    /// Makes the group of a server called `name` for whole processes, or (`part`) for single threads of one process, which has
    /// to be `leader`. What is born in it later gets `before` and the cores of `leader` at the end.
    pub(crate) fn new(
        freezer: &Freezer,
        name: &str,
        part: Option<u32>,
        leader: u32,
        core: u32,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Group, Error> {
        let before = sched::get(leader).map_err(|_| Error::Gone(leader))?;
        let cores = sched::allowed(leader).map_err(|_| Error::Gone(leader))?;
        let home = freezer.of_thread(leader).ok_or(Error::Gone(leader))?;
        let contained = names::contains(name, leader);
        // On an isolated core it is in a group of its name there (v2), which it leaves.
        let own = names::below(freezer.root(), name);
        let home = if names::is_service(&home) && own.is_dir() { own } else { home };
        let (freezer, name, folders) = (freezer.clone(), name.to_string(), vec![]);
        let mut group = Group { freezer, name, part, core, contained, before, cores, folders, changed: false };
        match part {
            Some(part) => group.make_for_threads(part, leader, &home, record)?,
            None => _ = group.folder_for(&home, record)?,
        }
        Ok(group)
    }

    /// The cgroup of members that come from `home`, made unless it is there.
    fn folder_for(&mut self, home: &Path, record: &mut dyn Recorder<Undo>) -> Result<PathBuf, Error> {
        let one_only = matches!(self.freezer, Freezer::V1(_)) || self.part.is_some() || self.contained;
        if let Some(only) = self.folders.first().filter(|_| one_only) {
            return Ok(only.path.clone());
        }
        // With a container its runtime removes what is below its cgroup.
        let before = self.folders.len();
        self.folders.retain(|folder| folder.path.is_dir());
        self.changed |= self.folders.len() < before;
        let apart = self.apart(home);
        let wanted = match self.takes_members_where_they_are(home) {
            true => home.join(format!("giusto.{}", self.name)),
            false => apart.clone(),
        };
        let find = |is_it: &dyn Fn(&Path) -> bool| self.folders().find(|folder| is_it(folder)).map(Path::to_path_buf);
        if let Some(path) = find(&|folder| home.starts_with(folder) || folder == wanted) {
            return Ok(path);
        }
        let instead = find(&|folder| folder == apart);
        let home = home.join("cgroup.procs");
        match self.make(&wanted, &home, record) {
            // It may be forbidden there (cgroup.max.descendants).
            Err(Error::Kernel { .. }) if wanted != apart => match instead {
                Some(path) => Ok(path),
                None => self.make(&apart, &home, record).map(|()| apart),
            },
            made => made.map(|()| wanted),
        }
    }

    /// The cgroup away from others': below that of the service, if Giusto started it, else below the root.
    fn apart(&self, home: &Path) -> PathBuf {
        match names::is_service(home) {
            true => home.join("managed"),
            false => self.freezer.root().join(format!("giusto.{}", self.name)),
        }
    }

    /// Not in the root, nor where threads are kept apart or other groups of Giusto's are, which are removed in their time.
    fn takes_members_where_they_are(&self, home: &Path) -> bool {
        let root = self.freezer.root();
        let below = || home.strip_prefix(root).is_ok_and(|below| !below.as_os_str().is_empty());
        let ours = || home.ancestors().take_while(|at| *at != root).any(names::ours);
        let is_domain = || Real.read(&home.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "domain");
        matches!(self.freezer, Freezer::V2(_)) && below() && !ours() && is_domain()
    }

    fn make_for_threads(
        &mut self,
        part: u32,
        leader: u32,
        home: &Path,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        if let Freezer::V1(root) = &self.freezer {
            let path = root.join(format!("giusto.{}.{part}", self.name));
            return self.make(&path, &home.join("tasks"), record);
        }
        // Threads of a process stay below one group: the process goes there as a whole first.
        let parent = self.apart(home);
        if !parent.is_dir() {
            record.intend(&self.held(&parent, &home.join("cgroup.procs"))).map_err(Error::Journal)?;
            make(&parent)?;
            write(&parent.join("cgroup.procs"), &leader.to_string())?;
        }
        let path = parent.join(part.to_string());
        self.make(&path, &parent.join("cgroup.threads"), record)?;
        write(&path.join("cgroup.type"), "threaded")
    }

    /// Makes a cgroup of this group, whose members are written to the file `home` in the end.
    fn make(&mut self, path: &Path, home: &Path, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        record.intend(&self.held(path, home)).map_err(Error::Journal)?;
        make(path)?;
        let switch = path.join(match self.freezer {
            Freezer::V1(_) => "freezer.state",
            Freezer::V2(_) => "cgroup.freeze",
        });
        let switch = OpenOptions::new().write(true).open(&switch).map_err(|why| broken("open", &switch, &why))?;
        self.folders.push(Folder { path: path.into(), home: home.into(), switch });
        self.changed = true;
        Ok(())
    }

    fn held(&self, folder: &Path, home: &Path) -> Undo {
        let (folder, home, before, core) = (folder.into(), home.into(), self.before, self.core);
        Undo::Held { folder, home, before, core, cores: self.cores.clone() }
    }

    /// Takes a process with all its threads, or (in a threaded group) one thread in, and binds it to the core; returns the
    /// threads that are new here. One that has gone is passed over.
    pub(crate) fn take_in(&mut self, id: u32, record: &mut dyn Recorder<Undo>) -> Result<Vec<u32>, Error> {
        let Some(member) = Thread::of(id) else { return Ok(vec![]) };
        let threads = |of: &Group| if of.part.is_some() { vec![id] } else { sched::threads(id) };
        let is_here = |at: &PathBuf| self.folders.iter().any(|folder| folder.path == *at);
        let outside = self.freezer.of_thread(id).filter(|at| !is_here(at));
        for tid in threads(self) {
            let (Some(thread), Ok(before), Ok(cores)) = (Thread::of(tid), sched::get(tid), sched::allowed(tid)) else {
                continue;
            };
            if before.policy == sched::DEADLINE {
                return Err(Error::Taken(tid));
            }
            if outside.is_some() && !self.contained {
                record.intend(&Undo::Scheduling { thread, before, period_ns: 0 }).map_err(Error::Journal)?;
                record.intend(&Undo::Bound { thread, core: self.core, cores }).map_err(Error::Journal)?;
            }
        }
        let members = match (&self.freezer, self.part) {
            (_, None) => "cgroup.procs",
            (Freezer::V1(_), Some(_)) => "tasks",
            (Freezer::V2(_), Some(_)) => "cgroup.threads",
        };
        if let Some(home) = outside {
            let folder = self.folder_for(&home, record)?;
            // Back to where it was; on v2 a single thread goes back with its process.
            let with_its_process = self.part.is_some() && matches!(self.freezer, Freezer::V2(_));
            if with_its_process {
                take_process_of(id, &folder, &home, record)?;
            } else if !self.contained {
                let undo = Undo::Place { process: member, back_to: home.join(members), from: folder.clone() };
                record.intend(&undo).map_err(Error::Journal)?;
            }
            match write(&folder.join(members), &id.to_string()) {
                Err(why) if member.alive() => return Err(why),
                _ => {}
            }
        }
        // Those that were born meanwhile were born here, and inherit the mask.
        let mut all = threads(self);
        for tid in &all {
            bind(*tid, self.core)?;
        }
        all.extend(threads(self));
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Whether its cgroups have changed since this was asked last: who stops them needs another clone.
    pub(crate) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| &*folder.path)
    }

    /// The same group for the manager's thread, which stops it.
    pub(crate) fn clone_for_switching(&self) -> Result<Group, Error> {
        let mut folders = Vec::new();
        for Folder { path, home, switch } in &self.folders {
            let switch = switch.try_clone().map_err(|why| broken("share", path, &why))?;
            folders.push(Folder { path: path.clone(), home: home.clone(), switch });
        }
        let (freezer, name, cores) = (self.freezer.clone(), self.name.clone(), self.cores.clone());
        Ok(Group { freezer, name, cores, folders, ..*self })
    }

    /// Moves all threads of the group to another core.
    pub(crate) fn move_to(&mut self, core: u32, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        if core == self.core {
            return Ok(());
        }
        self.core = core;
        for folder in &self.folders {
            record.intend(&self.held(&folder.path, &folder.home)).map_err(Error::Journal)?;
        }
        for tid in self.threads() {
            let Some(thread) = Thread::of(tid) else { continue };
            let cores = self.cores.clone();
            record.intend(&Undo::Bound { thread, core, cores }).map_err(Error::Journal)?;
            bind(tid, core)?;
        }
        Ok(())
    }

    /// Whether a thread is outside, so that it is not stopped with the others; not so if it has gone.
    pub(crate) fn has_left(&self, tid: u32) -> bool {
        self.freezer.of_thread(tid).is_some_and(|at| !self.folders().any(|folder| at.starts_with(folder)))
    }

    /// Whether its members were started by Giusto.
    pub(crate) fn is_contained(&self) -> bool {
        self.contained
    }

    /// All threads in it.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let list = |folder: &Path| {
            let text = Real.read(&folder.join("tasks")).or_else(|_| Real.read(&folder.join("cgroup.threads")));
            text.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>()
        };
        self.folders().flat_map(list).collect()
    }

    /// Lets all threads go home and removes the group; what its undo record would do, now.
    pub(crate) fn release(&self) -> Result<(), Error> {
        let each = self.folders.iter().map(|Folder { path, home, .. }| {
            release(&Real, path, home, &self.before, self.core, &self.cores).map_err(|why| broken("remove", path, &why))
        });
        each.fold(Ok(()), Result::and)
    }

    /// Stops all members, or lets them go on. 2 to 3 us a cgroup.
    pub(crate) fn freeze(&self, stop: bool) -> std::io::Result<()> {
        let word = match (&self.freezer, stop) {
            (Freezer::V1(_), true) => "FROZEN",
            (Freezer::V1(_), false) => "THAWED",
            (Freezer::V2(_), true) => "1",
            (Freezer::V2(_), false) => "0",
        };
        let each = self.folders.iter().map(|folder| match (&folder.switch).write_all(word.as_bytes()) {
            Err(why) if why.raw_os_error() == Some(libc::ENODEV) => Ok(()), // removed, with its container
            done => done,
        });
        each.fold(Ok(()), Result::and)
    }
}

/// Threads of a process stay below one group (v2): a virtual machine that was started again comes as a whole first.
fn take_process_of(tid: u32, folder: &Path, home: &Path, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let Some(parent) = folder.parent().filter(|parent| !home.starts_with(parent)) else { return Ok(()) };
    let Some(process) = sched::process_of(tid).and_then(Thread::of) else { return Ok(()) };
    let undo = Undo::Place { process, back_to: home.join("cgroup.procs"), from: parent.into() };
    record.intend(&undo).map_err(Error::Journal)?;
    write(&parent.join("cgroup.procs"), &process.tid.to_string())
}

/// Undoes [`Group::new`]: lets all threads go on, gives what was born in the group its policy and cores, and removes it.
pub(crate) fn release(
    files: &dyn Files,
    folder: &Path,
    home: &Path,
    before: &Attr,
    core: u32,
    cores: &[u32],
) -> std::io::Result<()> {
    if !files.is_folder(folder) {
        return Ok(());
    }
    let (v1, v2) = (folder.join("freezer.state"), folder.join("cgroup.freeze"));
    let freeze = |stop: bool| {
        let words = if stop { ("FROZEN", "1") } else { ("THAWED", "0") };
        files.write(&v1, words.0).or_else(|_| files.write(&v2, words.1))
    };
    freeze(false)?;
    let list = |name: &str| files.read(&folder.join(name)).unwrap_or_default();
    let mut last = Ok(());
    for attempt in 0..400 {
        // Members that fork all the time cannot be moved as fast as they come, unless they are stopped; leaving lets them go on.
        if attempt > 20 {
            let _ = freeze(true);
        }
        let tasks = Some(list("tasks")).filter(|text| !text.is_empty()).unwrap_or_else(|| list("cgroup.threads"));
        for tid in tasks.lines().filter_map(|line| line.parse::<u32>().ok()) {
            if sched::get(tid).is_ok_and(|now| now.policy == sched::RR && *before != now) {
                let _ = sched::set(tid, before);
            }
            if sched::affinity(tid).is_ok_and(|now| now == [core]) {
                let _ = sched::set_affinity(tid, cores);
            }
        }
        let single = home.file_name().is_some_and(|name| name != "cgroup.procs");
        let members = if single { tasks } else { list("cgroup.procs") };
        for member in members.lines() {
            let _ = files.write(home, member);
        }
        last = files.remove(folder);
        if last.is_ok() {
            return last;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    last
}

/// One that has gone is passed over.
fn bind(tid: u32, core: u32) -> Result<(), Error> {
    match sched::set_affinity(tid, &[core]) {
        Err(why) if Thread::of(tid).is_some() => Err(Error::Kernel {
            doing: format!("bind thread {tid} to core {core}"),
            why: format!("{why}; is the core in its cpuset?"),
        }),
        _ => Ok(()),
    }
}

fn make(folder: &Path) -> Result<(), Error> {
    Real.make(folder).map_err(|why| match why.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Leftover(folder.into()),
        _ => broken("make", folder, &why),
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    Real.write(path, text).map_err(|why| broken(&format!("write {text} to"), path, &why))
}

fn broken(doing: &str, path: &Path, why: &std::io::Error) -> Error {
    Error::Kernel { doing: format!("{doing} {}", path.display()), why: why.to_string() }
}
