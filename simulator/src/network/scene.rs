//! A host with guests whose packets are processed: what is given, and what is seen.

use giusto_model::{Duration, PacketClass};

/// Who processes packets, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// dom0 (LiC20, 3.2.2): one softirq polls all virtual interfaces and the NIC in turn, ordinary threads deliver.
    Dom0,
    /// VATC (3.3): threads by class, of which the one of the NIC is the highest; a packet at a time.
    Vatc,
    /// Stock Linux with receive packet steering: one backlog for all, first come, first served.
    Backlog,
    /// A thread an interface, all SCHED_FIFO with one priority: the one that runs goes on until it has nothing left.
    Equal,
    /// A thread an interface, by class; a poll that has begun is ended; the low class is SCHED_OTHER.
    Classes,
}

/// The queueing discipline of the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// The high class first.
    Prio,
    /// A queue a guest, in turn by bytes, new ones first; what stands in it too long is dropped (CoDel).
    FqCodel,
}

/// What things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A hardware interrupt, or a notification of a guest.
    pub interrupt: Duration,
    /// A packet from a guest to the uplink's queue.
    pub send: Duration,
    /// A packet from the uplink to the queue of its guest.
    pub receive: Duration,
    /// A packet from there to the guest.
    pub deliver: Duration,
    /// Clearing away a packet that was sent.
    pub clear: Duration,
    /// Another thread.
    pub switch: Duration,
    /// Copying 1000 bytes, on the way to or from a guest.
    pub copy: Duration,
}

/// The uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Time of a byte on the wire; 0: it takes everything at once and needs no clearing away, as a virtual one.
    pub byte: Duration,
    /// From the end of a packet to the arrival of the answer.
    pub answer: Duration,
    /// Least time between two interrupts.
    pub interval: Duration,
}

/// What a guest does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sends {
    /// A packet that is answered, so often; its round trips are measured.
    Asks {
        /// Between two.
        every: Duration,
    },
    /// Packets of some bytes without an answer, as long as there is room; their waits to the wire are measured.
    Streams {
        /// Packets a second that it would send.
        rate: f64,
        /// Bytes of each, headers included.
        bytes: u32,
        /// So many at once.
        burst: u32,
    },
}

/// A guest with one interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guest {
    /// What it sends.
    pub sends: Sends,
    /// Whose packets wait for whose; only VATC, `Classes` and the uplink's queue look at it.
    pub class: PacketClass,
    /// Packets a second and at once that it may send; more wait in its ring.
    pub bucket: Option<(f64, f64)>,
}

/// A core with its guests.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Who processes.
    pub path: Path,
    /// In which order the uplink sends.
    pub qdisc: Qdisc,
    /// What it takes.
    pub costs: Costs,
    /// The uplink.
    pub link: Link,
    /// Packets between a guest and its interface.
    pub ring: usize,
    /// All guests.
    pub guests: Vec<Guest>,
}

/// The results of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Round trips, or waits from the guest to the wire, in ns.
    pub times: Vec<u64>,
    /// Of round trips: in the ring of its interface, in the uplink's queue and in the queue towards it, in ns.
    pub parts: [Vec<u64>; 3],
    /// Packets that left the host.
    pub sent: u64,
    /// Packets that it wanted to send and could not.
    pub refused: u64,
    /// Packets that the uplink's queue dropped.
    pub dropped: u64,
    /// Notifications of the host.
    pub notifications: u64,
}
