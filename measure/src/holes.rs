//! Time that a core lost although it had work: the hypervisor ran something else. The clock of stolen time steps by 10 ms
//! and does not show all of it (docs/decisions/0032).

use crate::noise::idle_ticks;
use giusto_model::Duration;
use perf_event_open_sys::bindings::{
    perf_event_attr, perf_event_header, perf_event_mmap_page, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{fence, Ordering};

/// The kernel notes the time so often, in an interrupt of the core that no priority keeps off.
const EVERY: u64 = 1_000_000;
/// Pages of the kernel's buffer, a power of two: a minute of samples of 16 bytes.
const PAGES: usize = 256;

/// Notes when a core's timer comes, until it is asked what came late. Costs the core about 2 us a millisecond.
#[derive(Debug)]
pub struct Holes {
    core: u32,
    idle: u64,
    buffer: *mut libc::c_void,
    length: usize,
    page: usize,
    _event: OwnedFd,
}

impl Holes {
    /// Begins to look at `core`.
    ///
    /// # Errors
    /// The kernel refuses: without CAP_PERFMON, above its limits, or without such a core.
    pub fn watch(core: u32) -> io::Result<Holes> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
            sample_type: u64::from(PERF_SAMPLE_TIME),
            ..perf_event_attr::default()
        };
        attr.__bindgen_anon_1.sample_period = EVERY;
        // SAFETY: attr is a complete perf_event_attr; the call keeps no pointer to it.
        let event = unsafe { perf_event_open_sys::perf_event_open(&mut attr, -1, core as i32, -1, CLOSE_ON_EXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nothing else has it.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let page = rustix::param::page_size();
        let (length, how) = ((1 + PAGES) * page, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let buffer = unsafe { libc::mmap(std::ptr::null_mut(), length, how, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        if buffer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Holes { core, idle: idle_ticks(core)?, buffer, length, page, _event: event })
    }

    /// How much longer than it should the timer took to come again, all holes together. `None`: it cannot be told. The core
    /// was idle for a while, and its timer rested; or it was watched for more than a minute.
    pub fn lost(&self) -> Option<Duration> {
        // One tick may have been due from before.
        if idle_ticks(self.core).ok()?.saturating_sub(self.idle) > 1 {
            return None;
        }
        let times = self.times()?;
        let late = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).filter(|gap| *gap > 2 * EVERY);
        Some(Duration::from_ns(late.map(|gap| gap - EVERY).sum()))
    }

    /// When it came, in ns; `None` where the buffer has run over.
    fn times(&self) -> Option<Vec<u64>> {
        let head = self.buffer.cast::<perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure; the kernel writes data_head while it is read.
        let written = unsafe { std::ptr::addr_of!((*head).data_head).read_volatile() };
        fence(Ordering::Acquire); // what was written before data_head is there now
        let (mut at, mut times) = (0, Vec::new());
        let header = size_of::<perf_event_header>() as u64;
        while at < written {
            // SAFETY: nothing is overwritten, as data_tail stays 0, so the buffer holds whole records up to `written`, which
            // lie one after another from its first byte on, are aligned to 8 bytes and begin with this header.
            let record = unsafe { self.at(at).cast::<perf_event_header>().read() };
            if record.type_ != PERF_RECORD_SAMPLE || record.size == 0 {
                return None;
            }
            // SAFETY: as above; the one field of a sample is its time.
            times.push(unsafe { self.at(at + header).cast::<u64>().read() });
            at += u64::from(record.size);
        }
        // The next sample may not have found room any more.
        (written + 2 * header <= (PAGES * self.page) as u64).then_some(times)
    }

    /// # Safety
    /// `offset` lies within the buffer.
    unsafe fn at(&self, offset: u64) -> *const u8 {
        self.buffer.cast::<u8>().add(self.page + offset as usize)
    }
}

const CLOSE_ON_EXEC: libc::c_ulong = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC as libc::c_ulong;

impl Drop for Holes {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing that was read from it refers to it.
        unsafe { libc::munmap(self.buffer, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Keeps this thread's core busy, with an idea of its own of when it did not run.
    fn busy(for_ms: u64) -> Duration {
        let (begin, mut last, mut lost) = (Instant::now(), Instant::now(), 0);
        while begin.elapsed().as_millis() < u128::from(for_ms) {
            let now = Instant::now();
            let gap = (now - last).as_nanos() as u64;
            lost += if gap > 2 * EVERY { gap } else { 0 };
            last = now;
        }
        Duration::from_ns(lost)
    }

    #[test]
    fn on_a_busy_core_no_more_is_lost_than_a_program_loses_there() {
        let core = rustix::thread::sched_getcpu() as u32;
        let mut only = rustix::thread::CpuSet::new();
        only.set(core as usize);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        let Ok(holes) = Holes::watch(core) else {
            eprintln!("skipped: this kernel lets no one count clocks (CAP_PERFMON)");
            return;
        };
        let without = busy(300);
        let times = holes.times().unwrap();
        assert!(times.len() >= 100 && times.is_sorted(), "{} samples", times.len());
        // What the program lost to others on its core, the timer did not; what the hypervisor took, both.
        let Some(lost) = holes.lost() else { return };
        assert!(lost <= without.checked_add(Duration::from_ms(3)).unwrap(), "{lost} of {without}");
    }

    #[test]
    fn a_core_that_rests_is_not_taken_for_one_that_is_stopped() {
        let Ok(holes) = Holes::watch(0) else { return };
        let begin = idle_ticks(0).unwrap();
        while idle_ticks(0).unwrap() < begin + 3 && holes.times().is_some_and(|times| times.len() < 20_000) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if idle_ticks(0).unwrap() >= begin + 3 {
            assert_eq!(holes.lost(), None);
        }
    }
}
