//! Drives a pool and its oracle through the same random events and demands the same answers.

use crate::oracle::{Counts, Oracle, Spec};
use giusto_policy::{Id, Kind, Order, Params, Pool};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// How the driver behaves.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    /// Probability that a decision is late.
    pub(crate) late: f64,
    /// Probability that the running server had less than the whole time.
    pub(crate) steal: f64,
    /// Mean time between changes of readiness, in ns.
    pub(crate) calm: u64,
    /// Servers that are always ready, from the first on.
    pub(crate) always_ready: usize,
    pub(crate) length: u64,
}

/// What happened, per ns.
pub(crate) struct Run {
    pub(crate) specs: Vec<Spec>,
    pub(crate) ran: Vec<Option<usize>>,
    pub(crate) ready: Vec<Vec<bool>>,
    /// The longest time that any decision came after `until`.
    pub(crate) lateness: u64,
    pub(crate) counts: Counts,
}

impl Run {
    /// Prefix sums of a server's consumption.
    pub(crate) fn consumed(&self, server: usize) -> Vec<u64> {
        let mut sums = vec![0];
        for ran in &self.ran {
            sums.push(sums[sums.len() - 1] + u64::from(*ran == Some(server)));
        }
        sums
    }
}

pub(crate) fn pool_of(order: Order, specs: &[Spec]) -> (Pool, Vec<Id>) {
    let mut pool = Pool::new(order);
    let ids = specs
        .iter()
        .map(|s| {
            let params = Params { budget: s.budget, period: s.period, first: s.first, priority: s.priority };
            pool.add(s.kind, params, 0).unwrap()
        })
        .collect();
    (pool, ids)
}

/// Plays random events; panics where pool and oracle differ, or the core idles although somebody is eligible (law 3).
pub(crate) fn play(order: Order, specs: &[Spec], driver: Driver, random: &mut ChaCha8Rng) -> Run {
    let (mut pool, ids) = pool_of(order, specs);
    let mut oracle = Oracle::new(order, specs);
    let mut run = Run { specs: specs.to_vec(), ran: vec![], ready: vec![], lateness: 0, counts: Counts::default() };
    let mut ready = vec![false; specs.len()];
    let (mut now, mut until, mut before) = (0, Some(0), None);
    let (mut next_change, mut late_two_periods) = (0, 0);
    while now < driver.length {
        let on_time = until.unwrap_or(u64::MAX).min(next_change).min(driver.length);
        let late = if random.random_bool(driver.late) { random.random_range(1..=60) } else { 0 };
        let at = on_time + late;
        run.lateness = run.lateness.max(at.saturating_sub(until.unwrap_or(at)));
        let misses_two = |(s, &ready): (&Spec, &bool)| ready && s.kind != Kind::Unlimited && late >= 2 * s.period;
        late_two_periods += u32::from(until == Some(on_time) && specs.iter().zip(&ready).any(misses_two));
        let ran = if random.random_bool(driver.steal) { random.random_range(0..=at - now) } else { at - now };
        for t in now..at {
            run.ran.push(before.filter(|_| t >= at - ran));
            run.ready.push(ready.clone());
        }
        let all = ran == at - now;
        now = at;
        oracle.walk(now, ran);
        if !all || random.random_bool(0.5) {
            pool.charge(ran, now); // else left to the rule that the uncharged is charged in full
        }
        if now >= next_change {
            next_change = now + random.random_range(0..=2 * driver.calm);
            let server = random.random_range(0..specs.len());
            ready[server] = !ready[server];
            for (i, ready) in ready.iter_mut().enumerate() {
                *ready |= i < driver.always_ready;
                if i == server || i < driver.always_ready {
                    pool.ready(ids[i], *ready, now);
                    oracle.ready(i, *ready);
                }
            }
        }
        let (who, when) = oracle.decide();
        let decision = pool.decide(now);
        assert_eq!(pool.running(), who.map(|i| ids[i]), "who runs at {now} of {specs:?}");
        assert_eq!(decision.until, when, "until when at {now} of {specs:?}");
        assert_eq!(decision.changed, who != before, "changed at {now}");
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!((pool.left_ns(id), pool.deadline_ns(id)), oracle.look(i), "server {i} at {now} of {specs:?}");
            assert!(pool.left_ns(id) >= -(run.lateness as i64), "debt beyond the lateness at {now}");
            assert!(who.is_some() || !oracle.is_eligible(i), "law 3: idle although server {i} is eligible at {now}");
        }
        assert!(who.is_none_or(|i| oracle.is_eligible(i)), "law 3: a server without budget or work runs at {now}");
        (until, before) = (when, who);
    }
    run.counts = Counts { late_two_periods, ..oracle.counts };
    run
}
