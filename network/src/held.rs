//! One interface of the plan in force: found, settled, looked after, let go.

use crate::bucket::Packets;
use crate::end;
use crate::events::{Changes, Stir};
use crate::kind::{kind, own, veth, Around, Found, Kind};
use crate::namespace::Namespace;
use crate::overrun::{Overrun, Work};
use crate::proof::Proof;
use crate::route::Behind;
use crate::sorter::{For, Sorter};
use crate::tc::Direction;
use crate::there::There;
use crate::{tcx, undo, vhost, Attributes, Error, Recorder, Thread, Undo};
use giusto_model::{Bucket, PacketBucket, PacketClass, PacketUnit};
use std::collections::BTreeSet;
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
    /// Those of what it sends and of what is sent to it.
    pub(crate) buckets: Option<[PacketBucket; 2]>,
    /// Of an uplink: what the high class may be sent.
    pub(crate) arrivals: Option<Bucket>,
    pub(crate) unit: PacketUnit,
    /// What processing a packet takes, in ns.
    pub(crate) cost: u64,
    /// Whether it was promised something.
    pub(crate) promised: bool,
}

impl Goal {
    /// Packets that its buckets let through in a second at most: of those that it sends, and of those that are sent to it.
    pub(crate) fn a_second(&self) -> Option<[u64; 2]> {
        let of = |bucket: PacketBucket| {
            let ((events, ns), (depth, parts)) = (bucket.rate.fraction(), bucket.depth.fraction());
            let rate = u128::from(events) * 1_000_000_000 / u128::from(ns.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX).saturating_add(depth / parts.max(1))
        };
        self.buckets.map(|buckets| buckets.map(of))
    }
}

/// An interface that is looked after.
pub(crate) struct Held {
    pub(crate) goal: Goal,
    pub(crate) there: Option<There>,
    pub(crate) bucket: Option<Packets>,
    /// Of an uplink, and why what arrives is not sorted.
    pub(crate) sorter: Option<Sorter>,
    unsorted: Option<String>,
    /// Why its interrupts arrive elsewhere.
    elsewhere: Option<String>,
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
    stir: Stir,
}

/// Writes down what is new, and keeps what belongs to one interface.
struct Remember<'a> {
    own: &'a mut Vec<Undo>,
    record: &'a mut dyn Recorder<Undo>,
}

impl Recorder<Undo> for Remember<'_> {
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
            elsewhere: None,
            worry: None,
            overrun: Overrun::default(),
            bypassed: 0,
            astray: false,
            demoted: false,
            undos: vec![],
            retry: None,
            looked: Instant::now(),
            stir: Stir::default(),
        }
    }

    /// Puts everything in force that is not. Errors: the first one; what can be in force nevertheless is.
    pub(crate) fn hold(&mut self, around: &Around<'_>, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let home = around.home;
        self.looked = Instant::now();
        self.stir.look(self.looked); // what happens from now on calls again
        let name = self.goal.name.clone();
        let seen = home.route.named(&name).map_err(|source| Error::kernel(format!("look for {name}"), source))?;
        let Some(seen) = seen else {
            (self.there, self.bucket, self.sorter) = (None, None, None);
            (self.unsorted, self.elsewhere) = (None, None);
            return Err(self.missing());
        };
        let link = home.link(&seen);
        if self.there.as_ref().is_some_and(|there| there.link != link) {
            (self.there, self.bucket) = (None, None);
        }
        self.undos.retain(|undo| !matches!(undo, Undo::PacketThread { thread, .. } if !thread.alive()));
        let is_vif = self.goal.vif.is_some();
        let kind = kind(home, &link, &seen, is_vif)?;
        let other = match kind {
            Kind::Veth(index, id) => Some((id, index)),
            Kind::Napi | Kind::Vhost => None,
        };
        let mut record = Remember { own: &mut self.undos, record };
        if let Some(buckets) = &self.goal.buckets {
            let packets = match &mut self.bucket {
                Some(packets) => {
                    packets.set(&name, buckets, self.goal.unit)?;
                    packets
                }
                none => {
                    let place = around.banks.place(around.expected)?;
                    none.insert(Packets::new(place, tcx::fits(around.expected), &name, buckets, self.goal.unit)?)
                }
            };
            // What it sends is limited at its own end, where that can be reached.
            let here: &[Direction] =
                if matches!(kind, Kind::Veth(..)) { &[Direction::To] } else { &[Direction::From, Direction::To] };
            packets.attach(home, &link, here, &mut record)?;
        }
        let found = match kind {
            Kind::Napi => own(around, &link, &seen, is_vif, &mut record),
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
        let mut receiving = 0;
        if self.goal.arrivals.is_some() {
            receiving = home.receive_queues(&link).map_or(0, |queues| queues.len());
            self.elsewhere = end::send_interrupts(home, &link, self.goal.core, &mut record)?;
        }
        let is_new = self.there.is_none();
        let there = self.there.get_or_insert_with(|| There::new(link));
        there.apart = seen.kind.as_deref() == Some("veth") && found.peer.is_none();
        (there.peer, there.other) = (found.peer, other);
        (there.address, there.bridge, there.receiving) = (found.address, seen.port_of, receiving);
        // A virtual machine has a vhost worker for each of its interfaces: they tell nothing of one of them.
        there.queues = if matches!(kind, Kind::Vhost) { 1 } else { found.from.len().max(found.to.len()) };
        there.found(found.from, found.to);
        if is_new {
            there.packets = there.cost([seen.received, seen.sent]);
            there.mark = there.packets;
        }
        self.measure([seen.received, seen.sent]);
        found.down.map_or(Ok(()), |name| Err(Error::Down(name)))
    }

    /// Why it is not there. If it was moved to another network namespace it gets back what it had, there.
    fn missing(&mut self) -> Error {
        let name = self.goal.name.clone();
        if self.undos.is_empty() || !undo::is_moved(&self.undos) {
            return Error::NoDevice(name);
        }
        let failed = crate::undo(&self.undos).failed;
        if failed.is_empty() {
            self.undos.clear();
        }
        Error::Moved { name, left: failed }
    }

    /// Takes note of events; one that waits for something looks again after any.
    pub(crate) fn stirred(&mut self, changes: &Changes) {
        let told = |there: &There| {
            changes.numbers.contains(&(None, there.link.index))
                || there.other.is_some_and(|other| changes.numbers.contains(&other))
        };
        let is_told = changes.all || self.retry.is_some() || changes.names.contains(&self.goal.name);
        self.stir.waits |= is_told || self.there.as_ref().is_some_and(told);
    }

    /// Whether an event has not been looked at yet.
    pub(crate) fn is_stirred(&self) -> bool {
        self.stir.waits
    }

    /// Whether it is time to look at it, as an event has told of it.
    pub(crate) fn calls(&self, now: Instant) -> bool {
        self.stir.is_due(now)
    }

    /// Whether an event, threads that have changed, packets that bypass it or the time call for [`Held::hold`]. As the time calls
    /// for all at once, `routine` of them are looked at for that alone.
    pub(crate) fn is_due(&mut self, routine: &mut usize) -> bool {
        let now = Instant::now();
        match self.retry {
            Some((at, _)) => self.calls(now) || now >= at,
            None if self.calls(now) || std::mem::take(&mut self.astray) || !self.is_in_force() => true,
            None if now - self.looked < LOOK || *routine == 0 => false,
            None => {
                *routine -= 1;
                true
            }
        }
    }

    /// As [`Held::hold`]; what is wrong afterwards is in `worry`.
    pub(crate) fn look(&mut self, around: &Around<'_>, record: &mut dyn Recorder<Undo>) {
        match self.hold(around, record) {
            Ok(()) => (self.worry, self.retry) = (None, None),
            Err(error) => self.wait(&error),
        }
    }

    /// Looks at its packets only; and at an uplink whether it has as many queues as before, of which not every driver tells, and
    /// where its interrupts arrive, which other programs change.
    pub(crate) fn count(&mut self, home: &Namespace, record: &mut dyn Recorder<Undo>) {
        let Some(there) = &self.there else { return };
        if self.goal.arrivals.is_some() {
            let queues = home.receive_queues(&there.link);
            self.stir.waits |= queues.is_ok_and(|queues| queues.len() != there.receiving);
            let mut record = Remember { own: &mut self.undos, record };
            if let Ok(elsewhere) = end::send_interrupts(home, &there.link, self.goal.core, &mut record) {
                self.elsewhere = elsewhere;
            }
        }
        if let Ok(Some(packets)) = home.route.packets(there.link.index) {
            self.measure(packets);
        }
    }

    /// So many packets have been received and sent by now: whether its threads process them, and whether those take too long.
    fn measure(&mut self, packets: [u64; 2]) {
        let Some(there) = &mut self.there else { return };
        there.measure(packets);
        if let (Some(_), Some(_), Some([sent, received])) = (self.goal.priority, &self.bucket, self.goal.a_second()) {
            let allowed = sent.saturating_add(received).saturating_mul(self.goal.cost).saturating_mul(2);
            self.overrun.see(Work::Time, there.ran, allowed, Instant::now());
        }
    }

    /// It is tried again until it works; says what is wrong until then.
    pub(crate) fn wait(&mut self, error: &Error) {
        let wait = self.retry.map_or(PATIENCE.0, |(_, wait)| (wait * 2).min(PATIENCE.1));
        self.retry = Some((Instant::now() + wait, wait));
        let broken = if self.goal.promised { "; its promise is not kept until then" } else { "" };
        self.worry = Some(match error {
            Error::NoDevice(_) | Error::Moved { .. } | Error::Down(_) => format!("{error}{broken}"),
            error => format!("{error}; tried again until it works{broken}"),
        });
    }

    /// Whether its threads have what they are to have. Another thread that got the number of one that has ended, and by chance
    /// its priority and core, is found at the next look.
    fn is_in_force(&self) -> bool {
        let goal = attributes(&self.goal, self.demoted);
        self.there.as_ref().is_some_and(|there| {
            there.threads().iter().all(|thread| Attributes::read(*thread).is_ok_and(|now| now == goal))
        })
    }

    /// Gives its threads what the goal says by now.
    pub(crate) fn reschedule(&mut self, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let Some(there) = &self.there else { return Ok(()) };
        let mut record = Remember { own: &mut self.undos, record };
        let attributes = attributes(&self.goal, self.demoted);
        end::schedule(&self.goal.name, &there.threads(), &attributes, &mut record)
    }

    /// Gives its threads the lowest priority while it makes the host work more than its bucket allows: drop more packets than the
    /// bucket lets through, or process for twice the time that those take. Returns whether that has changed.
    pub(crate) fn bound(&mut self, record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let demoted = self.overruns();
        if demoted == self.demoted {
            return Ok(false);
        }
        self.demoted = demoted;
        if let Some(there) = &mut self.there {
            there.anew(); // what waited for them proves nothing
        }
        self.reschedule(record).map(|()| true)
    }

    /// One without a bucket has no priority that it could lose.
    fn overruns(&mut self) -> bool {
        let (Some(_), Some(bucket), Some([sent, _])) = (self.goal.priority, &self.bucket, self.goal.a_second()) else {
            return false;
        };
        let now = Instant::now();
        let counts = bucket.counts();
        self.overrun.see(Work::Refused, counts.refused, sent, now);
        self.astray |= std::mem::replace(&mut self.bypassed, counts.bypassed) != counts.bypassed;
        self.overrun.is_demoted(now)
    }

    /// What may be sent to it before what is for the low class; `None`: it is not of the high one, or not there.
    pub(crate) fn addressed(&self, neighbours: &Behind) -> Option<For> {
        let (Some(_), Some(_), Some([_, received]), Some(there)) =
            (&self.goal.vif, self.goal.priority, self.goal.buckets, &self.there)
        else {
            return None;
        };
        let behind = neighbours.of(there.link.index, there.bridge, there.address);
        Some(For { name: self.goal.name.clone(), bucket: received.packets(), card: there.address, behind })
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
        let mut all: Vec<String> = self.worry.iter().chain(&self.elsewhere).cloned().collect();
        if let Some(why) = &self.unsorted {
            all.push(format!(
                "what arrives at {name} is not limited, and a flood from outside would be processed before all others: {why}"
            ));
        }
        let queues = self.there.as_ref().map_or(1, |there| there.queues);
        if self.goal.promised && queues > 1 {
            all.push(format!(
                "{name} has {queues} queues, whose threads may process a packet after later ones, and its bound counts on one: \
                 its promise is not kept until it has one (ethtool -L {name} rx 1 tx 1, and so at its other end)"
            ));
        }
        for program in self.bucket.iter().flat_map(Packets::behind) {
            all.push(format!(
                "program {program} of another owner comes before the bucket of {name}: what that redirects is not limited; \
                 attach it after giusto's (tcx, BPF_F_AFTER)"
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

    /// What is to be undone of it. What goes with this process has gone: as long as it is there, the other end of a veth pair
    /// cannot have all offloads.
    pub(crate) fn let_go(self) -> Vec<Undo> {
        self.undos
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
