//! The process of the watchdog, and giusto's end of the pipe to it.

use super::{clock, MAIN_STALL, NAME};
use crate::{Error, Journal};
use giusto_compute::manager::{guard, Beats};
use giusto_compute::sched::{self, Attr};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::ClockId;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::process;
use std::time::{Duration, Instant};

/// A manager that was silent for longer has stalled; it beats every 100 ms. Holes of 15 ms are known, seconds are not.
const STALL: Duration = Duration::from_secs(2);
/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(50);
/// So many looks in a row have to see a stall: or all that has stalled is the machine, and we are the first to go on.
const LOOKS: u32 = 5;
/// Above all threads that giusto schedules.
const PRIORITY: u32 = 95;
/// What giusto writes into the pipe when it ends in good order.
const DISMISSED: &[u8] = b"done";

/// The watchdog, as giusto sees it. Dropping it dismisses it.
pub struct Watchdog {
    pipe: PipeWriter,
    process: i32,
    beats: Beats,
}

impl Watchdog {
    /// Forks it. Must be called while there is only one thread, and before the journal is opened.
    pub fn start() -> Result<Watchdog, Error> {
        let broken = |source| Error::Io { doing: "start the watchdog".into(), source };
        let beats = Beats::new().map_err(broken)?;
        let (reader, writer) = io::pipe().map_err(broken)?;
        let parent = process::id();
        // SAFETY: there is one thread, so the child may do whatever this process may.
        match unsafe { libc::fork() } {
            -1 => Err(broken(io::Error::last_os_error())),
            0 => {
                drop(writer);
                watch(&reader, parent, &beats);
                process::exit(0)
            }
            process => Ok(Watchdog { pipe: writer, process, beats }),
        }
    }

    /// Where managers show that they live.
    pub fn beats(&self) -> &Beats {
        &self.beats
    }

    /// What is to be told if it has died. No other can be started: by now there are threads, which do not survive a fork.
    pub fn worry(&self) -> Option<String> {
        let mut look = [PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::empty())];
        // The pipe has no reader any more.
        let died = rustix::event::poll(&mut look, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        died.then(|| {
            "the watchdog has died: should giusto die too, the host stays changed until 'giusto restore'; start giusto again"
                .into()
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.pipe.write_all(DISMISSED);
        // SAFETY: our own child, waited for once.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

fn watch(pipe: &PipeReader, parent: u32, beats: &Beats) {
    // SAFETY: plain system calls. Signals to the terminal's group or to giusto's unit are not for us: we end with giusto.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
    }
    // Each as far as it is allowed: without, it is only slower, or dies with giusto.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = sched::set(0, &Attr::of_policy(sched::FIFO, PRIORITY));
    let mut stalled = 0;
    loop {
        let mut look = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        let ready = rustix::event::poll(&mut look, Some(&wait)).unwrap_or(0);
        if ready > 0 {
            let mut told = [0; DISMISSED.len()];
            match io::Read::read(&mut &*pipe, &mut told) {
                Ok(0) => break eprintln!("giusto: process {parent} has died; its watchdog restores the host"),
                Ok(_) => return,
                Err(_) => continue,
            }
        }
        let now = clock(ClockId::Monotonic);
        guard(beats, now);
        beats.set_watching_ns(clock(ClockId::ProcessCPUTime));
        let older = |beat: Option<u64>, than: Duration| {
            beat.is_some_and(|beat| now.saturating_sub(beat) > than.as_nanos() as u64)
        };
        let silent = older(beats.oldest(), STALL) || older(beats.main(), MAIN_STALL);
        stalled = if silent { stalled + 1 } else { 0 };
        if stalled > LOOKS {
            eprintln!("giusto: process {parent} has stalled; its watchdog ends it and restores the host");
            // SAFETY: our parent, which cannot have been replaced: its death would have ended the pipe.
            unsafe { libc::kill(parent as i32, libc::SIGKILL) };
            break;
        }
    }
    restore();
    beats.end_strays();
}

/// As 'giusto restore' does; another process that is quicker may do it instead.
fn restore() {
    let begin = Instant::now();
    loop {
        match Journal::open() {
            Ok((_, restored)) => {
                eprintln!("giusto: undid {} changes", restored.undone);
                return restored.failed.iter().for_each(|failed| eprintln!("giusto: not undone: {failed}"));
            }
            Err(Error::Busy { .. }) if begin.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return eprintln!("giusto: the watchdog cannot restore the host: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_it_has_died_is_told_and_it_is_reaped_once() {
        let (reader, pipe) = io::pipe().unwrap();
        #[expect(clippy::zombie_processes, reason = "the watchdog reaps it")]
        let child = process::Command::new("cat").stdin(reader).spawn().unwrap();
        let watchdog = Watchdog { pipe, process: child.id() as i32, beats: Beats::new().unwrap() };
        assert_eq!(watchdog.worry(), None);
        // SAFETY: our own child, which is not reaped before the watchdog is dropped.
        unsafe { libc::kill(watchdog.process, libc::SIGKILL) };
        let end = Instant::now() + Duration::from_secs(10);
        while watchdog.worry().is_none() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        let process = watchdog.process;
        drop(watchdog);
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) }, -1, "no child is left");
    }
}
