//! The kernel and its cores: how many, by which version, in which cgroups.

use super::check::Check;
use crate::peek::{left, Left};
use giusto_compute::{kernel_version, sched, Cpusets, Machine};
use std::fs;

/// Cores that are online, and whether this process may use them all.
pub(super) fn online(machine: &Machine) -> Check {
    let bound = sched::affinity(0).unwrap_or_else(|_| machine.cores.clone());
    counted(&machine.cores, &bound)
}

fn counted(online: &[u32], bound: &[u32]) -> Check {
    let list = giusto_planner::cores(online);
    if online.len() == 1 {
        let how = "'giusto run' works with the backend manager; a trial and 'giusto measure response' need a second \
                   core for the load generator, and the backend deadline leaves no core for everything else";
        return Check::note("cores", format!("one: core {list}"), how);
    }
    let allowed: Vec<u32> = online.iter().copied().filter(|core| bound.contains(core)).collect();
    if allowed.len() < online.len() {
        let found = format!("bound to {} of {} ({list})", giusto_planner::cores(&allowed), online.len());
        let how =
            "start giusto without taskset, and a container with all cores; it can only use cores that its cpuset has, \
                   and with a single one no trial is possible";
        return Check::note("cores", found, how);
    }
    Check::ok("cores", format!("{} ({list})", online.len()))
}

/// The version, for the manager's BPF programs.
pub(super) fn kernel() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    if release.is_empty() {
        return Check::note("kernel", "unknown: no /proc/sys/kernel/osrelease", "mount proc: mount -t proc proc /proc");
    }
    match kernel_version() < (5, 18) {
        true => Check::note("kernel", release, "the backend manager needs Linux 5.18 or later"),
        false => Check::ok("kernel", release),
    }
}

/// Which cgroups there are, and whether cpusets.
pub(super) fn cgroups(machine: &Machine) -> Check {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let kinds = kinds(&mounts);
    match &machine.cpusets {
        Some(Cpusets::V1(root)) => Check::ok("cgroups", format!("{kinds}, cpuset: v1 at {}", root.display())),
        Some(Cpusets::V2(root)) => Check::ok("cgroups", format!("{kinds}, cpuset: v2 at {}", root.display())),
        None => {
            let how = "mount cgroup v2 (mount -t cgroup2 none /sys/fs/cgroup), or v1 with the cpuset controller: \
                       the backend deadline needs it to give a core a root domain of its own";
            Check::note("cgroups", format!("{kinds}, no cpuset controller"), how)
        }
    }
}

/// `v1`, `v2`, both or none, by the mount table.
fn kinds(mounts: &str) -> &'static str {
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => "v1 and v2",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none mounted",
    }
}

/// Cpusets of others that hold cores; those of a giusto that runs are its own business.
pub(super) fn others(machine: &Machine) -> Option<Check> {
    if matches!(left(), Ok(Left::Runs(_))) {
        return None;
    }
    let held = machine.held.first()?;
    let how = "do so, or leave it: there the backend manager serves; only the backend deadline needs a core for itself";
    Some(Check::note("cpusets of others", held.why.clone(), how))
}

#[cfg(test)]
mod tests {
    use super::super::check::Standing;
    use super::*;

    #[test]
    fn one_core_and_a_bound_process_are_told_with_what_works() {
        let one = counted(&[0], &[0]);
        assert!(one.state == Standing::Note && one.remedy.unwrap().contains("backend manager"));
        let bound = counted(&[0, 1, 2], &[1]);
        assert!(bound.state == Standing::Note && bound.found.starts_with("bound to 1 of 3 ("), "{bound:?}");
        assert_eq!(counted(&[0, 1], &[0, 1]).state, Standing::Ok);
    }

    #[test]
    fn hierarchies_are_told_by_the_mount_table() {
        let (v1, v2) = ("c /a cgroup rw 0 0\n", "c /b cgroup2 rw 0 0\n");
        assert_eq!(kinds(&format!("{v1}{v2}")), "v1 and v2");
        assert_eq!((kinds(v1), kinds(v2), kinds("")), ("v1", "v2", "none mounted"));
    }
}
