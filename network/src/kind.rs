//! What processes an interface's packets: found out from its kind, and put right at each of its ends.

use crate::address::Address;
use crate::bank::Banks;
use crate::bucket::Packets;
use crate::end::{self, Needs};
use crate::namespace::{Namespace, Neighbours};
use crate::route::Seen;
use crate::tc::Direction;
use crate::{below, Error, Link, Recorder, Thread, Undo};
use std::collections::BTreeSet;

/// What one piece of work goes by.
pub(crate) struct Around<'a> {
    pub(crate) home: &'a Namespace,
    pub(crate) neighbours: &'a Neighbours,
    /// Where buckets get their places, and how many interfaces want one.
    pub(crate) banks: &'a Banks,
    pub(crate) expected: usize,
    /// Threads that are known to be other interfaces'.
    pub(crate) claimed: BTreeSet<Thread>,
}

/// What processes an interface's packets.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// NAPI of hardware, or of a tap that was opened with IFF_NAPI.
    Napi,
    Vhost,
    /// NAPI of both ends: the number of the other one, and the id of its namespace if that is another one.
    Veth(u32, Option<i32>),
}

pub(crate) fn kind(home: &Namespace, link: &Link, seen: &Seen, is_vif: bool) -> Result<Kind, Error> {
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
        None => unfit(
            "hardware",
            "a virtual function passes the host by, so there is nothing to give a priority to; name a vif of kind veth or \
             tap",
        ),
        Some(kind) => unfit(kind, &below::instead(&home.route, seen, is_vif)?),
    }
}

/// What was found, and put right.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) peer: Option<Link>,
    pub(crate) address: Option<Address>,
    pub(crate) from: Vec<Thread>,
    pub(crate) to: Vec<Thread>,
    /// An end that is down.
    pub(crate) down: Option<String>,
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

pub(crate) fn own(
    around: &Around<'_>,
    link: &Link,
    seen: &Seen,
    is_vif: bool,
    record: &mut dyn Recorder<Undo>,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let needs = Needs {
        veth: seen.kind.as_deref() == Some("veth"),
        threaded: true,
        whole: false,
        sorts: !is_vif,
        card: around.home.is_virtio(link).then_some(seen.queues),
    };
    let threads = end::settle(around.home, link, seen.up, needs, &around.claimed, record);
    found.from = found.take(threads)?;
    Ok(found)
}

/// Both ends: what the interface sends is processed by the host's end, what it receives by its own.
pub(crate) fn veth(
    around: &Around<'_>,
    link: &Link,
    seen: &Seen,
    (index, id): (u32, Option<i32>),
    is_vif: bool,
    bucket: Option<&mut Packets>,
    record: &mut dyn Recorder<Undo>,
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
    if let (Some(namespace), Some(peer)) = (namespace, &peer) {
        let pair = Undo::VethPair { link: link.clone(), other: namespace.link(peer) };
        record.intend(&pair).map_err(Error::Journal)?;
    }
    let mut found = own(around, link, seen, is_vif, record)?;
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
                Needs { veth: true, threaded: is_vif, whole: !is_vif, sorts: false, card: None },
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
