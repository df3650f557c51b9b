//! An agent that is killed is back at once: half a switch of tasks must not stay. One that is told to end (SIGTERM,
//! SIGINT) ends its tasks too.

use crate::error::{cannot, Error};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// In the environment of the one that is guarded.
const GUARDED: &str = "GIUSTO_AGENT_GUARDED";

/// Runs `work` in a process of its own, the same program with the same arguments, and starts it again whenever a
/// signal has ended it. It ends with this process. What it returns itself is the end: its exit code. `end` is what is
/// done when this process is told to end.
///
/// As the first process of a container this one has also the children of all that have died there.
pub(crate) fn guarded(work: impl FnOnce() -> ExitCode, end: impl FnOnce() -> ExitCode) -> Result<ExitCode, Error> {
    if std::env::var_os(GUARDED).is_some() {
        return Ok(work());
    }
    let signals = block([libc::SIGTERM, libc::SIGINT, libc::SIGCHLD]);
    let _ = rustix::thread::set_name(c"giusto-guard"); // the agent is the other one
    loop {
        let agent = start()?;
        let status = loop {
            if let Some(status) = reap(agent) {
                break status;
            }
            // SAFETY: plain system call with a set of our own.
            match unsafe { libc::sigwaitinfo(&signals, std::ptr::null_mut()) } {
                libc::SIGTERM | libc::SIGINT => {
                    // SAFETY: plain system calls; it is our child and not reaped.
                    unsafe {
                        libc::kill(agent, libc::SIGKILL);
                        libc::waitpid(agent, std::ptr::null_mut(), 0);
                    }
                    return Ok(end());
                }
                _ => {}
            }
        };
        if !libc::WIFSIGNALED(status) {
            return Ok(ExitCode::from(libc::WEXITSTATUS(status) as u8));
        }
        eprintln!("the agent was ended by signal {}; it is started again", libc::WTERMSIG(status));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start() -> Result<libc::pid_t, Error> {
    let own = std::process::id();
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(GUARDED, "1");
    let with_its_parent = move || {
        let mut none = std::mem::MaybeUninit::uninit();
        // SAFETY: plain system calls with a set of our own.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have died before.
        match rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32) == Some(own) {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: only system calls that are allowed between fork and exec.
    let child = unsafe { command.pre_exec(with_its_parent) }.spawn().map_err(cannot("start the agent"))?;
    Ok(child.id() as libc::pid_t)
}

/// Reaps all children that have ended; how this one did, if it is among them.
fn reap(agent: libc::pid_t) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: plain system call.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            pid if pid == agent => return Some(status),
            pid if pid <= 0 => return None,
            _ => {}
        }
    }
}

/// From now on these only come to who waits for them.
fn block<const N: usize>(signals: [i32; N]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: plain calls; the set is filled before it is read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        signals.into_iter().for_each(|signal| _ = libc::sigaddset(set.as_mut_ptr(), signal));
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        set.assume_init()
    }
}
