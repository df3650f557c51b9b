//! The guard: servers of a manager that is late do not run away with its core.
//!
//! A server that has a budget is at a real-time priority until its manager takes it away. A manager that cannot (its process is
//! stopped, its thread is throttled, starved or waits for a page) would let it have the core for as long. So another process,
//! the one that also restores the host, looks whether each manager came by when it was due; if not, it stops all its servers.
//! The manager lets them go on when it is back.
//!
//! Not a quota of the kernel: `cpu.max` does not bind real-time threads, `cpu.rt_runtime_us` is in few kernels, and neither
//! knows a fixed grid.

use super::beat::Beats;
use crate::files::{Files, Real};
use crate::sched::{self, Attr};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

/// A manager that is later than this (ns) does not count on its servers. Virtual machines have holes of 15 ms.
const GRACE: u64 = 20_000_000;

/// Stops the servers of all managers that are late at `now` (CLOCK_MONOTONIC, ns). To be called again and again; what was
/// stopped stays so until its manager comes by. Two writes a server.
pub fn guard(beats: &Beats, now: u64) {
    for core in beats.late(now, GRACE) {
        let stops = &beats.of(core).stops;
        // Odd while it is under way: a manager that is back meanwhile looks once more.
        if stops.load(SeqCst).is_multiple_of(2) {
            stops.fetch_add(1, SeqCst);
        }
        beats.groups(core).for_each(|group| stop(&group));
        // Late still: nothing has been let go on meanwhile, and a manager that comes now sees an even number that is new to it.
        stops.fetch_add(1, SeqCst);
        // Once is enough: the manager says anew when it is due.
        let _ = beats.of(core).due.fetch_update(SeqCst, SeqCst, |due| (due < now).then_some(0));
    }
}

/// Stops the members of a group; where it cannot be stopped, it has no real-time priority at least.
fn stop(group: &Path) {
    let (v1, v2) = (group.join("freezer.state"), group.join("cgroup.freeze"));
    let stopped = Real.write(&v1, "FROZEN").or_else(|_| Real.write(&v2, "1"));
    if stopped.is_ok() {
        return;
    }
    let threads = Real.read(&group.join("tasks")).or_else(|_| Real.read(&group.join("cgroup.threads")));
    for tid in threads.unwrap_or_default().lines().filter_map(|line| line.parse().ok()) {
        let _ = sched::set(tid, &Attr::default());
    }
}
