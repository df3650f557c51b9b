//! What can be wrong with a file, and where.

use std::fmt;

/// Why a file is not what it should be. Each text says where, what was found, what was expected and, where sensible, what to write
/// instead. Always bad input: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The file as a whole cannot be read.
    #[error("{file}: {found}\n  {expected}")]
    File {
        /// The path as it was given.
        file: String,
        /// What happened.
        found: String,
        /// What was expected, and what to do.
        expected: String,
    },
    /// Something in its text makes no sense.
    #[error("{0}")]
    Text(Box<Located>),
}

/// An error at a place in the text.
#[derive(Debug)]
pub struct Located {
    /// The file's name as it was given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub found: String,
    /// What was expected, and what to do.
    pub expected: String,
    /// The line, shortened around the place if it is very long.
    pub(crate) excerpt: String,
    /// Characters of the excerpt before the marker.
    pub(crate) indent: usize,
    /// Length of the marker, at least 1.
    pub(crate) width: usize,
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Located { file, line, column, found, expected, excerpt, indent, width } = self;
        let gutter = line.to_string().len();
        writeln!(f, "{file}:{line}:{column}: {found}")?;
        writeln!(f, "  {}", format!("{line} | {excerpt}").trim_end())?;
        writeln!(f, "  {:gutter$} | {:indent$}{:^<width$}", "", "", "")?;
        write!(f, "  {expected}")
    }
}

/// A range of the text on one line, or its first line: line and columns in characters, all from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Characters on this line.
    pub(crate) width: usize,
}

/// An error that does not know its file yet.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: Span,
    pub(crate) found: String,
    pub(crate) expected: String,
}

impl Fault {
    pub(crate) fn new(at: Span, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Fault { at, found: found.into(), expected: expected.into() }
    }
}
