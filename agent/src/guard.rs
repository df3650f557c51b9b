//! An agent that is killed is back at once: half a switch of tasks must not stay.

use crate::{cannot, Error};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// In the environment of the one that is guarded.
const GUARDED: &str = "GIUSTO_AGENT_GUARDED";

/// Runs `work` in a process of its own, the same program with the same arguments, and starts it again whenever a signal has ended it. It
/// ends with this process. What it returns itself is the end: its exit code.
pub fn guarded(work: impl FnOnce() -> ExitCode) -> Result<ExitCode, Error> {
    if std::env::var_os(GUARDED).is_some() {
        return Ok(work());
    }
    // The first process of a container gets only the signals that it has asked for. What it runs ends with it.
    // SAFETY: the handler only makes a system call.
    unsafe { libc::signal(libc::SIGTERM, end as *const () as libc::sighandler_t) };
    let own = std::process::id();
    let _ = rustix::thread::set_name(c"giusto-guard"); // the agent is the other one
    loop {
        let mut command = Command::new("/proc/self/exe");
        command.args(std::env::args_os().skip(1)).env(GUARDED, "1");
        let with_its_parent = move || {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // It may have died before.
            match rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32) == Some(own) {
                true => Ok(()),
                false => Err(std::io::ErrorKind::NotFound.into()),
            }
        };
        // SAFETY: only system calls that are allowed between fork and exec.
        let mut child = unsafe { command.pre_exec(with_its_parent) }.spawn().map_err(cannot("start the agent"))?;
        let status = child.wait().map_err(cannot("wait for the agent"))?;
        match status.signal() {
            Some(signal) => eprintln!("the agent was ended by signal {signal}; it is started again"),
            None => return Ok(ExitCode::from(status.code().unwrap_or(4) as u8)),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: allowed in a signal handler.
    unsafe { libc::_exit(0) };
}
