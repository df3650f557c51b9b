//! One interface of the plan in force: found, settled, looked after, let go.

use crate::address::Address;
use crate::bucket::Packets;
use crate::end::{self, Needs};
use crate::namespace::{Namespace, Neighbours};
use crate::overrun::{Overrun, Work};
use crate::proof::{Meter, Proof};
use crate::route::Seen;
use crate::sorter::{For, Sorter};
use crate::tc::Direction;
use crate::{vhost, Attributes, Error, Link, Recorder, Thread, Undo};
use giusto_model::{Bucket, PacketClass, PacketUnit};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// How long after a failure it is tried again, at first and at last; an event of any interface ends the wait.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How often everything is looked at that no event, no thread and no packet without a ticket tells of: some milliseconds each.
const LOOK: Duration = Duration::from_secs(60);

/// What is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) name: String,
    /// Of a vif its service and class; `None`: an uplink.
    pub(crate) vif: Option<(String, PacketClass)>,
    pub(crate) core: u32,
    /// What the plan gave it, and what it has since it or others of its core were moved.
    pub(crate) planned: Option<u8>,
    pub(crate) priority: Option<u8>,
    pub(crate) bucket: Option<Bucket>,
    /// Of an uplink: what the high class may be sent.
    pub(crate) arrivals: Option<Bucket>,
    pub(crate) unit: PacketUnit,
    /// What processing a packet takes, in ns.
    pub(crate) cost: u64,
    /// Whether it was promised something.
    pub(crate) promised: bool,
}

impl Goal {
    /// Packets that its bucket lets through in a second at most.
    pub(crate) fn a_second(&self) -> Option<u64> {
        let bucket = self.bucket.as_ref()?;
        let ((events, ns), (depth, parts)) = (bucket.rate.fraction(), bucket.depth.fraction());
        let rate = u128::from(events) * 1_000_000_000 / u128::from(ns.max(1));
        Some(u64::try_from(rate).unwrap_or(u64::MAX).saturating_add(depth / parts.max(1)))
    }
}

/// What is there.
#[derive(Debug)]
pub(crate) struct There {
    pub(crate) link: Link,
    peer: Option<Link>,
    /// Whether it is an end of a veth pair whose other end is out of reach.
    apart: bool,
    /// That of the card at its other end.
    address: Option<Address>,
    /// Threads that process what it sends, and what it receives.
    pub(crate) from: Vec<Thread>,
    pub(crate) to: Vec<Thread>,
    meters: [Meter; 2],
    /// Packets at the last look, when that was, and how many a second came before it.
    pub(crate) packets: u64,
    at: Instant,
    pub(crate) a_second: f64,
    /// Packets when loads were looked at last.
    mark: u64,
}

/// An interface that is looked after.
pub(crate) struct Held {
    pub(crate) goal: Goal,
    pub(crate) there: Option<There>,
    pub(crate) bucket: Option<Packets>,
    /// Of an uplink, and why what arrives is not sorted.
    pub(crate) sorter: Option<Sorter>,
    unsorted: Option<String>,
    /// What is wrong with it.
    pub(crate) worry: Option<String>,
    overrun: Overrun,
    /// Packets that had bypassed its bucket at the last look, and whether there are more: it may have been taken off.
    bypassed: u64,
    astray: bool,
    /// Whether its threads have the lowest priority, as it makes the host work more than its bucket allows.
    pub(crate) demoted: bool,
    undos: Vec<Undo>,
    /// When to try again, and how long after that.
    retry: Option<(Instant, Duration)>,
    looked: Instant,
}

/// What one piece of work goes by.
pub(crate) struct Around<'a> {
    pub(crate) home: &'a Namespace,
    pub(crate) neighbours: &'a Neighbours,
    /// Threads that are known to be other interfaces'.
    pub(crate) claimed: BTreeSet<Thread>,
}

/// Writes down what is new, and keeps what belongs to one interface.
struct Remember<'a> {
    own: &'a mut Vec<Undo>,
    record: &'a mut dyn Recorder,
}

impl Recorder for Remember<'_> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        let Some(new) = undo.clone().beyond(self.own) else { return Ok(()) };
        self.record.intend(&new)?;
        self.own.push(new);
        Ok(())
    }
}

impl Held {
    pub(crate) fn new(goal: Goal) -> Held {
        Held {
            goal,
            there: None,
            bucket: None,
            sorter: None,
            unsorted: None,
            worry: None,
            overrun: Overrun::default(),
            bypassed: 0,
            astray: false,
            demoted: false,
            undos: vec![],
            retry: None,
            looked: Instant::now(),
        }
    }

    /// Puts everything in force that is not. Errors: the first one; what can be in force nevertheless is.
    pub(crate) fn hold(&mut self, around: &Around<'_>, record: &mut dyn Recorder) -> Result<(), Error> {
        let home = around.home;
        self.looked = Instant::now();
        let name = self.goal.name.clone();
        let seen = home.route.named(&name).map_err(|source| Error::kernel(format!("look for {name}"), source))?;
        let Some(seen) = seen else {
            (self.there, self.bucket, self.sorter, self.unsorted) = (None, None, None, None);
            return Err(Error::NoDevice(name));
        };
        let link = home.link(&seen);
        if self.there.as_ref().is_some_and(|there| there.link != link) {
            (self.there, self.bucket) = (None, None);
        }
        self.undos.retain(|undo| !matches!(undo, Undo::PacketThread { thread, .. } if !thread.alive()));
        let is_vif = self.goal.vif.is_some();
        let kind = kind(home, &link, &seen, is_vif)?;
        let mut record = Remember { own: &mut self.undos, record };
        if let Some(bucket) = &self.goal.bucket {
            let packets = match &mut self.bucket {
                Some(packets) => {
                    packets.set(&name, bucket, self.goal.unit)?;
                    packets
                }
                none => none.insert(Packets::load(&name, bucket, self.goal.unit)?),
            };
            // What it sends is limited at its own end, where that can be reached.
            let here: &[Direction] =
                if matches!(kind, Kind::Veth(..)) { &[Direction::To] } else { &[Direction::From, Direction::To] };
            packets.attach(home, &link, here, &mut record)?;
        }
        let found = match kind {
            Kind::Napi => own(around, &link, seen.up, (false, !is_vif), &mut record),
            Kind::Vhost => {
                vhost::workers(&link).map(|threads| Found { from: threads.clone(), to: threads, ..Found::default() })
            }
            Kind::Veth(index, id) => veth(around, &link, &seen, (index, id), is_vif, self.bucket.as_mut(), &mut record),
        };
        let found = found?;
        let attributes = attributes(&self.goal, self.demoted);
        let threads: BTreeSet<Thread> = found.from.iter().chain(&found.to).copied().collect();
        let threads: Vec<Thread> = threads.into_iter().collect();
        end::schedule(&name, &threads, &attributes, &mut record)?;
        let is_new = self.there.is_none();
        let there = self.there.get_or_insert_with(|| There {
            link,
            peer: None,
            apart: false,
            address: None,
            from: vec![],
            to: vec![],
            meters: [Meter::default(), Meter::default()],
            packets: 0,
            at: Instant::now(),
            a_second: 0.0,
            mark: 0,
        });
        there.apart = seen.kind.as_deref() == Some("veth") && found.peer.is_none();
        (there.peer, there.address, there.from, there.to) = (found.peer, found.address, found.from, found.to);
        if is_new {
            there.packets = there.cost(&seen);
            there.mark = there.packets;
        }
        there.measure(&seen);
        found.down.map_or(Ok(()), |name| Err(Error::Down(name)))
    }

    /// As [`Held::hold`], where an event, a thread that has gone or the time calls for it; what is wrong afterwards is in `worry`.
    pub(crate) fn check(&mut self, around: &Around<'_>, event: bool, record: &mut dyn Recorder) {
        let now = Instant::now();
        let due = match self.retry {
            Some((at, _)) => event || now >= at,
            None => event || std::mem::take(&mut self.astray) || now - self.looked >= LOOK || !self.is_in_force(),
        };
        if due {
            match self.hold(around, record) {
                Ok(()) => (self.worry, self.retry) = (None, None),
                Err(error) => self.wait(&error),
            }
        } else if let Some(there) = &mut self.there {
            if let Ok(Some(seen)) = around.home.route.numbered(there.link.index) {
                there.measure(&seen);
            }
        }
    }

    /// It is tried again until it works; says what is wrong until then.
    pub(crate) fn wait(&mut self, error: &Error) {
        let wait = self.retry.map_or(PATIENCE.0, |(_, wait)| (wait * 2).min(PATIENCE.1));
        self.retry = Some((Instant::now() + wait, wait));
        let broken = if self.goal.promised { "; its promise is not kept until then" } else { "" };
        self.worry = Some(match error {
            Error::NoDevice(_) | Error::Down(_) => format!("{error}{broken}"),
            error => format!("{error}; tried again until it works{broken}"),
        });
    }

    /// Whether its threads live and have what they are to have.
    fn is_in_force(&self) -> bool {
        let goal = attributes(&self.goal, self.demoted);
        self.there.as_ref().is_some_and(|there| {
            there.threads().iter().all(|thread| thread.alive() && thread.attributes().is_ok_and(|now| now == goal))
        })
    }

    /// Gives its threads what the goal says by now.
    pub(crate) fn reschedule(&mut self, record: &mut dyn Recorder) -> Result<(), Error> {
        let Some(there) = &self.there else { return Ok(()) };
        let mut record = Remember { own: &mut self.undos, record };
        let attributes = attributes(&self.goal, self.demoted);
        end::schedule(&self.goal.name, &there.threads(), &attributes, &mut record)
    }

    /// Gives its threads the lowest priority while it makes the host work more than its bucket allows: drop more packets than the
    /// bucket lets through, or process for twice the time that those take. Returns whether that has changed. `time`: the
    /// processor time of its threads is looked at, too.
    pub(crate) fn bound(&mut self, time: bool, record: &mut dyn Recorder) -> Result<bool, Error> {
        let demoted = self.overruns(time);
        if demoted == self.demoted {
            return Ok(false);
        }
        self.demoted = demoted;
        if let Some(there) = &mut self.there {
            there.meters = [Meter::default(), Meter::default()]; // what waited for them proves nothing
        }
        self.reschedule(record).map(|()| true)
    }

    /// One without a bucket has no priority that it could lose.
    fn overruns(&mut self, time: bool) -> bool {
        let (Some(_), Some(bucket), Some(allowed)) = (self.goal.priority, &self.bucket, self.goal.a_second()) else {
            return false;
        };
        let now = Instant::now();
        let counts = bucket.counts();
        self.overrun.see(Work::Refused, counts.refused, allowed, now);
        if time {
            self.astray = std::mem::replace(&mut self.bypassed, counts.bypassed) != counts.bypassed;
        }
        if let Some(there) = self.there.as_ref().filter(|_| time) {
            let ran = there.threads().iter().map(|thread| thread.cpu_time_ns()).sum();
            self.overrun.see(Work::Time, ran, allowed.saturating_mul(self.goal.cost).saturating_mul(2), now);
        }
        self.overrun.is_demoted(now)
    }

    /// What may be sent to it before what is for the low class; `None`: it is not of the high one, or not there.
    pub(crate) fn addressed(&self, neighbours: &BTreeMap<u32, BTreeSet<Address>>) -> Option<For> {
        let (Some(_), Some(_), Some(bucket), Some(there)) =
            (&self.goal.vif, self.goal.priority, self.goal.bucket, &self.there)
        else {
            return None;
        };
        let behind = neighbours.get(&there.link.index).into_iter().flatten().copied().collect();
        Some(For { name: self.goal.name.clone(), bucket, card: there.address, behind })
    }

    /// Sorts what arrives at an uplink; why it cannot be is told with what is wrong.
    pub(crate) fn sort(&mut self, interfaces: &[For]) {
        let (Some(arrivals), Some(there)) = (self.goal.arrivals, &self.there) else { return };
        let (name, core) = (&self.goal.name, self.goal.core);
        if there.apart {
            // Packets would be handed on without the checksums that their sender leaves to the interface.
            self.unsorted =
                Some("its other end is in no network namespace that can be found; run giusto on the host".into());
            return;
        }
        if self.sorter.as_ref().is_none_or(|sorter| !sorter.is_at(there.link.index, core)) {
            self.sorter = None; // there cannot be two at a time
            match Sorter::attach(name, there.link.index, core) {
                Ok(sorter) => self.sorter = Some(sorter),
                Err(error) => self.unsorted = Some(error.to_string()),
            }
        }
        if let Some(sorter) = &mut self.sorter {
            self.unsorted = sorter.set(name, &arrivals, interfaces).err().map(|error| error.to_string());
        }
    }

    /// What is wrong with it, in words.
    pub(crate) fn worries(&self) -> Vec<String> {
        let name = &self.goal.name;
        let mut all: Vec<String> = self.worry.iter().cloned().collect();
        if let Some(why) = &self.unsorted {
            all.push(format!(
                "what arrives at {name} is not limited, and a flood from outside would be processed before all others: {why}"
            ));
        }
        if let (false, Proof::NotMoved { why }) = (self.demoted, self.proof()) {
            all.push(format!("{name}: {why}"));
        }
        if self.demoted {
            // Without numbers, which would be another warning at each look.
            let how = match self.bucket.as_ref().map(Packets::counts) {
                Some(counts) if counts.bypassed > 0 => "packets bypass its bucket, and are dropped",
                _ => "its packets take twice the planned time, or more of them must be dropped than its bucket lets through",
            };
            all.push(format!(
                "{name} overloads the host: {how}; its threads have the lowest priority until that ends, so its promise is not \
                 kept; look for raw sockets, floods and slow packet filters in its service"
            ));
        }
        all
    }

    /// Undoes what was done to it; returns what could not be undone.
    pub(crate) fn let_go(mut self) -> Vec<String> {
        self.sorter = None; // as long as it is there, the other end of a veth pair cannot have all offloads
        crate::undo(&self.undos).failed
    }

    /// Packets since the last call: what it costs, in proportion.
    pub(crate) fn load(&mut self) -> u64 {
        self.there
            .as_mut()
            .map_or(0, |there| there.packets.saturating_sub(std::mem::replace(&mut there.mark, there.packets)))
    }

    pub(crate) fn proof(&self) -> Proof {
        match &self.there {
            Some(there) => there.meters[0].proof.clone().and(there.meters[1].proof.clone()),
            None => Proof::Idle,
        }
    }
}

fn attributes(goal: &Goal, demoted: bool) -> Attributes {
    if demoted {
        return Attributes::lowest(goal.core);
    }
    Attributes::of(goal.priority, goal.core)
}

impl There {
    /// Each once, ascending.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        let threads: BTreeSet<Thread> = self.from.iter().chain(&self.to).copied().collect();
        threads.into_iter().collect()
    }

    /// Packets that its threads have processed: not what an uplink sends, which is done where it comes from.
    fn cost(&self, seen: &Seen) -> u64 {
        seen.received + if self.to.is_empty() { 0 } else { seen.sent }
    }

    fn measure(&mut self, seen: &Seen) {
        let used = |threads: &[Thread]| -> BTreeMap<Thread, u64> {
            threads.iter().map(|&thread| (thread, thread.cpu_time_ns())).collect()
        };
        if self.from == self.to {
            self.meters[0].read(seen.received + seen.sent, used(&self.from));
            self.meters[1] = Meter::default();
        } else {
            self.meters[0].read(seen.received, used(&self.from));
            self.meters[1].read(seen.sent, used(&self.to));
        }
        let (packets, passed) = (self.cost(seen), self.at.elapsed());
        if passed >= Duration::from_millis(500) {
            self.a_second = packets.saturating_sub(self.packets) as f64 / passed.as_secs_f64();
            self.at = Instant::now();
            self.packets = packets;
        }
    }
}

/// What processes an interface's packets.
enum Kind {
    /// NAPI of hardware, or of a tap that was opened with IFF_NAPI.
    Napi,
    Vhost,
    /// NAPI of both ends: the number of the other one, and the id of its namespace if that is another one.
    Veth(u32, Option<i32>),
}

fn kind(home: &Namespace, link: &Link, seen: &Seen, is_vif: bool) -> Result<Kind, Error> {
    let unfit =
        |kind: &str, why: &str| Err(Error::Unfit { name: link.name.clone(), kind: kind.into(), why: why.into() });
    match seen.kind.as_deref() {
        Some("veth") => {
            let (index, id) = seen.link.ok_or_else(|| Error::NoPeer(link.name.clone()))?;
            Ok(Kind::Veth(index, id))
        }
        Some("tun") => {
            let flags = home.read(link, "tun_flags").unwrap_or_default();
            let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
            const NAPI: u32 = 0x10; // IFF_NAPI
            Ok(if flags & NAPI != 0 { Kind::Napi } else { Kind::Vhost })
        }
        None if !is_vif => Ok(Kind::Napi),
        None => unfit("hardware", "a virtual function passes the host by, so there is nothing to give a priority to; name a vif of kind veth or tap"),
        Some(kind @ ("macvtap" | "macvlan" | "ipvlan" | "ipvtap" | "netkit")) => {
            unfit(kind, "its packets are processed with those of the interface below it, in no thread of their own; use veth or tap on a bridge")
        }
        Some(kind) if is_vif => unfit(kind, "its packets are processed in no thread of their own; name a vif of kind veth or tap"),
        Some(kind) => unfit(kind, "it has no packet processing of its own; name the hardware interfaces below it"),
    }
}

#[derive(Default)]
struct Found {
    peer: Option<Link>,
    address: Option<Address>,
    from: Vec<Thread>,
    to: Vec<Thread>,
    /// An end that is down.
    down: Option<String>,
}

impl Found {
    /// The threads of an end, unless it is down.
    fn take(&mut self, threads: Result<Vec<Thread>, Error>) -> Result<Vec<Thread>, Error> {
        match threads {
            Err(Error::Down(name)) => {
                self.down = Some(name);
                Ok(vec![])
            }
            threads => threads,
        }
    }
}

fn own(
    around: &Around<'_>,
    link: &Link,
    up: bool,
    (veth, sorts): (bool, bool),
    record: &mut dyn Recorder,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let threads = end::settle(
        around.home,
        link,
        up,
        Needs { veth, threaded: true, whole: false, sorts },
        &around.claimed,
        record,
    );
    found.from = found.take(threads)?;
    Ok(found)
}

/// Both ends: what the interface sends is processed by the host's end, what it receives by its own.
fn veth(
    around: &Around<'_>,
    link: &Link,
    seen: &Seen,
    (index, id): (u32, Option<i32>),
    is_vif: bool,
    bucket: Option<&mut Packets>,
    record: &mut dyn Recorder,
) -> Result<Found, Error> {
    let home = around.home;
    let other = id.map(|id| home.known_as(id, around.neighbours)).transpose()?;
    let namespace = match &other {
        None => Some(home),
        Some(other) => other.as_ref(),
    };
    let looked = namespace.map(|namespace| namespace.route.numbered(index)).transpose();
    let peer =
        looked.map_err(|source| Error::kernel(format!("look for the other end of {}", link.name), source))?.flatten();
    let mut found = own(around, link, seen.up, (true, !is_vif), record)?;
    match (namespace, peer) {
        (Some(namespace), Some(peer)) => {
            let far = namespace.link(&peer);
            if let Some(bucket) = bucket {
                bucket.attach_sent(namespace, &far, record)?;
                bucket.attach(home, link, &[Direction::Arrived], record)?;
            }
            let claimed = around.claimed.iter().chain(&found.from).copied().collect();
            let threads = end::settle(
                namespace,
                &far,
                peer.up,
                Needs { veth: true, threaded: is_vif, whole: !is_vif, sorts: false },
                &claimed,
                record,
            );
            found.to = found.take(threads)?;
            (found.peer, found.address) = (Some(far), peer.address);
            Ok(found)
        }
        // An end that is out of reach stays as it is; if packets pass the threads by then, the proof tells.
        _ if !is_vif => Ok(found),
        _ => Err(Error::NoPeer(link.name.clone())),
    }
}
