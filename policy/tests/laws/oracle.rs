//! The policies told in words and walked nanosecond by nanosecond: slow, small numbers, its own data structures.

use giusto_policy::{Kind, Order};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) budget: u64,
    pub(crate) period: u64,
    pub(crate) priority: u32,
    pub(crate) first: u64,
}

/// How often the interesting cases occurred.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) depletions: u32,
    pub(crate) debts: u32,
    pub(crate) reanchors: u32,
    pub(crate) late_two_periods: u32,
    pub(crate) replenished_past_deadline: u32,
}

#[derive(Clone, Debug)]
struct Server {
    spec: Spec,
    ready: bool,
    left: i64,
    deadline: u64,
}

impl Server {
    fn budget(&self) -> i64 {
        self.spec.budget as i64
    }

    /// One period's end: a budget comes, at most one is kept, debt is repaid first.
    fn one_budget(&mut self) {
        self.left = (self.left + self.budget()).min(self.budget());
        self.deadline += self.spec.period;
    }

    /// All that ended by now, if a constant bandwidth server is depleted at or after its deadline.
    fn settle_cbs(&mut self, now: u64) {
        if self.spec.kind == Kind::ConstantBandwidth && self.left <= 0 {
            while self.deadline <= now {
                self.one_budget();
            }
        }
    }

    fn eligible(&self) -> bool {
        self.ready && (self.spec.kind == Kind::Unlimited || self.left > 0)
    }
}

#[derive(Clone)]
pub(crate) struct Oracle {
    order: Order,
    now: u64,
    pub(crate) running: Option<usize>,
    servers: Vec<Server>,
    pub(crate) counts: Counts,
}

impl Oracle {
    /// All servers are there from time 0.
    pub(crate) fn new(order: Order, specs: &[Spec]) -> Oracle {
        let servers = specs.iter().map(|&spec| {
            let unlimited = spec.kind == Kind::Unlimited;
            let (left, deadline) = match spec.first {
                _ if unlimited => (0, u64::MAX),
                0 => (spec.budget as i64, spec.period),
                first => (0, first),
            };
            Server { spec, ready: false, left, deadline }
        });
        Oracle { order, now: 0, running: None, servers: servers.collect(), counts: Counts::default() }
    }

    /// Walks to `to`; the running server has the processor in the last `ran` ns of it.
    pub(crate) fn walk(&mut self, to: u64, ran: u64) {
        let begin = to - ran;
        let mut may_run_out = false;
        // The last end of a period on the running server's way, if it is past its deadline by then.
        let last_end = |s: &Server| s.deadline + (to - s.deadline) / s.spec.period * s.spec.period;
        loop {
            // The grid: at the end of each period, idle or not, late or not.
            for s in &mut self.servers {
                if s.spec.kind == Kind::Deferrable && s.deadline == self.now {
                    s.one_budget();
                }
            }
            if let Some(i) = self.running {
                let s = &mut self.servers[i];
                if self.now == begin {
                    s.settle_cbs(begin);
                    may_run_out = s.left > 0;
                } else if s.spec.kind == Kind::ConstantBandwidth && self.now > begin && self.now >= s.deadline {
                    if may_run_out && s.left <= 0 && self.now < to {
                        // Its budget ran out past its deadline: a new one from that instant.
                        s.settle_cbs(self.now);
                        self.counts.replenished_past_deadline += 1;
                        may_run_out = false;
                    } else if self.now == last_end(s) {
                        s.settle_cbs(self.now);
                    }
                }
                if s.left <= 0 && s.deadline > self.now {
                    may_run_out = false; // it ran out before its deadline
                }
            }
            if self.now == to {
                if let Some(i) = self.running {
                    self.servers[i].settle_cbs(to);
                }
                return;
            }
            if let Some(s) = self.running.filter(|_| self.now >= begin).map(|i| &mut self.servers[i]) {
                if s.spec.kind != Kind::Unlimited {
                    s.left -= 1;
                    self.counts.depletions += u32::from(s.left == 0);
                    self.counts.debts += u32::from(s.left == -1);
                }
            }
            self.now += 1;
        }
    }

    pub(crate) fn ready(&mut self, index: usize, is_ready: bool) {
        let now = self.now;
        let s = &mut self.servers[index];
        if !is_ready || s.ready {
            s.ready = is_ready;
            return;
        }
        s.ready = true;
        s.settle_cbs(now);
        if s.spec.kind != Kind::ConstantBandwidth || s.left <= 0 {
            return;
        }
        // left / (deadline - now) > B / P, or no time left to use it in
        let exceeds = s.deadline <= now
            || (s.left as u128) * u128::from(s.spec.period) > u128::from(s.deadline - now) * u128::from(s.spec.budget);
        if exceeds {
            s.left = s.budget();
            s.deadline = now + s.spec.period;
            self.counts.reanchors += 1;
        }
    }

    /// Who runs and until when.
    pub(crate) fn decide(&mut self) -> (Option<usize>, Option<u64>) {
        let now = self.now;
        for s in self.servers.iter_mut().filter(|s| s.ready) {
            s.settle_cbs(now);
        }
        let mut candidates: Vec<usize> = (0..self.servers.len()).filter(|&i| self.servers[i].eligible()).collect();
        candidates.sort_by_key(|&i| match self.order {
            Order::FixedPriority => (u64::from(self.servers[i].spec.priority), i),
            Order::Edf => (self.servers[i].deadline, i),
        });
        self.running = candidates.first().copied();
        (self.running, self.next_event())
    }

    /// The first instant at which the runner's budget ends or a ready server is replenished.
    fn next_event(&self) -> Option<u64> {
        let bounded = self.servers.iter().filter(|s| s.spec.kind != Kind::Unlimited);
        let farthest = bounded.map(|s| s.deadline.max(self.now) + s.spec.period).max()?;
        (self.now + 1..=farthest).find(|&t| {
            let budget_ends = self.running.is_some_and(|i| {
                let s = &self.servers[i];
                s.spec.kind != Kind::Unlimited && s.left - (t - self.now) as i64 <= 0
            });
            budget_ends
                || self.servers.iter().any(|s| match s.spec.kind {
                    Kind::Deferrable => s.ready && t == s.deadline,
                    Kind::ConstantBandwidth => s.ready && s.left <= 0 && t == s.deadline,
                    Kind::Unlimited => false,
                })
        })
    }

    /// (left, deadline) as somebody who looks now sees them.
    pub(crate) fn look(&self, index: usize) -> (i64, u64) {
        let mut s = self.servers[index].clone();
        s.settle_cbs(self.now);
        (s.left, s.deadline)
    }

    pub(crate) fn is_eligible(&self, index: usize) -> bool {
        self.servers[index].eligible()
    }
}
