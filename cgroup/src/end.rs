//! The end of a group: asked for, then enforced, then its folders removed.

use crate::{write, Cgroup};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked whether a group is empty.
const LOOK: Duration = Duration::from_millis(2);
/// How long members that were killed may take to go: one may be within the kernel, with a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Cgroup {
    /// Sends a signal to every process in it. One that comes meanwhile does not get it: [`Cgroup::kill`] is complete.
    pub fn signal(&self, signal: Signal) {
        for process in self.held() {
            let _ = pidfd_send_signal(process, signal); // it may have ended
        }
    }

    /// Ends all members at once, whatever they do, and waits until none is left. One that is not there is passed over.
    /// Errors: some do not end within ten seconds.
    pub fn kill(&self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.is_empty() {
            self.kill_now();
            if Instant::now() > until {
                let text = format!("processes {:?} of {} do not end", self.processes(), self.folder.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// The same, without waiting until they have gone.
    pub fn kill_now(&self) {
        if write(&self.folder.join("cgroup.kill"), "1").is_err() {
            // Frozen members cannot fork, so none is missed; on v1 they end once they are let go on.
            let _ = self.freeze(true);
            self.signal(Signal::KILL);
            self.each(&mut |folder| _ = Cgroup::at(folder).freeze(false));
        }
    }

    /// Asks all members to end (SIGTERM, and SIGCONT for those that are stopped), gives them `patience`, kills the
    /// rest, and removes the group with those below it. One that is not there is passed over. Errors: as
    /// [`Cgroup::kill`]; the kernel refuses to remove it.
    pub fn end(&self, patience: Duration) -> io::Result<()> {
        self.ask_to_end();
        self.end_by(Instant::now() + patience)
    }

    /// What [`Cgroup::end`] does after it has asked: members have until then.
    pub fn end_by(&self, until: Instant) -> io::Result<()> {
        while !self.is_empty() && Instant::now() < until {
            sleep(LOOK);
        }
        self.kill()?;
        self.remove()
    }

    /// SIGTERM for all members, which are let go on if they are stopped.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        if self.is_frozen() {
            let _ = self.freeze(false);
        }
    }

    /// Removes the group and those below it; they are empty. One that is not there is passed over.
    pub fn remove(&self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut done = Ok(());
            self.each(&mut |folder| match std::fs::remove_dir(folder) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => done = Err(why),
                _ => {}
            });
            // The last member's zombie holds it for a moment.
            if done.is_ok() || Instant::now() > until {
                return done;
            }
            sleep(LOOK);
        }
    }

    /// Its processes, each such that no other one can be meant: a number that was used again in between is left out.
    fn held(&self) -> Vec<OwnedFd> {
        let open = |pid: u32| Some((pid, pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?));
        let opened: Vec<(u32, OwnedFd)> = self.processes().into_iter().filter_map(open).collect();
        let still = self.processes();
        opened.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, process)| process).collect()
    }
}
