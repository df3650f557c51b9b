//! Mechanisms for prioritised packet processing on Linux (VATC on stock kernels: [LiC20, chapter 3]).
//!
//! Called by `daemon` and by benches. Flows in: the plan for the packets of one host, and a [`Recorder`] that keeps what is to be
//! undone. Flows out: packets of each virtual interface processed by kernel threads with the plan's priority on the plan's core,
//! a packet bucket in front of the high class, and undo records *before* each change; [`undo()`] puts everything back. It decides no
//! class, bucket or priority; only among cores of equal right does it choose by measured load ([`rebalance`]).

mod address;
mod bank;
mod below;
mod bucket;
mod end;
mod events;
mod features;
mod genl;
mod held;
mod interrupts;
mod kind;
mod link;
mod namespace;
mod network;
mod overrun;
mod proof;
pub mod rebalance;
mod route;
mod sorter;
mod tc;
mod tcx;
mod there;
mod threads;
mod undo;
mod vhost;

pub use bucket::Limit;
pub use giusto_host::{Recorder, Thread};
pub use link::Link;
pub use network::{LinkStatus, Network};
pub use proof::Proof;
pub use rebalance::Move;
pub use threads::{cpu_time_ns, Attributes};
pub use undo::{undo, Report, Undo};

use std::io;

/// Why packets could not be given their threads. What was done until then stands in the recorder and can be undone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error("cannot {doing}: {source}")]
    Kernel {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Not root, or not in this network namespace.
    #[error("cannot {doing}: this needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_BPF); run it as root")]
    Privilege {
        /// What was tried.
        doing: String,
    },
    /// An interface that is not there.
    #[error("interface {0} is not there ('ip link' lists those that are): what is planned for it comes into force when it is")]
    NoDevice(String),
    /// An interface that is in another network namespace now.
    #[error(
        "interface {name} was moved to another network namespace, where {}; what is planned for it comes into force when it \
         is back",
        match left.as_slice() {
            [] => "it has got back what it had".into(),
            left => format!("it cannot get back what it had yet: {}", left.join("; ")),
        }
    )]
    Moved {
        /// Its name.
        name: String,
        /// What could not be undone.
        left: Vec<String>,
    },
    /// What the kernel lacks.
    #[error("{what} is missing: {how}")]
    Lacks {
        /// What.
        what: String,
        /// How to get it.
        how: String,
    },
    /// The other end of a veth pair is in no namespace that can be found.
    #[error(
        "the other end of '{0}' is in no network namespace that can be found: expected it in /run/netns or as the namespace of a \
         process; run giusto in the host's process namespace"
    )]
    NoPeer(String),
    /// A kind of interface whose packets have no thread of their own.
    #[error("'{name}' is {kind}: {why}")]
    Unfit {
        /// Its name.
        name: String,
        /// What it is.
        kind: String,
        /// What to take instead.
        why: String,
    },
    /// Several threads, any of which may be the one.
    #[error(
        "cannot tell which kernel thread processes the packets of '{name}': {candidates:?} are called so; give the interfaces \
         different names, or use Linux 6.8 or later, which tells"
    )]
    Ambiguous {
        /// The interface.
        name: String,
        /// The threads that it could be.
        candidates: Vec<u32>,
    },
    /// A bucket or a priority that cannot be.
    #[error("'{name}': {what}")]
    Plan {
        /// The interface.
        name: String,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// The interface is down, so the kernel has no thread for it yet.
    #[error("'{0}' is down, so nothing processes its packets: its settings come into force when it is up (ip link set {0} up)")]
    Down(String),
    /// The undo record could not be written, so nothing was changed.
    #[error(
        "cannot write the undo journal, so nothing more was changed: {0}; free space where it lies, then try again"
    )]
    Journal(io::Error),
}

impl Error {
    /// Whether the machine lacks something (exit code 3), rather than that something broke.
    pub fn is_lack(&self) -> bool {
        !matches!(self, Error::Kernel { .. } | Error::Journal(_) | Error::Plan { .. })
    }

    /// Whether one interface is not there, or not such that its packets can have threads: the others can, and it may be another
    /// one tomorrow.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(
            self,
            Error::NoDevice(_)
                | Error::Moved { .. }
                | Error::NoPeer(_)
                | Error::Unfit { .. }
                | Error::Ambiguous { .. }
                | Error::Down(_)
        )
    }

    /// What the kernel said while `doing`.
    pub(crate) fn kernel(doing: impl Into<String>, source: io::Error) -> Error {
        let doing = doing.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Privilege { doing },
            _ => Error::Kernel { doing, source },
        }
    }
}
