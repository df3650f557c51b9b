//! FQ_CoDel: a queue a flow in turn by bytes, new flows first, in each of them CoDel (RFC 8290).

use super::codel::Codel;
use super::packet::Packet;
use std::collections::VecDeque;

/// Packets that are kept in all.
const LIMIT: usize = 10_240;
/// Of the flow with most bytes so many at most are dropped at once, where there are more.
const BATCH: usize = 64;
/// Bytes of a flow's turn.
const QUANTUM: i64 = 1514;

#[derive(Default)]
struct Flow {
    queue: Codel,
    credit: i64,
    listed: bool,
}

/// Flows are guests: no two are hashed to one queue.
pub(super) struct FqCodel {
    flows: Vec<Flow>,
    /// Flows that have just begun, and those that go on.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
}

impl FqCodel {
    pub(super) fn new(flows: usize) -> FqCodel {
        let flows = (0..flows).map(|_| Flow::default()).collect();
        FqCodel { flows, new: VecDeque::new(), old: VecDeque::new(), packets: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) fn push(&mut self, packet: Packet, dropped: &mut Vec<Packet>) {
        let flow = &mut self.flows[packet.guest];
        flow.queue.push(packet);
        self.packets += 1;
        if !std::mem::replace(&mut flow.listed, true) {
            flow.credit = QUANTUM;
            self.new.push_back(packet.guest);
        }
        if self.packets > LIMIT {
            self.shorten(dropped);
        }
    }

    /// Up to half of the longest queue, from its head.
    fn shorten(&mut self, dropped: &mut Vec<Packet>) {
        let Some(fattest) = self.flows.iter_mut().max_by_key(|flow| flow.queue.bytes()) else { return };
        let count = fattest.queue.len().div_ceil(2).min(BATCH);
        dropped.extend((0..count).map_while(|_| fattest.queue.shed()));
        self.packets -= count;
    }

    pub(super) fn pop(&mut self, now: u64, dropped: &mut Vec<Packet>) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at];
            if flow.credit <= 0 {
                flow.credit += QUANTUM;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let before = flow.queue.len();
            let packet = flow.queue.pop(now, |packet| dropped.push(packet));
            self.packets -= before - flow.queue.len();
            if let Some(packet) = packet {
                flow.credit -= i64::from(packet.bytes);
                return Some(packet);
            }
            list.pop_front();
            // A flow that was new has to wait for its turn once, so that it cannot begin anew at once.
            flow.listed = is_new;
            if is_new {
                self.old.push_back(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::PacketClass;

    fn packet(guest: usize, bytes: u32) -> Packet {
        Packet { guest, class: PacketClass::Low, bytes, asks: false, born: 0, since: 0 }
    }

    fn pushed(queue: &mut FqCodel, guest: usize, bytes: u32, count: usize) -> Vec<usize> {
        let mut dropped = Vec::new();
        (0..count).for_each(|_| queue.push(packet(guest, bytes), &mut dropped));
        dropped.into_iter().map(|packet| packet.guest).collect()
    }

    fn order(queue: &mut FqCodel, count: usize) -> Vec<usize> {
        (0..count).filter_map(|_| queue.pop(1, &mut Vec::new())).map(|packet| packet.guest).collect()
    }

    #[test]
    fn flows_take_turns_by_bytes_and_a_new_one_goes_first_once() {
        let mut queue = FqCodel::new(3);
        assert!(pushed(&mut queue, 0, 1514, 4).is_empty() && pushed(&mut queue, 1, 757, 8).is_empty());
        // Two packets of half the bytes a turn.
        assert_eq!(order(&mut queue, 5), [0, 1, 1, 0, 1]);
        // A new flow goes before both; once it was found empty it is an old one, and what comes then waits for its turn.
        pushed(&mut queue, 2, 60, 1);
        assert_eq!(order(&mut queue, 2), [2, 1]);
        pushed(&mut queue, 2, 60, 1);
        assert_eq!(order(&mut queue, 7), [0, 2, 1, 1, 0, 1, 1]);
        assert!(queue.is_empty() && queue.pop(1, &mut Vec::new()).is_none());
        // All have left the lists: each is new again.
        pushed(&mut queue, 2, 60, 1);
        assert_eq!((order(&mut queue, 1), queue.new.len(), queue.old.len()), (vec![2], 1, 0));
    }

    #[test]
    fn what_is_too_much_is_dropped_from_the_flow_with_most_bytes() {
        let mut queue = FqCodel::new(2);
        // More packets, but fewer bytes.
        assert!(pushed(&mut queue, 0, 60, 8_240).is_empty() && pushed(&mut queue, 1, 1514, 2_000).is_empty());
        assert_eq!(pushed(&mut queue, 0, 60, 1), [1; BATCH]);
        assert_eq!(queue.packets, LIMIT + 1 - BATCH);
        // Never more than half of it.
        let mut even = FqCodel::new(LIMIT + 1);
        let dropped: usize = (0..=LIMIT).map(|guest| pushed(&mut even, guest, 60, 1).len()).sum();
        assert_eq!((dropped, even.packets), (1, LIMIT));
    }
}
