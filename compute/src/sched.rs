//! Threads and their scheduling attributes: the system calls, and who a thread is.

pub use giusto_host::Thread;

use giusto_host::read;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use std::{fs, io, mem};

/// The threads of a process, ascending; empty if it has gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return vec![] };
    let mut found: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// Whether a thread is the first of its process, whose id it has.
pub(crate) fn is_process(tid: u32) -> bool {
    process_of(tid) == Some(tid)
}

/// The process of a thread; `None` if it has gone.
pub fn process_of(tid: u32) -> Option<u32> {
    let status = read(format!("/proc/{tid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The live processes of a process group.
pub fn group(leader: u32) -> Vec<u32> {
    alive().iter().filter(|&&(_, _, group)| group == leader).map(|&(pid, ..)| pid).collect()
}

/// The same, and all their children, whatever group those have made for themselves.
pub fn kin(leader: u32) -> Vec<u32> {
    let all = alive();
    let mut found: Vec<u32> = all.iter().filter(|(_, _, group)| *group == leader).map(|&(pid, ..)| pid).collect();
    let mut looked = 0;
    while looked < found.len() {
        let children = all.iter().filter(|(_, parent, _)| *parent == found[looked]).map(|&(pid, ..)| pid);
        let new: Vec<u32> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        looked += 1;
    }
    found
}

thread_local! {
    /// What [`at_once`] has read, while it runs.
    static READ: RefCell<Option<Rc<Vec<Row>>>> = const { RefCell::new(None) };
}

/// A process, its parent and its group.
type Row = (u32, u32, u32);

/// While `look` runs on this thread, all processes of the host are listed once at most: what [`kin`] and [`group`] say is of one
/// instant then. Reading them all takes a millisecond or more.
pub fn at_once<T>(look: impl FnOnce() -> T) -> T {
    READ.replace(Some(Rc::default()));
    let done = look();
    READ.replace(None);
    done
}

/// All processes that are no zombies.
fn alive() -> Rc<Vec<Row>> {
    let known = READ.with_borrow(Clone::clone);
    match known {
        Some(rows) if !rows.is_empty() => rows,
        known => {
            let rows = Rc::new(read_alive());
            if known.is_some() {
                READ.replace(Some(rows.clone()));
            }
            rows
        }
    }
}

fn read_alive() -> Vec<Row> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    let row = |pid: u32| {
        let stat = read(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next().filter(|state| !["Z", "X"].contains(state));
        state.and(Some((pid, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
    };
    entries.filter_map(|entry| row(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// Whether a thread runs or wants to.
pub(crate) fn is_running(tid: u32) -> bool {
    read(format!("/proc/{tid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" R")))
}

/// A process, its ancestors (nearest first), and the leaders of its group and session.
pub(crate) fn relatives(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut leaders = Vec::new();
    while let Some((parent, group, session)) = found.last().and_then(|&pid| family(pid)) {
        if found.len() == 1 {
            leaders = vec![group, session];
        }
        if parent == 0 || found.len() > 100 {
            break;
        }
        found.push(parent);
    }
    found.extend(leaders);
    found
}

/// The leaders of all groups and sessions, also those that have ended.
pub(crate) fn leaders() -> std::collections::BTreeSet<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Default::default() };
    let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter_map(family).flat_map(|(_, group, session)| [group, session]).collect()
}

/// Parent, group and session of a process.
fn family(pid: u32) -> Option<(u32, u32, u32)> {
    let stat = read(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??, fields.next()??))
}

/// All threads of the machine under SCHED_DEADLINE.
pub(crate) fn under_deadline() -> Vec<u32> {
    let taken = |&tid: &u32| get(tid).is_ok_and(|attr| attr.policy == DEADLINE);
    processes().into_iter().flat_map(threads).filter(taken).collect()
}

/// All processes of the machine that are not the kernel's own.
pub(crate) fn processes() -> Vec<u32> {
    const KERNEL_THREAD: u64 = 0x0020_0000; // PF_KTHREAD
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|pid| {
        let stat = read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & KERNEL_THREAD == 0)
    })
    .collect()
}

/// Processor time a thread has had so far, in ns; 0 if it has gone.
pub fn cpu_time_ns(tid: u32) -> u64 {
    let text = read(format!("/proc/{tid}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// `struct sched_attr` (include/uapi/linux/sched/types.h), first version: 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    size: u32,
    /// `SCHED_*`.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// For SCHED_OTHER and SCHED_BATCH.
    pub nice: i32,
    /// For SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// Budget in ns, for SCHED_DEADLINE.
    pub runtime: u64,
    /// Deadline in ns.
    pub deadline: u64,
    /// Period in ns.
    pub period: u64,
}

/// The default policy.
pub const OTHER: u32 = 0;
/// First in, first out, real time.
pub const FIFO: u32 = 1;
/// Round robin, real time.
pub const RR: u32 = 2;
/// Runs only when no other thread wants the core.
pub const IDLE: u32 = 5;
/// Earliest deadline first with constant bandwidth servers.
pub const DEADLINE: u32 = 6;
/// Children start as SCHED_OTHER; without it fork fails under SCHED_DEADLINE.
const RESET_ON_FORK: u64 = 1;

/// The smallest reservation there is: 1,024 ns in 4,194,304,000 ns is 0 in the kernel's 20-bit fixed point.
const NOTHING: (u64, u64) = (1_024, 4_194_304_000);

impl Attr {
    /// SCHED_DEADLINE with this budget and period; deadline = period.
    pub fn deadline(budget_ns: u64, period_ns: u64) -> Attr {
        let (runtime, period) = (budget_ns, period_ns);
        Attr { policy: DEADLINE, flags: RESET_ON_FORK, runtime, deadline: period, period, ..Attr::default() }
    }
    /// Another policy with a real-time priority (0 for those that have none).
    pub fn of_policy(policy: u32, priority: u32) -> Attr {
        Attr { policy, priority, flags: RESET_ON_FORK, ..Attr::default() }
    }
    /// As [`Attr::of_policy`], but children start with the same.
    pub(crate) fn inherited(policy: u32, priority: u32) -> Attr {
        Attr { policy, priority, ..Attr::default() }
    }
    /// The first of the fair threads: with the highest weight and the shortest slice that the kernel grants (from Linux 6.12 on),
    /// so that it does not wait for the slices of others when it wakes.
    pub(crate) fn fair_first() -> Attr {
        Attr { nice: -20, runtime: 100_000, ..Attr::default() }
    }
    /// Whether children start as fair threads.
    pub(crate) fn resets_on_fork(&self) -> bool {
        self.flags & RESET_ON_FORK != 0
    }
    /// The same, but children start as fair threads.
    pub(crate) fn reset_on_fork(self) -> Attr {
        Attr { flags: self.flags | RESET_ON_FORK, ..self }
    }
    pub(crate) fn is_fair(&self) -> bool {
        !matches!(self.policy, FIFO | RR | DEADLINE)
    }
}

/// Attributes of a thread (0: the caller), fit to be set again: a fair thread's runtime is its own time slice, 0 if it has the
/// default one (that of the calling thread), since setting the default would make it the thread's own.
pub fn get(tid: u32) -> io::Result<Attr> {
    let mut attr = raw(tid)?;
    if attr.is_fair() && raw(0).is_ok_and(|own| own.is_fair() && own.runtime == attr.runtime) {
        attr.runtime = 0;
    }
    Ok(attr)
}

fn raw(tid: u32) -> io::Result<Attr> {
    let mut attr = Attr::default();
    // SAFETY: the kernel fills at most the bytes that are told.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attr, mem::size_of::<Attr>(), 0) };
    result(done).map(|()| Attr { size: 0, ..attr })
}

/// Sets attributes of a thread (0: the caller).
pub fn set(tid: u32, attr: &Attr) -> io::Result<()> {
    let attr = Attr { size: mem::size_of::<Attr>() as u32, ..*attr };
    // SAFETY: `attr` is a complete sched_attr of the size it tells.
    result(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attr, 0) })?;
    if attr.policy as libc::c_int == libc::SCHED_IDLE {
        // With this policy the kernel leaves the nice value as it is.
        // SAFETY: plain numbers.
        return result(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, attr.nice) }.into());
    }
    Ok(())
}

/// Gives a thread (0: the caller) `attr` back, whatever it has. It leaves SCHED_DEADLINE by shrinking its reservation
/// first: one that sleeps past its zero-lag time would leave its bandwidth booked for ever (docs/decisions/0002).
pub fn leave(tid: u32, attr: &Attr) -> io::Result<()> {
    if tid == 0 {
        // From outside: a thread that overran the shrunken reservation by 100 us would be throttled for minutes.
        // SAFETY: no arguments, cannot fail.
        let own = unsafe { libc::gettid() } as u32;
        let other = std::thread::scope(|scope| scope.spawn(|| leave(own, attr)).join());
        return other.unwrap_or_else(|_| Err(io::Error::other("the leaving thread broke down")));
    }
    if get(tid)?.policy == DEADLINE && attr.policy != DEADLINE {
        // Refused only where the kernel's sum is wrong already; leaving is right then too.
        let _ = set(tid, &Attr::deadline(NOTHING.0, NOTHING.1.min(period_max_ns())));
    }
    set(tid, attr)
}

/// `sched_deadline_period_max_us` in ns; the kernel's default where it cannot be read.
fn period_max_ns() -> u64 {
    let text = read("/proc/sys/kernel/sched_deadline_period_max_us").unwrap_or_default();
    text.trim().parse::<u64>().map_or(NOTHING.1, |us| us.saturating_mul(1_000))
}

/// The core that a thread runs on, or ran on last.
pub(crate) fn core(tid: u32) -> Option<u32> {
    let stat = read(format!("/proc/{tid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

/// Whether a thread runs, or waits for its core.
pub fn wants_to_run(tid: u32) -> bool {
    let stat = read(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// Threads of the whole machine that may not run on all online cores, the kernel's own ones excepted, with their cores.
pub(crate) fn restricted() -> Vec<(Thread, Vec<u32>)> {
    let online = crate::cores::online();
    let threads = processes().into_iter().flat_map(threads);
    threads.filter_map(|tid| Some((Thread::of(tid)?, affinity(tid).ok().filter(|cores| *cores != online)?))).collect()
}

/// The core on which the caller runs right now.
pub fn here() -> u32 {
    // SAFETY: no arguments; it fails on no kernel that has it.
    unsafe { libc::sched_getcpu() as u32 }
}

/// Cores a thread may run on, ascending.
pub fn affinity(tid: u32) -> io::Result<Vec<u32>> {
    let mut mask = [0u64; 128];
    // SAFETY: the kernel fills at most the bytes that are told.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, mem::size_of_val(&mask), mask.as_mut_ptr()) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..8192).filter(|&core| mask[core as usize / 64] >> (core % 64) & 1 == 1).collect())
}

/// Cores a thread may run on, ascending, with those that are offline now: what to give it back once they are there
/// again. Read from its status, as [`affinity`] leaves out what is offline at that instant, and a core may come back meanwhile.
pub(crate) fn allowed(tid: u32) -> io::Result<Vec<u32>> {
    let status = read(format!("/proc/{tid}/status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let present = read("/sys/devices/system/cpu/present")?;
    let present = crate::cores::parse_cores(&present);
    Ok(crate::cores::parse_cores(list).into_iter().filter(|core| present.contains(core)).collect())
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Restricts a thread to `cores`.
pub fn set_affinity(tid: u32, cores: &[u32]) -> io::Result<()> {
    let mut mask = [0u64; 128];
    for &core in cores {
        if let Some(word) = mask.get_mut(core as usize / 64) {
            *word |= 1 << (core % 64);
        }
    }
    // SAFETY: the kernel reads the bytes that are told.
    result(unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, mem::size_of_val(&mask), mask.as_ptr()) })
}

fn result(done: i64) -> io::Result<()> {
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's fixed point (to_ratio in kernel/sched/core.c): (runtime << 20) / period.
    #[test]
    fn the_reservation_before_leaving_books_nothing() {
        assert_eq!((NOTHING.0 << 20) / NOTHING.1, 0);
    }

    #[test]
    fn setting_what_was_read_changes_nothing() {
        std::thread::spawn(|| {
            let (before, slice, cores) = (get(0).unwrap(), raw(0).unwrap().runtime, affinity(0).unwrap());
            assert_eq!(before.runtime, 0, "the default slice must not become the thread's own");
            set(0, &before).unwrap();
            set_affinity(0, &cores).unwrap();
            assert_eq!((get(0).unwrap(), raw(0).unwrap().runtime, affinity(0).unwrap()), (before, slice, cores));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_idle_thread_gets_its_nice_value_back() {
        std::thread::spawn(|| {
            let before = get(0).unwrap();
            let idle = Attr { policy: libc::SCHED_IDLE as u32, nice: 19, ..before };
            set(0, &idle).unwrap();
            assert_eq!((get(0).unwrap().policy, get(0).unwrap().nice), (libc::SCHED_IDLE as u32, 19));
            // SAFETY: plain numbers. Only root may be less nice again.
            if unsafe { libc::geteuid() } == 0 {
                set(0, &Attr { policy: OTHER, nice: -5, ..before }).unwrap();
                set(0, &idle).unwrap();
                assert_eq!(get(0).unwrap().nice, 19);
            }
        })
        .join()
        .unwrap();
    }
}
