//! The uplink: what is on the wire, when it interrupts, and how many bytes it takes (byte queue limits).

use super::packet::Packet;
use super::scene::Link;
use std::collections::VecDeque;

/// Bytes on the wire beside those of a packet: preamble, check sequence, gap.
const AROUND: u64 = 24;
/// Descriptors for packets to be sent.
const DESCRIPTORS: usize = 256;
/// The byte limit grows by a large packet and is never less.
const STEP: u64 = 1514;
/// What was never used for so long is taken from the byte limit.
const HOLD: u64 = 1_000_000_000;

pub(super) struct Nic {
    link: Link,
    /// Ends of packets that were sent, with their bytes, until they are cleared away.
    sent: VecDeque<(u64, u64)>,
    bytes: u64,
    limit: u64,
    /// Whether packets had to wait for the limit since it was last looked at.
    held: bool,
    /// Fewest bytes that were left at a clearing away, and since when.
    slack: (u64, u64),
    wire_free: u64,
    /// Answers and when they arrive, ascending.
    pub(super) answers: VecDeque<(u64, Packet)>,
    /// Whether it interrupts when there is something.
    pub(super) armed: bool,
    last: u64,
}

impl Nic {
    pub(super) fn new(link: Link) -> Nic {
        Nic {
            link,
            sent: VecDeque::new(),
            bytes: 0,
            limit: 4 * STEP,
            held: false,
            slack: (u64::MAX, 0),
            wire_free: 0,
            answers: VecDeque::new(),
            armed: true,
            last: 0,
        }
    }

    /// Whether it takes another packet; else it remembers that a sender waits.
    pub(super) fn room(&mut self) -> bool {
        let room = self.link.byte.is_zero() || (self.bytes < self.limit && self.sent.len() < DESCRIPTORS);
        self.held |= !room;
        room
    }

    /// Sends; says when the last byte is out.
    pub(super) fn send(&mut self, packet: Packet, now: u64) -> u64 {
        let bytes = u64::from(packet.bytes).max(60);
        let end = now.max(self.wire_free) + (bytes + AROUND) * self.link.byte.ns();
        if !self.link.byte.is_zero() {
            self.wire_free = end;
            self.sent.push_back((end, bytes));
            self.bytes += bytes;
        }
        if packet.asks {
            self.answers.push_back((end + self.link.answer.ns(), packet));
        }
        end
    }

    /// Clears away what was sent by `now`; says how many packets.
    pub(super) fn clear(&mut self, now: u64) -> u64 {
        let mut count = 0;
        while let Some((_, bytes)) = self.sent.front().filter(|(end, _)| *end <= now) {
            self.bytes -= bytes;
            self.sent.pop_front();
            count += 1;
        }
        if count > 0 {
            if self.held && self.bytes == 0 {
                self.limit += STEP;
                self.slack = (u64::MAX, now);
            }
            self.held = false;
            self.slack.0 = self.slack.0.min(self.bytes);
            if now > self.slack.1 + HOLD {
                self.limit = self.limit.saturating_sub(self.slack.0).max(STEP);
                self.slack = (u64::MAX, now);
            }
        }
        count
    }

    /// Whether there is an answer, or something to be cleared away.
    pub(super) fn has_work(&self, now: u64) -> bool {
        self.work_at().is_some_and(|at| at <= now)
    }

    pub(super) fn answer(&mut self, now: u64) -> Option<Packet> {
        self.answers.front().filter(|(at, _)| *at <= now)?;
        self.answers.pop_front().map(|(_, packet)| packet)
    }

    fn work_at(&self) -> Option<u64> {
        let sent = self.sent.front().map(|(end, _)| *end);
        sent.into_iter().chain(self.answers.front().map(|(at, _)| *at)).min()
    }

    /// When it interrupts next, if it does.
    pub(super) fn interrupts_at(&self) -> Option<u64> {
        self.work_at().filter(|_| self.armed).map(|at| at.max(self.last + self.link.interval.ns()))
    }

    /// It has interrupted, and is quiet until it is armed again.
    pub(super) fn interrupted(&mut self, now: u64) {
        (self.armed, self.last) = (false, now);
    }
}
