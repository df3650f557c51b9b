//! The chunks of a sporadic server's budget, in the order in which they come back.

use super::server::Server;
use super::Case;

const MOST: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(super) time: u64,
    pub(super) amount: i64,
}

impl Server {
    pub(super) fn chunks_left(&self, now: u64) -> i64 {
        let due: i64 = self.chunks.iter().filter(|c| c.time <= now).map(|c| c.amount).sum();
        due - self.used
    }

    /// A chunk completely used comes back one period later; what was overrun waits until the next is due.
    pub(super) fn book_chunks(&mut self, now: u64) {
        while self.chunks[0].time <= now && self.used >= self.chunks[0].amount {
            let Chunk { time, amount } = self.chunks.remove(0);
            self.used -= amount;
            self.put_back(Chunk { time: time + self.period, amount });
        }
    }

    /// Behind those that come back earlier or then.
    fn put_back(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
        self.chunks.sort_by_key(|c| c.time);
    }

    /// Going idle: what was used of the head comes back one period after the head's time, the rest stays.
    pub(super) fn split_chunk(&mut self, now: u64) {
        let Chunk { time, amount } = self.chunks[0];
        if self.used == 0 || time > now {
            return;
        }
        let rest = amount - self.used;
        if self.chunks.len() < MOST {
            self.chunks[0].amount = rest;
        } else {
            self.chunks.remove(0);
            self.chunks[0].amount += rest;
        }
        self.put_back(Chunk { time: time + self.period, amount: self.used });
        self.used = 0;
        self.counts.add(Case::SporadicSplit);
    }

    pub(super) fn wake_chunks(&mut self, now: u64) {
        if self.used > 0 {
            return;
        }
        self.chunks[0].time = self.chunks[0].time.max(now);
        while self.chunks.len() > 1 && self.chunks[1].time <= self.chunks[0].time + self.chunks[0].amount as u64 {
            let next = self.chunks.remove(1);
            self.chunks[0].amount += next.amount;
            self.counts.add(Case::SporadicMerge);
        }
    }

    pub(super) fn set_chunks(&mut self, budget: i64, period: u64, now: u64) {
        let growth = budget - self.budget;
        if growth > 0 {
            let before_first = now < self.first;
            if self.chunks[0].time <= now || before_first || self.chunks.len() == MOST {
                self.chunks[0].amount += growth;
            } else {
                self.chunks.insert(0, Chunk { time: now, amount: growth });
            }
        }
        let mut shrink = (-growth).max(0);
        let mut used = self.used;
        for chunk in &mut self.chunks {
            let unused = (chunk.amount - used).max(0);
            let cut = unused.min(shrink);
            chunk.amount -= cut;
            shrink -= cut;
            used = 0; // only of the head
        }
        self.chunks[0].amount -= shrink;
        self.used -= shrink;
        self.chunks.retain(|c| c.amount > 0);
        (self.budget, self.period) = (budget, period);
        self.book_chunks(now);
    }
}
