//! A sign of life that another process can see: when each manager last came by.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Managers of one host at most.
const MANAGERS: usize = 512;

/// Memory that is shared with the processes forked after it was made. Clones are the same memory.
#[derive(Clone)]
pub struct Beats(Arc<Shared>);

struct Shared(*mut AtomicU64);
// SAFETY: shared memory of atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Beats {
    /// All silent.
    pub fn new() -> io::Result<Beats> {
        let (bytes, access) = (MANAGERS * size_of::<AtomicU64>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new anonymous mapping, zeroed, never unmapped before the last clone goes.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Beats(Arc::new(Shared(at.cast()))))
    }

    /// The manager of `core` is there at `now` (CLOCK_MONOTONIC, ns); 0: it has ended in good order.
    pub(super) fn beat(&self, core: u32, now: u64) {
        self.all()[core as usize % MANAGERS].store(now, Ordering::Relaxed);
    }

    /// When the manager came by last that has been silent for longest, if there is one.
    pub fn oldest(&self) -> Option<u64> {
        self.all().iter().map(|beat| beat.load(Ordering::Relaxed)).filter(|&beat| beat > 0).min()
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: `new` mapped as many.
        unsafe { std::slice::from_raw_parts(self.0 .0, MANAGERS) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, used by nobody else any more.
        unsafe { libc::munmap(self.0.cast(), MANAGERS * size_of::<AtomicU64>()) };
    }
}
