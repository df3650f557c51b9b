//! A site as the operator described it, already checked for meaning; `site` reads it from a file.

use crate::{
    AgentKey, Arrivals, Bandwidth, Cap, Coordination, Copies, HostNetwork, Observe, Paths, Process, Promise, Rate,
    ServerKind, ServiceMode, SiteCriticality, SiteModes, Task, Topic, Vif, Xen,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One site: its hosts, its services and topics, in the order of the file, and its ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Hosts, at least one, names unique.
    pub hosts: Vec<Host>,
    /// Services, at least one, names unique.
    pub services: Vec<Service>,
    /// Topics of messages, names unique.
    pub topics: Vec<Topic>,
    /// Its ensemble of coordination servers, if it has one.
    pub coordination: Option<Coordination>,
    /// Promises over several services, and what is between hosts.
    pub paths: Paths,
    /// Its modes; `None`: every service always does the same.
    pub modes: Option<SiteModes>,
}

/// A machine of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The cores Giusto may give to services, ascending, unique, at least one. `cores: 1-3`.
    pub cores: Vec<u32>,
    /// Share of *each* core that stays free for the kernel and Giusto itself; below 1. `keep-free: 5%` when not written.
    pub keep_free: Bandwidth,
    /// What it gives to packets; `None`: they are processed as the kernel does it.
    pub network: Option<HostNetwork>,
    /// What becomes of those of its cores on which the plan puts nothing. `unused: leave` when not written.
    pub unused: Unused,
    /// `hypervisor: xen`; `None`: it runs Linux, and services are processes and virtual machines on it.
    pub xen: Option<Xen>,
}

/// What becomes of cores on which nothing is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unused {
    /// They idle.
    #[default]
    Leave,
    /// They are taken offline as long as the plan is enforced, so that they save power.
    Park,
}

impl Unused {
    /// All of them.
    pub const ALL: [Unused; 2] = [Unused::Leave, Unused::Park];
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unused::Leave => "leave",
            Unused::Park => "park",
        })
    }
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The host it has to run on, one of the site's; `None`: the planner chooses.
    pub on: Option<String>,
    /// Where its processes come from.
    pub origin: Origin,
    /// How they are run.
    pub process: Process,
    /// What it runs; empty unless it is promised [`Promise::EveryDeadline`] or [`Promise::AsIfAlone`].
    pub tasks: Vec<Task>,
    /// What it was promised.
    pub promise: Promise,
    /// Its workers, where it is promised [`Promise::AsIfAlone`] and has several that do the same; `tasks` are then those of each.
    pub copies: Option<Copies>,
    /// Percentage points of a core added to what theory asks for [LiH21, § 3.3]. `margin: 5%` when not written.
    pub margin: Bandwidth,
    /// The server algorithm to use; `None`: the planner chooses.
    pub server: Option<ServerKind>,
    /// What happens when its budget is used up.
    pub cap: Cap,
    /// How `run` and `measure` can drive it with its own tasks; `None` if the site file does not say.
    pub load: Option<Load>,
    /// Its virtual interfaces, on the host that [`Service::on`] names or the only one, which has a network.
    pub network: Vec<Vif>,
    /// Its local modes, in the order of the file; empty: it always does the same. With some, `tasks` and `promise` are those
    /// of the local mode in which it begins.
    pub modes: Vec<ServiceMode>,
    /// What changes its tasks from the inside; there if it has modes.
    pub agent: Option<AgentKey>,
    /// `None`: its promise holds in any case, and it shares its core with others of that kind only.
    pub criticality: Option<SiteCriticality>,
    /// Where the execution times in `tasks` or `promise` come from.
    pub measured: Measured,
    /// Where it asks for more than planned while it runs: the share of a core that it may then be planned anew with;
    /// `None`: as planned.
    pub adapt: Option<Bandwidth>,
    /// Where its response times come from while it runs; `None`: Giusto chooses.
    pub observe: Option<Observe>,
}

/// Where a service's execution times come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// The site file says them.
    #[default]
    Declared,
    /// `wcet: measured`, `execution: measured`: what the service has are placeholders until an
    /// [`Observation`](crate::Observation)
    /// replaces them.
    Wanted {
        /// For each task, or for the arrivals, the share of a core that its period or rate is to make: `period: {fit: 40%}`.
        fits: Vec<Option<Bandwidth>>,
    },
    /// An observation, in words.
    Observed(String),
    /// Placeholders that are to be planned with nevertheless, so that the service can be observed in its place.
    Placeholders,
}

impl Service {
    /// One that says nothing but its name, where it comes from and what it was promised; without a margin.
    pub fn plain(name: String, origin: Origin, promise: Promise) -> Service {
        Service {
            name,
            on: None,
            origin,
            process: Process::default(),
            tasks: Vec::new(),
            promise,
            copies: None,
            margin: Bandwidth::ZERO,
            server: None,
            cap: Cap::Hard,
            load: None,
            network: Vec::new(),
            modes: Vec::new(),
            agent: None,
            criticality: None,
            measured: Measured::Declared,
            adapt: None,
            observe: None,
        }
    }
}

impl Site {
    /// The same, to be planned with placeholders where something is to be measured.
    pub fn with_placeholders(&self) -> Site {
        let mut site = self.clone();
        for service in &mut site.services {
            if let Measured::Wanted { .. } = service.measured {
                service.measured = Measured::Placeholders;
            }
        }
        site
    }
}

/// Where a service's processes come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Giusto starts it: program and arguments, no shell in between.
    Start(Vec<String>),
    /// It runs already.
    Adopt(Adopt),
}

impl Origin {
    /// Whether its virtual CPUs can be told apart, so that each can have an interface of its own.
    pub fn has_vcpus(&self) -> bool {
        match self {
            Origin::Start(_)
            | Origin::Adopt(Adopt::Pid(_) | Adopt::Cgroup(_) | Adopt::Systemd(_) | Adopt::Container(_)) => false,
            Origin::Adopt(Adopt::Qmp(_) | Adopt::Libvirt(_) | Adopt::Xen(_)) => true,
        }
    }
}

/// How to find a service that runs already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adopt {
    /// The process with this id, with all its threads (not its children).
    Pid(u32),
    /// Every process in this cgroup, by its path below the (cpu) hierarchy's root, such as `batch.slice`.
    Cgroup(String),
    /// Every process of this systemd unit, such as `search.service`.
    Systemd(String),
    /// Every process of the container that Docker or Podman runs under this name or id.
    Container(String),
    /// The virtual machine whose QEMU serves QMP on this Unix socket: its process, and a thread for each vCPU.
    Qmp(PathBuf),
    /// The virtual machine that libvirt runs under this name: its process, and a thread for each vCPU.
    Libvirt(String),
    /// The domain of this name on a host that runs Xen.
    Xen(String),
}

impl fmt::Display for Adopt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Adopt::Pid(pid) => write!(f, "process {pid}"),
            Adopt::Cgroup(path) => write!(f, "cgroup {path}"),
            Adopt::Systemd(unit) => write!(f, "systemd unit {unit}"),
            Adopt::Container(name) => write!(f, "container {name}"),
            Adopt::Qmp(path) => write!(f, "virtual machine with QMP at {}", path.display()),
            Adopt::Libvirt(name) => write!(f, "libvirt's virtual machine {name}"),
            Adopt::Xen(name) => write!(f, "Xen's domain {name}"),
        }
    }
}

/// Requests that load a service as its tasks say: one client a copy, open loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A Redis server: `HSET` of `fields` fields of `value` bytes under a random key.
    Redis {
        /// Its address, loopback only.
        address: SocketAddr,
        /// Fields a request, 1 to 1000.
        fields: u32,
        /// Bytes a value, 1 to 4096.
        value: u32,
    },
    /// A Redis server: `SORT` of a list of random numbers, whose result it stores, so that the reply is short.
    RedisSort {
        /// Its address, loopback only.
        address: SocketAddr,
        /// Length of the list, 1 to 1000000.
        items: u32,
    },
    /// A memcached: `set` of `value` bytes under a random key.
    Memcached {
        /// Its address, loopback only.
        address: SocketAddr,
        /// Bytes a value, 1 to 4096.
        value: u32,
        /// Over so many connections, 1 to 1000; each request takes one of them at random.
        connections: u32,
        /// Requests that come at random, where the promise does not say how they come.
        rate: Option<Rate>,
    },
    /// Anything that sends back each line that it gets, over TCP.
    Echo {
        /// Its address, loopback only.
        address: SocketAddr,
        /// Bytes a line, 1 to 4096.
        value: u32,
    },
    /// A web server: `GET` of one path over HTTP/1.1, the connection kept.
    Http {
        /// Its address, loopback only.
        address: SocketAddr,
        /// The path, from its `/` on.
        path: String,
    },
}

impl Load {
    /// The service's.
    pub fn address(&self) -> SocketAddr {
        match *self {
            Load::Redis { address, .. }
            | Load::RedisSort { address, .. }
            | Load::Memcached { address, .. }
            | Load::Echo { address, .. }
            | Load::Http { address, .. } => address,
        }
    }

    /// How requests come, where the promise does not say it.
    pub fn arrivals(&self) -> Option<Arrivals> {
        match *self {
            Load::Memcached { rate, .. } => rate.map(|rate| Arrivals { rate, batch: 1 }),
            _ => None,
        }
    }

    /// Over how many connections requests that come at random go.
    pub fn connections(&self) -> u32 {
        match *self {
            Load::Memcached { connections, .. } => connections,
            _ => 1,
        }
    }
}
