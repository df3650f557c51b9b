//! A cgroup (v2) for each task: what is born in it stays in it, and the kernel stops and ends all of it at once.

use giusto_cgroup::{Cgroup, Tree};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The PID namespace in which a machine boots (PROC_PID_INIT_INO).
const MACHINE: &str = "pid:[4026531836]";

/// How names of groups of tasks begin.
pub(crate) const TASK: &str = "giusto-task.";

/// The group of this process, where groups of tasks can be made; else why not, in words.
///
/// Only in the machine's own hierarchy: in a container the host counts and stops by the cgroup that the container is
/// in, and what moved to another one would be neither counted nor stopped. For the same reason not below a service of
/// Giusto's.
pub(crate) fn own() -> Result<Cgroup, String> {
    if std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace != Path::new(MACHINE)) {
        return Err("this is a container, with a PID namespace of its own".into());
    }
    let tree = Tree::find().filter(Tree::is_v2).ok_or("no cgroup v2 is mounted")?;
    let own = tree.of_process(std::process::id()).ok_or("this process is in no cgroup v2")?;
    let below = own.folder().strip_prefix(tree.root()).unwrap_or(Path::new("..")).to_string_lossy().into_owned();
    // The machine's root has no such file; the root that a container sees has.
    if tree.root().join("cgroup.type").exists() || below.contains("..") {
        return Err("this is a container, in a cgroup of its host's".into());
    }
    if below.split('/').any(|part| part.starts_with("giusto.")) {
        return Err("this agent is in the cgroup of a service of Giusto's".into());
    }
    Ok(own)
}

/// Makes a group for a task below this one. What an agent that has lost its state left there is ended.
///
/// Errors: not allowed; it is not this user's alone; the kernel cannot stop or end a group.
pub(crate) fn make(own: &Cgroup, name: &str) -> Result<Cgroup, String> {
    let group = Cgroup::at(own.folder().join(name));
    let told = |why: io::Error| format!("{}: {why}", group.folder().display());
    if group.exists() {
        group.kill().and_then(|()| group.remove()).map_err(told)?;
    }
    group.make().map_err(told)?;
    let wrong = match ["cgroup.kill", "cgroup.freeze"].iter().find(|file| !group.folder().join(file).exists()) {
        Some(file) => format!("the kernel has no {file} (5.14 has both)"),
        None if !is_ours(&group) => format!("others may move processes to {}", group.folder().display()),
        None => return Ok(group),
    };
    let _ = group.remove();
    Err(wrong)
}

/// Whether it is one of a task, and only this user can have moved anything into it.
pub(crate) fn is_ours(group: &Cgroup) -> bool {
    let ours = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0)
    };
    // Whatever is written in a record, nothing else is ended by it.
    let name = group.folder().file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(TASK))
        && ours(group.folder())
        && ours(&group.folder().join("cgroup.procs"))
}

/// Whether a process is right in it.
pub(crate) fn holds(group: &Cgroup, pid: i32) -> bool {
    Tree::find().and_then(|tree| tree.of_process(pid as u32)).is_some_and(|at| at == *group)
}

/// All in it, and all that is born in it, does not execute another instruction of its own until it is let go on. As
/// for a signal, it does not wait until each has noticed: one that gets no processor time does not run either.
pub(crate) fn freeze(group: &Cgroup, frozen: bool) -> io::Result<()> {
    std::fs::write(group.folder().join("cgroup.freeze"), if frozen { "1" } else { "0" })
}
