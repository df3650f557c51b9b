//! What this machine can do, without changing it.

use crate::cpuset::{parse_cores, Cpusets};
use crate::files::Real;
use crate::manager::group::Freezer;
use crate::neighbours::{self, Held};
use crate::rights::{host_rights, BPF, SYS_ADMIN, SYS_NICE};
use giusto_model::{Backend, Bandwidth, Duration};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// A machine, as far as the backends care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that are online.
    pub cores: Vec<u32>,
    /// The kernel's tick, at which budgets are enforced.
    pub tick: Duration,
    /// `sched_deadline_period_min_us`.
    pub period_min: Duration,
    /// `sched_deadline_period_max_us`.
    pub period_max: Duration,
    /// What the kernel admits of a core.
    pub cap: Bandwidth,
    /// Where cpusets are.
    pub cpusets: Option<Cpusets>,
    /// Cores that the backend `deadline` cannot have, as tasks of other cpusets keep them.
    pub held: Vec<Held>,
    /// What the backend `deadline` lacks; empty: it can work.
    pub missing: Vec<Lack>,
    /// What the backend `manager` lacks.
    pub manager: Vec<Lack>,
    /// What the backend `rt-group` lacks.
    pub rt_group: Vec<Lack>,
    /// What the backend `quota` lacks.
    pub quota: Vec<Lack>,
}

impl Machine {
    /// What `backend` lacks; empty: it can work.
    pub fn lacks(&self, backend: Backend) -> &[Lack] {
        match backend {
            Backend::Deadline => &self.missing,
            Backend::Manager => &self.manager,
            Backend::RtGroup => &self.rt_group,
            Backend::Quota => &self.quota,
        }
    }
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What.
    pub what: String,
    /// How to get it.
    pub how: String,
}

/// The share of a core that real-time threads may use; see [`crate::cpuset::rebuild_domains`] for what reading it does.
pub(crate) const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Looks at the machine. Reads only; works without privilege.
///
/// Not to be called while a thread may just have died under SCHED_DEADLINE: since 6.15 the kernel counts its deadline
/// bandwidth anew when `sched_rt_runtime_us` is read, and forgets what the dead thread gives back later. Undoing mends that.
pub fn probe() -> Machine {
    let micros = |name: &str, default: u64| {
        let us = number(&format!("/proc/sys/kernel/{name}")).and_then(|us| u64::try_from(us).ok());
        Duration::from_us(us.unwrap_or(default))
    };
    let cores = online();
    let cpusets = Cpusets::find();
    let mut missing = Vec::new();
    let mut lack = |what: &str, how: &str| missing.push(Lack { what: what.into(), how: how.into() });
    if !SYS_NICE.held() {
        lack("CAP_SYS_NICE (to set SCHED_DEADLINE)", ROOT);
    }
    match &cpusets {
        None => lack(
            "cpusets (to give a core a root domain of its own)",
            "mount cgroup v2, or v1 with the cpuset controller",
        ),
        Some(found) if !writable(found) => {
            lack(&format!("write access to {}", found.root().display()), "run as root, outside of a container")
        }
        Some(_) => {}
    }
    // In a user namespace nothing else counts, and comes first.
    let beside = |lacks: Vec<Lack>| host_rights().into_iter().chain(lacks).collect();
    Machine {
        cores,
        tick: tick(),
        period_min: micros("sched_deadline_period_min_us", 100),
        period_max: micros("sched_deadline_period_max_us", 4_194_304),
        cap: cap(),
        held: cpusets.as_ref().map_or_else(Vec::new, |cpusets| neighbours::held(&Real, cpusets)),
        cpusets,
        missing: beside(missing),
        manager: beside(manager()),
        rt_group: beside(rt_group()),
        quota: beside(quota()),
    }
}

const ROOT: &str = "run as root: sudo giusto run ...";
/// Where version 1 hierarchies are mounted, with the names that distributions give that of cpu.
const CPU: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// The manager reads consumption with BPF, sets real-time priorities and freezes what has used up its budget.
fn manager() -> Vec<Lack> {
    let mut missing = Vec::new();
    let mut lack = |what: &str, how: &str| missing.push(Lack { what: what.into(), how: how.into() });
    if !SYS_NICE.held() {
        lack("CAP_SYS_NICE (to set SCHED_FIFO)", ROOT);
    }
    if !BPF.held() && !SYS_ADMIN.held() {
        lack("CAP_BPF or CAP_SYS_ADMIN (to load BPF programs)", ROOT);
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        lack("/sys/kernel/btf/vmlinux", "use a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions' kernels are");
    }
    if kernel_version() < (5, 18) {
        lack("Linux 5.18 or later", "use a later kernel");
    }
    // PROC_PID_INIT_INO (include/linux/proc_ns.h): what BPF tells of threads are the numbers that they have there.
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new("pid:[4026531836]")) {
        lack("the host's PID namespace", "run outside of a container, or with --pid=host");
    }
    if Freezer::find(&Real).is_none() {
        lack("a cgroup freezer", "mount cgroup v2, or v1 with the freezer controller");
    }
    missing
}

fn rt_group() -> Vec<Lack> {
    match CPU.iter().map(|root| Path::new(root).join("cpu.rt_runtime_us")).find(|file| file.exists()) {
        None => vec![Lack {
            what: "cpu.rt_runtime_us (real-time groups)".into(),
            how: "use a kernel built with CONFIG_RT_GROUP_SCHED and mount cgroup v1 with the cpu controller".into(),
        }],
        Some(file) => writing(&file),
    }
}

fn quota() -> Vec<Lack> {
    let first = CPU.iter().map(|root| Path::new(root).join("cpu.cfs_quota_us")).find(|file| file.exists());
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match first {
        Some(file) => writing(&file),
        None if controllers.split_whitespace().any(|one| one == "cpu") => {
            writing(Path::new("/sys/fs/cgroup/cgroup.subtree_control"))
        }
        None => vec![Lack {
            what: "the cpu controller of cgroups (for quotas)".into(),
            how: "mount cgroup v2, or v1 with the cpu controller, on a kernel with CONFIG_CFS_BANDWIDTH".into(),
        }],
    }
}

/// Whether the groups of a hierarchy can be changed, told by one file of its root.
fn writing(file: &Path) -> Vec<Lack> {
    let allowed = [file, file.parent().unwrap_or(file)]
        .into_iter()
        .all(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok());
    if allowed {
        return Vec::new();
    }
    vec![Lack {
        what: format!("write access to {}", file.display()),
        how: "run as root, outside of a container".into(),
    }]
}

/// Cores that are online, ascending; core 0 always is.
pub(crate) fn online() -> Vec<u32> {
    let cores = parse_cores(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default());
    if cores.is_empty() {
        return vec![0];
    }
    cores
}

/// The tick is the resolution of the kernel's coarse clock (kernel/time/posix-timers.c, KTIME_LOW_RES).
fn tick() -> Duration {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    Duration::from_ns(u64::try_from(resolution.tv_nsec).unwrap_or(4_000_000).max(1_000_000))
}

fn number(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What the kernel admits of a core.
pub(crate) fn cap() -> Bandwidth {
    cap_of(number(RT_RUNTIME), number("/proc/sys/kernel/sched_rt_period_us"))
}

/// `sched_rt_runtime_us / sched_rt_period_us`, less 5 points for the fair server since 6.12.
fn cap_of(runtime: Option<i64>, period: Option<i64>) -> Bandwidth {
    let (runtime, period) = match (runtime, period) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => (runtime as u64, period as u64),
        (Some(_), Some(_)) => (1, 1), // -1: no limit
        _ => (95, 100),
    };
    let share = Bandwidth::new(runtime.min(period), period).unwrap_or(Bandwidth::ONE);
    let fair = if kernel_version() >= (6, 12) { Bandwidth::new(1, 20) } else { None };
    fair.and_then(|fair| share.checked_sub(fair)).unwrap_or(share)
}

/// The kernel's version and release, such as 6 and 12.
pub fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn writable(cpusets: &Cpusets) -> bool {
    let path = cpusets.root().join("cgroup.procs");
    rustix::fs::access(path.as_path(), rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::access(cpusets.root(), rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_follows_the_throttle() {
        let points = |bandwidth: Bandwidth| (bandwidth.as_f64() * 100.0).round() as u32;
        let fair = if kernel_version() >= (6, 12) { 5 } else { 0 };
        assert_eq!(points(cap_of(Some(950_000), Some(1_000_000))), 95 - fair);
        assert_eq!(points(cap_of(Some(-1), Some(1_000_000))), 100 - fair);
        assert_eq!(points(cap_of(None, None)), 95 - fair);
    }

    #[test]
    fn what_a_backend_lacks_comes_with_what_to_do() {
        let machine = probe();
        for backend in Backend::ALL {
            for lack in machine.lacks(backend) {
                assert!(!lack.what.is_empty() && !lack.how.is_empty(), "{backend}: {lack:?}");
            }
        }
    }

    #[test]
    fn probing_finds_cores_and_a_plausible_tick() {
        let machine = probe();
        assert!(!machine.cores.is_empty());
        assert!(
            [1, 2, 3, 4, 10].map(Duration::from_ms).contains(&machine.tick) || machine.tick < Duration::from_ms(11)
        );
    }
}
