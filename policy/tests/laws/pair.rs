//! A pool and its oracle, given the same calls; and what is the least that makes them differ.

use crate::oracle::{Oracle, Spec};
use giusto_policy::{Id, Kind, Order, Params, Pool, When};

/// One call; times are absolute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Add(Spec, u64),
    /// Core, ran, now.
    Charge(usize, u64, u64),
    /// Server, ran, now.
    Owe(usize, u64, u64),
    Ready(usize, bool, u64),
    /// Server, budget, period, priority, when, now.
    Set(usize, u64, u64, u32, When, u64),
    /// Server, until, now.
    Boost(usize, u64, u64),
    /// Server, now.
    Remove(usize, u64),
    Decide(u64),
}

pub(crate) struct Pair {
    pub(crate) pool: Pool,
    pub(crate) ids: Vec<Id>,
    pub(crate) oracle: Oracle,
    cores: usize,
    pub(crate) until: Option<u64>,
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, now: u64, expected: T, got: T) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    Err(format!("{what} at {now}: expected {expected:?} by the text, got {got:?}"))
}

impl Pair {
    pub(crate) fn new(order: Order, cores: usize) -> Pair {
        let pool = Pool::with_cores(order, cores as u32);
        Pair { pool, ids: vec![], oracle: Oracle::new(order, cores), cores, until: Some(0) }
    }

    /// # Errors
    /// Where the two differ.
    pub(crate) fn call(&mut self, call: Call) -> Result<(), String> {
        match call {
            Call::Add(spec, now) => {
                let Spec { kind, budget, period, priority, first } = spec;
                let added = self.pool.add(kind, Params { budget, period, first, priority }, now);
                self.ids.push(added.map_err(|e| format!("{spec:?} at {now}: {e}"))?);
                self.oracle.add(spec, now);
            }
            Call::Charge(core, ran, now) => {
                self.pool.charge(core as u32, ran, now);
                self.oracle.charge(core, ran, now);
            }
            Call::Owe(i, ran, now) => {
                self.pool.owe(self.ids[i], ran, now);
                self.oracle.owe(i, ran, now);
            }
            Call::Ready(i, is_ready, now) => {
                self.pool.ready(self.ids[i], is_ready, now);
                self.oracle.ready(i, is_ready, now);
            }
            Call::Set(i, budget, period, priority, when, now) => {
                let done = self.pool.set(self.ids[i], budget, period, priority, when, now);
                done.map_err(|e| format!("set at {now}: {e}"))?;
                match when {
                    When::Now => self.oracle.set_now(i, budget, period, priority, now),
                    When::NextPeriod => self.oracle.set_next(i, budget, period, now),
                }
            }
            Call::Boost(i, until, now) => {
                let done = self.pool.boost(self.ids[i], until, now).is_ok();
                same("room for a boost", now, self.oracle.boost(i, until, now), done)?;
            }
            Call::Remove(i, now) => {
                let freed = self.pool.remove(self.ids[i], now).map_err(|e| format!("remove at {now}: {e}"))?;
                same("when the bandwidth is free", now, self.oracle.remove(i, now), freed)?;
            }
            Call::Decide(now) => return self.decide(now),
        }
        Ok(())
    }

    fn decide(&mut self, now: u64) -> Result<(), String> {
        let (until, changed) = self.oracle.decide(now);
        self.until = until;
        let mut decision = self.pool.decide(now);
        // More was due than one call books: until all is, none gives way.
        while decision.until == Some(now) && until != Some(now) {
            same("the mask of changed cores before all is booked", now, 0, decision.changed)?;
            decision = self.pool.decide(now);
        }
        let id = |i: Option<usize>| i.map(|i| self.ids[i]);
        for core in 0..self.cores {
            let expected = (id(self.oracle.running(core)), id(self.oracle.payer(core)));
            let got = (self.pool.running(core as u32), self.pool.payer(core as u32));
            same(&format!("who runs on core {core}, and who pays,"), now, expected, got)?;
        }
        for (i, &id) in self.ids.iter().enumerate().filter(|&(i, _)| !self.oracle.is_gone(i)) {
            let got = (self.pool.left_ns(id), self.pool.deadline_ns(id), self.pool.boost_ns(id));
            same(&format!("left, deadline and boost_ns of server {i}"), now, self.oracle.look(i), got)?;
        }
        same("until", now, until, decision.until)?;
        same("the mask of changed cores", now, changed, decision.changed)?;
        self.order(now)?;
        self.idles_only_if_no_server_is_eligible(now)
    }

    /// The whole order is that of the text, and who runs follows from it by walking down.
    fn order(&mut self, now: u64) -> Result<(), String> {
        let got = self.pool.order(usize::MAX);
        let by_text = self.oracle.order();
        let expected: Vec<(Id, bool)> = by_text.iter().map(|&(i, keeps)| (self.ids[i], keeps)).collect();
        same("the order", now, expected, got.iter().map(|place| (place.id, place.keeps_core)).collect())?;
        let (mut cores, mut takes) = (self.cores, vec![]);
        for &(i, keeps) in by_text.iter() {
            let ready = self.oracle.is_ready(i);
            if cores > 0 && ready {
                takes.push(self.ids[i]);
            }
            cores -= usize::from(cores > 0 && (ready || keeps));
        }
        let running = |core| self.pool.running(core as u32);
        let mut runs: Vec<Id> = (0..self.cores).filter_map(running).collect();
        runs.sort_by_key(|id| id.index());
        takes.sort_by_key(|id| id.index());
        same("who runs by the order", now, takes, runs)?;
        let few = self.pool.order(got.len() / 2);
        same("the first half of the order", now, &got[..got.len() / 2], &few)
    }

    /// Law 3: as the pool says it, so this holds whatever the oracle thinks.
    fn idles_only_if_no_server_is_eligible(&self, now: u64) -> Result<(), String> {
        let running: Vec<Id> = (0..self.cores).filter_map(|core| self.pool.running(core as u32)).collect();
        let idle_cores = self.cores - running.len();
        let rank = |i: usize| self.oracle.rank(i, self.pool.deadline_ns(self.ids[i]));
        let has_budget = |i: usize| self.oracle.kind(i) == Kind::Unlimited || self.pool.left_ns(self.ids[i]) > 0;
        let burning = |kind: Kind| (0..self.ids.len()).filter(move |&i| self.oracle.kind(i) == kind && has_budget(i));
        for i in (0..self.ids.len()).filter(|&i| self.oracle.is_ready(i)) {
            let runs = running.contains(&self.ids[i]);
            if runs && !has_budget(i) && !self.oracle.is_boosted(i) {
                let lender = burning(Kind::PeriodicReclaiming).any(|j| !self.oracle.is_ready(j));
                if !lender || self.oracle.kind(i) != Kind::PeriodicReclaiming {
                    return Err(format!("law 3: server {i} without budget runs at {now}"));
                }
            }
            // A core may be kept free only for an idle strict server that goes first.
            let kept = burning(Kind::PeriodicStrict).filter(|&j| !self.oracle.is_ready(j) && rank(j) < rank(i)).count();
            if !runs && (has_budget(i) || self.oracle.is_boosted(i)) && idle_cores > kept {
                return Err(format!("law 3: a core idles although server {i} is eligible at {now}"));
            }
        }
        for (n, id) in running.iter().enumerate() {
            let ready = self.ids.iter().rposition(|x| x == id).is_some_and(|i| self.oracle.is_ready(i));
            if !ready || running[..n].contains(id) {
                return Err(format!("law 3: {id:?} runs idle or on two cores at {now}"));
            }
        }
        Ok(())
    }
}

/// Where these calls make pool and oracle differ first.
fn difference(order: Order, cores: usize, calls: &[Call]) -> Option<(usize, String)> {
    let mut pair = Pair::new(order, cores);
    calls.iter().enumerate().find_map(|(n, &call)| pair.call(call).err().map(|text| (n, text)))
}

/// The call without server i, which the others come before; None: it was about server i.
fn without(call: Call, i: usize) -> Option<Call> {
    let moved = |j: usize| if j == i { None } else { Some(j - usize::from(j > i)) };
    Some(match call {
        Call::Owe(j, ran, now) => Call::Owe(moved(j)?, ran, now),
        Call::Ready(j, is_ready, now) => Call::Ready(moved(j)?, is_ready, now),
        Call::Set(j, budget, period, priority, when, now) => Call::Set(moved(j)?, budget, period, priority, when, now),
        Call::Boost(j, until, now) => Call::Boost(moved(j)?, until, now),
        Call::Remove(j, now) => Call::Remove(moved(j)?, now),
        other => other,
    })
}

/// Leaves out calls and servers as long as pool and oracle still differ in the same way.
pub(crate) fn least_difference(order: Order, cores: usize, calls: &[Call]) -> String {
    let kind = |text: &str| text.split(" at ").next().unwrap_or_default().replace(|c: char| c.is_ascii_digit(), "");
    let mut calls = calls.to_vec();
    let Some((_, mut text)) = difference(order, cores, &calls) else { return "it does not come again".into() };
    let mut shrunk = true;
    while shrunk {
        shrunk = false;
        for n in (0..calls.len()).rev() {
            let earlier = &calls[..n.min(calls.len())];
            let server = earlier.iter().filter(|call| matches!(call, Call::Add(..))).count();
            let fewer: Vec<Call> = match calls.get(n) {
                None => continue,
                Some(Call::Add(..)) => {
                    let rest = calls[n + 1..].iter().filter_map(|&call| without(call, server));
                    earlier.iter().copied().chain(rest).collect()
                }
                // A decision goes with what it decides about.
                Some(Call::Decide(_)) => {
                    let begin = earlier.iter().rposition(|c| matches!(c, Call::Add(..) | Call::Decide(_)));
                    [&calls[..begin.map_or(0, |n| n + 1)], &calls[n + 1..]].concat()
                }
                Some(_) => [earlier, &calls[n + 1..]].concat(),
            };
            if let Some((end, again)) = difference(order, cores, &fewer).filter(|(_, again)| kind(again) == kind(&text))
            {
                calls = fewer[..=end].to_vec();
                (text, shrunk) = (again, true);
            }
        }
    }
    let lines: Vec<String> = calls.iter().map(|call| format!("  {call:?}\n")).collect();
    format!("{text}\n{order:?}, {cores} cores\n{}", lines.concat())
}
