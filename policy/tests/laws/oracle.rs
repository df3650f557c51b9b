//! The policies told in words and walked nanosecond by nanosecond: slow, small numbers, its own data structures.

mod choose;
mod server;
mod sporadic;

use giusto_policy::{Kind, Order};
use server::Server;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) budget: u64,
    pub(crate) period: u64,
    pub(crate) priority: u32,
    pub(crate) first: u64,
}

/// The cases that random runs must meet.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Depletion,
    Debt,
    TwoPeriodsLate,
    Boost,
    BoostedWithoutBudget,
    SetNow,
    Forgive,
    NextPeriod,
    StrictBurner,
    ConservingBurner,
    ReclaimingBurner,
    LentToPayer,
    LentWithoutPaying,
    LentWithoutBudget,
    SporadicSplit,
    SporadicMerge,
    PollingLoss,
    PastDeadline,
    Renewed,
    Removed,
    SlotTaken,
    VacatedCore,
    Owed,
}

pub(crate) const CASES: [&str; 23] = [
    "depletion",
    "debt",
    "lateness of 2 periods",
    "boost",
    "boosted without budget",
    "set NOW",
    "forgive",
    "NEXT_PERIOD taken",
    "strict burner",
    "conserving burner",
    "reclaiming burner",
    "lent to a payer",
    "lent without paying",
    "lent to one without budget",
    "sporadic split",
    "sporadic merge",
    "polling loss",
    "CBS out of budget past its deadline",
    "CBS renewed by the wake-up rule",
    "removed",
    "a removed server's slot taken",
    "removed from its core",
    "owed",
];

/// How often each case occurred.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts(pub(crate) [u32; CASES.len()]);

impl Counts {
    pub(crate) fn add(&mut self, case: Case) {
        self.0[case as usize] += 1;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    /// Who runs, and whether it pays for itself.
    runs: Option<(usize, bool)>,
    charged_at: u64,
}

/// An idle server whose budget burns by the wall, until its next replenishment at most.
#[derive(Clone, Copy, Debug)]
struct Burner {
    server: usize,
    end: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    order: Order,
    now: u64,
    servers: Vec<Server>,
    cores: Vec<Core>,
    burners: Vec<Burner>,
    /// Who runs on a burner's core, in the order of the burners.
    lent: Vec<usize>,
    /// In the order in which they were boosted.
    boosted: Vec<usize>,
    /// The slot that was freed last comes last.
    free: Vec<usize>,
    /// Cores whose server was removed since the last decision.
    vacated: Vec<usize>,
    counts: Counts,
}

impl Oracle {
    pub(crate) fn new(order: Order, cores: usize) -> Oracle {
        Oracle {
            order,
            now: 0,
            servers: vec![],
            cores: vec![Core::default(); cores],
            burners: vec![],
            lent: vec![],
            boosted: vec![],
            free: vec![],
            vacated: vec![],
            counts: Counts::default(),
        }
    }

    pub(crate) fn add(&mut self, spec: Spec, now: u64) {
        self.charge_all(now);
        let used = self.servers.iter().map(|s| s.slot + 1).max().unwrap_or(0);
        if !self.free.is_empty() {
            self.counts.add(Case::SlotTaken);
        }
        let slot = self.free.pop().unwrap_or(used);
        self.servers.push(Server::new(spec, slot, now));
    }

    /// The server on `core` ran in the last `ran` ns of the time since the core was charged.
    pub(crate) fn charge(&mut self, core: usize, ran: u64, now: u64) {
        self.burn(now);
        let Core { runs, charged_at } = self.cores[core];
        let begin = now - ran.min(now - charged_at);
        self.cores[core].charged_at = now;
        if let Some((server, true)) = runs {
            self.servers[server].walk(begin, now);
        }
    }

    /// Time that was not charged is charged in full.
    fn charge_all(&mut self, now: u64) {
        self.burn(now);
        for core in 0..self.cores.len() {
            self.charge(core, u64::MAX, now);
        }
    }

    fn burn(&mut self, now: u64) {
        while self.now < now {
            for burner in &self.burners {
                let s = &mut self.servers[burner.server];
                if self.now < burner.end && !s.ready {
                    s.burn();
                }
            }
            self.now += 1;
        }
    }

    pub(crate) fn ready(&mut self, index: usize, is_ready: bool, now: u64) {
        self.charge_all(now);
        self.servers[index].set_ready(is_ready, now);
    }

    /// It had `ran` besides what its core is charged for.
    pub(crate) fn owe(&mut self, index: usize, ran: u64, now: u64) {
        self.charge_all(now);
        self.servers[index].owe(ran, now);
    }

    /// From when on its bandwidth is free.
    pub(crate) fn remove(&mut self, index: usize, now: u64) -> u64 {
        self.charge_all(now);
        self.counts.add(Case::Removed);
        self.boosted.retain(|&b| b != index);
        self.burners.retain(|burner| burner.server != index);
        for core in 0..self.cores.len() {
            if self.running(core) == Some(index) {
                self.cores[core].runs = None;
                self.vacated.push(core);
                self.counts.add(Case::VacatedCore);
            }
        }
        self.free.push(self.servers[index].slot);
        self.servers[index].leave(now)
    }

    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.servers[index].gone
    }

    pub(crate) fn set_now(&mut self, index: usize, budget: u64, period: u64, priority: u32, now: u64) {
        self.charge_all(now);
        self.servers[index].set_now(budget as i64, period, priority, now);
    }

    pub(crate) fn set_next(&mut self, index: usize, budget: u64, period: u64, now: u64) {
        self.charge_all(now);
        self.servers[index].set_next(budget as i64, period, now);
    }

    /// Whether there was room; refused, it books nothing.
    pub(crate) fn boost(&mut self, index: usize, until: u64, now: u64) -> bool {
        self.charge_all(now);
        if until > now && !self.boosted.contains(&index) && self.boosted.len() == self.cores.len() {
            return false;
        }
        self.servers[index].settle(now);
        if until <= now {
            self.boosted.retain(|&b| b != index);
            self.servers[index].boosted = None;
            return true;
        }
        if !self.boosted.contains(&index) {
            self.boosted.push(index);
        }
        self.servers[index].boosted = Some(until);
        true
    }

    /// (left, deadline, boost_ns) as a look at the present time returns them.
    pub(crate) fn look(&self, index: usize) -> (i64, u64, u64) {
        let mut s = self.servers[index].clone();
        s.book(self.now);
        (s.left(self.now), s.deadline(), s.boost_ns)
    }

    pub(crate) fn running(&self, core: usize) -> Option<usize> {
        self.cores[core].runs.map(|(server, _)| server)
    }

    pub(crate) fn payer(&self, core: usize) -> Option<usize> {
        self.cores[core].runs.filter(|(_, pays)| *pays).map(|(server, _)| server)
    }

    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.servers[index].ready
    }

    pub(crate) fn is_boosted(&self, index: usize) -> bool {
        self.servers[index].boosted.is_some()
    }

    /// The smaller goes first, if its deadline is this.
    pub(crate) fn rank(&self, index: usize, deadline: u64) -> (u64, usize) {
        match self.order {
            Order::FixedPriority => (u64::from(self.servers[index].priority), self.servers[index].slot),
            Order::Edf | Order::MixedCriticality => (deadline, self.servers[index].slot),
        }
    }

    pub(crate) fn kind(&self, index: usize) -> Kind {
        self.servers[index].kind
    }

    pub(crate) fn params(&self, index: usize) -> (u64, u64, u32) {
        let s = &self.servers[index];
        (s.budget as u64, s.period, s.priority)
    }

    /// Budget below 0 that shrinking made, not consumption.
    pub(crate) fn forgiven_ns(&self, index: usize) -> i64 {
        self.servers[index].forgive
    }

    /// Over all servers.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = self.counts;
        for s in &self.servers {
            for (sum, n) in sum.0.iter_mut().zip(s.counts.0) {
                *sum += n;
            }
        }
        sum
    }
}
