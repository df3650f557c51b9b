//! Why a measurement cannot be made, and what to do about it.

use giusto_model::TaskError;
use std::io;
use std::net::SocketAddr;

/// Why a measurement cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task makes no sense.
    #[error("task '{name}': {why}")]
    Task {
        /// Its name.
        name: String,
        /// What is wrong.
        why: TaskError,
    },
    /// The load or its plan is outside of what can be driven.
    #[error("{0}")]
    Plan(String),
    /// No process accepts connections there.
    #[error("cannot connect to {address}: {why}; is it running? start it, or check the address")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        why: io::Error,
    },
    /// No process can be named that listens there.
    #[error("cannot tell which process listens on {address}: {why}")]
    Listener {
        /// Where.
        address: SocketAddr,
        /// What was found instead, and what to do.
        why: String,
    },
    /// No process accepted in time.
    #[error("nothing listens on {address} after {seconds:.1} s; check that the service starts and that the address under load: is its own")]
    NotListening {
        /// Where.
        address: SocketAddr,
        /// How long it was waited for.
        seconds: f64,
    },
    /// The process ended while its port was waited for.
    #[error("the service ended before it listened on {address}; start it by hand to see why")]
    Died {
        /// Where it should have listened.
        address: SocketAddr,
    },
    /// The service hung up.
    #[error("{address} closed the connection of client {client}; look into the service's log (did it crash, or does it limit its clients or their buffers?) and run again")]
    Closed {
        /// The service.
        address: SocketAddr,
        /// Index of the client, copies counted one by one.
        client: usize,
    },
    /// A connection failed.
    #[error("the connection to {address} failed: {why}; look into the service's log and run again")]
    Connection {
        /// The service.
        address: SocketAddr,
        /// What the system says.
        why: io::Error,
    },
    /// What came is no reply to a request.
    #[error("{address} does not answer as its load says: {found}; expected :N, +OK or -ERR of Redis, STORED of memcached, the same line of an echo, HTTP/1.1 of a web server: check what is under load:")]
    Protocol {
        /// The service.
        address: SocketAddr,
        /// What came instead.
        found: String,
    },
    /// A request of a profile was answered with an error, so its execution time says nothing.
    #[error("{address} refuses the request: {text}; make it accept HSET (memory limit, password, read-only replica?) and profile again")]
    Refused {
        /// The service.
        address: SocketAddr,
        /// The service's own words.
        text: String,
    },
    /// The privilege for a real-time priority or another affinity is missing.
    #[error("cannot {what}: CAP_SYS_NICE is missing; run as root, or grant it with setcap cap_sys_nice+ep, or leave the priority out")]
    Privilege {
        /// What was tried.
        what: String,
    },
    /// Threads of the highest priority are not allowed.
    #[error("cannot give a thread on core {core} SCHED_FIFO priority {priority}: CAP_SYS_NICE is missing, or this cgroup allows no real-time threads; run it as root, or grant it with setcap cap_sys_nice,cap_ipc_lock+ep, or raise rtprio in /etc/security/limits.conf; under cgroup v1 set cpu.rt_runtime_us")]
    NoPriority {
        /// Where.
        core: u32,
        /// Which.
        priority: u8,
    },
    /// Memory cannot be locked.
    #[error("cannot lock the memory of the measuring threads, whose page faults would be measured: CAP_IPC_LOCK is missing; run it as root, or grant it with setcap cap_sys_nice,cap_ipc_lock+ep, or raise memlock in /etc/security/limits.conf")]
    NoLock,
    /// The command that measures in a guest failed.
    #[error("the guest's command '{command}' failed: {why}")]
    Guest {
        /// It.
        command: String,
        /// How.
        why: String,
    },
    /// Only root may.
    #[error("cannot {what}: this needs root; run it as root")]
    Root {
        /// What was tried.
        what: String,
    },
    /// The machine refuses for another reason.
    #[error("cannot {what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        why: io::Error,
    },
    /// The process to be profiled is not there.
    #[error("cannot read the processor time of process {pid}: {why}; is it running, and is /proc mounted?")]
    Process {
        /// The process.
        pid: u32,
        /// What the system says.
        why: io::Error,
    },
    /// Processor time does not count, or another process answers.
    #[error("process {pid} used next to no processor time for {requests} requests to {address}; is that the process that listens there, and has the kernel CONFIG_SCHED_INFO?")]
    Idle {
        /// The process.
        pid: u32,
        /// How many were answered meanwhile.
        requests: u32,
        /// The service.
        address: SocketAddr,
    },
    /// A service that is watched does next to nothing.
    #[error(
        "process {pid} was active only {activations} times in {seconds:.1} s, and nothing can be said of so few; \
             watch it while it is used, or for longer (--for 120s)"
    )]
    Quiet {
        /// The process.
        pid: u32,
        /// How often.
        activations: u64,
        /// In how long.
        seconds: f64,
    },
    /// The kernel does not tell of requests or wake-ups.
    #[error(
        "cannot watch services by BPF: {0}; this needs root (CAP_BPF, CAP_PERFMON), Linux 6.3 and /sys/kernel/btf/vmlinux"
    )]
    Passive(String),
    /// A profile file cannot be read.
    #[error("cannot read the profile: {0}")]
    Read(#[from] io::Error),
}

impl Error {
    pub(crate) fn system(what: &str, why: io::Error) -> Error {
        Error::System { what: what.into(), why }
    }
}
