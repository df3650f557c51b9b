//! What the rooms that change a host have in common: who a thread is, and that a change is written down before it is
//! made. It changes nothing itself.

mod record;
mod thread;

pub use record::Recorder;
pub use thread::Thread;

use std::io::Read;
use std::path::Path;
use std::{fs, io};

/// The text of a file that the kernel makes. It has no size, so that [`fs::read_to_string`] reads it in small pieces:
/// six system calls more for a `/proc/PID/stat`.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(4096);
    fs::File::open(path)?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}
