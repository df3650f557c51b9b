//! What this process may do to the host: its capabilities, whether they are the host's own, and whether the kernel
//! gives it a real-time policy when asked.

use crate::sched::{self, Attr};
use crate::Lack;
use std::{fs, io, thread};

/// A privilege of capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// As the kernel's headers name it.
    pub name: &'static str,
    /// Its bit.
    number: u32,
}

/// Interfaces, their filters and namespaces.
pub const NET_ADMIN: Capability = Capability { name: "CAP_NET_ADMIN", number: 12 };
/// To interrupt a thread of another user with ptrace.
pub const SYS_PTRACE: Capability = Capability { name: "CAP_SYS_PTRACE", number: 19 };
/// What no other capability covers: BPF on old kernels, mounts, cgroups of others.
pub const SYS_ADMIN: Capability = Capability { name: "CAP_SYS_ADMIN", number: 21 };
/// Real-time policies, cores and priorities of other users' threads.
pub const SYS_NICE: Capability = Capability { name: "CAP_SYS_NICE", number: 23 };
/// To load BPF programs that only watch.
pub const PERFMON: Capability = Capability { name: "CAP_PERFMON", number: 38 };
/// To load BPF programs.
pub const BPF: Capability = Capability { name: "CAP_BPF", number: 39 };

impl Capability {
    /// Whether this process has it now, in its own user namespace.
    pub fn held(self) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        effective(&status).is_some_and(|bits| bits >> self.number & 1 == 1)
    }
}

/// The effective set in a `/proc/PID/status`.
fn effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Whether this process is in a user namespace of its own, whose root is no root on the host. Where /proc cannot tell,
/// it is not.
pub fn in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_whole(&map))
}

/// Whether a `uid_map` maps every user to itself, as the first user namespace does and no other one that is of use.
fn is_whole(map: &str) -> bool {
    let words: Vec<&str> = map.split_ascii_whitespace().collect();
    words == ["0", "0", "4294967295"] || words.is_empty()
}

/// What every backend lacks in a user namespace: the kernel asks for capabilities of the host when a thread is to get a
/// real-time policy or a BPF program is to be loaded.
pub(crate) fn host_rights() -> Option<Lack> {
    in_user_namespace().then(|| Lack {
        what: "root on the host (this is a user namespace, whose root may not schedule)".into(),
        how: "run as root of the host: outside of 'unshare -U', rootless podman or docker, and without userns-remap"
            .into(),
    })
}

/// Asks the kernel for SCHED_FIFO, in a thread of its own that ends at once.
///
/// # Errors
/// What the kernel said.
pub fn try_fifo() -> io::Result<()> {
    let asked = thread::Builder::new().spawn(|| sched::set(0, &Attr::of_policy(sched::FIFO, 1)))?;
    asked.join().unwrap_or_else(|_| Err(io::Error::other("the asking thread broke down")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_map_of_all_users_to_themselves_is_the_host_s() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
        assert!(!is_whole("0 100000 65536\n"));
        assert!(!is_whole("0 1000 1\n1 100000 65536\n"));
        assert!(is_whole(""), "a /proc that tells nothing");
    }

    #[test]
    fn the_effective_set_is_found_among_the_others() {
        assert_eq!(effective("CapPrm:\tff\nCapEff:\t0000000000800000\nCapBnd:\t0\n"), Some(1 << SYS_NICE.number));
        assert_eq!(effective("CapPrm:\tff\n"), None);
        assert_eq!(effective("CapEff:\tx\n"), None);
    }

    #[test]
    fn whether_fifo_is_given_is_told_and_the_asking_thread_does_not_keep_it() {
        let given = try_fifo();
        if SYS_NICE.held() && !in_user_namespace() {
            assert!(given.is_ok() || given.is_err_and(|why| why.raw_os_error().is_some()));
        }
        assert_ne!(sched::get(0).unwrap().policy, sched::FIFO);
    }
}
