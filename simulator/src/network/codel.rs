//! CoDel, which drops the first of a queue whose packets all wait too long (RFC 8289, section 5).

use super::packet::Packet;
use std::collections::VecDeque;

/// A wait that is long enough for any link ...
const TARGET: u64 = 5_000_000;
/// ... if some packet of such a time had no longer one.
const INTERVAL: u64 = 100_000_000;
/// What is left to send while the next packet comes: no queue of one large packet is too long.
const LARGEST: u64 = 1514;

/// A queue whose packets are dropped at its head.
#[derive(Default)]
pub(super) struct Codel {
    packets: VecDeque<Packet>,
    bytes: u64,
    /// When its wait has been above the target for an interval.
    above: Option<u64>,
    dropping: bool,
    /// When the next one is dropped, the later one of the last such time.
    next: u64,
    /// Drops since dropping began, and what that number began with.
    count: u64,
    began: u64,
}

impl Codel {
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    /// The first, whatever its wait.
    pub(super) fn shed(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// The packet to send, after those that are dropped. It is none only if there was none: the last one is never dropped.
    pub(super) fn pop(&mut self, now: u64, mut dropped: impl FnMut(Packet)) -> Option<Packet> {
        let (mut first, mut late) = self.first(now)?;
        if !self.dropping && late {
            dropped(first);
            (first, _) = self.first(now)?;
            self.dropping = true;
            // Soon after the last time: it goes on with the rate that was right then.
            let again = self.count - self.began;
            self.count = if again > 1 && now.saturating_sub(self.next) < 16 * INTERVAL { again } else { 1 };
            self.began = self.count;
            self.next = law(now, self.count);
            return Some(first);
        }
        self.dropping &= late;
        while self.dropping && now >= self.next {
            dropped(first);
            self.count += 1;
            (first, late) = self.first(now)?;
            self.dropping = late;
            if late {
                self.next = law(self.next, self.count);
            }
        }
        Some(first)
    }

    /// The first one, and whether the wait has been too long for an interval.
    fn first(&mut self, now: u64) -> Option<(Packet, bool)> {
        let Some(packet) = self.shed() else {
            self.above = None;
            return None;
        };
        if now - packet.since < TARGET || self.bytes <= LARGEST {
            self.above = None;
            return Some((packet, false));
        }
        let above = *self.above.get_or_insert(now + INTERVAL);
        Some((packet, now >= above))
    }
}

/// Drops come closer with the root of their number, to which a sender that hears of them answers (RFC 8289, section 4.3).
fn law(from: u64, count: u64) -> u64 {
    from + (INTERVAL as f64 / (count as f64).sqrt()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::PacketClass;

    const MS: u64 = 1_000_000;

    /// Takes a packet each ms out of a long queue, until `end`; all have waited for `waits`. The ms in which one was dropped.
    fn drops(codel: &mut Codel, from: u64, end: u64, waits: u64) -> Vec<u64> {
        let mut drops = Vec::new();
        for ms in from..end {
            let since = ms * MS - waits;
            codel.packets.iter_mut().for_each(|packet| packet.since = since);
            let born = Packet { guest: 0, class: PacketClass::Low, bytes: 1514, asks: false, born: 0, since };
            (codel.len()..20).for_each(|_| codel.push(born));
            assert!(codel.pop(ms * MS, |_| drops.push(ms)).is_some());
        }
        drops
    }

    #[test]
    fn drops_come_as_the_rfc_has_it() {
        let mut codel = Codel::default();
        // Above the target from 1 s on: first after an interval, then after 100 ms by the roots of 1, 2, 3, 4, 5.
        assert_eq!(drops(&mut codel, 1000, 1430, 6 * MS), [1100, 1200, 1271, 1329, 1379, 1424]);
        // Once below, it ends; again above, it goes on after an interval with the rate that it had reached: 5 drops more than it
        // began with, so 100 ms by the root of 5, 6.
        assert_eq!(drops(&mut codel, 1430, 1440, 4 * MS), [] as [u64; 0]);
        assert_eq!(drops(&mut codel, 1440, 1630, 6 * MS), [1540, 1585, 1626]);
        // After 16 intervals and more all is forgotten.
        assert_eq!(drops(&mut codel, 1630, 3400, 4 * MS), [] as [u64; 0]);
        assert_eq!(drops(&mut codel, 3400, 3702, 6 * MS), [3500, 3600, 3671]);
    }

    #[test]
    fn a_wait_below_the_target_or_of_one_packet_drops_nothing() {
        let mut codel = Codel::default();
        assert_eq!(drops(&mut codel, 1000, 3000, TARGET - 1), [] as [u64; 0]);
        let late = Packet { guest: 0, class: PacketClass::Low, bytes: 1514, asks: false, born: 0, since: 0 };
        let mut short = Codel::default();
        for ms in 1000..3000 {
            short.push(late);
            assert!(short.pop(ms * MS, |_| panic!("the last one was dropped")).is_some());
        }
        assert!(short.pop(3000 * MS, |_| ()).is_none());
    }
}
