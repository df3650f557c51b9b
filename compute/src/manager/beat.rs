//! What managers show to another process: when each came by last and comes by next, and the groups of its servers. So that
//! process sees a manager that stalls, and stops its servers meanwhile ([`guard`](super::guard())).

use crate::sched::Thread;
use crate::stop;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Arc;

/// Managers of one host at most.
pub(super) const MANAGERS: usize = 512;
/// Groups of one host at most; further ones are not guarded.
const GROUPS: usize = 1024;
/// A longer path is not guarded. Those of containers of Kubernetes have 300 bytes.
const PATH: usize = 1016;

/// Processes that are stopped outside their groups at one time; further ones are not shown.
const STRAYS: usize = 64;

/// Memory that is shared with the processes forked after it was made. Clones are the same memory.
#[derive(Clone)]
pub struct Beats(Arc<Mapped>);

struct Mapped(*mut Shared);
// SAFETY: shared memory of atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// All zero at first.
#[repr(C)]
struct Shared {
    managers: [Beat; MANAGERS],
    /// When the thread that starts, stops and changes them came by last, while it is at work.
    main: AtomicU64,
    /// Processor time of the process that watches, in ns.
    watching: AtomicU64,
    groups: [Shown; GROUPS],
    strays: [Stray; STRAYS],
}

/// Of one manager. Times are of CLOCK_MONOTONIC, in ns; 0: none.
#[repr(C)]
#[derive(Default)]
pub(super) struct Beat {
    /// It was there.
    at: AtomicU64,
    /// It will be there again.
    pub(super) due: AtomicU64,
    /// How often its servers were stopped because it was not.
    pub(super) stops: AtomicU64,
}

/// A cgroup of a server.
#[repr(C)]
struct Shown {
    /// 1 + its core; 0: there is none.
    core: AtomicU32,
    length: AtomicU32,
    path: [AtomicU8; PATH],
}

/// A process of a started service that has left its group and is stopped.
#[repr(C)]
struct Stray {
    /// 0: there is none; [`u32::MAX`]: it is being written.
    tid: AtomicU32,
    started: AtomicU64,
}

impl Beats {
    /// All silent.
    pub fn new() -> io::Result<Beats> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (bytes, flags) = (size_of::<Shared>(), libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping, zeroed, never unmapped before the last clone goes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Beats(Arc::new(Mapped(at.cast()))))
    }

    /// The manager of `core` is there at `now` (CLOCK_MONOTONIC, ns); 0: it has ended in good order.
    pub(super) fn beat(&self, core: u32, now: u64) {
        let beat = self.of(core);
        if now == 0 {
            beat.due.store(0, SeqCst);
        }
        beat.at.store(now, Relaxed);
    }

    /// When the manager came by last that has been silent for longest, if there is one.
    pub fn oldest(&self) -> Option<u64> {
        self.shared().managers.iter().map(|beat| beat.at.load(Relaxed)).filter(|&beat| beat > 0).min()
    }

    /// Who starts, stops and changes managers is at work and alive; 0: it is done.
    pub fn main_is_here(&self, now: u64) {
        self.shared().main.store(now, Relaxed);
    }

    /// When that was last, if it is at work.
    pub fn main(&self) -> Option<u64> {
        Some(self.shared().main.load(Relaxed)).filter(|&at| at > 0)
    }

    /// The process that watches has used so much processor time (ns).
    pub fn set_watching_ns(&self, used: u64) {
        self.shared().watching.store(used, Relaxed);
    }

    /// As it told last.
    pub fn watching_ns(&self) -> u64 {
        self.shared().watching.load(Relaxed)
    }

    pub(super) fn of(&self, core: u32) -> &Beat {
        &self.shared().managers[core as usize % MANAGERS]
    }

    /// The cores whose managers should have been there `grace` ns ago.
    pub(super) fn late(&self, now: u64, grace: u64) -> impl Iterator<Item = u32> + '_ {
        let is_late = move |beat: &Beat| match beat.due.load(SeqCst) {
            0 => false,
            due => now.saturating_sub(due) > grace,
        };
        (0..MANAGERS as u32).filter(move |&core| is_late(self.of(core)))
    }

    /// A server of `core` has this group from now on; its place among all, for [`Beats::hide`].
    pub(super) fn show(&self, core: u32, group: &Path) -> Option<usize> {
        let path = group.as_os_str().as_bytes();
        let free = |shown: &Shown| shown.core.compare_exchange(0, u32::MAX, SeqCst, Relaxed).is_ok();
        let place = self.shared().groups.iter().position(|shown| path.len() <= PATH && free(shown))?;
        let shown = &self.shared().groups[place];
        shown.path.iter().zip(path).for_each(|(to, from)| to.store(*from, Relaxed));
        shown.length.store(path.len() as u32, Relaxed);
        shown.core.store(core + 1, SeqCst);
        Some(place)
    }

    pub(super) fn hide(&self, place: usize) {
        self.shared().groups[place].core.store(0, SeqCst);
    }

    /// The groups of the servers of `core`.
    pub(super) fn groups(&self, core: u32) -> impl Iterator<Item = PathBuf> + '_ {
        let of_core = move |shown: &&Shown| shown.core.load(SeqCst) == core + 1;
        self.shared().groups.iter().filter(of_core).map(|shown| {
            let length = shown.length.load(Relaxed) as usize;
            let path: Vec<u8> = shown.path.iter().take(length).map(|byte| byte.load(Relaxed)).collect();
            PathBuf::from(std::ffi::OsStr::from_bytes(&path))
        })
    }

    /// A process of a started service is stopped outside its group from now on; its place, for [`Beats::hide_stray`].
    pub(super) fn show_stray(&self, process: Thread) -> Option<usize> {
        let free = |stray: &Stray| stray.tid.compare_exchange(0, u32::MAX, SeqCst, Relaxed).is_ok();
        let place = self.shared().strays.iter().position(free)?;
        let stray = &self.shared().strays[place];
        stray.started.store(process.started, SeqCst);
        stray.tid.store(process.tid, SeqCst);
        Some(place)
    }

    pub(super) fn hide_stray(&self, place: usize) {
        self.shared().strays[place].tid.store(0, SeqCst);
    }

    /// Ends what is stopped outside its group, as all of a started service ends that its Giusto has left
    /// behind. To be called once that Giusto has died: its journal does not know of them.
    pub fn end_strays(&self) {
        for stray in &self.shared().strays {
            let process = Thread { tid: stray.tid.load(SeqCst), started: stray.started.load(SeqCst) };
            if ![0, u32::MAX].contains(&process.tid) {
                let _ = stop::send(process, libc::SIGKILL);
            }
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: `new` mapped it; zeros are a valid value.
        unsafe { &*self.0 .0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no other reference uses it any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn stopped() -> (Child, Thread) {
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        let process = Thread::of(child.id()).unwrap();
        stop::send(process, libc::SIGSTOP).unwrap();
        (child, process)
    }

    #[test]
    fn what_a_dead_manager_had_stopped_outside_its_groups_ends_and_nothing_else() {
        let beats = Beats::new().unwrap();
        let ((mut stray, first), (mut back, second)) = (stopped(), stopped());
        let place = [first, second].map(|process| beats.show_stray(process).unwrap());
        beats.hide_stray(place[1]);
        // Its number now belongs to another process.
        beats.show_stray(Thread { started: second.started + 1, ..second }).unwrap();
        beats.end_strays();
        assert!(!stray.wait().unwrap().success());
        assert!(back.try_wait().unwrap().is_none());
        back.kill().unwrap();
        back.wait().unwrap();
        let more = (0..STRAYS).filter_map(|_| beats.show_stray(first)).count();
        assert_eq!(more, STRAYS - 2, "further ones are not shown");
    }
}
