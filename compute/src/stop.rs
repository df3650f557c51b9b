//! Stopping processes for a while: those of a service that a mode does not have.

use crate::sched::Thread;
use crate::{Error, Recorder, Undo};
use std::io;

/// Sends SIGSTOP to all processes that `processes` names, until it names no other: one that is born meanwhile is
/// stopped too. Those that have
/// gone are passed over.
///
/// Errors: what is to be undone cannot be written down; a signal is not allowed.
pub fn stop(processes: &dyn Fn() -> Vec<u32>, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let mut stopped = Vec::new();
    loop {
        let new: Vec<Thread> =
            processes().into_iter().filter_map(Thread::of).filter(|process| !stopped.contains(process)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for process in new {
            record.intend(&Undo::Stopped(process)).map_err(Error::Journal)?;
            signal(process, libc::SIGSTOP)?;
            stopped.push(process);
        }
    }
}

/// Lets them go on.
///
/// Errors: a signal is not allowed.
pub fn go_on(processes: &[u32]) -> Result<(), Error> {
    processes.iter().filter_map(|&pid| Thread::of(pid)).try_for_each(|process| signal(process, libc::SIGCONT))
}

fn signal(process: Thread, signal: i32) -> Result<(), Error> {
    send(process, signal).map_err(|why| Error::Kernel {
        doing: format!("stop process {} or let it go on", process.tid),
        why: why.to_string(),
    })
}

/// To this very process; nothing if it has gone.
pub(crate) fn send(process: Thread, signal: i32) -> io::Result<()> {
    // SAFETY: plain system call.
    if !process.alive() || unsafe { libc::kill(process.tid as i32, signal) } == 0 || !process.alive() {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn states(pids: &[u32]) -> String {
        let state = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").map_or('X', |(_, rest)| rest.chars().next().unwrap_or('X'))
        };
        pids.iter().map(state).collect()
    }

    #[test]
    fn a_group_that_breeds_is_stopped_goes_on_and_undoing_lets_it_go_on_too() {
        let mut child =
            Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).process_group(0).spawn().unwrap();
        let all = || sched::group(child.id());
        let is = |wanted: &dyn Fn(&str) -> bool| {
            let until = Instant::now() + Duration::from_secs(10);
            while !wanted(&states(&all())) {
                assert!(Instant::now() < until, "{}", states(&all()));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let mut record: Vec<Undo> = Vec::new();
        for undone in [false, true] {
            stop(&all, &mut record).unwrap();
            // A shell that waits in vfork for a child that was stopped before it ran its program is in D until that goes on.
            is(&|states| states.contains('T') && states.chars().all(|state| "TD".contains(state)));
            match undone {
                true => assert_eq!(crate::undo(&record).failed, Vec::<String>::new()),
                false => go_on(&all()).unwrap(),
            }
            is(&|states| !states.contains('T'));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(go_on(&[child.id()]).is_ok() && stop(&|| vec![child.id()], &mut record).is_ok(), "it has gone");
    }
}
