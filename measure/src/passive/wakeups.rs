//! Jobs of services whose threads sleep and wake: from a wake-up to going back to sleep (bpf/wakeups.bpf.c).

use super::histogram::{read, BUCKETS};
use super::jobs::Jobs as EachJob;
use super::shared::{attach, refused, Shared};
use super::{Responses, Watch};
use crate::Error;
use aya::maps::{HashMap, MapData};
use aya::{Ebpf, EbpfLoader};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct thread`; all 0 but for its service: of one that runs already nothing is known until it sleeps.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Thread {
    begun: u64,
    ran: u64,
    service: u32,
    state: u8,
    only_stops: u8,
    stopped: u8,
    pad: u8,
}
// SAFETY: integers without padding.
unsafe impl aya::Pod for Thread {}

/// `struct jobs`.
#[repr(C)]
struct Jobs {
    responses: [AtomicU64; BUCKETS],
    waits: [AtomicU64; BUCKETS],
    total: AtomicU64,
    count: AtomicU64,
    lost: AtomicU64,
    _pad: [u64; 5],
}

const PROGRAMS: [(&str, &str); 5] = [
    ("is_woken", "sched_waking"),
    ("was_woken", "sched_wakeup"),
    ("switches", "sched_switch"),
    ("forks", "sched_process_fork"),
    ("becomes", "sched_process_exec"),
];
/// `BPF_NOEXIST`.
const ONLY_NEW: u64 = 1;

/// The watch over the jobs of services. While it lives, each switch of any thread of this machine costs some 0.1 us more.
pub struct WakeUps {
    threads: HashMap<MapData, u32, Thread>,
    jobs: Shared<Jobs>,
    each: EachJob,
    /// The threads of each service as they were listed last.
    services: BTreeMap<usize, BTreeSet<u32>>,
    _programs: Ebpf,
}

impl Watch for WakeUps {
    fn new(most: usize) -> Result<WakeUps, Error> {
        let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/wakeups.bpf.o"));
        let own = std::process::id();
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("services", most as u32).map_max_entries("within", most as u32);
        loader.override_global("own", &own, true);
        let mut programs = loader.load(object).map_err(|why| refused(&why))?;
        attach(&mut programs, &PROGRAMS)?;
        let each = EachJob::of(&mut programs)?;
        let mut map = |name: &str| programs.take_map(name).expect("a map of this object");
        Ok(WakeUps {
            threads: HashMap::try_from(map("threads")).map_err(|why| refused(&why))?,
            // SAFETY: `struct jobs` is [`Jobs`].
            jobs: unsafe { Shared::new(map("services"), most)? },
            services: BTreeMap::new(),
            each,
            _programs: programs,
        })
    }

    fn most(&self) -> usize {
        self.jobs.len()
    }

    fn watch(&mut self, service: usize, processes: &BTreeSet<u32>) -> Result<(), Error> {
        let threads: BTreeSet<u32> = processes.iter().flat_map(|&process| threads(process)).collect();
        let known = self.services.insert(service, threads.clone()).unwrap_or_default();
        for gone in known.difference(&threads) {
            let _ = self.threads.remove(gone);
        }
        for &new in threads.difference(&known) {
            let thread = Thread { service: service as u32, ..Thread::default() };
            match self.threads.insert(new, thread, ONLY_NEW) {
                Err(aya::maps::MapError::SyscallError(why))
                    if why.io_error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(|why| refused(&why))?,
            }
        }
        Ok(())
    }

    fn responses(&self, service: usize) -> Responses {
        let jobs = self.jobs.at(service);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Responses {
            responses: read(&jobs.responses),
            waits: read(&jobs.waits),
            answered: load(&jobs.count),
            total_ns: load(&jobs.total),
            connections: BTreeMap::new(),
            unseen: load(&jobs.lost),
        }
    }

    fn jobs(&self) -> EachJob {
        self.each.clone()
    }
}

/// Of a process; none where it has gone.
fn threads(process: u32) -> Vec<u32> {
    let Ok(listed) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    listed.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok()).collect()
}
