//! Load that wants the kernel busy: processes on the measured cores, without a real-time priority, that die with the thread
//! that made them.
//!
//! Each is a fork that allocates nothing, takes no lock and only calls the kernel, so that it may be made while other threads
//! run. No program and no package is needed.

use crate::Error;
use rustix::thread::{sched_setaffinity, CpuSet};
use std::io;
use std::ptr;

/// They leave the processor to those who are not nice.
const NICE: libc::c_int = 10;
/// Memory that is mapped, touched and unmapped over and over.
const PAGES: usize = 512;
const PAGE: usize = 4096;
/// Sent over the loopback at once.
const MESSAGE: usize = 16 * 1024;

/// Who they are: one of each on every core.
const KINDS: [fn(); 4] = [compute, fork_often, fault, send];

/// Running load. Ended when dropped.
pub struct StressLoad(Vec<libc::pid_t>);

impl StressLoad {
    /// Starts some on each of these cores. Errors: a process cannot be made.
    pub fn start(cores: &[u32]) -> Result<Self, Error> {
        let mut workers = StressLoad(Vec::new());
        for &core in cores {
            for kind in KINDS {
                workers.0.push(worker(core, kind)?);
            }
        }
        Ok(workers)
    }
}

impl Drop for StressLoad {
    fn drop(&mut self) {
        // No other thread waits for them, so their numbers are still their own.
        for &pid in &self.0 {
            // SAFETY: takes no pointer.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        for &pid in &self.0 {
            // SAFETY: a null status is allowed.
            while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

fn worker(core: u32, work: fn()) -> Result<libc::pid_t, Error> {
    let mut one = CpuSet::new();
    one.set(core as usize);
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: the child calls only the kernel and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(Error::system("start a process that makes load", io::Error::last_os_error())),
        0 => {
            // SAFETY: takes no pointers.
            let ready = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
                    && libc::getppid() == parent
                    && libc::setpriority(libc::PRIO_PROCESS, 0, NICE) == 0
            };
            if ready && sched_setaffinity(None, &one).is_ok() {
                loop {
                    work();
                }
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(1) }
        }
        pid => Ok(pid),
    }
}

fn compute() {
    for n in 0..1_000_000u64 {
        std::hint::black_box(n.wrapping_mul(n));
    }
}

fn fork_often() {
    // SAFETY: the child ends at once; a null status is allowed.
    unsafe {
        for _ in 0..1000 {
            std::hint::black_box(libc::syscall(libc::SYS_getppid));
        }
        match libc::fork() {
            0 => libc::_exit(0),
            child => libc::waitpid(child, ptr::null_mut(), 0),
        };
    }
}

fn fault() {
    // SAFETY: what is written lies within what was mapped, and is not used after it is unmapped.
    unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return;
        }
        for page in 0..PAGES {
            memory.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(memory, PAGES * PAGE);
    }
}

/// Through the network stack to itself, some thousand times.
fn send() {
    // SAFETY: the address and the buffers live as long as the calls; the socket is closed once.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let name = ptr::from_mut(&mut address).cast::<libc::sockaddr>();
        let bound = libc::bind(socket, name, length) == 0 && libc::getsockname(socket, name, &mut length) == 0;
        if bound && libc::connect(socket, name, length) == 0 {
            let mut message = [0u8; MESSAGE];
            for _ in 0..5000 {
                libc::send(socket, message.as_ptr().cast(), MESSAGE, libc::MSG_DONTWAIT);
                libc::recv(socket, message.as_mut_ptr().cast(), MESSAGE, libc::MSG_DONTWAIT);
            }
        }
        libc::close(socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn cpu_ticks(pid: libc::pid_t) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after = stat.rsplit_once(") ").unwrap().1;
        after.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn every_worker_works_on_its_core_and_none_is_left() {
        let may = rustix::thread::sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU).find(|core| may.is_set(*core)).unwrap() as u32;
        let workers = StressLoad::start(&[core]).unwrap();
        let pids = workers.0.clone();
        assert_eq!(pids.len(), KINDS.len());
        let started = std::time::Instant::now();
        while pids.iter().any(|pid| cpu_ticks(*pid) < 2) {
            assert!(started.elapsed().as_secs() < 20, "one of them does nothing");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for pid in &pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
            assert_eq!(allowed.trim(), core.to_string());
        }
        drop(workers);
        assert!(pids.iter().all(|pid| fs::metadata(format!("/proc/{pid}")).is_err()));
    }
}
