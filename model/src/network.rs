//! Packets: whose are processed before whose, how many of them, on which core.

use crate::{BitRate, Bucket, Duration, Rate, Reason, Tokens, Within};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose packets wait for whose [LiC20, chapter 3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketClass {
    /// Processed before all of the low class, never more of them than a token bucket lets through.
    High,
    /// Processed when nothing of the high class waits.
    Low,
}

impl fmt::Display for PacketClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PacketClass::High => "high",
            PacketClass::Low => "low",
        })
    }
}

/// What a packet bucket counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketUnit {
    /// A buffer of the kernel: what costs processor time. A large segment that is cut up later is one.
    #[default]
    Skb,
    /// A packet on the wire: a large segment counts as many times as it will be cut into.
    Segment,
}

impl fmt::Display for PacketUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PacketUnit::Skb => "skb",
            PacketUnit::Segment => "segment",
        })
    }
}

/// What passes an interface in one direction: packets, and perhaps bits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketBucket {
    /// Packets; no more than `bits` would be in the smallest.
    pub rate: Rate,
    /// Packets at once.
    pub depth: Tokens,
    /// Bits, as long as the packets are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<BitRate>,
}

impl PacketBucket {
    /// No packet counts as less, in bytes: none on Ethernet is smaller.
    pub const SMALLEST: u64 = 64;
    /// A packet of the usual length with its Ethernet header, in bytes.
    pub const USUAL: u64 = 1514;
    /// While packets are dropped it keeps the half of its tokens for other flows (docs/decisions/0047).
    pub const PARTS: u64 = 2;
    /// The largest buffer that the kernel makes for TCP, with its headers, in bytes.
    pub const LARGEST: u64 = 65_600;

    /// What costs processor time.
    pub fn packets(self) -> Bucket {
        Bucket { rate: self.rate, depth: self.depth }
    }

    /// Bytes: at once as many as `depth` packets of the usual length have, and one buffer of TCP at least.
    pub fn bytes(self) -> Option<Bucket> {
        let rate = Rate::of(self.bits?.bits(), Duration::from_secs(1))?.share(8)?;
        let depth = self.depth.at_once().saturating_mul(PacketBucket::USUAL).max(PacketBucket::LARGEST);
        Some(Bucket { rate, depth: Tokens::whole(depth) })
    }
}

impl PacketBucket {
    /// What it is for messages of so many packets each, of the usual length or less: none of them waits for one of its packets
    /// where it would not wait for a token of this one. `half`: without what it keeps for other flows after a drop. `None`: it
    /// lets no message through at once, or beyond 64 bits.
    pub fn messages(self, packets: u32, half: bool) -> Option<Bucket> {
        let parts = if half { PacketBucket::PARTS } else { 1 };
        let of = |bucket: Bucket, each: u64| {
            let depth = Tokens::whole(bucket.depth.at_once() / parts / each);
            let rate = bucket.rate.share(u32::try_from(each).ok()?)?;
            (depth >= Tokens::whole(1)).then_some(Bucket { rate, depth })
        };
        let own = of(self.packets(), packets.into())?;
        if self.bits.is_none() {
            return Some(own);
        }
        let bytes = of(self.bytes()?, u64::from(packets) * PacketBucket::USUAL)?;
        Some(Bucket { rate: own.rate.min(bytes.rate), depth: own.depth.min(bytes.depth) })
    }

    /// For people: `, up to {rate: 5000/s, depth: 16} each way`; nothing where there is none.
    pub fn both_ways(sent: Option<PacketBucket>, received: Option<PacketBucket>) -> String {
        match (sent, received) {
            (Some(sent), None) => format!(", up to {sent} each way"),
            (Some(sent), Some(received)) => format!(", sends up to {sent} and receives up to {received}"),
            (None, _) => String::new(),
        }
    }
}

impl From<Bucket> for PacketBucket {
    fn from(bucket: Bucket) -> PacketBucket {
        PacketBucket { rate: bucket.rate, depth: bucket.depth, bits: None }
    }
}

impl fmt::Display for PacketBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits {
            None => self.packets().fmt(f),
            Some(bits) => write!(f, "{{rate: [{}, {bits}], depth: {}}}", self.rate, self.depth),
        }
    }
}

/// A virtual interface of a service, by its end on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vif {
    /// Its name on the host: `vnet3`.
    pub name: String,
    /// Whose packets wait for whose.
    pub class: PacketClass,
    /// What it may send; `None` in the high class: what the paths need that go through its service.
    pub bucket: Option<PacketBucket>,
    /// What may be sent to it; `None`: as much.
    pub received: Option<PacketBucket>,
    /// How long its packets may wait for the host's processing; ascending, only in the high class.
    pub promise: Vec<Within>,
}

/// What a host gives to packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNetwork {
    /// Cores that process packets, none of them one that services may use; ascending, at least one.
    pub cores: Vec<u32>,
    /// Interfaces to the outside, above all others; what arrives there is taken to keep to the bucket, nothing enforces it.
    pub uplinks: Vec<Uplink>,
    /// Packets that one core processes, as `giusto measure packets` says.
    pub capacity: Rate,
    /// Most packets that the kernel processes of one interface before it looks for another; 64 for every driver known.
    pub poll: u32,
    /// What buckets count, and what `capacity` counted.
    pub count: PacketUnit,
}

/// An interface to the outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Its name: `eth0`.
    pub name: String,
    /// What arrives there at most.
    pub bucket: Bucket,
}

/// What was decided for the packets of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// The host.
    pub on: String,
    /// Cores that process packets, ascending.
    pub cores: Vec<u32>,
    /// Packets that one core processes.
    pub capacity: Rate,
    /// Most packets of one interface in a row.
    pub poll: u32,
    /// What buckets count.
    pub count: PacketUnit,
    /// Interfaces to the outside, in the order of the site file.
    pub uplinks: Vec<UplinkPlan>,
    /// Virtual interfaces, in the order of the site file.
    pub vifs: Vec<VifPlan>,
    /// Where the numbers above come from.
    pub reasons: Vec<Reason>,
}

/// What was decided for an interface to the outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkPlan {
    /// It, with what is taken to arrive there.
    pub uplink: Uplink,
    /// The core that processes what arrives.
    pub core: u32,
    /// Its thread's SCHED_FIFO priority, above those of all virtual interfaces of the core and different from all others.
    pub priority: u8,
}

/// What was decided for a virtual interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VifPlan {
    /// Its name on the host.
    pub name: String,
    /// The service it belongs to.
    pub service: String,
    /// Whose packets wait for whose.
    pub class: PacketClass,
    /// The core that processes its packets.
    pub core: u32,
    /// SCHED_FIFO priority of its threads, different from all others of the core; `None`: SCHED_OTHER.
    pub priority: Option<u8>,
    /// What it may send.
    pub bucket: Option<PacketBucket>,
    /// What may be sent to it; `None`: as much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<PacketBucket>,
    /// What was promised.
    pub promise: Vec<Within>,
    /// No packet that keeps to the bucket waits longer for the host's processing (D_i); `None` in the low class.
    #[serde(rename = "bound_ns")]
    pub bound: Option<Duration>,
    /// Where its numbers come from.
    pub reasons: Vec<Reason>,
}

impl VifPlan {
    /// The buckets of what it sends and of what is sent to it; `None`: it has none.
    pub fn buckets(&self) -> Option<[PacketBucket; 2]> {
        self.bucket.map(|bucket| [bucket, self.received.unwrap_or(bucket)])
    }
}
