//! What started services write: a file for each, `NAME.log`, which does not grow without bound.
//!
//! The service has the file itself, so that writing never waits for Giusto. A file beyond [`LARGEST`] becomes
//! `NAME.log.1` and is emptied, as logrotate's copytruncate does: what is written in between is lost, a line or two.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of a log; there are at most this and [`OLD`] earlier ones.
const LARGEST: u64 = 8 << 20;
const OLD: u32 = 3;

/// Opens a log to be added to.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::options().create(true).append(true).open(path)
}

/// Begins anew where a log is too large. One that has gone is passed over.
pub(crate) fn rotate(path: &Path) -> io::Result<()> {
    rotate_beyond(path, LARGEST)
}

fn rotate_beyond(path: &Path, largest: u64) -> io::Result<()> {
    let Ok(length) = fs::metadata(path).map(|found| found.len()) else { return Ok(()) };
    if length <= largest {
        return Ok(());
    }
    let old = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    for number in (1..OLD).rev().filter(|&number| old(number).exists()) {
        fs::rename(old(number), old(number + 1))?;
    }
    let mut log = File::options().read(true).write(true).open(path)?;
    // Of one that grew by more than that since the last look, the end.
    log.seek(SeekFrom::Start(length.saturating_sub(largest * 2)))?;
    io::copy(&mut (&log).take(largest * 2), &mut File::create(old(1))?)?;
    log.set_len(0)
}

/// The last line of a log, and where all of it is.
pub(crate) fn last_line(path: &Path) -> String {
    let text = tail(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.map(|line| format!("; its last line: {}", line.trim())).unwrap_or_default();
    format!("{line} (all of it: {})", path.display())
}

fn tail(path: &Path) -> io::Result<Vec<u8>> {
    const ENOUGH: u64 = 4096;
    let mut log = File::open(path)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
    let mut text = Vec::new();
    log.take(ENOUGH).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_log_stays_bounded_and_its_writer_notices_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let mut log = open(&path).unwrap();
        for round in 0..10 {
            writeln!(log, "{round}{}", "x".repeat(99)).unwrap();
            rotate_beyond(&path, 50).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "");
        }
        writeln!(log, "the end").unwrap();
        rotate_beyond(&path, 50).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the end\n");
        let of = |number: u32| fs::read_to_string(folder.path().join(format!("x.log.{number}"))).unwrap();
        assert!(of(1).starts_with('9') || of(1).ends_with("x\n"), "the last one that was too large");
        assert!(!folder.path().join("x.log.4").exists() && of(3).len() == 100);
        assert!(last_line(&path).contains("the end"));
        assert!(rotate(&folder.path().join("none")).is_ok());
    }
}
