//! Response times of services in production, from outside: nothing of the service is touched, no load is sent.
//!
//! The kernel tells when bytes arrive at a socket, and when the service reads and writes them (tracepoints of Linux 6.3);
//! programs there (bpf/requests.bpf.c) find requests and answers in them and count response times. What is read here is
//! counts since the beginning. Sockets: TCP and Unix; protocols: Redis (RESP), memcached (text), HTTP/1, and lines. Not seen
//! are TLS, HTTP/2, datagrams, and what is read or written by io_uring; it is told how many connections that were.
//!
//! Of services that answer no requests it tells when threads wake and sleep ([`WakeUps`]). Both are a [`Watch`].

mod histogram;
mod jobs;
mod kernel;
mod shared;
mod wakeups;

use crate::listener::listeners;
use crate::Error;
pub use histogram::{rounded, LONGEST_NS};
pub use jobs::{Job, Jobs};
use kernel::Kernel;
pub(crate) use shared::{attach, refused};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
pub use wakeups::WakeUps;

/// Something that tells what requests, or jobs, of services take. Each service is known by a number that the caller
/// chooses, below [`Watch::most`].
pub trait Watch: Sized {
    /// Begins to watch, `most` services at once (64 kB each); no service yet.
    ///
    /// # Errors
    /// [`Error::Passive`]: no root (CAP_BPF, CAP_PERFMON), Linux before 6.3, or no `/sys/kernel/btf/vmlinux`.
    fn new(most: usize) -> Result<Self, Error>;

    /// Services at once.
    fn most(&self) -> usize;

    /// `processes` are those of `service` now; to be told about every second, since those that it forks are known by
    /// themselves.
    fn watch(&mut self, service: usize, processes: &BTreeSet<u32>) -> Result<(), Error>;

    /// What it took so far. Takes about 10 us.
    fn responses(&self, service: usize) -> Responses;

    /// What tells its requests, or jobs, one by one.
    fn jobs(&self) -> Jobs;
}

/// What the requests or jobs of a service took, since it was watched. Times in ns, to 0.8 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    /// From the arrival of a request's first byte at the service's socket until its answer's last byte was handed to it: the
    /// least time that is above all of a bucket's, and how many; ascending. A time of 275 s or more counts as 275 s.
    pub responses: Vec<[u64; 2]>,
    /// From the same arrival until the service had read the request. Of a job: from the wake-up that began it until it went
    /// back to sleep, and until it had the processor.
    pub waits: Vec<[u64; 2]>,
    /// Requests in `responses`.
    pub answered: u64,
    /// The sum of their response times.
    pub total_ns: u64,
    /// Connections by what they speak.
    pub connections: BTreeMap<Protocol, u64>,
    /// How often a connection was not understood for a while; what it was asked then is in no count. Of jobs: threads that were
    /// born when there was no place for one more.
    pub unseen: u64,
}

/// What a connection speaks, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Redis.
    Redis,
    /// memcached's text protocol.
    Memcached,
    /// HTTP/1.0 and 1.1.
    Http,
    /// A line, a line back.
    Lines,
    /// Encrypted: nothing is seen of it.
    Tls,
    /// Nothing that is known here: nothing is seen of it.
    Unknown,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Protocol::Redis => "redis",
            Protocol::Memcached => "memcached",
            Protocol::Http => "http",
            Protocol::Lines => "lines",
            Protocol::Tls => "tls",
            Protocol::Unknown => "unknown",
        })
    }
}

const PROTOCOLS: [Protocol; kernel::PROTOCOLS - 1] =
    [Protocol::Redis, Protocol::Memcached, Protocol::Http, Protocol::Lines, Protocol::Tls, Protocol::Unknown];

/// The watch over the requests of services. Sockets on which they listened before are found. While it lives, each read and
/// write of any socket of this machine costs some 0.1 us more.
pub struct Requests {
    kernel: Kernel,
    /// The processes of each service.
    services: BTreeMap<usize, BTreeSet<u32>>,
}

impl Watch for Requests {
    fn new(most: usize) -> Result<Requests, Error> {
        Ok(Requests { kernel: Kernel::new(most)?, services: BTreeMap::new() })
    }

    fn most(&self) -> usize {
        self.kernel.services()
    }

    fn watch(&mut self, service: usize, processes: &BTreeSet<u32>) -> Result<(), Error> {
        let known = self.services.entry(service).or_default();
        for &gone in known.difference(processes) {
            self.kernel.remove(gone);
        }
        for &new in processes.difference(known) {
            self.kernel.add(new, service)?;
            for (address, descriptor) in listeners(new) {
                if let Ok(listener) = copied(new, descriptor) {
                    self.kernel.listens(service, &listener, address.port());
                }
            }
        }
        known.clone_from(processes);
        Ok(())
    }

    fn responses(&self, service: usize) -> Responses {
        let served = self.kernel.served(service);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let connections = PROTOCOLS.iter().enumerate().map(|(at, one)| (*one, load(&served.connections[at + 1])));
        Responses {
            responses: histogram::read(&served.responses),
            waits: histogram::read(&served.waits),
            answered: load(&served.answered),
            total_ns: load(&served.total),
            connections: connections.filter(|(_, count)| *count > 0).collect(),
            unseen: load(&served.unseen),
        }
    }

    fn jobs(&self) -> Jobs {
        self.kernel.jobs()
    }
}

/// A descriptor of another process, as one of this one.
fn copied(process: u32, descriptor: i32) -> io::Result<OwnedFd> {
    use rustix::process::{pidfd_getfd, pidfd_open, Pid, PidfdFlags, PidfdGetfdFlags};
    let process = Pid::from_raw(process as i32).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())?)
}
