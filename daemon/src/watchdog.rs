//! A process that outlives giusto, to put the host right should giusto die or stall.
//!
//! A manager that is gone leaves servers stopped, or at a real-time priority without a budget. The watchdog is a
//! fork of giusto, made before anything is changed. It sees giusto's death by the end of a pipe and its stall by
//! silent [`Beats`](giusto_compute::manager::Beats), those of managers and, while giusto starts, reloads and stops
//! too, those of its main thread; then it kills what is left of giusto, undoes what the journal says, and ends. It
//! also stops the servers of a manager that is late ([`guard`](giusto_compute::manager::guard())). Its process is in
//! [`process`]; here is what others know of it.

mod process;

pub use process::Watchdog;

use rustix::time::ClockId;
use std::time::Duration;

/// What the process is called, for people and for who waits until it has restored.
pub(crate) const NAME: &std::ffi::CStr = c"giusto-watchdog";
/// A main thread that was silent for longer has stalled; it comes by ten times a second and between the steps of a
/// start, a reload and an end; a step may wait for a service for 10 s, to listen or to end.
pub(crate) const MAIN_STALL: Duration = Duration::from_secs(20);

/// The clock of beats, in ns.
pub(crate) fn clock(id: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(id);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
