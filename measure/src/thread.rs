//! Processor time of another process's threads.
//!
//! The kernel gives the clock of a single thread to its own process only, so the time comes from
//! `/proc/PID/task/TID/schedstat`: the same ns, brought up to date whenever the thread leaves its processor. It is
//! therefore believed only of a thread that sleeps.

use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// Between two readings that must agree.
const APART: Duration = Duration::from_micros(30);
/// A thread that does not sleep by then is read as it is.
const AT_MOST: Duration = Duration::from_millis(20);

/// Every thread of process `pid` with its processor time in ns. Threads that end meanwhile are left out.
pub(crate) fn threads(pid: u32) -> io::Result<Vec<(u32, u64)>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        let Some(tid) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
        if let Ok(ns) = cpu_time(pid, tid) {
            threads.push((tid, ns));
        }
    }
    Ok(threads)
}

/// Processor time of a thread in ns once it sleeps again: two equal readings, and state S.
pub(crate) fn settled(pid: u32, tid: u32) -> io::Result<u64> {
    let started = Instant::now();
    let mut last = cpu_time(pid, tid)?;
    loop {
        thread::sleep(APART);
        let asleep = state(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"))?) == Some('S');
        let ns = cpu_time(pid, tid)?;
        if (asleep && ns == last) || started.elapsed() >= AT_MOST {
            return Ok(ns);
        }
        last = ns;
    }
}

fn cpu_time(pid: u32, tid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"))?;
    let first = text.split_ascii_whitespace().next().and_then(|t| t.parse().ok());
    first.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("schedstat says '{}'", text.trim())))
}

/// The state in a line of `/proc/…/stat`: after the name, which is in parentheses and may hold some itself.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(state("12 (redis-server) S 1 2"), Some('S'));
        assert_eq!(state("12 (a) R (b) D 1 2"), Some('D'));
        assert_eq!(state("12"), None);
    }

    #[test]
    fn a_thread_that_worked_shows_it_once_it_sleeps() {
        let (to_worker, work) = std::sync::mpsc::channel::<()>();
        let (told, tid) = std::sync::mpsc::channel();
        let worker = thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while work.recv().is_ok() {
                let started = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime) - started;
                while spent().tv_nsec < 2_000_000 {}
                told.send(0).unwrap();
            }
        });
        let (pid, tid) = (std::process::id(), tid.recv().map(|t| (t, tid)).unwrap());
        let (tid, done) = tid;
        let before = settled(pid, tid).unwrap();
        to_worker.send(()).unwrap();
        done.recv().unwrap();
        assert!(settled(pid, tid).unwrap() - before >= 2_000_000);
        assert!(threads(pid).unwrap().iter().any(|&(t, ns)| t == tid && ns >= before));
        drop(to_worker);
        worker.join().unwrap();
    }
}
