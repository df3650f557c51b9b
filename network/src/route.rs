//! Routing netlink: questions with their answers, over a socket that belongs to one network namespace.

use crate::address::Address;
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_route::link::{InfoData, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Longer than any datagram that the kernel sends (NLMSG_GOODSIZE is at most 8 KiB, dumps 32 KiB), and so short that allocating
/// it takes no system call.
const DATAGRAM: usize = 64 * 1024;
/// RTM_GETSTATS and RTM_NEWSTATS with IFLA_STATS_LINK_64, and the length of struct if_stats_msg.
const GET_COUNTS: u16 = 94;
const COUNTS: u16 = 92;
const ALL_64: u32 = 1;
const COUNTS_HEAD: usize = 12;

/// A netlink socket that asks.
pub(crate) struct Asking {
    socket: Socket,
    sequence: Cell<u32>,
}

/// An interface as the kernel describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `veth`, `tun`, `macvtap`; `None`: hardware.
    pub(crate) kind: Option<String>,
    pub(crate) up: bool,
    /// The interface that it hangs on, and the id of its namespace where that is another one.
    pub(crate) link: Option<(u32, Option<i32>)>,
    /// The bridge or bond that it is a port of.
    pub(crate) port_of: Option<u32>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// How many queues it was made with, that receive and that send; some of them may not be in use.
    pub(crate) queues: [usize; 2],
    /// That of its card.
    pub(crate) address: Option<Address>,
}

/// Addresses that are behind interfaces.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// By the interface's number.
    at: BTreeMap<u32, BTreeSet<Address>>,
    /// Whose card has an address of IP at an interface: of ports of a bridge neighbours are known at the bridge. `None`: several
    /// cards say that it is theirs.
    owners: BTreeMap<(u32, Address), Option<Address>>,
}

impl Behind {
    /// Those behind an interface with this card at its other end, which may be a port of a bridge.
    pub(crate) fn of(&self, index: u32, bridge: Option<u32>, card: Option<Address>) -> Vec<Address> {
        let here = self.at.get(&index).into_iter().flatten().copied();
        let cards: BTreeSet<Address> = card.into_iter().chain(here.clone()).collect();
        let at = bridge.unwrap_or(index);
        let owned =
            self.owners.iter().filter(|((on, _), card)| *on == at && card.is_some_and(|card| cards.contains(&card)));
        owned.map(|((_, ip), _)| *ip).chain(here).collect::<BTreeSet<Address>>().into_iter().collect()
    }

    fn owns(&mut self, index: u32, ip: Address, card: Address) {
        let owner = self.owners.entry((index, ip)).or_insert(Some(card));
        if *owner != Some(card) {
            *owner = None;
        }
    }
}

impl Asking {
    /// In the network namespace of the calling thread.
    pub(crate) fn route() -> io::Result<Asking> {
        Asking::new(NETLINK_ROUTE)
    }

    pub(crate) fn generic() -> io::Result<Asking> {
        Asking::new(NETLINK_GENERIC)
    }

    fn new(protocol: isize) -> io::Result<Asking> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Asking { socket, sequence: Cell::new(0) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Sends `payload` of type `kind`, and hands every answer's type and bytes to `each`. Errors: what the kernel said.
    pub(crate) fn exchange(
        &self,
        kind: u16,
        flags: u16,
        payload: &[u8],
        each: &mut dyn FnMut(u16, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        // A dump ends by itself, everything else with an acknowledgement.
        let flags = NLM_F_REQUEST | flags | if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        let mut request = Vec::with_capacity(16 + payload.len());
        request.extend((16 + payload.len() as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(payload);
        self.socket.send(&request, 0)?;
        loop {
            let mut bytes = Vec::with_capacity(DATAGRAM);
            self.socket.recv(&mut bytes, 0)?;
            let mut rest = bytes.as_slice();
            while let Some((header, body, next)) = split(rest) {
                rest = next;
                if header.sequence_number != sequence {
                    continue; // an answer to a question that was given up
                }
                match header.message_type {
                    // NLMSG_ERROR (0: the acknowledgement) and NLMSG_DONE both begin with an error number.
                    2 | 3 => {
                        let code =
                            body.get(..4).map_or(0, |code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
                        return match code {
                            0.. => Ok(()),
                            error => Err(io::Error::from_raw_os_error(-error)),
                        };
                    }
                    kind => each(kind, body)?,
                }
            }
        }
    }

    /// Asks, and returns the answers.
    pub(crate) fn ask(&self, question: Message, flags: u16) -> io::Result<Vec<Message>> {
        let mut whole = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(question));
        whole.finalize();
        let mut bytes = vec![0; whole.buffer_len()];
        whole.serialize(&mut bytes);
        let mut answers = Vec::new();
        self.exchange(whole.header.message_type, flags, &bytes[16..], &mut |kind, body| {
            let mut header = NetlinkHeader::default();
            header.message_type = kind;
            match <Message as netlink_packet_core::NetlinkDeserializable>::deserialize(&header, body) {
                Ok(answer) => answers.push(answer),
                // Of a list, what a newer kernel describes in another way is none of ours.
                Err(_) if flags & NLM_F_DUMP == NLM_F_DUMP => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
            Ok(())
        })?;
        Ok(answers)
    }

    /// The interface of this name; `None`: there is none.
    pub(crate) fn named(&self, name: &str) -> io::Result<Option<Seen>> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        self.link(message)
    }

    /// The interface of this number; `None`: there is none.
    pub(crate) fn numbered(&self, index: u32) -> io::Result<Option<Seen>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.link(message)
    }

    fn link(&self, message: LinkMessage) -> io::Result<Option<Seen>> {
        match self.links(message, 0) {
            Ok(links) => Ok(links.into_iter().next()),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All interfaces.
    pub(crate) fn all(&self) -> io::Result<Vec<Seen>> {
        self.links(LinkMessage::default(), NLM_F_DUMP)
    }

    fn links(&self, message: LinkMessage, flags: u16) -> io::Result<Vec<Seen>> {
        let answers = self.ask(Message::GetLink(message), flags)?.into_iter();
        Ok(answers
            .filter_map(|answer| match answer {
                Message::NewLink(link) => Some(seen(link)),
                _ => None,
            })
            .collect())
    }

    /// Packets that the interface of this number has received and sent; `None`: there is none. It costs a tenth of describing it.
    pub(crate) fn packets(&self, index: u32) -> io::Result<Option<[u64; 2]>> {
        // struct if_stats_msg: family and padding, interface, and which.
        let question = [[0; 4], index.to_ne_bytes(), ALL_64.to_ne_bytes()].concat();
        let mut found = None;
        let asked = self.exchange(GET_COUNTS, 0, &question, &mut |kind, body| {
            // An attribute's head, and struct rtnl_link_stats64.
            let word =
                |nth: usize| body.get(COUNTS_HEAD + 4 + 8 * nth..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
            if kind == COUNTS {
                found = word(0).zip(word(1)).map(|(received, sent)| [received, sent]);
            }
            Ok(())
        });
        match asked {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            asked => asked.map(|()| found),
        }
    }

    /// Addresses that are behind each interface: what bridges have learnt, and neighbours.
    pub(crate) fn neighbours(&self) -> io::Result<Behind> {
        let mut found = Behind::default();
        for family in [AddressFamily::Bridge, AddressFamily::Unspec] {
            let mut message = NeighbourMessage::default();
            message.header.family = family;
            for answer in self.ask(Message::GetNeighbour(message), NLM_F_DUMP)? {
                let Message::NewNeighbour(neighbour) = answer else { continue };
                if family == AddressFamily::Bridge && neighbour.header.state == NeighbourState::Permanent {
                    continue; // its own
                }
                let (mut card, mut ip) = (None, None);
                for attribute in &neighbour.attributes {
                    match attribute {
                        NeighbourAttribute::LinkLayerAddress(bytes) => card = Address::card(bytes),
                        NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => ip = Some((*to).into()),
                        NeighbourAttribute::Destination(NeighbourAddress::Inet6(to)) => ip = Some((*to).into()),
                        _ => {}
                    }
                }
                let ip = ip.map(Address::ip);
                let is_learnt = family == AddressFamily::Bridge;
                if matches!(neighbour.header.state, NeighbourState::Failed | NeighbourState::Incomplete) {
                    continue;
                }
                found.at.entry(neighbour.header.ifindex).or_default().extend(if is_learnt { card } else { ip });
                if let (Some(card), Some(ip), false) = (card, ip, is_learnt) {
                    found.owns(neighbour.header.ifindex, ip, card);
                }
            }
        }
        Ok(found)
    }

    /// The id by which this namespace knows the one behind `namespace`; `None`: it has none.
    pub(crate) fn id_of(&self, namespace: RawFd) -> io::Result<Option<i32>> {
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(namespace as u32));
        let answers = self.ask(Message::GetNsId(message), 0)?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            Message::NewNsId(found) => found.attributes.into_iter().find_map(|attribute| match attribute {
                NsidAttribute::Id(id) => (id >= 0).then_some(id),
                _ => None,
            }),
            _ => None,
        }))
    }
}

/// The first message of a datagram: header, body, and what follows.
pub(crate) fn split(bytes: &[u8]) -> Option<(NetlinkHeader, &[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = word(0)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let mut header = NetlinkHeader::default();
    (header.message_type, header.sequence_number) = (kind, word(8)?);
    let body = bytes.get(16..length)?;
    Some((header, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn seen(message: LinkMessage) -> Seen {
    let mut seen =
        Seen { index: message.header.index, up: message.header.flags.contains(LinkFlags::Up), ..Seen::default() };
    let (mut link, mut namespace) = (None, None);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => seen.name = name,
            LinkAttribute::Address(bytes) => seen.address = Address::card(&bytes),
            LinkAttribute::NumRxQueues(number) => seen.queues[0] = number as usize,
            LinkAttribute::NumTxQueues(number) => seen.queues[1] = number as usize,
            LinkAttribute::Link(index) => link = Some(index),
            LinkAttribute::LinkNetNsId(id) => namespace = Some(id),
            LinkAttribute::Stats64(stats) => (seen.received, seen.sent) = (stats.rx_packets, stats.tx_packets),
            LinkAttribute::Controller(index) => seen.port_of = Some(index),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => seen.kind = Some(kind.to_string()),
                        // A tunnel has none of the others' attribute.
                        LinkInfo::Data(InfoData::Vxlan(parts)) => {
                            link = parts.iter().find_map(|part| match part {
                                InfoVxlan::Link(index) => Some(*index),
                                _ => None,
                            })
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    seen.link = link.map(|index| (index, namespace));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_two_cards_claim_is_of_none_and_other_bridges_do_not_count() {
        let card = |last| Address::card(&[2, 0, 0, 0, 0, last]).unwrap();
        let ip = |last| Address::ip(std::net::IpAddr::from([10, 0, 0, last]));
        let mut behind = Behind::default();
        behind.at.entry(7).or_default().insert(card(1)); // learnt at port 7 of bridge 3
        behind.owns(3, ip(1), card(1));
        behind.owns(3, ip(2), card(1));
        behind.owns(4, ip(3), card(1)); // at another interface
        behind.owns(3, ip(2), card(2));
        assert_eq!(behind.of(7, Some(3), None), [ip(1), card(1)]);
        assert_eq!(behind.of(9, Some(3), Some(card(2))), []);
        assert_eq!(behind.of(4, None, Some(card(1))), [ip(3)]);
    }
}
