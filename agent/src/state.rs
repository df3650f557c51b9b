//! What a restarted agent has to know: the last command, in a file that only one agent can hold.

use crate::{cannot, Error};
use giusto_modes::Intention;
use rustix::fs::{flock, FlockOperation};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of the file, always: one write replaces all of it.
const SIZE: usize = 128;

pub(crate) struct State {
    file: File,
    path: PathBuf,
}

impl State {
    /// The state of the agent of `service` below `folder`, and what was written last, if this machine still knows.
    pub(crate) fn open(folder: &Path, service: &str) -> Result<(State, Option<Intention>), Error> {
        fs::create_dir_all(folder).map_err(cannot(format!("make the folder {}", folder.display())))?;
        let path = folder.join(service);
        let doing = || format!("open {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(cannot(doing()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Twice(service.into()))?;
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        let kept = read.ok().and_then(|_| serde_json::from_str(text.trim_end()).ok());
        Ok((State { file, path }, kept))
    }

    /// Survives the death of this process, not that of the machine, with which the tasks go too: so nothing is synced.
    pub(crate) fn keep(&self, intention: &Intention) -> Result<(), Error> {
        let doing = || cannot(format!("write {}", self.path.display()));
        let text = serde_json::to_string(intention).map_err(|why| doing()(why.into()))?;
        self.file.write_all_at(format!("{text:SIZE$}").as_bytes(), 0).map_err(doing())
    }
}
