//! The agent in a virtual machine or container: switches its tasks when the host's manager says so ([LiH21, § 2.3]:
//! domain mode manager), and asks for another mode where somebody in there wants one.
//!
//! Called by `giusto agent` and the small program `giusto-agent`. An agent's file flows in; commands come over a
//! socket, and signals, writes to the freezer and acknowledgements go out. What it does when is decided in `modes`;
//! this room has the socket, the clock, the task engine and what a restarted agent has to know. It gives nobody
//! processor time.

mod asks;
mod cgroup;
mod engine;
mod guard;
mod link;
mod process;
mod state;
mod task;
mod worker;

pub use asks::ask;
pub use worker::{key, make_key};

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    #[error("{0} can be written by others than this user, or is a link: what is written there decides which processes are stopped; expected a folder of this user's, mode 0700, and plain files in it")]
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
    /// Nobody answers (exit code 3).
    #[error("no agent of service '{service}' runs here ({path}: {source}); start it: giusto agent FILE")]
    Nobody {
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
            Error::Nobody { .. } | Error::Proc(_) => 3,
            Error::Io { .. } => 4,
        }
    }
}

/// Works as the agent of `file` until it is killed, or (`mode`) asks the one that works for another mode and prints
/// what became of it; exit code 0 if it is in force, 5 if not.
pub fn serve(file: &Path, mode: Option<&str>) -> Result<ExitCode, Error> {
    let file = giusto_site::agent::read(file)?;
    let Some(mode) = mode else {
        let say = &mut |text: String| eprintln!("{text}");
        let ended = |done: Result<(), Error>| {
            done.map_or_else(
                |error| {
                    eprintln!("giusto-agent: {error}");
                    ExitCode::from(error.exit_code())
                },
                |()| ExitCode::SUCCESS,
            )
        };
        return guard::guarded(|| ended(worker::work(file.clone(), say)), || ended(worker::end(&file)));
    };
    let word = ask(&file.state, &file.service, mode)?;
    println!("{word}");
    Ok(ExitCode::from(if word == "done" { 0 } else { 5 }))
}

fn cannot(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Io { doing, source }
}
