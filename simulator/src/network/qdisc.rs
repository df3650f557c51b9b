//! The uplink's queue.

use super::packet::Packet;
use super::scene::Qdisc;
use giusto_model::PacketClass;
use std::collections::VecDeque;

/// Packets of a class or a flow that are kept.
const LIMIT: usize = 1000;
/// Bytes of a flow's turn.
const QUANTUM: i64 = 1514;

pub(super) struct Queue {
    kind: Qdisc,
    /// By class, or by flow.
    queues: Vec<VecDeque<Packet>>,
    deficits: Vec<i64>,
    /// Flows that have just begun, and those that go on.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Queue {
    pub(super) fn new(kind: Qdisc, guests: usize) -> Queue {
        let queues = if kind == Qdisc::Prio { 2 } else { guests };
        Queue {
            kind,
            queues: vec![VecDeque::new(); queues],
            deficits: vec![0; queues],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Whether there was room.
    pub(super) fn push(&mut self, packet: Packet) -> bool {
        let at = match self.kind {
            Qdisc::Prio => usize::from(packet.class == PacketClass::Low),
            Qdisc::FqCodel => packet.guest,
        };
        if self.queues[at].len() >= LIMIT {
            return false;
        }
        self.queues[at].push_back(packet);
        if self.kind == Qdisc::FqCodel && !self.new.contains(&at) && !self.old.contains(&at) {
            self.deficits[at] = QUANTUM;
            self.new.push_back(at);
        }
        true
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        if self.kind == Qdisc::Prio {
            return self.queues.iter_mut().find_map(VecDeque::pop_front);
        }
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            if self.deficits[at] <= 0 {
                self.deficits[at] += QUANTUM;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            match self.queues[at].pop_front() {
                Some(packet) => {
                    self.deficits[at] -= i64::from(packet.bytes);
                    return Some(packet);
                }
                None => {
                    list.pop_front();
                    // A flow that was new has to wait for its turn once, so that it cannot begin anew at once.
                    if from_new {
                        self.old.push_back(at);
                    }
                }
            }
        }
    }
}
