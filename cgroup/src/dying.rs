//! Members that die slowly. At a low weight (SCHED_IDLE, a high nice value) beside others, a thread takes minutes for its last
//! steps in the kernel. It holds its group meanwhile, and cannot be moved any more.

use crate::list;
use std::path::Path;

/// `PF_EXITING` of the kernel: the thread is within `do_exit`.
const EXITING: u32 = 0x4;
/// In the set of pending signals, bit n - 1 is signal n.
const KILLED: u64 = 1 << (libc::SIGKILL - 1);

/// Gives the dying threads of a group (either version), if they are of the fair class or idle, its highest weight, so that they
/// end soon. They never run anything but their own end again.
pub fn hasten_dying(folder: &Path) {
    for file in ["tasks", "cgroup.threads"] {
        for tid in list(&folder.join(file)).into_iter().filter(|&tid| is_dying(tid)) {
            hasten(tid);
        }
    }
}

fn is_dying(tid: u32) -> bool {
    // A name may be cut within a sign.
    let read = |name: &str| {
        let text = std::fs::read(format!("/proc/{tid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    let stat = read("stat");
    // Behind the name, which may have any sign in it: state, parent, group, session, terminal, its group, flags.
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6)?.parse().ok());
    let pending = |line: &str| u64::from_str_radix(line.strip_prefix("SigPnd:")?.trim(), 16).ok();
    flags.is_some_and(|flags: u32| flags & EXITING != 0)
        || read("status").lines().find_map(pending).is_some_and(|signals| signals & KILLED != 0)
}

fn hasten(number: u32) {
    let tid = number as libc::pid_t;
    // SAFETY: plain numbers, and a parameter that outlives the call. It may have gone, which is what is wanted.
    unsafe {
        let policy = libc::sched_getscheduler(tid) & !libc::SCHED_RESET_ON_FORK;
        if ![libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&policy) {
            return;
        }
        let (none, who) = (libc::sched_param { sched_priority: 0 }, tid as libc::id_t);
        let nice = libc::getpriority(libc::PRIO_PROCESS, who);
        libc::sched_setscheduler(tid, libc::SCHED_OTHER, &none);
        libc::setpriority(libc::PRIO_PROCESS, who, -20);
        // Another thread may have its number by now, as that of a process that becomes another program has.
        if !is_dying(number) {
            libc::sched_setscheduler(tid, policy, &none);
            libc::setpriority(libc::PRIO_PROCESS, who, nice);
        }
    }
}
