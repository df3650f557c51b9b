//! Records that nothing follows from any more, so that a journal does not grow with every restart of a service.

use crate::files::{Files, Real};
use crate::sched::{self, Thread};
use crate::Undo;
use std::collections::BTreeSet;
use std::path::Path;

/// Which of `all` have nothing to undo, now and later: their threads have ended, and their folders are gone. To be asked when no
/// change is under way, as its record may stand there before there is a folder. The bandwidth of a thread that has ended with its
/// reservation stays booked for up to one period (4.2 s at most by default) more: who forgets waits that long.
///
/// Reads the process table once.
pub fn spent<'a>(all: &'a [Undo]) -> Vec<bool> {
    let leaders = sched::leaders();
    let ended = |thread: &Thread| !thread.alive();
    // Others may be of its group or session, and go by its record.
    let alone = |process: &Thread| ended(process) && !leaders.contains(&process.tid);
    let gone = |folder: &Path| !Real.is_folder(folder);
    let mut places: BTreeSet<&Path> = BTreeSet::new();
    let mut one = |step: &'a Undo| match step {
        Undo::Bandwidth { .. } => false,
        Undo::Folder(folder) | Undo::Held { folder, .. } => gone(folder),
        Undo::File { path, .. } => path.parent().is_some_and(gone),
        // The first one from each group says where others go whose own home is not known.
        Undo::Place { process, from, .. } => (gone(from) || !places.insert(from)) && alone(process),
        Undo::Affinity { thread, .. } | Undo::Scheduling { thread, .. } | Undo::Stopped(thread) => ended(thread),
        Undo::Bound { thread, .. } => alone(thread),
        Undo::Group(leader) => alone(leader),
        Undo::Contained { folder, limits, .. } => gone(folder) && limits.iter().all(|folder| gone(folder)),
    };
    all.iter().map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Attr;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn what_the_living_go_by_is_kept_and_the_rest_is_spent() {
        let here = tempfile::tempdir().unwrap();
        let there = here.path().to_path_buf();
        let nowhere = there.join("gone");
        // A leader that has ended, whose child is of its group.
        let mut leader = Command::new("sh").args(["-c", "sleep 1000 &"]).process_group(0).spawn().unwrap();
        let group = Thread { tid: leader.id(), started: 1 };
        leader.wait().unwrap();
        let (own, dead) = (Thread::of(std::process::id()).unwrap(), Thread { tid: u32::MAX / 2, started: 1 });
        let place = |process, from: &Path| Undo::Place { process, back_to: "/home".into(), from: from.into() };
        let before = Attr::default();
        let cases = [
            (Undo::Folder(there.clone()), false),
            (Undo::Folder(nowhere.clone()), true),
            (Undo::Contained { folder: nowhere.clone(), limits: vec![there.clone()], end_within_ns: 0 }, false),
            (Undo::Contained { folder: nowhere.clone(), limits: vec![nowhere.clone()], end_within_ns: 0 }, true),
            (Undo::File { path: there.join("file"), value: "1".into() }, false),
            (Undo::File { path: nowhere.join("file"), value: "1".into() }, true),
            (place(dead, &there), false),
            (place(dead, &there), true),
            (place(group, &there), false),
            (place(own, &there), false),
            (place(dead, &nowhere), true),
            (Undo::Bound { thread: own, core: 0, cores: vec![] }, false),
            (Undo::Bound { thread: group, core: 0, cores: vec![] }, false),
            (Undo::Bound { thread: dead, core: 0, cores: vec![] }, true),
            (Undo::Scheduling { thread: own, before, period_ns: 1 }, false),
            (Undo::Scheduling { thread: dead, before, period_ns: 1 }, true),
            (Undo::Affinity { thread: dead, cores: vec![] }, true),
            (Undo::Stopped(dead), true),
            (Undo::Stopped(own), false),
            (Undo::Group(group), false),
            (Undo::Group(dead), true),
        ];
        let all: Vec<Undo> = cases.iter().map(|(undo, _)| undo.clone()).collect();
        for ((undo, expected), spent) in cases.iter().zip(spent(&all)) {
            assert_eq!(spent, *expected, "{undo:?}");
        }
        for pid in sched::group(group.tid) {
            // SAFETY: plain system call; a child of our child, in a group of its own.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    }
}
