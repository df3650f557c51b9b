//! The end of a group: asked for, then enforced, then its folders removed.

use crate::dying::hasten_dying;
use crate::{write, Cgroup};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked whether a group is empty.
const LOOK: Duration = Duration::from_millis(2);
/// How long members that were killed may take to go: one may be within the kernel, with a disk that does not answer.
/// All that waits for the end of a group ends with an error then.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long any may take in any case, where others have used the time up.
const LEAST: Duration = Duration::from_millis(500);
/// Members that take longer to die are hastened.
const SLOW: Duration = Duration::from_millis(100);
/// How long those that were killed in a stopped group may take before it is stopped again (v1).
const DYING: Duration = Duration::from_millis(500);

/// The members of a group that were asked to end: one that leaves it after that ends all the same.
#[derive(Default)]
pub struct Asked(BTreeMap<u32, OwnedFd>);

impl Cgroup {
    /// Sends a signal to every process in it. One that comes meanwhile does not get it: [`Cgroup::kill`] is complete.
    pub fn signal(&self, signal: Signal) {
        for process in self.held() {
            let _ = pidfd_send_signal(process, signal); // it may have ended
        }
    }

    /// Ends all members at once, whatever they do, and waits until none is left. One that is not there is passed over.
    /// Errors: some do not end within five seconds.
    pub fn kill(&self) -> io::Result<()> {
        self.kill_by(Instant::now() + PATIENCE)
    }

    fn kill_by(&self, until: Instant) -> io::Result<()> {
        let (begun, until) = (Instant::now(), until.max(Instant::now() + LEAST));
        while !self.is_empty() {
            self.kill_now();
            if begun.elapsed() > SLOW {
                self.each(&mut hasten_dying);
            }
            if Instant::now() > until {
                let text = format!("processes {:?} of {} do not end", self.processes(), self.folder.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// The same, without waiting until they have gone. A group that was told to stop still is.
    pub fn kill_now(&self) {
        if write(&self.folder.join("cgroup.kill"), "1").is_err() {
            let was_told = self.is_frozen();
            // Frozen members cannot fork, so none is missed; on v1 they end once they are let go on.
            let _ = self.freeze(true);
            let killed = self.held();
            killed.iter().for_each(|process| _ = pidfd_send_signal(process, Signal::KILL));
            self.each(&mut |folder| _ = Cgroup::at(folder).freeze(false));
            if was_told {
                // Stopped before they have died, they would stay.
                let until = Instant::now() + DYING;
                while killed.iter().any(is_there) && Instant::now() < until {
                    sleep(Duration::from_micros(200));
                }
                let _ = self.ask_to_freeze(true);
            }
        }
    }

    /// Asks all members to end (SIGTERM, and SIGCONT for those that are stopped), gives them `patience`, kills the
    /// rest, and removes the group with those below it. One that is not there is passed over. Errors: as
    /// [`Cgroup::kill`]; the kernel refuses to remove it.
    pub fn end(&self, patience: Duration) -> io::Result<()> {
        let asked = self.ask_to_end();
        self.end_by(asked, Instant::now() + patience)
    }

    /// What [`Cgroup::end`] does after it has asked: members have until then. One of root that leaves the group
    /// meanwhile ends all the same; what it starts outside does not. It takes five seconds more at most, and half a second for
    /// each further group that has the same time.
    pub fn end_by(&self, Asked(mut members): Asked, until: Instant) -> io::Result<()> {
        loop {
            let known: Vec<u32> = members.keys().copied().collect();
            members.extend(self.held_but(&known));
            let is_over = members.values().all(|process| !is_there(process));
            if is_over && self.is_empty() || Instant::now() >= until {
                break;
            }
            sleep(LOOK);
        }
        self.kill_by(until + PATIENCE)?;
        members
            .values()
            .filter(|process| is_there(process))
            .for_each(|process| _ = pidfd_send_signal(process, Signal::KILL));
        self.remove_by(until + PATIENCE)
    }

    /// SIGTERM for all members, which are let go on if they are stopped.
    pub fn ask_to_end(&self) -> Asked {
        // Known before they are told: one may leave the group at the signal.
        let members: BTreeMap<u32, OwnedFd> = self.held_but(&[]).into_iter().collect();
        for signal in [Signal::TERM, Signal::CONT] {
            members.values().for_each(|process| _ = pidfd_send_signal(process, signal));
            // it may have ended
        }
        if self.is_frozen() {
            let _ = self.freeze(false);
        }
        Asked(members)
    }

    /// Removes the group and those below it; they are empty. One that is not there is passed over.
    pub fn remove(&self) -> io::Result<()> {
        self.remove_by(Instant::now() + PATIENCE)
    }

    fn remove_by(&self, until: Instant) -> io::Result<()> {
        let (begun, until) = (Instant::now(), until.max(Instant::now() + LEAST));
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
            if begun.elapsed() > SLOW {
                self.each(&mut hasten_dying);
            }
            sleep(LOOK);
        }
    }

    /// Its processes, each such that no other one can be meant: a number that was used again in between is left out.
    fn held(&self) -> Vec<OwnedFd> {
        self.held_but(&[]).into_iter().map(|(_, process)| process).collect()
    }

    /// The same without those of these numbers.
    fn held_but(&self, known: &[u32]) -> Vec<(u32, OwnedFd)> {
        let open = |pid: u32| Some((pid, pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?));
        let new = self.processes().into_iter().filter(|pid| !known.contains(pid));
        let opened: Vec<(u32, OwnedFd)> = new.filter_map(open).collect();
        let still = if opened.is_empty() { Vec::new() } else { self.processes() };
        opened.into_iter().filter(|(pid, _)| still.contains(pid)).collect()
    }
}

/// Whether a process has not ended.
fn is_there(process: &OwnedFd) -> bool {
    let mut look = [PollFd::new(process, PollFlags::IN)];
    poll(&mut look, Some(&Timespec::default())).is_ok_and(|ended| ended == 0)
}
