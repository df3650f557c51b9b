//! The programs in the kernel (bpf/requests.bpf.c) and the memory that they share.

use super::histogram::BUCKETS;
use super::jobs::Jobs;
use super::shared::{attach, refused, Shared};
use crate::Error;
use aya::maps::{HashMap, MapData, SkStorage};
use aya::{Ebpf, EbpfLoader};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

/// `PROTOCOLS`.
pub(super) const PROTOCOLS: usize = 7;
/// `CONNECTION`: the size of `struct connection`.
const CONNECTION: usize = 4688;

/// `struct served`.
#[repr(C)]
pub(super) struct Served {
    pub(super) responses: [AtomicU64; BUCKETS],
    pub(super) waits: [AtomicU64; BUCKETS],
    pub(super) connections: [AtomicU64; PROTOCOLS + 1],
    pub(super) unseen: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) total: AtomicU64,
    _pad: [u64; 5],
}

/// `struct place`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    service: u32,
    port: u32,
}
// SAFETY: integers without padding.
unsafe impl aya::Pod for Place {}

/// The head of `struct connection`; the rest is 0.
#[repr(C)]
#[derive(Clone, Copy)]
struct Connection {
    service: u32,
    protocol: u8,
    placed: u8,
    in_step: u8,
    answered: u8,
    rest: [u8; CONNECTION - 8],
}
// SAFETY: bytes without padding.
unsafe impl aya::Pod for Connection {}

const PROGRAMS: [(&str, &str); 5] = [
    ("arrives", "sk_data_ready"),
    ("reads", "sock_recv_length"),
    ("writes", "sock_send_length"),
    ("listens", "inet_sock_set_state"),
    ("forks", "sched_process_fork"),
];

/// The programs, attached. Dropping it detaches them.
pub(super) struct Kernel {
    processes: HashMap<MapData, u32, u32>,
    ports: HashMap<MapData, Place, u8>,
    connections: SkStorage<MapData, Connection>,
    served: Shared<Served>,
    jobs: Jobs,
    _programs: Ebpf,
}

impl Kernel {
    /// Loads and attaches them.
    pub(super) fn new(services: usize) -> Result<Kernel, Error> {
        let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/requests.bpf.o"));
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("services", services as u32).map_max_entries("within", services as u32);
        let mut programs = loader.load(object).map_err(|why| refused(&why))?;
        attach(&mut programs, &PROGRAMS)?;
        let jobs = Jobs::of(&mut programs)?;
        let mut map = |name: &str| programs.take_map(name).expect("a map of this object");
        Ok(Kernel {
            processes: HashMap::try_from(map("processes")).map_err(|why| refused(&why))?,
            ports: HashMap::try_from(map("ports")).map_err(|why| refused(&why))?,
            connections: SkStorage::try_from(map("connections")).map_err(|why| refused(&why))?,
            // SAFETY: `struct served` is [`Served`].
            served: unsafe { Shared::new(map("services"), services)? },
            jobs,
            _programs: programs,
        })
    }

    /// What tells requests one by one.
    pub(super) fn jobs(&self) -> Jobs {
        self.jobs.clone()
    }

    /// Services at once.
    pub(super) fn services(&self) -> usize {
        self.served.len()
    }

    /// The counts of a service.
    pub(super) fn served(&self, service: usize) -> &Served {
        self.served.at(service)
    }

    /// From now on `process` belongs to `service`, as do those that it forks.
    pub(super) fn add(&mut self, process: u32, service: usize) -> Result<(), Error> {
        self.processes.insert(process, service as u32, 0).map_err(|why| refused(&why))
    }

    /// A process that has ended, or belongs to no service any more.
    pub(super) fn remove(&mut self, process: u32) {
        let _ = self.processes.remove(&process);
    }

    /// What `listener`, a socket that `service` had before it was watched, accepts from now on counts; what it has accepted on
    /// `port` counts once it has been idle.
    pub(super) fn listens(&mut self, service: usize, listener: &OwnedFd, port: u16) {
        let _ = self.ports.insert(Place { service: service as u32, port: port.into() }, 1, 0);
        let (service, rest) = (service as u32, [0; CONNECTION - 8]);
        let new = Connection { service, protocol: 0, placed: 0, in_step: 1, answered: 0, rest };
        const ONLY_NEW: u64 = 1; // BPF_NOEXIST
        let _ = self.connections.insert(listener, new, ONLY_NEW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_programs() {
        let header = include_str!("../../bpf/requests.h");
        assert!(header.contains(&format!("#define CONNECTION {CONNECTION} ")));
    }
}
