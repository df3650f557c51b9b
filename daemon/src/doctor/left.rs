//! What an earlier giusto has left, and where the next one keeps its journal.

use super::check::Check;
use crate::journal::state_folder as folder;
use crate::peek::{left, Left};
use rustix::fs::{access, Access};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn journal() -> Check {
    let name = "left by an earlier giusto";
    match left() {
        Ok(Left::Nothing) => Check::ok(name, "nothing"),
        Ok(Left::Runs(pid)) => {
            let how = "'giusto status' tells how it stands; only one enforces at a time";
            Check::note(name, format!("a giusto runs (process {pid})"), how)
        }
        Ok(Left::Changes { changes, damaged: 0 }) => {
            Check::note(name, format!("{changes} changes that are not undone"), "undo them: giusto restore")
        }
        Ok(Left::Changes { changes, damaged }) => {
            let how = "run 'giusto restore', which says what to look for and which file to remove then";
            Check::missing(name, format!("{changes} changes and {damaged} damaged lines in its journal"), how)
        }
        Err(why) => Check::note(name, format!("cannot tell: {why}"), "run as root: sudo giusto doctor"),
    }
}

/// Whether the journal can be kept; without it nothing is changed.
pub(super) fn state_folder() -> Check {
    let folder = folder();
    let shown = folder.display();
    match refused(&folder) {
        None => Check::ok("undo journal", format!("can be kept in {shown}")),
        Some(why) => {
            let how = "run as root, or name a folder of your own, of mode 0700: GIUSTO_STATE=FOLDER giusto run ...";
            Check::missing("undo journal", format!("cannot be kept in {shown}: {why}"), how)
        }
    }
}

/// Why a folder cannot be made or used.
fn refused(folder: &Path) -> Option<String> {
    let Ok(found) = fs::metadata(folder) else {
        let parent = folder.ancestors().skip(1).find(|one| one.exists())?;
        let writable = access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        return (!writable).then(|| format!("no write access to {}", parent.display()));
    };
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Some("it is not only yours to write".into());
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).err().map(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_write_is_refused_and_one_that_is_not_there_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("state");
        assert_eq!(refused(&own.join("deeper")), None);
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&own).is_some_and(|why| why.contains("yours")));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(refused(&own), None);
    }
}
