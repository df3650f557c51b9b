//! What to undo, recorded before it is done.

use crate::features::GRO;
use crate::namespace::{Cookies, Namespace, Neighbours};
use crate::route::Seen;
use crate::tc::{self, Direction, Root};
use crate::{interrupts, Attributes, Link, Thread};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fmt, io};

/// One change, as its undoing. Written down *before* the change is made, so it may describe one that never was: undoing that
/// must do no harm. An interface is known by its number in its namespace: one that was renamed is found, one that has gone is
/// passed over, and so is another one under its name. One that was moved to another network namespace is found where the other
/// end of its veth pair is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// A file of an interface in sysfs was written: write its old value.
    InterfaceFile {
        /// Whose.
        link: Link,
        /// Which, such as `threaded`.
        file: String,
        /// What it held.
        value: String,
    },
    /// Offloads of an interface were switched.
    Offloads {
        /// Whose.
        link: Link,
        /// Which, and what was requested before.
        before: BTreeMap<String, bool>,
    },
    /// A clsact was added: remove it, unless another program's filters are on it by now.
    Clsact(Link),
    /// A queue that sends packets at the time they say was put at the root of an interface: remove it.
    Queue(Link),
    /// Nothing was changed: two interfaces are the ends of a veth pair, so that one that is moved to another network namespace is
    /// found by the other.
    VethPair {
        /// The host's.
        link: Link,
        /// The other.
        other: Link,
    },
    /// A filter was added.
    Filter {
        /// To which interface.
        link: Link,
        /// Which one.
        direction: Direction,
    },
    /// An interrupt of a card was sent to another core.
    Interrupt {
        /// Whose.
        link: Link,
        /// Which: its number.
        number: u32,
        /// At which cores it might arrive before, as /proc/irq writes them.
        value: String,
    },
    /// A thread got another policy and other cores.
    PacketThread {
        /// The thread.
        thread: Thread,
        /// What it had.
        before: Attributes,
    },
}

impl Undo {
    /// What of `self` is not undone by `earlier` already; `None`: all of it is. So that after many changes to and fro the state before the
    /// first comes back, and at once.
    pub(crate) fn beyond(self, earlier: &[Undo]) -> Option<Undo> {
        match self {
            Undo::InterfaceFile { ref link, ref file, .. } => {
                let same = |known: &Undo| matches!(known, Undo::InterfaceFile { link: l, file: f, .. } if l == link && f == file);
                (!earlier.iter().any(same)).then_some(self)
            }
            Undo::Interrupt { ref link, number, .. } => {
                let own = (link, number);
                let same =
                    |known: &Undo| matches!(known, Undo::Interrupt { link, number, .. } if (link, *number) == own);
                (!earlier.iter().any(same)).then_some(self)
            }
            Undo::Offloads { link, mut before } => {
                for known in earlier {
                    if let Undo::Offloads { link: same, before: known } = known {
                        before.retain(|name, _| *same != link || !known.contains_key(name));
                    }
                }
                (!before.is_empty()).then_some(Undo::Offloads { link, before })
            }
            Undo::PacketThread { thread, .. } => {
                let same = |known: &Undo| matches!(known, Undo::PacketThread { thread: t, .. } if *t == thread);
                (!earlier.iter().any(same)).then_some(self)
            }
            Undo::Clsact(_) | Undo::Queue(_) | Undo::Filter { .. } | Undo::VethPair { .. } => {
                (!earlier.contains(&self)).then_some(self)
            }
        }
    }

    fn link(&self) -> Option<&Link> {
        match self {
            Undo::InterfaceFile { link, .. }
            | Undo::Interrupt { link, .. }
            | Undo::Offloads { link, .. }
            | Undo::Clsact(link)
            | Undo::Queue(link)
            | Undo::Filter { link, .. } => Some(link),
            Undo::PacketThread { .. } | Undo::VethPair { .. } => None,
        }
    }
}

/// What an undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Changes undone or found undone.
    pub undone: usize,
    /// What could not be undone, and why; empty is good. Worth another try.
    pub failed: Vec<String>,
}

/// Undoes all, the latest first, and then reads back what was changed: what is not as it was before is a failure too. May be
/// called again after having died in the middle; what has vanished is passed over. Needs to enter the network namespaces of the
/// interfaces. Milliseconds.
pub fn undo(all: &[Undo]) -> Report {
    let mut report = Report::default();
    let mut places = Places::of(all);
    for step in all.iter().rev() {
        let done = match step.link() {
            None => without_namespace(step),
            Some(link) => places.find(link).and_then(|found| match found {
                Some((namespace, link)) => within(namespace, &link, step),
                None => Ok(()),
            }),
        };
        match done {
            Ok(()) => report.undone += 1,
            Err(error) => report.failed.push(format!("{step}: {error}")),
        }
    }
    if report.failed.is_empty() {
        report.failed = left(all, &mut places);
    }
    report
}

/// Whether an interface that something is to be undone of is in another network namespace than it was.
pub(crate) fn is_moved(all: &[Undo]) -> bool {
    let mut places = Places::of(all);
    let mut links = all.iter().filter_map(Undo::link);
    links.any(|link| matches!(places.find(link), Ok(Some((_, now))) if now.namespace != link.namespace))
}

/// Namespaces that are open at a time.
const OPEN: usize = 8;

/// Network namespaces, and what is known of the interfaces there.
struct Places {
    cookies: Cookies,
    /// By their cookies, the one that was asked for last at the end; `None`: it has gone.
    known: Vec<(u64, Option<Namespace>)>,
    /// The other end of a veth pair, by namespace and number.
    others: BTreeMap<(u64, u32), Link>,
}

impl Places {
    fn of(all: &[Undo]) -> Places {
        let pairs = all.iter().filter_map(|undo| match undo {
            Undo::VethPair { link, other } => Some([(link, other), (other, link)]),
            _ => None,
        });
        let others = pairs.flatten().map(|(one, other)| ((one.namespace, one.index), other.clone())).collect();
        Places { cookies: Cookies::default(), known: vec![], others }
    }

    /// An interface where it is now, with the name that it has there; `None`: it has gone. An end of a veth pair that is not
    /// where it was is found by the other one, if that is.
    fn find(&mut self, link: &Link) -> io::Result<Option<(&Namespace, Link)>> {
        let other = self.others.get(&(link.namespace, link.index)).cloned();
        let here = self.seen(link)?;
        // Root in a namespace may give the number of one that has gone to a new one.
        let is_it = |seen: &Seen| {
            let end = seen.kind.as_deref() == Some("veth");
            other.as_ref().is_none_or(|other| end && seen.link.is_some_and(|(index, _)| index == other.index))
        };
        let mut found = here.filter(is_it).map(|seen| Link { name: seen.name, ..link.clone() });
        if let (None, Some(other)) = (&found, other) {
            found = self.behind(&other)?;
        }
        let Some(found) = found else { return Ok(None) };
        Ok(self.namespace(found.namespace)?.map(|namespace| (namespace, found)))
    }

    fn namespace(&mut self, cookie: u64) -> io::Result<Option<&Namespace>> {
        let known = match self.known.iter().position(|(known, _)| *known == cookie) {
            Some(at) => self.known.remove(at),
            None => {
                let found = Namespace::with_cookie(cookie, &self.cookies);
                (cookie, found.map_err(|error| io::Error::other(error.to_string()))?)
            }
        };
        self.keep(known);
        Ok(self.known.last().and_then(|(_, place)| place.as_ref()))
    }

    fn keep(&mut self, known: (u64, Option<Namespace>)) {
        if self.known.len() >= OPEN {
            self.known.remove(0);
        }
        self.known.push(known);
    }

    fn seen(&mut self, link: &Link) -> io::Result<Option<Seen>> {
        self.namespace(link.namespace)?.map_or(Ok(None), |namespace| namespace.route.numbered(link.index))
    }

    /// The other end of one that is where it was.
    fn behind(&mut self, one: &Link) -> io::Result<Option<Link>> {
        let Some(seen) = self.seen(one)?.filter(|seen| seen.kind.as_deref() == Some("veth")) else { return Ok(None) };
        let Some((index, id)) = seen.link else { return Ok(None) };
        let (Some(namespace), Some(id)) = (self.namespace(one.namespace)?, id) else { return Ok(None) };
        let place = namespace.known_as(id, &Neighbours::default());
        let Some(place) = place.map_err(|error| io::Error::other(error.to_string()))? else { return Ok(None) };
        let found = place.route.numbered(index)?.map(|seen| place.link(&seen));
        self.known.retain(|(known, _)| *known != place.cookie);
        self.keep((place.cookie, Some(place)));
        Ok(found)
    }
}

fn without_namespace(step: &Undo) -> io::Result<()> {
    let Undo::PacketThread { thread, before } = step else { return Ok(()) };
    match before.set(*thread) {
        Err(_) if !thread.alive() => Ok(()),
        done => done,
    }
}

fn within(namespace: &Namespace, link: &Link, step: &Undo) -> io::Result<()> {
    let Some(link) = namespace.by_number(link)? else { return Ok(()) };
    let done = match step {
        Undo::InterfaceFile { file, value, .. } => put_back(namespace, &link, file, value),
        Undo::Interrupt { number, value, .. } => send_back(namespace, &link, *number, value),
        Undo::Offloads { before, .. } => switch_back(namespace, &link, before),
        Undo::Clsact(_) => remove_clsact(namespace, link.index),
        Undo::Queue(_) => match tc::root(&namespace.route, link.index) {
            Ok(Root::Ours) => tc::remove_fq(&namespace.route, link.index),
            other => other.map(drop),
        },
        Undo::Filter { direction, .. } => remove_filter(namespace, link.index, *direction),
        Undo::PacketThread { .. } | Undo::VethPair { .. } => Ok(()),
    };
    match (done, namespace.by_number(&link)?) {
        (Err(_), None) => Ok(()),
        (Err(_), Some(now)) if now != link => within(namespace, &now, step), // renamed meanwhile
        (done, _) => done,
    }
}

/// What is not as it was before all changes. Of several changes of one thing the first tells.
fn left(all: &[Undo], places: &mut Places) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut is_first = |link: Option<&Link>, what: &str| {
        // Whatever its name was, and in whichever namespace it is.
        let found = link.map(|link| places.find(link).ok().flatten().map_or_else(|| link.clone(), |(_, now)| now));
        seen.insert((found.map(|link| (link.namespace, link.index)), what.to_string()))
    };
    let mut firsts = Vec::new();
    firsts.extend(all.iter().filter_map(|step| {
        let link = step.link();
        let is_first = match step {
            Undo::Offloads { link, before } => {
                let before = before.iter().filter(|(name, _)| is_first(Some(link), name));
                let before = before.map(|(name, on)| (name.clone(), *on)).collect();
                return Some(Undo::Offloads { link: link.clone(), before });
            }
            Undo::InterfaceFile { file, .. } => is_first(link, file),
            Undo::Interrupt { number, .. } => is_first(link, &format!("interrupt {number}")),
            Undo::Clsact(_) => is_first(link, "clsact"),
            Undo::Queue(_) => is_first(link, "fq"),
            Undo::Filter { direction, .. } => is_first(link, direction.program()),
            Undo::PacketThread { thread, .. } => is_first(link, &format!("{thread:?}")),
            Undo::VethPair { .. } => false,
        };
        is_first.then(|| step.clone())
    }));
    firsts.iter().filter_map(|step| differs(step, places)).collect()
}

/// What of it is not as it was before; `None`: nothing, or it has gone.
fn differs(step: &Undo, places: &mut Places) -> Option<String> {
    if let Undo::PacketThread { thread, before } = step {
        let now = Attributes::read(*thread).ok().filter(|now| now != before && thread.alive())?;
        return Some(format!("thread {} has {now:?}, and had {before:?}", thread.tid));
    }
    let (namespace, link) = places.find(step.link()?).ok()??;
    let route = &namespace.route;
    let is = match step {
        Undo::InterfaceFile { file, value, .. } => {
            let now = namespace.read(&link, file).ok().filter(|now| now != value)?;
            format!("'{file}' is {now:?}, and was {value:?}")
        }
        Undo::Interrupt { number, value, .. } => {
            let still = namespace.interrupts(&link).contains(number);
            let now = interrupts::read(*number).ok().filter(|now| still && now != value)?;
            format!("interrupt {number} arrives at cores {now}, and did at {value}")
        }
        Undo::Offloads { before, .. } => {
            let now = namespace.offloads.get(&link.name).ok()?;
            let other = |(name, on): &(&String, &bool)| now.get(*name).is_some_and(|feature| feature.wanted != **on);
            let names: Vec<String> = before.iter().filter(other).map(|(name, on)| format!("{name} was {on}")).collect();
            (!names.is_empty()).then(|| format!("its offloads differ: {}", names.join(", ")))?
        }
        Undo::Clsact(_) => {
            let alone = tc::has_clsact(route, link.index).ok()? && !tc::has_filters(route, link.index).ok()?;
            alone.then_some("it has the clsact still")?.to_string()
        }
        Undo::Queue(_) => {
            (tc::root(route, link.index).ok()? == Root::Ours).then_some("it has the fq still")?.to_string()
        }
        Undo::Filter { direction, .. } => tc::filter(route, link.index, *direction)
            .ok()?
            .map(|_| format!("it has the filter {} still", direction.program()))?,
        Undo::PacketThread { .. } | Undo::VethPair { .. } => return None,
    };
    Some(format!("{link}: {is}"))
}

fn put_back(namespace: &Namespace, link: &Link, file: &str, value: &str) -> io::Result<()> {
    if namespace.read(link, file)? == value {
        return Ok(());
    }
    let mut done = namespace.write(link, file, value);
    // The kernel refuses where there is no NAPI, and a veth end has one with GRO only, which may be off again already.
    if done.as_ref().is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EIO))) {
        let switch = |on| namespace.offloads.set(&link.name, &BTreeMap::from([(GRO.to_string(), on)]));
        let now = namespace.offloads.get(&link.name)?;
        if now.get(GRO).is_some_and(|gro| gro.free && !gro.wanted) && switch(true).is_ok() {
            done = namespace.write(link, file, value);
            switch(false)?;
        }
    }
    done.map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EIO) => io::Error::other(format!(
            "the kernel changes it only while {0} is up: ip link set {0} up, then 'giusto restore'; or remove {0}",
            link.name
        )),
        _ => error,
    })
}

/// One that the card has no more may be another device's by now.
fn send_back(namespace: &Namespace, link: &Link, number: u32, value: &str) -> io::Result<()> {
    if !namespace.interrupts(link).contains(&number) || interrupts::read(number)? == value {
        return Ok(());
    }
    interrupts::write(number, value)
}

fn remove_clsact(namespace: &Namespace, index: u32) -> io::Result<()> {
    let route = &namespace.route;
    if !tc::has_clsact(route, index)? || tc::has_filters(route, index)? {
        return Ok(());
    }
    tc::remove_clsact(route, index)
}

/// While XDP is at the other end of a veth pair the kernel does not switch all of them, and says nothing. It is there until a
/// process that was killed is quite gone: so again, for a second.
fn switch_back(namespace: &Namespace, link: &Link, before: &BTreeMap<String, bool>) -> io::Result<()> {
    for turn in 0..40 {
        let now = namespace.offloads.get(&link.name)?;
        let differs = |name: &String, on: bool| now.get(name).is_some_and(|feature| feature.wanted != on);
        let goal: BTreeMap<String, bool> =
            before.iter().filter(|(name, on)| differs(name, **on)).map(|(name, on)| (name.clone(), *on)).collect();
        if goal.is_empty() {
            break;
        }
        if turn > 0 {
            std::thread::sleep(Duration::from_millis(25));
        }
        namespace.offloads.set(&link.name, &goal)?;
    }
    Ok(())
}

fn remove_filter(namespace: &Namespace, index: u32, direction: Direction) -> io::Result<()> {
    if tc::filter(&namespace.route, index, direction)?.is_none() {
        return Ok(());
    }
    tc::remove_filter(&namespace.route, index, direction)
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undo::InterfaceFile { link, file, value } => write!(f, "write {value:?} to '{file}' of {link}"),
            Undo::Interrupt { link, number, value } => {
                write!(f, "send interrupt {number} of {link} to cores {value} again")
            }
            Undo::Offloads { link, before } => write!(f, "give {link} its offloads {before:?} back"),
            Undo::Clsact(link) => write!(f, "remove clsact from {link}"),
            Undo::Queue(link) => write!(f, "remove fq from {link}"),
            Undo::VethPair { link, other } => write!(f, "nothing: {link} and {other} are the ends of a veth pair"),
            Undo::Filter { link, direction } => write!(f, "remove the filter {} from {link}", direction.program()),
            Undo::PacketThread { thread, before } => write!(f, "give thread {} {before:?} back", thread.tid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32) -> Link {
        Link { name: "vnet0".into(), index, namespace: 7 }
    }

    fn offloads(index: u32, before: &[(&str, bool)]) -> Undo {
        let before = before.iter().map(|(name, on)| (name.to_string(), *on)).collect();
        Undo::Offloads { link: link(index), before }
    }

    #[test]
    fn only_the_first_state_is_recorded() {
        let file = |value: &str| Undo::InterfaceFile { link: link(2), file: "threaded".into(), value: value.into() };
        let known = [file("0"), offloads(2, &[("rx-gro", false)]), Undo::Clsact(link(2))];
        assert_eq!(file("1").beyond(&known), None);
        assert_eq!(offloads(2, &[("rx-gro", true)]).beyond(&known), None);
        let more = offloads(2, &[("rx-gro", true), ("tx-tcp-segmentation", true)]);
        assert_eq!(more.beyond(&known), Some(offloads(2, &[("tx-tcp-segmentation", true)])));
        assert_eq!(
            offloads(3, &[("rx-gro", true)]).beyond(&known),
            Some(offloads(3, &[("rx-gro", true)])),
            "another one"
        );
        assert_eq!(Undo::Clsact(link(2)).beyond(&known), None);
        assert_eq!(Undo::Clsact(link(3)).beyond(&known), Some(Undo::Clsact(link(3))));
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let thread = Thread { tid: 7, started: 9 };
        let before = Attributes { policy: 0, priority: 0, cores: vec![0, 1] };
        for (undo, text) in [
            (Undo::Clsact(link(2)), r#"{"clsact":{"name":"vnet0","index":2,"namespace":7}}"#),
            (
                Undo::PacketThread { thread, before },
                r#"{"packet-thread":{"thread":{"tid":7,"started":9},"before":{"policy":0,"priority":0,"cores":[0,1]}}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&undo).unwrap(), text);
            assert_eq!(serde_json::from_str::<Undo>(text).unwrap(), undo);
        }
    }
}
