//! What this process may do: root, namespaces, capabilities, real-time policies.

use super::check::Check;
use giusto_compute::rights::SYS_PTRACE;
use giusto_compute::rights::{in_user_namespace, try_fifo, Capability, BPF, NET_ADMIN, PERFMON, SYS_ADMIN, SYS_NICE};
use giusto_compute::Machine;
use giusto_model::Bandwidth;
use std::fs;

/// What to do where a privilege is missing.
const AS_ROOT: &str = "run as root: sudo giusto run ...";
const ON_HOST: &str =
    "run as root of the host: outside of 'unshare -U', rootless podman or docker, and without userns-remap";

pub(super) fn root() -> Check {
    let user = rustix::process::geteuid().as_raw();
    match (user, in_user_namespace()) {
        (0, false) => Check::ok("root", "root of the host"),
        (0, true) => Check::note("root", "root of a user namespace only", "see the next line"),
        _ => Check::note("root", format!("user {user}"), AS_ROOT),
    }
}

pub(super) fn namespace() -> Check {
    if !in_user_namespace() {
        return Check::ok("user namespace", "the host's");
    }
    Check::missing("user namespace", "its own: its root may not schedule on the host", ON_HOST)
}

/// What is of use, and for what.
const WANTED: [(Capability, &str); 6] = [
    (SYS_NICE, "real-time policies"),
    (SYS_ADMIN, "BPF and cgroups of others"),
    (BPF, "the manager's BPF programs"),
    (PERFMON, "the manager's BPF programs"),
    (NET_ADMIN, "'network:' in a site"),
    (SYS_PTRACE, "threads that sleep on another core"),
];

pub(super) fn capabilities() -> Check {
    let held: Vec<bool> = WANTED.iter().map(|(one, _)| one.held()).collect();
    if in_user_namespace() {
        return Check::note("capabilities", "only those of the user namespace", ON_HOST);
    }
    judged(&held)
}

/// Judges which of [`WANTED`] are held.
fn judged(held: &[bool]) -> Check {
    let names = |wanted: bool| {
        let some = WANTED.iter().zip(held).filter(|(_, held)| **held == wanted);
        some.map(|((one, _), _)| one.name).collect::<Vec<_>>().join(", ")
    };
    if held.iter().all(|held| *held) {
        return Check::ok("capabilities", "all that are of use");
    }
    let purposes: Vec<String> = WANTED
        .iter()
        .zip(held)
        .filter(|(_, held)| !**held)
        .map(|((one, purpose), _)| format!("{}: {purpose}", one.name))
        .collect();
    // SYS_NICE is what no backend that reserves does without.
    match held.first() {
        Some(false) => Check::missing("capabilities", format!("no {}", names(false)), AS_ROOT),
        _ => Check::note("capabilities", format!("no {}", names(false)), format!("needed for {}", purposes.join("; "))),
    }
}

/// Whether a thread is given SCHED_FIFO when it asks.
pub(super) fn fifo() -> Check {
    let runtime = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    if runtime.trim() == "0" {
        let how = "allow them: sysctl kernel.sched_rt_runtime_us=950000";
        return Check::missing("SCHED_FIFO", "real-time threads may not run at all", how);
    }
    match try_fifo() {
        Ok(()) => Check::ok("SCHED_FIFO", "given when asked for"),
        Err(_) if !SYS_NICE.held() => Check::missing("SCHED_FIFO", "refused: CAP_SYS_NICE is missing", AS_ROOT),
        Err(_) if in_user_namespace() => Check::missing("SCHED_FIFO", "refused in a user namespace", ON_HOST),
        Err(why) => {
            let how =
                "in a container allow sched_setattr (seccomp); under cgroup v1 with real-time groups give this group \
                       cpu.rt_runtime_us";
            Check::missing("SCHED_FIFO", format!("refused: {why}"), how)
        }
    }
}

/// How much of a core the kernel gives to SCHED_DEADLINE.
pub(super) fn deadline(machine: &Machine) -> Check {
    match machine.cap == Bandwidth::ZERO {
        false => {
            let periods = format!("{:.3} to {:.3}", machine.period_min, machine.period_max);
            Check::ok("SCHED_DEADLINE", format!("up to {} of a core, periods {periods}", machine.cap.percent()))
        }
        true => {
            let how = "give real-time threads more than 5 % of a core: sysctl kernel.sched_rt_runtime_us=950000";
            Check::note("SCHED_DEADLINE", "nothing of a core may be reserved", how)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Standing;
    use super::*;

    #[test]
    fn without_sys_nice_nothing_works_and_without_others_something_less() {
        assert_eq!(judged(&[true; 6]).state, Standing::Ok);
        let none = judged(&[false; 6]);
        assert!(none.state == Standing::Missing && none.found.starts_with("no CAP_SYS_NICE, CAP_SYS_ADMIN"));
        let no_net = judged(&[true, true, true, true, false, true]);
        assert_eq!((no_net.state, no_net.found.as_str()), (Standing::Note, "no CAP_NET_ADMIN"));
        assert_eq!(no_net.remedy.as_deref(), Some("needed for CAP_NET_ADMIN: 'network:' in a site"));
    }
}
