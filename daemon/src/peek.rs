//! What stands in this host's journal, without holding or changing it.

use crate::journal::{holder, read, state_folder, Found};
use crate::undo_entry::parks;
use giusto_compute::sched::Thread;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The plan in force of a giusto that runs, in the state folder.
pub(crate) const OWN_PLAN: &str = "plan.json";

/// Cores that a giusto has parked which has not been undone: by its journal, which is neither locked nor changed. None
/// where it may not be read.
pub(crate) fn parked() -> Vec<u32> {
    let found = File::open(state_folder().join("journal")).and_then(|mut file| read(&mut file));
    let Ok(found) = found else { return Vec::new() };
    let ours = found.knows_its_boot() && !found.of_an_earlier_boot();
    found.changes.iter().filter(|_| ours).filter_map(parks).collect()
}

/// The giusto that runs on this host, and the plan that it has in force. `None` where none runs or its folder may not be read.
pub fn running_plan() -> Option<(u32, PathBuf)> {
    let plan = state_folder().join(OWN_PLAN);
    match left() {
        Ok(Left::Runs(pid)) if plan.is_file() => Some((pid, plan)),
        _ => None,
    }
}

/// How this host's journal stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing is to be undone.
    Nothing,
    /// A giusto runs.
    Runs(u32),
    /// One that died has left so many changes and unreadable lines.
    Changes { changes: usize, damaged: usize },
}

/// Reads the journal.
///
/// # Errors
/// Those of reading it; that there is none is no error.
pub(crate) fn left() -> io::Result<Left> {
    let mut file = match File::open(state_folder().join("journal")) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Left::Nothing),
        other => other?,
    };
    if let Some(pid) = holder(&file).filter(|&pid| Thread::of(pid).is_some()) {
        return Ok(Left::Runs(pid));
    }
    let found: Found = read(&mut file)?;
    let (changes, damaged) = (found.changes.len(), found.damaged);
    match changes + damaged == 0 || found.of_an_earlier_boot() {
        true => Ok(Left::Nothing),
        false => Ok(Left::Changes { changes, damaged }),
    }
}
