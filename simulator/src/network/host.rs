//! What all paths share: the clock, guests and their rings, the uplink and its queue, and what is seen.

use super::guests::Vif;
use super::nic::Nic;
use super::packet::Packet;
use super::qdisc::Queue;
use super::scene::{Costs, Scene, Seen};
use giusto_model::Duration;
use rand_chacha::ChaCha8Rng;

pub(super) struct Host {
    pub(super) now: u64,
    end: u64,
    warm: u64,
    rng: ChaCha8Rng,
    pub(super) costs: Costs,
    pub(super) vifs: Vec<Vif>,
    pub(super) nic: Nic,
    queue: Queue,
    ring: usize,
    /// Guests that have just notified.
    pub(super) notices: Vec<usize>,
    /// Parts of round trips under way, by guest: a guest has one at a time on the host, or few.
    parts: Vec<[u64; 2]>,
}

impl Host {
    pub(super) fn new(scene: &Scene, end: u64, mut rng: ChaCha8Rng) -> Host {
        let vifs = scene.guests.iter().enumerate().map(|(number, guest)| Vif::new(*guest, number, &mut rng)).collect();
        Host {
            now: 0,
            end,
            warm: end / 10,
            costs: scene.costs,
            vifs,
            nic: Nic::new(scene.link),
            queue: Queue::new(scene.qdisc, scene.guests.len()),
            ring: scene.ring,
            notices: Vec::new(),
            parts: vec![[0; 2]; scene.guests.len()],
            rng,
        }
    }

    pub(super) fn over(&self) -> bool {
        self.now >= self.end
    }

    pub(super) fn seen(self) -> Vec<Seen> {
        self.vifs.into_iter().map(|vif| vif.seen).collect()
    }

    /// Lets time pass: guests send meanwhile.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time.ns();
        for number in 0..self.vifs.len() {
            while self.vifs[number].next <= self.now {
                let vif = &mut self.vifs[number];
                let came = vif.send(self.ring.saturating_sub(vif.ring.len()), &mut self.rng);
                if !came.is_empty() && !std::mem::replace(&mut vif.quiet, true) {
                    self.notices.push(number);
                    vif.seen.notifications += 1;
                }
                vif.ring.extend(came);
            }
        }
    }

    /// Waits for the next event.
    pub(super) fn sleep(&mut self) {
        let sends = self.vifs.iter().map(|vif| vif.next);
        let tokens = self.vifs.iter().filter_map(Vif::token_at);
        let next = sends.chain(tokens).chain(self.nic.interrupts_at()).min().unwrap_or(self.end);
        // The caller may be beyond the end already.
        self.pass(Duration::from_ns(next.min(self.end).saturating_sub(self.now).max(1)));
    }

    /// `packet` with its bytes.
    fn cost(&self, packet: &Packet, of: Duration) -> Duration {
        Duration::from_ns(of.ns() + u64::from(packet.bytes) * self.costs.copy.ns() / 1000)
    }

    /// A packet from a guest to the uplink's queue.
    pub(super) fn send(&mut self, packet: Packet) {
        self.parts[packet.guest][0] = self.now - packet.since;
        self.pass(self.cost(&packet, self.costs.send));
        self.queue.push(Packet { since: self.now, ..packet });
        self.flush();
    }

    /// From the uplink's queue to the uplink, as much as it takes.
    fn flush(&mut self) {
        while !self.queue.is_empty() && self.nic.room() {
            let Some(packet) = self.queue.pop(self.now) else { break };
            self.parts[packet.guest][1] = self.now - packet.since;
            let end = self.nic.send(packet, self.now);
            let counts = packet.born >= self.warm;
            let seen = &mut self.vifs[packet.guest].seen;
            seen.sent += u64::from(counts);
            if counts && !packet.asks {
                seen.times.push(end - packet.born);
            }
        }
        for packet in self.queue.dropped.drain(..) {
            self.vifs[packet.guest].seen.dropped += u64::from(packet.born >= self.warm);
        }
    }

    /// Whether the uplink takes no more now.
    pub(super) fn is_held(&mut self) -> bool {
        !self.queue.is_empty() && !self.nic.room()
    }

    /// Clears away what the uplink has sent, and sends more.
    pub(super) fn clear(&mut self) {
        let count = self.nic.clear(self.now);
        if let Some(time) = self.costs.clear.checked_mul(count) {
            self.pass(time);
        }
        self.flush();
    }

    /// A packet from the uplink to the queue of its guest.
    pub(super) fn receive(&mut self, packet: Packet) {
        self.pass(self.costs.receive);
        self.vifs[packet.guest].towards.push_back(Packet { since: self.now, ..packet });
    }

    /// The first packet for a guest; the round trip ends.
    pub(super) fn deliver(&mut self, guest: usize) {
        let Some(packet) = self.vifs[guest].towards.pop_front() else { return };
        let waited = self.now - packet.since;
        self.pass(self.cost(&packet, self.costs.deliver));
        if packet.born >= self.warm {
            let [ring, queue] = self.parts[guest];
            let seen = &mut self.vifs[guest].seen;
            seen.times.push(self.now - packet.born);
            seen.parts.iter_mut().zip([ring, queue, waited]).for_each(|(all, one)| all.push(one));
        }
    }
}
