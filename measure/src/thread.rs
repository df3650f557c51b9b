//! Processor time of another process's threads.
//!
//! The kernel gives the clock of a single thread to its own process only, so the time comes from
//! `/proc/PID/task/TID/schedstat`: the same ns, brought up to date whenever the thread leaves its processor. It is
//! therefore believed only of a thread that sleeps.

use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// Between two readings that must agree.
const APART: Duration = Duration::from_micros(30);
/// A thread that does not sleep by then has other work, and its clock says nothing of one request. Longer than the
/// holes that a busy machine or a hypervisor makes.
const AT_MOST: Duration = Duration::from_millis(200);

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

/// Processor time of a thread in ns once it sleeps again: two equal readings, and state S. `TimedOut` if it never does.
///
/// A thread that is about to sleep is in state S while the kernel has not yet counted what it ran: where it must have run,
/// its time has to be beyond `before`, and is `before` only if it has not become that in [`AT_MOST`].
pub(crate) fn settled(pid: u32, tid: u32, before: Option<u64>) -> io::Result<u64> {
    let started = Instant::now();
    let mut last = cpu_time(pid, tid)?;
    loop {
        thread::sleep(APART);
        let asleep = state(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"))?) == Some('S');
        let ns = cpu_time(pid, tid)?;
        let late = started.elapsed() >= AT_MOST;
        if asleep && ns == last && (late || before != Some(ns)) {
            return Ok(ns);
        }
        if late {
            let why = format!("its thread {tid} never sleeps, so the cost of one request cannot be told apart");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        last = ns;
    }
}

fn cpu_time(pid: u32, tid: u32) -> io::Result<u64> {
    Ok(schedstat(pid, tid)?.ran)
}

/// A thread's time on a processor and its time waiting for one, in ns.
#[derive(Debug, PartialEq, Eq)]
struct Schedstat {
    ran: u64,
    waited: u64,
}

fn schedstat(pid: u32, tid: u32) -> io::Result<Schedstat> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"))?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("schedstat says '{}'", text.trim()));
    parse(&text).ok_or_else(bad)
}

fn parse(schedstat: &str) -> Option<Schedstat> {
    let mut numbers = schedstat.split_ascii_whitespace().map_while(|t| t.parse().ok());
    Some(Schedstat { ran: numbers.next()?, waited: numbers.next()? })
}

/// How long the calling thread was ready without a processor so far; `None` where the kernel does not tell.
pub(crate) fn waited_ns() -> Option<u64> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    schedstat(std::process::id(), tid).ok().map(|s| s.waited)
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
    fn the_first_number_is_running_and_the_second_waiting() {
        assert_eq!(parse("12 34 5\n"), Some(Schedstat { ran: 12, waited: 34 }));
        assert_eq!(parse("12 x 5"), None);
    }

    #[test]
    fn a_thread_that_never_sleeps_is_not_believed() {
        let (told, tid) = std::sync::mpsc::channel();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = stop.clone();
        let spinner = thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {}
        });
        let tid = tid.recv().unwrap();
        let found = settled(std::process::id(), tid, None);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        spinner.join().unwrap();
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::TimedOut);
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
        let before = settled(pid, tid, None).unwrap();
        to_worker.send(()).unwrap();
        done.recv().unwrap();
        assert!(settled(pid, tid, Some(before)).unwrap() - before >= 2_000_000);
        assert!(threads(pid).unwrap().iter().any(|&(t, ns)| t == tid && ns >= before));
        drop(to_worker);
        worker.join().unwrap();
    }
}
