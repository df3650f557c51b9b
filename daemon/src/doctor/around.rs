//! Where this machine runs: in a container, under a hypervisor.

use super::check::Check;
use rustix::time::{clock_gettime, ClockId};
use std::fs;
use std::path::Path;

/// Stolen time above this part makes measured latency say more about the hypervisor than about the plan.
const NOISY: f64 = 0.01;

/// PROC_PID_INIT_INO (include/linux/proc_ns.h).
const HOST_PIDS: &str = "pid:[4026531836]";

pub(super) fn container() -> Check {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let told = text("/run/systemd/container");
    let environment = fs::read("/proc/1/environ").unwrap_or_default();
    let files = ["/.dockerenv", "/run/.containerenv"].map(|file| Path::new(file).exists());
    let own_pids = fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new(HOST_PIDS));
    match (kind(&told, &environment, &text("/proc/1/cgroup")), marked(files)) {
        (None, None) if !own_pids => Check::ok("container", "none"),
        // The image of a virtual machine that was made of a container's, or a container that sees the host's processes.
        (None, Some(mark)) if !own_pids => Check::ok("container", format!("marks of {mark}, but the host's processes")),
        (kind, mark) => {
            let kind = kind.or(mark.map(String::from)).unwrap_or_else(|| "a PID namespace of its own".into());
            let how = "services of the container itself can be planned and simulated; to enforce, run giusto on the \
                       host, or in a container with --privileged --pid=host --cgroupns=host and /sys/fs/cgroup writable";
            Check::note("container", format!("this is one ({kind})"), how)
        }
    }
}

/// Which container this is, by what systemd tells, and the first process's environment and cgroup.
fn kind(told: &str, environment: &[u8], cgroup: &str) -> Option<String> {
    let variables = environment.split(|byte| *byte == 0).filter_map(|one| std::str::from_utf8(one).ok());
    let variable = variables.filter_map(|one| one.strip_prefix("container=")).next();
    let by_cgroup = ["docker", "kubepods", "lxc", "libpod"].into_iter().find(|name| cgroup.contains(*name));
    let said = [Some(told.trim()), variable, by_cgroup].into_iter().flatten().find(|name| !name.is_empty());
    said.map(String::from)
}

/// Whose mark is in the root folder.
fn marked(files: [bool; 2]) -> Option<&'static str> {
    files.into_iter().zip(["docker", "podman"]).find(|(there, _)| *there).map(|(_, name)| name)
}

/// Whether a hypervisor takes time from these cores, as its clock of stolen time tells since boot.
pub(super) fn hypervisor(cores: &[u32]) -> Check {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = is_virtual(&cpuinfo) || Path::new("/sys/hypervisor/type").exists();
    let stolen = giusto_measure::steal(cores).ok().map(|noise| noise.iter().map(|one| one.steal_ns).sum::<u64>());
    let up = clock_gettime(ClockId::Boottime).tv_sec.max(1) as f64 * cores.len().max(1) as f64;
    judged(virtual_machine, stolen.map(|ns| ns as f64 / 1e9 / up))
}

/// The processor says so itself (x86).
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Judges by the part of all time that was stolen; `None` where that cannot be read.
fn judged(virtual_machine: bool, stolen: Option<f64>) -> Check {
    let how = "latency here is the hypervisor's too: 'giusto measure latency --for 10s' tells it, and 'giusto plan \
               --latency' allows for it; pin the virtual machine's processors";
    match (virtual_machine, stolen) {
        (_, Some(part)) if part > NOISY => {
            Check::note("hypervisor", format!("took {:.1} % of all time since boot", part * 100.0), how)
        }
        (false, Some(_)) => Check::ok("hypervisor", "none that tells, nothing stolen"),
        (true, Some(part)) => Check::ok("hypervisor", format!("took {:.2} % since boot", part * 100.0)),
        (true, None) => Check::note("hypervisor", "there is one, and no clock of stolen time", how),
        (false, None) => Check::ok("hypervisor", "none that tells"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Standing;
    use super::*;

    #[test]
    fn containers_are_told_by_any_of_their_marks() {
        let of = |told: &str, environment: &str, cgroup: &str| kind(told, environment.as_bytes(), cgroup);
        assert_eq!(of("", "A=b\0PATH=/bin\0", "0::/init.scope\n"), None);
        assert_eq!(of("lxc\n", "container=docker\0", "").as_deref(), Some("lxc"));
        assert_eq!(of("", "A=b\0container=podman\0", "").as_deref(), Some("podman"));
        assert_eq!(of("", "", "0::/kubepods/x\n").as_deref(), Some("kubepods"));
        assert_eq!((marked([false; 2]), marked([false, true])), (None, Some("podman")));
    }

    #[test]
    fn a_hypervisor_matters_when_it_takes_more_than_a_hundredth() {
        assert!(is_virtual("processor: 0\nflags\t: fpu hypervisor\n") && !is_virtual("flags\t: fpu\n"));
        assert_eq!(judged(true, Some(0.02)).state, Standing::Note);
        assert_eq!(judged(true, Some(0.001)).state, Standing::Ok);
        assert_eq!(judged(true, None).state, Standing::Note);
        assert_eq!(judged(false, None).state, Standing::Ok);
    }
}
