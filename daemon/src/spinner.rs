//! A SCHED_IDLE loop that keeps a core awake: a process of its own, since on cgroup v2 a thread cannot leave its process for
//! the core's cpuset.

use crate::Error;
use giusto_compute::sched::{self, Attr};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Spins until it is dropped.
pub(crate) struct Spinner(Child);

impl Spinner {
    /// Starts it, and has it put on a core. It dies with this process.
    pub(crate) fn start(place: &mut dyn FnMut(u32) -> Result<(), giusto_compute::Error>) -> Result<Self, Error> {
        let doing = || "start a loop that keeps the core awake".to_string();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
        let parent = std::process::id();
        // SAFETY: plain system calls.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                }
                sched::set(0, &Attr::of_policy(sched::IDLE, 0))
            });
        }
        let spinner = Spinner(command.spawn().map_err(|source| Error::Io { doing: doing(), source })?);
        place(spinner.0.id())?;
        Ok(spinner)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
