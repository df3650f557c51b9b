//! Threads that process packets: which they are, and what they have of the processor.

use crate::namespace::Namespace;
use crate::{Error, Link};
use giusto_host::Thread;
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};

/// When a thread runs, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// `SCHED_*`, with SCHED_RESET_ON_FORK.
    pub policy: i32,
    /// Its real-time priority, 0 if it has none.
    pub priority: i32,
    /// Cores that it may run on, ascending.
    pub cores: Vec<u32>,
}

impl Attributes {
    /// SCHED_FIFO with a priority, or SCHED_OTHER without, on one core.
    pub(crate) fn of(priority: Option<u8>, core: u32) -> Attributes {
        let policy = if priority.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        Attributes { policy, priority: priority.map_or(0, i32::from), cores: vec![core] }
    }

    /// The lowest priority on one core.
    pub(crate) fn lowest(core: u32) -> Attributes {
        Attributes { policy: libc::SCHED_IDLE, priority: 0, cores: vec![core] }
    }

    /// What a thread has. Errors: it has gone.
    pub(crate) fn read(thread: Thread) -> io::Result<Attributes> {
        let pid = thread.tid as libc::pid_t;
        // SAFETY: plain system calls; the kernel fills the parameters.
        let (policy, priority) = unsafe {
            let mut parameters: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(pid);
            if policy < 0 || libc::sched_getparam(pid, &mut parameters) < 0 {
                return Err(io::Error::last_os_error());
            }
            (policy, parameters.sched_priority)
        };
        let set = sched_getaffinity(Pid::from_raw(pid))?;
        let cores = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(|core| core as u32).collect();
        Ok(Attributes { policy, priority, cores })
    }

    /// Gives a thread these. Errors: it has gone, or must not run there.
    pub(crate) fn set(&self, thread: Thread) -> io::Result<()> {
        let pid = thread.tid as libc::pid_t;
        let mut set = CpuSet::new();
        self.cores.iter().filter(|&&core| (core as usize) < CpuSet::MAX_CPU).for_each(|&core| set.set(core as usize));
        sched_setaffinity(Pid::from_raw(pid), &set)?;
        // SAFETY: plain system call; the kernel reads the parameters.
        let done = unsafe {
            let mut parameters: libc::sched_param = std::mem::zeroed();
            parameters.sched_priority = self.priority;
            libc::sched_setscheduler(pid, self.policy, &parameters)
        };
        (done == 0).then_some(()).ok_or_else(io::Error::last_os_error)
    }
}

/// Processor time that a thread has had so far, in ns; 0 if it has gone. 10 us.
pub fn cpu_time_ns(thread: Thread) -> u64 {
    let mut bytes = [0; 64];
    let read = File::open(format!("/proc/{}/schedstat", thread.tid)).and_then(|mut file| file.read(&mut bytes));
    let text = std::str::from_utf8(&bytes[..read.unwrap_or(0)]).unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// The threads that poll an interface, ascending; empty while it is down. `queues`: those that receive, and of a card those that
/// send, for each of which there may be a thread. `claimed`: threads that are known to be another interface's. Errors:
/// [`Error::Ambiguous`] where the kernel does not tell and names do not either.
pub(crate) fn polling(
    namespace: &Namespace,
    link: &Link,
    queues: [usize; 2],
    claimed: &BTreeSet<Thread>,
) -> Result<Vec<Thread>, Error> {
    let told = match &namespace.napis {
        Some(napis) => napis.threads(link.index).map_err(|source| {
            Error::kernel(format!("ask which thread processes the packets of {}", link.name), source)
        })?,
        None => None,
    };
    let mut threads: Vec<Thread> = told.into_iter().flatten().filter_map(Thread::of).collect();
    if !threads.is_empty() && queues[1] == 0 {
        threads.sort_unstable();
        return Ok(threads);
    }
    // An older kernel; or what has no number to be listed by: a tap, and queues of a card that only send.
    let all = kernel_threads().into_iter().filter(|(_, name)| is_of(name, &link.name));
    let (sending, receiving) = all
        .filter(|(thread, _)| !claimed.contains(thread) && !threads.contains(thread))
        .partition(|(_, name)| queues[1] > 0 && name.ends_with("-0"));
    let tids = |found: Vec<(Thread, String)>| found.into_iter().map(|(thread, _)| thread).collect();
    if threads.is_empty() {
        threads = by_name(link, queues[0], tids(receiving))?;
    }
    // Names do not tell the namespace: where more are called so, others' are among them, and none is taken.
    threads.extend(by_name(link, queues[1], tids(sending)).unwrap_or_default());
    threads.sort_unstable();
    Ok(threads)
}

/// Those that are called after the interface, if they are as many as it has queues.
fn by_name(link: &Link, queues: usize, candidates: Vec<Thread>) -> Result<Vec<Thread>, Error> {
    if candidates.len() > queues {
        let mut candidates: Vec<u32> = candidates.into_iter().map(|thread| thread.tid).collect();
        candidates.sort_unstable();
        return Err(Error::Ambiguous { name: link.name.clone(), candidates });
    }
    Ok(candidates)
}

/// Whether a kernel thread of this name polls an interface of that name: `napi/eth0-8193`, or the first 15 characters of it, as kernels
/// before 5.17 tell no more.
fn is_of(thread: &str, interface: &str) -> bool {
    let Some(rest) = thread.strip_prefix("napi/") else { return false };
    match rest.rsplit_once('-') {
        Some((name, number)) if name == interface => number.bytes().all(|digit| digit.is_ascii_digit()),
        _ => thread.len() == 15 && format!("{interface}-").starts_with(rest),
    }
}

/// All threads of the kernel's own with their names.
fn kernel_threads() -> Vec<(Thread, String)> {
    const KTHREADD: &str = "2";
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let tid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == KTHREADD).then_some(())?;
        let name = fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
        Some((Thread::of(tid)?, name.trim_end().to_string()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_tell_the_interface_as_far_as_they_go() {
        for (thread, interface, is) in [
            ("napi/eth0-258", "eth0", true),
            ("napi/eth0-258", "eth", false),
            ("napi/eth-0-258", "eth-0", true),
            ("napi/eth-0-258", "eth", false),
            ("napi/vnet1234-25", "vnet1234", true),
            ("napi/veth012345", "veth0123456789a", true), // cut after 15 characters
            ("napi/veth012345", "veth012345", true),      // cut before the hyphen
            ("napi/veth01234", "veth0123456789a", false), // shorter, so not cut
            ("vhost-17", "eth0", false),
        ] {
            assert_eq!(is_of(thread, interface), is, "{thread} {interface}");
        }
    }

    #[test]
    fn more_candidates_than_queues_are_not_guessed_from() {
        let link = Link { name: "eth0".into(), index: 2, namespace: 1 };
        let threads: Vec<Thread> = [7, 5].map(|tid| Thread { tid, started: 1 }).to_vec();
        assert!(
            matches!(by_name(&link, 1, threads.clone()), Err(Error::Ambiguous { candidates, .. }) if candidates == [5, 7])
        );
        assert_eq!(by_name(&link, 2, threads).unwrap().len(), 2);
        assert_eq!(by_name(&link, 1, vec![]).unwrap(), []);
    }

    #[test]
    fn setting_what_was_read_changes_nothing() {
        // SAFETY: no arguments, cannot fail.
        let own = Thread::of(unsafe { libc::gettid() } as u32).unwrap();
        let before = Attributes::read(own).unwrap();
        before.set(own).unwrap();
        assert_eq!(Attributes::read(own).unwrap(), before);
    }
}
