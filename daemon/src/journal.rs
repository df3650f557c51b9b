//! The undo journal: what giusto changed on this host, on disk before it is changed.
//!
//! One line a change: a checksum and JSON. A line that was cut off by a crash was never acted upon (the change is made only
//! after the line is on disk), so a torn last line is dropped. The journal lives in /run/giusto (or $GIUSTO_STATE), which a
//! reboot empties together with everything that it would undo.

use crate::Error;
use giusto_compute::{undo, Machine, Recorder, Report, Undo};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;

/// First line: what the host was like before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    boot: String,
    pid: u32,
    /// Cores that could be reserved at once.
    reservable: usize,
}

/// The journal of this host, held exclusively: one giusto at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    done: Vec<Undo>,
    head: Head,
}

/// What [`Journal::restore`] found and did.
#[derive(Debug, Default, Serialize)]
pub struct Restored {
    /// Changes undone.
    pub undone: usize,
    /// What could not be undone, and why; empty is good.
    pub failed: Vec<String>,
}

impl Journal {
    /// Opens this host's journal and undoes what an earlier giusto has left in it.
    ///
    /// Errors: another giusto runs (named by its process id), or the state folder cannot be written.
    pub fn open(machine: &Machine) -> Result<(Journal, Restored), Error> {
        let folder = std::env::var_os("GIUSTO_STATE").map_or(PathBuf::from("/run/giusto"), PathBuf::from);
        let path = folder.join("journal");
        let cannot = |source| Error::Io { doing: format!("open the undo journal {}", path.display()), source };
        fs::create_dir_all(&folder).map_err(cannot)?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(cannot)?;
        if let Err(error) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(cannot(error.into()));
            }
            let owner = read(&mut file).ok().and_then(|(head, _)| head).map_or(0, |head| head.pid);
            return Err(Error::Busy { pid: owner });
        }
        let (old, pending) = read(&mut file).map_err(cannot)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string();
        let mut journal = Journal { path, file, done: Vec::new(), head: Head { boot, pid: 0, reservable: 0 } };
        let mut restored = Restored::default();
        if let Some(head) = old.filter(|head| head.boot == journal.head.boot) {
            journal.head = head;
            journal.done = pending;
            restored = journal.restore(machine)?;
        }
        Ok((journal, restored))
    }

    /// Starts a new record of this process's changes.
    pub fn begin(&mut self, machine: &Machine) -> Result<(), Error> {
        self.head.pid = std::process::id();
        self.head.reservable = giusto_compute::reservable_cores(machine.cores.len());
        self.done.clear();
        let head = self.head.clone();
        self.clear().and_then(|()| self.append(&head)).map_err(|source| self.error("write", source))
    }

    /// Undoes everything and empties the journal; changes that could not be undone stay in it.
    pub fn restore(&mut self, machine: &Machine) -> Result<Restored, Error> {
        let Report { undone, mut failed } = undo(&self.done);
        if failed.is_empty() {
            if !self.done.is_empty() {
                if let Err(text) =
                    giusto_compute::settle(machine.cpusets.as_ref(), self.head.reservable, machine.cores.len())
                {
                    failed.push(text);
                }
            }
            self.done.clear();
            self.clear().map_err(|source| self.error("empty", source))?;
        }
        Ok(Restored { undone, failed })
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.sync_data()
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        self.file.write_all(format!("{:016x} {text}\n", checksum(text.as_bytes())).as_bytes())?;
        self.file.sync_data()
    }

    fn error(&self, what: &str, source: io::Error) -> Error {
        Error::Io { doing: format!("{what} the undo journal {}", self.path.display()), source }
    }
}

impl Recorder for Journal {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.append(undo)?;
        self.done.push(undo.clone());
        Ok(())
    }
}

/// Head and changes up to the first line that is torn.
fn read(file: &mut File) -> io::Result<(Option<Head>, Vec<Undo>)> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.split_inclusive('\n').map_while(|line| {
        let (sum, json) = line.strip_suffix('\n')?.split_once(' ')?;
        (u64::from_str_radix(sum, 16).ok()? == checksum(json.as_bytes())).then_some(json)
    });
    let head = lines.next().and_then(|json| serde_json::from_str(json).ok());
    Ok((head, lines.map_while(|json| serde_json::from_str(json).ok()).collect()))
}

/// FNV-1a, 64 bits: tells a torn line from a whole one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_dropped_and_all_before_it_are_kept() {
        let mut file = tempfile::tempfile().unwrap();
        let folder = |name: &str| Undo::Folder(PathBuf::from(name));
        let line = |json: String| format!("{:016x} {json}\n", checksum(json.as_bytes()));
        let head = Head { boot: "b".into(), pid: 1, reservable: 2 };
        let mut whole = line(serde_json::to_string(&head).unwrap());
        whole += &line(serde_json::to_string(&folder("/a")).unwrap());
        let kept = whole.len();
        whole += &line(serde_json::to_string(&folder("/b")).unwrap());
        for cut in kept..whole.len() {
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            file.write_all(&whole.as_bytes()[..cut]).unwrap();
            assert_eq!(read(&mut file).unwrap(), (Some(head.clone()), vec![folder("/a")]), "cut at {cut}");
        }
        file.rewind().unwrap();
        file.write_all(whole.as_bytes()).unwrap();
        assert_eq!(read(&mut file).unwrap().1.len(), 2);
        // A flipped bit is a torn line too.
        let mut flipped = whole.into_bytes();
        flipped[kept + 20] ^= 1;
        file.rewind().unwrap();
        file.write_all(&flipped).unwrap();
        assert_eq!(read(&mut file).unwrap().1.len(), 1);
    }
}
