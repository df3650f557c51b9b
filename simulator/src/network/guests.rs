//! What guests send, and when.

use super::packet::Packet;
use super::scene::{Guest, Seen, Sends};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// A guest and its interface on the host.
pub(super) struct Vif {
    guest: Guest,
    number: usize,
    /// When it sends next.
    pub(super) next: u64,
    /// Packets that wait for the host, and whether the guest has to notify of the next one.
    pub(super) ring: VecDeque<Packet>,
    pub(super) quiet: bool,
    /// Packets towards the guest, with when they came there.
    pub(super) towards: VecDeque<Packet>,
    tokens: f64,
    counted: u64,
    pub(super) seen: Seen,
}

impl Vif {
    pub(super) fn new(guest: Guest, number: usize, rng: &mut ChaCha8Rng) -> Vif {
        let first = match guest.sends {
            Sends::Asks { every } => rng.random_range(0..every.ns()),
            Sends::Streams { rate, .. } => rng.random_range(0..1 + (1e9 / rate) as u64),
        };
        let tokens = guest.bucket.map_or(0.0, |(_, burst)| burst);
        Vif {
            guest,
            number,
            next: first,
            ring: VecDeque::new(),
            quiet: false,
            towards: VecDeque::new(),
            tokens,
            counted: 0,
            seen: Seen::default(),
        }
    }

    pub(super) fn is_high(&self) -> bool {
        self.guest.class == giusto_model::PacketClass::High
    }

    /// Sends what is due at [`Vif::next`], and draws when the next is. `None`: there is no room for it.
    pub(super) fn send(&mut self, room: usize, rng: &mut ChaCha8Rng) -> Vec<Packet> {
        let now = self.next;
        let (count, bytes, asks, gap) = match self.guest.sends {
            // Not in step with anything on the host.
            Sends::Asks { every } => (1, 98, true, every.ns() as f64 * rng.random_range(0.95..1.05)),
            Sends::Streams { rate, bytes, burst } => {
                (burst as usize, bytes, false, 1e9 / rate * f64::from(burst) * rng.random_range(0.5..1.5))
            }
        };
        self.next = now + (gap as u64).max(1);
        let sent = count.min(room);
        self.seen.refused += (count - sent) as u64;
        let packet = Packet { guest: self.number, class: self.guest.class, bytes, asks, born: now, since: now };
        vec![packet; sent]
    }

    /// Whether its first packet may go; takes the token.
    pub(super) fn take(&mut self, now: u64) -> Option<Packet> {
        if !self.may(now) {
            return None;
        }
        if self.guest.bucket.is_some() {
            self.tokens -= 1.0;
        }
        self.ring.pop_front()
    }

    /// Whether there is a packet, and a token for it.
    pub(super) fn may(&mut self, now: u64) -> bool {
        if let Some((rate, burst)) = self.guest.bucket {
            self.tokens = (self.tokens + (now - self.counted) as f64 * rate / 1e9).min(burst);
            self.counted = now;
        }
        !self.ring.is_empty() && (self.guest.bucket.is_none() || self.tokens >= 1.0)
    }

    /// When there is a token, where one lacks.
    pub(super) fn token_at(&self) -> Option<u64> {
        let (rate, _) = self.guest.bucket.filter(|_| !self.ring.is_empty() && self.tokens < 1.0)?;
        Some(self.counted + ((1.0 - self.tokens) * 1e9 / rate) as u64 + 1)
    }
}
