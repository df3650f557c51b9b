//! One server's budget.

use super::sporadic::Chunk;
use super::{Case, Counts, Spec};
use giusto_policy::Kind;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(super) kind: Kind,
    pub(super) budget: i64,
    pub(super) period: u64,
    pub(super) priority: u32,
    pub(super) first: u64,
    pub(super) ready: bool,
    /// Of grid kinds and CBS.
    left: i64,
    /// The next replenishment of grid kinds, the deadline of CBS.
    deadline: u64,
    /// Whether the first replenishment has come.
    begun: bool,
    pub(super) forgive: i64,
    pub(super) pending: Option<(i64, u64)>,
    /// Of a polling server: the budget that it lost when it went idle, and when.
    lost: (i64, u64),
    /// Of a sporadic server, whose deadline moves on with its head: the deadline when the change was asked for.
    pub(super) pending_at: u64,
    pub(super) boosted: Option<u64>,
    pub(super) boost_ns: u64,
    pub(super) chunks: Vec<Chunk>,
    /// Consumed of the first chunk.
    pub(super) used: i64,
    /// Its place among equals.
    pub(super) slot: usize,
    pub(super) gone: bool,
    pub(super) counts: Counts,
}

impl Server {
    pub(super) fn new(spec: Spec, slot: usize, now: u64) -> Server {
        let Spec { kind, budget, period, priority, first } = spec;
        let first = if first == 0 { now } else { first };
        let mut s = Server {
            kind,
            budget: budget as i64,
            period,
            priority,
            first,
            ready: false,
            left: 0,
            deadline: first,
            begun: false,
            forgive: 0,
            pending: None,
            pending_at: 0,
            lost: (0, u64::MAX),
            boosted: None,
            boost_ns: 0,
            chunks: vec![Chunk { time: first, amount: budget as i64 }],
            used: 0,
            slot,
            gone: false,
            counts: Counts::default(),
        };
        s.book(now);
        s
    }

    pub(super) fn is_grid(&self) -> bool {
        self.is_periodic() || matches!(self.kind, Kind::Polling | Kind::Deferrable)
    }

    pub(super) fn is_periodic(&self) -> bool {
        matches!(self.kind, Kind::PeriodicStrict | Kind::PeriodicConserving | Kind::PeriodicReclaiming)
    }

    pub(super) fn left(&self, now: u64) -> i64 {
        match self.kind {
            Kind::Unlimited => 0,
            Kind::Sporadic => self.chunks_left(now),
            _ => self.left,
        }
    }

    pub(super) fn has_budget(&self, now: u64) -> bool {
        self.kind == Kind::Unlimited || self.left(now) > 0
    }

    pub(super) fn deadline(&self) -> u64 {
        match self.kind {
            Kind::Unlimited => u64::MAX,
            Kind::Sporadic => self.chunks[0].time + self.period,
            _ => self.deadline,
        }
    }

    /// The end of one period: a budget comes, debt is repaid first, at most one budget is kept.
    fn replenish(&mut self) {
        if let Some((budget, period)) = self.pending.take() {
            (self.budget, self.period) = (budget, period);
            self.counts.add(Case::NextPeriod);
        }
        let most = if self.kind == Kind::Polling && !self.ready { 0 } else { self.budget };
        self.left = (self.left + self.forgive + self.budget).min(most);
        self.forgive = 0;
        self.deadline += self.period;
        self.begun = true;
    }

    /// All that is due by now.
    pub(super) fn book(&mut self, now: u64) {
        match self.kind {
            Kind::Unlimited => {}
            Kind::Sporadic => self.book_chunks(now),
            // With budget left it keeps budget and deadline, unless a change of its parameters waits for the deadline.
            Kind::ConstantBandwidth => {
                if self.left <= 0 || self.pending.is_some() {
                    while self.deadline <= now {
                        self.replenish();
                    }
                }
            }
            // One that is idle may still become ready at this very instant.
            Kind::Polling if !self.ready => self.book_before(now),
            _ => self.book_grid(now),
        }
    }

    /// All that is due by now, and the change of parameters that waited for it: it forces the replenishment of an idle
    /// polling server too; a sporadic server takes it as NOW.
    pub(super) fn settle(&mut self, now: u64) {
        if self.kind == Kind::Polling && !self.ready && self.pending.is_some() && self.deadline <= now {
            self.book_before(now);
            let (left, due) = (self.left + self.forgive, self.deadline == now);
            self.book_grid(now);
            if due {
                self.lost = ((left + self.budget).min(self.budget) - self.left, now);
            }
        }
        self.book(now);
        if self.kind == Kind::Sporadic && self.pending_at <= now {
            if let Some((budget, period)) = self.pending.take() {
                self.counts.add(Case::NextPeriod);
                self.set_chunks(budget, period, now);
            }
        }
    }

    fn book_grid(&mut self, now: u64) {
        while self.deadline <= now {
            self.replenish();
        }
    }

    /// All that was due before now: what falls on this very instant waits for whether the server is ready then.
    fn book_before(&mut self, now: u64) {
        if now > 0 {
            self.book_grid(now - 1);
        }
    }

    /// It runs from `begin` to `end` and pays.
    pub(super) fn walk(&mut self, begin: u64, end: u64) {
        for now in begin..end {
            self.book(now);
            self.consume(now);
        }
        if self.kind == Kind::ConstantBandwidth && begin < end {
            self.book(end); // out of budget past its deadline, it has a new one from that instant
        }
    }

    /// One ns from now on.
    fn consume(&mut self, now: u64) {
        if self.boosted.is_some() && !self.has_budget(now) {
            self.boost_ns += 1;
            self.counts.add(Case::BoostedWithoutBudget);
            return;
        }
        match self.kind {
            Kind::Unlimited => return,
            Kind::Sporadic => self.used += 1,
            _ => self.left -= 1,
        }
        match self.left(now) {
            0 => self.counts.add(Case::Depletion),
            -1 => self.counts.add(Case::Debt),
            _ => {}
        }
        if self.kind == Kind::ConstantBandwidth && self.left == 0 && self.deadline < now {
            self.counts.add(Case::PastDeadline);
        }
    }

    /// Pays `ran` at this instant, ns by ns: boosted, only what it has.
    pub(super) fn owe(&mut self, ran: u64, now: u64) {
        if self.kind == Kind::Unlimited {
            return;
        }
        self.settle(now);
        for _ in 0..ran {
            match self.kind {
                // What it may yet have at this instant goes first.
                Kind::Polling if !self.ready && self.lost.1 == now && self.lost.0 > 0 => self.lost.0 -= 1,
                _ => self.consume(now),
            }
        }
        self.settle(now);
        self.counts.add(Case::Owed);
    }

    pub(super) fn burn(&mut self) {
        self.left -= i64::from(self.left > 0);
    }

    pub(super) fn set_ready(&mut self, is_ready: bool, now: u64) {
        if self.ready == is_ready {
            return;
        }
        match self.kind {
            Kind::Polling if is_ready => self.book_before(now),
            Kind::Polling => self.book_grid(now),
            Kind::Sporadic if is_ready => self.settle(now),
            Kind::Sporadic => self.book_chunks(now),
            _ => {}
        }
        self.ready = is_ready;
        match self.kind {
            Kind::Polling if !is_ready && self.left > 0 => {
                if self.deadline == now + self.period {
                    self.lost = (self.left, now);
                }
                self.left = 0;
                self.counts.add(Case::PollingLoss);
            }
            // It is ready again at the very instant of a replenishment.
            Kind::Polling if is_ready && self.lost.1 == now => self.left += std::mem::take(&mut self.lost).0,
            Kind::Polling if is_ready => self.book_grid(now),
            Kind::Sporadic if is_ready => self.wake_chunks(now),
            Kind::Sporadic => self.split_chunk(now),
            Kind::ConstantBandwidth if is_ready => {
                self.book(now);
                self.wake_up_rule(now);
            }
            _ => {}
        }
    }

    /// With budget left: is left / (deadline - now) > B / P, or no time left to use it in, then a new period begins.
    fn wake_up_rule(&mut self, now: u64) {
        let exceeds = self.deadline <= now
            || i128::from(self.left) * i128::from(self.period)
                > i128::from(self.deadline - now) * i128::from(self.budget);
        if self.left > 0 && exceeds {
            self.left = self.budget;
            self.deadline = now + self.period;
            self.counts.add(Case::Renewed);
        }
    }

    /// Whether nothing would change.
    fn is_present(&self, budget: i64, period: u64) -> bool {
        self.kind == Kind::Unlimited || (self.pending.is_none() && (budget, period) == (self.budget, self.period))
    }

    pub(super) fn set_now(&mut self, budget: i64, period: u64, priority: u32, now: u64) {
        if self.is_present(budget, period) && priority == self.priority {
            return;
        }
        self.priority = priority;
        self.settle(now);
        self.pending = None;
        if self.is_present(budget, period) {
            return;
        }
        self.counts.add(Case::SetNow);
        if self.kind == Kind::Sporadic {
            self.set_chunks(budget, period, now);
            return;
        }
        if self.kind == Kind::Polling && !self.ready && self.lost.1 == now {
            self.left += self.lost.0; // it may be ready again at this instant: the change is of what it would have
        }
        if self.begun {
            let growth = budget - self.budget;
            self.left += growth;
            if growth < 0 {
                let negative_by_this = (-growth).min((-self.left).max(0));
                self.forgive += negative_by_this;
                if negative_by_this > 0 {
                    self.counts.add(Case::Forgive);
                }
            } else {
                self.forgive -= self.forgive.min(growth);
            }
            if self.kind == Kind::Polling && !self.ready {
                self.lost.0 = self.left.max(0);
                self.left = self.left.min(0);
            }
            if self.is_grid() && period != self.period {
                self.deadline = now + period;
            }
        }
        (self.budget, self.period) = (budget, period);
        if self.kind == Kind::ConstantBandwidth && self.ready {
            self.wake_up_rule(now);
        }
    }

    /// Leaves; from when on it would have had a full budget in a new period, had it stayed and slept.
    pub(super) fn leave(&mut self, now: u64) -> u64 {
        self.settle(now);
        let (mut debt, mut free) = match self.kind {
            Kind::Unlimited => (0, now),
            // All of the first chunk that was used comes back a period later, as much as a budget each period.
            Kind::Sporadic => (self.used, self.chunks[0].time),
            _ => (-(self.left + self.forgive), self.deadline),
        };
        while debt > 0 {
            (debt, free) = (debt - self.budget, free + self.period);
        }
        if self.kind == Kind::Sporadic {
            free = self.chunks.iter().map(|chunk| chunk.time).fold(free, u64::max);
        }
        let begun = if self.kind == Kind::Sporadic { self.first <= now } else { self.begun };
        // What is gone is as one that never wants to run.
        (self.kind, self.ready, self.gone) = (Kind::Unlimited, false, true);
        (self.pending, self.boosted) = (None, None);
        if begun {
            free.max(now)
        } else {
            now
        }
    }

    pub(super) fn set_next(&mut self, budget: i64, period: u64, now: u64) {
        if self.is_present(budget, period) {
            return;
        }
        // Idle and past its deadline, with budget or without: the next period begins there.
        if self.kind == Kind::ConstantBandwidth && !self.ready && self.pending.is_none() {
            self.pending = Some((budget, period));
        }
        self.settle(now);
        self.pending_at = self.deadline();
        self.pending = Some((budget, period)).filter(|&new| new != (self.budget, self.period));
        if !self.ready && matches!(self.kind, Kind::Sporadic | Kind::ConstantBandwidth) {
            self.settle(now); // idle and past the deadline: at once
        }
    }
}
