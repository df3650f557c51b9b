//! The cgroup tree's files as a trait, so that v1 and v2 can be tried on an imitation that keeps the kernel's rules.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Control files and folders.
pub(crate) trait Files {
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes a control file in one call; it must be there.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Makes a cgroup.
    fn make(&self, path: &Path) -> io::Result<()>;
    /// Removes a cgroup; EBUSY while it has members.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Whether there is a cgroup.
    fn is_folder(&self, path: &Path) -> bool;
    /// Cgroups directly below one, in any order.
    fn below(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// This machine's.
pub(crate) struct Real;

impl Files for Real {
    fn read(&self, path: &Path) -> io::Result<String> {
        giusto_host::read(path)
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // Not fs::write: a control file that is not there is an error, not to be made. Of nothing the kernel is told by a line
        // that is empty.
        let text = if text.is_empty() { "\n" } else { text };
        io::Write::write_all(&mut fs::OpenOptions::new().write(true).open(path)?, text.as_bytes())
    }
    fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn below(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path)?.filter_map(Result::ok);
        Ok(entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect())
    }
}
