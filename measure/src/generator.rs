//! Where and how urgently the measuring thread runs, and that it runs as before afterwards.

use crate::Error;
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::io;
use std::marker::PhantomData;

/// How the thread that calls [`drive`](crate::drive()) or [`profile`](crate::profile()) runs meanwhile. Afterwards its
/// affinity, policy, priority and timer slack are what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generator {
    /// The CPU it is bound to; `None` leaves its affinity alone. Best one that no measured service uses.
    pub cpu: Option<u32>,
    /// SCHED_FIFO at this priority, 1 to 99; `None` leaves its policy alone. Needs CAP_SYS_NICE.
    pub fifo_priority: Option<u8>,
}

/// Undoes on drop what [`Generator::apply`] did. Bound to its thread.
pub(crate) struct Applied {
    affinity: Option<CpuSet>,
    policy: Option<(libc::c_int, libc::sched_param)>,
    slack: libc::c_int,
    thread: PhantomData<*const ()>,
}

impl Generator {
    /// Applies to the calling thread. What was done before an error is undone.
    pub(crate) fn apply(&self) -> Result<Applied, Error> {
        let mut applied = Applied { affinity: None, policy: None, slack: timer_slack(), thread: PhantomData };
        // The default slack of 50 us would make every request that late.
        set_timer_slack(1);
        if let Some(cpu) = self.cpu {
            let what = || format!("bind the measuring thread to core {cpu}");
            if cpu as usize >= CpuSet::MAX_CPU {
                return Err(failed(what(), io::Error::from_raw_os_error(libc::EINVAL)));
            }
            let before = sched_getaffinity(None).map_err(|e| failed(what(), e.into()))?;
            let mut one = CpuSet::new();
            one.set(cpu as usize);
            sched_setaffinity(None, &one).map_err(|e| failed(what(), e.into()))?;
            applied.affinity = Some(before);
        }
        if let Some(priority) = self.fifo_priority {
            let what = || format!("give the load generator SCHED_FIFO priority {priority} (1 to 99)");
            let before = policy().map_err(|e| failed(what(), e))?;
            let parameters = libc::sched_param { sched_priority: libc::c_int::from(priority) };
            set_policy(libc::SCHED_FIFO, &parameters).map_err(|e| failed(what(), e))?;
            applied.policy = Some(before);
        }
        Ok(applied)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        // Giving up a privilege or returning to what was allowed before cannot fail, and nothing could report it.
        if let Some((policy, parameters)) = &self.policy {
            let _ = set_policy(*policy, parameters);
        }
        if let Some(affinity) = &self.affinity {
            let _ = sched_setaffinity(None, affinity);
        }
        set_timer_slack(self.slack);
    }
}

fn failed(what: String, why: io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::EPERM) => Error::Privilege { what },
        _ => Error::System { what, why },
    }
}

pub(crate) fn policy() -> io::Result<(libc::c_int, libc::sched_param)> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the kernel writes one sched_param.
    let (policy, got) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut parameters)) };
    if policy < 0 || got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((policy, parameters))
}

fn set_policy(policy: libc::c_int, parameters: &libc::sched_param) -> io::Result<()> {
    // SAFETY: 0 is the calling thread; the kernel reads one sched_param.
    match unsafe { libc::sched_setscheduler(0, policy, parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn timer_slack() -> libc::c_int {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }
}

/// 0 means the thread's default to the kernel, and under SCHED_FIFO there is no slack to set: both are harmless.
fn set_timer_slack(ns: libc::c_int) {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(ns.max(0) as u32), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a generator may change of a thread.
    fn state() -> (CpuSet, i32, i32, i32) {
        let (policy, parameters) = policy().unwrap();
        (sched_getaffinity(None).unwrap(), policy, parameters.sched_priority, timer_slack())
    }

    #[test]
    fn the_thread_is_afterwards_as_before() {
        let before = state();
        let cpu = (0..CpuSet::MAX_CPU).find(|&c| before.0.is_set(c)).unwrap() as u32;
        match (Generator { cpu: Some(cpu), fifo_priority: Some(5) }).apply() {
            Ok(applied) => {
                let meanwhile = state();
                assert!(meanwhile.0.count() == 1 && meanwhile.0.is_set(cpu as usize));
                assert_eq!((meanwhile.1, meanwhile.2), (libc::SCHED_FIFO, 5));
                drop(applied);
            }
            // Without the privilege the other half of the law remains: said in words, and nothing left behind.
            Err(e) => assert!(e.to_string().contains("CAP_SYS_NICE is missing"), "{e}"),
        }
        assert_eq!(state(), before);
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error_and_is_undone() {
        let before = state();
        let nowhere = Generator { cpu: Some(u32::MAX), fifo_priority: None };
        assert!(matches!(nowhere.apply(), Err(Error::System { .. })));
        assert!((Generator { cpu: Some(0), fifo_priority: Some(100) }).apply().is_err());
        assert_eq!(state(), before);
    }
}
