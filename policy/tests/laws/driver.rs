//! Drives a pool and its oracle through the same random calls and demands the same answers.

use crate::oracle::{Case, Counts, Spec};
use crate::pair::{least_difference, Call, Pair};
use crate::{reservation, ALL};
use giusto_policy::{Id, Kind, Order, Params, Pool, When};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How the driver behaves.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    pub(crate) cores: usize,
    /// Probability that a decision is late.
    pub(crate) late: f64,
    /// Probability that a running server had less than the whole time.
    pub(crate) steal: f64,
    /// Probability that an event changes or boosts a reservation, adds one or makes it owe, instead of its readiness.
    pub(crate) change: f64,
    /// Mean time between events, in ns.
    pub(crate) calm: u64,
    /// Servers that are always ready, from the first on.
    pub(crate) always_ready: usize,
    pub(crate) length: u64,
}

/// What happened, per ns.
pub(crate) struct Run {
    pub(crate) specs: Vec<Spec>,
    /// For each core, who ran and whether it paid.
    pub(crate) ran: Vec<Vec<Option<(usize, bool)>>>,
    pub(crate) ready: Vec<Vec<bool>>,
    /// Who went idle and when, also if it was ready again at that instant.
    pub(crate) slept: Vec<(usize, usize)>,
    /// The longest time that any decision came after `until`.
    pub(crate) lateness: u64,
    pub(crate) counts: Counts,
}

impl Run {
    fn sums(&self, counts: impl Fn((usize, bool)) -> bool) -> Vec<u64> {
        let mut sums = vec![0; self.ready.len() + 1];
        for core in &self.ran {
            for (t, ran) in core.iter().enumerate() {
                sums[t + 1] += u64::from(ran.is_some_and(&counts));
            }
        }
        for t in 1..sums.len() {
            sums[t] += sums[t - 1];
        }
        sums
    }

    /// Prefix sums of the time that a server had a core.
    pub(crate) fn supplied(&self, server: usize) -> Vec<u64> {
        self.sums(|(i, _)| i == server)
    }

    /// Prefix sums of what a server paid for.
    pub(crate) fn paid(&self, server: usize) -> Vec<u64> {
        self.sums(|(i, pays)| i == server && pays)
    }
}

pub(crate) fn pool_of(order: Order, cores: u32, specs: &[Spec]) -> (Pool, Vec<Id>) {
    let mut pool = Pool::with_cores(order, cores);
    let ids = specs
        .iter()
        .map(|s| {
            let params = Params { budget: s.budget, period: s.period, first: s.first, priority: s.priority };
            pool.add(s.kind, params, 0).unwrap()
        })
        .collect();
    (pool, ids)
}

struct Play<'a> {
    order: Order,
    driver: Driver,
    random: &'a mut ChaCha8Rng,
    pair: Pair,
    calls: Vec<Call>,
    run: Run,
    ready: Vec<bool>,
    /// So many servers at most.
    most: usize,
    /// What each was made to owe.
    owed: Vec<i64>,
}

/// Plays random events; panics with the least calls that make pool and oracle differ or break law 3.
pub(crate) fn play(order: Order, specs: &[Spec], driver: Driver, random: &mut ChaCha8Rng) -> Run {
    let run = Run {
        specs: specs.to_vec(),
        ran: vec![vec![]; driver.cores],
        ready: vec![],
        slept: vec![],
        lateness: 0,
        counts: Counts::default(),
    };
    let pair = Pair::new(order, driver.cores);
    let most = (specs.len() + 4).clamp(10, 1024);
    let mut play = Play { order, driver, random, pair, calls: vec![], run, ready: vec![], most, owed: vec![] };
    for &spec in specs {
        play.call(Call::Add(spec, 0));
        play.ready.push(false);
        play.owed.push(0);
    }
    let (mut now, mut next_event, mut two_periods_late) = (0, 0, false);
    while now < driver.length {
        let on_time = play.pair.until.unwrap_or(u64::MAX).min(next_event).min(driver.length);
        let late = if play.random.random_bool(driver.late) { play.random.random_range(1..=60) } else { 0 };
        let at = on_time + late;
        let lateness = play.pair.until.map_or(0, |until| at.saturating_sub(until));
        play.run.lateness = play.run.lateness.max(lateness);
        two_periods_late |= (0..play.ready.len()).any(|i| {
            play.ready[i] && play.pair.oracle.kind(i) != Kind::Unlimited && lateness >= 2 * play.pair.oracle.params(i).1
        });
        play.pass(now, at);
        now = at;
        if now >= next_event {
            next_event = now + play.random.random_range(0..=2 * driver.calm);
            play.event(now);
        }
        play.call(Call::Decide(now));
        play.no_debt_beyond_the_lateness(now);
    }
    play.run.counts = play.pair.oracle.counts();
    if two_periods_late {
        play.run.counts.add(Case::TwoPeriodsLate);
    }
    play.run
}

impl Play<'_> {
    fn call(&mut self, call: Call) {
        self.calls.push(call);
        if let Err(text) = self.pair.call(call) {
            panic!("{text}\nThe least that differs: {}", least_difference(self.order, self.driver.cores, &self.calls));
        }
    }

    /// Time passes; some of it may be stolen, and some cores may be charged once more in between.
    fn pass(&mut self, now: u64, at: u64) {
        self.run.ready.extend((now..at).map(|_| self.ready.clone()));
        let between = if self.random.random_bool(0.1) { Some(self.random.random_range(now..=at)) } else { None };
        for core in 0..self.driver.cores {
            if let Some(when) = between.filter(|_| self.random.random_bool(0.5)) {
                self.charge(core, when, true);
            }
        }
        for core in 0..self.driver.cores {
            self.charge(core, at, false);
        }
    }

    fn charge(&mut self, core: usize, when: u64, must_call: bool) {
        let running = self.pair.oracle.running(core).map(|i| (i, self.pair.oracle.payer(core).is_some()));
        let record = &mut self.run.ran[core];
        let passed = when - record.len() as u64;
        let steal = self.random.random_bool(self.driver.steal);
        let ran = if steal { self.random.random_range(0..=passed) } else { passed };
        record.extend((0..passed).map(|t| running.filter(|_| t >= passed - ran)));
        // Else it is left to the rule that the uncharged is charged in full.
        if must_call || ran < passed || self.random.random_bool(0.5) {
            self.call(Call::Charge(core, ran, when));
        }
    }

    fn event(&mut self, now: u64) {
        for i in 0..self.driver.always_ready {
            if !self.ready[i] {
                self.wake_or_sleep(i, now);
            }
        }
        for _ in 0..self.random.random_range(1..=self.ready.len().div_ceil(4).max(2)) {
            let i = self.random.random_range(0..self.ready.len());
            if self.pair.oracle.is_gone(i) {
                continue;
            } else if self.random.random_bool(self.driver.change) {
                self.change(i, now);
            } else if i >= self.driver.always_ready {
                self.wake_or_sleep(i, now);
            }
        }
    }

    fn wake_or_sleep(&mut self, i: usize, now: u64) {
        self.ready[i] = !self.ready[i];
        if !self.ready[i] {
            self.run.slept.push((i, now as usize));
        }
        self.call(Call::Ready(i, self.ready[i], now));
    }

    fn change(&mut self, i: usize, now: u64) {
        let new = reservation(self.random, &ALL);
        let (budget, period, priority) = match (self.random.random_range(0..8), self.pair.oracle.params(i)) {
            (0, present) => present,
            (1..=3, (_, period, priority)) => (new.budget.min(period), period, priority),
            _ => (new.budget, new.period, new.priority),
        };
        // How many chunks a call moves is bounded (README.md): after its period shrank, a sporadic server that overran by many
        // is booked over several calls. Only a late driver lets it overrun, or what it owes.
        let overruns = self.driver.late > 0.0 || self.owed[i] > 0;
        let sporadic = self.pair.oracle.kind(i) == Kind::Sporadic && overruns;
        let period = if sporadic { period.max(self.pair.oracle.params(i).1) } else { period };
        match self.random.random_range(0..23) {
            0..8 => self.call(Call::Set(i, budget, period, priority, When::Now, now)),
            8..13 => self.call(Call::Set(i, budget, period, priority, When::NextPeriod, now)),
            13..18 => {
                let until = now + self.random.random_range(0..40);
                self.call(Call::Boost(i, until, now));
            }
            18 => self.call(Call::Boost(i, now, now)),
            19 if i >= self.driver.always_ready => {
                self.call(Call::Remove(i, now));
                self.ready[i] = false;
            }
            20 if self.ready.len() < self.most => {
                self.call(Call::Add(new, now));
                self.run.specs.push(new);
                self.ready.push(false);
                self.owed.push(0);
            }
            // No more than there was time: what is beyond that is not charged.
            21.. => {
                let ran = self.random.random_range(0..12).min(now / 16);
                self.call(Call::Owe(i, ran, now));
                self.owed[i] += ran as i64;
            }
            _ => {}
        }
    }

    /// Law 3: what shrinking took is no debt of the driver's.
    fn no_debt_beyond_the_lateness(&self, now: u64) {
        for (i, &id) in self.pair.ids.iter().enumerate().filter(|&(i, _)| !self.pair.oracle.is_gone(i)) {
            let debt = -self.pair.pool.left_ns(id) - self.pair.oracle.forgiven_ns(i);
            assert!(
                debt <= self.run.lateness as i64 + self.owed[i],
                "server {i} owes {debt} at {now}: {:?}",
                self.calls
            );
        }
    }
}
