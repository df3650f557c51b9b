//! The agent in a virtual machine or container: switches its tasks when the host's manager says so ([LiH21, § 2.3]:
//! domain mode manager), and asks for another mode where a program in there wants one.
//!
//! Called by `giusto agent` and the small program `giusto-agent`. An agent's file flows in; commands come over a
//! socket, and signals, writes to the freezer and acknowledgements go out. What it does when is decided in `modes`;
//! this room has the socket, the clock, the task engine and what a restarted agent has to know. It gives no
//! task processor time.

mod asks;
mod cgroup;
mod engine;
mod error;
mod guard;
mod link;
mod process;
mod state;
mod task;
mod worker;

pub use asks::ask;
pub use error::Error;
pub use worker::{key, make_key};

use std::path::Path;
use std::process::ExitCode;

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
