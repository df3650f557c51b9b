//! The one clock of all stamps.

use rustix::time::{clock_gettime, ClockId};

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    // Never negative: the clock starts at 0 when the machine does.
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
