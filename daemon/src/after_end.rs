//! `after-end`: a command that runs when all processes of a service are gone, before it is started again.
//!
//! Who relies on the service is told so at once, where otherwise only a time-out would tell. The command runs as the
//! service does: in its cgroup, under its server, as its user. After [`PATIENCE`] it is killed, and the service is
//! started again all the same.

use giusto_compute::Contained;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a process that was killed is waited for.
pub(crate) const REAPED: Duration = Duration::from_secs(1);

/// The command of one service.
#[derive(Debug, Default)]
pub(crate) enum AfterEnd {
    /// The service is there, or all is done.
    #[default]
    Rests,
    /// It is to be started.
    Due,
    /// It was started then.
    Runs(Child, Instant),
    /// It has ended so; what else it has started is killed.
    Ends(Result<(), String>),
}

impl AfterEnd {
    /// Its process group, as long as it may have one.
    pub(crate) fn group(&self) -> Option<u32> {
        match self {
            AfterEnd::Runs(child, _) => Some(child.id()),
            _ => None,
        }
    }

    /// Follows it; returns whether it did its work, or what went wrong, once nothing of it is left.
    pub(crate) fn follow(&mut self, contained: Option<&Contained>) -> Option<Result<(), String>> {
        if let AfterEnd::Runs(child, since) = self {
            let is_late = since.elapsed() >= PATIENCE;
            match child.try_wait() {
                Ok(Some(status)) if status.success() => *self = AfterEnd::Ends(Ok(())),
                Ok(Some(_)) if is_late => {
                    *self = AfterEnd::Ends(Err(format!("had not ended after {PATIENCE:?}, and was killed")));
                }
                Ok(Some(status)) => *self = AfterEnd::Ends(Err(format!("failed: {status}"))),
                _ if is_late => self.kill(contained),
                _ => return None,
            }
        }
        let AfterEnd::Ends(how) = self else { return None };
        if contained.is_some_and(|contained| !contained.processes().is_empty()) {
            self.kill(contained);
            return None;
        }
        let how = how.clone();
        *self = AfterEnd::Rests;
        Some(how)
    }

    fn kill(&self, contained: Option<&Contained>) {
        contained.iter().for_each(|contained| contained.kill_now());
        if let Some(group) = self.group() {
            // SAFETY: plain system call. The group's leader is our child and not reaped: its number is its own.
            unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
        }
    }
}

impl Drop for AfterEnd {
    /// It ends with what it belongs to.
    fn drop(&mut self) {
        self.kill(None);
        let AfterEnd::Runs(child, _) = self else { return };
        let until = Instant::now() + REAPED;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
