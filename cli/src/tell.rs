//! Standard error.

use std::io::Write;

/// Says a line on standard error. Where that cannot be written, the exit code has to do.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
