//! Written down before it is done.

use std::io;

/// Keeps what is to be undone. A change is only made after `intend` has returned.
pub trait Recorder<Undo> {
    /// Writes it down so that it survives a crash. On an error the change is not made.
    fn intend(&mut self, undo: &Undo) -> io::Result<()>;
}

/// In memory only: for changes that end with the process anyway, and for tests.
impl<Undo: Clone> Recorder<Undo> for Vec<Undo> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.push(undo.clone());
        Ok(())
    }
}
