//! The packet bucket in the kernel (bpf/bucket.bpf.c): loaded once an interface, changed while it works.

use crate::namespace::Namespace;
use crate::tc::{self, Direction, Root};
use crate::{Error, Link, Recorder, Undo};
use aya::maps::Array;
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader, Pod};
use giusto_model::{Bucket, PacketUnit};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

const BPF_F_LOCK: u64 = 4;
/// GI_BUCKET_TOKEN, GI_BUCKET_LAST, GI_BUCKET_NUM, GI_BUCKET_DEN.
const TOKEN: u128 = 1 << 20;
const LAST: u128 = 1 << 62;
const NUM: u128 = 1 << 52;
const DEN: u128 = 1 << 42;

/// What `how` says.
const SEGMENTS: u32 = 1;
const DELAYS: u32 = 2;

/// `struct goal`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Goal {
    lock: u32,
    how: u32,
    version: u64,
    num: u64,
    den: u64,
    burst: u64,
}

/// `struct counted`; `bucket` is `struct gi_bucket`, and each of `tickets` a `struct tickets`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Counted {
    lock: u32,
    pad: u32,
    version: u64,
    bucket: [u64; 6],
    passed: [u64; 2],
    dropped: [u64; 2],
    bypassed: u64,
    tickets: [[u32; 2]; 256],
}

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

// SAFETY: whole words without padding.
unsafe impl Pod for Goal {}
// SAFETY: as above.
unsafe impl Pod for Counted {}

/// A bucket of an interface; the kernel keeps it, also when this has gone, until its filters are removed.
pub(crate) struct Packets {
    ebpf: Ebpf,
    goal: Goal,
    /// What becomes of packets that find no token.
    pub(crate) limit: Limit,
}

impl Packets {
    /// Loads it; nothing is limited yet. Errors: the bucket cannot be counted; the kernel has no BPF, or not for us.
    pub(crate) fn load(name: &str, bucket: &Bucket, unit: PacketUnit) -> Result<Packets, Error> {
        let goal = goal(name, bucket, unit, 1)?;
        let ebpf = load().map_err(|error| broken("load the packet bucket into the kernel", error))?;
        let mut packets = Packets { ebpf, goal, limit: Limit::Drop };
        packets.write()?;
        Ok(packets)
    }

    /// Another rate, burst or unit, with the next packet. No token is added by it.
    pub(crate) fn set(&mut self, name: &str, bucket: &Bucket, unit: PacketUnit) -> Result<(), Error> {
        let mut next = goal(name, bucket, unit, self.goal.version)?;
        next.how |= self.goal.how & DELAYS;
        if next != self.goal {
            self.goal = Goal { version: self.goal.version + 1, ..next };
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        let goal = self.goal;
        let write = |ebpf: &mut Ebpf| -> Result<(), aya::EbpfError> {
            let map = ebpf.map_mut("goal").ok_or(aya::maps::MapError::InvalidName { name: "goal".into() })?;
            Ok(Array::<_, Goal>::try_from(map)?.set(0, goal, BPF_F_LOCK)?)
        };
        write(&mut self.ebpf).map_err(|error| broken("set the packet bucket's rate", error))
    }

    /// At the sender's own end, where only the sender pays for what exceeds it: it waits there where the kernel has fq and the end no queue
    /// of another program, else it is dropped. What is there stays.
    pub(crate) fn attach_sent(
        &mut self,
        namespace: &Namespace,
        link: &Link,
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        self.attach(namespace, link, &[Direction::Sent], record)?;
        self.limit = Limit::DropSent;
        if self.queue(namespace, link, record)? {
            self.limit = Limit::Delay;
        }
        let how = self.goal.how & !DELAYS | if self.limit == Limit::Delay { DELAYS } else { 0 };
        if how != self.goal.how {
            self.goal = Goal { how, version: self.goal.version + 1, ..self.goal };
            self.write()?;
        }
        Ok(())
    }

    /// Whether the end has our fq.
    fn queue(&self, namespace: &Namespace, link: &Link, record: &mut dyn Recorder) -> Result<bool, Error> {
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
        record: &mut dyn Recorder,
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
        let route = &namespace.route;
        if !tc::has_clsact(route, link.index).map_err(failed("list the queueing disciplines of"))? {
            record.intend(&Undo::Clsact(link.clone())).map_err(Error::Journal)?;
            tc::add_clsact(route, link.index).map_err(failed("add clsact to"))?;
        }
        for &direction in directions {
            if !tc::has_filter(route, link.index, direction).map_err(failed("list the filters of"))? {
                let program =
                    program(&mut self.ebpf, direction).map_err(|error| broken("load the packet bucket", error))?;
                record.intend(&Undo::Filter { link: link.clone(), direction }).map_err(Error::Journal)?;
                tc::add_filter(route, link.index, direction, program).map_err(failed("put the packet bucket on"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = || -> Option<Counted> {
            Array::<_, Counted>::try_from(self.ebpf.map("counted")?).ok()?.get(&0, BPF_F_LOCK).ok()
        };
        read().map_or(Counts::default(), |counted| Counts {
            passed: counted.passed.iter().sum(),
            dropped: counted.dropped.iter().sum(),
            bypassed: counted.bypassed,
            refused: if self.limit == Limit::Drop { counted.dropped[0] } else { counted.bypassed },
        })
    }
}

/// Its maps; each program when it is put somewhere.
fn load() -> Result<Ebpf, aya::EbpfError> {
    loader().load(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/bucket.bpf.o")))
}

/// One for all: it reads how the kernel's own types lie when it is made (30 ms), which nothing here asks for.
pub(crate) fn loader() -> MutexGuard<'static, EbpfLoader<'static>> {
    static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> = LazyLock::new(|| {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        Mutex::new(loader)
    });
    LOADER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(ebpf: &mut Ebpf, direction: Direction) -> Result<i32, aya::EbpfError> {
    let program = ebpf.program_mut(direction.program()).ok_or(aya::programs::ProgramError::NotLoaded)?;
    let program: &mut SchedClassifier = program.try_into()?;
    if program.fd().is_err() {
        program.load()?;
    }
    Ok(program.fd()?.as_fd().as_raw_fd())
}

/// With what the kernel said, which is at the end of a chain.
pub(crate) fn broken(doing: &str, error: aya::EbpfError) -> Error {
    let mut cause: &dyn std::error::Error = &error;
    let mut text = error.to_string();
    while let Some(next) = cause.source() {
        if let Some(said) = next.downcast_ref::<io::Error>() {
            if said.kind() == io::ErrorKind::PermissionDenied {
                return Error::Privilege { doing: doing.into() };
            }
        }
        text = format!("{text}: {next}");
        cause = next;
    }
    Error::Kernel { doing: doing.into(), source: io::Error::other(text) }
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

fn goal(name: &str, bucket: &Bucket, unit: PacketUnit, version: u64) -> Result<Goal, Error> {
    let Integers { num, den, burst } = in_integers(name, bucket)?;
    let how = if unit == PacketUnit::Segment { SEGMENTS } else { 0 };
    Ok(Goal { lock: 0, how, version, num, den, burst })
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
            goal("vnet0", &bucket, PacketUnit::Skb, 1).map(|goal| (goal.num, goal.den, goal.burst))
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
