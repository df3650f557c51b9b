//! Files that people write and name: bounded, regular, UTF-8.

use crate::error::{Fault, SiteError};
use crate::source::Source;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// Largest site file, in bytes: 32 MiB, some 200,000 services with three tasks each.
pub const LARGEST_SITE: usize = 32 << 20;
/// Largest file of any other kind, in bytes: 1 MiB.
pub const LARGEST_FILE: usize = 1 << 20;

/// A kind of file, in the words of its errors.
pub(crate) struct Form {
    /// With its article.
    pub(crate) what: &'static str,
    /// The path of one.
    pub(crate) example: &'static str,
    /// How large it ordinarily is.
    pub(crate) like: &'static str,
    /// How large it may be, in bytes.
    pub(crate) largest: usize,
}

impl Form {
    /// The file's name for errors, and its text.
    pub(crate) fn read(&self, path: &Path) -> Result<(String, String), SiteError> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        // A pipe or a terminal would be waited for; a directory says itself what it is.
        let regular = |found: Metadata| match found.is_file() || found.is_dir() {
            true => Ok(()),
            false => Err(io::Error::other("it is a pipe or a device; write it to a file")),
        };
        path.metadata()
            .and_then(regular)
            .and_then(|()| File::open(path))
            .and_then(|file| file.take(self.largest as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| self.unreadable(&name, &error))?;
        self.bounded(&name, bytes.len())?;
        String::from_utf8(bytes).map(|text| (name.clone(), text)).map_err(|error| {
            let (bytes, valid) = (error.as_bytes(), error.utf8_error().valid_up_to());
            let text = String::from_utf8_lossy(bytes);
            let source = Source::new(&name, &text);
            let at = source.at_char(String::from_utf8_lossy(&bytes[..valid]).chars().count());
            source.error(Fault::new(at, "this is not UTF-8 text", format!("expected {}, saved as UTF-8", self.what)))
        })
    }

    /// Refuses a larger one.
    pub(crate) fn bounded(&self, file: &str, bytes: usize) -> Result<(), SiteError> {
        if bytes <= self.largest {
            return Ok(());
        }
        Err(SiteError::File {
            file: file.to_string(),
            found: format!("the file is larger than {} MiB", self.largest >> 20),
            expected: format!("expected {}, which is {}", self.what, self.like),
        })
    }

    fn unreadable(&self, file: &str, error: &io::Error) -> SiteError {
        let Form { what, example, .. } = self;
        let expected = match error.kind() {
            io::ErrorKind::NotFound => format!("expected the path of {what}, such as {example}; check its spelling"),
            io::ErrorKind::PermissionDenied => "expected a file this user may read; check its owner and mode".into(),
            io::ErrorKind::IsADirectory => format!("expected a file; name {what} in this directory"),
            _ => format!("expected the path of {what}, such as {example}"),
        };
        let bare = what.split_once(' ').map_or(*what, |(_, bare)| bare); // without its article
        SiteError::File { file: file.to_string(), found: format!("cannot read the {bare}: {error}"), expected }
    }
}
