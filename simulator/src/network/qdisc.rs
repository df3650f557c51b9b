//! The uplink's queue.

use super::fq_codel::FqCodel;
use super::packet::Packet;
use super::scene::Qdisc;
use giusto_model::PacketClass;
use std::collections::VecDeque;

/// Packets of a class that are kept.
const LIMIT: usize = 1000;

pub(super) struct Queue {
    kind: Kind,
    /// What was dropped and is not yet told.
    pub(super) dropped: Vec<Packet>,
}

enum Kind {
    /// The high class, and the low one.
    Prio([VecDeque<Packet>; 2]),
    FqCodel(FqCodel),
}

impl Queue {
    pub(super) fn new(kind: Qdisc, guests: usize) -> Queue {
        let kind = match kind {
            Qdisc::Prio => Kind::Prio(Default::default()),
            Qdisc::FqCodel => Kind::FqCodel(FqCodel::new(guests)),
        };
        Queue { kind, dropped: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Prio(classes) => classes.iter().all(VecDeque::is_empty),
            Kind::FqCodel(queue) => queue.is_empty(),
        }
    }

    pub(super) fn push(&mut self, packet: Packet) {
        match &mut self.kind {
            Kind::Prio(classes) => match &mut classes[usize::from(packet.class == PacketClass::Low)] {
                class if class.len() < LIMIT => class.push_back(packet),
                _ => self.dropped.push(packet),
            },
            Kind::FqCodel(queue) => queue.push(packet, &mut self.dropped),
        }
    }

    pub(super) fn pop(&mut self, now: u64) -> Option<Packet> {
        match &mut self.kind {
            Kind::Prio(classes) => classes.iter_mut().find_map(VecDeque::pop_front),
            Kind::FqCodel(queue) => queue.pop(now, &mut self.dropped),
        }
    }
}
