//! What a giusto that is started again has to know of modes: a file beside the journal.

use crate::Error;
use giusto_modes::{Kept, Table};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FILE: &str = "modes.json";

/// One write replaces all of it; a death of this process tears no write. With the machine it goes, as do all reservations.
pub(super) struct Memory {
    file: File,
    digest: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct Page {
    /// Of each member's local modes.
    digest: Vec<u64>,
    kept: Kept,
}

impl Memory {
    pub(super) fn open(folder: &Path, table: &Table) -> Result<Memory, Error> {
        let path = folder.join(FILE);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|source| Error::Io { doing: format!("open {}", path.display()), source })?;
        Ok(Memory { file, digest: table.members().iter().map(giusto_modes::Member::digest).collect() })
    }

    /// Errors are told, and the change goes on: the reservations are right, only a restart would not know of it.
    pub(super) fn keep(&self, kept: &Kept) {
        let page = Page { digest: self.digest.clone(), kept: kept.clone() };
        let text = serde_json::to_string(&page).unwrap_or_default() + "\n";
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        if let Err(why) = written {
            tracing::warn!("a mode change cannot be written down: {why}; a giusto that is started again would begin in the first mode");
        }
    }
}

/// What an earlier giusto kept of these very modes.
pub(super) fn earlier(folder: &Path, table: &Table) -> Option<Kept> {
    let text = std::fs::read_to_string(folder.join(FILE)).ok()?;
    // A longer page may have been written over before it was cut.
    let page: Page = serde_json::from_str(text.lines().next()?).ok()?;
    let same = table.members().iter().map(giusto_modes::Member::digest).eq(page.digest.iter().copied());
    let count = table.members().len();
    (same && page.kept.from.len() == count && page.kept.to.len() == count).then_some(page.kept)
}

/// An orderly end: the next giusto begins in the first mode.
pub(crate) fn forget(folder: &Path) -> PathBuf {
    let path = folder.join(FILE);
    let _ = std::fs::remove_file(&path);
    path
}
