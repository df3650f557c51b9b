//! Waking a sleeping thread for a moment.
//!
//! A thread that sleeps while its cores change stays booked on the core where it fell asleep until it wakes, and the
//! kernel judges SCHED_DEADLINE by that core: EPERM. A thread that never wakes by itself is therefore interrupted once as
//! a debugger would (PTRACE_SEIZE, INTERRUPT, DETACH), which is what the system's suspend and the cgroup freezer do to
//! every program: a blocked call is restarted, or returns EINTR where signal(7) says so. If Giusto dies in between, the
//! kernel detaches and the thread goes on.

use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Interrupts thread `tid` and lets it go on. Needs the right to trace it.
pub(crate) fn nudge(tid: u32) -> io::Result<()> {
    // On a thread of its own: whatever happens, its end detaches.
    let tracer = std::thread::spawn(move || interrupt(tid as libc::pid_t));
    tracer.join().unwrap_or_else(|_| Err(io::Error::other("the tracing thread broke down")))
}

fn interrupt(tid: libc::pid_t) -> io::Result<()> {
    trace(libc::PTRACE_SEIZE, tid, 0)?;
    trace(libc::PTRACE_INTERRUPT, tid, 0)?;
    let limit = Instant::now() + Duration::from_secs(1);
    while Instant::now() < limit {
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        match unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::WNOHANG) } {
            0 => std::thread::sleep(Duration::from_millis(1)),
            -1 => return Err(io::Error::last_os_error()),
            // Stopped by a signal that came first: it is delivered, not swallowed.
            _ if libc::WIFSTOPPED(status) && status >> 16 == 0 => {
                return trace(libc::PTRACE_DETACH, tid, libc::WSTOPSIG(status));
            }
            _ => return trace(libc::PTRACE_DETACH, tid, 0),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn trace(request: libc::c_uint, tid: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: none of the requests used here reads or writes through its address or data.
    let answer =
        unsafe { libc::ptrace(request, tid, null_mut::<libc::c_void>(), signal as usize as *mut libc::c_void) };
    if answer == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
