//! Who a thread is.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A thread that cannot be mistaken: ids are reused, an id with its start time (clock ticks since boot) is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Thread {
    /// Thread id; a process's id is that of its first thread.
    pub tid: u32,
    /// `starttime` of /proc/TID/stat.
    pub started: u64,
}

impl Thread {
    /// The thread that has this id now; `None` if there is none or it is a zombie.
    pub fn of(tid: u32) -> Option<Thread> {
        let stat = crate::read(format!("/proc/{tid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Thread { tid, started })
    }

    /// How long it has been there; `None` where that cannot be told.
    pub fn age(self) -> Option<Duration> {
        // SAFETY: no arguments that could be wrong.
        let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now_ms = now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000;
        let since_ms = self.started.checked_mul(1_000)?.checked_div(ticks)?;
        Some(Duration::from_millis(now_ms.saturating_sub(since_ms)))
    }

    /// Whether this very thread still lives.
    pub fn alive(self) -> bool {
        Thread::of(self.tid) == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_number_and_its_start() {
        let own = Thread::of(std::process::id()).unwrap();
        assert!(own.alive());
        assert!(!Thread { started: own.started + 1, ..own }.alive());
        assert_eq!(Thread::of(u32::MAX), None);
        assert!(own.age().is_some_and(|age| age < Duration::from_secs(3_600)));
    }
}
