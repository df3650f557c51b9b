//! What is not as it was before, once everything was undone.

use crate::files::Files;
use crate::record::Undo;
use crate::sched;
use std::collections::BTreeSet;

/// Reads back what was changed; a line for each difference. Of several changes of one thing the first tells what was there
/// before, and what other programs have set since is theirs.
pub(crate) fn left(files: &dyn Files, all: &[Undo]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.iter().filter(|step| seen.insert(key(step))).flat_map(|step| differs(files, step)).collect()
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

fn differs(files: &dyn Files, step: &Undo) -> Vec<String> {
    let is = |what: String| vec![what];
    match step {
        Undo::Folder(folder) | Undo::Held { folder, .. } if files.is_folder(folder) => {
            is(format!("{} is there still", folder.display()))
        }
        Undo::Contained { folder, limits, .. } => {
            let there = [folder].into_iter().chain(limits).filter(|folder| files.is_folder(folder));
            there.map(|folder| format!("{} is there still", folder.display())).collect()
        }
        // What takes '+' and '-' tells something else than what was written.
        Undo::File { path, value } if !value.starts_with(['+', '-']) => match files.read(path) {
            Ok(now) if now.trim() != value.trim() => {
                is(format!("{} holds {:?}, and held {:?}", path.display(), now.trim(), value.trim()))
            }
            _ => vec![],
        },
        Undo::Scheduling { thread, before, .. } => match sched::get(thread.tid) {
            Ok(now) if before.is_fair() && !now.is_fair() && thread.alive() => {
                is(format!("thread {} has policy {}, and had {}", thread.tid, now.policy, before.policy))
            }
            _ => vec![],
        },
        Undo::Bound { thread, core, cores } if cores != &[*core] => match sched::affinity(thread.tid) {
            Ok(now) if now == [*core] && thread.alive() => {
                is(format!("thread {} is bound to core {core}, and might run on {cores:?}", thread.tid))
            }
            _ => vec![],
        },
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imitation::Imitation;
    use crate::sched::{Attr, Thread};
    use std::path::Path;

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
