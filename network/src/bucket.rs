//! The packet bucket of an interface in the kernel (bpf/bucket.bpf.c), changed while it works.

use crate::bank::{Goal, Place, FROM, TO};
use crate::namespace::Namespace;
use crate::tc::{self, Direction, Filter, Root};
use crate::tcx::{self, Attached};
use crate::{Error, Link, Recorder, Undo};
use giusto_model::{Bucket, PacketBucket, PacketUnit};
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// GI_BUCKET_TOKEN, GI_BUCKET_LAST, GI_BUCKET_NUM, GI_BUCKET_DEN.
const TOKEN: u128 = 1 << 20;
const LAST: u128 = 1 << 62;
const NUM: u128 = 1 << 52;
const DEN: u128 = 1 << 42;

/// What `how` says.
const SEGMENTS: u32 = 1;
const DELAYS: u32 = 2;
const BYTES: u32 = 4;
/// Longest time that a byte takes to flow in, in ns / 2^16: that of 1 kbit/s.
const BYTE_MOST: u128 = 8_000_000 << 16;

/// Longest time that a packet takes to flow in where flows are told apart by it, in ns / 2^16: 1 s.
const PACKET_MOST: u128 = 1_000_000_000 << 16;

/// Packets of an interface so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That its bucket let through, and that it dropped.
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
    /// That came to the host's end without having passed the bucket at the sender's own.
    pub(crate) bypassed: u64,
    /// Sent by it and dropped at the host's cost.
    pub(crate) refused: u64,
}

/// A bucket of an interface. Where its programs are filters the kernel keeps them, also when this has gone, until they are
/// removed.
pub(crate) struct Packets {
    place: Place,
    /// Its programs, where they are links.
    links: Option<Vec<Attached>>,
    /// Of what it sends, and of what is sent to it.
    goals: [Goal; 2],
    /// What becomes of packets that find no token.
    pub(crate) limit: Limit,
}

impl Packets {
    /// In a place of its own; nothing is limited yet. Errors: the bucket cannot be counted.
    pub(crate) fn new(
        place: Place,
        are_links: bool,
        name: &str,
        buckets: &[PacketBucket; 2],
        unit: PacketUnit,
    ) -> Result<Packets, Error> {
        let links = are_links.then(Vec::new);
        let mut packets = Packets { place, links, goals: [Goal::default(); 2], limit: Limit::Drop };
        packets.set(name, buckets, unit)?;
        Ok(packets)
    }

    /// Other rates, bursts or units, with the next packet. No token is added by it.
    pub(crate) fn set(&mut self, name: &str, buckets: &[PacketBucket; 2], unit: PacketUnit) -> Result<(), Error> {
        for (direction, bucket) in [FROM, TO].into_iter().zip(buckets) {
            let known = self.goals[direction as usize];
            let how = known.how & DELAYS;
            let goal = goal(name, bucket, known.version)?;
            self.write(direction, Goal { how: goal.how | how | known_as(unit), ..goal })?;
        }
        Ok(())
    }

    /// In force with the next packet, if it is another one.
    fn write(&mut self, direction: u32, goal: Goal) -> Result<(), Error> {
        if goal == self.goals[direction as usize] {
            return Ok(());
        }
        let goal = Goal { version: goal.version + 1, ..goal };
        self.goals[direction as usize] = goal;
        self.place.write(direction, goal)
    }

    /// At the sender's own end, where only the sender pays for what exceeds it: it waits there where the kernel has fq and the end no queue
    /// of another program, else it is dropped. What is there stays.
    pub(crate) fn attach_sent(
        &mut self,
        namespace: &Namespace,
        link: &Link,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        self.attach(namespace, link, &[Direction::Sent], record)?;
        self.limit = Limit::DropSent;
        if self.queue(namespace, link, record)? {
            self.limit = Limit::Delay;
        }
        let sent = self.goals[FROM as usize];
        let how = sent.how & !DELAYS | if self.limit == Limit::Delay { DELAYS } else { 0 };
        self.write(FROM, Goal { how, ..sent })
    }

    /// Whether the end has our fq.
    fn queue(&self, namespace: &Namespace, link: &Link, record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let failed = |doing: &str| {
            let doing = format!("{doing} {}", link.name);
            move |source| Error::kernel(doing, source)
        };
        match tc::root(&namespace.route, link.index).map_err(failed("look for the queue of"))? {
            Root::Ours => return Ok(true),
            Root::Other => return Ok(false),
            Root::Default => {}
        }
        record.intend(&Undo::Queue(link.clone())).map_err(Error::Journal)?;
        match tc::add_fq(&namespace.route, link.index) {
            Ok(()) => Ok(true),
            // This kernel has none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("put fq on")(error)),
        }
    }

    /// At an end; what is there stays.
    pub(crate) fn attach(
        &mut self,
        namespace: &Namespace,
        link: &Link,
        directions: &[Direction],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let failed = |doing: &str| {
            let doing = format!("{doing} {}", link.name);
            move |source: io::Error| {
                match source.raw_os_error() {
                Some(libc::ENOENT | libc::EOPNOTSUPP) => Error::Lacks {
                    what: "a kernel that lets BPF programs look at packets".into(),
                    how: "use one with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF, such as Debian's (modprobe sch_ingress cls_bpf)".into(),
                },
                _ => Error::kernel(doing, source),
            }
            }
        };
        if let Some(links) = &mut self.links {
            return directions.iter().try_for_each(|&way| tcx::hold(links, &self.place, (namespace, link), way));
        }
        let route = &namespace.route;
        if !tc::has_clsact(route, link.index).map_err(failed("list the queueing disciplines of"))? {
            record.intend(&Undo::Clsact(link.clone())).map_err(Error::Journal)?;
            tc::add_clsact(route, link.index).map_err(failed("add clsact to"))?;
        }
        for &direction in directions {
            let program = self.place.program(direction)?;
            let goal = Filter { program: program.id, class: self.place.class() };
            let now = tc::filter(route, link.index, direction).map_err(failed("list the filters of"))?;
            if now == Some(goal) {
                continue;
            }
            record.intend(&Undo::Filter { link: link.clone(), direction }).map_err(Error::Journal)?;
            if now.is_some() {
                // Of another time: what was limited there is no more looked after.
                tc::remove_filter(route, link.index, direction).map_err(failed("take an older packet bucket from"))?;
            }
            let (class, fd) = (goal.class, program.fd);
            tc::add_filter(route, link.index, direction, class, fd).map_err(failed("put the packet bucket on"))?;
        }
        Ok(())
    }

    /// Programs of others that come before its own.
    pub(crate) fn behind(&self) -> Vec<String> {
        self.links.iter().flatten().flat_map(|one| one.before.clone()).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        let ([sent, kept, bypassed], [received, refused, _]) = (self.place.count(FROM), self.place.count(TO));
        Counts {
            passed: sent + received,
            dropped: kept + refused,
            bypassed,
            refused: if self.limit == Limit::Drop { kept } else { bypassed },
        }
    }
}

/// A rate and a burst as policy/bucket.h counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Integers {
    pub(crate) num: u64,
    pub(crate) den: u64,
    pub(crate) burst: u64,
}

/// The burst is rounded down by less than a millionth of a packet.
pub(crate) fn in_integers(name: &str, bucket: &Bucket) -> Result<Integers, Error> {
    let refused = |what: String| Error::Plan { name: name.into(), what };
    let (events, ns) = bucket.rate.fraction();
    let (num, den) = (u128::from(events) * 1_000_000_000, u128::from(ns));
    let common = gcd(num, den).max(1);
    let (num, den) = (num / common, den / common);
    if num >= NUM || den >= DEN || den == 0 {
        return Err(refused(format!("a packet bucket cannot count a rate of {}; expected a rounder one", bucket.rate)));
    }
    let parts: (u64, u64) = bucket.depth.fraction();
    let burst = u128::from(parts.0) * TOKEN / u128::from(parts.1.max(1));
    if !(TOKEN..=LAST).contains(&burst) {
        return Err(refused(format!(
            "a packet bucket cannot hold {} packets; expected 1 to 4 million millions",
            bucket.depth
        )));
    }
    Ok(Integers { num: num as u64, den: den as u64, burst: burst as u64 })
}

fn goal(name: &str, bucket: &PacketBucket, version: u64) -> Result<Goal, Error> {
    let Integers { num, den, burst } = in_integers(name, &bucket.packets())?;
    let one = (1_000_000_000 << 16) * u128::from(den) / u128::from(num.max(1));
    let half = (1_000_000_000 * u128::from(den) / u128::from(num.max(1))).saturating_mul(u128::from(burst) / TOKEN) / 2;
    // 2^60 ns: later than any clock of the kernel will tell.
    let (packet, half) = (one.min(PACKET_MOST) as u64, half.min(1 << 60) as u64);
    let mut goal = Goal { version, num, den, burst, packet, half, ..Goal::default() };
    if let Some(bytes) = bucket.bytes() {
        let (events, ns) = bytes.rate.fraction();
        // Rounded up: never more than the rate. Below 1 kbit/s it would be too long to count.
        let one = (u128::from(ns) << 16).div_ceil(u128::from(events.max(1)));
        let all = (one * u128::from(bytes.depth.at_once())) >> 16;
        if one > BYTE_MOST || all > u128::from(u64::MAX) {
            let what = format!("a packet bucket cannot count {} bytes a second; expected 1kbit/s or more", bytes.rate);
            return Err(Error::Plan { name: name.into(), what });
        }
        (goal.how, goal.byte, goal.bytes) = (BYTES, one as u64, all as u64);
    }
    Ok(goal)
}

fn known_as(unit: PacketUnit) -> u32 {
    if unit == PacketUnit::Segment {
        SEGMENTS
    } else {
        0
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// How an interface is kept to its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// It has none.
    None,
    /// What finds no token is dropped at the host's end, before the host works on it.
    Drop,
    /// What is sent and finds no token is dropped at the sender's own end, at the sender's cost.
    DropSent,
    /// What is sent waits for its token at the sender's own end.
    Delay,
    /// Of an uplink: what arrives beyond its bucket, or for none of the high class, is processed after all others.
    Sort,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limit::None => "not limited",
            Limit::Drop => "dropped beyond its bucket",
            Limit::DropSent => "dropped at the sender",
            Limit::Delay => "waits at the sender",
            Limit::Sort => "sorted on arrival",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_bursts_are_exact_or_refused() {
        let read = |rate: &str, burst: &str| {
            let bucket = Bucket { rate: rate.parse().unwrap(), depth: burst.parse().unwrap() };
            goal("vnet0", &bucket.into(), 1).map(|goal| (goal.num, goal.den, goal.burst))
        };
        assert_eq!(read("20k/s", "64").unwrap(), (20_000, 1, 64 << 20));
        assert_eq!(read("1/3/s", "4.5").unwrap(), (1, 3, 9 << 19));
        assert_eq!(read("0.004/ms", "1").unwrap(), (4, 1, 1 << 20));
        for (rate, burst) in [("20k/s", "0.5"), ("1/s", "9000000000000000"), ("18446744073709551615/ns", "1")] {
            let error = read(rate, burst).unwrap_err();
            assert!(matches!(error, Error::Plan { .. }) && error.to_string().contains("expected"), "{error}");
        }
    }
}
