//! Why an agent cannot work.

use std::io;
use std::path::PathBuf;

/// Why an agent cannot work. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file is wrong (exit code 2).
    #[error(transparent)]
    File(#[from] giusto_site::SiteError),
    /// Its key is no key (exit code 2).
    #[error("key {path}: {what}; make one with: head -c 32 /dev/urandom > {path}; chmod 600 {path}, and give the host the same")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another agent of this service runs here (exit code 2).
    #[error("an agent of service '{0}' runs here already; stop it first")]
    Twice(String),
    /// What it keeps could be written by others (exit code 2).
    #[error(
        "{0} can be written by others than this user, or is a link: what is written there decides which processes are \
             stopped; expected a folder of this user's, mode 0700, and plain files in it"
    )]
    State(PathBuf),
    /// Its processes could not be told from others (exit code 3).
    #[error("{0}")]
    Proc(&'static str),
    /// Something of this machine does not work (exit code 4).
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// No answer (exit code 3).
    #[error("no agent of service '{service}' runs here ({path}: {source}); start it: giusto agent FILE")]
    NoAnswer {
        /// Of which service.
        service: String,
        /// Its socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// The exit code that says so (DESIGN, "Errors").
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::File(_) | Error::Key { .. } | Error::Twice(_) | Error::State(_) => 2,
            Error::NoAnswer { .. } | Error::Proc(_) => 3,
            Error::Io { .. } => 4,
        }
    }
}

pub(crate) fn cannot(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Io { doing, source }
}
