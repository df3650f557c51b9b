//! The accounts of all threads of some processes, kept open.

use super::Change;
use crate::clock::now;
use crate::Error;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::FileExt;

/// Between two readings, at least.
const STEP_NS: u64 = 250_000;
/// What reading the account of one thread may take of that: 3 us are a tenth of it.
const THREAD_NS: u64 = 30_000;

/// What a thread's account says: processor time in ns, and how often it was given a processor.
type Account = (u64, u64);

/// A thread with its open files, and what they said at last. One that ended keeps its last numbers.
struct Watch {
    place: usize,
    account: File,
    status: File,
    ran: Account,
    came: Status,
    /// In how many looks it slept by the clock, and otherwise.
    slept: [u32; 2],
}

/// All of them.
pub(super) struct Reader {
    pids: Vec<u32>,
    threads: BTreeMap<(u32, u32), Watch>,
    readings: u64,
    last: u64,
    preempted: u64,
}

/// How a thread came off its processors so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    /// It has work now.
    busy: bool,
    /// Since it had nothing to do.
    slept: u64,
    /// Since others had to run.
    preempted: u64,
}

impl Status {
    /// How often it began to work: each time it slept in the end, or has not slept yet. Going on after a preemption is
    /// no beginning.
    fn begun(self) -> u64 {
        self.slept + u64::from(self.busy)
    }
}

impl Reader {
    /// Opens the accounts; what they say now is the beginning.
    pub(super) fn open(pids: &[u32]) -> Result<Reader, Error> {
        let mut reader =
            Reader { pids: pids.to_vec(), threads: BTreeMap::new(), readings: 0, last: now(), preempted: 0 };
        reader.look();
        // As the other threads of this process need none: a sleep that ends within microseconds.
        // SAFETY: plain system call.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000) };
        match reader.threads.is_empty() {
            true => Err(Error::Process { pid: pids.first().copied().unwrap_or(0), why: NotFound.into() }),
            false => Ok(reader),
        }
    }

    /// Looks for threads that are new.
    pub(super) fn look(&mut self) {
        for &pid in &self.pids {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                if let Some(known) = self.threads.get_mut(&(pid, tid)) {
                    let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
                    known.slept[usize::from(!naps(&call))] += 1;
                    continue;
                }
                let files = ["schedstat", "status"].map(|name| File::open(task.path().join(name)));
                let [Ok(account), Ok(status)] = files else { continue };
                let (Some(ran), Some(came)) = (read_account(&account), read_status(&status)) else { continue };
                // Of one that is born while it is watched everything counts from now on.
                let place = self.threads.len();
                let watch = Watch { place, account, status, ran, came, slept: [0; 2] };
                self.threads.insert((pid, tid), watch);
            }
        }
    }

    /// Between two readings, so that they take no more than a tenth of a core.
    pub(super) fn step_ns(&self) -> u64 {
        STEP_NS.max(self.threads.len() as u64 * THREAD_NS)
    }

    /// Adds what threads did since the last reading.
    pub(super) fn read(&mut self, at: u64, changes: &mut Vec<Change>) {
        self.readings += 1;
        let from = std::mem::replace(&mut self.last, at);
        for thread in self.threads.values_mut() {
            let ran = read_account(&thread.account).unwrap_or(thread.ran);
            // Reading the status costs more, and says nothing new otherwise.
            if ran == thread.ran {
                continue;
            }
            let came = read_status(&thread.status).unwrap_or(thread.came);
            let begun = came.begun().saturating_sub(thread.came.begun());
            changes.push(Change { from, at, thread: thread.place, ran: ran.0.saturating_sub(thread.ran.0), begun });
            self.preempted += came.preempted.saturating_sub(thread.came.preempted);
            (thread.ran, thread.came) = (ran, came);
        }
    }

    pub(super) fn readings(&self) -> u64 {
        self.readings
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Threads that mostly sleep until the clock says so, by their places; none where they may not be looked at.
    pub(super) fn timers(&self) -> Vec<usize> {
        self.threads.values().filter(|one| one.slept[0] > one.slept[1]).map(|one| one.place).collect()
    }

    /// Whether the thread of this place is the main one of its process.
    pub(super) fn is_main(&self, place: usize) -> bool {
        self.threads.iter().any(|((pid, tid), one)| one.place == place && pid == tid)
    }

    /// How often threads were taken off their processors while they had work.
    pub(super) fn preempted(&self) -> u64 {
        self.preempted
    }
}

/// Whether a `/proc/PID/task/TID/syscall` tells of a sleep for some time, and not for an event.
fn naps(call: &str) -> bool {
    let number = call.split(' ').next().and_then(|word| word.parse::<i64>().ok());
    number.is_some_and(|number| number == libc::SYS_nanosleep || number == libc::SYS_clock_nanosleep)
}

/// `None` of a thread that has ended.
fn read_account(file: &File) -> Option<Account> {
    let mut text = [0; 96];
    let read = file.read_at(&mut text, 0).ok().filter(|read| *read > 0)?;
    account(std::str::from_utf8(&text[..read]).ok()?)
}

fn account(schedstat: &str) -> Option<Account> {
    let mut words = schedstat.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some((words.next()?, words.nth(1)?))
}

fn read_status(file: &File) -> Option<Status> {
    let mut text = [0; 4096];
    let read = file.read_at(&mut text, 0).ok().filter(|read| *read > 0)?;
    // A thread's name may be no text.
    status(&String::from_utf8_lossy(&text[..read]))
}

fn status(text: &str) -> Option<Status> {
    let field = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim());
    Some(Status {
        busy: field("State:")?.starts_with('R'),
        slept: field("voluntary_ctxt_switches:")?.parse().ok()?,
        preempted: field("nonvoluntary_ctxt_switches:")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_processor_time_and_the_third_how_often() {
        assert_eq!(account("12 34 5\n"), Some((12, 5)));
        assert_eq!(account("12 34\n"), None);
    }

    #[test]
    fn a_sleep_by_the_clock_is_told_from_a_wait() {
        assert!(naps(&format!("{} 0x0 0x0", libc::SYS_clock_nanosleep)));
        assert!(!naps(&format!("{} 0x5", libc::SYS_epoll_pwait)) && !naps("running") && !naps(""));
    }

    #[test]
    fn going_on_after_a_preemption_is_no_beginning() {
        let of = |state: &str, slept: u64, preempted: u64| {
            let text = format!(
                "Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t{slept}\n\
                                nonvoluntary_ctxt_switches:\t{preempted}\n"
            );
            status(&text).unwrap()
        };
        let [asleep, works, preempted, again] =
            [of("S (sleeping)", 7, 2), of("R (running)", 7, 2), of("R (running)", 7, 3), of("S (sleeping)", 8, 3)];
        assert_eq!([asleep, works, preempted, again].map(Status::begun), [7, 8, 8, 8]);
        assert_eq!(status("State:\tS\n"), None);
    }
}
