//! What is not as it was before, once everything was undone.

use crate::files::Files;
use crate::record::Undo;
use crate::sched;
use std::collections::BTreeSet;
use std::path::Path;

/// Reads back what was changed; a line for each difference. Of several changes of one thing the first tells what was there
/// before, and what other programs have set since is theirs.
pub(crate) fn left(files: &dyn Files, all: &[Undo]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.iter().filter(|step| seen.insert(key(step))).filter_map(|step| differs(files, step)).collect()
}

/// What a step is about.
fn key(step: &Undo) -> (u8, String) {
    match step {
        Undo::File { path, .. } => (0, path.display().to_string()),
        Undo::Scheduling { thread, .. } => (1, format!("{thread:?}")),
        Undo::Bound { thread, .. } => (2, format!("{thread:?}")),
        other => (3, format!("{other:?}")),
    }
}

/// What of it is not as it was before; `None`: nothing, or it has gone.
fn differs(files: &dyn Files, step: &Undo) -> Option<String> {
    let there = |folder: &Path| files.is_folder(folder).then(|| format!("{} is there still", folder.display()));
    match step {
        Undo::Folder(folder) | Undo::Held { folder, .. } => there(folder),
        Undo::Contained { folder, limits, .. } => [folder].into_iter().chain(limits).find_map(|folder| there(folder)),
        // What takes '+' and '-' tells something else than what was written.
        Undo::File { path, value } if !value.starts_with(['+', '-']) => {
            let now = files.read(path).ok().filter(|now| now.trim() != value.trim())?;
            Some(format!("{} holds {:?}, and held {:?}", path.display(), now.trim(), value.trim()))
        }
        Undo::Scheduling { thread, before, .. } => {
            let now = sched::get(thread.tid).ok().filter(|now| before.is_fair() && !now.is_fair() && thread.alive())?;
            Some(format!("thread {} has policy {}, and had {}", thread.tid, now.policy, before.policy))
        }
        Undo::Bound { thread, core, cores } if cores != &[*core] => {
            sched::affinity(thread.tid).ok().filter(|now| *now == [*core] && thread.alive())?;
            Some(format!("thread {} is bound to core {core}, and might run on {cores:?}", thread.tid))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imitation::Imitation;
    use crate::sched::{Attr, Thread};

    #[test]
    fn what_is_there_still_or_holds_something_else_is_told_once() {
        let files = Imitation::cpu(false);
        let folder = Path::new(crate::imitation::ROOT).join("giusto.a");
        files.make(&folder).unwrap();
        let file = folder.join("cpu.rt_runtime_us");
        let held = |value: &str| Undo::File { path: file.clone(), value: value.into() };
        let now = files.read(&file).unwrap();
        let all = [Undo::Folder(folder.clone()), Undo::Folder(folder.clone()), held("7"), held(&now)];
        let left = left(&files, &all);
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].contains("giusto.a is there still") && left[1].contains("and held \"7\""), "{left:?}");
        assert_eq!(super::left(&files, &[held(&now), held("7")]), Vec::<String>::new(), "the first one tells");
        files.remove(&folder).unwrap();
        assert_eq!(super::left(&files, &all), Vec::<String>::new());
    }

    #[test]
    fn a_thread_that_has_what_it_had_is_passed_over_and_so_is_one_that_has_gone() {
        let own = Thread::of(std::process::id()).unwrap();
        let before = sched::get(own.tid).unwrap();
        let cores = sched::affinity(own.tid).unwrap();
        let as_before =
            [Undo::Scheduling { thread: own, before, period_ns: 0 }, Undo::Bound { thread: own, core: 0, cores }];
        let gone = Undo::Scheduling { thread: Thread { started: 1, ..own }, before: Attr::default(), period_ns: 0 };
        assert_eq!(left(&Imitation::cpu(false), &as_before), Vec::<String>::new());
        assert_eq!(left(&Imitation::cpu(false), &[gone]), Vec::<String>::new());
    }
}
