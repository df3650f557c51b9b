//! The packets of guests in virtual time: how long they wait on a core of the host that processes them.
//!
//! Five paths: Xen's dom0 as [LiC20, section 3.2] describes it, VATC (section 3.3), and three of today's Linux: softirqs with
//! one backlog a core, threads of equal priority, threads by class. What packets cost is given; who waits for whom comes out of
//! rings, interrupts, notifications, polls and threads. Called by studies and tests. One core: cores do not share packets.

mod calibrate;
mod guests;
mod host;
mod nic;
mod qdisc;
mod softirq;
mod threads;

pub use calibrate::{offered, Bench};

use crate::seeds::in_parallel;
use crate::system::Error;
use giusto_model::{Duration, PacketClass};
use host::Host;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Who processes packets, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// dom0 (LiC20, 3.2.2): one softirq polls all virtual interfaces and the NIC in turn, ordinary threads deliver.
    Dom0,
    /// VATC (3.3): threads by class, of which the one of the NIC is the highest; a packet at a time.
    Vatc,
    /// Stock Linux with receive packet steering: one backlog for all, first come, first served.
    Backlog,
    /// A thread an interface, all SCHED_FIFO with one priority: whoever runs goes on until it has nothing left.
    Equal,
    /// A thread an interface, by class, whoever has begun a poll ends it; the low class is SCHED_OTHER.
    Classes,
}

/// The queueing discipline of the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// The high class first.
    Prio,
    /// A queue a flow, in turn by bytes, new flows first. CoDel's drops are left out: they are of flows that nobody measures here.
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

/// What was seen of a guest.
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
    /// Notifications of the host.
    pub notifications: u64,
}

/// Plays `length` of a scene; the first tenth is not counted. The same seed gives the same numbers. O(packets).
///
/// # Errors
/// [`Error::Horizon`] for no time, a rate that is none, or costs of nothing, with which time would stand still.
pub fn play_packets(scene: &Scene, length: Duration, seed: u64) -> Result<Vec<Seen>, Error> {
    let rates = scene.guests.iter().all(|guest| match guest.sends {
        Sends::Asks { every } => !every.is_zero(),
        Sends::Streams { rate, burst, .. } => rate > 0.0 && rate.is_finite() && burst > 0,
    });
    let Costs { send, receive, deliver, .. } = scene.costs;
    if length.is_zero() || !rates || [send, receive, deliver].iter().any(|cost| cost.is_zero()) {
        return Err(Error::Horizon);
    }
    let mut host = Host::new(scene, length.ns(), ChaCha8Rng::seed_from_u64(seed));
    match scene.path {
        Path::Dom0 => softirq::play(&mut host, softirq::Kind::Interfaces),
        Path::Backlog => softirq::play(&mut host, softirq::Kind::Backlog),
        Path::Vatc => threads::play(&mut host, threads::Order::Packets),
        Path::Equal => threads::play(&mut host, threads::Order::Equal),
        Path::Classes => threads::play(&mut host, threads::Order::Polls),
    }
    Ok(host.seen())
}

/// The same once for each seed, on all processors; what was seen is put together. Errors: as [`play_packets`].
pub fn play_packets_seeds(scene: &Scene, length: Duration, seeds: &[u64]) -> Result<Vec<Seen>, Error> {
    let runs = in_parallel(seeds.len(), |index| play_packets(scene, length, seeds[index]))?;
    let mut all = vec![Seen::default(); scene.guests.len()];
    for run in runs {
        for (seen, from) in all.iter_mut().zip(run) {
            seen.times.extend(from.times);
            seen.parts.iter_mut().zip(from.parts).for_each(|(all, one)| all.extend(one));
            seen.sent += from.sent;
            seen.refused += from.refused;
            seen.notifications += from.notifications;
        }
    }
    Ok(all)
}

/// A percentile of times, in ns; 0 of none.
pub fn percentile(times: &[u64], percent: f64) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let nth = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(nth.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}
