//! Link events: which interfaces have changed, and how often that calls for a look.

use crate::route::split;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::Socket;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// RTNLGRP_LINK.
const LINK_EVENTS: u32 = 1;
const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
/// struct ifinfomsg, before the attributes, and IFLA_IFNAME.
const INFO: usize = 16;
const NAME: u16 = 3;
/// AF_BRIDGE: the state of a bridge's port, such as learning or forwarding, of which nothing here depends.
const BRIDGE: u8 = 7;
/// Longer than a message about one interface.
const DATAGRAM: usize = 64 * 1024;
/// Interfaces that are told apart between two looks.
const MANY: usize = 4096;

/// What has changed since it was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// More than could be told apart: anything may have.
    pub(crate) all: bool,
    /// Interfaces by number, of this namespace or of one that it knows by that id.
    pub(crate) numbers: BTreeSet<(Option<i32>, u32)>,
    /// Names of those of this namespace.
    pub(crate) names: BTreeSet<String>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.numbers.is_empty()
    }

    fn add(&mut self, namespace: Option<i32>, datagram: &[u8]) {
        let mut rest = datagram;
        while let Some((header, body, next)) = split(rest) {
            rest = next;
            if body.first() == Some(&BRIDGE) {
                continue;
            }
            let number = body.get(4..8).and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
            let Some(number) = number.filter(|_| [NEW_LINK, DELETED_LINK].contains(&header.message_type)) else {
                continue;
            };
            self.numbers.insert((namespace, number));
            if namespace.is_none() {
                self.names.extend(name(body.get(INFO..).unwrap_or_default()));
            }
        }
        if self.numbers.len() + self.names.len() > MANY {
            *self = Changes { all: true, ..Changes::default() };
        }
    }
}

/// Among the attributes of a link.
fn name(mut attributes: &[u8]) -> Option<String> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(4..length)?;
        if kind == NAME {
            return Some(String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Tells that interfaces of this namespace, or of one that it has an id for, such as those of veth peers, have changed.
pub(crate) struct Events {
    socket: Socket,
    datagram: Vec<u8>,
}

impl Events {
    /// In the network namespace of the calling thread.
    pub(crate) fn new() -> io::Result<Events> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.add_membership(LINK_EVENTS)?;
        socket.set_listen_all_namespaces(true)?;
        socket.set_non_blocking(true)?;
        Ok(Events { socket, datagram: vec![0; DATAGRAM] })
    }

    /// What has changed since the last call. What the kernel could not tell for lack of space is everything.
    pub(crate) fn take(&mut self) -> Changes {
        let mut changes = Changes::default();
        loop {
            match receive(self.socket.as_raw_fd(), &mut self.datagram) {
                Ok((namespace, length)) => changes.add(namespace, &self.datagram[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changes,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changes.all = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Changes { all: true, ..changes },
            }
        }
    }
}

/// A datagram's length, and the id of the namespace that it is about, where that is another one.
fn receive(socket: RawFd, datagram: &mut [u8]) -> io::Result<(Option<i32>, usize)> {
    const LISTEN_ALL: i32 = 8; // NETLINK_LISTEN_ALL_NSID, also the kind of control message
    let mut control = [0u64; 8]; // aligned for its heads
    let mut part = libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
    // SAFETY: a struct of which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the kernel fills at most what the heads say is there.
    let length = unsafe { libc::recvmsg(socket, &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut namespace = None;
    // SAFETY: the kernel has filled it; these go from one head to the next within it, and the data is four bytes.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(found) = head.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_NETLINK, LISTEN_ALL) {
                namespace = Some(libc::CMSG_DATA(head).cast::<i32>().read_unaligned());
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Ok((namespace, length))
}

/// How long after a look that an event has called for the next one is taken: twice as long each time while events go on.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Events of one interface: the first calls for a look at once, many for one a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stir {
    /// Whether there was one since the last look.
    pub(crate) waits: bool,
    looked: Option<Instant>,
    pause: Duration,
}

impl Stir {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.waits && self.looked.is_none_or(|at| now.saturating_duration_since(at) >= self.pause)
    }

    /// It is looked at now.
    pub(crate) fn look(&mut self, now: Instant) {
        if !std::mem::take(&mut self.waits) {
            return;
        }
        let soon = self.looked.is_some_and(|at| now.saturating_duration_since(at) < self.pause * 2);
        self.pause = if soon { (self.pause * 2).min(PAUSE.1) } else { PAUSE.0 };
        self.looked = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of a caller who comes every 10 ms, in ms.
    fn looks(events: impl Fn(u64) -> bool, length: u64) -> Vec<u64> {
        let (begin, mut stir) = (Instant::now(), Stir::default());
        let looked = (0..length / 10).map(|turn| turn * 10).filter(|&at| {
            let now = begin + Duration::from_millis(at);
            stir.waits |= events(at);
            let due = stir.is_due(now);
            if due {
                stir.look(now);
            }
            due
        });
        looked.collect()
    }

    #[test]
    fn one_event_is_looked_at_at_once_and_many_together() {
        assert_eq!(looks(|at| at == 50, 10_000), [50]);
        assert_eq!(looks(|at| at == 50 || at == 70, 10_000), [50, 150], "none is forgotten");
        assert_eq!(looks(|at| at % 3_000 == 0, 10_000), [0, 3_000, 6_000, 9_000]);
        // A storm of ten seconds, and one event after it.
        let storm = looks(|at| at < 10_000 || at == 15_000, 20_000);
        assert_eq!(storm[..5], [0, 100, 300, 700, 1_500]);
        assert_eq!(storm.last(), Some(&15_000));
        assert!(storm.len() <= 16 && storm[storm.len() - 2] >= 10_000, "{storm:?}");
    }

    #[test]
    fn a_message_tells_which_interface_it_is_about() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let message = |kind: u16, number: u32, attributes: &[u8]| {
            let length = (16 + INFO + attributes.len()) as u32;
            let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
            [&head[..], &[0; 4], &number.to_ne_bytes(), &[0; 8], attributes].concat()
        };
        let named = [attribute(1, &[2; 6]), attribute(NAME, b"vnet3\0")].concat();
        let mut changes = Changes::default();
        assert!(changes.is_empty());
        changes.add(None, &[message(NEW_LINK, 7, &named), message(20, 9, &named)].concat());
        changes.add(Some(3), &message(DELETED_LINK, 2, &named));
        assert_eq!(changes.numbers, BTreeSet::from([(None, 7), (Some(3), 2)]));
        assert_eq!(changes.names, BTreeSet::from(["vnet3".to_string()]));
        // What is cut off is passed over, and the state of a bridge's port.
        let mut of_bridge = message(NEW_LINK, 9, &named);
        of_bridge[16] = BRIDGE;
        changes.add(None, &of_bridge);
        changes.add(None, &message(NEW_LINK, 8, &named)[..40]);
        assert!(!changes.all && changes.numbers.len() == 2);
        (0..=MANY as u32).for_each(|number| changes.add(None, &message(NEW_LINK, number, &[])));
        assert!(changes.all && changes.numbers.len() < 5);
    }
}
