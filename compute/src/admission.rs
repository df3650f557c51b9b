//! Asking the kernel how much deadline bandwidth is free, by reserving it for an instant.
//!
//! The kernel's own sum (`total_bw`) is only in debugfs, which often cannot be read. One thread of ours a core tries to
//! reserve the same share, asleep; all leave again within a millisecond or two.

use crate::sched::{self, Attr};
use giusto_model::Bandwidth;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Barrier;
use std::{fs, io, thread};

/// Period of a probing reservation: short, so that even one that was killed is off the books soon.
const PERIOD_NS: u64 = 10_000_000;

/// All that is ever admitted is free.
pub(crate) const ALL: u32 = 10;
/// More than the kernel should ever admit is: its sum has lost what the fair server holds.
pub(crate) const TOO_MUCH: u32 = 11;

/// Largest n such that a reservation of n tenths of what is ever admitted is admitted for all online cores together, or
/// [`TOO_MUCH`]. `None` if that cannot be told: no privilege, no admission control, or this program is confined to some
/// cores. At most eleven tries of about a millisecond.
///
/// `cap` is handed in, as reading it (`sched_rt_runtime_us`) makes kernels since 6.15 build their domains anew: wrong while a
/// thread that died is still booked.
pub(crate) fn free_tenths(tree: &Path, cap: Bandwidth) -> Option<u32> {
    let cores = crate::cores::online();
    let cap_ns = cap.times_ceil(giusto_model::Duration::from_ns(PERIOD_NS))?.ns();
    // A tenth of a point of room for the kernel's rounding; two points over.
    let budget_ns = |tenths: u32| match tenths {
        TOO_MUCH => cap_ns + PERIOD_NS / 50,
        _ => (cap_ns.saturating_sub(PERIOD_NS / 1_000)) * u64::from(tenths) / u64::from(ALL),
    };
    for tenths in (1..=TOO_MUCH).rev().filter(|&tenths| budget_ns(tenths) <= PERIOD_NS) {
        match try_all(&cores, tree, budget_ns(tenths)) {
            Ok(true) => return Some(tenths),
            Ok(false) => {}
            Err(_) => return None,
        }
    }
    Some(0)
}

fn try_all(cores: &[u32], tree: &Path, budget_ns: u64) -> io::Result<bool> {
    let (all_tried, admitted, broken) = (Barrier::new(cores.len()), AtomicUsize::new(0), AtomicU32::new(0));
    let attempt = || {
        let reserved = to_all_cores(cores, tree).and_then(|()| sched::set(0, &Attr::deadline(budget_ns, PERIOD_NS)));
        match reserved.as_ref().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
            Ok(()) => _ = admitted.fetch_add(1, Ordering::Relaxed),
            Err(libc::EBUSY) => {}
            Err(code) => broken.store(code as u32, Ordering::Relaxed),
        }
        all_tried.wait();
        if reserved.is_ok() {
            let _ = sched::leave(0, &Attr::default());
        }
    };
    thread::scope(|scope| cores.iter().for_each(|_| _ = scope.spawn(attempt)));
    match broken.into_inner() {
        0 => Ok(admitted.into_inner() == cores.len()),
        code => Err(io::Error::from_raw_os_error(code as i32)),
    }
}

/// A thread may reserve only if it may run on every core of its root domain.
fn to_all_cores(cores: &[u32], tree: &Path) -> io::Result<()> {
    if sched::affinity(0)? != cores {
        // cgroup v1 moves single threads; this one ends in a moment, so that nothing has to be put back.
        let _ = fs::write(tree.join("tasks"), "0");
        sched::set_affinity(0, cores)?;
    }
    Ok(())
}
